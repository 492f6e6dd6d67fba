/* Walks a directory tree with several threads in constant memory: any number of files, in one
   directory or many, at any depth. */
#ifndef IMPORT_TREE_H
#define IMPORT_TREE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define TREE_PATH_MAX    1024 /* bytes of prefix and path together: the length of a key */
#define TREE_WORKERS_MAX 16

/* One entry that is not a directory. Everything is valid during the call only. */
struct tree_entry {
    int dir_fd;
    const char *name; /* in dir_fd; NUL-terminated */
    const char *path; /* prefix and path below the root; not NUL-terminated */
    size_t path_length;
    unsigned char type; /* DT_REG, DT_LNK, … never DT_DIR or DT_UNKNOWN */
};

/* What can be wrong with an entry, besides -errno. */
enum tree_problem {
    TREE_TOO_LONG = 1, /* path over TREE_PATH_MAX bytes; of a directory: of all it holds */
    TREE_EXCLUDED = 2, /* the excluded directory */
};

/* Called from the walk's threads, several at once, each with its own worker pointer. */
struct tree_visitor {
    void (*file)(void *worker, const struct tree_entry *entry);
    /* Something was left out: code is -errno or a tree_problem; path as in tree_entry, without a
       limit on its length. */
    void (*left_out)(void *worker, const char *path, size_t path_length, int code);
};

struct tree_walk {
    int root_fd; /* stays the caller's */
    const char *prefix; /* begins every path; at most TREE_PATH_MAX bytes */
    size_t prefix_length;
    dev_t excluded_dev; /* a directory not to enter; ino 0: none */
    ino_t excluded_ino;
    unsigned worker_count; /* 1 to TREE_WORKERS_MAX */
    void **workers; /* worker_count pointers for the visitor */
    struct tree_visitor visitor;
    const atomic_bool *stop; /* ends the walk early */
};

/* Blocks until every entry was visited once (or stop). 0, -ENOMEM, or why no thread started. */
int tree_walk(const struct tree_walk *walk);

#endif
