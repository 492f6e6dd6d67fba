/* The random operations of a simulated life.

   Most hand a write to the store or let it take one step; the others read, list, reopen, crash, or
   arm something. Writes through the asynchronous interface gather in a table until the store answers
   (answered); a group commit may answer many at once. What the store may say depends on the state of
   the device, and is judged where it is said. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/need.h"
#include "sim/sim.h"

/* --- answers --- */

static bool trouble_allowed(const struct sim *sim)
{
    return sim->profile.faults || sim->profile.full || sim_stopped(sim) || sim->rotten;
}

static void judge_order(struct sim *sim, const struct sim_write *write)
{
    for (unsigned i = 0; i < SIM_IN_FLIGHT_MAX; i++) {
        if (sim->writes[i].slot != NULL && sim->writes[i].order < write->order)
            sim_mismatch(sim, "write %llu was answered before write %llu",
                (unsigned long long)write->order, (unsigned long long)sim->writes[i].order);
    }
}

static void judge_stat(
    struct sim *sim, const struct sim_write *write, const struct shoal_stat *stat)
{
    const struct value *value = model_value(&sim->model, write->value);

    if (stat == NULL)
        sim_mismatch(sim, "put %llu was answered without a stat", (unsigned long long)write->order);
    else if (stat->sequence <= sim->highest_sequence)
        sim_mismatch(sim, "put %llu has sequence %llx, not above %llx",
            (unsigned long long)write->order, (unsigned long long)stat->sequence,
            (unsigned long long)sim->highest_sequence);
    else if (stat->size_bytes != value->size_bytes || stat->mtime_ns != value->mtime_ns ||
             strcmp(stat->content_type, value->content_type) != 0)
        sim_mismatch(sim, "put %llu was answered with another's attributes",
            (unsigned long long)write->order);
    else
        sim->highest_sequence = stat->sequence;
}

/* appended: the log had it, so a failure may leave it on the device if the log has stopped. */
static void answer(struct sim *sim, struct slot *slot, uint64_t order, int code, bool appended)
{
    /* First what happened before this answer. */
    sim_follow(sim);
    sim_note(sim, "  write %llu: %d", (unsigned long long)order, code);
    if (code == 0) {
        sim->counts[COUNT_ACKED]++;
        model_acked(slot, order, atomic_load(&sim->store->log.published_sequence));
        if (!sim->profile.relaxed)
            model_durable(&sim->model, UINT64_MAX);
        return;
    }
    sim->counts[COUNT_FAILED]++;
    if (!trouble_allowed(sim))
        sim_mismatch(
            sim, "write %llu failed on a sound device: %d", (unsigned long long)order, code);
    model_failed(slot, order, appended && log_failure(&sim->store->log) != 0);
}

static void answered(void *arg, int code, const struct shoal_stat *stat)
{
    struct sim_write *write = arg;
    struct sim *sim = write->sim;

    if (code == 0) {
        judge_order(sim, write);
        if (write->value != VALUE_ABSENT)
            judge_stat(sim, write, stat);
    }
    answer(sim, write->slot, write->order, code, true);
    write->slot = NULL;
}

/* --- writes --- */

static struct sim_write *free_write(struct sim *sim)
{
    for (unsigned i = 0; i < SIM_IN_FLIGHT_MAX; i++) {
        if (sim->writes[i].slot == NULL)
            return &sim->writes[i];
    }
    return NULL;
}

static struct slot *any_key(struct sim *sim)
{
    return model_key(&sim->model, (unsigned)random_sim_below(&sim->random, MODEL_BUCKETS),
        (unsigned)random_sim_below(&sim->random, MODEL_KEYS_PER_BUCKET));
}

static uint64_t bucket_state(struct sim *sim, unsigned bucket)
{
    return model_visible(model_bucket(&sim->model, bucket));
}

/* An answer before anything was appended. */
static void refused(struct sim *sim, struct slot *slot, uint64_t order, int code, int expected)
{
    if (expected != 0 && code != expected && !trouble_allowed(sim))
        sim_mismatch(
            sim, "write %llu: %d instead of %d", (unsigned long long)order, code, expected);
    sim_note(sim, "  refused: %d", code);
    if (expected == 0 && !trouble_allowed(sim))
        sim_mismatch(
            sim, "write %llu refused on a sound device: %d", (unsigned long long)order, code);
    model_failed(slot, order, false);
}

static uint32_t any_size(struct sim *sim, uint32_t most)
{
    static const uint32_t bounds[] = {1, 100, 1500, 9000, 70000};
    uint32_t bound = bounds[random_sim_below(&sim->random, 5)];

    if (random_sim_one_in(&sim->random, 16))
        return most;
    return (uint32_t)random_sim_below(&sim->random, (bound < most ? bound : most) + 1);
}

