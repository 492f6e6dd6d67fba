/* Writing under a key: from the caller's bytes to a batch in the log.

   The happy path is write_start: count the write into its bucket, take the key (one write in flight
   per key), find what it replaces, and append one batch: the record itself, and what must happen
   together with it. Replacing or deleting a blob adds a reap record for its chunks; committing a
   blob adds the tombstone of its open record. The rest happens on the committer's thread when the
   batch is published: leave the key, leave the bucket, tell the caller.

   Absence is answered from the index, which shows only what is durable (or, with relaxed durability,
   acknowledged). */
#include <errno.h>
#include <string.h>

#include "base/md5.h"
#include "base/mem.h"
#include "os/clock.h"
#include "store/read.h"
#include "store/store_priv.h"

#define META_BYTES 512u

/* Lives from write_start until the batch is published. */
struct write_op {
    struct log_batch batch;
    struct pending_node pending;
    struct shoal *store;
    struct bucket *bucket;
    struct reap *reap; /* the blob that this write replaces */
    shoal_done_fn *done;
    void *done_arg;
    bool has_stat;
    struct shoal_stat stat;
};

/* Only needed until the log has copied it. */
struct write_parts {
    struct log_record records[3];
    uint8_t meta[META_BYTES];
    uint8_t reap_meta[META_BYTES];
    uint8_t reap_owner[OWNER_MAX];
    uint8_t crc_table[4 * RECORD_BLOCKS_MAX];
    struct system_key reap_key, open_key;
};

static void op_free(struct write_op *op)
{
    if (!op)
        return;
    mem_free(op->reap);
    mem_free(op);
}

static void published(struct log_batch *batch, int code)
{
    struct write_op *op = (struct write_op *)batch;

    if (code == 0 && op->reap) {
        reaper_add(op->store, op->reap);
        op->reap = NULL;
    }
    pending_leave(op->store, &op->pending);
    bucket_leave(op->bucket);
    op->stat.sequence = batch->first_sequence;
    op->done(op->done_arg, code, op->has_stat ? &op->stat : NULL);
    op_free(op);
}

static void fill_stat(struct shoal_stat *stat, const struct write_draft *draft)
{
    uint32_t length = draft->meta.content_type_length;

    stat->size_bytes = draft->kind == RECORD_BLOB ? draft->meta.blob_bytes : draft->data_length;
    stat->mtime_ns = draft->time_ms * 1000000 + draft->meta.mtime_ns;
    memcpy(stat->md5, draft->meta.md5, sizeof(stat->md5));
    if (length)
        memcpy(stat->content_type, draft->meta.content_type, length);
    stat->content_type[length] = 0;
}

static void replace(struct log_record *record, const struct found *found)
{
    record->record.has_prev = found != NULL;
    if (found)
        record->record.prev = found->prev;
}

static void main_record(const struct write_draft *draft, struct write_parts *parts,
    struct hash128 hash, const struct found *found)
{
    struct log_record *to = &parts->records[0];

    to->hash = hash;
    to->record = (struct record){.key = draft->key,
        .kind = draft->kind,
        .time_ms = draft->time_ms,
        .meta = parts->meta,
        .data = draft->data,
        .data_length = draft->data_length};
    if (draft->kind != RECORD_TOMBSTONE)
        to->record.meta_length = meta_encode(&draft->meta, parts->meta);
    record_checksum(&to->record, parts->crc_table);
    replace(to, found);
}

/* The reap record for the blob that is replaced; it names the key, so that open can see whether the
   blob is still in use. */
static int add_reap(struct shoal *store, struct write_op *op, struct write_parts *parts,
    const struct key *key, const struct found *found)
{
    struct object_meta meta = {.blob_id = found->blob_id, .blob_bytes = found->blob_bytes};
    struct log_record *record = &parts->records[op->batch.count++];

    op->reap = reap_new(found->blob_id, found->blob_bytes, false);
    if (!op->reap)
        return -ENOMEM;
    system_key_reap(&parts->reap_key, found->blob_id);
    write_system_record(store, record, RECORD_REAP, &parts->reap_key.key, parts->reap_meta,
        meta_encode(&meta, parts->reap_meta), NULL);
    owner_encode(&record->record, key, parts->reap_owner);
    op->batch.force_sync = true;
    return 0;
}

static int drop_open(
    struct shoal *store, struct write_op *op, struct write_parts *parts, uint64_t blob_id)
{
    struct log_record *record = &parts->records[op->batch.count];
    struct found found;
    int rc;

    system_key_open(&parts->open_key, blob_id);
    rc = store_lookup(store, &parts->open_key.key, store_hash(store, &parts->open_key.key), &found);
    if (rc <= 0)
        return rc ? rc : SHOAL_E_CORRUPT;
    write_system_record(store, record, RECORD_TOMBSTONE, &parts->open_key.key, NULL, 0, &found);
    op->batch.count++;
    op->batch.force_sync = true;
    return 0;
}

