/* A catalogue as two plain arrays, and a seeded stream of changes to feed both it and the real one.
   The stream depends on the seed alone, so that any process can compute the state after the Nth
   change. */
#ifndef UNIT_CATALOGUE_MODEL_H
#define UNIT_CATALOGUE_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/catalogue.h"

#define MODEL_BUCKETS 3
#define MODEL_KEYS    8000 /* in all buckets */

struct model_key {
    struct key key;
    uint8_t bytes[1024];
    bool present;
    uint64_t sequence, size_bytes;
    int64_t mtime_ns;
    uint8_t md5[16];
};

struct model {
    struct model_key keys[MODEL_KEYS]; /* in order */
    struct catalogue_usage usage[MODEL_BUCKETS], total;
    uint64_t random;
    uint64_t sequence; /* of the last change */
};

extern const char *const model_buckets[MODEL_BUCKETS];

struct model *model_new(uint64_t seed);
/* Makes the next change. Its key lies in the model. */
void model_next(struct model *model, struct catalogue_change *ret_change);

/* Fails the test unless the catalogue holds exactly what the model holds: progress, totals, usage,
   every entry, and some scans by prefix and seeks. */
void model_verify(struct model *model, struct catalogue *catalogue);

uint64_t random_next(uint64_t *state);

#endif
