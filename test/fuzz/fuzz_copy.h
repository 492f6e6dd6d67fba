/* The input of a fuzz target, where it can be changed and a sanitizer sees the first byte beyond. */
#ifndef FUZZ_COPY_H
#define FUZZ_COPY_H

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* In a block of exactly its size; the caller's to free(). */
static inline uint8_t *fuzz_copy(const uint8_t *input, size_t size)
{
    uint8_t *bytes = malloc(size > 0 ? size : 1);

    assert(bytes != NULL);
    memcpy(bytes, input, size);
    return bytes;
}

#endif
