/* Checking: every byte of the segments against its CRC, and index and catalogue against the segments.

   Segments are walked past the page cache up to what was published when the check began. A record that
   the index shows must be the one the index points at; at the end the index may hold no entry that no
   record accounts for. Then each key in the catalogue is looked up: its record must be the one listed.

   On a store that is being written to, an entry may change between two looks; a difference is reported
   only if it is still there after the writes in between have arrived in both. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "store/store_priv.h"
#include "store/volume.h"
#include "store/walk.h"

struct check {
    struct shoal *store;
    struct segment *segment;
    shoal_finding_fn *finding;
    shoal_progress_fn *progress;
    void *arg;
    struct shoal_check_report report;
    uint64_t shown; /* live records found in the segments */
    uint64_t done_bytes, all_bytes;
    char file[64];
};

static void find(struct check *check, uint64_t offset, const char *text, const struct key *key)
{
    char name[SHOAL_BUCKET_MAX + 2 + SHOAL_KEY_MAX];
    struct shoal_finding finding = {.file = check->file, .offset = offset, .text = text};

    check->report.damaged++;
    if (key) {
        memcpy(name, key->bucket, key->bucket_length);
        name[key->bucket_length] = 0;
        memcpy(name + key->bucket_length + 1, key->bytes, key->length);
        finding.key = name;
        finding.key_length = (size_t)key->bucket_length + 1 + key->length;
    }
    check->finding(check->arg, &finding);
}

/* --- segments --- */

static bool index_shows(struct check *check, const struct record *record, uint64_t offset)
{
    struct candidate candidates[INDEX_CANDIDATES_MAX];
    unsigned count =
        index_find(check->store->index, store_hash(check->store, &record->key), candidates);

    for (unsigned i = 0; i < count; i++)
        if (candidates[i].place.segment == check->segment->dense &&
            candidates[i].place.slot == offset / SLOT_BYTES)
            return true;
    return false;
}

static int check_record(void *arg, const struct record *record, uint64_t offset, bool valid)
{
    struct check *check = arg;
    struct object_meta meta;
    bool shown = index_shows(check, record, offset);

    check->report.records++;
    check->shown += shown;
    if (!valid)
        find(check, offset,
            shown ? "the object's bytes fail their CRC: it answers with an error"
                  : "bytes of a replaced version fail their CRC",
            &record->key);
    else if (meta_decode(record->meta, record->meta_length, &meta))
        find(check, offset, "the metadata can't be read", &record->key);
    else if (shown && record->key.bucket_length) {
        check->report.objects++;
        check->report.bytes += meta_object_bytes(record, &meta);
    }
    if (shown && record->kind == RECORD_TOMBSTONE)
        find(check, offset, "the index points at a tombstone", &record->key);
    if (check->progress)
        check->progress(check->arg, check->done_bytes + offset, check->all_bytes);
    return 0;
}

/* The walk reports a damaged payload with its record: check_record names the key. */
static void check_damage(void *arg, uint64_t offset, const char *text)
{
    if (strstr(text, "fail their CRC") == NULL)
        find(arg, offset, text, NULL);
}

static void check_superblock(struct check *check)
{
    struct shoal *store = check->store;
    uint32_t bytes = store->manifest.block_bytes;
    uint8_t *block = mem_alloc(bytes);
    struct superblock superblock;
    int64_t got =
        block ? store->config.volume->ops->read_direct(check->segment->file, block, bytes, 0)
              : -ENOMEM;

    if (got < 0 || superblock_decode(block, (size_t)got, &superblock) ||
        superblock.segment_id != check->segment->id || superblock.epoch != check->segment->epoch ||
        memcmp(superblock.uuid, store->manifest.uuid, sizeof(superblock.uuid)) != 0)
        find(check, 0, "the superblock is damaged", NULL);
    mem_free(block);
}

static void check_footer(struct check *check)
{
    struct segment *segment = check->segment;
    struct footer footer = {0};
    int rc;

    if (segment->state != SEGMENT_SEALED)
        return;
    rc = footer_read(check->store->config.volume, segment->file, segment_seed(segment),
        segment->end, segment->footer_bytes, &footer);
    if (rc)
        find(check, segment->end, "the footer is damaged", NULL);
    footer_done(&footer);
}

static int check_segment(struct check *check, struct segment *segment, uint64_t end)
{
    struct volume *volume = check->store->config.volume;
    struct walk walk = {.volume = volume,
        .segment = segment,
        .from = volume->block_bytes,
        .end = end,
        .verify_payload = true,
        .direct = true,
        .tolerant = true,
        .padding_from = segment->padding_from,
        .hooks = {.arg = check, .record = check_record, .damage = check_damage}};
    struct walk_result result;
    int rc;

    check->segment = segment;
    (void)snprintf(
        check->file, sizeof(check->file), "seg/%016llx", (unsigned long long)segment->id);
    check_superblock(check);
    check_footer(check);
    rc = segment_walk(&walk, &result);
    check->done_bytes += end;
    return rc;
}