static struct shoal_attrs attrs_of(const struct value *value)
{
    return (struct shoal_attrs){.content_type = value->content_type, .mtime_ns = value->mtime_ns};
}

static bool put_start(struct sim *sim)
{
    struct slot *slot = any_key(sim);
    uint32_t size = any_size(sim, sim->profile.chunk_bytes);
    const struct value *value = model_value(&sim->model, model_value_new(&sim->model, size));
    struct shoal_attrs attrs = attrs_of(value);
    struct sim_write *write = free_write(sim);
    uint8_t *bytes = need_zero(size);
    uint64_t order = model_begin(&sim->model, slot, value->number);
    int rc;

    if (write == NULL)
        abort(); /* sim_act has made room */
    model_value_bytes(value, bytes);
    *write = (struct sim_write){.sim = sim, .slot = slot, .order = order, .value = value->number};
    sim_note(sim, "put %llu of %u bytes: %s/%.*s", (unsigned long long)order, size,
        model_bucket_name(slot->bucket), (int)slot->key_length, (const char *)slot->key);
    rc = shoal_put_start(sim->store, model_bucket_name(slot->bucket), slot->key, slot->key_length,
        bytes, size, &attrs, answered, write);
    free(bytes);
    if (rc != 0) {
        write->slot = NULL;
        refused(sim, slot, order, rc,
            bucket_state(sim, slot->bucket) == VALUE_ABSENT ? SHOAL_E_NO_BUCKET : 0);
    } else if (bucket_state(sim, slot->bucket) == VALUE_ABSENT) {
        return sim_mismatch(sim, "put %llu into no bucket", (unsigned long long)order);
    }
    return true;
}

static bool delete_start(struct sim *sim)
{
    struct slot *slot = any_key(sim);
    struct sim_write *write = free_write(sim);
    uint64_t order = model_begin(&sim->model, slot, VALUE_ABSENT);
    bool was_there;
    int rc;

    if (write == NULL)
        abort(); /* sim_act has made room */
    *write = (struct sim_write){.sim = sim, .slot = slot, .order = order};
    sim_note(sim, "delete %llu: %s/%.*s", (unsigned long long)order,
        model_bucket_name(slot->bucket), (int)slot->key_length, (const char *)slot->key);
    rc = shoal_delete_start(
        sim->store, model_bucket_name(slot->bucket), slot->key, slot->key_length, answered, write);
    /* Looked at now: the store has first committed what was in flight under this key. */
    was_there = model_visible(slot) != VALUE_ABSENT;
    if (rc != 0) {
        write->slot = NULL;
        if (bucket_state(sim, slot->bucket) == VALUE_ABSENT)
            refused(sim, slot, order, rc, SHOAL_E_NO_BUCKET);
        else
            refused(sim, slot, order, rc, was_there ? 0 : SHOAL_E_ABSENT);
    } else if (!was_there) {
        return sim_mismatch(sim, "delete %llu of nothing", (unsigned long long)order);
    }
    return true;
}

/* Larger than a chunk, or streamed, or both. */
static int stream(struct sim *sim, const struct slot *slot, const struct value *value,
    const uint8_t *bytes, bool abandon, struct shoal_stat *ret_stat)
{
    struct shoal_attrs attrs = attrs_of(value);
    struct shoal_writer *writer;
    uint32_t at = 0;
    int rc = shoal_writer_open(
        sim->store, model_bucket_name(slot->bucket), slot->key, slot->key_length, &attrs, &writer);

    if (rc != 0)
        return rc;
    while (rc == 0 && at < value->size_bytes) {
        uint32_t left = value->size_bytes - at;
        uint32_t part = (uint32_t)random_sim_below(&sim->random, left) + 1;

        rc = shoal_writer_write(writer, bytes + at, part);
        at += part;
    }
    if (rc == 0 && !abandon)
        return shoal_writer_commit(writer, ret_stat);
    shoal_writer_abort(writer);
    return rc != 0 ? rc : -ECANCELED;
}

