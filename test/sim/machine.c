/* Opening, closing and crashing the simulated machine.

   After every opening the state is settled against the model (verify_settle), so an open store and
   the model always agree on what is visible. An opening may itself run into a crash or an armed
   fault; then it is repeated on a machine without either, as an operator would, and must succeed. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "sim/sim.h"

bool sim_mismatch(struct sim *sim, const char *format, ...)
{
    va_list arguments;

    if (sim->failure[0] != 0)
        return false;
    va_start(arguments, format);
    /* A text that is cut is still the best there is. */
    (void)vsnprintf(sim->failure, sizeof(sim->failure), format, arguments);
    va_end(arguments);
    return false;
}

void sim_note(struct sim *sim, const char *format, ...)
{
    va_list arguments;

    if (!sim->tracing)
        return;
    va_start(arguments, format);
    (void)vprintf(format, arguments); /* only for a person */
    (void)putchar('\n');
    va_end(arguments);
}

static int open_catalogue(void *arg, const uint8_t identity[32], uint64_t durable_sequence,
    struct catalogue **ret_catalogue, struct shoal_error *error)
{
    return catalogue_memory_open(arg, identity, durable_sequence, ret_catalogue, error);
}

static int try_open(struct sim *sim, bool read_only, struct shoal_error *error)
{
    struct store_config config = {
        .volume = volume_sim_open(sim->device, read_only),
        .clock = &sim->clock.clock,
        .random = &sim->store_random.source,
        .catalogue_open = open_catalogue,
        .catalogue_arg = sim->catalogue,
        .create = !read_only,
        .read_only = read_only,
        .relaxed = sim->profile.relaxed,
        .relaxed_ms = 50,
        .segment_bytes = sim->profile.segment_bytes,
        .group_bytes = sim->profile.group_bytes,
        .chunk_bytes = sim->profile.chunk_bytes,
        .group_buffers = sim->profile.group_buffers,
    };

    return store_open(&config, &sim->store, error);
}

static void forget_writes(struct sim *sim)
{
    for (unsigned i = 0; i < SIM_IN_FLIGHT_MAX; i++)
        sim->writes[i].slot = NULL;
    model_crashed(&sim->model);
}

bool sim_stopped(const struct sim *sim)
{
    return volume_sim_crashed(sim->device);
}

void sim_follow(struct sim *sim)
{
    struct log *log = &sim->store->log;

    model_durable(&sim->model, atomic_load(&log->durable_sequence));
    if (log->lost_windows != sim->lost_windows) {
        sim->lost_windows = log->lost_windows;
        model_lost_window(&sim->model, log_failure(log) != 0);
    }
}

/* The machine comes up again; what was armed is gone with it. */
static void restart(struct sim *sim, enum volume_sim_restart how)
{
    sim->counts[COUNT_POWER_CUTS] += how == VOLUME_SIM_POWER_CUT;
    sim->kernel_has_all = false;
    /* It has no log of its own: what it had in memory goes with the process, too. */
    if (how == VOLUME_SIM_POWER_CUT || random_sim_one_in(&sim->random, 2))
        catalogue_memory_crash(sim->catalogue);
    volume_sim_restart(sim->device, how);
    if (random_sim_one_in(&sim->random, 20))
        catalogue_memory_wipe(sim->catalogue);
}

static bool contracts_kept(struct sim *sim)
{
    const char *breach = volume_sim_violation(sim->device);

    if (breach != NULL)
        return sim_mismatch(sim, "volume contract: %s", breach);
    breach = catalogue_memory_violation(sim->catalogue);
    if (breach != NULL && !sim->rotten)
        return sim_mismatch(sim, "catalogue contract: %s", breach);
    if (catalogue_memory_ahead_count(sim->catalogue) > 0)
        return sim_mismatch(sim, "the catalogue was ahead of the log");
    return true;
}

