/* What import, export, put and get do with files alike: whole writes, and times in nanoseconds, also
   before 1970. */
#include "import/local.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <shoal/shoal.h>

#define SECOND_NS 1000000000

int local_write_all(int fd, const void *data, size_t length)
{
    const char *at = data;
    while (length) {
        ssize_t put = write(fd, at, length);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return -errno;
        at += put;
        length -= (size_t)put;
    }
    return 0;
}

int local_set_mtime(int fd, int64_t mtime_ns)
{
    struct timespec times[2] = {{.tv_nsec = UTIME_NOW}};
    times[1].tv_sec = mtime_ns / SECOND_NS;
    times[1].tv_nsec = mtime_ns % SECOND_NS;
    if (times[1].tv_nsec < 0) {
        times[1].tv_nsec += SECOND_NS;
        times[1].tv_sec--;
    }
    return futimens(fd, times) < 0 ? -errno : 0;
}

int64_t local_mtime_ns(const struct stat *st)
{
    int64_t time_ns;
    /* Times beyond the years 1677 to 2262 can't be told in nanoseconds. */
    if (__builtin_mul_overflow((int64_t)st->st_mtim.tv_sec, SECOND_NS, &time_ns) ||
        __builtin_add_overflow(time_ns, (int64_t)st->st_mtim.tv_nsec, &time_ns))
        return st->st_mtim.tv_sec < 0 ? INT64_MIN + 1 : INT64_MAX;
    return time_ns;
}

int64_t local_mtime_attr(const struct stat *st)
{
    int64_t time_ns = local_mtime_ns(st);

    return time_ns ? time_ns : SHOAL_MTIME_1970;
}

bool local_has_room(int fd, uint64_t bytes)
{
    struct statvfs room;
    if (fstatvfs(fd, &room) < 0)
        return true; /* not known: the write will tell */
    return bytes <= (uint64_t)room.f_bavail * room.f_frsize;
}

bool local_same(const struct stat *a, const struct stat *b)
{
    return a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
           a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}
