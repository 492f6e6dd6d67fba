/* Comparing the open store with the model: object by object, in listings, in counts, in the index.

   Reading an object means its attributes and every byte. Which put it is, is told by its time, which
   differs for each put; everything else must then agree with that put. Before listings and counts all
   faults are disarmed: they must succeed. Single reads are also tried with a read that fails: then an
   error is right, another object's bytes or "absent" are not. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/md5.h"
#include "lib/need.h"
#include "sim/sim.h"

#define UNREADABLE UINT64_MAX

static const char *bucket_of(const struct slot *slot)
{
    return model_bucket_name(slot->bucket);
}

static bool wrong(struct sim *sim, const struct slot *slot, const char *what, int64_t code)
{
    return sim_mismatch(sim, "%s/%.*s: %s (%lld)", bucket_of(slot), (int)slot->key_length,
        (const char *)slot->key, what, (long long)code);
}

static bool same_stat(
    const struct value *value, const uint8_t *bytes, const struct shoal_stat *stat)
{
    uint8_t md5[16];

    return md5_of(bytes, value->size_bytes, md5) == 0 && stat->size_bytes == value->size_bytes &&
           stat->mtime_ns == value->mtime_ns && memcmp(stat->md5, md5, 16) == 0 &&
           strcmp(stat->content_type, value->content_type) == 0;
}

/* The whole object in pieces of random size, compared. 0, or the error of reading. */
static int64_t read_and_compare(
    struct sim *sim, struct shoal_reader *reader, const struct value *value, const uint8_t *bytes)
{
    uint8_t *piece = need_zero(value->size_bytes + 1);
    uint64_t at = 0;
    int64_t got = 1;

    shoal_reader_set_direct(reader, random_sim_one_in(&sim->random, 2));
    while (got > 0) {
        size_t wanted = random_sim_one_in(&sim->random, 2)
                            ? value->size_bytes + 1
                            : random_sim_below(&sim->random, value->size_bytes + 1) + 1;

        got = shoal_reader_read(reader, at, piece, wanted);
        if (got > 0 && (at + (uint64_t)got > value->size_bytes ||
                           memcmp(piece, bytes + at, (size_t)got) != 0)) {
            got = -EBADMSG;
            break;
        }
        at += got > 0 ? (uint64_t)got : 0;
    }
    free(piece);
    if (got == 0 && at != value->size_bytes)
        return -EBADMSG;
    return got;
}

/* What the store has there, as a value of the model; UNREADABLE with the code. */
static uint64_t observe_object(struct sim *sim, const struct slot *slot, int64_t *ret_code)
{
    struct shoal_reader *reader;
    const struct value *value;
    struct shoal_stat stat;
    uint8_t *bytes;
    int64_t rc =
        shoal_reader_open(sim->store, bucket_of(slot), slot->key, slot->key_length, &reader, &stat);

    sim->counts[COUNT_READS]++;
    *ret_code = rc;
    if (rc == SHOAL_E_ABSENT || rc == SHOAL_E_NO_BUCKET)
        return VALUE_ABSENT;
    if (rc != 0)
        return UNREADABLE;
    value = model_value_at(&sim->model, stat.mtime_ns);
    if (value == NULL) {
        shoal_reader_close(reader);
        *ret_code = -EBADMSG;
        return UNREADABLE;
    }
    bytes = need_zero(value->size_bytes);
    model_value_bytes(value, bytes);
    rc = same_stat(value, bytes, &stat) ? read_and_compare(sim, reader, value, bytes) : -EBADMSG;
    free(bytes);
    shoal_reader_close(reader);
    *ret_code = rc;
    return rc == 0 ? value->number : UNREADABLE;
}

static uint64_t observe_bucket(struct sim *sim, const struct slot *slot, int64_t *ret_code)
{
    struct shoal_bucket bucket;
    int rc = shoal_bucket_stat(sim->store, bucket_of(slot), &bucket);

    *ret_code = rc;
    if (rc == SHOAL_E_NO_BUCKET)
        return VALUE_ABSENT;
    if (rc != 0)
        return UNREADABLE;
    return bucket.is_public ? VALUE_PUBLIC : VALUE_PRIVATE;
}

uint64_t verify_observe(struct sim *sim, const struct slot *slot, int64_t *ret_code)
{
    return slot->is_bucket ? observe_bucket(sim, slot, ret_code)
                           : observe_object(sim, slot, ret_code);
}

