/* The volume on files: the lock, what the device asks for, and what the directory takes.

   The lock is an exclusive flock on LOCK, released by the kernel with the process, however it ends.
   The holder writes its pid there; whoever is refused asks /proc/locks first, because a reader
   writes nothing and the file may name a process long gone.

   Blocks are the largest of 4 KiB, the alignment direct I/O wants (statx), and the device's
   physical block (sysfs). tmpfs takes O_DIRECT without saying so in statx; where it is refused the
   volume works through the page cache. The probe uses a file without a name, so that it leaves
   nothing behind.

   A refused lock carries a text for a person; usage reports -errno but for files that vanish while
   it walks. */
#include "store/volume_file_priv.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"

#define BLOCK_BYTES_MIN 4096u
#define BLOCK_BYTES_MAX (1u << 20)

/* Folders below the data directory are our own and flat; RocksDB's too. */
#define USAGE_DEPTH_MAX 16

static struct file_volume *own(struct volume *volume)
{
    return (struct file_volume *)volume;
}

/* --- the lock --- */

/* The pid of the process that holds a flock on this file, 0 if the kernel does not tell. */
static long lock_holder_by_kernel(int fd)
{
    FILE *locks = fopen("/proc/locks", "re");
    unsigned major_number, minor_number;
    struct stat status;
    unsigned long inode;
    char line[256];
    long pid, found = 0;

    if (locks == NULL)
        return 0;
    if (fstat(fd, &status) != 0)
        status.st_ino = 0;
    while (found == 0 && fgets(line, sizeof(line), locks) != NULL) {
        if (sscanf(line, "%*d: FLOCK %*s %*s %ld %x:%x:%lu", &pid, &major_number, &minor_number,
                &inode) == 4 &&
            inode == status.st_ino && makedev(major_number, minor_number) == status.st_dev)
            found = pid;
    }
    (void)fclose(locks); /* only read from */
    return found > 0 ? found : 0;
}

static long lock_holder_by_file(int fd)
{
    char text[32];
    int64_t got = file_read_all(fd, text, sizeof(text) - 1, 0);

    if (got <= 0)
        return 0;
    text[got] = 0;
    return strtol(text, NULL, 10);
}

static int lock_busy(struct file_volume *volume, int fd, struct shoal_error *error)
{
    long pid = lock_holder_by_kernel(fd);

    if (pid == 0)
        pid = lock_holder_by_file(fd);
    if (pid <= 0)
        return error_set(error, SHOAL_E_BUSY, volume->dir_path, 0,
            "store %s is in use by another process: stop it first", volume->dir_path);
    return error_set(error, SHOAL_E_BUSY, volume->dir_path, 0,
        "store %s is in use by process %ld: stop it first", volume->dir_path, pid);
}

static int lock_refused(struct file_volume *volume, int code, struct shoal_error *error)
{
    return error_set(error, code, volume->dir_path, 0,
        "cannot lock store %s: LOCK: %s; run as the owner of the directory, on a file system that "
        "takes writes",
        volume->dir_path, shoal_strerror(code));
}

static int lock_write_pid(int fd)
{
    char text[32];
    int length = snprintf(text, sizeof(text), "%ld\n", (long)getpid());

    if (ftruncate(fd, 0) != 0)
        return -errno;
    return file_write_all(fd, text, (size_t)length, 0);
}

int file_volume_lock(struct volume *volume, struct shoal_error *error)
{
    struct file_volume *files = own(volume);
    int flags = files->read_only ? O_RDONLY : O_RDWR | O_CREAT;
    int fd = openat(files->dir_fd, "LOCK", flags | O_CLOEXEC | O_NOFOLLOW, 0600);
    int rc = 0;

    /* A copy of a store, or one on a read-only medium, may have no LOCK; nobody writes there. */
    if (fd < 0 && errno == ENOENT && files->read_only)
        return 0;
    if (fd < 0)
        return lock_refused(files, -errno, error);
    if (flock(fd, LOCK_EX | LOCK_NB) != 0)
        rc =
            errno == EWOULDBLOCK ? lock_busy(files, fd, error) : lock_refused(files, -errno, error);
    if (rc == 0 && !files->read_only) {
        rc = lock_write_pid(fd);
        /* A full disk must not keep a store from being opened to delete from it. */
        if (rc == -ENOSPC || rc == -EDQUOT)
            rc = 0;
        if (rc < 0)
            rc = lock_refused(files, rc, error);
    }
    if (rc < 0) {
        (void)close(fd); /* nothing of value was written */
        return rc;
    }
    files->lock_fd = fd;
    return 0;
}

