/* The simulated device from outside: making it, crashing it, arming faults, looking and damaging.

   A restart after a power cut settles the fate of everything unsynced: sectors and sizes of each
   file (content_sim.c), and each name that was made or removed since the last dir_sync, on its own.
   A restart after a kill keeps all that, as the kernel would, so that a power cut later on still
   finds it unsynced; what a failed sync left behind may be evicted from the cache.

   Breaches of the contract are kept as a text that the test asks for at its end: the simulated
   store must go on meanwhile, or the breach would hide behind its own error path. */
#include "lib/volume_sim_priv.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "lib/need.h"

struct volume_sim *volume_sim_new(uint64_t seed)
{
    struct volume_sim *sim = need_zero(sizeof(*sim));

    (void)pthread_mutex_init(&sim->lock, NULL); /* never fails for a plain mutex */
    random_sim_init(&sim->random, seed);
    sim->stale = true;
    volume_sim_disarm_all(sim);
    return sim;
}

static void segment_free(struct sim_segment *segment)
{
    content_sim_done(&segment->content);
    free(segment);
}

void volume_sim_free(struct volume_sim *sim)
{
    if (sim == NULL)
        return;
    for (size_t i = 0; i < sim->segment_count; i++)
        segment_free(sim->segments[i]);
    free(sim->segments);
    content_sim_done(&sim->manifest);
    (void)pthread_mutex_destroy(&sim->lock); /* not held: no call is under way */
    free(sim);
}

struct volume *volume_sim_open(struct volume_sim *sim, bool read_only)
{
    struct sim_volume *volume = need_zero(sizeof(*volume));

    volume->volume.ops = &sim_volume_ops;
    volume->volume.block_bytes = VOLUME_SIM_BLOCK_BYTES;
    volume->sim = sim;
    volume->read_only = read_only;
    sim->volumes_open++;
    return &volume->volume;
}

struct sim_segment *sim_find(struct volume_sim *sim, uint64_t segment_id)
{
    for (size_t i = 0; i < sim->segment_count; i++) {
        if (sim->segments[i]->id == segment_id && sim->segments[i]->named)
            return sim->segments[i];
    }
    return NULL;
}

void sim_sweep(struct volume_sim *sim)
{
    size_t kept = 0;

    for (size_t i = 0; i < sim->segment_count; i++) {
        struct sim_segment *segment = sim->segments[i];

        if (segment->named || segment->named_durable || segment->handles > 0)
            sim->segments[kept++] = segment;
        else
            segment_free(segment);
    }
    sim->segment_count = kept;
}

/* --- crashes --- */

void volume_sim_crash_after(struct volume_sim *sim, uint64_t calls)
{
    sim->crash_at = sim->calls + calls;
}

void volume_sim_stop(struct volume_sim *sim)
{
    sim->crashed = true;
}

bool volume_sim_crashed(const struct volume_sim *sim)
{
    return sim->crashed;
}

uint64_t volume_sim_calls(const struct volume_sim *sim)
{
    return sim->calls;
}

enum sim_step sim_step(
    struct volume_sim *sim, const char *what, uint64_t id, uint64_t a, uint64_t b)
{
    if (sim->crashed)
        return SIM_STEP_DEAD;
    sim->calls++;
    sim->crashed = sim->calls == sim->crash_at;
    if (sim->trace != NULL)
        (void)fprintf(sim->trace, "  %6" PRIu64 " %s %" PRIx64 " %" PRIu64 " +%" PRIu64 "%s\n",
            sim->calls, what, id, a, b, sim->crashed ? " CRASH" : ""); /* only for a person */
    return sim->crashed ? SIM_STEP_HALF : SIM_STEP_GO;
}

static const struct content_sim *pick_stale(struct volume_sim *sim)
{
    if (!sim->stale || sim->segment_count == 0 || random_sim_one_in(&sim->random, 2))
        return NULL;
    return &sim->segments[random_sim_below(&sim->random, sim->segment_count)]->content;
}

static void cut_power(struct volume_sim *sim)
{
    /* Chosen one by one, and before any file changes, so that one seed always gives one outcome. */
    for (size_t i = 0; i < sim->segment_count; i++) {
        struct sim_segment *segment = sim->segments[i];
        const struct content_sim *stale = pick_stale(sim);

        if (segment->named != segment->named_durable && random_sim_one_in(&sim->random, 2))
            segment->named_durable = segment->named;
        segment->named = segment->named_durable;
        content_sim_crash(
            &segment->content, &sim->random, stale == &segment->content ? NULL : stale);
    }
    content_sim_crash(&sim->manifest, &sim->random, NULL);
    if (!sim->manifest_named_durable && random_sim_one_in(&sim->random, 2))
        sim->manifest_named_durable = sim->manifest_named;
    if (!sim->manifest_named_durable)
        content_sim_done(&sim->manifest);
    sim->manifest_named = sim->manifest_named_durable;
}

static void evict_all(struct volume_sim *sim)
{
    for (size_t i = 0; i < sim->segment_count; i++)
        content_sim_evict(&sim->segments[i]->content);
    content_sim_evict(&sim->manifest);
}

