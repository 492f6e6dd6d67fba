/* Memory for the tests' own models: from the C library, not through the seam whose Nth call tests
   make fail, and the test ends when there is none. */
#ifndef TEST_NEED_H
#define TEST_NEED_H

#include <stddef.h>

/* Zeroed. */
void *need_zero(size_t bytes);
void *need_resize(void *old, size_t bytes);
void *need_copy(const void *bytes, size_t length);

#endif
