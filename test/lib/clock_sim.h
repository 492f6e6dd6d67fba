/* Clocks that stand still until a test moves them. */
#ifndef TEST_CLOCK_SIM_H
#define TEST_CLOCK_SIM_H

#include <stdatomic.h>
#include <stdint.h>

#include "os/clock.h"

/* Any thread may read while one moves them. */
struct clock_sim {
    struct clock clock;
    _Atomic int64_t wall_ns;
    _Atomic uint64_t monotonic_ns;
};

/* Wall time starts in September 2020. */
void clock_sim_init(struct clock_sim *clock);
/* Both clocks go on. */
void clock_sim_advance(struct clock_sim *clock, uint64_t ns);
/* Only wall time jumps, either way. */
void clock_sim_jump(struct clock_sim *clock, int64_t ns);

#endif
