/* Clocks that a test moves by hand: monotonic time only forward, wall time both ways. */
#include "lib/clock_sim.h"

static int64_t sim_wall_ns(struct clock *clock)
{
    return atomic_load(&((struct clock_sim *)clock)->wall_ns);
}

static uint64_t sim_monotonic_ns(struct clock *clock)
{
    return atomic_load(&((struct clock_sim *)clock)->monotonic_ns);
}

void clock_sim_init(struct clock_sim *clock)
{
    clock->clock.wall_ns = sim_wall_ns;
    clock->clock.monotonic_ns = sim_monotonic_ns;
    atomic_init(&clock->wall_ns, 1600000000000000000);
    atomic_init(&clock->monotonic_ns, 1);
}

void clock_sim_advance(struct clock_sim *clock, uint64_t ns)
{
    atomic_fetch_add(&clock->wall_ns, (int64_t)ns);
    atomic_fetch_add(&clock->monotonic_ns, ns);
}

void clock_sim_jump(struct clock_sim *clock, int64_t ns)
{
    atomic_fetch_add(&clock->wall_ns, ns);
}
