/* Shared by the parts of the export. */
#ifndef IMPORT_EXPORT_PRIV_H
#define IMPORT_EXPORT_PRIV_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <shoal/shoal.h>

#include "import/export_dir.h"

#define EXPORT_BATCH_KEYS  128
#define EXPORT_BATCH_BYTES (64u << 10)
#define EXPORT_LEVELS_MAX  (SHOAL_KEY_MAX / 2 + 1)

/* Keys that follow each other, handled by one writer. */
struct export_batch {
    struct export_batch *next;
    unsigned count;
    size_t used_bytes;
    uint16_t lengths[EXPORT_BATCH_KEYS];
    uint8_t keys[EXPORT_BATCH_BYTES];
};

/* The directory a writer is in, with all those above it held open. */
struct export_place {
    int root_fd;
    unsigned depth;
    int fds[EXPORT_LEVELS_MAX];
    uint16_t ends[EXPORT_LEVELS_MAX]; /* where in path each level's name ends */
    char path[SHOAL_KEY_MAX + 1];
};

void export_place_init(struct export_place *place, int root_fd);
void export_place_done(struct export_place *place);
/* Goes to the directory of a key, which export_refusal has passed, making what is missing and
   following no link. Returns its descriptor, which stays the place's, and the file's name within
   key; or -errno: -ELOOP for a link, -ENOTDIR for a file in the way. */
int export_place_go(
    struct export_place *place, const char *key, size_t length, const char **ret_name);

/* Remembers, while keys pass in byte order, which of them are a prefix of the present one. */
struct export_ancestors {
    unsigned count;
    uint16_t lengths[SHOAL_KEY_MAX + 1];
    size_t last_length;
    uint8_t last[SHOAL_KEY_MAX];
};

/* True if an earlier key is a directory of this one ("a" of "a/b"). */
bool export_ancestors_pass(struct export_ancestors *ancestors, const void *key, size_t length);

struct export_run {
    const struct export_dir *job;
    struct export_counts *counts;
    atomic_int fatal;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    struct export_batch *empty, *ready, **ready_end;
    bool scanned; /* no further batches come */
};

/* A writer's thread; arg is the run. */
void *export_write_all(void *run);
void export_report(
    struct export_run *run, bool damaged, const void *key, size_t length, const char *text);

#endif