static bool put_large(struct sim *sim)
{
    struct slot *slot = any_key(sim);
    uint32_t size = any_size(sim, sim->profile.chunk_bytes * 4) +
                    (random_sim_one_in(&sim->random, 2) ? sim->profile.chunk_bytes : 0);
    const struct value *value = model_value(&sim->model, model_value_new(&sim->model, size));
    bool abandon = random_sim_one_in(&sim->random, 6);
    uint64_t order = model_begin(&sim->model, slot, value->number);
    bool no_bucket = bucket_state(sim, slot->bucket) == VALUE_ABSENT;
    bool stopped = log_failure(&sim->store->log) != 0;
    uint8_t *bytes = need_zero(size);
    struct shoal_stat stat;
    int rc;

    model_value_bytes(value, bytes);
    sim_note(sim, "large put %llu of %u bytes%s: %s/%.*s", (unsigned long long)order, size,
        abandon ? ", abandoned" : "", model_bucket_name(slot->bucket), (int)slot->key_length,
        (const char *)slot->key);
    if (abandon || random_sim_one_in(&sim->random, 2)) {
        rc = stream(sim, slot, value, bytes, abandon, &stat);
    } else {
        struct shoal_attrs attrs = attrs_of(value);

        rc = shoal_put(sim->store, model_bucket_name(slot->bucket), slot->key, slot->key_length,
            bytes, size, &attrs, &stat);
    }
    free(bytes);
    if (no_bucket || abandon || stopped) {
        if (rc == 0)
            return sim_mismatch(sim, "large put %llu succeeded", (unsigned long long)order);
        refused(sim, slot, order, rc, no_bucket ? SHOAL_E_NO_BUCKET : abandon ? -ECANCELED : rc);
        return true;
    }
    if (rc == 0) {
        struct sim_write write = {.sim = sim, .slot = slot, .order = order, .value = value->number};

        judge_stat(sim, &write, &stat);
    }
    answer(sim, slot, order, rc, true);
    return true;
}

static bool change_bucket(struct sim *sim)
{
    unsigned bucket = (unsigned)random_sim_below(&sim->random, MODEL_BUCKETS);
    struct slot *slot = model_bucket(&sim->model, bucket);
    const char *name = model_bucket_name(bucket);
    uint64_t now = model_visible(slot);
    bool is_public = random_sim_one_in(&sim->random, 2);
    bool stopped = log_failure(&sim->store->log) != 0;
    uint64_t order;
    int rc, expected = 0;

    if (now == VALUE_ABSENT) {
        order = model_begin(&sim->model, slot, is_public ? VALUE_PUBLIC : VALUE_PRIVATE);
        rc = shoal_bucket_create(sim->store, name, is_public);
    } else if (random_sim_one_in(&sim->random, 4)) {
        order = model_begin(&sim->model, slot, VALUE_ABSENT);
        rc = shoal_bucket_delete(sim->store, name);
        for (unsigned i = 0; i < MODEL_KEYS_PER_BUCKET; i++) {
            if (model_visible(model_key(&sim->model, bucket, i)) != VALUE_ABSENT)
                expected = SHOAL_E_NOT_EMPTY;
        }
    } else {
        order = model_begin(&sim->model, slot, is_public ? VALUE_PUBLIC : VALUE_PRIVATE);
        rc = shoal_bucket_set_public(sim->store, name, is_public);
    }
    sim_note(sim, "bucket %s, write %llu: %d", name, (unsigned long long)order, rc);
    if (rc != 0 && (expected != 0 || stopped)) {
        refused(sim, slot, order, rc, expected != 0 ? expected : rc);
        return true;
    }
    if (expected != 0)
        return sim_mismatch(sim, "bucket %s deleted with objects in it", name);
    answer(sim, slot, order, rc, true);
    return true;
}

/* --- steps --- */

static bool commit_step(struct sim *sim)
{
    int rc = store_commit_step(sim->store);

    sim_note(sim, "commit step: %d", rc);
    if (rc < 0 && !trouble_allowed(sim))
        return sim_mismatch(sim, "commit step failed on a sound device: %d", rc);
    return true;
}

bool sim_commit_all(struct sim *sim)
{
    for (unsigned steps = 0; steps < 1000; steps++) {
        unsigned in_flight = 0;

        for (unsigned i = 0; i < SIM_IN_FLIGHT_MAX; i++)
            in_flight += sim->writes[i].slot != NULL;
        if (in_flight == 0) {
            sim_follow(sim);
            return sim->failure[0] == 0;
        }
        if (!commit_step(sim))
            return false;
        sim_follow(sim);
    }
    return sim_mismatch(sim, "writes are not answered");
}

static bool background_step(struct sim *sim)
{
    static const struct {
        int (*step)(struct shoal *store);
        const char *name;
    } steps[] = {
        {store_catalogue_step, "catalogue"}, {store_seal_step, "seal"}, {store_reap_step, "reap"}};
    size_t chosen = random_sim_below(&sim->random, 3);
    int rc = steps[chosen].step(sim->store);

    sim_note(sim, "%s step: %d", steps[chosen].name, rc);
    if (rc < 0 && !trouble_allowed(sim))
        return sim_mismatch(sim, "%s step failed on a sound device: %d", steps[chosen].name, rc);
    return true;
}

