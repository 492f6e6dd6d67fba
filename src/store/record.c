/* Records and group headers.

   A record is written once, whole, at a 64-byte boundary: a fixed header, the place of the version it
   replaces if any, bucket, key, metadata, a table of CRCs if the payload is longer than one block,
   the payload, zeros. The header's CRC covers all before the payload and with it the payload's own
   CRC; it starts from the segment's id and epoch and the record's offset, so a record that was meant
   for another place never passes. The payload's CRC starts from nothing, so it is computed before
   the place is known.

   Decoding trusts no length: each is checked against its limit and against what the CRC vouches for
   before it is used. A head that does not pass is corrupt; there is no finer answer. */
#include "store/record.h"

#include <assert.h>
#include <string.h>

#include <shoal/error.h>

#include "base/bytes.h"
#include "base/crc32c.h"

enum { RECORD_MAGIC = 0x6853 /* "Sh" */, FLAG_PREV = 1, FLAG_TABLE = 2, FLAGS_KNOWN = 3 };
#define GROUP_MAGIC 0x50524753u /* "SGRP" */

static_assert(RECORD_DATA_MAX % RECORD_BLOCK_BYTES == 0, "blocks fill the largest payload");

uint32_t crc_seed_at(struct crc_seed seed, uint64_t offset)
{
    uint8_t bytes[24];

    put_u64(bytes, seed.segment_id);
    put_u64(bytes + 8, seed.epoch);
    put_u64(bytes + 16, offset);
    return crc32c(0, bytes, sizeof(bytes));
}

uint32_t record_head_bytes(const struct record *record)
{
    return RECORD_HEADER_BYTES + (record->has_prev ? RECORD_PREV_BYTES : 0) +
           record->key.bucket_length + record->key.length + record->meta_length +
           4 * record_blocks(record->data_length);
}

uint32_t record_bytes(const struct record *record)
{
    return record_head_bytes(record) + record->data_length;
}

uint32_t record_slots(const struct record *record)
{
    return (record_bytes(record) + SLOT_BYTES - 1) / SLOT_BYTES;
}

void record_checksum(struct record *record, uint8_t *table)
{
    uint32_t blocks = record_blocks(record->data_length);

    if (blocks == 0) {
        record->crc_table = NULL;
        record->payload_crc = crc32c(0, record->data, record->data_length);
        return;
    }
    for (uint32_t i = 0; i < blocks; i++) {
        uint32_t at = i * RECORD_BLOCK_BYTES;
        uint32_t left = record->data_length - at;
        uint32_t length = left < RECORD_BLOCK_BYTES ? left : RECORD_BLOCK_BYTES;

        put_u32(table + 4 * i, crc32c(0, record->data + at, length));
    }
    record->crc_table = table;
    record->payload_crc = crc32c(0, table, 4 * blocks);
}

static uint8_t *append(uint8_t *at, const void *bytes, size_t length)
{
    if (length)
        memcpy(at, bytes, length);
    return at + length;
}

static uint32_t head_crc(
    const uint8_t *at, uint32_t head_bytes, struct crc_seed seed, uint64_t offset)
{
    uint32_t crc = crc32c(crc_seed_at(seed, offset), at, 4);

    return crc32c(crc, at + 8, head_bytes - 8);
}

void record_encode(const struct record *record, struct crc_seed seed, uint64_t offset, uint8_t *at)
{
    uint8_t *end = at + RECORD_HEADER_BYTES;
    uint32_t blocks = record_blocks(record->data_length);

    put_u16(at, RECORD_MAGIC);
    at[2] = (uint8_t)record->kind;
    at[3] = (uint8_t)((record->has_prev ? FLAG_PREV : 0) | (blocks ? FLAG_TABLE : 0));
    put_u64(at + 8, record->sequence);
    put_u64(at + 16, (uint64_t)record->time_ms);
    put_u32(at + 24, record->data_length);
    put_u16(at + 28, record->key.length);
    at[30] = record->key.bucket_length;
    at[31] = 0;
    put_u16(at + 32, (uint16_t)record->meta_length);
    put_u16(at + 34, 0);
    put_u32(at + 36, record->payload_crc);
    if (record->has_prev) {
        put_u64(end, record->prev.segment_id);
        put_u32(end + 8, record->prev.slot);
        put_u32(end + 12, record->prev.slots);
        put_u64(end + 16, record->prev.object_bytes);
        end += RECORD_PREV_BYTES;
    }
    end = append(end, record->key.bucket, record->key.bucket_length);
    end = append(end, record->key.bytes, record->key.length);
    end = append(end, record->meta, record->meta_length);
    end = append(end, record->crc_table, 4 * blocks);
    put_u32(at + 4, head_crc(at, (uint32_t)(end - at), seed, offset));
    end = append(end, record->data, record->data_length);
    memset(end, 0, (size_t)record_slots(record) * SLOT_BYTES - (size_t)(end - at));
}

