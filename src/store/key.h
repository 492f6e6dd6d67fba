/* A bucket and a key, borrowed bytes. */
#ifndef STORE_KEY_H
#define STORE_KEY_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct key {
    const char *bucket; /* not NUL-terminated; length 0 is the store's own namespace */
    const uint8_t *bytes;
    uint16_t length;
    uint8_t bucket_length;
};

static inline bool key_equal(const struct key *left, const struct key *right)
{
    return left->length == right->length && left->bucket_length == right->bucket_length &&
           memcmp(left->bytes, right->bytes, left->length) == 0 &&
           memcmp(left->bucket, right->bucket, left->bucket_length) == 0;
}

#endif
