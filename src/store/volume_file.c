/* The volume on files: segments.

   A segment is dir/seg/<id in 16 hex digits>. It has up to two descriptors: a buffered one for
   reads, whose readahead is off because objects lie in no order a kernel could guess, and one with
   O_DIRECT for writes, which are large, aligned and not read again soon, and for reads that must
   see the device. The second is opened when it is first needed, so that thousands of sealed
   segments cost one descriptor each. Where O_DIRECT is refused everything goes through the first.

   Writing through one and reading through the other is sound: a direct write drops the cached
   pages it covers, blocks are never smaller than a page, and no block is read before its write has
   returned.

   Every call returns what the system said as -errno; a short write goes on until it is complete or
   refused. fdatasync is called once: a failure is the caller's to act on (volume.h), since the
   kernel marks the pages clean and a second call would lie. */
#include "store/volume_file_priv.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <shoal/error.h>

#include "base/bytes.h"
#include "base/mem.h"

/* Bytes of the bounce buffer for direct reads that are not aligned. */
#define BOUNCE_BYTES_MAX (1u << 20)

#define SEGMENT_NAME_BYTES 17

static struct file_volume *own(struct volume *volume)
{
    return (struct file_volume *)volume;
}

static struct file_segment *segment_of(struct volume_file *file)
{
    return (struct file_segment *)file;
}

int volume_file_fd(const struct volume_file *file)
{
    return file->ring_fd;
}

static void segment_name(uint64_t id, char ret_name[SEGMENT_NAME_BYTES])
{
    (void)snprintf(ret_name, SEGMENT_NAME_BYTES, "%016" PRIx64, id); /* always fits */
}

int file_segment_name_parse(const char *name, uint64_t *ret_id)
{
    uint64_t id = 0;

    if (strlen(name) != SEGMENT_NAME_BYTES - 1)
        return 0;
    for (; *name != 0; name++) {
        if (*name >= '0' && *name <= '9')
            id = id << 4 | (uint64_t)(*name - '0');
        else if (*name >= 'a' && *name <= 'f')
            id = id << 4 | (uint64_t)(*name - 'a' + 10);
        else
            return 0;
    }
    *ret_id = id;
    return 1;
}

int file_sync(int fd)
{
    return fdatasync(fd) == 0 ? 0 : -errno;
}

int file_sync_full(int fd)
{
    return fsync(fd) == 0 ? 0 : -errno;
}

int dir_sync(int fd)
{
    return fsync(fd) == 0 ? 0 : -errno;
}

int file_write_all(int fd, const void *buffer, size_t length, uint64_t offset)
{
    const uint8_t *at = buffer;

    while (length > 0) {
        ssize_t done = pwrite(fd, at, length, (off_t)offset);

        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return done == 0 ? -EIO : -errno;
        at += done;
        length -= (size_t)done;
        offset += (uint64_t)done;
    }
    return 0;
}

int64_t file_read_all(int fd, void *buffer, size_t length, uint64_t offset)
{
    uint8_t *at = buffer;
    size_t got = 0;

    while (got < length) {
        ssize_t done = pread(fd, at + got, length - got, (off_t)(offset + got));

        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return -errno;
        if (done == 0)
            break;
        got += (size_t)done;
    }
    return (int64_t)got;
}

/* Anything but a file is refused, and a pipe of that name not waited for. */
static int regular_open(int dir_fd, const char *name, int flags, int *ret_fd)
{
    struct stat status;
    int fd = openat(dir_fd, name, flags | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW, 0600), rc = 0;

    if (fd < 0)
        return -errno;
    if (fstat(fd, &status) != 0)
        rc = -errno;
    else if (!S_ISREG(status.st_mode))
        rc = SHOAL_E_FORMAT;
    if (rc < 0) {
        (void)close(fd); /* nothing was written */
        return rc;
    }
    *ret_fd = fd;
    return 0;
}

static int segment_open_as(
    struct file_volume *volume, uint64_t id, int flags, struct volume_file **ret_file)
{
    char name[SEGMENT_NAME_BYTES];
    struct file_segment *segment;
    int rc;

