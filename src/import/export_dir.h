/* Exports the objects of a bucket as a directory tree. */
#ifndef IMPORT_EXPORT_DIR_H
#define IMPORT_EXPORT_DIR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct shoal;

/* Called from several threads at once. key is as stored and not NUL-terminated. */
typedef void export_report_fn(
    void *arg, bool damaged, const void *key, size_t key_length, const char *text);

struct export_dir {
    struct shoal *store;
    const char *bucket;
    const char *prefix; /* of keys, with a slash at its end, or empty; stripped */
    size_t prefix_length;
    int root_fd; /* the target; stays the caller's */
    unsigned writers; /* threads, 1 to EXPORT_WRITERS_MAX */
    export_report_fn *report;
    void *arg;
    atomic_bool *stop; /* set by the caller to stop early, and here when going on is useless */
};

#define EXPORT_WRITERS_MAX 16

/* May be read at any time from any thread. */
struct export_counts {
    atomic_uint_least64_t exported, bytes;
    atomic_uint_least64_t refused; /* keys that can't be file names */
    atomic_uint_least64_t failed, damaged;
};

/* Blocks. 0 also when single objects were refused or failed; else the code that ended it. */
int export_dir_run(const struct export_dir *job, struct export_counts *counts);

/* Why a key, stripped of its prefix, can't be a path below a directory; NULL if it can. */
const char *export_refusal(const void *key, size_t length);

#endif
