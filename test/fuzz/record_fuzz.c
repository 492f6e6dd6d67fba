/* The decoders of records, their metadata and group headers on arbitrary bytes.

   The first byte chooses: bit 0 mends the CRCs first, so that mutations get past them; bit 1 takes a
   group header instead of a record. Properties beside not reading outside: parts lie inside the bytes,
   a request for more is for more and bounded, and encoding what was decoded gives the same bytes. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <shoal/error.h>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "store/meta.h"
#include "store/record.h"

#define OFFSET 4096u

static const struct crc_seed seed = {.segment_id = 7, .epoch = 3};

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

static uint32_t start_crc(void)
{
    uint8_t bytes[24];

    put_u64(bytes, seed.segment_id);
    put_u64(bytes + 8, seed.epoch);
    put_u64(bytes + 16, OFFSET);
    return crc32c(0, bytes, sizeof(bytes));
}

/* The CRC lies at 4 and covers all else of the first `covered` bytes. */
static void mend(uint8_t *at, size_t covered)
{
    put_u32(at + 4, crc32c(crc32c(start_crc(), at, 4), at + 8, covered - 8));
}

static void mend_record(uint8_t *at, size_t size)
{
    uint32_t data_length, table_bytes;
    size_t table_at;

    if (size < RECORD_HEADER_BYTES)
        return;
    data_length = get_u32(at + 24);
    table_bytes = data_length <= RECORD_DATA_MAX ? 4 * record_blocks(data_length) : 0;
    table_at = RECORD_HEADER_BYTES + (at[3] & 1 ? RECORD_PREV_BYTES : 0) + at[30] +
               get_u16(at + 28) + get_u16(at + 32);
    if (table_at + table_bytes > size)
        return;
    if (table_bytes > 0)
        put_u32(at + 36, crc32c(0, at + table_at, table_bytes));
    mend(at, table_at + table_bytes);
}

static void lies_inside(const void *part, size_t length, const uint8_t *at, size_t size)
{
    const uint8_t *start = part;

    assert(start >= at && start <= at + size && length <= (size_t)(at + size - start));
}

static void encodes_to_the_same(const struct record *record, const uint8_t *at)
{
    uint8_t *copy = malloc((size_t)record_slots(record) * SLOT_BYTES);

    assert(copy != NULL);
    record_encode(record, seed, OFFSET, copy);
    assert(memcmp(copy, at, record_bytes(record)) == 0);
    free(copy);
}

static void try_record(const uint8_t *at, size_t size)
{
    struct object_meta meta;
    struct record record;
    int rc = record_decode(at, size, seed, OFFSET, &record);

    if (rc > 0)
        assert((size_t)rc > size && (size_t)rc <= RECORD_HEAD_MAX);
    if (rc != 0) {
        assert(rc > 0 || rc == SHOAL_E_CORRUPT);
        return;
    }
    assert(record_head_bytes(&record) <= size);
    lies_inside(record.key.bucket, record.key.bucket_length, at, size);
    lies_inside(record.key.bytes, record.key.length, at, size);
    lies_inside(record.meta, record.meta_length, at, size);
    if (record.crc_table != NULL)
        lies_inside(record.crc_table, 4 * record_blocks(record.data_length), at, size);
    if (meta_decode(record.meta, record.meta_length, &meta) == 0 && meta.content_type_length > 0)
        lies_inside(meta.content_type, meta.content_type_length, at, size);
    if (record.data == NULL)
        return;
    lies_inside(record.data, record.data_length, at, size);
    (void)record_payload_valid(&record); /* either way is right */
    encodes_to_the_same(&record, at);
}

static void try_group(const uint8_t *at, size_t size)
{
    struct group_header header;
    uint8_t copy[GROUP_HEADER_BYTES];

    if (size < GROUP_HEADER_BYTES || group_decode(at, seed, OFFSET, &header) != 0)
        return;
    assert(header.records > 0 && header.length > GROUP_HEADER_BYTES);
    group_encode(&header, seed, OFFSET, copy);
    /* The rest is padding, which walking checks. */
    assert(memcmp(copy + 8, at + 8, 32) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    uint8_t *at;

    if (size < 1)
        return 0;
    /* In a block of exactly its size, so that a sanitizer sees the first byte beyond. */
    at = malloc(size - 1 > 0 ? size - 1 : 1);
    assert(at != NULL);
    memcpy(at, input + 1, size - 1);
    if (input[0] & 2) {
        if (input[0] & 1 && size - 1 >= GROUP_HEADER_BYTES)
            mend(at, GROUP_HEADER_BYTES);
        try_group(at, size - 1);
    } else {
        if (input[0] & 1)
            mend_record(at, size - 1);
        try_record(at, size - 1);
    }
    free(at);
    return 0;
}
