/* The committer: from a filled group to acknowledged writes.

   The happy path is group_commit: begin a new segment if the group belongs to one, ask for room,
   write the group's header and bytes in one aligned write, sync, publish each record, acknowledge.
   With relaxed durability the sync comes later (log_sync) and acknowledging does not wait for it.

   What can fail, and what follows:
   - No room, or no new segment, before a byte of the group was written: the writes fail, and their
     places are handed out again. A disk that has room later takes writes later.
   - A write or a sync: the bytes may be on the device or not, and no second try would tell. The
     manifest records durably where the segment's synced groups end, and replay reads no further;
     the next group begins a new segment. What was published and not synced is taken back.
   - The manifest itself: nobody knows which of two states is durable, so the store takes no more
     writes until it is opened again. */
#include <errno.h>
#include <string.h>

#include <shoal/error.h>

#include "base/broken.h"
#include "base/bytes.h"
#include "base/mem.h"
#include "os/clock.h"
#include "store/log_priv.h"
#include "store/volume.h"

#define RESERVE_MIN_BYTES (1ull << 20)
#define RESERVE_MAX_BYTES (64ull << 20)

static int manifest_edit(struct log *log, const struct manifest_edit *edits, size_t count)
{
    int rc;

    pthread_mutex_lock(&log->manifest_lock);
    rc = manifest_commit(log->config.volume, log->config.manifest, edits, count);
    pthread_mutex_unlock(&log->manifest_lock);
    if (rc)
        log_fail_stop(log, SHOAL_E_READ_ONLY);
    return rc;
}

static struct manifest_edit end_edit(const struct segment *segment, uint64_t end)
{
    return (struct manifest_edit){.kind = EDIT_END, .segment = {.id = segment->id, .end = end}};
}

static int file_sync(struct log *log, struct volume_file *file)
{
    int rc;

    if (BROKEN(SYNC_OMITTED))
        return 0;
    rc = log->config.volume->ops->sync(file);
    if (rc && BROKEN(FAILED_SYNC_RETRIED))
        rc = log->config.volume->ops->sync(file);
    return rc;
}

static int dir_sync(struct log *log)
{
    return BROKEN(DIR_SYNC_OMITTED) ? 0 : log->config.volume->ops->dir_sync(log->config.volume);
}

/* --- a new segment --- */

static int write_superblock(struct log *log, struct segment *segment)
{
    const struct manifest *manifest = log->config.manifest;
    struct superblock superblock = {.hash_seed = manifest->hash_seed,
        .segment_id = segment->id,
        .epoch = segment->epoch,
        .block_bytes = manifest->block_bytes,
        .kind = SEGMENT_LOG};
    uint8_t *block = mem_aligned(superblock.block_bytes, superblock.block_bytes);
    int rc;

    if (!block)
        return -ENOMEM;
    memcpy(superblock.uuid, manifest->uuid, sizeof(superblock.uuid));
    superblock_encode(&superblock, block);
    rc = log->config.volume->ops->write_at(segment->file, block, superblock.block_bytes, 0);
    mem_free(block);
    return rc;
}

/* The file with its superblock, durable under its name. */
static int create_file(struct log *log, struct segment *segment)
{
    struct volume *volume = log->config.volume;
    int rc = volume->ops->create(volume, segment->id, &segment->file);

    if (rc)
        return rc;
    rc = write_superblock(log, segment);
    if (!rc)
        rc = file_sync(log, segment->file);
    if (!rc)
        rc = dir_sync(log);
    if (rc) {
        volume->ops->close(segment->file);
        segment->file = NULL;
        (void)volume->ops->remove(volume, segment->id); /* an orphan is harmless: open skips it */
    }
    return rc;
}

/* The old segment's end and the new one's beginning are one entry of the manifest. */
static int segment_begin(struct log *log, const struct group *group)
{
    struct segment *segment, *old = log->segment;
    struct manifest_edit edits[2];
    size_t count = 0;
    int rc = segment_table_add(log->config.segments, &segment);

    if (rc)
        return rc;
    segment->id = group->segment_id;
    segment->epoch = log->epoch;
    rc = create_file(log, segment);
    if (rc)
        return rc;
    if (old && old->state == SEGMENT_ACTIVE)
        edits[count++] = end_edit(old, old->end);
    edits[count++] = (struct manifest_edit){.kind = EDIT_SEGMENT,
        .segment = {.id = segment->id, .epoch = segment->epoch, .kind = SEGMENT_LOG}};
    rc = manifest_edit(log, edits, count);
    if (rc)
        return rc;
    if (old && old->state == SEGMENT_ACTIVE)
        old->state = SEGMENT_ENDED;
    segment->end = segment->synced_end = segment->reserved = group->offset;
    atomic_store(&segment->shown_end, group->offset);
    atomic_store(&log->config.segments->count, segment->dense + 1);
    log->segment = segment;
    return 0;
}

