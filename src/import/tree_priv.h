/* Parts of the walk: frames (a stretch of a directory) and the queue that shares them. */
#ifndef IMPORT_TREE_PRIV_H
#define IMPORT_TREE_PRIV_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "import/tree.h"

#define TREE_NAMES_BYTES  (32u << 10) /* one getdents64 of a shallow directory */
#define TREE_DEEP_BYTES   (4u << 10) /* … of one below TREE_DEEP_LEVEL */
#define TREE_DEEP_LEVEL   16
#define TREE_RECORD_MIN   24 /* bytes of the shortest directory entry */
#define TREE_SPARE_FRAMES 16

/* An open directory; frees itself with the last frame that refers to it. */
struct tree_dir {
    atomic_uint references;
    int fd;
    unsigned level;
    size_t path_length; /* with a slash at the end, unless empty */
    char path[TREE_PATH_MAX + 1];
};

struct tree_place {
    uint64_t ino;
    uint32_t offset; /* in names */
};

/* Names of one directory that are still to be visited. Owned by one thread at a time. */
struct tree_frame {
    struct tree_dir *dir;
    struct tree_frame *below; /* the frame to go on with afterwards */
    bool reads_on; /* more names follow from getdents64 */
    unsigned count, next; /* of places */
    unsigned capacity_bytes;
    struct tree_place *places;
    uint8_t names[];
};

struct tree_dir *tree_dir_new(int fd, unsigned level, const char *path, size_t path_length);
void tree_dir_unref(struct tree_dir *dir);

/* Takes over the caller's reference to dir, on success only. NULL when out of memory. */
struct tree_frame *tree_frame_new(struct tree_dir *dir, unsigned capacity_bytes);
void tree_frame_free(struct tree_frame *frame);
/* Reads the next names, in the order of their inodes. Returns their count, 0 at the end, -errno. */
int tree_frame_fill(struct tree_frame *frame);
unsigned tree_frame_capacity(unsigned level);

/* Frames that any thread may take; bounded by the number of workers. */
struct tree_queue {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct tree_frame *frames[TREE_WORKERS_MAX];
    unsigned first, count; /* guarded by lock; count is read without it as a hint */
    atomic_uint room; /* worker_count minus count: a hint */
    unsigned idle, workers;
    bool ended;
};

void tree_queue_init(struct tree_queue *queue, unsigned workers);
void tree_queue_done(struct tree_queue *queue);
/* False when there is no room: the frame stays the caller's. */
bool tree_queue_offer(struct tree_queue *queue, struct tree_frame *frame);
/* Waits for a frame; NULL when all workers wait, which is the end of the walk. */
struct tree_frame *tree_queue_take(struct tree_queue *queue);
/* A worker that could not start counts as waiting forever. */
void tree_queue_absent(struct tree_queue *queue);

#endif
