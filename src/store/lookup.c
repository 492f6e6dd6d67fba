/* Finding the record that holds a key: candidates from the index, heads from the device.

   The index knows only part of the hash, so a candidate's key decides. One that can't be read (bit
   rot) must not be taken for absent: its segment's footer, in memory or on disk, lists the whole
   hash, and if that is the same so is the key. If there is no telling, the answer is corrupt. */
#include <errno.h>
#include <string.h>

#include "store/store_priv.h"
#include "store/volume.h"

#define FIRST_READ_BYTES 1024u

/* Fewer bytes than asked for: the file is cut off, or the device has a passing fault. */
static int cut_short(struct shoal *store, struct segment *segment, uint64_t end)
{
    uint64_t bytes;
    int rc = store->config.volume->ops->size(segment->file, &bytes);

    return rc ? rc : end < bytes ? -EIO : SHOAL_E_CORRUPT;
}

int store_read_head(
    struct shoal *store, struct place place, uint8_t *buffer, struct record *ret_record)
{
    struct segment *segment = segment_table_get(&store->segments, place.segment);
    uint64_t offset = (uint64_t)place.slot * SLOT_BYTES;
    size_t wanted = FIRST_READ_BYTES;
    int rc;

    if (!segment)
        return SHOAL_E_CORRUPT;
    for (;;) {
        int64_t got = store->config.volume->ops->read_at(segment->file, buffer, wanted, offset);

        if (got < 0)
            return (int)got;
        rc = record_decode(buffer, (size_t)got, segment_seed(segment), offset, ret_record);
        if (rc <= 0)
            return rc;
        if ((size_t)got < wanted)
            return cut_short(store, segment, offset + (uint64_t)got);
        if ((size_t)rc > RECORD_HEAD_MAX || (size_t)rc <= wanted)
            return SHOAL_E_CORRUPT;
        wanted = (size_t)rc;
    }
}

static bool footer_lists(
    struct shoal *store, struct place place, struct hash128 hash, struct footer_entry *ret_entry)
{
    struct segment *segment = segment_table_get(&store->segments, place.segment);

    return segment && segment->state == SEGMENT_SEALED &&
           footer_confirms(store->config.volume, segment->file, segment->end, segment->footer_bytes,
               hash, place.slot, ret_entry);
}

static void describe(
    struct shoal *store, struct place place, const struct record *record, struct found *ret_found)
{
    struct segment *segment = segment_table_get(&store->segments, place.segment);
    struct object_meta meta = {0};

    (void)meta_decode(record->meta, record->meta_length, &meta); /* zeros then */
    *ret_found = (struct found){.prev = {.segment_id = segment->id,
                                    .object_bytes = meta_object_bytes(record, &meta),
                                    .slot = place.slot,
                                    .slots = record_slots(record)},
        .place = place,
        .blob_id = record->kind == RECORD_BLOB ? meta.blob_id : 0,
        .blob_bytes = meta.blob_bytes,
        .kind = record->kind};
}

static void describe_unreadable(
    struct shoal *store, struct place place, uint32_t slots, struct found *ret_found)
{
    struct segment *segment = segment_table_get(&store->segments, place.segment);

    *ret_found = (struct found){.prev = {.segment_id = segment->id,
                                    .object_bytes = PREV_BYTES_UNKNOWN,
                                    .slot = place.slot,
                                    .slots = slots},
        .place = place};
}

int store_lookup_head(struct shoal *store, const struct key *key, struct hash128 hash,
    uint8_t *buffer, struct record *ret_record, struct found *ret_found)
{
    struct candidate candidates[INDEX_CANDIDATES_MAX];
    unsigned count = index_find(store->index, hash, candidates);
    const struct candidate *unreadable = NULL;
    struct footer_entry entry, listed = {0};
    int failure = 0;

    for (unsigned i = 0; i < count; i++) {
        int rc = store_read_head(store, candidates[i].place, buffer, ret_record);

        if (rc == 0 && key_equal(&ret_record->key, key)) {
            describe(store, candidates[i].place, ret_record, ret_found);
            return 1;
        }
        if (rc == 0)
            continue;
        failure = rc;
        if (!footer_lists(store, candidates[i].place, hash, &entry))
            continue;
        if (entry.kind == RECORD_BLOB && rc != SHOAL_E_CORRUPT)
            return rc; /* a passing fault, or its chunks would never be found again */
        unreadable = &candidates[i];
        listed = entry;
    }
    if (unreadable) {
        describe_unreadable(store, unreadable->place, listed.slots, ret_found);
        return 1;
    }
    return failure;
}

int store_lookup(
    struct shoal *store, const struct key *key, struct hash128 hash, struct found *ret_found)
{
    uint8_t buffer[RECORD_HEAD_MAX];
    struct record record;

    return store_lookup_head(store, key, hash, buffer, &record, ret_found);
}