    if (volume->seg_fd < 0)
        return -ENOENT;
    segment = mem_zero(1, sizeof(*segment));
    if (segment == NULL)
        return -ENOMEM;
    segment_name(id, name);
    rc = regular_open(volume->seg_fd, name, flags, &segment->file.ring_fd);
    if (rc < 0) {
        mem_free(segment);
        return rc;
    }
    segment->owner = volume;
    segment->id = id;
    atomic_init(&segment->direct_fd, -1);
    /* Advice only: without it reads are merely larger than asked for. */
    (void)posix_fadvise(segment->file.ring_fd, 0, 0, POSIX_FADV_RANDOM);
    *ret_file = &segment->file;
    return 0;
}

static int segment_create(struct volume *volume, uint64_t id, struct volume_file **ret_file)
{
    if (own(volume)->read_only)
        return SHOAL_E_READ_ONLY;
    return segment_open_as(own(volume), id, O_RDWR | O_CREAT | O_EXCL, ret_file);
}

static int segment_open(struct volume *volume, uint64_t id, struct volume_file **ret_file)
{
    return segment_open_as(own(volume), id, own(volume)->read_only ? O_RDONLY : O_RDWR, ret_file);
}

static void segment_close(struct volume_file *file)
{
    struct file_segment *segment = segment_of(file);
    int direct_fd;

    if (file == NULL)
        return;
    direct_fd = atomic_load(&segment->direct_fd);
    /* What had to be durable was synced, with its result looked at, before this. */
    if (direct_fd >= 0 && direct_fd != file->ring_fd)
        (void)close(direct_fd);
    (void)close(file->ring_fd);
    mem_free(segment);
}

/* The descriptor for direct I/O, opened at the first call by whichever thread comes first; the
   buffered one where the volume has no direct I/O. Negative: -errno. */
static int segment_direct_fd(struct file_segment *segment)
{
    int known = atomic_load(&segment->direct_fd), fd, flags;
    char name[SEGMENT_NAME_BYTES];

    if (known >= 0)
        return known;
    if (!segment->owner->direct)
        return segment->file.ring_fd;
    segment_name(segment->id, name);
    flags = (segment->owner->read_only ? O_RDONLY : O_RDWR) | O_DIRECT | O_CLOEXEC | O_NOFOLLOW;
    fd = openat(segment->owner->seg_fd, name, flags);
    if (fd < 0 && errno == EINVAL)
        fd = segment->file.ring_fd;
    if (fd < 0)
        return -errno;
    if (!atomic_compare_exchange_strong(&segment->direct_fd, &known, fd)) {
        if (fd != segment->file.ring_fd)
            (void)close(fd); /* nothing was written through it */
        fd = known;
    }
    return fd;
}

static int segment_remove(struct volume *volume, uint64_t id)
{
    char name[SEGMENT_NAME_BYTES];

    if (own(volume)->read_only)
        return SHOAL_E_READ_ONLY;
    segment_name(id, name);
    return unlinkat(own(volume)->seg_fd, name, 0) == 0 ? 0 : -errno;
}

