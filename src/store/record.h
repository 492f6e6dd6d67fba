/* Records and group headers: their bytes, written and validated. doc/FORMAT.md describes them. */
#ifndef STORE_RECORD_H
#define STORE_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/key.h"

#define SLOT_BYTES          64u
#define GROUP_HEADER_BYTES  64u
#define RECORD_HEADER_BYTES 40u
#define RECORD_PREV_BYTES   24u
#define RECORD_META_MAX     4096u
#define RECORD_BLOCK_BYTES  (64u << 10) /* payloads above this carry one CRC per block of it */
#define RECORD_DATA_MAX     (4u << 20)
#define RECORD_BLOCKS_MAX   (RECORD_DATA_MAX / RECORD_BLOCK_BYTES)
/* Header, prev, the longest bucket, key and metadata, and a full CRC table. */
#define RECORD_HEAD_MAX                                                                            \
    (RECORD_HEADER_BYTES + RECORD_PREV_BYTES + 255u + 1024u + RECORD_META_MAX +                    \
        4u * RECORD_BLOCKS_MAX)
#define RECORD_MAX (RECORD_HEAD_MAX + RECORD_DATA_MAX + SLOT_BYTES)

enum record_kind {
    RECORD_OBJECT = 1,
    RECORD_TOMBSTONE = 2,
    RECORD_CHUNK = 3, /* a piece of a blob */
    RECORD_BLOB = 4, /* an object whose bytes lie in chunks */
    RECORD_BUCKET = 5,
    RECORD_OPEN = 6, /* a blob whose writer has not committed */
    RECORD_REAP = 7, /* a blob whose chunks are to be deleted */
    RECORD_KIND_MAX = 7,
};

/* What makes bytes from another place or an earlier life fail their CRC. */
struct crc_seed {
    uint64_t segment_id;
    uint64_t epoch;
};

/* What the CRC of a structure at this offset continues from. */
uint32_t crc_seed_at(struct crc_seed seed, uint64_t offset);

/* The version that a record replaces. */
struct prev {
    uint64_t segment_id;
    uint64_t object_bytes; /* PREV_BYTES_UNKNOWN if its header could not be read */
    uint32_t slot;
    uint32_t slots;
};
#define PREV_BYTES_UNKNOWN UINT64_MAX

/* A record's parts. Pointers are borrowed; after record_decode they point into the buffer. */
struct record {
    struct key key;
    enum record_kind kind;
    bool has_prev;
    uint64_t sequence;
    int64_t time_ms;
    struct prev prev;
    const uint8_t *meta;
    uint32_t meta_length;
    const uint8_t *data; /* decode: NULL when the buffer ends before it */
    uint32_t data_length;
    uint32_t payload_crc; /* of the data, or of the CRC table if there is one */
    const uint8_t *crc_table; /* NULL for payloads up to one block */
};

static inline uint32_t record_blocks(uint32_t data_length)
{
    return data_length > RECORD_BLOCK_BYTES
               ? (data_length + RECORD_BLOCK_BYTES - 1) / RECORD_BLOCK_BYTES
               : 0;
}

/* Bytes before the data, and of the whole record without padding. */
uint32_t record_head_bytes(const struct record *record);
uint32_t record_bytes(const struct record *record);
uint32_t record_slots(const struct record *record);

/* Sets payload_crc, and crc_table to `table` (4 * RECORD_BLOCKS_MAX bytes) if the data need one. */
void record_checksum(struct record *record, uint8_t *table);

/* Writes the whole record and its padding to `at`, which lies at `offset` of the segment. */
void record_encode(const struct record *record, struct crc_seed seed, uint64_t offset, uint8_t *at);

/* Validates the head in `length` bytes read from `offset`. 0; SHOAL_E_CORRUPT; or a positive count:
   so many bytes are needed to hold the head. Does not look at the payload. */
int record_decode(const void *bytes, size_t length, struct crc_seed seed, uint64_t offset,
    struct record *ret_record);
/* The parts of a record that this process has encoded, whole, a moment ago: nothing is verified. */
void record_view(const void *bytes, struct record *ret_record);
/* The payload against its CRCs, all blocks. record->data must not be NULL and be whole. */
bool record_payload_valid(const struct record *record);
bool record_block_valid(const uint8_t *crc_table, uint32_t block, const void *data, size_t length);

/* --- groups --- */

struct group_header {
    uint64_t number; /* within the segment, from 1 */
    uint64_t first_sequence; /* of its records, which count up by one */
    uint32_t records;
    uint32_t length; /* header and records, without the padding to the block */
    uint64_t durable_through;
};

void group_encode(
    const struct group_header *group, struct crc_seed seed, uint64_t offset, uint8_t *at);
int group_decode(
    const void *bytes, struct crc_seed seed, uint64_t offset, struct group_header *ret_group);

#endif
