/* random: the system's fills every byte; the seeded one repeats itself and fills any length. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "lib/random_sim.h"
#include "os/random.h"

static void the_system_fills_all_of_it(void **state)
{
    static uint8_t a[10000], b[10000];
    struct random_source *source = random_system();
    unsigned zeros = 0;

    assert_int_equal(source->fill(source, a, sizeof(a)), 0);
    assert_int_equal(source->fill(source, b, sizeof(b)), 0);
    assert_memory_not_equal(a, b, sizeof(a));
    for (size_t i = 0; i < sizeof(a); i++)
        zeros += a[i] == 0;
    assert_in_range(zeros, 1, 200); /* 39 expected */
    assert_int_equal(source->fill(source, a, 0), 0);
}

static void the_same_seed_gives_the_same_draws(void **state)
{
    struct random_sim a, b, c;

    random_sim_init(&a, 7);
    random_sim_init(&b, 7);
    random_sim_init(&c, 8);
    for (int i = 0; i < 100; i++)
        assert_true(random_sim_next(&a) == random_sim_next(&b));
    assert_false(random_sim_next(&a) == random_sim_next(&c));
    /* The first draw of SplitMix64 from state 0, as published with it. */
    random_sim_init(&a, 0);
    assert_true(random_sim_next(&a) == 0xe220a8397b1dcdaf);
}

static void draws_stay_below_their_bound(void **state)
{
    struct random_sim random;
    unsigned seen[10] = {0}, hits = 0;

    random_sim_init(&random, 1);
    for (int i = 0; i < 10000; i++) {
        seen[random_sim_below(&random, 10)]++;
        hits += random_sim_one_in(&random, 4);
    }
    for (int i = 0; i < 10; i++)
        assert_in_range(seen[i], 850, 1150);
    assert_in_range(hits, 2300, 2700);
}

static void any_length_is_filled_and_no_more(void **state)
{
    struct random_sim random;
    uint8_t bytes[40];

    for (size_t length = 0; length < 32; length++) {
        memset(bytes, 0, sizeof(bytes));
        random_sim_init(&random, length);
        assert_int_equal(random.source.fill(&random.source, bytes, length), 0);
        for (size_t i = length; i < sizeof(bytes); i++)
            assert_int_equal(bytes[i], 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_system_fills_all_of_it),
        cmocka_unit_test(the_same_seed_gives_the_same_draws),
        cmocka_unit_test(draws_stay_below_their_bound),
        cmocka_unit_test(any_length_is_filled_and_no_more),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
