/* The log's front: reserving, copying, waiting.

   A batch is appended in three steps. Under the lock it gets its place in the open group and its
   sequences; both rise together, so the order of places is the order of sequences. Without the lock
   its records are encoded straight into the group's buffer, beside other writers. Then the count of
   writers falls, and the committer, which has closed the group, goes on when it reaches zero.

   Places are handed out ahead of the device: the offset of the next group follows from the length of
   the one before, and a new segment's id is taken before its file exists. If a group fails, all
   behind it fail too and the places are handed out again (log_commit.c).

   When all buffers are full, writers wait: this is the log's bound on memory. */
#include "store/log.h"

#include <errno.h>
#include <string.h>

#include <shoal/error.h>

#include "base/bytes.h"
#include "base/mem.h"
#include "os/clock.h"
#include "store/log_priv.h"
#include "store/volume.h"

static int groups_new(struct log *log)
{
    for (unsigned i = 0; i < log->config.group_buffers; i++) {
        struct group *group = mem_zero(1, sizeof(*group));

        if (!group)
            return -ENOMEM;
        group->next_all = log->groups;
        log->groups = group;
        group->buffer = mem_aligned(log->config.volume->block_bytes, log->config.group_bytes);
        group->entries = mem_alloc(GROUP_RECORDS_MAX * sizeof(*group->entries));
        if (!group->buffer || !group->entries)
            return -ENOMEM;
        group->next = log->free_groups;
        log->free_groups = group;
    }
    return 0;
}

