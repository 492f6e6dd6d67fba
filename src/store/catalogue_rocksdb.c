/* The catalogue on RocksDB: opening, small reads, closing. Applying is in catalogue_apply.c, scans
   in catalogue_scan.c.

   In RocksDB's one column family lie the objects' entries and, before them, a few keys of the
   catalogue's own: identity, progress, total usage, usage of each bucket. Opening looks at those; a
   catalogue that is of another store, ahead of the log, damaged, or marked as damaged by an earlier
   process is removed and made anew with progress 0, and the store fills it again.

   What can fail: the device (no space, no permission, an I/O error), reported with RocksDB's text
   at open and as a code later. RocksDB gives its errors as text only; the codes come from the
   words in it. Damage found later, in a block that a scan reads or in a value, is reported as
   SHOAL_E_CORRUPT and leaves a mark, so that the next open starts anew. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/mem.h"
#include "store/catalogue_rocksdb_priv.h"

#define LAYOUT_VERSION  1
#define IDENTITY_LENGTH 33 /* the layout's version and the store's identity */
#define START_ANEW      1

/* --- errors --- */

static int code_of(const char *text)
{
    static const struct {
        const char *words;
        int code;
    } table[] = {
        {"No space left", -ENOSPC}, {"Disk quota", -EDQUOT}, {"File too large", -EFBIG},
        {"Permission denied", -EACCES}, {"Read-only file system", -EROFS},
        {"Too many open files", -EMFILE}, {"Input/output error", -EIO},
        {"Cannot allocate memory", -ENOMEM}, {"lock hold by", SHOAL_E_BUSY},
        {"While lock file", SHOAL_E_BUSY}, {"Corruption", SHOAL_E_CORRUPT},
        {"No such file", SHOAL_E_CORRUPT}, /* a file of the database is missing */
        {"not a directory", SHOAL_E_CORRUPT}, {"Is a directory", SHOAL_E_CORRUPT},
        {"Invalid argument", SHOAL_E_CORRUPT}, /* at open: CURRENT or the manifest make no sense */
    };
    for (unsigned i = 0; i < sizeof(table) / sizeof(*table); i++) {
        if (strstr(text, table[i].words))
            return table[i].code;
    }
    return -EIO;
}

int catalogue_damaged(struct catalogue_rocksdb *c)
{
    int fd = openat(c->dir_fd, CATALOGUE_DAMAGED_NAME, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0)
        close(fd);
    /* Without the mark the next open finds the damage when it gets there. */
    return SHOAL_E_CORRUPT;
}

int catalogue_failed(struct catalogue_rocksdb *c, char *text)
{
    int code = code_of(text);
    rocksdb_free(text);
    return code == SHOAL_E_CORRUPT ? catalogue_damaged(c) : code;
}

/* --- small reads --- */

int catalogue_get(struct catalogue_rocksdb *c, const uint8_t *key, size_t key_length,
    uint8_t *ret_value, size_t size, size_t *ret_length)
{
    char *text = NULL;
    size_t length = 0;
    char *value =
        rocksdb_get(c->db, c->read_options, (const char *)key, key_length, &length, &text);
    if (text)
        return catalogue_failed(c, text);
    if (!value)
        return 0;
    int rc = 1;
    if (length <= size) {
        memcpy(ret_value, value, length);
        *ret_length = length;
    } else {
        rc = catalogue_damaged(c);
    }
    rocksdb_free(value);
    return rc;
}

static int usage_at(struct catalogue_rocksdb *c, const uint8_t *key, size_t key_length,
    struct catalogue_usage *ret_usage)
{
    uint8_t value[CATALOGUE_USAGE_MAX];
    size_t length = 0;
    int rc = catalogue_get(c, key, key_length, value, sizeof(value), &length);
    if (rc < 0)
        return rc;
    if (rc == 0)
        *ret_usage = (struct catalogue_usage){0};
    else if (!catalogue_usage_decode(value, length, ret_usage))
        return catalogue_damaged(c);
    return 0;
}

int catalogue_usage_get(struct catalogue_rocksdb *c, const char *bucket, size_t bucket_length,
    struct catalogue_usage *ret_usage)
{
    uint8_t key[CATALOGUE_KEY_MAX];
    if (bucket_length == 0 || bucket_length > SHOAL_BUCKET_MAX)
        return -EINVAL;
    return usage_at(c, key, catalogue_usage_key(bucket, bucket_length, key), ret_usage);
}