/* --- writing --- */

/* Room grows with the segment, so that a small store stays small. */
static int reserve_room(struct log *log, struct segment *segment, uint64_t end)
{
    const struct volume_ops *ops = log->config.volume->ops;
    uint64_t step = segment->end / 4, wanted;
    int rc;

    if (end <= segment->reserved)
        return 0;
    step = step < RESERVE_MIN_BYTES ? RESERVE_MIN_BYTES : step;
    step = step > RESERVE_MAX_BYTES ? RESERVE_MAX_BYTES : step;
    wanted = round_up(end + step, log->config.volume->block_bytes);
    rc = ops->reserve(segment->file, wanted);
    if (rc == -ENOSPC) {
        wanted = end;
        rc = ops->reserve(segment->file, wanted);
    }
    if (!rc)
        segment->reserved = wanted;
    return rc;
}

static int write_group(struct log *log, struct segment *segment, struct group *group)
{
    uint32_t length = (uint32_t)round_up(group->used, log->config.volume->block_bytes);
    struct group_header header = {.number = group->number,
        .first_sequence = group->first_sequence,
        .records = group->records,
        .length = group->used,
        .durable_through = atomic_load(&log->durable_sequence)};

    group_encode(&header, segment_seed(segment), group->offset, group->buffer);
    memset(group->buffer + group->used, 0, length - group->used);
    return log->config.volume->ops->write_at(segment->file, group->buffer, length, group->offset);
}

/* --- publishing --- */

static int publish(struct log *log, struct segment *segment, const struct group *group)
{
    const struct log_hooks *hooks = &log->config.hooks;
    int first_failure = 0;

    /* First, so that whoever sees a record published finds its group when it walks the segment. */
    atomic_store(&segment->shown_sequence, group->first_sequence + group->records - 1);
    atomic_store(&segment->shown_end,
        group->offset + round_up(group->used, log->config.volume->block_bytes));
    for (uint32_t i = 0; i < group->records; i++) {
        const struct log_entry *entry = &group->entries[i];
        uint64_t offset = (uint64_t)entry->slot * SLOT_BYTES;
        int rc;

        /* Room was made before the group was written. */
        (void)footer_add(&segment->footer, entry->hash, entry->sequence, entry->slot, entry->slots,
            entry->kind, entry->has_prev ? &entry->prev : NULL);
        rc = hooks->publish(hooks->arg, segment, entry, group->buffer + (offset - group->offset));
        first_failure = first_failure ? first_failure : rc;
    }
    atomic_store(&log->published_sequence, group->first_sequence + group->records - 1);
    if (first_failure)
        log_fail_stop(log, first_failure);
    return first_failure;
}

void log_entry_listed(const struct footer *footer, uint32_t index, struct log_entry *ret_entry)
{
    const struct footer_entry *from = &footer->entries[index];

    *ret_entry = (struct log_entry){.hash = from->hash,
        .sequence = footer_sequence(footer, from),
        .slot = from->slot,
        .slots = from->slots,
        .kind = from->kind,
        .has_prev = from->has_prev};
    if (from->has_prev)
        ret_entry->prev = footer->prevs[from->prev_index];
}

/* Takes back what was published behind the last sync. */
static void unpublish(struct log *log, struct segment *segment)
{
    struct footer *footer = &segment->footer;

    while (footer->count > segment->synced_records) {
        struct log_entry entry;

        log_entry_listed(footer, footer->count - 1, &entry);
        log->config.hooks.unpublish(log->config.hooks.arg, segment, &entry);
        footer_truncate(footer, footer->count - 1);
    }
    atomic_store(&segment->shown_end, segment->synced_end);
    atomic_store(&log->published_sequence, atomic_load(&log->durable_sequence));
}

/* --- syncing --- */

static void mark_synced(struct log *log, struct segment *segment)
{
    segment->synced_end = segment->end;
    segment->synced_records = segment->footer.count;
    log->unsynced = false;
    atomic_store(&log->durable_sequence, atomic_load(&log->published_sequence));
    pthread_mutex_lock(&log->lock);
    log->sync_wanted = false;
    pthread_cond_broadcast(&log->changed);
    pthread_mutex_unlock(&log->lock);
}

/* Fails all groups behind `first` (which is not in the queue any more; may be NULL) and hands their
   places out again: from `offset` in the same segment, or from a new one. */
static void fail_in_flight(struct log *log, struct group *first, uint64_t segment_id, int code)
{
    struct group *group;

    pthread_mutex_lock(&log->lock);
    if (log->open_group)
        group_close(log);
    group = log->queue_head;
    log->queue_head = NULL;
    log->queue_tail = &log->queue_head;
    log->at_segment_id = segment_id;
    if (segment_id) {
        log->at_offset = first->offset;
        log->at_number = first->number;
        log->at_records = log->segment->footer.count;
    }
    pthread_mutex_unlock(&log->lock);
    while (group) {
        struct group *next = group->next; /* finish reuses it */

        group_settle(log, group);
        group_finish(log, group, code);
        group = next;
    }
    if (first)
        group_finish(log, first, code);
}

