/* Reaping: deleting the chunks of blobs that no object names any more.

   A blob is dead when its object was replaced or deleted (a reap record tells), or when its writer
   went away before committing (its open record is left). Both records name the blob; both stay until
   the last chunk is gone, so reaping goes on after a restart. A crash never leaves an open record
   beside the committed object, since both are in one group, but bit rot can bring one back: so the
   record names its object, and that is asked before anything is deleted.

   Chunks are numbered without gaps and go from the last to the first, so what is left is always the
   front, and their count is found by doubling and halving. One step deletes a few. */
#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "store/store_priv.h"

#define STEP_CHUNKS 16u

void reaper_init(struct reaper *reaper)
{
    memset(reaper, 0, sizeof(*reaper));
    pthread_mutex_init(&reaper->lock, NULL);
}

void reaper_done(struct reaper *reaper)
{
    while (reaper->first) {
        struct reap *next = reaper->first->next;

        mem_free(reaper->first);
        reaper->first = next;
    }
    pthread_mutex_destroy(&reaper->lock);
}

struct reap *reap_new(uint64_t blob_id, uint64_t bytes, bool is_open)
{
    struct reap *reap = mem_zero(1, sizeof(*reap));

    if (reap)
        *reap = (struct reap){.blob_id = blob_id, .bytes = bytes, .is_open = is_open};
    return reap;
}

void reaper_add(struct shoal *store, struct reap *reap)
{
    struct reaper *reaper = &store->reaper;

    pthread_mutex_lock(&reaper->lock);
    reap->next = reaper->first;
    reaper->first = reap;
    reaper->bytes += reap->bytes;
    pthread_mutex_unlock(&reaper->lock);
}

uint64_t reaper_bytes(struct shoal *store)
{
    uint64_t bytes;

    pthread_mutex_lock(&store->reaper.lock);
    bytes = store->reaper.bytes;
    pthread_mutex_unlock(&store->reaper.lock);
    return bytes;
}

/* 1: the object that the record names still has this blob, or damage hides whether it does; 0: it has
   not; or an error. */
static int in_use(struct shoal *store, const struct record *record, uint64_t blob_id)
{
    struct found found;
    struct key key;
    int rc = owner_decode(record, &key);

    if (!rc)
        rc = store_lookup(store, &key, store_hash(store, &key), &found);
    if (rc == SHOAL_E_CORRUPT)
        return 1;
    return rc < 0 ? rc : rc == 1 && (found.kind == 0 || found.blob_id == blob_id);
}

int reap_load(struct shoal *store, const struct record *record)
{
    struct object_meta meta;
    struct reap *reap;
    int rc = meta_decode(record->meta, record->meta_length, &meta);

    if (!rc && meta.blob_id == 0)
        rc = SHOAL_E_CORRUPT;
    if (!rc)
        rc = in_use(store, record, meta.blob_id);
    if (rc)
        return rc < 0 ? rc : 0;
    reap = reap_new(meta.blob_id, meta.blob_bytes, record->kind == RECORD_OPEN);
    if (!reap)
        return -ENOMEM;
    reaper_add(store, reap);
    return 0;
}

/* --- counting --- */

/* A chunk that can't be read is there. */
static bool chunk_present(struct shoal *store, uint64_t blob_id, uint64_t number)
{
    struct system_key key;
    struct found found;

    system_key_chunk(&key, blob_id, number);
    return store_lookup(store, &key.key, store_hash(store, &key.key), &found) != 0;
}

static uint64_t count_chunks(struct shoal *store, uint64_t blob_id)
{
    uint64_t low = 0, high = 1; /* chunks below low are there */

    while (high < SHOAL_OBJECT_MAX / 512 && chunk_present(store, blob_id, high - 1)) {
        low = high;
        high *= 2;
    }
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;

        if (chunk_present(store, blob_id, middle))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* --- deleting --- */

/* The last few chunks, in one batch. One that can't be told apart is left, and check reports it. */
static int delete_some(struct shoal *store, struct reap *reap)
{
    struct log_record records[STEP_CHUNKS];
    struct system_key keys[STEP_CHUNKS];
    unsigned count = 0;
    int rc = 0;

    for (unsigned i = 0; i < STEP_CHUNKS && reap->chunks > i; i++) {
        struct system_key *key = &keys[count];
        struct found found;

        system_key_chunk(key, reap->blob_id, reap->chunks - 1 - i);
        rc = store_lookup(store, &key->key, store_hash(store, &key->key), &found);
        if (rc < 0 && rc != SHOAL_E_CORRUPT)
            return rc; /* tried again */
        if (rc == 1)
            write_system_record(
                store, &records[count++], RECORD_TOMBSTONE, &key->key, NULL, 0, &found);
    }
    rc = count ? write_batch(store, records, count) : 0;
    if (!rc)
        reap->chunks -= reap->chunks < STEP_CHUNKS ? reap->chunks : STEP_CHUNKS;
    return rc;
}

/* All chunks are gone: now the record that said so. */
static int finish(struct shoal *store, struct reap *reap)
{
    struct reaper *reaper = &store->reaper;
    struct reap **link = &reaper->first;
    struct system_key key;
    int rc;

    if (reap->is_open)
        system_key_open(&key, reap->blob_id);
    else
        system_key_reap(&key, reap->blob_id);
    rc = write_system(store, RECORD_TOMBSTONE, &key, NULL, 0);
    if (rc && rc != SHOAL_E_ABSENT)
        return rc;
    pthread_mutex_lock(&reaper->lock);
    while (*link != reap)
        link = &(*link)->next;
    *link = reap->next;
    reaper->bytes -= reap->bytes;
    pthread_mutex_unlock(&reaper->lock);
    mem_free(reap);
    return 0;
}

int store_reap_step(struct shoal *store)
{
    struct reap *reap;
    int rc;

    pthread_mutex_lock(&store->reaper.lock);
    reap = store->reaper.first;
    pthread_mutex_unlock(&store->reaper.lock);
    if (!reap || store->config.read_only)
        return 0;
    if (!reap->counted) {
        reap->chunks = count_chunks(store, reap->blob_id);
        reap->counted = true;
    }
    rc = reap->chunks ? delete_some(store, reap) : finish(store, reap);
    return rc ? rc : 1;
}