static int usage(struct catalogue *catalogue, const char *bucket, size_t bucket_length,
    struct catalogue_usage *ret_usage)
{
    return catalogue_usage_get(catalogue_rocksdb(catalogue), bucket, bucket_length, ret_usage);
}

static int total(struct catalogue *catalogue, struct catalogue_usage *ret_usage)
{
    return usage_at(catalogue_rocksdb(catalogue), (const uint8_t *)CATALOGUE_KEY_TOTAL,
        CATALOGUE_KEY_OWN, ret_usage);
}

static uint64_t progress(struct catalogue *catalogue)
{
    return atomic_load(&catalogue_rocksdb(catalogue)->progress);
}

static int flush(struct catalogue *catalogue)
{
    return catalogue_flush(catalogue_rocksdb(catalogue));
}

static uint64_t ram_bytes(struct catalogue *catalogue)
{
    struct catalogue_rocksdb *c = catalogue_rocksdb(catalogue);
    static const char *const properties[] = {
        "rocksdb.cur-size-all-mem-tables", "rocksdb.estimate-table-readers-mem"};
    uint64_t bytes = sizeof(*c) + rocksdb_cache_get_usage(c->cache) +
                     2 * atomic_load(&c->item_capacity) * sizeof(struct sort_item);
    for (unsigned i = 0; i < 2; i++) {
        uint64_t value = 0;
        if (rocksdb_property_int(c->db, properties[i], &value) == 0)
            bytes += value;
    }
    return bytes;
}

/* --- opening and closing --- */

static void close_all(struct catalogue_rocksdb *c)
{
    if (!c)
        return;
    if (c->db)
        rocksdb_close(c->db); /* flushes what is only in memory */
    catalogue_options_done(c);
    if (c->dir_fd >= 0)
        close(c->dir_fd);
    mem_free(c->items);
    mem_free(c->ingest_path);
    mem_free(c);
}

static void close_catalogue(struct catalogue *catalogue)
{
    close_all(catalogue_rocksdb(catalogue));
}

static const struct catalogue_ops ops = {
    .apply = catalogue_apply,
    .progress = progress,
    .flush = flush,
    .scan_open = catalogue_scan_open,
    .scan_seek = catalogue_scan_seek,
    .scan_next = catalogue_scan_next,
    .scan_close = catalogue_scan_close,
    .usage = usage,
    .total = total,
    .ram_bytes = ram_bytes,
    .close = close_catalogue,
};

static char *path_join(const char *dir, const char *name)
{
    size_t length = strlen(dir) + 1 + strlen(name) + 1;
    char *path = mem_alloc(length);
    if (path)
        (void)snprintf(path, length, "%s/%s", dir, name); /* it has the length it needs */
    return path;
}

/* A database without an identity is new, if it holds nothing else either. */
static int identity_write(struct catalogue_rocksdb *c, const uint8_t mine[IDENTITY_LENGTH])
{
    char *text = NULL;
    rocksdb_iterator_t *iterator = rocksdb_create_iterator(c->db, c->read_options);
    rocksdb_iter_seek_to_first(iterator);
    bool holds_keys = rocksdb_iter_valid(iterator);
    rocksdb_iter_get_error(iterator, &text);
    rocksdb_iter_destroy(iterator);
    if (text)
        return catalogue_failed(c, text);
    if (holds_keys)
        return START_ANEW;
    rocksdb_put(c->db, c->write_options, CATALOGUE_KEY_IDENTITY, CATALOGUE_KEY_OWN,
        (const char *)mine, IDENTITY_LENGTH, &text);
    return text ? catalogue_failed(c, text) : 0;
}

/* Reads what the catalogue says of itself. START_ANEW: it is not one for this store and log. */
static int state_load(
    struct catalogue_rocksdb *c, const uint8_t identity[32], uint64_t durable_sequence)
{
    uint8_t mine[IDENTITY_LENGTH] = {LAYOUT_VERSION}, value[IDENTITY_LENGTH];
    size_t length = 0;
    memcpy(mine + 1, identity, 32);
    int rc = catalogue_get(c, (const uint8_t *)CATALOGUE_KEY_IDENTITY, CATALOGUE_KEY_OWN, value,
        sizeof(value), &length);
    if (rc < 0)
        return rc;
    if (rc == 0)
        return identity_write(c, mine);
    if (length != IDENTITY_LENGTH || memcmp(value, mine, IDENTITY_LENGTH) != 0)
        return START_ANEW;
    rc = catalogue_get(c, (const uint8_t *)CATALOGUE_KEY_PROGRESS, CATALOGUE_KEY_OWN, value,
        sizeof(value), &length);
    if (rc < 0)
        return rc;
    if (rc == 1) {
        if (length != 8 || get_u64(value) > durable_sequence)
            return START_ANEW;
        atomic_store(&c->progress, get_u64(value));
    }
    return total(&c->base, &c->total);
}

