/* The 128-bit key hash: XXH3 with the store's random seed over bucket, NUL and key. */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

struct hash128 {
    uint64_t high, low;
};

/* scratch-free: bucket and key need not lie side by side. */
struct hash128 hash_key(
    uint64_t seed, const char *bucket, size_t bucket_length, const void *key, size_t key_length);

#endif
