/* Inside of the log: group buffers, shared by log.c and log_commit.c. */
#ifndef STORE_LOG_PRIV_H
#define STORE_LOG_PRIV_H

#include "store/log.h"

#define GROUP_RECORDS_MAX 16384u

/* A group being filled, waiting, or being written. */
struct group {
    uint8_t *buffer;
    struct log_entry *entries;
    struct log_batch *batches, **batches_tail;
    struct group *next; /* in the queue or the free list */
    struct group *next_all;
    uint64_t segment_id, offset, number, first_sequence;
    uint32_t used; /* bytes, header included */
    uint32_t records, prevs;
    bool force_sync;
    bool begins_segment;
    _Atomic unsigned writers; /* still copying */
    _Atomic bool closed;
};

/* Under log->lock: no more records; the next group begins behind it. */
void group_close(struct log *log);
/* Blocks until all writers have copied. Not under the lock. */
void group_settle(struct log *log, struct group *group);
/* Back to the free list, its batches acknowledged with code. Not under the lock. */
void group_finish(struct log *log, struct group *group, int code);

/* Write, sync, publish, acknowledge; on failure fails what is in flight. */
void group_commit(struct log *log, struct group *group);
/* The sync that relaxed durability owes. */
int log_sync(struct log *log);

#endif
