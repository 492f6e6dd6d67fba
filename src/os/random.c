/* The system's randomness, getrandom(2) without flags: it blocks only until the kernel's pool was
   seeded once after boot. Large requests may come back short, and signals may interrupt them; both
   go on where they stopped. */
#include "os/random.h"

#include <errno.h>
#include <stdint.h>
#include <sys/random.h>

static int system_fill(struct random_source *source, void *buffer, size_t length)
{
    uint8_t *at = buffer;

    while (length > 0) {
        ssize_t got = getrandom(at, length, 0);

        if (got < 0) {
            if (errno == EINTR)
                continue;
            return -errno;
        }
        at += got;
        length -= (size_t)got;
    }
    return 0;
}

struct random_source *random_system(void)
{
    static struct random_source system = {system_fill};

    return &system;
}
