/* A seeded generator, both as the store's random source and for the tests' own choices. */
#ifndef TEST_RANDOM_SIM_H
#define TEST_RANDOM_SIM_H

#include <stdbool.h>
#include <stdint.h>

#include "os/random.h"

/* Not thread-safe: one thread draws. */
struct random_sim {
    struct random_source source;
    uint64_t state;
};

void random_sim_init(struct random_sim *random, uint64_t seed);
uint64_t random_sim_next(struct random_sim *random);
/* 0 to bound - 1; bound is at least 1. */
uint64_t random_sim_below(struct random_sim *random, uint64_t bound);
/* True once in `of` draws on average. */
bool random_sim_one_in(struct random_sim *random, uint64_t of);

#endif
