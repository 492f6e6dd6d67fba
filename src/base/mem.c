/* The allocation seam: the C library's allocator, with a countdown that tests set to make one call
   fail.

   While no test has set it, the countdown costs one relaxed load of a line that nobody writes. It
   is the one mutable global beside the log level, because an allocation has no struct to hang it
   from. Every function returns NULL when out of memory. */
#include "base/mem.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static atomic_long fail_countdown = -1;

void mem_fail_after(long countdown)
{
    atomic_store(&fail_countdown, countdown);
}

/* True for exactly one call: the one that finds the countdown at 0. */
static bool count_down(void)
{
    long left = atomic_load(&fail_countdown);

    while (left >= 0 && !atomic_compare_exchange_weak(&fail_countdown, &left, left - 1))
        continue;
    return left == 0;
}

static inline bool must_fail(void)
{
    return atomic_load_explicit(&fail_countdown, memory_order_relaxed) >= 0 && count_down();
}

void *mem_alloc(size_t bytes)
{
    if (must_fail())
        return NULL;
    return malloc(bytes > 0 ? bytes : 1);
}

void *mem_zero(size_t count, size_t bytes)
{
    size_t product;

    if (must_fail() || __builtin_mul_overflow(count, bytes, &product))
        return NULL;
    return calloc(1, product > 0 ? product : 1);
}

void *mem_resize(void *old, size_t bytes)
{
    if (must_fail())
        return NULL;
    return realloc(old, bytes > 0 ? bytes : 1);
}

void *mem_aligned(size_t alignment, size_t bytes)
{
    if (must_fail())
        return NULL;
    return aligned_alloc(alignment, bytes > 0 ? bytes : alignment);
}

char *mem_strdup(const char *text)
{
    size_t length = strlen(text) + 1;
    char *copy = mem_alloc(length);

    if (copy != NULL)
        memcpy(copy, text, length);
    return copy;
}

void mem_free(void *memory)
{
    free(memory);
}
