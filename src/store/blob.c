/* The streaming writer.

   Bytes gather in one buffer of a chunk's size. An object that fits is written as one record; the
   first byte beyond that makes it a blob: an open record, then a chunk record each time the buffer is
   full, at last the blob record at the key, in one batch with the open record's tombstone. Until then
   nothing shows. Chunks are appended without waiting, a few at a time; all are durable before the
   blob record is written.

   Aborting, failing or dying leaves an open record, from which the chunks are reaped. */
#include <errno.h>
#include <string.h>

#include "base/md5.h"
#include "base/mem.h"
#include "store/read.h"
#include "store/store_priv.h"

#define CHUNKS_IN_FLIGHT 2u
#define BUFFER_FIRST     (64u << 10)

struct shoal_writer {
    struct shoal *store;
    struct write_draft draft; /* key and type point into this struct */
    char bucket[SHOAL_BUCKET_MAX + 1];
    uint8_t key[SHOAL_KEY_MAX];
    char content_type[SHOAL_TYPE_MAX + 1];
    struct md5 *md5;
    uint8_t *buffer;
    uint32_t used, capacity;
    uint64_t blob_id; /* 0 while all fits in the buffer */
    uint64_t chunks;
    uint64_t size_bytes;

    pthread_mutex_t lock; /* guards what the committer changes */
    pthread_cond_t changed;
    unsigned in_flight;
    int failure;
};

/* One chunk or open record on its way. */
struct piece {
    struct log_batch batch;
    struct log_record record;
    struct system_key key;
    struct shoal_writer *writer;
    uint8_t crc_table[4 * RECORD_BLOCKS_MAX];
    uint8_t meta[64];
    uint8_t owner[OWNER_MAX];
};

uint64_t blob_id_new(struct shoal *store)
{
    return store->log.epoch << LOG_EPOCH_SHIFT | atomic_fetch_add(&store->blob_counter, 1);
}

static void piece_published(struct log_batch *batch, int code)
{
    struct piece *piece = (struct piece *)batch;
    struct shoal_writer *writer = piece->writer;

    mem_free(piece);
    pthread_mutex_lock(&writer->lock);
    writer->failure = writer->failure ? writer->failure : code;
    writer->in_flight--;
    pthread_cond_signal(&writer->changed);
    pthread_mutex_unlock(&writer->lock);
}

/* Waits until at most so many pieces are in flight; returns what has failed so far. */
static int wait_pieces(struct shoal_writer *writer, unsigned most)
{
    int rc;

    pthread_mutex_lock(&writer->lock);
    while (writer->in_flight > most) {
        if (writer->store->config.threads) {
            pthread_cond_wait(&writer->changed, &writer->lock);
        } else {
            pthread_mutex_unlock(&writer->lock);
            (void)store_commit_step(writer->store); /* a failure arrives in the pieces */
            pthread_mutex_lock(&writer->lock);
        }
    }
    rc = writer->failure;
    pthread_mutex_unlock(&writer->lock);
    return rc;
}

/* Takes the piece. */
static int append(struct shoal_writer *writer, struct piece *piece)
{
    int rc = wait_pieces(writer, CHUNKS_IN_FLIGHT - 1);

    if (rc)
        goto failed;
    piece->writer = writer;
    piece->batch = (struct log_batch){
        .records = &piece->record, .count = 1, .force_sync = true, .done = piece_published};
    pthread_mutex_lock(&writer->lock);
    writer->in_flight++;
    pthread_mutex_unlock(&writer->lock);
    rc = log_append(&writer->store->log, &piece->batch);
    if (!rc)
        return 0;
    pthread_mutex_lock(&writer->lock);
    writer->in_flight--;
    pthread_mutex_unlock(&writer->lock);
failed:
    mem_free(piece);
    return rc;
}

static int append_open(struct shoal_writer *writer)
{
    struct object_meta meta = {.blob_id = blob_id_new(writer->store)};
    struct piece *piece = mem_alloc(sizeof(*piece));
    int rc;

    if (!piece)
        return -ENOMEM;
    system_key_open(&piece->key, meta.blob_id);
    write_system_record(writer->store, &piece->record, RECORD_OPEN, &piece->key.key, piece->meta,
        meta_encode(&meta, piece->meta), NULL);
    owner_encode(&piece->record.record, &writer->draft.key, piece->owner);
    rc = append(writer, piece);
    if (rc)
        return rc;
    writer->blob_id = meta.blob_id;
    return wait_pieces(writer, 0); /* no chunk may be there without it */
}

static int append_chunk(struct shoal_writer *writer)
{
    struct piece *piece;
    int rc = writer->blob_id ? 0 : append_open(writer);

    if (rc)
        return rc;
    piece = mem_alloc(sizeof(*piece));
    if (!piece)
        return -ENOMEM;
    system_key_chunk(&piece->key, writer->blob_id, writer->chunks);
    write_system_record(
        writer->store, &piece->record, RECORD_CHUNK, &piece->key.key, NULL, 0, NULL);
    piece->record.record.data = writer->buffer;
    piece->record.record.data_length = writer->used;
    record_checksum(&piece->record.record, piece->crc_table);
    rc = append(writer, piece);
    if (rc)
        return rc;
    writer->chunks++;
    writer->used = 0;
    return 0;
}

