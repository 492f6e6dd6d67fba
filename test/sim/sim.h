/* One simulated life: a machine whose device fails, the store on it, and the model beside it. */
#ifndef SIM_SIM_H
#define SIM_SIM_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/catalogue_memory.h"
#include "lib/clock_sim.h"
#include "lib/random_sim.h"
#include "lib/volume_sim.h"
#include "sim/model.h"
#include "store/store_priv.h"

#define SIM_IN_FLIGHT_MAX 24u

/* What kind of life it is; drawn from the seed. */
struct profile {
    bool relaxed;
    bool faults; /* writes, syncs, the manifest and the catalogue may fail */
    bool full; /* the device may fill up */
    bool crashes; /* power cuts and kills */
    bool rot; /* at the end a bit flips */
    uint32_t chunk_bytes, group_bytes;
    uint64_t segment_bytes;
    unsigned group_buffers;
};

/* A write that the store has not answered. */
struct sim_write {
    struct sim *sim;
    struct slot *slot; /* NULL: free */
    uint64_t order, value;
};

struct sim {
    uint64_t seed;
    unsigned operations;
    struct profile profile;
    struct random_sim random; /* the test's choices */
    struct random_sim store_random; /* the store's */
    struct clock_sim clock;
    struct volume_sim *device;
    struct catalogue_memory *catalogue;
    struct shoal *store; /* NULL while it is closed */
    struct model model;
    struct sim_write writes[SIM_IN_FLIGHT_MAX];

    uint64_t highest_sequence; /* of any write that was answered */
    unsigned lost_windows; /* of the open store, as far as the model knows */
    bool kernel_has_all; /* the process was killed, and the power has not failed since */
    bool rotten; /* a bit has been flipped */
    bool tracing;
    uint64_t counts[8]; /* see sim_count */
    char failure[512]; /* the first mismatch; empty: none */
};

enum sim_count {
    COUNT_ACKED,
    COUNT_FAILED,
    COUNT_READS,
    COUNT_REOPENS,
    COUNT_POWER_CUTS,
    COUNT_STOPS
};

/* Keeps the first; always false, so that checks can return it. */
bool sim_mismatch(struct sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));
void sim_note(struct sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Runs one seed to its end. True when nothing was wrong. */
bool sim_run(struct sim *sim);

/* machine.c: opening, closing, crashing. All return false after a mismatch. */
bool sim_reopen(struct sim *sim);
bool sim_close_cleanly(struct sim *sim);
/* After a bit has flipped: without settling. */
bool sim_open_rotten(struct sim *sim);
/* Leaves the store as a crash would, and opens it again. */
bool sim_crash(struct sim *sim, enum volume_sim_restart how);
/* The device has stopped under the store. */
bool sim_stopped(const struct sim *sim);
/* Tells the model what was synced, or taken back, meanwhile. */
void sim_follow(struct sim *sim);

/* actions.c: one random operation. */
bool sim_act(struct sim *sim);
bool sim_commit_all(struct sim *sim);
/* One write to each bucket, which must succeed. */
bool sim_still_writable(struct sim *sim);
/* Any but a short read, which only the last of a file's bytes may see. */
enum volume_sim_fault sim_any_fault(struct sim *sim);

/* verify.c */
bool verify_slot(struct sim *sim, const struct slot *slot);
bool verify_listing(struct sim *sim, unsigned bucket);
bool verify_totals(struct sim *sim);
/* Every key, listing and count, the index, and check. */
bool verify_all(struct sim *sim);
/* Reads every slot and finds out which of the possible states it is. */
bool verify_settle(struct sim *sim);
/* The value that the store shows there; UINT64_MAX with the code where it can't be read, -EBADMSG
   where it shows bytes that nobody put there. */
uint64_t verify_observe(struct sim *sim, const struct slot *slot, int64_t *ret_code);
/* rot.c: flips a bit and looks at what that costs. */
bool sim_rot(struct sim *sim);

#endif
