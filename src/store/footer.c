/* Segment footers.

   On disk: a fan-out table (for each first byte of a hash, how many entries come up to and with it),
   the entries sorted by hash without that byte, the places that records replaced, zeros, and a
   trailer that ends the last block. 24 bytes an entry keep the cost of a 1 KB object low; the fan-out
   lets one partition of the index be rebuilt from one read of each footer.

   The CRC in the trailer covers all of it and starts from the segment's id and epoch and the
   footer's offset. Every field of an entry is checked against the segment's bounds all the same. */
#include "store/footer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <shoal/error.h>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "base/mem.h"
#include "store/segment.h"
#include "store/volume.h"

#define TRAILER_MAGIC  "SHOALFTR"
#define WRITE_BYTES    (1u << 20)
#define ENTRY_HAS_PREV 1u

static int grow(void **array, uint32_t *capacity, uint32_t needed, size_t item_bytes)
{
    uint32_t larger = *capacity ? *capacity : 64;
    void *grown;

    if (needed <= *capacity)
        return 0;
    while (larger < needed)
        larger *= 2;
    grown = mem_resize(*array, larger * item_bytes);
    if (!grown)
        return -ENOMEM;
    *array = grown;
    *capacity = larger;
    return 0;
}

int footer_reserve(struct footer *footer, uint32_t records, uint32_t prevs)
{
    int rc = grow((void **)&footer->entries, &footer->capacity, footer->count + records,
        sizeof(*footer->entries));

    if (!rc)
        rc = grow((void **)&footer->prevs, &footer->prev_capacity, footer->prev_count + prevs,
            sizeof(*footer->prevs));
    return rc;
}

int footer_add(struct footer *footer, struct hash128 hash, uint64_t sequence, uint32_t slot,
    uint32_t slots, enum record_kind kind, const struct prev *prev)
{
    struct footer_entry *entry;

    if (footer_reserve(footer, 1, prev != NULL))
        return -ENOMEM;
    if (footer->count == 0)
        footer->lowest_sequence = sequence;
    entry = &footer->entries[footer->count++];
    *entry = (struct footer_entry){
        .hash = hash,
        .slot = slot,
        .sequence_delta = (uint32_t)(sequence - footer->lowest_sequence),
        .slots = slots,
        .kind = kind,
        .has_prev = prev != NULL,
    };
    if (prev) {
        entry->prev_index = footer->prev_count;
        footer->prevs[footer->prev_count++] = *prev;
    }
    return 0;
}

void footer_truncate(struct footer *footer, uint32_t count)
{
    while (footer->count > count)
        if (footer->entries[--footer->count].has_prev)
            footer->prev_count--;
}

static int entry_compare(const void *left, const void *right)
{
    const struct footer_entry *a = left, *b = right;

    if (a->hash.high != b->hash.high)
        return a->hash.high < b->hash.high ? -1 : 1;
    if (a->hash.low != b->hash.low)
        return a->hash.low < b->hash.low ? -1 : 1;
    return (a->sequence_delta > b->sequence_delta) - (a->sequence_delta < b->sequence_delta);
}

static unsigned first_byte(const struct footer_entry *entry)
{
    return (unsigned)(entry->hash.high >> 56);
}

/* Brings entries of one first byte together, in place (American flag sort: McIlroy, Bostic, McIlroy,
   "Engineering Radix Sort", 1993). */
static void sort_first_byte(struct footer_entry *entries, uint32_t count, uint32_t ends[256])
{
    uint32_t next[256] = {0};
    uint32_t sum = 0;

    for (uint32_t i = 0; i < count; i++)
        next[first_byte(&entries[i])]++;
    for (unsigned byte = 0; byte < 256; byte++) {
        uint32_t of_byte = next[byte];

        next[byte] = sum;
        sum += of_byte;
        ends[byte] = sum;
    }
    for (unsigned byte = 0; byte < 256; byte++)
        while (next[byte] < ends[byte]) {
            struct footer_entry *at = &entries[next[byte]];
            unsigned belongs = first_byte(at);

            if (belongs != byte) {
                struct footer_entry swap = entries[next[belongs]];

                entries[next[belongs]] = *at;
                *at = swap;
            }
            next[belongs]++;
        }
}

