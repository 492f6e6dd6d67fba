/* Memory that is there or ends the test. Sizes of 0 give a unique pointer; free with free(). */
#include "lib/need.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *or_end(void *memory)
{
    if (memory == NULL) {
        (void)fputs("the test is out of memory\n", stderr); /* ends in any case */
        abort();
    }
    return memory;
}

void *need_zero(size_t bytes)
{
    return or_end(calloc(1, bytes > 0 ? bytes : 1));
}

void *need_resize(void *old, size_t bytes)
{
    return or_end(realloc(old, bytes > 0 ? bytes : 1));
}

void *need_copy(const void *bytes, size_t length)
{
    void *copy = need_zero(length);

    if (length > 0)
        memcpy(copy, bytes, length);
    return copy;
}
