/* Opening: from the files to an index in memory.

   The manifest names the segments; each is opened and replayed in the order of ids, which is the order
   of sequences. A sealed one is replayed from its footer without reading a record; one without, or
   whose footer is damaged, is walked. The last one may end in groups that were never acknowledged:
   walking finds where it ends. Then the store's own records are read: buckets, and blobs to reap.

   Nothing is written here. Before the first append of this life, store_seal_tails records the ends in
   the manifest, writes footers, and so makes sure that nothing is appended after a crash's leftovers.

   A missing segment file, a wrong one (recover_files.c), or a manifest that is damaged fails the open:
   serving what is left would answer "absent" for what was lost. Damage inside a segment costs what it
   hits. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/broken.h"
#include "base/error.h"
#include "base/mem.h"
#include "os/random.h"
#include "store/store_priv.h"
#include "store/volume.h"
#include "store/walk.h"

/* A record of the store's own namespace, seen in replay. */
struct system_place {
    struct hash128 hash;
    struct place place;
};

struct recovery {
    struct shoal *store;
    struct segment *segment; /* being replayed */
    struct system_place *system;
    size_t system_count, system_capacity;
    uint64_t highest_sequence;
};

/* --- identity --- */

static int create_store(struct shoal *store, struct shoal_error *error)
{
    struct manifest *manifest = &store->manifest;
    struct random_source *random = store->config.random;
    struct volume *volume = store->config.volume;
    int rc = random->fill(random, manifest->uuid, sizeof(manifest->uuid));

    if (!rc)
        rc = random->fill(random, manifest->incarnation, sizeof(manifest->incarnation));
    if (!rc)
        rc = random->fill(random, &manifest->hash_seed, sizeof(manifest->hash_seed));
    manifest->block_bytes = volume->block_bytes;
    if (!rc)
        rc = manifest_create(volume, manifest);
    if (rc)
        return error_set(error, rc, "MANIFEST", 0, "can't be written: %s", shoal_strerror(rc));
    return 0;
}

static int load_manifest(struct shoal *store, struct shoal_error *error)
{
    struct volume *volume = store->config.volume;
    int rc = manifest_load(volume, &store->manifest, error);

    if (rc == SHOAL_E_NO_STORE) {
        int unused = store_check_unused(store, error);

        if (unused)
            return unused;
        if (store->config.create && !store->config.read_only)
            return create_store(store, error);
    }
    if (rc)
        return rc;
    if (volume->block_bytes > store->manifest.block_bytes)
        return error_set(error, SHOAL_E_FORMAT, "MANIFEST", 0,
            "the store was made for blocks of %u bytes and this device needs %u: export it where "
            "it was made, and import it here",
            store->manifest.block_bytes, volume->block_bytes);
    volume->block_bytes = store->manifest.block_bytes;
    return 0;
}

/* --- replaying one segment --- */

static int note_system(struct recovery *recovery, const struct log_entry *entry)
{
    if (entry->kind != RECORD_BUCKET && entry->kind != RECORD_OPEN && entry->kind != RECORD_REAP)
        return 0;
    if (recovery->system_count == recovery->system_capacity) {
        size_t capacity = recovery->system_capacity ? 2 * recovery->system_capacity : 64;
        void *grown = mem_resize(recovery->system, capacity * sizeof(*recovery->system));

        if (!grown)
            return -ENOMEM;
        recovery->system = grown;
        recovery->system_capacity = capacity;
    }
    recovery->system[recovery->system_count++] = (struct system_place){
        .hash = entry->hash, .place = {.segment = recovery->segment->dense, .slot = entry->slot}};
    return 0;
}

static int replay_entry(struct recovery *recovery, const struct log_entry *entry)
{
    int rc = note_system(recovery, entry);

    if (!rc)
        rc = store_show(recovery->store, recovery->segment, entry, true);
    if (entry->sequence > recovery->highest_sequence)
        recovery->highest_sequence = entry->sequence;
    if (entry->sequence > recovery->segment->shown_sequence)
        atomic_store(&recovery->segment->shown_sequence, entry->sequence);
    return rc;
}

static int replay_footer(struct recovery *recovery, const struct footer *footer)
{
    int rc = 0;

    for (uint32_t i = 0; !rc && i < footer->count; i++) {
        struct log_entry entry;

        log_entry_listed(footer, i, &entry);
        rc = replay_entry(recovery, &entry);
    }
    return rc;
}