/* The fixed part alone, every field within its limit. */
static bool decode_fixed(const uint8_t *at, struct record *record)
{
    uint8_t flags = at[3];

    if (get_u16(at) != RECORD_MAGIC || at[2] < RECORD_OBJECT || at[2] > RECORD_KIND_MAX)
        return false;
    if (flags & ~FLAGS_KNOWN || at[31] != 0 || get_u16(at + 34) != 0)
        return false;
    record->kind = at[2];
    record->has_prev = flags & FLAG_PREV;
    record->sequence = get_u64(at + 8);
    record->time_ms = (int64_t)get_u64(at + 16);
    record->data_length = get_u32(at + 24);
    record->key.length = get_u16(at + 28);
    record->key.bucket_length = at[30];
    record->meta_length = get_u16(at + 32);
    record->payload_crc = get_u32(at + 36);
    return record->data_length <= RECORD_DATA_MAX && record->meta_length <= RECORD_META_MAX &&
           record->key.length <= 1024 &&
           (record_blocks(record->data_length) > 0) == ((flags & FLAG_TABLE) != 0);
}

/* The parts behind the fixed one, whose lengths are known. Returns where the data begin. */
static const uint8_t *point_parts(const uint8_t *at, struct record *record)
{
    const uint8_t *next = at + RECORD_HEADER_BYTES;

    if (record->has_prev) {
        record->prev.segment_id = get_u64(next);
        record->prev.slot = get_u32(next + 8);
        record->prev.slots = get_u32(next + 12);
        record->prev.object_bytes = get_u64(next + 16);
        next += RECORD_PREV_BYTES;
    }
    record->key.bucket = (const char *)next;
    record->key.bytes = next + record->key.bucket_length;
    record->meta = record->key.bytes + record->key.length;
    next = record->meta + record->meta_length;
    if (record_blocks(record->data_length))
        record->crc_table = next;
    return next + 4 * record_blocks(record->data_length);
}

int record_decode(const void *bytes, size_t length, struct crc_seed seed, uint64_t offset,
    struct record *ret_record)
{
    const uint8_t *at = bytes, *data;
    struct record record = {0};
    uint32_t head;

    if (length < RECORD_HEADER_BYTES)
        return RECORD_HEADER_BYTES;
    if (!decode_fixed(at, &record))
        return SHOAL_E_CORRUPT;
    head = record_head_bytes(&record);
    if (length < head)
        return (int)head;
    if (get_u32(at + 4) != head_crc(at, head, seed, offset))
        return SHOAL_E_CORRUPT;
    data = point_parts(at, &record);
    if (record.crc_table &&
        crc32c(0, record.crc_table, 4 * record_blocks(record.data_length)) != record.payload_crc)
        return SHOAL_E_CORRUPT;
    if (length >= record_bytes(&record))
        record.data = data;
    *ret_record = record;
    return 0;
}

void record_view(const void *bytes, struct record *ret_record)
{
    *ret_record = (struct record){0};
    (void)decode_fixed(bytes, ret_record); /* the caller has just encoded it */
    ret_record->data = point_parts(bytes, ret_record);
}

bool record_block_valid(const uint8_t *crc_table, uint32_t block, const void *data, size_t length)
{
    return crc32c(0, data, length) == get_u32(crc_table + 4 * block);
}

bool record_payload_valid(const struct record *record)
{
    uint32_t blocks = record_blocks(record->data_length);

    if (blocks == 0)
        return crc32c(0, record->data, record->data_length) == record->payload_crc;
    for (uint32_t i = 0; i < blocks; i++) {
        uint32_t at = i * RECORD_BLOCK_BYTES;
        uint32_t left = record->data_length - at;

        if (!record_block_valid(record->crc_table, i, record->data + at,
                left < RECORD_BLOCK_BYTES ? left : RECORD_BLOCK_BYTES))
            return false;
    }
    return true;
}

static uint32_t group_crc(const uint8_t *at, struct crc_seed seed, uint64_t offset)
{
    return crc32c(crc32c(crc_seed_at(seed, offset), at, 4), at + 8, GROUP_HEADER_BYTES - 8);
}

void group_encode(
    const struct group_header *group, struct crc_seed seed, uint64_t offset, uint8_t *at)
{
    memset(at, 0, GROUP_HEADER_BYTES);
    put_u32(at, GROUP_MAGIC);
    put_u64(at + 8, group->number);
    put_u64(at + 16, group->first_sequence);
    put_u32(at + 24, group->records);
    put_u32(at + 28, group->length);
    put_u64(at + 32, group->durable_through);
    put_u32(at + 4, group_crc(at, seed, offset));
}

int group_decode(
    const void *bytes, struct crc_seed seed, uint64_t offset, struct group_header *ret_group)
{
    const uint8_t *at = bytes;

    if (get_u32(at) != GROUP_MAGIC || get_u32(at + 4) != group_crc(at, seed, offset))
        return SHOAL_E_CORRUPT;
    ret_group->number = get_u64(at + 8);
    ret_group->first_sequence = get_u64(at + 16);
    ret_group->records = get_u32(at + 24);
    ret_group->length = get_u32(at + 28);
    ret_group->durable_through = get_u64(at + 32);
    if (ret_group->records == 0 || ret_group->length <= GROUP_HEADER_BYTES ||
        ret_group->length % SLOT_BYTES != 0)
        return SHOAL_E_CORRUPT;
    return 0;
}
