/* Applying changes.

   They are sorted by key; of the changes of one key the last counts for what is listed, all of them
   for the usage of its bucket. What results - progress, total, usage of the buckets touched, entries and
   removals - goes in key order into one of two things that RocksDB takes in whole or not at all: a
   write batch into the memtable for a few, or a sorted file that is ingested for many, which costs a tenth per
   key. The memtable is flushed before a file is ingested, so that the device never has a later
   apply without an earlier one. Only flush and ingestion make anything durable.

   What can fail: memory, the device (nothing is applied then, and the caller may try again), and
   usage that would fall below zero, which means that the catalogue is damaged. An ingested file is
   not merged at once, so that a bulk load could pile up more of them than a scan should have to
   look through: then the apply waits a little for the merging. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/mem.h"
#include "store/catalogue_rocksdb_priv.h"

#define RUNS_WAIT_MS      10
#define RUNS_WAIT_TURNS   500
#define ITEM_CAPACITY_MIN 1024u

/* Where the result goes: one of them is set. */
struct sink {
    rocksdb_writebatch_t *batch;
    rocksdb_sstfilewriter_t *file;
    char *text; /* the first error of file */
};

struct delta {
    int64_t objects, bytes;
};

struct part {
    struct catalogue_rocksdb *catalogue;
    bool as_file;
    const struct catalogue_change *changes;
    size_t count;
    uint64_t through;
    struct catalogue_usage total; /* after it */
};

static void sink_put(struct sink *sink, const uint8_t *key, size_t key_length, const uint8_t *value,
    size_t value_length)
{
    if (sink->batch)
        rocksdb_writebatch_put(
            sink->batch, (const char *)key, key_length, (const char *)value, value_length);
    else if (!sink->text)
        rocksdb_sstfilewriter_put(sink->file, (const char *)key, key_length, (const char *)value,
            value_length, &sink->text);
}

static void sink_delete(struct sink *sink, const uint8_t *key, size_t key_length)
{
    if (sink->batch)
        rocksdb_writebatch_delete(sink->batch, (const char *)key, key_length);
    else if (!sink->text)
        rocksdb_sstfilewriter_delete(sink->file, (const char *)key, key_length, &sink->text);
}

static bool change_valid(const struct catalogue_change *change)
{
    return change->key.bucket_length > 0 && change->key.bucket_length <= SHOAL_BUCKET_MAX &&
           change->key.length > 0 && change->key.length <= SHOAL_KEY_MAX &&
           change->size_bytes <= SHOAL_OBJECT_MAX &&
           (!change->has_prev || change->prev_bytes <= SHOAL_OBJECT_MAX);
}

static void delta_add(struct delta *delta, const struct catalogue_change *change)
{
    if (!change->is_delete) {
        delta->objects++;
        delta->bytes += (int64_t)change->size_bytes;
    }
    if (change->has_prev) {
        delta->objects--;
        delta->bytes -= (int64_t)change->prev_bytes;
    }
}

/* False where the sum would be below zero or above what a number holds. */
static bool usage_add(struct catalogue_usage *usage, const struct delta *delta)
{
    uint64_t objects = usage->objects + (uint64_t)delta->objects;
    uint64_t bytes = usage->bytes + (uint64_t)delta->bytes;
    if ((delta->objects < 0) != (objects < usage->objects) && delta->objects != 0)
        return false;
    if ((delta->bytes < 0) != (bytes < usage->bytes) && delta->bytes != 0)
        return false;
    *usage = (struct catalogue_usage){.objects = objects, .bytes = bytes};
    return true;
}

/* --- what a part writes, in key order --- */

static void write_own(const struct part *part, struct sink *sink)
{
    uint8_t progress[8], total[CATALOGUE_USAGE_MAX];
    put_u64(progress, part->through);
    sink_put(sink, (const uint8_t *)CATALOGUE_KEY_PROGRESS, CATALOGUE_KEY_OWN, progress, 8);
    size_t length = catalogue_usage_encode(&part->total, total);
    sink_put(sink, (const uint8_t *)CATALOGUE_KEY_TOTAL, CATALOGUE_KEY_OWN, total, length);
}