/* By first byte and then each part by itself: sorting the whole would take as much memory again. */
void footer_sort(struct footer *footer)
{
    uint32_t ends[256], start = 0;

    sort_first_byte(footer->entries, footer->count, ends);
    for (unsigned byte = 0; byte < 256; byte++) {
        if (ends[byte] > start)
            qsort(footer->entries + start, ends[byte] - start, sizeof(*footer->entries),
                entry_compare);
        start = ends[byte];
    }
}

void footer_done(struct footer *footer)
{
    mem_free(footer->entries);
    mem_free(footer->prevs);
    memset(footer, 0, sizeof(*footer));
}

/* --- writing --- */

/* Gathers bytes into whole blocks. */
struct writer {
    struct volume *volume;
    struct volume_file *file;
    uint8_t *buffer;
    size_t used;
    uint64_t offset;
    uint32_t crc;
    int rc;
};

static void writer_flush(struct writer *writer)
{
    if (!writer->rc && writer->used)
        writer->rc = writer->volume->ops->write_at(
            writer->file, writer->buffer, writer->used, writer->offset);
    writer->offset += writer->used;
    writer->used = 0;
}

static void writer_put(struct writer *writer, const uint8_t *bytes, size_t length)
{
    writer->crc = crc32c(writer->crc, bytes, length);
    while (length) {
        size_t room = WRITE_BYTES - writer->used;
        size_t part = length < room ? length : room;

        memcpy(writer->buffer + writer->used, bytes, part);
        writer->used += part;
        bytes += part;
        length -= part;
        if (writer->used == WRITE_BYTES)
            writer_flush(writer);
    }
}

static void write_fanout(struct writer *writer, const struct footer *footer)
{
    uint8_t fanout[FOOTER_FANOUT_BYTES];
    uint32_t i = 0;

    for (unsigned byte = 0; byte < 256; byte++) {
        while (i < footer->count && footer->entries[i].hash.high >> 56 <= byte)
            i++;
        put_u32(fanout + 4 * byte, i);
    }
    writer_put(writer, fanout, sizeof(fanout));
}

/* The hash is written most significant byte first, so that bytes sort as hashes do. */
static void entry_encode(const struct footer_entry *entry, uint8_t *at)
{
    for (int i = 1; i < 8; i++)
        at[i - 1] = (uint8_t)(entry->hash.high >> (56 - 8 * i));
    for (int i = 0; i < 8; i++)
        at[7 + i] = (uint8_t)(entry->hash.low >> (56 - 8 * i));
    put_u24(at + 15, entry->slot);
    put_u24(at + 18, entry->sequence_delta);
    put_u16(at + 21, (uint16_t)entry->slots);
    at[23] = (uint8_t)(entry->slots >> 16 | (uint32_t)entry->kind << 2 |
                       (entry->has_prev ? ENTRY_HAS_PREV << 6 : 0));
}

static void write_entries(struct writer *writer, const struct footer *footer)
{
    uint8_t bytes[FOOTER_PREV_BYTES];

    for (uint32_t i = 0; i < footer->count; i++) {
        entry_encode(&footer->entries[i], bytes);
        writer_put(writer, bytes, FOOTER_ENTRY_BYTES);
    }
    for (uint32_t i = 0; i < footer->count; i++) {
        const struct prev *prev = &footer->prevs[footer->entries[i].prev_index];

        if (!footer->entries[i].has_prev)
            continue;
        put_u64(bytes, prev->segment_id);
        put_u64(bytes + 8, prev->object_bytes);
        put_u32(bytes + 16, prev->slot);
        put_u32(bytes + 20, prev->slots);
        put_u32(bytes + 24, i);
        writer_put(writer, bytes, FOOTER_PREV_BYTES);
    }
}

static uint64_t footer_bytes(const struct footer *footer, uint32_t block_bytes)
{
    uint64_t bytes = FOOTER_FANOUT_BYTES + (uint64_t)footer->count * FOOTER_ENTRY_BYTES +
                     (uint64_t)footer->prev_count * FOOTER_PREV_BYTES + FOOTER_TRAILER_BYTES;

    return round_up(bytes, block_bytes);
}

