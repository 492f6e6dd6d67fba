/* Walking a tree.

   Each worker holds a stack of frames, one a level of the directories it is in, and visits the names
   of the topmost. A directory it meets becomes a new frame: given away when the queue has room, else
   put on the stack at once (depth first). A directory so large that its names fill a buffer is
   shared as well: the filled buffer is given away and the worker reads the next one, so that several
   threads work on one directory of millions.

   Memory: a stack is at most as deep as a key can be long (512 levels), with small buffers below
   the first levels; the queue is bounded; nothing is kept of what was visited.

   What can't be opened or read is told to the visitor and left out. Without memory for a frame the
   walk stops and says so. */
#include "import/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "import/tree_priv.h"

/* Names a buffer must hold before it is worth giving away. */
#define SHARE_NAMES 64

struct shared {
    const struct tree_walk *walk;
    struct tree_queue queue;
    atomic_int error;
};

/* Owned by its thread. */
struct worker {
    struct shared *shared;
    void *visitor_arg;
    bool use_noatime; /* until the kernel refuses it */
    struct tree_frame *spare;
    unsigned spare_count;
    const struct tree_dir *path_dir; /* whose path stands in path */
    char path[TREE_PATH_MAX + 1 + NAME_MAX + 1];
};

static bool stopping(const struct worker *worker)
{
    return atomic_load_explicit(worker->shared->walk->stop, memory_order_relaxed) ||
           atomic_load_explicit(&worker->shared->error, memory_order_relaxed) < 0;
}

static void fail(struct worker *worker, int code)
{
    int none = 0;
    atomic_compare_exchange_strong(&worker->shared->error, &none, code);
}

static void leave_out(struct worker *worker, size_t path_length, int code)
{
    worker->shared->walk->visitor.left_out(worker->visitor_arg, worker->path, path_length, code);
}

/* A frame for an open directory; takes over the reference, also on failure. */
static struct tree_frame *frame_take(struct worker *worker, struct tree_dir *dir)
{
    unsigned capacity = tree_frame_capacity(dir->level);
    struct tree_frame *frame = worker->spare;
    if (frame && capacity == TREE_NAMES_BYTES) {
        worker->spare = frame->below;
        worker->spare_count--;
        frame->dir = dir;
        frame->below = NULL;
        frame->reads_on = true;
        frame->count = frame->next = 0;
        return frame;
    }
    frame = tree_frame_new(dir, capacity);
    if (!frame) {
        tree_dir_unref(dir);
        fail(worker, -ENOMEM);
    }
    return frame;
}

static void frame_drop(struct worker *worker, struct tree_frame *frame)
{
    tree_dir_unref(frame->dir);
    frame->dir = NULL;
    worker->path_dir = NULL; /* its memory may come back as another directory */
    if (frame->capacity_bytes == TREE_NAMES_BYTES && worker->spare_count < TREE_SPARE_FRAMES) {
        frame->below = worker->spare;
        worker->spare = frame;
        worker->spare_count++;
    } else {
        tree_frame_free(frame);
    }
}

static int open_dir(struct worker *worker, int dir_fd, const char *name)
{
    int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;
    if (worker->use_noatime) {
        int fd = openat(dir_fd, name, flags | O_NOATIME);
        if (fd >= 0 || errno != EPERM)
            return fd >= 0 ? fd : -errno;
        worker->use_noatime = false; /* only the owner may ask for it */
    }
    int fd = openat(dir_fd, name, flags);
    return fd >= 0 ? fd : -errno;
}

static bool is_excluded(const struct tree_walk *walk, int fd)
{
    struct stat st;
    return walk->excluded_ino && fstat(fd, &st) == 0 && st.st_ino == walk->excluded_ino &&
           st.st_dev == walk->excluded_dev;
}

/* Opens a subdirectory whose path stands in worker->path. NULL if it was left out or given away. */
static struct tree_frame *enter(
    struct worker *worker, const struct tree_dir *parent, const char *name, size_t path_length)
{
    const struct tree_walk *walk = worker->shared->walk;
    /* A slash and a name of one byte must still fit. */
    if (path_length + 2 > TREE_PATH_MAX) {
        leave_out(worker, path_length, TREE_TOO_LONG);
        return NULL;
    }
    int fd = open_dir(worker, parent->fd, name);
    if (fd < 0) {
        leave_out(worker, path_length, fd);
        return NULL;
    }
    if (is_excluded(walk, fd)) {
        (void)close(fd); /* read-only */
        leave_out(worker, path_length, TREE_EXCLUDED);
        return NULL;
    }
    worker->path[path_length] = '/';
    struct tree_dir *dir = tree_dir_new(fd, parent->level + 1, worker->path, path_length + 1);
    if (!dir) {
        (void)close(fd); /* read-only */
        fail(worker, -ENOMEM);
        return NULL;
    }
    struct tree_frame *frame = frame_take(worker, dir);
    if (frame && atomic_load_explicit(&worker->shared->queue.room, memory_order_relaxed) &&
        tree_queue_offer(&worker->shared->queue, frame))
        return NULL;
    return frame;
}

