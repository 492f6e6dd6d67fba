/* The key hash, XXH3-128 of libxxhash.

   Bucket, a NUL and the key are put side by side on the stack, because one call over at most
   1.1 KB is several times as fast as the streaming form, whose state alone is 576 bytes. Neither
   part can hold a NUL where it would matter (buckets never do), so two different pairs never give
   the same bytes. Nothing can fail; the limits are the caller's to check (key.h, shoal.h). */
#include "base/hash.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>
#include <xxhash.h>

#include <shoal/shoal.h>

struct hash128 hash_key(
    uint64_t seed, const char *bucket, size_t bucket_length, const void *key, size_t key_length)
{
    uint8_t bytes[SHOAL_BUCKET_MAX + 1 + SHOAL_KEY_MAX];
    XXH128_hash_t hash;

    assert(bucket_length <= SHOAL_BUCKET_MAX && key_length <= SHOAL_KEY_MAX);
    if (bucket_length > 0)
        memcpy(bytes, bucket, bucket_length);
    bytes[bucket_length] = 0;
    if (key_length > 0)
        memcpy(bytes + bucket_length + 1, key, key_length);
    hash = XXH3_128bits_withSeed(bytes, bucket_length + 1 + key_length, seed);
    return (struct hash128){.high = hash.high64, .low = hash.low64};
}