static int segment_list(struct volume *volume, int (*visit)(void *arg, uint64_t id), void *arg)
{
    struct dirent *entry;
    uint64_t id;
    DIR *folder;
    int rc = 0, fd;

    if (own(volume)->seg_fd < 0)
        return 0;
    fd = openat(own(volume)->seg_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    folder = fdopendir(fd);
    if (folder == NULL) {
        rc = -errno;
        (void)close(fd); /* only read from */
        return rc;
    }
    while (errno = 0, rc == 0 && (entry = readdir(folder)) != NULL) {
        if (file_segment_name_parse(entry->d_name, &id))
            rc = visit(arg, id);
    }
    if (rc == 0)
        rc = -errno;
    (void)closedir(folder); /* only read from */
    return rc;
}

static int segment_write_at(
    struct volume_file *file, const void *buffer, size_t length, uint64_t offset)
{
    int fd;

    if (segment_of(file)->owner->read_only)
        return SHOAL_E_READ_ONLY;
    fd = segment_direct_fd(segment_of(file));
    if (fd < 0)
        return fd;
    return file_write_all(fd, buffer, length, offset);
}

static int64_t segment_read_at(
    struct volume_file *file, void *buffer, size_t length, uint64_t offset)
{
    return file_read_all(file->ring_fd, buffer, length, offset);
}

/* One aligned read into the bounce buffer around what is wanted; returns the wanted bytes got,
   which may be fewer; 0 at the end of the file. Not file_read_all: to go on behind a short read at
   the end of a file would not be aligned. */
static int64_t read_bounced(int fd, uint8_t *bounce, size_t bounce_bytes, uint32_t unit,
    uint8_t *to, size_t length, uint64_t offset)
{
    size_t skip = offset % unit;
    size_t span = (size_t)round_up(skip + length, unit);
    int64_t got;

    if (span > bounce_bytes)
        span = bounce_bytes;
    do {
        got = pread(fd, bounce, span, (off_t)(offset - skip));
    } while (got < 0 && errno == EINTR);
    if (got < 0)
        return -errno;
    if ((size_t)got <= skip)
        return 0;
    got -= (int64_t)skip;
    if ((size_t)got > length)
        got = (int64_t)length;
    memcpy(to, bounce + skip, (size_t)got);
    return got;
}

static int64_t segment_read_direct(
    struct volume_file *file, void *buffer, size_t length, uint64_t offset)
{
    uint32_t unit = segment_of(file)->owner->volume.block_bytes;
    int fd = segment_direct_fd(segment_of(file));
    size_t bounce_bytes, done = 0;
    uint8_t *bounce;
    int64_t got = 0;

    if (fd < 0)
        return fd;
    if (fd == file->ring_fd)
        return file_read_all(fd, buffer, length, offset);
    bounce_bytes = (size_t)round_up(offset % unit + length, unit);
    if (bounce_bytes > BOUNCE_BYTES_MAX)
        bounce_bytes = BOUNCE_BYTES_MAX;
    bounce = mem_aligned(unit, bounce_bytes);
    if (bounce == NULL)
        return -ENOMEM;
    while (done < length) {
        got = read_bounced(
            fd, bounce, bounce_bytes, unit, (uint8_t *)buffer + done, length - done, offset + done);
        if (got <= 0)
            break;
        done += (size_t)got;
    }
    mem_free(bounce);
    return got < 0 ? got : (int64_t)done;
}

static int segment_reserve(struct volume_file *file, uint64_t end)
{
    int rc;

    if (segment_of(file)->owner->read_only)
        return SHOAL_E_READ_ONLY;
    do {
        rc = fallocate(file->ring_fd, FALLOC_FL_KEEP_SIZE, 0, (off_t)end) == 0 ? 0 : -errno;
    } while (rc == -EINTR);
    /* A file system that cannot reserve allocates as it is written to. */
    return rc == -EOPNOTSUPP ? 0 : rc;
}

static int segment_size(struct volume_file *file, uint64_t *ret_bytes)
{
    struct stat status;

    if (fstat(file->ring_fd, &status) != 0)
        return -errno;
    *ret_bytes = (uint64_t)status.st_size;
    return 0;
}

static int segment_trim(struct volume_file *file, uint64_t end)
{
    uint64_t size = 0;
    int rc;

    if (segment_of(file)->owner->read_only)
        return SHOAL_E_READ_ONLY;
    rc = segment_size(file, &size);
    if (rc < 0)
        return rc;
    /* Cutting to the size a file has already gives back the blocks reserved past it; a file that
       is shorter than end must not grow. */
    return ftruncate(file->ring_fd, (off_t)(size < end ? size : end)) == 0 ? 0 : -errno;
}

static int segment_sync(struct volume_file *file)
{
    if (segment_of(file)->owner->read_only)
        return SHOAL_E_READ_ONLY;
    return file_sync(file->ring_fd);
}

static int segments_dir_sync(struct volume *volume)
{
    if (own(volume)->read_only)
        return SHOAL_E_READ_ONLY;
    return dir_sync(own(volume)->seg_fd);
}

const struct volume_ops file_volume_ops = {
    .lock = file_volume_lock,
    .create = segment_create,
    .open = segment_open,
    .close = segment_close,
    .remove = segment_remove,
    .list = segment_list,
    .write_at = segment_write_at,
    .read_at = segment_read_at,
    .read_direct = segment_read_direct,
    .reserve = segment_reserve,
    .trim = segment_trim,
    .sync = segment_sync,
    .dir_sync = segments_dir_sync,
    .size = segment_size,
    .usage = file_volume_usage,
    .manifest_read = file_manifest_read,
    .manifest_append = file_manifest_append,
    .done = file_volume_done,
};
