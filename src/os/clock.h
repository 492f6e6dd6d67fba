/* Time as a seam: the real clocks, or one that a test moves. */
#ifndef OS_CLOCK_H
#define OS_CLOCK_H

#include <stdint.h>

struct clock {
    int64_t (*wall_ns)(struct clock *clock); /* since 1970; may jump either way */
    uint64_t (*monotonic_ns)(struct clock *clock); /* never goes back */
};

/* The system's clocks; static, thread-safe. */
struct clock *clock_system(void);

#endif
