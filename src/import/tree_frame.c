/* Frames: a stretch of one directory's names, read with getdents64 into a buffer of fixed size.

   A directory is opened once and lives as long as frames refer to it, so that names can be given
   to openat and no path is ever looked up from the root: depth has no limit but the length of a
   key. Names are visited in the order of their inodes, which is the order of their place on the
   disk for ext4 and spares a cold disk most of its seeks.

   Entries come from the kernel, but a FUSE file system behind it can be anybody's: lengths are
   checked before use. */
#include "import/tree_priv.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"

struct tree_dir *tree_dir_new(int fd, unsigned level, const char *path, size_t path_length)
{
    struct tree_dir *dir = mem_alloc(sizeof *dir);
    if (!dir)
        return NULL;
    atomic_init(&dir->references, 1);
    dir->fd = fd;
    dir->level = level;
    dir->path_length = path_length;
    memcpy(dir->path, path, path_length);
    return dir;
}

void tree_dir_unref(struct tree_dir *dir)
{
    if (!dir || atomic_fetch_sub(&dir->references, 1) != 1)
        return;
    (void)close(dir->fd); /* only read from: nothing is lost */
    mem_free(dir);
}

unsigned tree_frame_capacity(unsigned level)
{
    return level < TREE_DEEP_LEVEL ? TREE_NAMES_BYTES : TREE_DEEP_BYTES;
}

struct tree_frame *tree_frame_new(struct tree_dir *dir, unsigned capacity_bytes)
{
    size_t places = capacity_bytes / TREE_RECORD_MIN + 1;
    struct tree_frame *frame =
        mem_alloc(sizeof *frame + capacity_bytes + places * sizeof frame->places[0]);
    if (!frame)
        return NULL;
    frame->dir = dir;
    frame->below = NULL;
    frame->reads_on = true;
    frame->count = frame->next = 0;
    frame->capacity_bytes = capacity_bytes;
    frame->places = (struct tree_place *)(void *)(frame->names + capacity_bytes);
    return frame;
}

void tree_frame_free(struct tree_frame *frame)
{
    if (!frame)
        return;
    tree_dir_unref(frame->dir);
    mem_free(frame);
}

static int compare_places(const void *a, const void *b)
{
    const struct tree_place *left = a, *right = b;
    return left->ino < right->ino ? -1 : left->ino > right->ino;
}

static bool is_dot(const char *name)
{
    return name[0] == '.' && (name[1] == 0 || (name[1] == '.' && name[2] == 0));
}

/* Lists the entries of a buffer; -EIO if they are malformed. */
static int index_names(struct tree_frame *frame, size_t length)
{
    bool sorted = true;
    uint64_t last_ino = 0;
    frame->count = frame->next = 0;
    for (size_t at = 0; at < length;) {
        struct dirent64 *entry = (void *)(frame->names + at);
        size_t left = length - at;
        size_t head = offsetof(struct dirent64, d_name);
        if (left < TREE_RECORD_MIN || entry->d_reclen < TREE_RECORD_MIN || entry->d_reclen > left ||
            !memchr(entry->d_name, 0, entry->d_reclen - head))
            return -EIO;
        if (!is_dot(entry->d_name)) {
            frame->places[frame->count++] =
                (struct tree_place){.ino = entry->d_ino, .offset = (uint32_t)at};
            sorted = sorted && entry->d_ino >= last_ino;
            last_ino = entry->d_ino;
        }
        at += entry->d_reclen;
    }
    if (!sorted)
        qsort(frame->places, frame->count, sizeof frame->places[0], compare_places);
    return 0;
}

int tree_frame_fill(struct tree_frame *frame)
{
    do {
        ssize_t length = getdents64(frame->dir->fd, frame->names, frame->capacity_bytes);
        if (length < 0)
            return -errno;
        if (length == 0)
            return 0;
        int rc = index_names(frame, (size_t)length);
        if (rc < 0)
            return rc;
    } while (frame->count == 0);
    return (int)frame->count;
}