static int check_segments(struct check *check)
{
    struct segment_table *table = &check->store->segments;
    uint32_t count = atomic_load(&table->count);
    uint64_t *ends = mem_alloc((count + 1) * sizeof(*ends));
    int rc = 0;

    if (!ends)
        return -ENOMEM;
    for (uint32_t i = 0; i < count; i++) {
        ends[i] = atomic_load(&segment_table_get(table, i)->shown_end);
        check->all_bytes += ends[i];
    }
    for (uint32_t i = 0; !rc && i < count; i++)
        rc = check_segment(check, segment_table_get(table, i), ends[i]);
    mem_free(ends);
    return rc;
}

/* --- catalogue --- */

/* 1: the entry's record is the one in the segments; 0: not; or an error. */
static int entry_agrees(
    struct check *check, const struct key *key, const struct catalogue_entry *entry)
{
    struct shoal *store = check->store;
    uint8_t buffer[RECORD_HEAD_MAX];
    struct record record;
    struct found found;
    int rc = store_lookup_head(store, key, store_hash(store, key), buffer, &record, &found);

    if (rc == SHOAL_E_CORRUPT || (rc == 1 && found.kind == 0))
        return 1; /* the walk has reported that record */
    if (rc < 0)
        return rc;
    return rc == 1 && record.sequence == entry->sequence &&
           found.prev.object_bytes == entry->size_bytes;
}

/* A second look at one key, after all that was published is in the catalogue. */
static int recheck(struct check *check, const struct key *key)
{
    struct catalogue_entry entry;
    struct catalogue *catalogue;
    struct catalogue_scan *scan;
    int rc = feed_wait(check->store, &catalogue);

    if (rc)
        return rc;
    rc = catalogue->ops->scan_open(
        catalogue, key->bucket, key->bucket_length, key->bytes, key->length, &scan);
    if (!rc) {
        rc = catalogue->ops->scan_next(scan, &entry);
        if (rc == 1 && entry.key_length == key->length)
            rc = entry_agrees(check, key, &entry);
        else if (rc >= 0)
            rc = 1; /* deleted meanwhile */
        catalogue->ops->scan_close(scan);
    }
    feed_release(check->store);
    if (rc == 0)
        find(check, 0, "the catalogue lists a version that the segments do not have", key);
    return rc < 0 ? rc : 0;
}

static int check_bucket(
    struct check *check, struct catalogue *catalogue, const char *bucket, uint64_t *ret_entries)
{
    struct catalogue_entry entry;
    struct catalogue_scan *scan;
    size_t length = strlen(bucket);
    int rc = catalogue->ops->scan_open(catalogue, bucket, length, "", 0, &scan);

    if (rc)
        return rc;
    while ((rc = catalogue->ops->scan_next(scan, &entry)) == 1) {
        struct key key = {.bucket = bucket,
            .bucket_length = (uint8_t)length,
            .bytes = entry.key,
            .length = (uint16_t)entry.key_length};

        ++*ret_entries;
        rc = entry_agrees(check, &key, &entry);
        if (rc == 0)
            rc = recheck(check, &key);
        if (rc < 0)
            break;
    }
    catalogue->ops->scan_close(scan);
    return rc < 0 ? rc : 0;
}

static int check_catalogue(struct check *check, uint64_t *ret_entries)
{
    struct catalogue *catalogue;
    struct shoal_bucket *buckets;
    size_t count;
    int rc = shoal_bucket_list(check->store, &buckets, &count);

    if (rc)
        return rc;
    (void)snprintf(check->file, sizeof(check->file), "catalogue");
    rc = feed_wait(check->store, &catalogue);
    if (!rc) {
        for (size_t i = 0; rc >= 0 && i < count; i++)
            rc = check_bucket(check, catalogue, buckets[i].name, ret_entries);
        feed_release(check->store);
    }
    free(buckets);
    return rc;
}

int shoal_check(struct shoal *store, shoal_finding_fn *finding, shoal_progress_fn *progress,
    void *arg, struct shoal_check_report *ret_report)
{
    struct check check = {.store = store, .finding = finding, .progress = progress, .arg = arg};
    uint64_t before = atomic_load(&store->log.published_sequence), entries = 0;
    bool quiet;
    int rc = check_segments(&check);

    if (!rc)
        rc = check_catalogue(&check, &entries);
    if (rc)
        return rc;
    quiet = atomic_load(&store->log.published_sequence) == before;
    (void)snprintf(check.file, sizeof(check.file), "index");
    if (quiet && check.report.damaged == 0 && check.shown != index_count(store->index))
        find(&check, 0, "the index holds entries that no record accounts for", NULL);
    (void)snprintf(check.file, sizeof(check.file), "catalogue");
    if (quiet && check.report.damaged == 0 && entries != check.report.objects)
        find(&check, 0, "the catalogue lacks objects that the segments have", NULL);
    *ret_report = check.report;
    return 0;
}