static int type_of(int dir_fd, const struct dirent64 *entry)
{
    struct stat st;
    if (entry->d_type != DT_UNKNOWN)
        return entry->d_type;
    if (fstatat(dir_fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    return IFTODT(st.st_mode);
}

/* The next name of a frame. Returns a frame to go into, or NULL. */
static struct tree_frame *visit(struct worker *worker, struct tree_frame *frame)
{
    struct tree_dir *dir = frame->dir;
    const struct dirent64 *entry =
        (const void *)(frame->names + frame->places[frame->next++].offset);
    size_t name_length = strnlen(entry->d_name, NAME_MAX + 1);
    size_t path_length = dir->path_length + name_length;
    if (worker->path_dir != dir) {
        memcpy(worker->path, dir->path, dir->path_length);
        worker->path_dir = dir;
    }
    if (name_length > NAME_MAX || memchr(entry->d_name, '/', name_length)) {
        leave_out(worker, dir->path_length, -EIO); /* no file system may give such a name */
        return NULL;
    }
    memcpy(worker->path + dir->path_length, entry->d_name, name_length);
    int type = type_of(dir->fd, entry);
    if (type < 0)
        leave_out(worker, path_length, type);
    else if (type == DT_DIR)
        return enter(worker, dir, entry->d_name, path_length);
    else if (path_length > TREE_PATH_MAX)
        leave_out(worker, path_length, TREE_TOO_LONG);
    else
        worker->shared->walk->visitor.file(
            worker->visitor_arg, &(struct tree_entry){.dir_fd = dir->fd,
                                     .name = entry->d_name,
                                     .path = worker->path,
                                     .path_length = path_length,
                                     .type = (unsigned char)type});
    return NULL;
}

/* Gives a filled frame away and returns an empty one that reads on in the same directory, or
   returns the frame itself. */
static struct tree_frame *share(struct worker *worker, struct tree_frame *frame)
{
    struct tree_queue *queue = &worker->shared->queue;
    if (frame->count < SHARE_NAMES || !atomic_load_explicit(&queue->room, memory_order_relaxed))
        return frame;
    atomic_fetch_add(&frame->dir->references, 1);
    struct tree_frame *rest = frame_take(worker, frame->dir);
    if (!rest)
        return frame;
    struct tree_frame *below = frame->below;
    frame->reads_on = false;
    frame->below = NULL;
    if (tree_queue_offer(queue, frame)) {
        rest->below = below;
        return rest;
    }
    frame->reads_on = true;
    frame->below = below;
    frame_drop(worker, rest);
    return frame;
}

/* One step with the topmost frame; returns the new topmost one, NULL at the end of the stack. */
static struct tree_frame *step(struct worker *worker, struct tree_frame *frame)
{
    if (frame->next < frame->count) {
        struct tree_frame *above = visit(worker, frame);
        if (!above)
            return frame;
        above->below = frame;
        return above;
    }
    int rc = frame->reads_on ? tree_frame_fill(frame) : 0;
    if (rc > 0)
        return share(worker, frame);
    if (rc < 0) {
        /* The slash at the end is not part of the directory's name. */
        size_t length = frame->dir->path_length;
        memcpy(worker->path, frame->dir->path, length);
        leave_out(worker, length ? length - 1 : 0, rc);
    }
    struct tree_frame *below = frame->below;
    frame_drop(worker, frame);
    return below;
}

static void *work(void *arg)
{
    struct worker *worker = arg;
    struct tree_frame *frame;
    while ((frame = tree_queue_take(&worker->shared->queue))) {
        while (frame) {
            struct tree_frame *below = frame->below;
            if (!stopping(worker)) {
                frame = step(worker, frame);
                continue;
            }
            frame_drop(worker, frame);
            frame = below;
        }
    }
    while ((frame = worker->spare)) {
        worker->spare = frame->below;
        tree_frame_free(frame);
    }
    return NULL;
}

/* The first frame: the root itself, whose descriptor is duplicated by opening it anew, since
   positions in a directory are shared between duplicates. */
static int offer_root(struct shared *shared)
{
    const struct tree_walk *walk = shared->walk;
    int fd = openat(walk->root_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    struct tree_dir *dir = tree_dir_new(fd, 0, walk->prefix, walk->prefix_length);
    if (!dir) {
        (void)close(fd); /* read-only */
        return -ENOMEM;
    }
    struct tree_frame *frame = tree_frame_new(dir, tree_frame_capacity(0));
    if (!frame) {
        tree_dir_unref(dir);
        return -ENOMEM;
    }
    (void)tree_queue_offer(&shared->queue, frame); /* there is room for one a worker */
    return 0;
}

int tree_walk(const struct tree_walk *walk)
{
    struct shared shared = {.walk = walk};
    struct worker *workers;
    pthread_t threads[TREE_WORKERS_MAX];
    unsigned started = 0;
    int rc;

    if (walk->worker_count == 0 || walk->worker_count > TREE_WORKERS_MAX ||
        walk->prefix_length > TREE_PATH_MAX)
        return -EINVAL;
    workers = mem_zero(walk->worker_count, sizeof *workers);
    if (!workers)
        return -ENOMEM;
    tree_queue_init(&shared.queue, walk->worker_count);
    rc = offer_root(&shared);
    if (rc < 0)
        goto out;
    for (unsigned i = 0; i < walk->worker_count; i++) {
        workers[i] = (struct worker){
            .shared = &shared, .visitor_arg = walk->workers[i], .use_noatime = true};
        int refused = pthread_create(&threads[started], NULL, work, &workers[i]);
        if (refused == 0) {
            started++;
            continue;
        }
        rc = -refused;
        tree_queue_absent(&shared.queue);
    }
    for (unsigned i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    if (started)
        rc = atomic_load(&shared.error);
out:
    tree_queue_done(&shared.queue);
    mem_free(workers);
    return rc;
}