static bool verify_slot_under_fire(struct sim *sim, const struct slot *slot)
{
    enum volume_sim_fault fault =
        random_sim_one_in(&sim->random, 2) ? VOLUME_SIM_READ_EIO : VOLUME_SIM_READ_SHORT;
    uint64_t seen;
    int64_t code;

    volume_sim_arm(sim->device, fault, random_sim_below(&sim->random, 3));
    seen = verify_observe(sim, slot, &code);
    volume_sim_disarm_all(sim->device);
    if (seen == UNREADABLE && code == -EBADMSG)
        return wrong(sim, slot, "wrong bytes out of a failing read", code);
    if (seen != UNREADABLE && seen != model_visible(slot))
        return wrong(sim, slot, "a failing read shows another version", (int64_t)seen);
    return true;
}

bool verify_slot(struct sim *sim, const struct slot *slot)
{
    uint64_t seen;
    int64_t code;

    volume_sim_disarm_all(sim->device);
    if (random_sim_one_in(&sim->random, 3) && !verify_slot_under_fire(sim, slot))
        return false;
    seen = verify_observe(sim, slot, &code);
    if (seen == UNREADABLE)
        return wrong(sim, slot, "can't be read as what it should be", code);
    if (seen == model_visible(slot))
        return true;
    if (seen == VALUE_ABSENT)
        return wrong(sim, slot, "is gone", (int64_t)model_visible(slot));
    return wrong(sim, slot,
        model_visible(slot) == VALUE_ABSENT ? "is there and should not be" : "is another version",
        (int64_t)seen);
}

/* --- listings --- */

static int by_key(const void *a, const void *b)
{
    const struct slot *left = *(const struct slot *const *)a;
    const struct slot *right = *(const struct slot *const *)b;
    size_t both = left->key_length < right->key_length ? left->key_length : right->key_length;
    int order = memcmp(left->key, right->key, both);

    return order != 0 ? order : (int)left->key_length - (int)right->key_length;
}

static size_t expected_listing(struct sim *sim, unsigned bucket, const char *prefix,
    const struct slot *after, const struct slot *ret_slots[MODEL_KEYS_PER_BUCKET])
{
    size_t count = 0, prefix_length = strlen(prefix);

    for (unsigned i = 0; i < MODEL_KEYS_PER_BUCKET; i++) {
        const struct slot *slot = model_key(&sim->model, bucket, i);

        if (model_visible(slot) != VALUE_ABSENT && slot->key_length >= prefix_length &&
            memcmp(slot->key, prefix, prefix_length) == 0 &&
            (after == NULL || by_key(&slot, &after) > 0))
            ret_slots[count++] = slot;
    }
    qsort(ret_slots, count, sizeof(ret_slots[0]), by_key);
    return count;
}

static bool entry_matches(struct sim *sim, const struct slot *slot, const struct shoal_entry *entry)
{
    const struct value *value = model_value(&sim->model, model_visible(slot));

    return entry->key_length == slot->key_length &&
           memcmp(entry->key, slot->key, slot->key_length) == 0 &&
           entry->size_bytes == value->size_bytes && entry->mtime_ns == value->mtime_ns &&
           entry->sequence != 0;
}

static bool compare_listing(struct sim *sim, struct shoal_scan *scan, unsigned bucket,
    const struct slot **slots, size_t count)
{
    struct shoal_entry entry;
    int rc;

    for (size_t i = 0; i < count; i++) {
        rc = shoal_scan_next(scan, &entry);
        if (rc == 0)
            return wrong(sim, slots[i], "is not listed", 0);
        if (rc < 0)
            return wrong(sim, slots[i], "listing fails", rc);
        if (!entry_matches(sim, slots[i], &entry))
            return sim_mismatch(sim,
                "bucket %s lists %.*s where %.*s should be, or with other attributes",
                model_bucket_name(bucket), (int)entry.key_length, (const char *)entry.key,
                (int)slots[i]->key_length, (const char *)slots[i]->key);
    }
    rc = shoal_scan_next(scan, &entry);
    if (rc == 1)
        return sim_mismatch(sim, "bucket %s lists %.*s, which should not be there",
            model_bucket_name(bucket), (int)entry.key_length, (const char *)entry.key);
    return rc == 0 || sim_mismatch(sim, "listing fails at its end: %d", rc);
}