/* --- public --- */

int shoal_writer_open(struct shoal *store, const char *bucket, const void *key, size_t key_length,
    const struct shoal_attrs *attrs, struct shoal_writer **ret_writer)
{
    struct shoal_writer *writer;
    struct shoal_bucket existing;
    struct key parsed;
    int rc = object_key(bucket, key, key_length, &parsed);

    if (!rc)
        rc = shoal_bucket_stat(store, bucket, &existing);
    if (!rc && store->config.read_only)
        rc = SHOAL_E_READ_ONLY;
    if (rc)
        return rc;
    writer = mem_zero(1, sizeof(*writer));
    if (!writer)
        return -ENOMEM;
    pthread_mutex_init(&writer->lock, NULL);
    pthread_cond_init(&writer->changed, NULL);
    writer->store = store;
    memcpy(writer->bucket, bucket, parsed.bucket_length);
    memcpy(writer->key, key, key_length);
    writer->draft.key = parsed;
    writer->draft.key.bucket = writer->bucket;
    writer->draft.key.bytes = writer->key;
    rc = write_attrs(store, attrs, &writer->draft);
    if (rc)
        goto failed;
    memcpy(writer->content_type, writer->draft.meta.content_type,
        writer->draft.meta.content_type_length);
    writer->draft.meta.content_type = writer->content_type;
    writer->md5 = md5_new();
    if (!writer->md5) {
        rc = -ENOMEM;
        goto failed;
    }
    *ret_writer = writer;
    return 0;
failed:
    shoal_writer_abort(writer);
    return rc;
}

static int buffer_grow(struct shoal_writer *writer, size_t more)
{
    uint32_t most = writer->store->config.chunk_bytes;
    uint32_t wanted = writer->capacity ? writer->capacity : BUFFER_FIRST;
    uint8_t *grown;

    while (wanted < most && wanted < writer->used + more)
        wanted *= 2;
    wanted = wanted < most ? wanted : most;
    if (wanted <= writer->capacity)
        return 0;
    grown = mem_resize(writer->buffer, wanted);
    if (!grown)
        return -ENOMEM;
    writer->buffer = grown;
    writer->capacity = wanted;
    return 0;
}

int shoal_writer_write(struct shoal_writer *writer, const void *data, size_t size_bytes)
{
    const uint8_t *at = data;

    if (size_bytes > SHOAL_OBJECT_MAX - writer->size_bytes)
        return SHOAL_E_TOO_LARGE;
    md5_update(writer->md5, data, size_bytes);
    writer->size_bytes += size_bytes;
    while (size_bytes) {
        size_t part;
        int rc = writer->used == writer->store->config.chunk_bytes ? append_chunk(writer) : 0;

        if (!rc)
            rc = buffer_grow(writer, size_bytes);
        if (rc)
            return rc;
        part = writer->capacity - writer->used;
        part = size_bytes < part ? size_bytes : part;
        memcpy(writer->buffer + writer->used, at, part);
        writer->used += (uint32_t)part;
        at += part;
        size_bytes -= part;
    }
    return 0;
}

static int commit_blob(struct shoal_writer *writer, struct shoal_stat *ret_stat)
{
    struct write_draft *draft = &writer->draft;
    int rc = append_chunk(writer);

    if (!rc)
        rc = wait_pieces(writer, 0);
    if (rc)
        return rc;
    draft->kind = RECORD_BLOB;
    draft->open_blob = draft->meta.blob_id = writer->blob_id;
    draft->meta.blob_bytes = writer->size_bytes;
    draft->meta.chunk_bytes = writer->store->config.chunk_bytes;
    rc = write_run(writer->store, draft, ret_stat);
    if (!rc)
        writer->blob_id = 0; /* the object's now */
    return rc;
}

int shoal_writer_commit(struct shoal_writer *writer, struct shoal_stat *ret_stat)
{
    struct write_draft *draft = &writer->draft;
    int rc;

    md5_finish(writer->md5, draft->meta.md5);
    draft->meta.has_md5 = true;
    if (writer->blob_id) {
        rc = commit_blob(writer, ret_stat);
    } else {
        draft->kind = RECORD_OBJECT;
        draft->data = writer->buffer;
        draft->data_length = writer->used;
        rc = write_run(writer->store, draft, ret_stat);
    }
    shoal_writer_abort(writer);
    return rc;
}

void shoal_writer_abort(struct shoal_writer *writer)
{
    if (!writer)
        return;
    (void)wait_pieces(writer, 0); /* failed or not, its chunks are to go */
    if (writer->blob_id) {
        struct reap *reap = reap_new(writer->blob_id, writer->size_bytes, true);

        if (reap) /* otherwise the open record is found at the next open */
            reaper_add(writer->store, reap);
    }
    md5_free(writer->md5);
    mem_free(writer->buffer);
    pthread_cond_destroy(&writer->changed);
    pthread_mutex_destroy(&writer->lock);
    mem_free(writer);
}
