/* The log: one order of records, made durable in groups.

   Writers append batches: each gets its place and its sequences in one short step under the lock and
   copies its bytes into a group buffer beside the others. The committer takes filled groups one at a
   time: write, sync, publish, acknowledge. doc/ARCHITECTURE.md tells the life of a put. */
#ifndef STORE_LOG_H
#define STORE_LOG_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "store/manifest.h"
#include "store/record.h"
#include "store/segment.h"

struct clock;
struct volume;
struct group;

/* One record of a batch. The caller fills record but for its sequence, and hash; the log fills the
   rest when it appends. */
struct log_record {
    struct record record;
    struct hash128 hash;
};

/* Records that lie in one group: durable together or not at all. Must stay until done is called. */
struct log_batch {
    struct log_record *records;
    unsigned count;
    bool force_sync; /* acknowledge after a sync even where durability is relaxed */
    /* On the committer's thread, once, after the records are published (code 0) or have failed. */
    void (*done)(struct log_batch *batch, int code);

    uint64_t first_sequence; /* set by log_append */
    struct log_batch *next; /* the log's */
};

/* A record as it is published. */
struct log_entry {
    struct hash128 hash;
    struct prev prev;
    uint64_t sequence;
    uint32_t slot;
    uint32_t slots;
    uint8_t kind;
    bool has_prev;
};

/* A record as its segment's footer lists it. */
void log_entry_listed(const struct footer *footer, uint32_t index, struct log_entry *ret_entry);

/* What the store does with records, in sequence order, on the committer's thread. */
struct log_hooks {
    void *arg;
    /* record: its encoded bytes. A negative code fails the record's batch and ends writing. */
    int (*publish)(
        void *arg, struct segment *segment, const struct log_entry *entry, const uint8_t *record);
    /* Takes back what was published and then lost to a failed sync (relaxed durability), last
       first. */
    void (*unpublish)(void *arg, struct segment *segment, const struct log_entry *entry);
    /* After each round: published and durable sequences have moved. */
    void (*moved)(void *arg);
};

struct log_config {
    struct volume *volume;
    struct clock *clock;
    struct log_hooks hooks;
    struct segment_table *segments;
    struct manifest *manifest; /* the log's from here on, guarded by manifest_lock */
    uint64_t segment_bytes; /* at least twice group_bytes */
    uint32_t group_bytes;
    unsigned group_buffers;
    bool threads; /* a committer thread is there; otherwise callers step */
    bool relaxed;
    unsigned relaxed_ms;
};

struct log {
    struct log_config config;
    pthread_mutex_t manifest_lock;

    pthread_mutex_t lock; /* guards what follows up to the committer's part */
    pthread_cond_t work; /* for the committer: there is something to do */
    pthread_cond_t changed; /* for writers: a buffer is free, or a sequence durable */
    struct group *groups; /* all of them */
    struct group *free_groups, *open_group;
    struct group *queue_head, **queue_tail;
    uint64_t next_sequence;
    uint64_t next_segment_id;
    uint64_t at_segment_id; /* where the next group goes; 0: into a new segment */
    uint64_t at_offset, at_number;
    uint32_t at_records;
    int failure; /* not 0: no more writes, with this code */
    unsigned lost_windows; /* times that a relaxed sync failed */
    bool sync_wanted;
    bool stopping;

    /* The committer's. */
    struct segment *segment; /* the active one; NULL before the first append */
    uint64_t unsynced_since_ns;
    bool unsynced;
    uint64_t epoch; /* of this opening */

    _Atomic uint64_t published_sequence;
    _Atomic uint64_t durable_sequence;
};

/* The epoch's first sequence follows from its number, so none is ever used twice. */
#define LOG_EPOCH_SHIFT 40

int log_init(struct log *log, const struct log_config *config, uint64_t durable_sequence,
    uint64_t next_segment_id);
/* Frees the buffers; nothing may be in flight. */
void log_done(struct log *log);

/* Blocks while all buffers are full (without threads it steps instead). 0: done will be called.
   Otherwise it won't: SHOAL_E_READ_ONLY, SHOAL_E_TOO_LARGE, SHOAL_E_CLOSED, … */
int log_append(struct log *log, struct log_batch *batch);

/* One round of the committer: a group, or a due sync. 1: did something, 0: nothing to do. */
int log_step(struct log *log);
/* Blocks until there may be something for log_step, a relaxed sync falls due, or the log stops.
   Returns false when it stops and nothing is left. */
bool log_wait_work(struct log *log);
/* No more appends; the committer finishes what is there. */
void log_stop(struct log *log);

/* Returns when what was published at the call is durable: 0, or the failure that prevents it. */
int log_sync_published(struct log *log);

/* Records durably that the active segment ends, so that it can be sealed. No group in flight. */
int log_end_segment(struct log *log);
/* Whether the store takes writes: 0 or the code they fail with. */
int log_failure(struct log *log);
/* Ends writing with this code. */
void log_fail_stop(struct log *log, int code);

/* Writes the footer of an ended segment behind its records and records it in the manifest. */
int segment_seal(struct log *log, struct segment *segment);

#endif