static int walked_record(
    void *arg, const struct record *record, uint64_t offset, bool payload_valid)
{
    struct recovery *recovery = arg;
    struct segment *segment = recovery->segment;
    struct log_entry entry = {.hash = store_hash(recovery->store, &record->key),
        .sequence = record->sequence,
        .slot = (uint32_t)(offset / SLOT_BYTES),
        .slots = record_slots(record),
        .kind = (uint8_t)record->kind,
        .has_prev = record->has_prev,
        .prev = record->prev};
    int rc = footer_add(&segment->footer, entry.hash, entry.sequence, entry.slot, entry.slots,
        record->kind, record->has_prev ? &record->prev : NULL);

    (void)payload_valid; /* a reader of that object is told */
    return rc ? rc : replay_entry(recovery, &entry);
}

/* Synced first and read from the device: the process that wrote it may have died before its sync, or
   after one that failed, and what only the cache holds must not be taken for durable. (Opened
   read-only, the store records no end, and the device alone is asked.) */
static int replay_walk(struct recovery *recovery, bool ended)
{
    struct segment *segment = recovery->segment;
    struct volume *volume = recovery->store->config.volume;
    struct walk walk = {.volume = volume,
        .segment = segment,
        .from = volume->block_bytes,
        .end = ended ? segment->end : UINT64_MAX,
        .direct = true,
        .recovering = true,
        .after_sequence = recovery->highest_sequence,
        .hooks = {.arg = recovery, .record = walked_record}};
    struct walk_result result;
    int rc = recovery->store->config.read_only ? 0 : volume->ops->sync(segment->file);

    if (!rc)
        rc = segment_walk(&walk, &result);
    if (rc)
        return rc;
    if (!ended)
        segment->end = result.end;
    segment->groups = result.groups;
    segment->padding_from = segment->footer.padding_from = result.padding_from;
    recovery->store->damage_at_open += result.damaged;
    /* A footer would leave out what did not pass now, for good. */
    segment->seal_failed = result.damaged > 0;
    return 0;
}

static int replay_segment(struct recovery *recovery, const struct manifest_segment *named)
{
    struct shoal *store = recovery->store;
    struct segment *segment = recovery->segment;
    struct footer footer = {0};
    int rc;

    segment->end = named->end;
    segment->state = named->state;
    segment->footer_bytes = named->footer_bytes;
    if (named->state == SEGMENT_SEALED) {
        rc = footer_read(store->config.volume, segment->file, segment_seed(segment), named->end,
            named->footer_bytes, &footer);
        segment->padding_from = footer.padding_from;
        if (rc == 0)
            rc = replay_footer(recovery, &footer);
        else if (rc == SHOAL_E_CORRUPT) {
            store->damage_at_open++;
            rc = replay_walk(recovery, true);
            footer_done(&segment->footer); /* the one on disk stays as it is */
        }
        footer_done(&footer);
    } else {
        rc = replay_walk(recovery, named->state == SEGMENT_ENDED);
    }
    segment->synced_end = segment->end;
    segment->synced_records = segment->footer.count;
    atomic_store(&segment->shown_end, segment->end);
    return rc;
}

static int open_segment(
    struct recovery *recovery, const struct manifest_segment *named, struct shoal_error *error)
{
    struct shoal *store = recovery->store;
    struct volume *volume = store->config.volume;
    struct segment *segment;
    char file[64];
    int rc = segment_table_add(&store->segments, &segment);

    (void)snprintf(file, sizeof(file), "seg/%016llx", (unsigned long long)named->id);
    if (rc)
        return error_set(error, rc, file, 0, "can't be opened: %s", shoal_strerror(rc));
    segment->id = named->id;
    segment->epoch = named->epoch;
    rc = volume->ops->open(volume, named->id, &segment->file);
    if (rc == -ENOENT)
        return error_set(
            error, SHOAL_E_CORRUPT, file, 0, "is missing: put the file back from a backup");
    if (rc)
        return error_set(error, rc, file, 0, "can't be opened: %s", shoal_strerror(rc));
    rc = store_check_file(store, segment, named, error);
    if (rc)
        return rc;
    recovery->segment = segment;
    atomic_store(&store->segments.count, segment->dense + 1);
    rc = replay_segment(recovery, named);
    if (rc)
        return error_set(error, rc, file, 0, "can't be replayed: %s", shoal_strerror(rc));
    return 0;
}

/* --- the store's own records --- */

static bool is_live(struct shoal *store, const struct system_place *system)
{
    struct candidate candidates[INDEX_CANDIDATES_MAX];
    unsigned count = index_find(store->index, system->hash, candidates);

    for (unsigned i = 0; i < count; i++)
        if (candidates[i].place.segment == system->place.segment &&
            candidates[i].place.slot == system->place.slot)
            return true;
    return false;
}

