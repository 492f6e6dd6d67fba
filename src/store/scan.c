/* Listing and figures: what the public API takes from the catalogue. */
#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "store/store_priv.h"
#include "store/volume.h"

struct shoal_scan {
    struct shoal *store;
    struct catalogue *catalogue;
    struct catalogue_scan *scan;
    size_t skip_length; /* the key to start after; 0 once it is passed */
    uint8_t skip[SHOAL_KEY_MAX];
};

int shoal_scan_open(struct shoal *store, const char *bucket, const void *prefix,
    size_t prefix_length, const void *start_after, size_t start_after_length,
    struct shoal_scan **ret_scan)
{
    struct shoal_bucket existing;
    struct shoal_scan *scan;
    int rc = shoal_bucket_stat(store, bucket, &existing);

    if (!rc && (prefix_length > SHOAL_KEY_MAX || start_after_length > SHOAL_KEY_MAX))
        rc = SHOAL_E_BAD_KEY;
    if (rc)
        return rc;
    scan = mem_alloc(sizeof(*scan));
    if (!scan)
        return -ENOMEM;
    scan->store = store;
    scan->scan = NULL;
    scan->skip_length = start_after_length;
    if (start_after_length)
        memcpy(scan->skip, start_after, start_after_length);
    rc = feed_wait(store, &scan->catalogue);
    if (rc) {
        mem_free(scan);
        return rc;
    }
    rc = scan->catalogue->ops->scan_open(
        scan->catalogue, bucket, strlen(bucket), prefix, prefix_length, &scan->scan);
    if (!rc && start_after_length)
        rc = scan->catalogue->ops->scan_seek(scan->scan, start_after, start_after_length);
    if (rc) {
        shoal_scan_close(scan);
        return rc;
    }
    *ret_scan = scan;
    return 0;
}

int shoal_scan_next(struct shoal_scan *scan, struct shoal_entry *ret_entry)
{
    struct catalogue_entry entry;
    int rc = scan->catalogue->ops->scan_next(scan->scan, &entry);

    if (rc == 1 && scan->skip_length && entry.key_length == scan->skip_length &&
        memcmp(entry.key, scan->skip, entry.key_length) == 0)
        rc = scan->catalogue->ops->scan_next(scan->scan, &entry);
    scan->skip_length = 0;
    if (rc != 1)
        return rc;
    *ret_entry = (struct shoal_entry){.key = entry.key,
        .key_length = entry.key_length,
        .sequence = entry.sequence,
        .size_bytes = entry.size_bytes,
        .mtime_ns = entry.mtime_ns};
    memcpy(ret_entry->md5, entry.md5, sizeof(entry.md5));
    return 1;
}

int shoal_scan_seek(struct shoal_scan *scan, const void *key, size_t key_length)
{
    scan->skip_length = 0;
    return scan->catalogue->ops->scan_seek(scan->scan, key, key_length);
}

void shoal_scan_close(struct shoal_scan *scan)
{
    if (!scan)
        return;
    if (scan->scan)
        scan->catalogue->ops->scan_close(scan->scan);
    feed_release(scan->store);
    mem_free(scan);
}

static void add_segments(struct shoal *store, struct shoal_info *info)
{
    uint32_t count = atomic_load(&store->segments.count);

    info->segments = count;
    for (uint32_t i = 0; i < count; i++) {
        struct segment *segment = segment_table_get(&store->segments, i);
        uint64_t bytes = 0;

        info->live_bytes += atomic_load(&segment->live_bytes);
        if (store->config.volume->ops->size(segment->file, &bytes) == 0)
            info->segment_bytes += bytes;
    }
}

int shoal_info(struct shoal *store, struct shoal_info *ret_info)
{
    struct shoal_info info = {0};
    struct catalogue_usage usage;
    struct catalogue *catalogue;
    int rc = feed_wait(store, &catalogue);

    if (rc)
        return rc;
    rc = catalogue->ops->total(catalogue, &usage);
    info.catalogue_sequence = catalogue->ops->progress(catalogue);
    feed_release(store);
    if (!rc)
        rc = store->config.volume->ops->usage(store->config.volume, &info.disk_bytes);
    if (rc)
        return rc;
    memcpy(info.uuid, store->manifest.uuid, sizeof(info.uuid));
    info.objects = usage.objects;
    info.data_bytes = usage.bytes;
    info.sequence = atomic_load(&store->log.durable_sequence);
    info.index_ram_bytes = index_ram_bytes(store->index);
    info.reaping_bytes = reaper_bytes(store);
    pthread_rwlock_rdlock(&store->buckets.lock);
    info.buckets = store->buckets.count;
    pthread_rwlock_unlock(&store->buckets.lock);
    add_segments(store, &info);
    *ret_info = info;
    return 0;
}
