/* Imports a directory tree into a bucket. */
#ifndef IMPORT_IMPORT_DIR_H
#define IMPORT_IMPORT_DIR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct shoal;

enum import_event {
    IMPORT_SKIPPED, /* left out on purpose: links, special files, the data directory */
    IMPORT_FAILED, /* could not be imported, or not be verified */
    IMPORT_DAMAGED, /* stored bytes failed their checks on verifying */
};

/* Called from several threads at once, among them the store's committer: it must be brief and must
   not call the store. path is below the tree's root and not NUL-terminated. */
typedef void import_report_fn(
    void *arg, enum import_event event, const char *path, size_t path_length, const char *text);

struct import_dir {
    struct shoal *store;
    const char *bucket;
    const char *prefix; /* without a slash at its end; may be empty */
    size_t prefix_length;
    int root_fd; /* the tree; stays the caller's */
    int data_fd; /* the store's own directory, for its free space; or -1 */
    dev_t data_dev; /* the store's own directory, which is never imported */
    ino_t data_ino;
    unsigned readers; /* threads, 1 to TREE_WORKERS_MAX */
    bool checksum; /* compare contents instead of size and time */
    bool verify; /* read everything back afterwards */
    bool count_ahead; /* a further thread counts the files, for the time left */
    import_report_fn *report;
    void *arg;
    atomic_bool *stop; /* set by the caller to stop early, and here when going on is useless */
};

/* May be read at any time from any thread. */
struct import_counts {
    atomic_uint_least64_t seen; /* files met, whatever came of them */
    atomic_uint_least64_t copied, bytes; /* durable; bytes of the copied ones */
    atomic_uint_least64_t unchanged, skipped, failed;
    atomic_uint_least64_t verified, verified_bytes, mismatched, damaged;
    atomic_uint_least64_t expected; /* files in the tree; 0: not known (yet) */
    atomic_bool verifying;
};

/* Blocks until the tree is imported, or stopped. counts starts zeroed. 0 also when single files
   failed (they are counted and reported); otherwise the code that ended the import, with all that
   was counted as copied safely stored. */
int import_dir_run(const struct import_dir *job, struct import_counts *counts);

#endif
