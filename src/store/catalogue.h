/* The ordered list of keys, for listing and counting only. Derived: it is filled from the log in
   sequence order up to what is durable, keeps its own progress in the same atomic step, and can be
   deleted and rebuilt. One implementation on RocksDB, a twin in memory for simulation. */
#ifndef STORE_CATALOGUE_H
#define STORE_CATALOGUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/key.h"

struct shoal_error;
struct catalogue;
struct catalogue_scan;

/* One object put or deleted. The key's bytes are borrowed during apply. */
struct catalogue_change {
    struct key key;
    uint64_t sequence;
    uint64_t size_bytes;
    int64_t mtime_ns;
    uint64_t prev_bytes; /* size of the version it replaces, if has_prev */
    uint8_t md5[16];
    bool has_prev;
    bool is_delete;
};

struct catalogue_entry {
    const uint8_t *key; /* without the bucket; valid until the next call on the scan */
    size_t key_length;
    uint64_t sequence;
    uint64_t size_bytes;
    int64_t mtime_ns;
    uint8_t md5[16];
};

struct catalogue_usage {
    uint64_t objects;
    uint64_t bytes;
};

struct catalogue_ops {
    /* Applies changes (in sequence order, a key may come more than once), the counts of their
       buckets and the progress `through` (at least the last change's sequence) atomically. count
       may be 0. One thread at a time. 0, -errno, SHOAL_E_CORRUPT. */
    int (*apply)(struct catalogue *catalogue, const struct catalogue_change *changes, size_t count,
        uint64_t through);
    /* The last `through` applied; 0 when new. Any thread. */
    uint64_t (*progress)(struct catalogue *catalogue);
    /* Makes the progress durable (apply alone need not be). */
    int (*flush)(struct catalogue *catalogue);

    /* A consistent snapshot of one bucket's keys with this prefix, first one >= from. Any thread,
       beside apply. */
    int (*scan_open)(struct catalogue *catalogue, const char *bucket, size_t bucket_length,
        const void *prefix, size_t prefix_length, struct catalogue_scan **ret_scan);
    /* Moves to the first key not below this one (still within the prefix). */
    int (*scan_seek)(struct catalogue_scan *scan, const void *key, size_t key_length);
    /* 1 and the entry, 0 at the end, or an error. */
    int (*scan_next)(struct catalogue_scan *scan, struct catalogue_entry *ret_entry);
    void (*scan_close)(struct catalogue_scan *scan);

    /* Exact as of progress; zeros for a bucket without objects. Any thread. */
    int (*usage)(struct catalogue *catalogue, const char *bucket, size_t bucket_length,
        struct catalogue_usage *ret_usage);
    /* The sum over all buckets. */
    int (*total)(struct catalogue *catalogue, struct catalogue_usage *ret_usage);
    uint64_t (*ram_bytes)(struct catalogue *catalogue);
    void (*close)(struct catalogue *catalogue);
};

struct catalogue {
    const struct catalogue_ops *ops;
};

/* Opens or makes the catalogue in dir. identity (the store's uuid and incarnation, 32 bytes) is
   kept inside; a catalogue of another identity, one that is damaged, or one whose progress is above
   durable_sequence, is removed and started anew: progress is 0 then. Its RAM is fixed:
   CATALOGUE_RAM_BYTES. */
#define CATALOGUE_RAM_BYTES (64u << 20)
int catalogue_rocksdb_open(const char *dir, const uint8_t identity[32], uint64_t durable_sequence,
    struct catalogue **ret_catalogue, struct shoal_error *error);

#endif