static bool flush(struct sim *sim)
{
    int rc;

    if (!sim_commit_all(sim))
        return false;
    rc = shoal_flush(sim->store);
    sim_note(sim, "flush: %d", rc);
    sim_follow(sim);
    if (rc == 0)
        model_durable(&sim->model, UINT64_MAX);
    else if (!trouble_allowed(sim))
        return sim_mismatch(sim, "flush failed on a sound device: %d", rc);
    return true;
}

/* --- trouble --- */

enum volume_sim_fault sim_any_fault(struct sim *sim)
{
    uint64_t draw = random_sim_below(&sim->random, VOLUME_SIM_FAULTS);

    return draw == VOLUME_SIM_READ_SHORT ? VOLUME_SIM_SYNC_EIO_LOST : (enum volume_sim_fault)draw;
}

static void arm_something(struct sim *sim)
{
    struct random_sim *random = &sim->random;
    enum volume_sim_fault fault = sim_any_fault(sim);

    if (sim->profile.full && random_sim_one_in(random, 4))
        volume_sim_set_capacity(
            sim->device, random_sim_one_in(random, 2)
                             ? 0
                             : volume_sim_used(sim->device) + random_sim_below(random, 64) * 4096);
    if (!sim->profile.faults)
        return;
    if (random_sim_one_in(random, 6))
        catalogue_memory_fail_after(sim->catalogue, (int64_t)random_sim_below(random, 4));
    else
        volume_sim_arm(sim->device, fault, random_sim_below(random, 8));
    sim_note(sim, "armed fault %d", (int)fault);
}

static bool crash_or_reopen(struct sim *sim)
{
    struct random_sim *random = &sim->random;

    if (!sim->profile.crashes || random_sim_one_in(random, 4))
        return sim_close_cleanly(sim) && sim_reopen(sim);
    if (random_sim_one_in(random, 3)) {
        volume_sim_crash_after(sim->device, 1 + random_sim_below(random, 15));
        return true;
    }
    return sim_crash(sim, random_sim_one_in(random, 3) ? VOLUME_SIM_KILLED : VOLUME_SIM_POWER_CUT);
}

static void move_clock(struct sim *sim)
{
    clock_sim_advance(&sim->clock, random_sim_below(&sim->random, 100000000));
    if (random_sim_one_in(&sim->random, 4))
        clock_sim_jump(
            &sim->clock, (int64_t)random_sim_below(&sim->random, 20000000000000) - 10000000000000);
}

bool sim_still_writable(struct sim *sim)
{
    for (unsigned i = 0; i < MODEL_BUCKETS; i++) {
        struct slot *slot = model_bucket(&sim->model, i);
        uint64_t order = model_begin(&sim->model, slot, VALUE_PRIVATE);
        int rc = model_visible(slot) == VALUE_ABSENT
                     ? shoal_bucket_create(sim->store, model_bucket_name(i), false)
                     : shoal_bucket_set_public(sim->store, model_bucket_name(i), false);

        answer(sim, slot, order, rc, true);
    }
    for (unsigned i = 0; i < MODEL_BUCKETS; i++) {
        if (!put_start(sim) || !sim_commit_all(sim))
            return false;
    }
    return sim->failure[0] == 0;
}

/* --- one of them --- */

static bool act_once(struct sim *sim)
{
    uint64_t draw = random_sim_below(&sim->random, 100);

    if (free_write(sim) == NULL && !sim_commit_all(sim))
        return false;
    if (draw < 32)
        return put_start(sim);
    if (draw < 42)
        return delete_start(sim);
    if (draw < 60)
        return commit_step(sim);
    if (draw < 65)
        return put_large(sim);
    if (draw < 69)
        return change_bucket(sim);
    if (draw < 79)
        return background_step(sim);
    if (draw < 86)
        return verify_slot(sim, any_key(sim));
    if (draw < 89)
        return verify_listing(sim, (unsigned)random_sim_below(&sim->random, MODEL_BUCKETS));
    if (draw < 91)
        return flush(sim);
    if (draw < 93)
        return verify_totals(sim);
    if (draw < 95)
        move_clock(sim);
    else if (draw < 98)
        arm_something(sim);
    else
        return crash_or_reopen(sim);
    return true;
}

bool sim_act(struct sim *sim)
{
    bool sound = act_once(sim);

    if (!sound || sim->failure[0] != 0)
        return false;
    sim_follow(sim);
    if (sim_stopped(sim))
        return sim_crash(
            sim, random_sim_one_in(&sim->random, 3) ? VOLUME_SIM_KILLED : VOLUME_SIM_POWER_CUT);
    /* A store that has stopped writing is opened again, sooner or later. */
    if (log_failure(&sim->store->log) != 0) {
        sim->counts[COUNT_STOPS]++;
        if (random_sim_one_in(&sim->random, 4))
            return sim_close_cleanly(sim) && sim_reopen(sim);
    }
    return true;
}
