/* The catalogue's folder: RocksDB's own folder `db` in it, the file being written for ingestion, and
   the mark that damage was found.

   Clearing removes exactly these, by descriptors and without following links, so that whatever else
   lies in or is linked from the folder stays. It can fail like any removal; what is left then is
   found again at the next open. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/catalogue_rocksdb_priv.h"

#define DEPTH_MAX 4

int catalogue_dir_open(const char *dir)
{
    if (mkdir(dir, 0700) < 0 && errno != EEXIST)
        return -errno;
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static int remove_tree(int parent_fd, const char *name, unsigned depth);

static int remove_entries(DIR *dir, unsigned depth)
{
    int rc = 0;
    while (rc == 0) {
        errno = 0;
        struct dirent *entry = readdir(dir);
        if (!entry)
            return -errno;
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            rc = remove_tree(dirfd(dir), entry->d_name, depth);
    }
    return rc;
}

/* Removes a file, a link, or a folder with all below it; absent is well. */
static int remove_tree(int parent_fd, const char *name, unsigned depth)
{
    if (unlinkat(parent_fd, name, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR && errno != EPERM)
        return -errno;
    if (depth == DEPTH_MAX)
        return -ELOOP;
    int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    DIR *dir = fdopendir(fd);
    if (!dir) {
        int rc = -errno;
        close(fd);
        return rc;
    }
    int rc = remove_entries(dir, depth + 1);
    closedir(dir);
    if (rc == 0 && unlinkat(parent_fd, name, AT_REMOVEDIR) < 0)
        rc = -errno;
    return rc;
}

int catalogue_dir_clear(int dir_fd)
{
    /* Half a database, after a crash in between, is damage that the next open sees by itself. */
    static const char *const names[] = {
        CATALOGUE_INGEST_NAME, CATALOGUE_DB_NAME, CATALOGUE_DAMAGED_NAME};
    for (unsigned i = 0; i < sizeof(names) / sizeof(*names); i++) {
        int rc = remove_tree(dir_fd, names[i], 0);
        if (rc < 0)
            return rc;
    }
    return 0;
}
