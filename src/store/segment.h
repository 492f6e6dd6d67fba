/* A segment: a file of groups that begins with a superblock and, once sealed, ends in a footer. */
#ifndef STORE_SEGMENT_H
#define STORE_SEGMENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/footer.h"
#include "store/record.h"

struct shoal_error;
struct volume;
struct volume_file;

/* Slots are 24 bits wide. */
#define SEGMENT_BYTES_MAX   (1ull << 30)
#define SEGMENT_RECORDS_MAX (1u << 20)

struct superblock {
    uint8_t uuid[16];
    uint64_t hash_seed;
    uint64_t segment_id;
    uint64_t epoch;
    uint32_t block_bytes;
    uint8_t kind;
};

/* Fills a whole block of superblock->block_bytes. */
void superblock_encode(const struct superblock *superblock, uint8_t *ret_block);
/* 0, SHOAL_E_CORRUPT, or SHOAL_E_FORMAT. length: bytes of the block at hand. */
int superblock_decode(const uint8_t *block, size_t length, struct superblock *ret_superblock);

/* An open segment. Stays at its address, and its file open, until the store closes. */
struct segment {
    uint64_t id;
    uint64_t epoch;
    uint32_t dense; /* its number in the index */
    struct volume_file *file;

    _Atomic uint64_t live_bytes; /* of records that the index shows */
    /* Of the groups that are published or about to be: for walks beside the committer. */
    _Atomic uint64_t shown_end;
    _Atomic uint64_t shown_sequence; /* 0: no records */

    /* The committer's, or the opener's. */
    uint64_t end; /* where the next group begins, or the groups end */
    uint64_t synced_end; /* where the durable ones end */
    uint64_t reserved; /* room asked for up to here */
    uint64_t groups;
    struct footer footer; /* its records; empty again once the footer is on disk */
    uint32_t synced_records; /* of footer.count, those that are durable */

    /* Guarded by the store's manifest lock. */
    uint32_t footer_bytes;
    _Atomic uint8_t state; /* enum segment_state; footer_bytes is valid once SEGMENT_SEALED */
    uint64_t padding_from; /* see struct walk_result */
    bool seal_failed; /* not tried again before the next open */
};

static inline struct crc_seed segment_seed(const struct segment *segment)
{
    return (struct crc_seed){.segment_id = segment->id, .epoch = segment->epoch};
}

/* The table of open segments by dense number: readers look up without a lock, one thread at a time
   adds. */
#define SEGMENT_TABLE_CHUNK  1024u
#define SEGMENT_TABLE_CHUNKS 16384u
struct segment_table {
    _Atomic(struct segment **) chunks[SEGMENT_TABLE_CHUNKS];
    _Atomic uint32_t count;
};

/* NULL if there is none of that number. */
struct segment *segment_table_get(struct segment_table *table, uint32_t dense);
/* By id, searching backwards; NULL if absent. */
struct segment *segment_table_find(struct segment_table *table, uint64_t segment_id);
/* A new segment that knows its dense number; the caller raises table->count when it may be seen.
   -ENOMEM; SHOAL_E_TOO_LARGE at the limit. */
int segment_table_add(struct segment_table *table, struct segment **ret_segment);
/* Closes all files and frees all. */
void segment_table_done(struct segment_table *table, struct volume *volume);

#endif