static int load_system_record(struct shoal *store, const struct system_place *system)
{
    struct segment *segment = segment_table_get(&store->segments, system->place.segment);
    uint64_t offset = (uint64_t)system->place.slot * SLOT_BYTES;
    uint8_t buffer[RECORD_HEAD_MAX + OWNER_MAX];
    struct record record;
    int64_t got = store->config.volume->ops->read_at(segment->file, buffer, sizeof(buffer), offset);
    int rc = got < 0 ? (int)got
                     : record_decode(buffer, (size_t)got, segment_seed(segment), offset, &record);

    if (!rc)
        rc = record.kind == RECORD_BUCKET ? bucket_load(store, &record) : reap_load(store, &record);
    if (rc == SHOAL_E_CORRUPT)
        store->damage_at_open++;
    return rc == SHOAL_E_CORRUPT ? 0 : rc;
}

static int load_system(struct recovery *recovery)
{
    int rc = 0;

    for (size_t i = 0; !rc && i < recovery->system_count; i++)
        if (is_live(recovery->store, &recovery->system[i]))
            rc = load_system_record(recovery->store, &recovery->system[i]);
    return rc;
}

int store_recover(struct shoal *store, struct shoal_error *error)
{
    struct recovery recovery = {.store = store};
    int rc = load_manifest(store, error);

    if (!rc)
        rc = store_check_forgotten(store, error);
    for (size_t i = 0; !rc && i < store->manifest.count; i++)
        rc = open_segment(&recovery, &store->manifest.segments[i], error);
    if (!rc) {
        rc = load_system(&recovery);
        if (rc)
            (void)error_set(error, rc, NULL, 0, "replay failed: %s", shoal_strerror(rc));
    }
    mem_free(recovery.system);
    store->durable_at_open = recovery.highest_sequence;
    return rc;
}

/* --- before the first append --- */

static int highest_id(void *arg, uint64_t segment_id)
{
    uint64_t *highest = arg;

    if (segment_id > *highest)
        *highest = segment_id;
    return 0;
}

int store_next_segment_id(struct shoal *store, uint64_t *ret_id)
{
    uint64_t highest = store->manifest.last_id;
    int rc = store->config.volume->ops->list(store->config.volume, highest_id, &highest);

    *ret_id = highest + 1;
    return rc;
}

/* Stops at a file that the manifest does not name and that holds no group: its creation was cut short.
   One with groups is left alone: it does not come from a crash, and somebody may want it back. */
static int find_unborn(void *arg, uint64_t segment_id)
{
    struct shoal *store = arg;
    const struct volume_ops *ops = store->config.volume->ops;
    struct volume_file *file;
    uint64_t bytes;
    int rc;

    if (segment_id == 0 || manifest_find(&store->manifest, segment_id))
        return 0;
    if (ops->open(store->config.volume, segment_id, &file))
        return 0;
    rc = ops->size(file, &bytes);
    ops->close(file);
    if (rc || bytes > store->config.volume->block_bytes)
        return 0;
    return ops->remove(store->config.volume, segment_id) == 0 ? 1 : 0;
}

void store_remove_unborn(struct shoal *store)
{
    const struct volume_ops *ops = store->config.volume->ops;

    while (ops->list(store->config.volume, find_unborn, store) == 1)
        ;
}

static int seal_tail(struct shoal *store, struct segment *segment)
{
    struct manifest_edit edit = {
        .kind = EDIT_END, .segment = {.id = segment->id, .end = segment->end}};
    int rc = 0;

    if (segment->state == SEGMENT_ACTIVE)
        rc = manifest_commit(store->config.volume, &store->manifest, &edit, 1);
    if (rc)
        return rc;
    segment->state = SEGMENT_ENDED;
    if (!segment->seal_failed && segment_seal(&store->log, segment))
        segment->seal_failed = true; /* it has an end, which is what matters */
    return log_failure(&store->log);
}

int store_seal_tails(struct shoal *store, struct shoal_error *error)
{
    uint32_t count = atomic_load(&store->segments.count);
    int rc = 0;

    for (uint32_t i = 0; !rc && i < count; i++) {
        struct segment *segment = segment_table_get(&store->segments, i);

        if (BROKEN(APPEND_TO_OLD_TAIL) && i == count - 1 && segment->state == SEGMENT_ACTIVE) {
            store->log.segment = segment;
            store->log.epoch = segment->epoch;
            store->log.next_sequence = store->durable_at_open + 1;
            store->log.at_segment_id = segment->id;
            store->log.at_offset = segment->end;
            store->log.at_number = segment->groups + 1;
            continue;
        }
        if (segment->state != SEGMENT_SEALED)
            rc = seal_tail(store, segment);
    }
    if (rc)
        return error_set(error, rc, "MANIFEST", 0, "can't be written: %s", shoal_strerror(rc));
    return 0;
}
