/* The catalogue in memory, for simulation.

   Entries are immutable, counted by reference, and kept in an array of pointers sorted by bucket,
   NUL and key: a simulated store has some thousand of them, for which moving pointers is faster
   than any tree. A snapshot is a copy of the pointers in its range; so is a flush, which is what a
   crash goes back to.

   Counts follow has_prev and prev_bytes, as they do in RocksDB where nothing is looked up; the twin
   does look, and keeps the first disagreement for the test to report. One lock guards it all.
   Besides the faults that are armed nothing fails: out of memory ends the test. */
#include "lib/catalogue_memory.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "lib/need.h"

struct entry {
    unsigned references;
    uint64_t sequence;
    uint64_t size_bytes;
    int64_t mtime_ns;
    uint8_t md5[16];
    size_t bucket_length, length; /* of bucket; of bucket, NUL and key */
    uint8_t bytes[];
};

struct counts {
    char bucket[256];
    struct catalogue_usage usage;
};

/* One state: the current one, or that of the last flush. */
struct image {
    struct entry **entries;
    size_t entry_count, entry_room;
    struct counts *counts;
    size_t counts_count;
    uint64_t progress;
    uint8_t identity[32];
};

struct catalogue_memory {
    struct catalogue catalogue; /* what a store gets while it is open */
    pthread_mutex_t lock;
    struct image now, flushed;
    bool is_open;
    unsigned scans_open;
    int64_t fail_after;
    uint64_t ahead_count;
    char violation[256];
};

struct catalogue_scan {
    struct catalogue_memory *memory;
    struct entry **entries;
    size_t count, next, bucket_length;
};

static struct catalogue_memory *own(struct catalogue *catalogue)
{
    return (struct catalogue_memory *)catalogue;
}

static struct catalogue_memory *enter(struct catalogue *catalogue)
{
    (void)pthread_mutex_lock(&own(catalogue)->lock); /* never fails for a plain mutex */
    return own(catalogue);
}

static int leave(struct catalogue_memory *memory, int rc)
{
    (void)pthread_mutex_unlock(&memory->lock); /* held since enter */
    return rc;
}

static void __attribute__((format(printf, 2, 3)))
violate(struct catalogue_memory *memory, const char *format, ...)
{
    va_list arguments;

    if (memory->violation[0] != 0)
        return;
    va_start(arguments, format);
    /* A text that is cut is still the best there is. */
    (void)vsnprintf(memory->violation, sizeof(memory->violation), format, arguments);
    va_end(arguments);
}

/* --- images --- */

static struct entry *ref(struct entry *entry)
{
    entry->references++;
    return entry;
}

static void unref(struct entry *entry)
{
    if (--entry->references == 0)
        free(entry);
}

static void image_done(struct image *image)
{
    for (size_t i = 0; i < image->entry_count; i++)
        unref(image->entries[i]);
    free(image->entries);
    free(image->counts);
    memset(image, 0, sizeof(*image));
}

static void image_copy(struct image *to, const struct image *from)
{
    image_done(to);
    *to = *from;
    to->entries = need_copy(from->entries, from->entry_count * sizeof(struct entry *));
    to->entry_room = from->entry_count;
    to->counts = need_copy(from->counts, from->counts_count * sizeof(*from->counts));
    for (size_t i = 0; i < to->entry_count; i++)
        (void)ref(to->entries[i]); /* the copy is in place already */
}

static int compare(const void *a, size_t a_length, const void *b, size_t b_length)
{
    size_t both = a_length < b_length ? a_length : b_length;
    int order = both > 0 ? memcmp(a, b, both) : 0;

    if (order != 0)
        return order;
    return a_length < b_length ? -1 : a_length > b_length;
}

