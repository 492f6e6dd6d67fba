/* A bucket and a key, borrowed bytes. */
#ifndef STORE_KEY_H
#define STORE_KEY_H

#include <stdint.h>

struct key {
    const char *bucket;    /* not NUL-terminated; length 0 is the store's own namespace */
    const uint8_t *bytes;
    uint16_t length;
    uint8_t bucket_length;
};

#endif
