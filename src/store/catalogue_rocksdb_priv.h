/* The catalogue on RocksDB, shared by its source files. */
#ifndef STORE_CATALOGUE_ROCKSDB_PRIV_H
#define STORE_CATALOGUE_ROCKSDB_PRIV_H

#include <stdatomic.h>

#include <rocksdb/c.h>

#include "store/catalogue.h"
#include "store/catalogue_codec.h"
#include "store/catalogue_sort.h"

/* From this many changes on they are ingested as one sorted file; below, they are a write batch. */
#define CATALOGUE_INGEST_MIN 5000u
/* A larger apply is done in parts of this many, each with a progress of its own. */
#define CATALOGUE_PART_MAX  (512u << 10)
#define CATALOGUE_BATCH_MAX 10000u

/* Sorted runs at the top of the tree: merging begins at the first, an apply waits at the second. */
#define CATALOGUE_RUNS_MERGE 12
#define CATALOGUE_RUNS_MAX   40

/* How CATALOGUE_RAM_BYTES is divided; the rest is for sorting and for open tables. */
#define CATALOGUE_CACHE_BYTES        (24u << 20)
#define CATALOGUE_WRITE_BUFFER_BYTES (8u << 20)
#define CATALOGUE_WRITE_BUFFERS      2
#define CATALOGUE_SORT_BYTES         (2 * CATALOGUE_PART_MAX * sizeof(struct sort_item))
_Static_assert(CATALOGUE_CACHE_BYTES + CATALOGUE_WRITE_BUFFERS * CATALOGUE_WRITE_BUFFER_BYTES +
                       CATALOGUE_SORT_BYTES <=
                   CATALOGUE_RAM_BYTES - (4u << 20),
    "the parts stay within the catalogue's budget");

struct catalogue_rocksdb {
    struct catalogue base;

    /* Set at open, then only read; RocksDB's objects are thread-safe. */
    rocksdb_t *db;
    rocksdb_options_t *options;
    rocksdb_cache_t *cache;
    rocksdb_readoptions_t *read_options;
    rocksdb_writeoptions_t *write_options;
    char *ingest_path;
    int dir_fd;

    _Atomic uint64_t progress;

    /* The thread that applies. */
    struct catalogue_usage total;
    bool ingest_unsafe;
    struct sort_item *items; /* item_capacity of them, and as much scratch behind */
    _Atomic size_t item_capacity;
};

static inline struct catalogue_rocksdb *catalogue_rocksdb(struct catalogue *catalogue)
{
    return (struct catalogue_rocksdb *)catalogue;
}

/* --- catalogue_options.c --- */

/* Fills options, cache, read_options and write_options: 0, -ENOMEM. */
int catalogue_options_init(struct catalogue_rocksdb *c);
void catalogue_options_done(struct catalogue_rocksdb *c);

/* --- catalogue_files.c: the folder beside and around RocksDB --- */

#define CATALOGUE_DB_NAME      "db" /* RocksDB's own folder */
#define CATALOGUE_INGEST_NAME  "ingest.sst" /* while it is written */
#define CATALOGUE_DAMAGED_NAME "DAMAGED" /* found damaged: start anew at the next open */

/* Makes dir where absent and opens it: a descriptor or -errno. */
int catalogue_dir_open(const char *dir);
/* Removes RocksDB's folder and all other files of the catalogue in dir, nothing else. */
int catalogue_dir_clear(int dir_fd);

/* --- catalogue_rocksdb.c --- */

/* Turns RocksDB's error text into a code and frees it. Damage is marked for the next open. */
int catalogue_failed(struct catalogue_rocksdb *c, char *text);
int catalogue_damaged(struct catalogue_rocksdb *c);
/* A value of the catalogue's own: 1 and a copy (at most `size` bytes), 0 when absent, or an
   error. */
int catalogue_get(struct catalogue_rocksdb *c, const uint8_t *key, size_t key_length,
    uint8_t *ret_value, size_t size, size_t *ret_length);
int catalogue_usage_get(struct catalogue_rocksdb *c, const char *bucket, size_t bucket_length,
    struct catalogue_usage *ret_usage);

/* --- catalogue_flush.c --- */

/* Returns when all that was applied before is durable. */
int catalogue_flush(struct catalogue_rocksdb *c);

/* --- catalogue_apply.c --- */

int catalogue_apply(struct catalogue *catalogue, const struct catalogue_change *changes,
    size_t count, uint64_t through);

/* --- catalogue_scan.c --- */

int catalogue_scan_open(struct catalogue *catalogue, const char *bucket, size_t bucket_length,
    const void *prefix, size_t prefix_length, struct catalogue_scan **ret_scan);
int catalogue_scan_seek(struct catalogue_scan *scan, const void *key, size_t key_length);
int catalogue_scan_next(struct catalogue_scan *scan, struct catalogue_entry *ret_entry);
void catalogue_scan_close(struct catalogue_scan *scan);

#endif