static void write_trailer(struct writer *writer, const struct footer *footer, struct crc_seed seed,
    uint64_t end, uint64_t bytes)
{
    uint8_t at[FOOTER_TRAILER_BYTES] = {0};
    uint64_t highest = 0, record_bytes = 0;

    for (uint32_t i = 0; i < footer->count; i++) {
        uint64_t sequence = footer_sequence(footer, &footer->entries[i]);

        highest = sequence > highest ? sequence : highest;
        record_bytes += (uint64_t)footer->entries[i].slots * SLOT_BYTES;
    }
    memcpy(at + 4, TRAILER_MAGIC, 8);
    put_u32(at + 12, footer->count);
    put_u32(at + 16, footer->prev_count);
    put_u64(at + 24, seed.segment_id);
    put_u64(at + 32, seed.epoch);
    put_u64(at + 40, footer->count ? footer->lowest_sequence : 0);
    put_u64(at + 48, highest);
    put_u64(at + 56, end);
    put_u64(at + 64, bytes);
    put_u64(at + 72, record_bytes);
    /* 80: judged_from, for packed segments. */
    put_u64(at + 88, footer->padding_from);
    put_u32(at, crc32c(writer->crc, at + 4, sizeof(at) - 4));
    writer_put(writer, at, sizeof(at));
}

int footer_write(struct footer *footer, struct volume *volume, struct volume_file *file,
    struct crc_seed seed, uint64_t end, uint32_t *ret_bytes)
{
    static const uint8_t zeros[512];
    uint64_t bytes = footer_bytes(footer, volume->block_bytes);
    struct writer writer = {.volume = volume, .file = file, .offset = end};

    writer.buffer = mem_aligned(volume->block_bytes, WRITE_BYTES);
    if (!writer.buffer)
        return -ENOMEM;
    writer.crc = crc_seed_at(seed, end);
    write_fanout(&writer, footer);
    write_entries(&writer, footer);
    while (writer.offset + writer.used < end + bytes - FOOTER_TRAILER_BYTES) {
        uint64_t left = end + bytes - FOOTER_TRAILER_BYTES - writer.offset - writer.used;

        writer_put(&writer, zeros, left < sizeof(zeros) ? left : sizeof(zeros));
    }
    write_trailer(&writer, footer, seed, end, bytes);
    writer_flush(&writer);
    mem_free(writer.buffer);
    if (writer.rc)
        return writer.rc;
    *ret_bytes = (uint32_t)bytes;
    return 0;
}

/* --- reading --- */

static void entry_decode(const uint8_t *at, uint8_t first_byte, struct footer_entry *ret_entry)
{
    struct footer_entry entry = {.hash.high = (uint64_t)first_byte << 56};

    for (int i = 1; i < 8; i++)
        entry.hash.high |= (uint64_t)at[i - 1] << (56 - 8 * i);
    for (int i = 0; i < 8; i++)
        entry.hash.low |= (uint64_t)at[7 + i] << (56 - 8 * i);
    entry.slot = get_u24(at + 15);
    entry.sequence_delta = get_u24(at + 18);
    entry.slots = get_u16(at + 21) | (uint32_t)(at[23] & 3) << 16;
    entry.kind = at[23] >> 2 & 15;
    entry.has_prev = at[23] >> 6 & 1;
    *ret_entry = entry;
}

static int decode_entries(const uint8_t *bytes, uint64_t end, struct footer *footer)
{
    const uint8_t *at = bytes + FOOTER_FANOUT_BYTES;
    uint32_t i = 0, prevs = 0;

    for (unsigned byte = 0; byte < 256; byte++) {
        uint32_t up_to = get_u32(bytes + 4 * byte);

        if (up_to < i || up_to > footer->count)
            return SHOAL_E_CORRUPT;
        for (; i < up_to; i++, at += FOOTER_ENTRY_BYTES) {
            struct footer_entry *entry = &footer->entries[i];

            entry_decode(at, (uint8_t)byte, entry);
            if (at[23] & 0x80 || entry->kind < RECORD_OBJECT || entry->kind > RECORD_KIND_MAX ||
                entry->slots == 0 || ((uint64_t)entry->slot + entry->slots) * SLOT_BYTES > end ||
                (i && entry_compare(entry - 1, entry) >= 0))
                return SHOAL_E_CORRUPT;
            if (entry->has_prev)
                entry->prev_index = prevs++;
        }
    }
    return i == footer->count && prevs == footer->prev_count ? 0 : SHOAL_E_CORRUPT;
}

static void decode_prevs(const uint8_t *at, struct footer *footer)
{
    for (uint32_t i = 0; i < footer->prev_count; i++, at += FOOTER_PREV_BYTES)
        footer->prevs[i] = (struct prev){
            .segment_id = get_u64(at),
            .object_bytes = get_u64(at + 8),
            .slot = get_u32(at + 16),
            .slots = get_u32(at + 20),
        };
}