void volume_sim_restart(struct volume_sim *sim, enum volume_sim_restart how)
{
    if (sim->volumes_open > 0)
        sim_violation(sim, "%u volumes still open at the restart", sim->volumes_open);
    for (size_t i = 0; i < sim->segment_count; i++) {
        if (sim->segments[i]->handles > 0)
            sim_violation(
                sim, "segment %" PRIx64 " still open at the restart", sim->segments[i]->id);
        sim->segments[i]->handles = 0;
    }
    if (how == VOLUME_SIM_POWER_CUT)
        cut_power(sim);
    else if (random_sim_one_in(&sim->random, 2))
        evict_all(sim);
    sim->crashed = false;
    sim->crash_at = 0;
    sim->locked = false;
    sim_sweep(sim);
    if (sim->trace != NULL)
        (void)fprintf(sim->trace, "  restart, %s\n", /* only for a person */
            how == VOLUME_SIM_POWER_CUT ? "power cut" : "killed");
}

/* --- faults --- */

void volume_sim_arm(struct volume_sim *sim, enum volume_sim_fault fault, uint64_t calls)
{
    sim->armed[fault] = (int64_t)calls;
}

void volume_sim_disarm_all(struct volume_sim *sim)
{
    for (int i = 0; i < VOLUME_SIM_FAULTS; i++)
        sim->armed[i] = -1;
}

uint64_t volume_sim_struck(const struct volume_sim *sim, enum volume_sim_fault fault)
{
    return sim->struck[fault];
}

bool sim_strikes(struct volume_sim *sim, enum volume_sim_fault fault)
{
    if (sim->armed[fault] < 0)
        return false;
    if (sim->armed[fault]-- > 0)
        return false;
    sim->struck[fault]++;
    if (sim->trace != NULL)
        (void)fprintf(sim->trace, "  fault %d strikes\n", (int)fault); /* only for a person */
    return true;
}

static uint64_t content_used(const struct content_sim *content)
{
    uint64_t end = content->visible_size;

    if (content->reserved_end > end)
        end = content->reserved_end;
    return round_up(end, VOLUME_SIM_BLOCK_BYTES);
}

uint64_t sim_used(const struct volume_sim *sim)
{
    uint64_t used = content_used(&sim->manifest);

    for (size_t i = 0; i < sim->segment_count; i++) {
        if (sim->segments[i]->named || sim->segments[i]->handles > 0)
            used += content_used(&sim->segments[i]->content);
    }
    return used;
}

bool sim_full(struct volume_sim *sim, uint64_t more)
{
    return more > 0 && sim->capacity_bytes > 0 && sim_used(sim) + more > sim->capacity_bytes;
}

void volume_sim_set_capacity(struct volume_sim *sim, uint64_t bytes)
{
    sim->capacity_bytes = bytes;
}

uint64_t volume_sim_used(struct volume_sim *sim)
{
    return sim_used(sim);
}

void volume_sim_set_stale(struct volume_sim *sim, bool on)
{
    sim->stale = on;
}

/* --- the device --- */

size_t volume_sim_segments(struct volume_sim *sim, uint64_t *ret_ids, size_t max)
{
    size_t count = 0;

    for (size_t i = 0; i < sim->segment_count && count < max; i++) {
        if (sim->segments[i]->named)
            ret_ids[count++] = sim->segments[i]->id;
    }
    return count;
}

int volume_sim_segment_size(struct volume_sim *sim, uint64_t segment_id, uint64_t *ret_bytes)
{
    struct sim_segment *segment = sim_find(sim, segment_id);

    if (segment == NULL)
        return -ENOENT;
    *ret_bytes = segment->content.visible_size;
    return 0;
}

size_t volume_sim_peek(
    struct volume_sim *sim, uint64_t segment_id, void *buffer, size_t length, uint64_t offset)
{
    struct sim_segment *segment = sim_find(sim, segment_id);
    size_t count = 0;

    if (segment == NULL || offset >= segment->content.durable_size)
        return 0;
    while (count < length && offset + count < segment->content.durable_size) {
        ((uint8_t *)buffer)[count] = segment->content.durable[offset + count];
        count++;
    }
    return count;
}

static int flip(struct content_sim *content, uint64_t offset, uint8_t mask)
{
    if (offset >= content->visible_size)
        return -ENOENT;
    content_sim_flip(content, offset, mask);
    return 0;
}

int volume_sim_flip(struct volume_sim *sim, uint64_t segment_id, uint64_t offset, uint8_t mask)
{
    struct sim_segment *segment = sim_find(sim, segment_id);

    return segment != NULL ? flip(&segment->content, offset, mask) : -ENOENT;
}

int volume_sim_flip_manifest(struct volume_sim *sim, uint64_t offset, uint8_t mask)
{
    return flip(&sim->manifest, offset, mask);
}

uint64_t volume_sim_manifest_size(struct volume_sim *sim)
{
    return sim->manifest.visible_size;
}

/* --- the contract --- */

void sim_violation(struct volume_sim *sim, const char *format, ...)
{
    va_list arguments;

    if (sim->violation[0] != 0)
        return;
    va_start(arguments, format);
    /* A text that is cut is still the best there is. */
    (void)vsnprintf(sim->violation, sizeof(sim->violation), format, arguments);
    va_end(arguments);
    if (sim->trace != NULL)
        (void)fprintf(sim->trace, "  BREACH: %s\n", sim->violation); /* only for a person */
}

const char *volume_sim_violation(const struct volume_sim *sim)
{
    return sim->violation[0] != 0 ? sim->violation : NULL;
}

void volume_sim_trace(struct volume_sim *sim, FILE *to)
{
    sim->trace = to;
}
