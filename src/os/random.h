/* Randomness as a seam: the system's, or a seeded generator. */
#ifndef OS_RANDOM_H
#define OS_RANDOM_H

#include <stddef.h>

struct random_source {
    int (*fill)(struct random_source *source, void *buffer, size_t length); /* 0 or -errno */
};

/* getrandom(2); static, thread-safe. */
struct random_source *random_system(void);

#endif
