/* The footer's decoder on arbitrary bytes.

   If the first byte is odd, the trailer's CRC and length are mended first, so that mutations get past
   them. Properties beside not reading outside: entries are sorted by hash and sequence, and what they
   point to lies in the segment and among the prevs. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <shoal/error.h>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "store/footer.h"
#include "fuzz_copy.h"

#define END 409600u

static const struct crc_seed seed = {.segment_id = 7, .epoch = 3};

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

static void mend(uint8_t *bytes, size_t length)
{
    uint8_t start[24], *trailer = bytes + length - FOOTER_TRAILER_BYTES;
    uint32_t crc;

    if (length < FOOTER_TRAILER_BYTES)
        return;
    put_u64(start, seed.segment_id);
    put_u64(start + 8, seed.epoch);
    put_u64(start + 16, END);
    put_u64(trailer + 24, seed.segment_id);
    put_u64(trailer + 32, seed.epoch);
    put_u64(trailer + 56, END);
    put_u64(trailer + 64, length);
    crc = crc32c(crc32c(0, start, sizeof(start)), bytes, length - FOOTER_TRAILER_BYTES);
    put_u32(trailer, crc32c(crc, trailer + 4, FOOTER_TRAILER_BYTES - 4));
}

static int in_order(const struct footer_entry *first, const struct footer_entry *second)
{
    if (first->hash.high != second->hash.high)
        return first->hash.high < second->hash.high;
    if (first->hash.low != second->hash.low)
        return first->hash.low < second->hash.low;
    return first->sequence_delta < second->sequence_delta;
}

static void look(const struct footer *footer)
{
    for (uint32_t i = 0; i < footer->count; i++) {
        const struct footer_entry *entry = &footer->entries[i];

        assert(i == 0 || in_order(entry - 1, entry));
        assert(entry->slots > 0 && ((uint64_t)entry->slot + entry->slots) * SLOT_BYTES <= END);
        assert(entry->kind >= RECORD_OBJECT && entry->kind <= RECORD_KIND_MAX);
        assert(!entry->has_prev || entry->prev_index < footer->prev_count);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    struct footer footer;
    uint8_t *bytes;
    int rc;

    if (size < 1)
        return 0;
    bytes = fuzz_copy(input + 1, size - 1);
    if (input[0] & 1)
        mend(bytes, size - 1);
    rc = footer_decode(bytes, size - 1, seed, END, &footer);
    assert(rc == 0 || rc == SHOAL_E_CORRUPT);
    if (rc == 0) {
        look(&footer);
        footer_done(&footer);
    }
    free(bytes);
    return 0;
}
