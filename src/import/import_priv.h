/* Shared by the parts of the directory import. */
#ifndef IMPORT_IMPORT_PRIV_H
#define IMPORT_IMPORT_PRIV_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <shoal/shoal.h>

#include "import/import_dir.h"
#include "import/tree.h"

#define FLIGHT_SLOTS      16384 /* puts in flight, of all workers */
#define READ_BUFFER_BYTES (SHOAL_CHUNK_BYTES + 4096u)
#define COMPARE_BYTES     (1u << 20)

struct import_run {
    const struct import_dir *job;
    struct import_counts *counts;
    size_t strip; /* bytes of the prefix in front of every path */
    bool fresh; /* the bucket was empty: nothing can be unchanged */
    atomic_int fatal; /* the first code that makes going on useless */
};

struct flight;

/* A put under way; remembers what to say if it fails. */
struct flight_slot {
    struct flight_slot *next;
    struct flight *flight;
    uint64_t size_bytes;
    size_t path_length;
    char path[TREE_PATH_MAX];
};

/* The puts of one worker, which owns free and free_count; lock guards the rest. */
struct flight {
    struct import_run *run;
    struct flight_slot *slots, *free;
    unsigned count, free_count;
    pthread_mutex_t lock;
    pthread_cond_t landed;
    struct flight_slot *returned;
    unsigned returned_count;
    bool waiting;
};

int flight_init(struct flight *flight, struct import_run *run, unsigned count);
void flight_done(struct flight *flight);
/* Waits while all slots are in flight. */
struct flight_slot *flight_take(struct flight *flight);
/* Puts back a slot whose put never started. */
void flight_put_back(struct flight *flight, struct flight_slot *slot);
/* Waits until nothing is in flight. */
void flight_drain(struct flight *flight);
/* The shoal_done_fn of every put; arg is the slot. */
void flight_landed(void *arg, int code, const struct shoal_stat *stat);

/* Finds what the store holds of a file. Owned by one thread. */
struct known {
    struct shoal *store;
    const char *bucket;
    struct shoal_scan *scan; /* NULL: none open */
    unsigned lookups; /* since it was opened */
};

struct known_object {
    uint64_t size_bytes;
    int64_t mtime_ns;
    uint8_t md5[16];
};

/* 1 and the object, 0 if there is none, or a negative code. */
int known_find(
    struct known *known, const void *key, size_t key_length, struct known_object *ret_object);
void known_done(struct known *known);

/* One reading thread. */
struct import_worker {
    struct import_run *run;
    struct flight flight;
    struct known known;
    uint8_t *buffer; /* READ_BUFFER_BYTES */
    uint8_t *stored; /* COMPARE_BYTES; only when verifying */
    struct md5 *md5; /* only with --checksum */
    bool use_noatime;
};

/* The visitor of the copying and of the verifying walk. */
void import_copy_file(void *worker, const struct tree_entry *entry);
void import_verify_file(void *worker, const struct tree_entry *entry);

/* Opens a file for reading; -errno. */
int import_open(struct import_worker *worker, const struct tree_entry *entry);
/* Up to `size` bytes from offset: fewer only at the end. -errno. */
int64_t import_read(int fd, void *buffer, size_t size, uint64_t offset);

void import_report(struct import_run *run, enum import_event event, const char *path,
    size_t path_length, const char *text);
/* Notes a failed put: one object's own failure, or one that ends the import. */
void import_put_failed(struct import_run *run, const char *path, size_t path_length, int code);

#endif
