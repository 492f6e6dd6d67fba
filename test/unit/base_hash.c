/* hash: the same as the library's streaming form over bucket, NUL and key, at every key length. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <xxhash.h>

#include "base/hash.h"

static struct hash128 streamed(
    uint64_t seed, const void *bucket, size_t bucket_length, const void *key, size_t key_length)
{
    XXH3_state_t *stream = XXH3_createState();
    XXH128_hash_t hash;

    assert_non_null(stream);
    assert_int_equal(XXH3_128bits_reset_withSeed(stream, seed), XXH_OK);
    assert_int_equal(XXH3_128bits_update(stream, bucket, bucket_length), XXH_OK);
    assert_int_equal(XXH3_128bits_update(stream, "", 1), XXH_OK);
    assert_int_equal(XXH3_128bits_update(stream, key, key_length), XXH_OK);
    hash = XXH3_128bits_digest(stream);
    XXH3_freeState(stream);
    return (struct hash128){.high = hash.high64, .low = hash.low64};
}

static void equals_the_streaming_form(void **state)
{
    static const char bucket[] = "abcdefghijklmnopqrstuvwxyz0123456789abcdefghijklmnopqrstuvwxyz0";
    static uint8_t key[1024];

    for (size_t i = 0; i < sizeof(key); i++)
        key[i] = (uint8_t)(i * 167 + 1);
    for (size_t length = 0; length <= sizeof(key); length++) {
        size_t bucket_length = length % sizeof(bucket);
        uint64_t seed = length * 0x9e3779b97f4a7c15;
        struct hash128 is = hash_key(seed, bucket, bucket_length, key, length);
        struct hash128 right = streamed(seed, bucket, bucket_length, key, length);

        assert_true(is.high == right.high && is.low == right.low);
    }
}

static int same(struct hash128 a, struct hash128 b)
{
    return a.high == b.high && a.low == b.low;
}

static void where_the_bucket_ends_matters(void **state)
{
    assert_false(same(hash_key(1, "ab", 2, "c", 1), hash_key(1, "a", 1, "bc", 2)));
    assert_false(same(hash_key(1, "", 0, "abc", 3), hash_key(1, "abc", 3, "", 0)));
    assert_false(same(hash_key(1, "ab", 2, "c", 1), hash_key(2, "ab", 2, "c", 1)));
    assert_true(same(hash_key(0, NULL, 0, NULL, 0), hash_key(0, "x", 0, "y", 0)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_the_streaming_form),
        cmocka_unit_test(where_the_bucket_ends_matters),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