/* An opening on which a crash or a fault may strike. True: it is open. */
static bool open_under_fire(struct sim *sim)
{
    struct shoal_error error = {0};
    int rc;

    if (sim->profile.crashes && random_sim_one_in(&sim->random, 4))
        volume_sim_crash_after(sim->device, 1 + random_sim_below(&sim->random, 20));
    if (sim->profile.faults && random_sim_one_in(&sim->random, 4))
        volume_sim_arm(sim->device, sim_any_fault(sim), random_sim_below(&sim->random, 12));
    rc = try_open(sim, false, &error);
    if (rc != 0)
        sim_note(sim, "open under fire: %d %s: %s", rc, error.file, error.text);
    if (sim_stopped(sim)) {
        if (rc == 0)
            store_abandon(sim->store);
        sim->store = NULL;
        restart(sim, random_sim_one_in(&sim->random, 2) ? VOLUME_SIM_POWER_CUT : VOLUME_SIM_KILLED);
        return false;
    }
    return rc == 0;
}

static void cease_fire(struct sim *sim)
{
    volume_sim_disarm_all(sim->device);
    volume_sim_crash_after(sim->device, UINT64_MAX / 2);
}

/* unread: how many reads had failed before the opening. */
static bool opened(struct sim *sim, uint64_t unread)
{
    sim->counts[COUNT_REOPENS]++;
    if (sim->kernel_has_all)
        model_durable(&sim->model, UINT64_MAX);
    sim->kernel_has_all = false;
    sim->lost_windows = sim->store->log.lost_windows;
    if (volume_sim_struck(sim->device, VOLUME_SIM_READ_EIO) == unread &&
        store_damage_at_open(sim->store) > 0)
        return sim_mismatch(sim, "opening found %llu damaged places on a sound device",
            (unsigned long long)store_damage_at_open(sim->store));
    return contracts_kept(sim) && verify_settle(sim);
}

/* Whatever a crash has left can be looked at without a change. */
static bool look(struct sim *sim)
{
    struct shoal_error error = {0};
    int rc = try_open(sim, true, &error);

    if (rc == -EIO && sim->profile.faults)
        return true; /* one that was armed before the crash */
    if (rc != 0)
        return sim_mismatch(sim, "can't open read-only: %d %s: %s", rc, error.file, error.text);
    rc = shoal_close(sim->store);
    sim->store = NULL;
    return rc == 0 || sim_mismatch(sim, "closing what was opened read-only: %d", rc);
}

bool sim_reopen(struct sim *sim)
{
    uint64_t unread = volume_sim_struck(sim->device, VOLUME_SIM_READ_EIO);
    struct shoal_error error = {0};
    int rc;

    if (sim->counts[COUNT_REOPENS] > 0 && random_sim_one_in(&sim->random, 4) && !look(sim))
        return false;
    for (int tries = 0; tries < 3; tries++) {
        if (open_under_fire(sim)) {
            cease_fire(sim);
            return opened(sim, unread);
        }
        sim->store = NULL;
    }
    cease_fire(sim);
    volume_sim_set_capacity(sim->device, 0);
    unread = volume_sim_struck(sim->device, VOLUME_SIM_READ_EIO);
    rc = try_open(sim, false, &error);
    if (rc != 0) {
        sim->store = NULL;
        return sim_mismatch(sim, "can't open: %d %s at %llu: %s", rc, error.file,
            (unsigned long long)error.offset, error.text);
    }
    return opened(sim, unread);
}

bool sim_open_rotten(struct sim *sim)
{
    struct shoal_error error = {0};
    int rc = try_open(sim, false, &error);

    if (rc == 0)
        return true;
    sim->store = NULL;
    return sim_mismatch(sim, "can't open with a flipped bit: %d %s at %llu: %s", rc, error.file,
        (unsigned long long)error.offset, error.text);
}

