/* libshoal: a store for hundreds of millions of small objects, embedded in one process. */
#ifndef SHOAL_SHOAL_H
#define SHOAL_SHOAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <shoal/error.h>

#define SHOAL_KEY_MAX     1024
#define SHOAL_BUCKET_MAX  63
#define SHOAL_TYPE_MAX    255 /* bytes of a content type */
#define SHOAL_CHUNK_BYTES (4u << 20) /* objects above this are stored in chunks of this size */
#define SHOAL_OBJECT_MAX  (5ull << 40)

/* All functions may be called from any thread unless they say otherwise. Those that touch the
   device block. Keys are bytes: any value but NUL, 1 to SHOAL_KEY_MAX of them. */

struct shoal;

struct shoal_options {
    bool create; /* make a store where the directory is absent or empty */
    bool read_only; /* take no writes and change no file */
    bool relaxed; /* acknowledge before the sync … */
    unsigned relaxed_ms; /* … which follows at most this many milliseconds later */
    uint64_t segment_bytes; /* 0: 1 GiB */
    unsigned log_buffers; /* group buffers of 8 MiB; 0: 3 */
};

/* One process at a time may open a directory: SHOAL_E_BUSY names the holder's pid in ret_error.
   opt NULL: all defaults. */
int shoal_open(const char *dir, const struct shoal_options *opt, struct shoal **ret_store,
    struct shoal_error *ret_error);

/* Makes durable what was acknowledged, trims preallocated space, frees the store; NULL is fine.
   No other call may be under way. Returns what the last sync said. */
int shoal_close(struct shoal *store);

/* Stands for a time of exactly 0, which struct shoal_attrs takes for "now". */
#define SHOAL_MTIME_1970 INT64_MIN

/* An object's attributes as the writer gives them. */
struct shoal_attrs {
    const char *content_type; /* NULL: binary/octet-stream */
    int64_t mtime_ns; /* since 1970; 0: now; SHOAL_MTIME_1970: just then */
};

struct shoal_stat {
    uint64_t sequence;
    uint64_t size_bytes;
    int64_t mtime_ns;
    uint8_t md5[16]; /* of the bytes; the ETag is its hex in quotes */
    char content_type[SHOAL_TYPE_MAX + 1];
};

/* --- buckets --- */

struct shoal_bucket {
    char name[SHOAL_BUCKET_MAX + 1];
    bool is_public;
    int64_t created_ms;
};

/* 3 to 63 of a-z 0-9 . - with letters or digits at both ends. */
bool shoal_bucket_name_valid(const char *name);
int shoal_bucket_create(struct shoal *store, const char *name, bool is_public);
int shoal_bucket_set_public(struct shoal *store, const char *name, bool is_public);
/* SHOAL_E_NOT_EMPTY while it holds objects. */
int shoal_bucket_delete(struct shoal *store, const char *name);
int shoal_bucket_stat(struct shoal *store, const char *name, struct shoal_bucket *ret_bucket);
/* All buckets by name; *ret_buckets is freed by the caller with free(). Returns 0. */
int shoal_bucket_list(struct shoal *store, struct shoal_bucket **ret_buckets, size_t *ret_count);
/* Exact objects and bytes as of this call; waits for the catalogue. */
int shoal_bucket_usage(
    struct shoal *store, const char *name, uint64_t *ret_objects, uint64_t *ret_bytes);

/* --- writing --- */

/* Stores up to SHOAL_CHUNK_BYTES in one record; larger data through a writer inside. Returns when
   durable (or, relaxed, when in the kernel). ret_stat may be NULL. */
int shoal_put(struct shoal *store, const char *bucket, const void *key, size_t key_length,
    const void *data, size_t size_bytes, const struct shoal_attrs *attrs,
    struct shoal_stat *ret_stat);

/* The asynchronous form, up to SHOAL_CHUNK_BYTES. The bytes are copied before it returns; it blocks
   only while the log's buffers are full or an older version's header is read. done is called once,
   on the committer's thread (it must be brief and must not call the store), unless this returns an error: then it is never called. */
typedef void shoal_done_fn(void *arg, int code, const struct shoal_stat *stat);
int shoal_put_start(struct shoal *store, const char *bucket, const void *key, size_t key_length,
    const void *data, size_t size_bytes, const struct shoal_attrs *attrs, shoal_done_fn *done,
    void *arg);

