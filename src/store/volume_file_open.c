/* The volume on files: opening a data directory.

   What is there is judged before anything is made. A store has a MANIFEST with bytes in it. A new
   one may be made where the directory is absent or empty, or holds only what a creation cut short,
   a mount point or a neighbouring part of shoal leaves (listed below); segments without a MANIFEST
   are somebody's data and are refused. Names made here, the directory itself and seg/, are durable
   before open returns; the lock is a step of its own, taken by the caller next.

   Refusals carry a text for a person: what, where, why, and what to do. */
#include "store/volume_file_priv.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"

#define NO_STORE_HINT "serve, import, put and bucket create make a store"

/* Says whether the directory holds a store: 1, 0, or -errno. */
static int has_manifest(int dir_fd)
{
    struct stat status;

    if (fstatat(dir_fd, "MANIFEST", &status, 0) != 0)
        return errno == ENOENT ? 0 : -errno;
    return status.st_size > 0;
}

/* True for names that may lie in a directory that is still to become a store. */
static bool name_is_harmless(const char *name)
{
    static const char *const harmless[] = {".", "..", "LOCK", "MANIFEST", "seg", "index",
        "catalogue", "cache", "BALLAST", "admin.sock", "lost+found"};

    for (size_t i = 0; i < sizeof(harmless) / sizeof(harmless[0]); i++) {
        if (strcmp(name, harmless[i]) == 0)
            return true;
    }
    return false;
}