bool sim_close_cleanly(struct sim *sim)
{
    int rc;

    if (!sim_commit_all(sim))
        return false;
    rc = shoal_close(sim->store);
    sim->store = NULL;
    sim_note(sim, "close: %d", rc);
    if (rc == 0)
        model_durable(&sim->model, UINT64_MAX);
    forget_writes(sim);
    /* A clean close has nothing to lose. */
    if (sim_stopped(sim) || (rc == 0 && random_sim_one_in(&sim->random, 2)))
        restart(sim, VOLUME_SIM_POWER_CUT);
    else
        restart(sim, VOLUME_SIM_KILLED);
    return contracts_kept(sim);
}

bool sim_crash(struct sim *sim, enum volume_sim_restart how)
{
    bool kept;

    sim_note(sim, "crash, %s", how == VOLUME_SIM_POWER_CUT ? "power cut" : "killed");
    sim_follow(sim);
    /* The kernel has all that was answered, even if it was not synced; but not after its own end,
       nor if the next sync fails. */
    kept = how == VOLUME_SIM_KILLED && !sim_stopped(sim) && !sim->profile.faults;
    /* What is in flight fails on the stopped device, only so that the store can free it. */
    volume_sim_stop(sim->device);
    if (!sim_commit_all(sim))
        return false;
    store_abandon(sim->store);
    sim->store = NULL;
    forget_writes(sim);
    restart(sim, how);
    sim->kernel_has_all = kept;
    return contracts_kept(sim) && sim_reopen(sim);
}

/* --- a whole life --- */

static void draw_profile(struct sim *sim)
{
    static const uint32_t chunks[] = {4096, 12000, 96 << 10};
    struct random_sim *random = &sim->random;
    uint32_t chunk = chunks[random_sim_below(random, 3)];

    sim->profile = (struct profile){
        .relaxed = random_sim_one_in(random, 4),
        .faults = !random_sim_one_in(random, 3),
        .full = random_sim_one_in(random, 5),
        .crashes = !random_sim_one_in(random, 8),
        .rot = random_sim_one_in(random, 6),
        .chunk_bytes = chunk,
        .group_bytes = (uint32_t)round_up(chunk + RECORD_HEAD_MAX + 4096, 4096),
        .group_buffers = 2 + (unsigned)random_sim_below(random, 3),
    };
    sim->profile.segment_bytes = sim->profile.group_bytes * (3 + random_sim_below(random, 8));
}

static bool live(struct sim *sim)
{
    if (!sim_reopen(sim))
        return false;
    for (unsigned i = 0; i < sim->operations; i++) {
        if (!sim_act(sim) || sim->failure[0] != 0)
            return false;
    }
    volume_sim_set_capacity(sim->device, 0);
    if (!sim_crash(sim, VOLUME_SIM_POWER_CUT) || !verify_all(sim))
        return false;
    if (!sim_close_cleanly(sim))
        return false;
    sim->profile.faults = sim->profile.full = sim->profile.crashes = false;
    if (!sim_reopen(sim) || !sim_still_writable(sim) || !verify_all(sim))
        return false;
    return !sim->profile.rot || sim_rot(sim);
}

bool sim_run(struct sim *sim)
{
    bool sound;

    random_sim_init(&sim->random, sim->seed);
    random_sim_init(&sim->store_random, ~sim->seed);
    clock_sim_init(&sim->clock);
    draw_profile(sim);
    sim->device = volume_sim_new(random_sim_next(&sim->random));
    sim->catalogue = catalogue_memory_new();
    if (sim->tracing)
        volume_sim_trace(sim->device, stdout);
    model_init(&sim->model, random_sim_next(&sim->random));
    sound = live(sim) && sim->failure[0] == 0;
    if (sim->store != NULL) {
        volume_sim_stop(sim->device);
        (void)sim_commit_all(sim); /* only so that what is in flight is freed */
        store_abandon(sim->store);
    }
    model_done(&sim->model);
    volume_sim_free(sim->device);
    catalogue_memory_free(sim->catalogue);
    return sound;
}
