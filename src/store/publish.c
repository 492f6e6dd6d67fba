/* What a published record changes in memory: the index and the live bytes of segments. The same for
   records just committed and for those replayed at open, in sequence order; and backwards for those
   that a failed sync took back.

   A record names the place of the version it replaces, so the index needs no read to find it. If that
   place is not in the index, the version was damaged and skipped in replay; then the key itself is
   looked up, so that no older version of it stays visible. */
#include <errno.h>

#include "store/store_priv.h"

/* NULL if there is none, or its segment is unknown. */
static const struct place *prev_place(
    struct shoal *store, const struct log_entry *entry, struct place *at)
{
    struct segment *segment =
        entry->has_prev ? segment_table_find(&store->segments, entry->prev.segment_id) : NULL;

    if (!segment)
        return NULL;
    *at = (struct place){.segment = segment->dense, .slot = entry->prev.slot};
    return at;
}

static void add_live(struct segment *segment, uint32_t slots)
{
    atomic_fetch_add(&segment->live_bytes, (uint64_t)slots * SLOT_BYTES);
}

static void remove_live(struct shoal *store, uint32_t dense, uint32_t slots)
{
    struct segment *segment = segment_table_get(&store->segments, dense);

    atomic_fetch_sub(&segment->live_bytes, (uint64_t)slots * SLOT_BYTES);
}

/* The version that this record replaces although its prev does not lead there. */
static bool find_by_key(struct shoal *store, const struct place *at, const struct log_entry *entry,
    struct found *ret_found)
{
    uint8_t buffer[RECORD_HEAD_MAX];
    struct record record;

    return store_read_head(store, *at, buffer, &record) == 0 &&
           store_lookup(store, &record.key, entry->hash, ret_found) == 1;
}

int store_show(
    struct shoal *store, struct segment *segment, const struct log_entry *entry, bool replaying)
{
    struct place to = {.segment = segment->dense, .slot = entry->slot}, prev;
    const struct place *from = prev_place(store, entry, &prev);
    const struct place *target = entry->kind == RECORD_TOMBSTONE ? NULL : &to;
    uint32_t bytes = entry->slots * SLOT_BYTES, prev_slots = entry->prev.slots;
    struct found found;
    int rc;

    if (!from && !target)
        return 0;
    rc = index_replace(store->index, entry->hash, from, target, bytes);
    if (rc == 1 || (replaying && entry->has_prev && !from)) {
        from = NULL;
        if (replaying && find_by_key(store, &to, entry, &found)) {
            from = &found.place;
            prev_slots = found.prev.slots;
        }
        if (from || target)
            rc = index_replace(store->index, entry->hash, from, target, bytes);
    }
    if (rc < 0)
        return rc;
    if (from)
        remove_live(store, from->segment, prev_slots);
    if (target)
        add_live(segment, entry->slots);
    return 0;
}

void store_unshow(struct shoal *store, struct segment *segment, const struct log_entry *entry)
{
    struct place at = {.segment = segment->dense, .slot = entry->slot}, prev;
    const struct place *back = prev_place(store, entry, &prev);
    const struct place *from = entry->kind == RECORD_TOMBSTONE ? NULL : &at;

    if (!back && !from)
        return;
    /* An entry is replaced in place or removed; only a deleted one needs memory again. */
    if (index_replace(store->index, entry->hash, from, back, entry->prev.slots * SLOT_BYTES))
        return;
    if (from)
        remove_live(store, from->segment, entry->slots);
    if (back)
        add_live(segment_table_get(&store->segments, back->segment), entry->prev.slots);
}