/* After a write or sync of which nobody knows what it left: the segment ends at its last sync. */
static void end_after_failure(struct log *log, struct group *group, int code)
{
    struct segment *segment = log->segment;
    struct manifest_edit edit = end_edit(segment, segment->synced_end);

    if (log->unsynced) {
        unpublish(log, segment);
        log->unsynced = false;
        pthread_mutex_lock(&log->lock);
        log->lost_windows++;
        log->sync_wanted = false;
        pthread_cond_broadcast(&log->changed);
        pthread_mutex_unlock(&log->lock);
    }
    segment->end = segment->synced_end;
    if (manifest_edit(log, &edit, 1) == 0)
        segment->state = SEGMENT_ENDED;
    fail_in_flight(log, group, 0, code);
}

int log_sync(struct log *log)
{
    int rc = file_sync(log, log->segment->file);

    if (rc)
        end_after_failure(log, NULL, SHOAL_E_WRITE_FAILED);
    else
        mark_synced(log, log->segment);
    return rc;
}

/* --- a group's way --- */

/* All that can fail before a byte of the group is written. */
static int prepare(struct log *log, struct group *group)
{
    uint64_t end = group->offset + round_up(group->used, log->config.volume->block_bytes);
    int rc = log_failure(log);

    if (!rc && group->begins_segment && log->unsynced)
        rc = log_sync(log);
    if (!rc && group->begins_segment)
        rc = segment_begin(log, group);
    if (!rc)
        rc = footer_reserve(&log->segment->footer, group->records, group->prevs);
    if (!rc)
        rc = reserve_room(log, log->segment, end);
    return rc;
}

static void note_unsynced(struct log *log)
{
    struct clock *clock = log->config.clock;

    if (!log->unsynced)
        log->unsynced_since_ns = clock->monotonic_ns(clock);
    log->unsynced = true;
}

void group_commit(struct log *log, struct group *group)
{
    bool sync_now = !log->config.relaxed || group->force_sync;
    struct segment *segment;
    int rc = prepare(log, group);

    if (rc) {
        /* Nothing of it was written: its place is free again, unless its segment did not begin. */
        bool same = log->segment && log->segment->id == group->segment_id &&
                    log->segment->state == SEGMENT_ACTIVE;

        fail_in_flight(log, group, same ? group->segment_id : 0, rc);
        return;
    }
    segment = log->segment;
    if (BROKEN(PUBLISH_BEFORE_SYNC))
        (void)publish(log, segment, group);
    rc = write_group(log, segment, group);
    if (!rc && sync_now)
        rc = file_sync(log, segment->file);
    if (rc) {
        end_after_failure(log, group, rc == -ENOSPC ? rc : SHOAL_E_WRITE_FAILED);
        return;
    }
    segment->end = group->offset + round_up(group->used, log->config.volume->block_bytes);
    segment->groups = group->number;
    if (!BROKEN(PUBLISH_BEFORE_SYNC))
        rc = publish(log, segment, group);
    if (sync_now)
        mark_synced(log, segment);
    else
        note_unsynced(log);
    group_finish(log, group, rc);
}

/* --- ending and sealing --- */

int log_end_segment(struct log *log)
{
    struct segment *segment = log->segment;
    struct manifest_edit edit;
    int rc;

    if (!segment || segment->state != SEGMENT_ACTIVE)
        return 0;
    if (log->unsynced) {
        rc = log_sync(log);
        if (rc)
            return rc;
    }
    edit = end_edit(segment, segment->end);
    rc = manifest_edit(log, &edit, 1);
    if (rc)
        return rc;
    segment->state = SEGMENT_ENDED;
    pthread_mutex_lock(&log->lock);
    log->at_segment_id = 0;
    pthread_mutex_unlock(&log->lock);
    return 0;
}

int segment_seal(struct log *log, struct segment *segment)
{
    struct volume *volume = log->config.volume;
    struct manifest_edit edit = {
        .kind = EDIT_SEALED, .segment = {.id = segment->id, .end = segment->end}};
    int rc;

    footer_sort(&segment->footer);
    rc = footer_write(&segment->footer, volume, segment->file, segment_seed(segment), segment->end,
        &edit.segment.footer_bytes);
    if (rc)
        return rc;
    rc = volume->ops->trim(segment->file, segment->end + edit.segment.footer_bytes);
    if (!rc)
        rc = volume->ops->sync(segment->file);
    if (!rc)
        rc = manifest_edit(log, &edit, 1);
    if (rc)
        return rc;
    segment->footer_bytes = edit.segment.footer_bytes;
    segment->state = SEGMENT_SEALED;
    footer_done(&segment->footer);
    return 0;
}
