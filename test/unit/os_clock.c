/* clock: the system's agree with time(2) and do not go back; the simulated ones obey. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <time.h>

#include "lib/clock_sim.h"
#include "os/clock.h"

static void system_clocks_tell_the_time(void **state)
{
    struct clock *clock = clock_system();
    int64_t before = (int64_t)time(NULL), wall_s = clock->wall_ns(clock) / 1000000000;
    uint64_t last = clock->monotonic_ns(clock);

    assert_in_range(wall_s - before, 0, 60);
    for (int i = 0; i < 10000; i++) {
        uint64_t now = clock->monotonic_ns(clock);

        assert_true(now >= last);
        last = now;
    }
}

static void simulated_clocks_move_by_hand(void **state)
{
    struct clock_sim sim;
    struct clock *clock = &sim.clock;
    int64_t wall;
    uint64_t monotonic;

    clock_sim_init(&sim);
    wall = clock->wall_ns(clock);
    monotonic = clock->monotonic_ns(clock);
    assert_true(clock->wall_ns(clock) == wall);
    clock_sim_advance(&sim, 5000000);
    assert_int_equal(clock->wall_ns(clock) - wall, 5000000);
    assert_int_equal(clock->monotonic_ns(clock) - monotonic, 5000000);
    clock_sim_jump(&sim, -3600000000000);
    assert_true(clock->wall_ns(clock) < wall);
    assert_int_equal(clock->monotonic_ns(clock) - monotonic, 5000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(system_clocks_tell_the_time),
        cmocka_unit_test(simulated_clocks_move_by_hand),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