static int db_open(struct catalogue_rocksdb *c, const char *dir, struct shoal_error *error)
{
    char *text = NULL, *path = path_join(dir, CATALOGUE_DB_NAME);
    if (!path)
        return error_set(error, -ENOMEM, dir, 0, "out of memory");
    c->db = rocksdb_open(c->options, path, &text);
    int rc = 0;
    if (text) {
        rc = error_set(error, code_of(text), path, 0, "the catalogue can't be opened: %s", text);
        rocksdb_free(text);
        c->db = NULL;
    }
    mem_free(path);
    return rc;
}

/* One try: 0, START_ANEW for anything that removing it mends, or an error. */
static int try_open(struct catalogue_rocksdb *c, const char *dir, const uint8_t identity[32],
    uint64_t durable_sequence, struct shoal_error *error)
{
    if (faccessat(c->dir_fd, CATALOGUE_DAMAGED_NAME, F_OK, 0) == 0)
        return START_ANEW;
    int rc = db_open(c, dir, error);
    if (rc == SHOAL_E_CORRUPT)
        return START_ANEW;
    if (rc < 0)
        return rc;
    rc = state_load(c, identity, durable_sequence);
    if (rc == 0)
        return 0;
    rocksdb_close(c->db);
    c->db = NULL;
    atomic_store(&c->progress, 0);
    c->total = (struct catalogue_usage){0};
    if (rc == SHOAL_E_CORRUPT || rc == START_ANEW)
        return START_ANEW;
    return error_set(error, rc, dir, 0, "the catalogue can't be read: %s", shoal_strerror(rc));
}

static int start_anew(struct catalogue_rocksdb *c, const char *dir, const uint8_t identity[32],
    uint64_t durable_sequence, struct shoal_error *error)
{
    int rc = catalogue_dir_clear(c->dir_fd);
    if (rc < 0)
        return error_set(
            error, rc, dir, 0, "a stale catalogue can't be removed: %s", shoal_strerror(rc));
    rc = try_open(c, dir, identity, durable_sequence, error);
    if (rc == START_ANEW)
        return error_set(error, SHOAL_E_CORRUPT, dir, 0,
            "the catalogue is damaged as soon as it is made; check the device");
    return rc;
}

/* All but the database. */
static int prepare(struct catalogue_rocksdb *c, const char *dir, struct shoal_error *error)
{
    c->dir_fd = catalogue_dir_open(dir);
    if (c->dir_fd < 0)
        return error_set(error, c->dir_fd, dir, 0, "the catalogue's folder can't be opened: %s",
            shoal_strerror(c->dir_fd));
    c->ingest_path = path_join(dir, CATALOGUE_INGEST_NAME);
    if (!c->ingest_path || catalogue_options_init(c) < 0)
        return error_set(error, -ENOMEM, dir, 0, "out of memory");
    /* Left by a crash before it was ingested. */
    if (unlinkat(c->dir_fd, CATALOGUE_INGEST_NAME, 0) < 0 && errno != ENOENT)
        return error_set(
            error, -errno, c->ingest_path, 0, "it can't be removed: %s", shoal_strerror(-errno));
    return 0;
}

int catalogue_rocksdb_open(const char *dir, const uint8_t identity[32], uint64_t durable_sequence,
    struct catalogue **ret_catalogue, struct shoal_error *error)
{
    struct catalogue_rocksdb *c = mem_zero(1, sizeof(*c));
    if (!c)
        return error_set(error, -ENOMEM, dir, 0, "out of memory");
    c->base.ops = &ops;
    c->dir_fd = -1;
    int rc = prepare(c, dir, error);
    if (rc == 0)
        rc = try_open(c, dir, identity, durable_sequence, error);
    if (rc == START_ANEW)
        rc = start_anew(c, dir, identity, durable_sequence, error);
    if (rc < 0) {
        close_all(c);
        return rc;
    }
    *ret_catalogue = &c->base;
    return 0;
}
