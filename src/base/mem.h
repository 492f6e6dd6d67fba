/* The one allocation seam. Tests make the Nth call fail. */
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include <stddef.h>

/* NULL when out of memory; sizes of 0 give a unique pointer. Free with mem_free. */
void *mem_alloc(size_t bytes);
void *mem_zero(size_t count, size_t bytes);
void *mem_resize(void *old, size_t bytes);
/* alignment: a power of two, bytes a multiple of it. */
void *mem_aligned(size_t alignment, size_t bytes);
char *mem_strdup(const char *text);
void mem_free(void *memory);

/* Test seam: the call after the next `countdown` ones fails once; negative: never. */
void mem_fail_after(long countdown);

#endif
