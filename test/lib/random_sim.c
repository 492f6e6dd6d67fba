/* SplitMix64 (Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", 2014): one
   64-bit state, any seed is good, and the same seed gives the same draws on every machine. */
#include "lib/random_sim.h"

#include "base/bytes.h"

uint64_t random_sim_next(struct random_sim *random)
{
    uint64_t mixed = random->state += 0x9e3779b97f4a7c15;

    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111eb;
    return mixed ^ mixed >> 31;
}

uint64_t random_sim_below(struct random_sim *random, uint64_t bound)
{
    /* The bias of the remainder is far below what a test could notice. */
    return random_sim_next(random) % bound;
}

bool random_sim_one_in(struct random_sim *random, uint64_t of)
{
    return random_sim_below(random, of) == 0;
}

static int sim_fill(struct random_source *source, void *buffer, size_t length)
{
    struct random_sim *random = (struct random_sim *)source;
    uint8_t *at = buffer;

    for (size_t i = 0; i < length; i += 8) {
        uint8_t bytes[8];

        put_u64(bytes, random_sim_next(random));
        memcpy(at + i, bytes, length - i < 8 ? length - i : 8);
    }
    return 0;
}

void random_sim_init(struct random_sim *random, uint64_t seed)
{
    random->source.fill = sim_fill;
    random->state = seed;
}