static bool same_bucket(const struct key *a, const struct key *b)
{
    return a->bucket_length == b->bucket_length &&
           (a->bucket == b->bucket || memcmp(a->bucket, b->bucket, a->bucket_length) == 0);
}

static int write_usage(
    const struct part *part, struct sink *sink, const struct key *key, const struct delta *delta)
{
    struct catalogue_usage usage;
    uint8_t own_key[CATALOGUE_KEY_MAX], value[CATALOGUE_USAGE_MAX];
    int rc = catalogue_usage_get(part->catalogue, key->bucket, key->bucket_length, &usage);
    if (rc < 0)
        return rc;
    if (!usage_add(&usage, delta))
        return catalogue_damaged(part->catalogue);
    size_t key_length = catalogue_usage_key(key->bucket, key->bucket_length, own_key);
    sink_put(sink, own_key, key_length, value, catalogue_usage_encode(&usage, value));
    return 0;
}

/* The sorted items hold each bucket's changes together. */
static int write_usages(const struct part *part, struct sink *sink)
{
    const struct sort_item *items = part->catalogue->items;
    for (size_t i = 0; i < part->count;) {
        const struct key *key = &part->changes[items[i].index].key;
        struct delta delta = {0};
        for (; i < part->count && same_bucket(&part->changes[items[i].index].key, key); i++)
            delta_add(&delta, &part->changes[items[i].index]);
        int rc = write_usage(part, sink, key, &delta);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static void write_entries(const struct part *part, struct sink *sink)
{
    const struct sort_item *items = part->catalogue->items;
    uint8_t key[CATALOGUE_KEY_MAX], value[CATALOGUE_VALUE_MAX];
    for (size_t i = 0; i < part->count; i++) {
        const struct catalogue_change *change = &part->changes[items[i].index];
        if (i + 1 < part->count && catalogue_same_key(change, &part->changes[items[i + 1].index]))
            continue; /* a later one follows */
        size_t key_length = catalogue_key_encode(&change->key, key);
        if (change->is_delete)
            sink_delete(sink, key, key_length);
        else
            sink_put(sink, key, key_length, value, catalogue_value_encode(change, value));
    }
}

static int write_all(const struct part *part, struct sink *sink)
{
    write_own(part, sink);
    int rc = write_usages(part, sink);
    if (rc < 0)
        return rc;
    write_entries(part, sink);
    return 0;
}

/* --- the two ways in --- */

static int apply_batch(const struct part *part)
{
    struct catalogue_rocksdb *c = part->catalogue;
    struct sink sink = {.batch = rocksdb_writebatch_create()};
    char *text = NULL;
    if (!sink.batch)
        return -ENOMEM;
    int rc = write_all(part, &sink);
    if (rc == 0)
        rocksdb_write(c->db, c->write_options, sink.batch, &text);
    if (text)
        rc = catalogue_failed(c, text);
    rocksdb_writebatch_destroy(sink.batch);
    return rc;
}

/* Writes the sorted file; RocksDB syncs it when it is finished. */
static int file_write(const struct part *part, rocksdb_sstfilewriter_t *file)
{
    struct sink sink = {.file = file};
    rocksdb_sstfilewriter_open(file, part->catalogue->ingest_path, &sink.text);
    int rc = sink.text ? 0 : write_all(part, &sink);
    if (rc == 0 && !sink.text)
        rocksdb_sstfilewriter_finish(file, &sink.text);
    if (!sink.text)
        return rc;
    int failure = catalogue_failed(part->catalogue, sink.text);
    return rc < 0 ? rc : failure;
}

/* RocksDB 7.8 aborts the process when a file is ingested after it has met and overcome an error in
   the background, such as a full disk. Batches are slower and safe; the next open ingests again. */
static bool may_ingest(struct catalogue_rocksdb *c)
{
    uint64_t errors = 0;
    if (rocksdb_property_int(c->db, "rocksdb.background-errors", &errors) != 0 || errors > 0)
        c->ingest_unsafe = true;
    return !c->ingest_unsafe;
}

static int file_ingest(struct catalogue_rocksdb *c)
{
    const char *paths[] = {c->ingest_path};
    char *text = NULL;
    rocksdb_ingestexternalfileoptions_t *options = rocksdb_ingestexternalfileoptions_create();
    if (!options)
        return -ENOMEM;
    rocksdb_ingestexternalfileoptions_set_move_files(options, 1);
    rocksdb_ingest_external_file(c->db, paths, 1, options, &text);
    rocksdb_ingestexternalfileoptions_destroy(options);
    if (!text)
        return 0;
    c->ingest_unsafe = true;
    return catalogue_failed(c, text);
}

/* Limits the number of sorted runs. It gives up after some seconds: a merge that can't be done must not
   stop the store, and RocksDB reports its failure with the next write. */
static void wait_for_merging(struct catalogue_rocksdb *c)
{
    const struct timespec turn = {.tv_nsec = RUNS_WAIT_MS * 1000000l};
    for (unsigned i = 0; i < RUNS_WAIT_TURNS; i++) {
        uint64_t runs = 0, errors = 0;
        if (rocksdb_property_int(c->db, "rocksdb.num-files-at-level0", &runs) != 0 ||
            runs < CATALOGUE_RUNS_MAX)
            return;
        if (rocksdb_property_int(c->db, "rocksdb.background-errors", &errors) != 0 || errors)
            return;
        (void)nanosleep(&turn, NULL); /* woken early it looks early */
    }
}

static int apply_file(const struct part *part)
{
    struct catalogue_rocksdb *c = part->catalogue;
    rocksdb_envoptions_t *env_options = rocksdb_envoptions_create();
    rocksdb_sstfilewriter_t *file = rocksdb_sstfilewriter_create(env_options, c->options);
    int rc = file_write(part, file);
    rocksdb_sstfilewriter_destroy(file);
    rocksdb_envoptions_destroy(env_options);
    if (rc == 0)
        rc = catalogue_flush(c);
    if (rc == 0)
        rc = file_ingest(c);
    if (rc < 0)
        (void)unlinkat(c->dir_fd, CATALOGUE_INGEST_NAME, 0); /* may not be there; open looks too */
    else
        wait_for_merging(c);
    return rc;
}

/* --- parts --- */

static int items_reserve(struct catalogue_rocksdb *c, size_t count)
{
    size_t capacity = c->item_capacity ? c->item_capacity : ITEM_CAPACITY_MIN;
    while (capacity < count)
        capacity *= 2;
    if (capacity == c->item_capacity)
        return 0;
    struct sort_item *items = mem_alloc(2 * capacity * sizeof(*items));
    if (!items)
        return -ENOMEM;
    mem_free(c->items);
    c->items = items;
    c->item_capacity = capacity;
    return 0;
}

static int apply_part(struct part *part)
{
    struct catalogue_rocksdb *c = part->catalogue;
    struct delta delta = {0};
    for (size_t i = 0; i < part->count; i++)
        delta_add(&delta, &part->changes[i]);
    part->total = c->total;
    if (!usage_add(&part->total, &delta))
        return catalogue_damaged(c);
    int rc = items_reserve(c, part->count);
    if (rc < 0)
        return rc;
    catalogue_sort(part->changes, c->items, part->count, c->items + c->item_capacity);
    rc = part->as_file ? apply_file(part) : apply_batch(part);
    if (rc < 0)
        return rc;
    c->total = part->total;
    atomic_store(&c->progress, part->through);
    return 0;
}

int catalogue_apply(struct catalogue *catalogue, const struct catalogue_change *changes,
    size_t count, uint64_t through)
{
    struct catalogue_rocksdb *c = catalogue_rocksdb(catalogue);
    for (size_t i = 0; i < count; i++) {
        if (!change_valid(&changes[i]) || changes[i].sequence > through)
            return -EINVAL;
    }
    if (through < atomic_load(&c->progress))
        return -EINVAL;
    for (;;) {
        bool as_file = count >= CATALOGUE_INGEST_MIN && may_ingest(c);
        size_t limit = as_file ? CATALOGUE_PART_MAX : CATALOGUE_BATCH_MAX;
        bool last = count <= limit;
        struct part part = {.catalogue = c,
            .as_file = as_file,
            .changes = changes,
            .count = last ? count : limit,
            .through = last ? through : changes[limit - 1].sequence};
        int rc = apply_part(&part);
        if (rc < 0 || last)
            return rc;
        changes += part.count;
        count -= part.count;
    }
}
