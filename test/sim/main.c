/* The simulator's command line.

       sim --seeds 1-1000            runs them all; exit status 1 if any ended in a mismatch
       sim --seed 42 --trace         one, telling every step
       sim --expect-mismatch …       for deliberately broken builds: stops at the first mismatch with
                                     status 0, and is wrong if there is none

   A failing seed is printed with the command that runs it again; the same program gives the same run. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/broken.h"
#include "sim/sim.h"

struct options {
    uint64_t first, last;
    unsigned operations;
    bool trace, expect_mismatch;
};

static bool parse(int argc, char **argv, struct options *options)
{
    for (int i = 1; i < argc; i++) {
        char *rest;

        if (strcmp(argv[i], "--trace") == 0) {
            options->trace = true;
        } else if (strcmp(argv[i], "--expect-mismatch") == 0) {
            options->expect_mismatch = true;
        } else if (i + 1 < argc && strcmp(argv[i], "--seed") == 0) {
            options->first = options->last = strtoull(argv[++i], NULL, 10);
        } else if (i + 1 < argc && strcmp(argv[i], "--seeds") == 0) {
            options->first = strtoull(argv[++i], &rest, 10);
            options->last = *rest == '-' ? strtoull(rest + 1, NULL, 10) : options->first;
        } else if (i + 1 < argc && strcmp(argv[i], "--operations") == 0) {
            options->operations = (unsigned)strtoul(argv[++i], NULL, 10);
        } else {
            return false;
        }
    }
    return options->first <= options->last;
}

/* A seed takes milliseconds; one that takes this long never ends. */
#define SEED_SECONDS_MAX 30

static uint64_t running_seed;
static bool hang_expected;

static void on_alarm(int signal_number)
{
    char text[80];
    int length = snprintf(text, sizeof(text), "seed %llu: model mismatch: it does not end\n",
        (unsigned long long)running_seed);

    if (write(STDOUT_FILENO, text, (size_t)length) != length || !hang_expected)
        _exit(1);
    _exit(0);
}

static bool run_seed(const struct options *options, uint64_t seed, uint64_t totals[8])
{
    static struct sim sim;
    bool sound;

    running_seed = seed;
    (void)alarm(SEED_SECONDS_MAX);
    memset(&sim, 0, sizeof(sim));
    sim.seed = seed;
    sim.operations = options->operations;
    sim.tracing = options->trace;
    sound = sim_run(&sim);
    if (!sound)
        printf(
            "seed %llu: model mismatch: %s\n    again: sim --seed %llu --operations %u --trace\n",
            (unsigned long long)seed, sim.failure, (unsigned long long)seed, options->operations);
    for (unsigned i = 0; i < 8; i++)
        totals[i] += sim.counts[i];
    (void)fflush(stdout); /* only for a person */
    return sound;
}

int main(int argc, char **argv)
{
    struct options options = {.first = 1, .last = 1000, .operations = 320};
    uint64_t totals[8] = {0}, seeds = 0, failed = 0;

    if (!parse(argc, argv, &options)) {
        (void)fputs("usage: sim [--seed N | --seeds A-B] [--operations N] [--trace] "
                    "[--expect-mismatch]\n",
            stderr);
        return 2;
    }
    hang_expected = options.expect_mismatch;
    (void)signal(SIGALRM, on_alarm);
    for (uint64_t seed = options.first; seed <= options.last; seed++) {
        seeds++;
        failed += !run_seed(&options, seed, totals);
        if (failed > 0 && options.expect_mismatch) {
            printf("broken build %d: caught after %llu seeds\n", BROKEN_BUILD,
                (unsigned long long)seeds);
            return 0;
        }
    }
    printf("%llu seeds of %u operations: %llu writes answered, %llu failed, %llu objects read, "
           "%llu reopens, %llu power cuts, %llu stops; %llu seeds with a mismatch\n",
        (unsigned long long)seeds, options.operations, (unsigned long long)totals[COUNT_ACKED],
        (unsigned long long)totals[COUNT_FAILED], (unsigned long long)totals[COUNT_READS],
        (unsigned long long)totals[COUNT_REOPENS], (unsigned long long)totals[COUNT_POWER_CUTS],
        (unsigned long long)totals[COUNT_STOPS], (unsigned long long)failed);
    return failed > 0 || options.expect_mismatch;
}