/* The first entry of the array not below these bytes. */
static size_t lower_bound(
    struct entry *const *entries, size_t count, const void *bytes, size_t length)
{
    size_t low = 0, high = count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (compare(entries[middle]->bytes, entries[middle]->length, bytes, length) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct counts *counts_of(
    struct image *image, const char *bucket, size_t bucket_length, bool make)
{
    struct counts *counts;

    for (size_t i = 0; i < image->counts_count; i++) {
        counts = &image->counts[i];
        if (strlen(counts->bucket) == bucket_length &&
            memcmp(counts->bucket, bucket, bucket_length) == 0)
            return counts;
    }
    if (!make)
        return NULL;
    image->counts = need_resize(image->counts, (image->counts_count + 1) * sizeof(*counts));
    counts = &image->counts[image->counts_count++];
    memset(counts, 0, sizeof(*counts));
    memcpy(counts->bucket, bucket, bucket_length);
    return counts;
}

/* --- applying --- */

static struct entry *entry_new(const struct catalogue_change *change)
{
    size_t length = (size_t)change->key.bucket_length + 1 + change->key.length;
    struct entry *entry = need_zero(sizeof(*entry) + length);

    entry->references = 1;
    entry->sequence = change->sequence;
    entry->size_bytes = change->size_bytes;
    entry->mtime_ns = change->mtime_ns;
    memcpy(entry->md5, change->md5, sizeof(entry->md5));
    entry->bucket_length = change->key.bucket_length;
    entry->length = length;
    memcpy(entry->bytes, change->key.bucket, change->key.bucket_length);
    memcpy(entry->bytes + change->key.bucket_length + 1, change->key.bytes, change->key.length);
    return entry;
}

static void count_change(struct image *image, const struct catalogue_change *change)
{
    struct counts *counts = counts_of(image, change->key.bucket, change->key.bucket_length, true);

    if (change->has_prev) {
        counts->usage.objects--;
        counts->usage.bytes -= change->prev_bytes;
    }
    if (!change->is_delete) {
        counts->usage.objects++;
        counts->usage.bytes += change->size_bytes;
    }
}

static void judge_change(
    struct catalogue_memory *memory, const struct catalogue_change *change, const struct entry *old)
{
    if (change->sequence <= memory->now.progress)
        violate(memory, "change %" PRIu64 " is not above the progress %" PRIu64, change->sequence,
            memory->now.progress);
    if (change->has_prev != (old != NULL))
        violate(memory, "change %" PRIu64 " of %.*s: has_prev is %d", change->sequence,
            (int)change->key.length, (const char *)change->key.bytes, change->has_prev);
    else if (old != NULL && old->size_bytes != change->prev_bytes)
        violate(memory, "change %" PRIu64 " of %.*s: prev_bytes %" PRIu64 ", not %" PRIu64,
            change->sequence, (int)change->key.length, (const char *)change->key.bytes,
            change->prev_bytes, old->size_bytes);
}

static void insert_at(struct image *image, size_t at, struct entry *entry)
{
    if (image->entry_count == image->entry_room) {
        image->entry_room = image->entry_room * 2 + 16;
        image->entries = need_resize(image->entries, image->entry_room * sizeof(struct entry *));
    }
    memmove(image->entries + at + 1, image->entries + at,
        (image->entry_count - at) * sizeof(struct entry *));
    image->entries[at] = entry;
    image->entry_count++;
}

static void remove_at(struct image *image, size_t at)
{
    unref(image->entries[at]);
    image->entry_count--;
    memmove(image->entries + at, image->entries + at + 1,
        (image->entry_count - at) * sizeof(struct entry *));
}

static void apply_one(struct catalogue_memory *memory, const struct catalogue_change *change)
{
    struct entry *entry = entry_new(change);
    struct image *image = &memory->now;
    size_t at = lower_bound(image->entries, image->entry_count, entry->bytes, entry->length);
    bool there =
        at < image->entry_count && compare(image->entries[at]->bytes, image->entries[at]->length,
                                       entry->bytes, entry->length) == 0;

    judge_change(memory, change, there ? image->entries[at] : NULL);
    count_change(image, change);
    if (there)
        remove_at(image, at);
    if (change->is_delete)
        unref(entry);
    else
        insert_at(image, at, entry);
    image->progress = change->sequence;
}

static bool fails_now(struct catalogue_memory *memory)
{
    return memory->fail_after >= 0 && memory->fail_after-- == 0;
}

static int memory_apply(struct catalogue *catalogue, const struct catalogue_change *changes,
    size_t count, uint64_t through)
{
    struct catalogue_memory *memory = enter(catalogue);

    if (fails_now(memory))
        return leave(memory, -EIO);
    for (size_t i = 0; i < count; i++)
        apply_one(memory, &changes[i]);
    if (through < memory->now.progress)
        violate(memory, "through %" PRIu64 " is below %" PRIu64, through, memory->now.progress);
    memory->now.progress = through;
    return leave(memory, 0);
}

static uint64_t memory_progress(struct catalogue *catalogue)
{
    struct catalogue_memory *memory = enter(catalogue);
    uint64_t progress = memory->now.progress;

    (void)leave(memory, 0);
    return progress;
}

static int memory_flush(struct catalogue *catalogue)
{
    struct catalogue_memory *memory = enter(catalogue);

    if (fails_now(memory))
        return leave(memory, -EIO);
    image_copy(&memory->flushed, &memory->now);
    return leave(memory, 0);
}

/* --- scanning --- */

static bool has_prefix(const struct entry *entry, const uint8_t *prefix, size_t length)
{
    return entry->length >= length && memcmp(entry->bytes, prefix, length) == 0;
}

static int memory_scan_open(struct catalogue *catalogue, const char *bucket, size_t bucket_length,
    const void *prefix, size_t prefix_length, struct catalogue_scan **ret_scan)
{
    struct catalogue_scan *scan = need_zero(sizeof(*scan));
    size_t length = bucket_length + 1 + prefix_length, at;
    struct catalogue_memory *memory = enter(catalogue);
    uint8_t *full = need_zero(length);

    memcpy(full, bucket, bucket_length);
    if (prefix_length > 0)
        memcpy(full + bucket_length + 1, prefix, prefix_length);
    at = lower_bound(memory->now.entries, memory->now.entry_count, full, length);
    scan->memory = memory;
    scan->bucket_length = bucket_length;
    while (at + scan->count < memory->now.entry_count &&
           has_prefix(memory->now.entries[at + scan->count], full, length))
        scan->count++;
    scan->entries = need_zero(scan->count * sizeof(struct entry *));
    for (size_t i = 0; i < scan->count; i++)
        scan->entries[i] = ref(memory->now.entries[at + i]);
    memory->scans_open++;
    free(full);
    *ret_scan = scan;
    return leave(memory, 0);
}

static const uint8_t *key_of(const struct entry *entry)
{
    return entry->bytes + entry->bucket_length + 1;
}

static size_t key_length_of(const struct entry *entry)
{
    return entry->length - entry->bucket_length - 1;
}

static int memory_scan_seek(struct catalogue_scan *scan, const void *key, size_t key_length)
{
    size_t low = 0, high = scan->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct entry *entry = scan->entries[middle];

        if (compare(key_of(entry), key_length_of(entry), key, key_length) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    scan->next = low;
    return 0;
}

static int memory_scan_next(struct catalogue_scan *scan, struct catalogue_entry *ret_entry)
{
    const struct entry *entry;

    if (scan->next == scan->count)
        return 0;
    entry = scan->entries[scan->next++];
    *ret_entry = (struct catalogue_entry){.key = key_of(entry),
        .key_length = key_length_of(entry),
        .sequence = entry->sequence,
        .size_bytes = entry->size_bytes,
        .mtime_ns = entry->mtime_ns};
    memcpy(ret_entry->md5, entry->md5, sizeof(entry->md5));
    return 1;
}

static void memory_scan_close(struct catalogue_scan *scan)
{
    struct catalogue_memory *memory;

    if (scan == NULL)
        return;
    memory = enter(&scan->memory->catalogue);
    for (size_t i = 0; i < scan->count; i++)
        unref(scan->entries[i]);
    memory->scans_open--;
    (void)leave(memory, 0);
    free(scan->entries);
    free(scan);
}

/* --- counts --- */

static int memory_usage(struct catalogue *catalogue, const char *bucket, size_t bucket_length,
    struct catalogue_usage *ret_usage)
{
    struct catalogue_memory *memory = enter(catalogue);
    struct counts *counts = counts_of(&memory->now, bucket, bucket_length, false);

    *ret_usage = counts != NULL ? counts->usage : (struct catalogue_usage){0};
    return leave(memory, 0);
}

static int memory_total(struct catalogue *catalogue, struct catalogue_usage *ret_usage)
{
    struct catalogue_memory *memory = enter(catalogue);
    struct catalogue_usage sum = {0};

    for (size_t i = 0; i < memory->now.counts_count; i++) {
        sum.objects += memory->now.counts[i].usage.objects;
        sum.bytes += memory->now.counts[i].usage.bytes;
    }
    *ret_usage = sum;
    return leave(memory, 0);
}

static uint64_t memory_ram_bytes(struct catalogue *catalogue)
{
    return CATALOGUE_RAM_BYTES;
}

static void memory_close(struct catalogue *catalogue)
{
    struct catalogue_memory *memory;

    if (catalogue == NULL)
        return;
    memory = enter(catalogue);
    if (memory->scans_open > 0)
        violate(memory, "%u scans still open at close", memory->scans_open);
    memory->is_open = false;
    (void)leave(memory, 0);
}

/* --- from outside --- */

static const struct catalogue_ops memory_ops = {
    .apply = memory_apply,
    .progress = memory_progress,
    .flush = memory_flush,
    .scan_open = memory_scan_open,
    .scan_seek = memory_scan_seek,
    .scan_next = memory_scan_next,
    .scan_close = memory_scan_close,
    .usage = memory_usage,
    .total = memory_total,
    .ram_bytes = memory_ram_bytes,
    .close = memory_close,
};

struct catalogue_memory *catalogue_memory_new(void)
{
    struct catalogue_memory *memory = need_zero(sizeof(*memory));

    (void)pthread_mutex_init(&memory->lock, NULL); /* never fails for a plain mutex */
    memory->catalogue.ops = &memory_ops;
    memory->fail_after = -1;
    return memory;
}

void catalogue_memory_free(struct catalogue_memory *memory)
{
    if (memory == NULL)
        return;
    image_done(&memory->now);
    image_done(&memory->flushed);
    (void)pthread_mutex_destroy(&memory->lock); /* not held: no call is under way */
    free(memory);
}

int catalogue_memory_open(struct catalogue_memory *memory, const uint8_t identity[32],
    uint64_t durable_sequence, struct catalogue **ret_catalogue, struct shoal_error *error)
{
    bool ahead;

    if (memory->is_open)
        return error_set(error, -EBUSY, NULL, 0, "the simulated catalogue is open already");
    ahead = memory->now.progress > durable_sequence;
    if (memcmp(memory->now.identity, identity, 32) != 0) {
        catalogue_memory_wipe(memory);
    } else if (ahead) {
        memory->ahead_count++;
        catalogue_memory_wipe(memory);
    }
    memcpy(memory->now.identity, identity, 32);
    memcpy(memory->flushed.identity, identity, 32);
    memory->is_open = true;
    *ret_catalogue = &memory->catalogue;
    return 0;
}

void catalogue_memory_crash(struct catalogue_memory *memory)
{
    image_copy(&memory->now, &memory->flushed);
}

void catalogue_memory_wipe(struct catalogue_memory *memory)
{
    image_done(&memory->now);
    image_done(&memory->flushed);
}

void catalogue_memory_fail_after(struct catalogue_memory *memory, int64_t calls)
{
    memory->fail_after = calls;
}

uint64_t catalogue_memory_ahead_count(const struct catalogue_memory *memory)
{
    return memory->ahead_count;
}

const char *catalogue_memory_violation(const struct catalogue_memory *memory)
{
    return memory->violation[0] != 0 ? memory->violation : NULL;
}