static void disarm(struct sim *sim)
{
    volume_sim_disarm_all(sim->device);
    catalogue_memory_fail_after(sim->catalogue, -1);
}

/* Commits what is in flight, and lets a full device or a failed late sync show itself to the writes
   first: what follows must succeed. */
static void settle_writes(struct sim *sim)
{
    disarm(sim);
    if (shoal_flush(sim->store) != 0)
        (void)shoal_flush(sim->store); /* the comparison tells */
    sim_follow(sim);
}

/* Listing and counting show only what is durable: not on a stopped machine, nor while a store that
   has stopped writing holds answers that were not synced (relaxed durability). */
static bool may_refuse(struct sim *sim)
{
    struct log *log = &sim->store->log;

    return sim_stopped(sim) || (log_failure(log) != 0 && atomic_load(&log->published_sequence) !=
                                                             atomic_load(&log->durable_sequence));
}

static bool verify_range(
    struct sim *sim, unsigned bucket, const char *prefix, const struct slot *after)
{
    const struct slot *slots[MODEL_KEYS_PER_BUCKET];
    struct shoal_scan *scan;
    size_t count;
    bool sound;
    int rc = shoal_scan_open(sim->store, model_bucket_name(bucket), prefix, strlen(prefix),
        after != NULL ? after->key : NULL, after != NULL ? after->key_length : 0, &scan);

    if (model_visible(model_bucket(&sim->model, bucket)) == VALUE_ABSENT) {
        if (rc == 0)
            shoal_scan_close(scan);
        return rc == SHOAL_E_NO_BUCKET || sim_mismatch(sim, "listing no bucket: %d", rc);
    }
    if (rc != 0 && may_refuse(sim))
        return true;
    if (rc != 0)
        return sim_mismatch(sim, "can't list %s: %d", model_bucket_name(bucket), rc);
    count = expected_listing(sim, bucket, prefix, after, slots);
    sound = compare_listing(sim, scan, bucket, slots, count);
    shoal_scan_close(scan);
    return sound;
}

bool verify_listing(struct sim *sim, unsigned bucket)
{
    static const char *const prefixes[] = {"", "a", "a/", "a/b/", "\xff"};
    const struct slot *after = NULL;

    settle_writes(sim);
    if (may_refuse(sim))
        return true;
    if (random_sim_one_in(&sim->random, 3))
        after = model_key(
            &sim->model, bucket, (unsigned)random_sim_below(&sim->random, MODEL_KEYS_PER_BUCKET));
    return verify_range(sim, bucket, prefixes[random_sim_below(&sim->random, 5)], after);
}

/* --- counts --- */

static void expected_usage(
    struct sim *sim, unsigned bucket, uint64_t *ret_objects, uint64_t *ret_bytes)
{
    *ret_objects = *ret_bytes = 0;
    for (unsigned i = 0; i < MODEL_KEYS_PER_BUCKET; i++) {
        uint64_t seen = model_visible(model_key(&sim->model, bucket, i));

        if (seen != VALUE_ABSENT) {
            ++*ret_objects;
            *ret_bytes += model_value(&sim->model, seen)->size_bytes;
        }
    }
}

static bool verify_bucket_list(struct sim *sim)
{
    struct shoal_bucket *buckets = NULL;
    size_t count = 0, expected = 0;
    int rc = shoal_bucket_list(sim->store, &buckets, &count);

    for (unsigned i = 0; i < MODEL_BUCKETS; i++)
        expected += model_visible(model_bucket(&sim->model, i)) != VALUE_ABSENT;
    free(buckets);
    if (rc != 0 || count != expected)
        return sim_mismatch(sim, "%zu buckets instead of %zu (%d)", count, expected, rc);
    return true;
}

