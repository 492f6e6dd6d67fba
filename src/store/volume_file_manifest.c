/* The volume on files: the manifest, dir/MANIFEST.

   It only grows. An append first checks that the file still has the length the caller knows
   (nothing is there when that is 0), cuts what a crash left behind it and makes the cut durable, so
   that old bytes can never follow new ones; then it writes, syncs, and, at the first append, syncs
   the folder too, for the name. Only then does it return 0.

   What can fail: the system at any step (-errno), a manifest that is shorter than the caller knows
   (SHOAL_E_CONFLICT), one that is absurdly long (SHOAL_E_TOO_LARGE). After a failure the bytes
   behind `version` are unknown, and the caller must read them again or stop writing. */
#include "store/volume_file_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <shoal/error.h>

#include "base/bytes.h"
#include "base/mem.h"

#define MANIFEST_NAME "MANIFEST"

static int manifest_size(int fd, uint64_t *ret_bytes)
{
    struct stat status;

    if (fstat(fd, &status) != 0)
        return -errno;
    if (!S_ISREG(status.st_mode))
        return SHOAL_E_FORMAT;
    if ((uint64_t)status.st_size > MANIFEST_BYTES_MAX)
        return SHOAL_E_TOO_LARGE;
    *ret_bytes = (uint64_t)status.st_size;
    return 0;
}

/* The content as the device has it. Synced first, then read past the page cache: a sync that failed
   in an earlier process leaves pages there that look written and are not, and an entry appended
   behind one of those would be unreachable after the next power cut. */
static int64_t manifest_content(
    struct file_volume *files, int fd, uint64_t size, uint8_t *buffer, size_t room)
{
    int direct_fd = -1, rc = files->read_only ? 0 : file_sync(fd);
    int64_t got;

    /* A process that made the file may have died before it made the name durable. */
    if (rc == 0 && !files->read_only)
        rc = dir_sync(files->dir_fd);
    if (rc < 0)
        return rc;
    if (files->direct)
        direct_fd =
            openat(files->dir_fd, MANIFEST_NAME, O_RDONLY | O_DIRECT | O_CLOEXEC | O_NOFOLLOW);
    if (direct_fd < 0)
        return file_read_all(fd, buffer, (size_t)size, 0);
    do {
        got = pread(direct_fd, buffer, room, 0);
    } while (got < 0 && errno == EINTR);
    if (got < 0)
        got = -errno;
    (void)close(direct_fd); /* only read from */
    if (got < 0 && got != -EINVAL)
        return got;
    /* Some take O_DIRECT at open and refuse it at the read, or read short: the other way then. */
    return got == (int64_t)size ? got : file_read_all(fd, buffer, (size_t)size, 0);
}

int file_manifest_read(struct volume *volume, uint8_t **ret_bytes, size_t *ret_length)
{
    struct file_volume *files = (struct file_volume *)volume;
    int fd = openat(files->dir_fd, MANIFEST_NAME, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
    uint8_t *bytes = NULL;
    uint64_t size = 0;
    size_t room = 0;
    int64_t got = 0;

    if (fd < 0 && errno != ENOENT)
        return -errno;
    if (fd >= 0)
        got = manifest_size(fd, &size);
    if (got == 0) {
        /* At least a byte more, so that one aligned read sees the end. */
        room = (size_t)round_up(size + 1, volume->block_bytes);
        bytes = mem_aligned(volume->block_bytes, room);
        got = bytes == NULL ? -ENOMEM : 0;
    }
    if (got == 0 && fd >= 0)
        got = manifest_content(files, fd, size, bytes, room);
    if (fd >= 0)
        (void)close(fd); /* only read from */
    if (got < 0) {
        mem_free(bytes);
        return (int)got;
    }
    *ret_bytes = bytes;
    *ret_length = (size_t)got;
    return 0;
}

/* Leaves the file with exactly `version` bytes, durably. */
static int manifest_cut(int fd, uint64_t version)
{
    uint64_t size = 0;
    int rc = manifest_size(fd, &size);

    if (rc < 0)
        return rc;
    if (size < version)
        return SHOAL_E_CONFLICT;
    if (size == version)
        return 0;
    if (ftruncate(fd, (off_t)version) != 0)
        return -errno;
    return file_sync_full(fd);
}

int file_manifest_append(struct volume *volume, uint64_t version, const void *bytes, size_t length)
{
    struct file_volume *files = (struct file_volume *)volume;
    int fd, rc;

    if (files->read_only)
        return SHOAL_E_READ_ONLY;
    if (version + length > MANIFEST_BYTES_MAX)
        return SHOAL_E_TOO_LARGE;
    fd = openat(files->dir_fd, MANIFEST_NAME,
        O_RDWR | O_CLOEXEC | O_NOFOLLOW | (version == 0 ? O_CREAT : 0), 0600);
    if (fd < 0)
        return errno == ENOENT ? SHOAL_E_CONFLICT : -errno;
    rc = manifest_cut(fd, version);
    if (rc == 0)
        rc = file_write_all(fd, bytes, length, version);
    if (rc == 0)
        rc = file_sync(fd);
    /* At version 0 the name may be new, by this call or by one that a crash cut short. */
    if (rc == 0 && version == 0)
        rc = dir_sync(files->dir_fd);
    /* Everything is synced by now, so close has nothing to report. */
    (void)close(fd);
    return rc;
}