/* --- direct I/O and block size --- */

static uint32_t larger_block(uint32_t block, uint64_t candidate)
{
    int sane = candidate <= BLOCK_BYTES_MAX && (candidate & (candidate - 1)) == 0;

    return sane && candidate > block ? (uint32_t)candidate : block;
}

/* The physical block of the device that holds this, 0 where there is none to ask. */
static uint64_t physical_block_bytes(const struct statx *status)
{
    static const char *const between[] = {"", "../"}; /* a partition has no queue of its own */
    uint64_t bytes = 0;
    char path[128];

    for (size_t i = 0; i < 2 && bytes == 0; i++) {
        FILE *file;

        (void)snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/%squeue/physical_block_size",
            status->stx_dev_major, status->stx_dev_minor, between[i]);
        file = fopen(path, "re");
        if (file == NULL)
            continue;
        if (fscanf(file, "%" SCNu64, &bytes) != 1)
            bytes = 0;
        (void)fclose(file); /* only read from */
    }
    return bytes;
}

/* A file in the volume to ask about: one without a name, or, read-only, the manifest. */
static int probe_open(struct file_volume *volume)
{
    if (volume->read_only)
        return openat(volume->dir_fd, "MANIFEST", O_RDONLY | O_CLOEXEC | O_DIRECT);
    return openat(volume->seg_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC | O_DIRECT, 0600);
}

void file_volume_probe(struct file_volume *volume)
{
    uint32_t block = BLOCK_BYTES_MIN;
    struct statx status = {0};
    int fd = probe_open(volume);

    /* Where there are no nameless files, every segment finds out for itself (EINVAL at its open). */
    volume->direct = fd >= 0 || errno == EOPNOTSUPP || errno == EISDIR;
    if (statx(fd >= 0 ? fd : volume->dir_fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS | STATX_DIOALIGN,
            &status) == 0) {
        block = larger_block(block, physical_block_bytes(&status));
        if (status.stx_mask & STATX_DIOALIGN) {
            volume->direct = volume->direct && status.stx_dio_offset_align > 0;
            block = larger_block(block, status.stx_dio_offset_align);
            block = larger_block(block, status.stx_dio_mem_align);
        }
    }
    if (fd >= 0)
        (void)close(fd); /* nothing was written */
    volume->volume.block_bytes = block;
}

/* --- what the directory takes --- */

/* Adds the blocks of all below the folder; takes fd over. */
static int usage_add(int fd, unsigned depth, uint64_t *sum)
{
    DIR *folder = fdopendir(fd);
    struct dirent *entry;
    struct stat status;
    int rc = 0;

    if (folder == NULL) {
        rc = -errno;
        (void)close(fd); /* only read from */
        return rc;
    }
    while (errno = 0, rc == 0 && (entry = readdir(folder)) != NULL) {
        int below;

        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (fstatat(fd, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0) {
            /* Files come and go while the store works. */
            rc = errno == ENOENT ? 0 : -errno;
            continue;
        }
        *sum += (uint64_t)status.st_blocks * 512;
        if (!S_ISDIR(status.st_mode) || depth >= USAGE_DEPTH_MAX)
            continue;
        below = openat(fd, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (below >= 0)
            rc = usage_add(below, depth + 1, sum);
        /* lost+found of a mount point belongs to root alone. */
        else if (errno != ENOENT && errno != EACCES)
            rc = -errno;
    }
    if (rc == 0)
        rc = -errno;
    (void)closedir(folder); /* only read from */
    return rc;
}

int file_volume_usage(struct volume *volume, uint64_t *ret_bytes)
{
    int fd = openat(own(volume)->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct stat status;
    uint64_t sum;
    int rc;

    if (fd < 0)
        return -errno;
    if (fstat(fd, &status) != 0) {
        rc = -errno;
        (void)close(fd); /* only read from */
        return rc;
    }
    sum = (uint64_t)status.st_blocks * 512;
    rc = usage_add(fd, 0, &sum);
    if (rc == 0)
        *ret_bytes = sum;
    return rc;
}

/* --- end --- */

void file_volume_done(struct volume *volume)
{
    struct file_volume *files = own(volume);

    if (volume == NULL)
        return;
    /* Folders hold no unsynced data of ours; closing LOCK releases it. */
    if (files->seg_fd >= 0)
        (void)close(files->seg_fd);
    if (files->lock_fd >= 0)
        (void)close(files->lock_fd);
    if (files->dir_fd >= 0)
        (void)close(files->dir_fd);
    mem_free(files->dir_path);
    mem_free(files);
}