static int decode_trailer(
    const uint8_t *bytes, size_t length, struct crc_seed seed, uint64_t end, struct footer *footer)
{
    const uint8_t *at;

    if (length < FOOTER_FANOUT_BYTES + FOOTER_TRAILER_BYTES)
        return SHOAL_E_CORRUPT;
    at = bytes + length - FOOTER_TRAILER_BYTES;
    if (memcmp(at + 4, TRAILER_MAGIC, 8) != 0 || get_u64(at + 24) != seed.segment_id ||
        get_u64(at + 32) != seed.epoch || get_u64(at + 56) != end || get_u64(at + 64) != length)
        return SHOAL_E_CORRUPT;
    if (get_u32(at) != crc32c(crc32c(crc_seed_at(seed, end), bytes, length - FOOTER_TRAILER_BYTES),
                           at + 4, FOOTER_TRAILER_BYTES - 4))
        return SHOAL_E_CORRUPT;
    footer->count = get_u32(at + 12);
    footer->prev_count = get_u32(at + 16);
    footer->lowest_sequence = get_u64(at + 40);
    footer->padding_from = get_u64(at + 88);
    if (footer->count > SEGMENT_RECORDS_MAX || footer->prev_count > footer->count ||
        FOOTER_FANOUT_BYTES + (uint64_t)footer->count * FOOTER_ENTRY_BYTES +
                (uint64_t)footer->prev_count * FOOTER_PREV_BYTES + FOOTER_TRAILER_BYTES >
            length)
        return SHOAL_E_CORRUPT;
    return 0;
}

int footer_decode(const uint8_t *bytes, size_t length, struct crc_seed seed, uint64_t end,
    struct footer *ret_footer)
{
    struct footer footer = {0};
    int rc = decode_trailer(bytes, length, seed, end, &footer);

    if (rc)
        return rc;
    footer.capacity = footer.count;
    footer.prev_capacity = footer.prev_count;
    footer.entries = mem_alloc(footer.count * sizeof(*footer.entries));
    footer.prevs = mem_alloc(footer.prev_count * sizeof(*footer.prevs));
    if (!footer.entries || !footer.prevs)
        rc = -ENOMEM;
    if (!rc)
        rc = decode_entries(bytes, end, &footer);
    if (rc) {
        footer_done(&footer);
        return rc;
    }
    decode_prevs(bytes + FOOTER_FANOUT_BYTES + (size_t)footer.count * FOOTER_ENTRY_BYTES, &footer);
    *ret_footer = footer;
    return 0;
}

int footer_read(struct volume *volume, struct volume_file *file, struct crc_seed seed, uint64_t end,
    uint32_t bytes, struct footer *ret_footer)
{
    uint8_t *buffer;
    int64_t got;
    int rc;

    if (bytes > 64u << 20)
        return SHOAL_E_CORRUPT;
    buffer = mem_alloc(bytes);
    if (!buffer)
        return -ENOMEM;
    got = volume->ops->read_at(file, buffer, bytes, end);
    if (got < 0)
        rc = (int)got;
    else if (got < bytes)
        rc = SHOAL_E_CORRUPT;
    else
        rc = footer_decode(buffer, bytes, seed, end, ret_footer);
    mem_free(buffer);
    return rc;
}

bool footer_confirms(struct volume *volume, struct volume_file *file, uint64_t end, uint32_t bytes,
    struct hash128 hash, uint32_t slot, struct footer_entry *ret_entry)
{
    uint8_t fanout[FOOTER_FANOUT_BYTES], at[FOOTER_ENTRY_BYTES];
    uint8_t byte = (uint8_t)(hash.high >> 56);
    uint32_t low, high;
    struct footer_entry entry;

    if (volume->ops->read_at(file, fanout, sizeof(fanout), end) != sizeof(fanout))
        return false;
    low = byte ? get_u32(fanout + 4 * (byte - 1)) : 0;
    high = get_u32(fanout + 4 * byte);
    if (high > bytes / FOOTER_ENTRY_BYTES)
        return false;
    for (; low < high; low++) {
        uint64_t offset = end + FOOTER_FANOUT_BYTES + (uint64_t)low * FOOTER_ENTRY_BYTES;

        if (volume->ops->read_at(file, at, sizeof(at), offset) != sizeof(at))
            return false;
        entry_decode(at, byte, &entry);
        if (entry.slot == slot && entry.hash.high == hash.high && entry.hash.low == hash.low) {
            *ret_entry = entry;
            return true;
        }
    }
    return false;
}