bool verify_totals(struct sim *sim)
{
    uint64_t all_objects = 0, all_bytes = 0, objects, bytes, has_objects, has_bytes;
    struct shoal_info info;
    int rc;

    settle_writes(sim);
    if (may_refuse(sim))
        return true;
    for (unsigned i = 0; i < MODEL_BUCKETS; i++) {
        if (model_visible(model_bucket(&sim->model, i)) == VALUE_ABSENT)
            continue;
        rc = shoal_bucket_usage(sim->store, model_bucket_name(i), &has_objects, &has_bytes);
        if (rc != 0 && may_refuse(sim))
            return true;
        expected_usage(sim, i, &objects, &bytes);
        if (rc != 0 || objects != has_objects || bytes != has_bytes)
            return sim_mismatch(sim,
                "bucket %s: %llu objects of %llu bytes instead of %llu of %llu (%d)",
                model_bucket_name(i), (unsigned long long)has_objects,
                (unsigned long long)has_bytes, (unsigned long long)objects,
                (unsigned long long)bytes, rc);
        all_objects += objects;
        all_bytes += bytes;
    }
    rc = shoal_info(sim->store, &info);
    if (rc != 0 && may_refuse(sim))
        return true;
    if (rc != 0 || info.objects != all_objects || info.data_bytes != all_bytes)
        return sim_mismatch(sim, "info: %llu objects of %llu bytes instead of %llu of %llu (%d)",
            (unsigned long long)info.objects, (unsigned long long)info.data_bytes,
            (unsigned long long)all_objects, (unsigned long long)all_bytes, rc);
    return verify_bucket_list(sim);
}

/* --- all of it --- */

/* Every record that the index should show once nothing is left to reap. */
static uint64_t expected_records(struct sim *sim)
{
    uint64_t records = 0;

    for (unsigned i = 0; i < MODEL_SLOTS; i++) {
        const struct slot *slot = &sim->model.slots[i];
        uint64_t seen = model_visible(slot);
        uint32_t chunk = sim->profile.chunk_bytes;

        if (seen == VALUE_ABSENT)
            continue;
        records++;
        if (!slot->is_bucket && model_value(&sim->model, seen)->size_bytes > chunk)
            records += (model_value(&sim->model, seen)->size_bytes + chunk - 1) / chunk;
    }
    return records;
}

static bool verify_index(struct sim *sim)
{
    int rc = 1;

    if (log_failure(&sim->store->log) != 0)
        return true;
    for (unsigned steps = 0; steps < 10000 && rc == 1; steps++)
        rc = store_reap_step(sim->store);
    if (rc != 0)
        return sim_mismatch(sim, "reaping does not come to its end: %d", rc);
    if (index_count(sim->store->index) != expected_records(sim))
        return sim_mismatch(sim, "the index has %llu records instead of %llu",
            (unsigned long long)index_count(sim->store->index),
            (unsigned long long)expected_records(sim));
    return true;
}

static void on_finding(void *arg, const struct shoal_finding *finding)
{
    sim_mismatch(arg, "check: %s at %llu: %s", finding->file, (unsigned long long)finding->offset,
        finding->text);
}

static bool verify_check(struct sim *sim)
{
    struct shoal_check_report report = {0};
    int rc = shoal_check(sim->store, on_finding, NULL, sim, &report);

    if (rc != 0)
        return sim_mismatch(sim, "check: %d", rc);
    if (report.damaged > 0)
        return sim_mismatch(sim, "check: %llu damaged", (unsigned long long)report.damaged);
    return sim->failure[0] == 0;
}

bool verify_all(struct sim *sim)
{
    disarm(sim);
    for (unsigned i = 0; i < MODEL_SLOTS; i++) {
        if (!verify_slot(sim, &sim->model.slots[i]))
            return false;
    }
    for (unsigned i = 0; i < MODEL_BUCKETS; i++) {
        if (!verify_range(sim, i, "", NULL))
            return false;
    }
    return verify_totals(sim) && verify_index(sim) && verify_check(sim);
}

bool verify_settle(struct sim *sim)
{
    uint64_t actual[MODEL_SLOTS];

    for (unsigned i = 0; i < MODEL_SLOTS; i++) {
        const struct slot *slot = &sim->model.slots[i];
        int64_t code;

        actual[i] = verify_observe(sim, slot, &code);
        if (actual[i] == UNREADABLE)
            return wrong(sim, slot, "can't be read after a reopen", code);
    }
    if (model_settle(&sim->model, actual))
        return true;
    for (unsigned i = 0; i < MODEL_SLOTS; i++) {
        const struct slot *slot = &sim->model.slots[i];

        if (slot->version_count == 1 && slot->versions[0].value != actual[i])
            return wrong(sim, slot,
                actual[i] == VALUE_ABSENT ? "was answered and is gone"
                                          : "is not the version that was answered",
                (int64_t)actual[i]);
    }
    return sim_mismatch(sim, "no number of writes in their order gives the state after the reopen");
}