/* Copies the first name that keeps a store from being made here; empty: none. */
static int find_foreign(int dir_fd, bool in_seg, char ret_name[NAME_MAX + 1])
{
    int fd = openat(dir_fd, in_seg ? "seg" : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct dirent *entry;
    uint64_t id;
    DIR *folder;
    int rc = 0;

    ret_name[0] = 0;
    if (fd < 0)
        return errno == ENOENT ? 0 : -errno;
    folder = fdopendir(fd);
    if (folder == NULL) {
        rc = -errno;
        (void)close(fd); /* only read from */
        return rc;
    }
    while (errno = 0, ret_name[0] == 0 && (entry = readdir(folder)) != NULL) {
        if (in_seg ? file_segment_name_parse(entry->d_name, &id) : !name_is_harmless(entry->d_name))
            (void)strcpy(ret_name, entry->d_name); /* d_name is at most NAME_MAX long */
    }
    rc = ret_name[0] == 0 ? -errno : 0;
    (void)closedir(folder); /* only read from */
    return rc;
}

/* 0 when a store may be made in this directory without one. */
static int refuse_foreign(struct file_volume *volume, struct shoal_error *error)
{
    char name[NAME_MAX + 1];
    int rc = find_foreign(volume->dir_fd, false, name);

    if (rc == 0 && name[0] != 0)
        return error_set(error, SHOAL_E_NO_STORE, volume->dir_path, 0,
            "%s holds no store but other things (%.64s): name an empty or a new directory",
            volume->dir_path, name);
    if (rc == 0)
        rc = find_foreign(volume->dir_fd, true, name);
    if (rc == 0 && name[0] != 0)
        return error_set(error, SHOAL_E_NO_STORE, volume->dir_path, 0,
            "%s holds segments (seg/%s) but its MANIFEST is gone: put it back from a backup, or "
            "name another directory",
            volume->dir_path, name);
    if (rc < 0)
        return error_set(error, rc, volume->dir_path, 0, "cannot read directory %s: %s",
            volume->dir_path, shoal_strerror(rc));
    return 0;
}

/* Syncs the folder that holds dir, so that dir's own name is durable. */
static int parent_sync(const char *dir)
{
    char *copy = mem_strdup(dir);
    int fd, rc;

    if (copy == NULL)
        return -ENOMEM;
    fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    mem_free(copy);
    if (fd < 0)
        return -errno;
    rc = dir_sync(fd);
    (void)close(fd); /* only synced */
    return rc;
}

static int make_dir(const char *dir, struct shoal_error *error)
{
    int rc = mkdir(dir, 0700) == 0 || errno == EEXIST ? 0 : -errno;

    if (rc == 0)
        rc = parent_sync(dir);
    if (rc < 0)
        return error_set(error, rc, dir, 0, "cannot make directory %s: %s%s", dir,
            shoal_strerror(rc), rc == -ENOENT ? " (make the folder above it first)" : "");
    return 0;
}

static int open_dir(
    struct file_volume *volume, const char *dir, bool may_make, struct shoal_error *error)
{
    int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC, rc;

    volume->dir_fd = open(dir, flags);
    if (volume->dir_fd < 0 && errno == ENOENT && may_make) {
        rc = make_dir(dir, error);
        if (rc < 0)
            return rc;
        volume->dir_fd = open(dir, flags);
    }
    if (volume->dir_fd >= 0)
        return 0;
    rc = -errno;
    if (rc == -ENOENT)
        return error_set(error, SHOAL_E_NO_STORE, dir, 0,
            "there is no directory %s: check the name (" NO_STORE_HINT ")", dir);
    if (rc == -ENOTDIR)
        return error_set(error, SHOAL_E_NO_STORE, dir, 0,
            "%s is not a directory: a store needs a directory of its own", dir);
    return error_set(error, rc, dir, 0, "cannot open directory %s: %s; run as its owner", dir,
        shoal_strerror(rc));
}

/* Opens seg/, making it (and its name durable) where allowed. */
static int open_seg(struct file_volume *volume, struct shoal_error *error)
{
    int rc = 0;

    if (!volume->read_only) {
        if (mkdirat(volume->dir_fd, "seg", 0700) == 0)
            rc = dir_sync(volume->dir_fd);
        else
            rc = errno == EEXIST ? 0 : -errno;
    }
    if (rc == 0) {
        volume->seg_fd =
            openat(volume->dir_fd, "seg", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (volume->seg_fd < 0 && !(errno == ENOENT && volume->read_only))
            rc = -errno;
    }
    if (rc < 0)
        return error_set(error, rc, volume->dir_path, 0,
            "cannot make or open %s/seg: %s; the directory must be writable for this user",
            volume->dir_path, shoal_strerror(rc));
    return 0;
}

static int judge_dir(struct file_volume *volume, bool create, struct shoal_error *error)
{
    int rc = has_manifest(volume->dir_fd);

    if (rc < 0)
        return error_set(error, rc, volume->dir_path, 0,
            "cannot look into %s: %s; run as its owner", volume->dir_path, shoal_strerror(rc));
    if (rc == 1)
        return 0;
    if (!create)
        return error_set(error, SHOAL_E_NO_STORE, volume->dir_path, 0,
            "%s holds no store: check the name (" NO_STORE_HINT ")", volume->dir_path);
    return refuse_foreign(volume, error);
}

int volume_file_open(const char *dir, int create, int read_only, struct volume **ret_volume,
    struct shoal_error *error)
{
    struct file_volume *volume = mem_zero(1, sizeof(*volume));
    bool may_make = create && !read_only;
    int rc;

    if (volume == NULL)
        return error_set(error, -ENOMEM, dir, 0, "out of memory");
    volume->volume.ops = &file_volume_ops;
    volume->read_only = read_only;
    volume->dir_fd = volume->seg_fd = volume->lock_fd = -1;
    volume->dir_path = mem_strdup(dir);
    if (volume->dir_path == NULL) {
        rc = error_set(error, -ENOMEM, dir, 0, "out of memory");
        goto failed;
    }
    rc = open_dir(volume, dir, may_make, error);
    if (rc == 0)
        rc = judge_dir(volume, may_make, error);
    if (rc == 0)
        rc = open_seg(volume, error);
    if (rc < 0)
        goto failed;
    file_volume_probe(volume);
    *ret_volume = &volume->volume;
    return 0;

failed:
    file_volume_done(&volume->volume);
    return rc;
}
