/* The simulated volume: what its parts share. */
#ifndef TEST_VOLUME_SIM_PRIV_H
#define TEST_VOLUME_SIM_PRIV_H

#include <pthread.h>

#include "lib/content_sim.h"
#include "lib/random_sim.h"
#include "lib/volume_sim.h"

struct sim_segment {
    uint64_t id;
    struct content_sim content;
    unsigned handles;
    bool named; /* a reader finds it */
    bool named_durable; /* it is there after a power cut */
};

/* lock guards everything below it. */
struct volume_sim {
    pthread_mutex_t lock;
    struct random_sim random;
    struct sim_segment **segments;
    size_t segment_count;
    struct content_sim manifest;
    bool manifest_named, manifest_named_durable;

    uint64_t capacity_bytes;
    uint64_t calls, crash_at; /* crash_at 0: never */
    bool crashed, stale, locked;
    unsigned volumes_open;
    int64_t armed[VOLUME_SIM_FAULTS]; /* calls to go; negative: not armed */
    uint64_t struck[VOLUME_SIM_FAULTS];

    char violation[256];
    FILE *trace;
};

struct sim_volume {
    struct volume volume;
    struct volume_sim *sim;
    bool read_only, locked;
};

struct sim_handle {
    struct volume_file file;
    struct sim_volume *owner;
    struct sim_segment *segment;
    uint64_t written_end; /* blocks below were written, or passed, through this handle */
    uint64_t synced_end; /* written_end at its last good sync */
};

/* What a changing call shall do. */
enum sim_step {
    SIM_STEP_GO,
    SIM_STEP_HALF, /* the machine stops in it: some of it may be done */
    SIM_STEP_DEAD, /* the machine has stopped */
};
/* Counts one changing call; the lock is held. */
enum sim_step sim_step(
    struct volume_sim *sim, const char *what, uint64_t id, uint64_t a, uint64_t b);
/* True when a fault of this kind strikes now. */
bool sim_strikes(struct volume_sim *sim, enum volume_sim_fault fault);
/* Keeps the first. */
void sim_violation(struct volume_sim *sim, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* True where `more` bytes do not fit. */
bool sim_full(struct volume_sim *sim, uint64_t more);
uint64_t sim_used(const struct volume_sim *sim);
struct sim_segment *sim_find(struct volume_sim *sim, uint64_t segment_id);
/* Forgets files that have neither a name nor a handle. */
void sim_sweep(struct volume_sim *sim);

extern const struct volume_ops sim_volume_ops;

#endif