/* With the key taken: look up, build, append. */
static int append(
    struct shoal *store, struct write_op *op, const struct write_draft *draft, struct hash128 hash)
{
    struct write_parts parts;
    struct found found;
    int rc = store_lookup(store, &draft->key, hash, &found);

    if (rc < 0)
        return rc;
    if (rc == 0 && draft->kind == RECORD_TOMBSTONE)
        return SHOAL_E_ABSENT;
    op->batch.records = parts.records;
    op->batch.count = 1;
    main_record(draft, &parts, hash, rc ? &found : NULL);
    rc = rc && found.kind == RECORD_BLOB ? add_reap(store, op, &parts, &draft->key, &found) : 0;
    if (!rc && draft->open_blob)
        rc = drop_open(store, op, &parts, draft->open_blob);
    return rc ? rc : log_append(&store->log, &op->batch);
}

int write_start(
    struct shoal *store, const struct write_draft *draft, shoal_done_fn *done, void *done_arg)
{
    struct hash128 hash = store_hash(store, &draft->key);
    struct write_op *op;
    int rc;

    if (store->config.read_only)
        return SHOAL_E_READ_ONLY;
    op = mem_alloc(sizeof(*op));
    if (!op)
        return -ENOMEM;
    op->batch = (struct log_batch){.done = published};
    op->store = store;
    op->reap = NULL;
    op->done = done;
    op->done_arg = done_arg;
    op->has_stat = draft->kind != RECORD_TOMBSTONE;
    if (op->has_stat)
        fill_stat(&op->stat, draft);
    rc = bucket_enter(store, draft->key.bucket, draft->key.bucket_length, &op->bucket);
    if (rc)
        goto out;
    feed_throttle(store);
    pending_enter(store, &op->pending, hash);
    rc = append(store, op, draft, hash);
    if (!rc)
        return 0;
    pending_leave(store, &op->pending);
    bucket_leave(op->bucket);
out:
    op_free(op);
    return rc;
}

int write_attrs(struct shoal *store, const struct shoal_attrs *attrs, struct write_draft *draft)
{
    int64_t mtime_ns = attrs ? attrs->mtime_ns : 0;
    const char *type = attrs && attrs->content_type ? attrs->content_type : "binary/octet-stream";
    size_t length = strlen(type);

    if (length > SHOAL_TYPE_MAX)
        return SHOAL_E_TOO_LARGE;
    if (mtime_ns == 0)
        mtime_ns = store->config.clock->wall_ns(store->config.clock);
    else if (mtime_ns == SHOAL_MTIME_1970)
        mtime_ns = 0;
    draft->time_ms = mtime_ns / 1000000 - (mtime_ns % 1000000 < 0);
    draft->meta.mtime_ns = (uint32_t)(mtime_ns - draft->time_ms * 1000000);
    draft->meta.content_type = type;
    draft->meta.content_type_length = (uint32_t)length;
    return 0;
}

/* --- waiting --- */

struct waiter {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct shoal_stat *stat;
    int code;
    bool finished;
};

static void waiter_init(struct waiter *waiter, struct shoal_stat *stat)
{
    *waiter = (struct waiter){.stat = stat};
    pthread_mutex_init(&waiter->lock, NULL);
    pthread_cond_init(&waiter->changed, NULL);
}

static void waiter_wake(void *arg, int code, const struct shoal_stat *stat)
{
    struct waiter *waiter = arg;

    pthread_mutex_lock(&waiter->lock);
    waiter->code = code;
    waiter->finished = true;
    if (!code && stat && waiter->stat)
        *waiter->stat = *stat;
    pthread_cond_signal(&waiter->changed);
    pthread_mutex_unlock(&waiter->lock);
}

/* rc: what starting said. */
static int waiter_wait(struct shoal *store, struct waiter *waiter, int rc)
{
    pthread_mutex_lock(&waiter->lock);
    while (!rc && !waiter->finished) {
        if (store->config.threads) {
            pthread_cond_wait(&waiter->changed, &waiter->lock);
        } else {
            pthread_mutex_unlock(&waiter->lock);
            (void)store_commit_step(store); /* its failure arrives here as the code */
            pthread_mutex_lock(&waiter->lock);
        }
    }
    pthread_mutex_unlock(&waiter->lock);
    pthread_cond_destroy(&waiter->changed);
    pthread_mutex_destroy(&waiter->lock);
    return rc ? rc : waiter->code;
}

int write_run(struct shoal *store, const struct write_draft *draft, struct shoal_stat *ret_stat)
{
    struct waiter waiter;

    waiter_init(&waiter, ret_stat);
    return waiter_wait(store, &waiter, write_start(store, draft, waiter_wake, &waiter));
}

/* --- the store's own records --- */

struct system_batch {
    struct log_batch batch;
    struct waiter waiter;
};

static void system_published(struct log_batch *batch, int code)
{
    waiter_wake(&((struct system_batch *)batch)->waiter, code, NULL);
}