/* SHOAL_E_ABSENT if there was none. */
int shoal_delete(struct shoal *store, const char *bucket, const void *key, size_t key_length);
/* As put_start; stat is NULL. */
int shoal_delete_start(struct shoal *store, const char *bucket, const void *key, size_t key_length,
    shoal_done_fn *done, void *arg);

/* An object written piece by piece in constant memory (one chunk). Nothing shows under the key
   until commit. One thread at a time per writer. commit and abort free the writer. */
struct shoal_writer;
int shoal_writer_open(struct shoal *store, const char *bucket, const void *key, size_t key_length,
    const struct shoal_attrs *attrs, struct shoal_writer **ret_writer);
int shoal_writer_write(struct shoal_writer *writer, const void *data, size_t size_bytes);
int shoal_writer_commit(struct shoal_writer *writer, struct shoal_stat *ret_stat);
void shoal_writer_abort(struct shoal_writer *writer);

/* Returns when all that was acknowledged is on the device and in the catalogue. */
int shoal_flush(struct shoal *store);

/* --- reading --- */

/* Verifies the record's header and key, not the payload. */
int shoal_stat(struct shoal *store, const char *bucket, const void *key, size_t key_length,
    struct shoal_stat *ret_stat);

/* A reader stays on the version it found. One thread at a time per reader. */
struct shoal_reader;
int shoal_reader_open(struct shoal *store, const char *bucket, const void *key, size_t key_length,
    struct shoal_reader **ret_reader, struct shoal_stat *ret_stat);
/* Up to size_bytes from offset, each byte verified against its CRC; returns the count, 0 at the
   end, SHOAL_E_CORRUPT where the stored bytes are damaged. direct reading bypasses the kernel's
   page cache where the file system allows it. */
int64_t shoal_reader_read(
    struct shoal_reader *reader, uint64_t offset, void *buffer, size_t size_bytes);
void shoal_reader_set_direct(struct shoal_reader *reader, bool direct);
void shoal_reader_close(struct shoal_reader *reader);

/* --- listing --- */

struct shoal_entry {
    const void *key; /* valid until the next call on the scan */
    size_t key_length;
    uint64_t sequence;
    uint64_t size_bytes;
    int64_t mtime_ns;
    uint8_t md5[16];
};

/* Keys of a bucket in byte order, consistent with all that was acknowledged before the call.
   prefix and start_after may be empty. */
struct shoal_scan;
int shoal_scan_open(struct shoal *store, const char *bucket, const void *prefix,
    size_t prefix_length, const void *start_after, size_t start_after_length,
    struct shoal_scan **ret_scan);
/* 1 and an entry, 0 at the end, or an error. */
int shoal_scan_next(struct shoal_scan *scan, struct shoal_entry *ret_entry);
/* Continues with the first key not below this one. */
int shoal_scan_seek(struct shoal_scan *scan, const void *key, size_t key_length);
void shoal_scan_close(struct shoal_scan *scan);

/* --- state --- */

struct shoal_info {
    uint8_t uuid[16];
    uint64_t objects;
    uint64_t data_bytes; /* bytes of the objects themselves */
    uint64_t live_bytes; /* bytes of the records that hold them */
    uint64_t segment_bytes; /* bytes of the segment files */
    uint64_t disk_bytes; /* blocks taken by the whole data directory */
    uint64_t index_ram_bytes; /* RAM of the index */
    uint64_t sequence; /* highest durable one */
    uint64_t catalogue_sequence; /* highest one in the catalogue */
    uint64_t segments;
    uint64_t buckets;
    uint64_t reaping_bytes; /* chunks of dead blobs not yet reaped */
};
int shoal_info(struct shoal *store, struct shoal_info *ret_info);

/* One finding of a check. key is NULL where none is known. */
struct shoal_finding {
    const char *file;
    uint64_t offset;
    const char *text;
    const void *key; /* bucket NUL key */
    size_t key_length;
};
struct shoal_check_report {
    uint64_t records, objects, bytes, damaged;
};
typedef void shoal_finding_fn(void *arg, const struct shoal_finding *finding);
typedef void shoal_progress_fn(void *arg, uint64_t done_bytes, uint64_t all_bytes);
/* Verifies every CRC and that index and catalogue agree with the segments. 0 also when damage was
   found: see ret_report->damaged. progress may be NULL. */
int shoal_check(struct shoal *store, shoal_finding_fn *finding, shoal_progress_fn *progress,
    void *arg, struct shoal_check_report *ret_report);

#endif