int log_init(struct log *log, const struct log_config *config, uint64_t durable_sequence,
    uint64_t next_segment_id)
{
    pthread_condattr_t attributes;

    memset(log, 0, sizeof(*log));
    log->config = *config;
    log->queue_tail = &log->queue_head;
    log->epoch = config->manifest->epoch + 1;
    log->next_sequence = log->epoch << LOG_EPOCH_SHIFT;
    log->next_segment_id = next_segment_id;
    atomic_init(&log->published_sequence, durable_sequence);
    atomic_init(&log->durable_sequence, durable_sequence);
    pthread_mutex_init(&log->lock, NULL);
    pthread_mutex_init(&log->manifest_lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&log->work, &attributes);
    pthread_cond_init(&log->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    return groups_new(log);
}

void log_done(struct log *log)
{
    while (log->groups) {
        struct group *group = log->groups;

        log->groups = group->next_all;
        mem_free(group->buffer);
        mem_free(group->entries);
        mem_free(group);
    }
    pthread_cond_destroy(&log->changed);
    pthread_cond_destroy(&log->work);
    pthread_mutex_destroy(&log->manifest_lock);
    pthread_mutex_destroy(&log->lock);
}

/* --- groups --- */

static void group_open(struct log *log)
{
    struct group *group = log->free_groups;
    const struct log_config *config = &log->config;

    log->free_groups = group->next;
    group->begins_segment = log->at_segment_id == 0 ||
                            log->at_offset + config->group_bytes > config->segment_bytes ||
                            log->at_records + GROUP_RECORDS_MAX > SEGMENT_RECORDS_MAX;
    if (group->begins_segment) {
        log->at_segment_id = log->next_segment_id++;
        log->at_offset = config->volume->block_bytes;
        log->at_number = 1;
        log->at_records = 0;
    }
    group->segment_id = log->at_segment_id;
    group->offset = log->at_offset;
    group->number = log->at_number;
    group->first_sequence = log->next_sequence;
    group->used = GROUP_HEADER_BYTES;
    group->records = group->prevs = 0;
    group->force_sync = false;
    group->batches = NULL;
    group->batches_tail = &group->batches;
    group->next = NULL;
    atomic_store(&group->writers, 0);
    atomic_store(&group->closed, false);
    log->open_group = group;
}

void group_close(struct log *log)
{
    struct group *group = log->open_group;

    log->open_group = NULL;
    log->at_offset = group->offset + round_up(group->used, log->config.volume->block_bytes);
    log->at_number++;
    log->at_records += group->records;
    *log->queue_tail = group;
    log->queue_tail = &group->next;
    atomic_store(&group->closed, true);
}

void group_settle(struct log *log, struct group *group)
{
    if (atomic_load(&group->writers) == 0)
        return;
    pthread_mutex_lock(&log->lock);
    while (atomic_load(&group->writers) != 0)
        pthread_cond_wait(&log->work, &log->lock);
    pthread_mutex_unlock(&log->lock);
}

void group_finish(struct log *log, struct group *group, int code)
{
    struct log_batch *batch = group->batches;

    while (batch) {
        struct log_batch *next = batch->next; /* done may free it */

        batch->done(batch, code);
        batch = next;
    }
    pthread_mutex_lock(&log->lock);
    group->next = log->free_groups;
    log->free_groups = group;
    pthread_cond_broadcast(&log->changed);
    pthread_mutex_unlock(&log->lock);
}

/* --- appending --- */

static uint32_t batch_bytes(const struct log_batch *batch)
{
    uint32_t bytes = 0;

    for (unsigned i = 0; i < batch->count; i++)
        bytes += record_slots(&batch->records[i].record) * SLOT_BYTES;
    return bytes;
}

/* Under the lock: lets the committer do something; returns when it may have. */
static void await_committer(struct log *log)
{
    if (log->config.threads) {
        pthread_cond_signal(&log->work);
        pthread_cond_wait(&log->changed, &log->lock);
    } else {
        pthread_mutex_unlock(&log->lock);
        log_step(log);
        pthread_mutex_lock(&log->lock);
    }
}

/* Under the lock: an open group with room, or the reason why there is none. */
static int group_with_room(struct log *log, uint32_t bytes, unsigned count)
{
    for (;;) {
        if (log->failure)
            return log->failure;
        if (log->stopping)
            return SHOAL_E_CLOSED;
        if (log->open_group && (log->open_group->used + bytes > log->config.group_bytes ||
                                   log->open_group->records + count > GROUP_RECORDS_MAX))
            group_close(log);
        if (!log->open_group && log->free_groups)
            group_open(log);
        if (log->open_group)
            return 0;
        await_committer(log);
    }
}

/* Under the lock: places and sequences for all records, in one step. */
static void reserve(struct log *log, struct group *group, struct log_batch *batch)
{
    batch->first_sequence = log->next_sequence;
    batch->next = NULL;
    for (unsigned i = 0; i < batch->count; i++) {
        struct log_record *source = &batch->records[i];
        struct log_entry *entry = &group->entries[group->records++];

        source->record.sequence = log->next_sequence++;
        entry->hash = source->hash;
        entry->sequence = source->record.sequence;
        entry->slot = (uint32_t)((group->offset + group->used) / SLOT_BYTES);
        entry->slots = record_slots(&source->record);
        entry->kind = (uint8_t)source->record.kind;
        entry->has_prev = source->record.has_prev;
        if (entry->has_prev) {
            entry->prev = source->record.prev;
            group->prevs++;
        }
        group->used += entry->slots * SLOT_BYTES;
    }
    group->force_sync |= batch->force_sync;
    *group->batches_tail = batch;
    group->batches_tail = &batch->next;
    atomic_fetch_add(&group->writers, 1);
}

static void copy(struct log *log, struct group *group, const struct log_batch *batch, uint32_t at)
{
    struct crc_seed seed = {.segment_id = group->segment_id, .epoch = log->epoch};

    for (unsigned i = 0; i < batch->count; i++) {
        const struct record *record = &batch->records[i].record;

        record_encode(record, seed, group->offset + at, group->buffer + at);
        at += record_slots(record) * SLOT_BYTES;
    }
}

static void writer_leave(struct log *log, struct group *group)
{
    if (atomic_fetch_sub(&group->writers, 1) == 1 && atomic_load(&group->closed)) {
        pthread_mutex_lock(&log->lock);
        pthread_cond_broadcast(&log->work);
        pthread_mutex_unlock(&log->lock);
    }
}

int log_append(struct log *log, struct log_batch *batch)
{
    uint32_t bytes = batch_bytes(batch);
    struct group *group;
    uint32_t at;
    int rc;

    if (GROUP_HEADER_BYTES + bytes > log->config.group_bytes || batch->count > GROUP_RECORDS_MAX)
        return SHOAL_E_TOO_LARGE;
    pthread_mutex_lock(&log->lock);
    rc = group_with_room(log, bytes, batch->count);
    if (rc) {
        pthread_mutex_unlock(&log->lock);
        return rc;
    }
    group = log->open_group;
    at = group->used;
    reserve(log, group, batch);
    if (group->records == batch->count)
        pthread_cond_signal(&log->work);
    pthread_mutex_unlock(&log->lock);
    copy(log, group, batch, at);
    writer_leave(log, group);
    return 0;
}

/* --- the committer's loop --- */

static uint64_t sync_due_ns(const struct log *log)
{
    return log->unsynced_since_ns + log->config.relaxed_ms * 1000000ull;
}

static bool sync_is_due(struct log *log)
{
    struct clock *clock = log->config.clock;

    return log->unsynced &&
           (log->sync_wanted || log->stopping || clock->monotonic_ns(clock) >= sync_due_ns(log));
}

/* Under the lock: the group to commit next, or NULL. */
static struct group *take_group(struct log *log)
{
    struct group *group;

    if (!log->queue_head && log->open_group && log->open_group->records)
        group_close(log);
    group = log->queue_head;
    if (group) {
        log->queue_head = group->next;
        if (!log->queue_head)
            log->queue_tail = &log->queue_head;
    }
    return group;
}

int log_step(struct log *log)
{
    struct group *group;
    bool due;

    pthread_mutex_lock(&log->lock);
    group = take_group(log);
    due = !group && sync_is_due(log);
    pthread_mutex_unlock(&log->lock);
    if (group) {
        group_settle(log, group);
        group_commit(log, group);
    } else if (due) {
        (void)log_sync(log); /* those who wait see log->failure */
    } else {
        return 0;
    }
    log->config.hooks.moved(log->config.hooks.arg);
    return 1;
}

bool log_wait_work(struct log *log)
{
    bool more;

    pthread_mutex_lock(&log->lock);
    while (!log->stopping && !log->queue_head && !(log->open_group && log->open_group->records) &&
           !sync_is_due(log)) {
        if (log->unsynced) {
            uint64_t due = sync_due_ns(log);
            struct timespec until = {
                .tv_sec = (time_t)(due / 1000000000u), .tv_nsec = (long)(due % 1000000000u)};

            pthread_cond_timedwait(&log->work, &log->lock, &until);
        } else {
            pthread_cond_wait(&log->work, &log->lock);
        }
    }
    more = log->queue_head || (log->open_group && log->open_group->records) || log->unsynced;
    more = more || !log->stopping;
    pthread_mutex_unlock(&log->lock);
    return more;
}

void log_stop(struct log *log)
{
    pthread_mutex_lock(&log->lock);
    log->stopping = true;
    pthread_cond_broadcast(&log->work);
    pthread_cond_broadcast(&log->changed);
    pthread_mutex_unlock(&log->lock);
}

int log_sync_published(struct log *log)
{
    uint64_t target = atomic_load(&log->published_sequence);
    unsigned lost_windows;
    int rc = 0;

    pthread_mutex_lock(&log->lock);
    lost_windows = log->lost_windows;
    while (atomic_load(&log->durable_sequence) < target) {
        rc = log->lost_windows != lost_windows ? SHOAL_E_WRITE_FAILED : log->failure;
        if (rc)
            break;
        log->sync_wanted = true;
        await_committer(log);
    }
    pthread_mutex_unlock(&log->lock);
    return rc;
}

int log_failure(struct log *log)
{
    int code;

    pthread_mutex_lock(&log->lock);
    code = log->failure;
    pthread_mutex_unlock(&log->lock);
    return code;
}

void log_fail_stop(struct log *log, int code)
{
    pthread_mutex_lock(&log->lock);
    if (!log->failure)
        log->failure = code;
    pthread_cond_broadcast(&log->changed);
    pthread_mutex_unlock(&log->lock);
}