int write_batch(struct shoal *store, struct log_record *records, unsigned count)
{
    struct system_batch batch = {
        .batch = {
            .records = records, .count = count, .force_sync = true, .done = system_published}};

    waiter_init(&batch.waiter, NULL);
    return waiter_wait(store, &batch.waiter, log_append(&store->log, &batch.batch));
}

void write_system_record(struct shoal *store, struct log_record *ret_record, enum record_kind kind,
    const struct key *key, const uint8_t *meta, uint32_t meta_length, const struct found *found)
{
    struct clock *clock = store->config.clock;

    *ret_record = (struct log_record){.record = {.key = *key,
                                          .kind = kind,
                                          .time_ms = clock->wall_ns(clock) / 1000000,
                                          .meta = meta,
                                          .meta_length = meta_length},
        .hash = store_hash(store, key)};
    replace(ret_record, found);
}

int write_system(struct shoal *store, enum record_kind kind, const struct system_key *key,
    const uint8_t *meta, uint32_t meta_length)
{
    struct hash128 hash = store_hash(store, &key->key);
    struct pending_node pending;
    struct log_record record;
    struct found found;
    int rc;

    if (store->config.read_only)
        return SHOAL_E_READ_ONLY;
    pending_enter(store, &pending, hash);
    rc = store_lookup(store, &key->key, hash, &found);
    if (rc == 0 && kind == RECORD_TOMBSTONE)
        rc = SHOAL_E_ABSENT;
    if (rc >= 0) {
        write_system_record(store, &record, kind, &key->key, meta, meta_length, rc ? &found : NULL);
        rc = write_batch(store, &record, 1);
    }
    pending_leave(store, &pending);
    return rc;
}

/* --- public --- */

static int put_draft(struct shoal *store, const char *bucket, const void *key, size_t key_length,
    const void *data, size_t size_bytes, const struct shoal_attrs *attrs,
    struct write_draft *ret_draft)
{
    struct write_draft draft = {.kind = RECORD_OBJECT, .data = data};
    int rc = object_key(bucket, key, key_length, &draft.key);

    if (!rc)
        rc = write_attrs(store, attrs, &draft);
    if (!rc)
        rc = md5_of(data, size_bytes, draft.meta.md5);
    if (rc)
        return rc;
    draft.meta.has_md5 = true;
    draft.data_length = (uint32_t)size_bytes;
    *ret_draft = draft;
    return 0;
}

int shoal_put_start(struct shoal *store, const char *bucket, const void *key, size_t key_length,
    const void *data, size_t size_bytes, const struct shoal_attrs *attrs, shoal_done_fn *done,
    void *arg)
{
    struct write_draft draft;
    int rc;

    if (size_bytes > store->config.chunk_bytes)
        return SHOAL_E_TOO_LARGE;
    rc = put_draft(store, bucket, key, key_length, data, size_bytes, attrs, &draft);
    return rc ? rc : write_start(store, &draft, done, arg);
}

static int put_large(struct shoal *store, const char *bucket, const void *key, size_t key_length,
    const void *data, size_t size_bytes, const struct shoal_attrs *attrs,
    struct shoal_stat *ret_stat)
{
    struct shoal_writer *writer;
    int rc = shoal_writer_open(store, bucket, key, key_length, attrs, &writer);

    if (rc)
        return rc;
    rc = shoal_writer_write(writer, data, size_bytes);
    if (!rc)
        return shoal_writer_commit(writer, ret_stat);
    shoal_writer_abort(writer);
    return rc;
}

int shoal_put(struct shoal *store, const char *bucket, const void *key, size_t key_length,
    const void *data, size_t size_bytes, const struct shoal_attrs *attrs,
    struct shoal_stat *ret_stat)
{
    struct write_draft draft;
    int rc;

    if (size_bytes > store->config.chunk_bytes)
        return put_large(store, bucket, key, key_length, data, size_bytes, attrs, ret_stat);
    rc = put_draft(store, bucket, key, key_length, data, size_bytes, attrs, &draft);
    return rc ? rc : write_run(store, &draft, ret_stat);
}

static int delete_draft(struct shoal *store, const char *bucket, const void *key, size_t key_length,
    struct write_draft *ret_draft)
{
    struct clock *clock = store->config.clock;

    *ret_draft =
        (struct write_draft){.kind = RECORD_TOMBSTONE, .time_ms = clock->wall_ns(clock) / 1000000};
    return object_key(bucket, key, key_length, &ret_draft->key);
}

int shoal_delete_start(struct shoal *store, const char *bucket, const void *key, size_t key_length,
    shoal_done_fn *done, void *arg)
{
    struct write_draft draft;
    int rc = delete_draft(store, bucket, key, key_length, &draft);

    return rc ? rc : write_start(store, &draft, done, arg);
}

int shoal_delete(struct shoal *store, const char *bucket, const void *key, size_t key_length)
{
    struct write_draft draft;
    int rc = delete_draft(store, bucket, key, key_length, &draft);

    return rc ? rc : write_run(store, &draft, NULL);
}
