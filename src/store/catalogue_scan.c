/* Scans of the catalogue.

   A scan is one RocksDB iterator bounded above by the end of its prefix. An iterator keeps the files and
   memtables that were current when it was made, which is the consistent snapshot; applies go on beside it. The
   key handed out lies in the iterator. Damage met on the way ends the scan with SHOAL_E_CORRUPT. */
#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "store/catalogue_rocksdb_priv.h"

struct catalogue_scan {
    struct catalogue_rocksdb *catalogue;
    rocksdb_readoptions_t *options;
    rocksdb_iterator_t *iterator;
    uint8_t lower[CATALOGUE_KEY_MAX]; /* bucket NUL prefix */
    uint8_t upper[CATALOGUE_KEY_MAX]; /* the first key behind the prefix */
    size_t lower_length, upper_length;
    size_t bucket_length;
    bool stands; /* on the entry to give out next, not on the one given out last */
    int failure;
};

/* The shortest key above all that begin with these bytes: there is one, since the NUL behind the bucket
   can be counted up. */
static void set_upper(struct catalogue_scan *scan)
{
    size_t length = scan->lower_length;
    memcpy(scan->upper, scan->lower, length);
    while (scan->upper[length - 1] == 0xff)
        length--;
    scan->upper[length - 1]++;
    scan->upper_length = length;
}

static void seek_bytes(struct catalogue_scan *scan, const uint8_t *bytes, size_t length)
{
    rocksdb_iter_seek(scan->iterator, (const char *)bytes, length);
    scan->stands = true;
}

static int iterator_open(struct catalogue_scan *scan)
{
    scan->options = rocksdb_readoptions_create();
    if (!scan->options)
        return -ENOMEM;
    rocksdb_readoptions_set_verify_checksums(scan->options, 1);
    rocksdb_readoptions_set_iterate_upper_bound(
        scan->options, (const char *)scan->upper, scan->upper_length);
    scan->iterator = rocksdb_create_iterator(scan->catalogue->db, scan->options);
    return scan->iterator ? 0 : -ENOMEM;
}

int catalogue_scan_open(struct catalogue *catalogue, const char *bucket, size_t bucket_length,
    const void *prefix, size_t prefix_length, struct catalogue_scan **ret_scan)
{
    if (bucket_length == 0 || bucket_length > SHOAL_BUCKET_MAX || prefix_length > SHOAL_KEY_MAX)
        return -EINVAL;
    struct catalogue_scan *scan = mem_zero(1, sizeof(*scan));
    if (!scan)
        return -ENOMEM;
    scan->catalogue = catalogue_rocksdb(catalogue);
    scan->bucket_length = bucket_length;
    struct key key = {.bucket = bucket,
        .bytes = prefix_length ? prefix : (const void *)"",
        .length = (uint16_t)prefix_length,
        .bucket_length = (uint8_t)bucket_length};
    scan->lower_length = catalogue_key_encode(&key, scan->lower);
    set_upper(scan);
    int rc = iterator_open(scan);
    if (rc < 0) {
        catalogue_scan_close(scan);
        return rc;
    }
    seek_bytes(scan, scan->lower, scan->lower_length);
    *ret_scan = scan;
    return 0;
}

int catalogue_scan_seek(struct catalogue_scan *scan, const void *key, size_t key_length)
{
    uint8_t target[CATALOGUE_KEY_MAX];
    size_t head = scan->bucket_length + 1;
    if (key_length > SHOAL_KEY_MAX)
        return -EINVAL;
    if (scan->failure)
        return scan->failure;
    memcpy(target, scan->lower, head);
    if (key_length)
        memcpy(target + head, key, key_length);
    size_t length = head + key_length;
    size_t shorter = length < scan->lower_length ? length : scan->lower_length;
    int order = memcmp(target, scan->lower, shorter);
    if (order < 0 || (order == 0 && length < scan->lower_length))
        seek_bytes(scan, scan->lower, scan->lower_length);
    else
        seek_bytes(scan, target, length);
    return 0;
}

/* At the end of the prefix, or stopped by an error. */
static int scan_ended(struct catalogue_scan *scan)
{
    char *text = NULL;
    rocksdb_iter_get_error(scan->iterator, &text);
    if (text)
        scan->failure = catalogue_failed(scan->catalogue, text);
    return scan->failure;
}

static int scan_entry(struct catalogue_scan *scan, struct catalogue_entry *ret_entry)
{
    size_t length, value_length, head = scan->bucket_length + 1;
    const uint8_t *key = (const uint8_t *)rocksdb_iter_key(scan->iterator, &length);
    const uint8_t *value = (const uint8_t *)rocksdb_iter_value(scan->iterator, &value_length);
    struct catalogue_entry entry;
    if (length <= head || length > head + SHOAL_KEY_MAX || length < scan->lower_length ||
        memcmp(key, scan->lower, scan->lower_length) != 0 ||
        !catalogue_value_decode(value, value_length, &entry))
        return scan->failure = catalogue_damaged(scan->catalogue);
    entry.key = key + head;
    entry.key_length = length - head;
    *ret_entry = entry;
    return 1;
}

int catalogue_scan_next(struct catalogue_scan *scan, struct catalogue_entry *ret_entry)
{
    if (scan->failure)
        return scan->failure;
    if (!scan->stands && rocksdb_iter_valid(scan->iterator))
        rocksdb_iter_next(scan->iterator);
    scan->stands = false;
    if (!rocksdb_iter_valid(scan->iterator))
        return scan_ended(scan);
    return scan_entry(scan, ret_entry);
}

void catalogue_scan_close(struct catalogue_scan *scan)
{
    if (!scan)
        return;
    if (scan->iterator)
        rocksdb_iter_destroy(scan->iterator);
    if (scan->options)
        rocksdb_readoptions_destroy(scan->options);
    mem_free(scan);
}
