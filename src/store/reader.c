/* The blocking reader and stat: object_read driven by reads on the calling thread. */
#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "store/read.h"
#include "store/store_priv.h"
#include "store/volume.h"

struct shoal_reader {
    struct object_read read;
    bool direct;
    char bucket[SHOAL_BUCKET_MAX + 1];
    uint8_t key[SHOAL_KEY_MAX];
    uint8_t buffer[OBJECT_READ_BUFFER_BYTES];
};

static int64_t read_wanted(struct shoal_reader *reader)
{
    const struct object_read *read = &reader->read;
    const struct volume_ops *ops = read->store->config.volume->ops;

    return (reader->direct ? ops->read_direct : ops->read_at)(
        read->file, reader->buffer, read->want_bytes, read->want_offset);
}

int shoal_reader_open(struct shoal *store, const char *bucket, const void *key, size_t key_length,
    struct shoal_reader **ret_reader, struct shoal_stat *ret_stat)
{
    struct shoal_reader *reader;
    struct shoal_bucket existing;
    struct key parsed;
    int rc = object_key(bucket, key, key_length, &parsed);

    if (!rc)
        rc = shoal_bucket_stat(store, bucket, &existing);
    if (rc)
        return rc;
    reader = mem_alloc(sizeof(*reader));
    if (!reader)
        return -ENOMEM;
    reader->direct = false;
    memcpy(reader->bucket, bucket, (size_t)parsed.bucket_length + 1);
    memcpy(reader->key, key, key_length);
    parsed.bucket = reader->bucket;
    parsed.bytes = reader->key;
    rc = object_read_find(&reader->read, store, &parsed);
    while (rc == OBJECT_READ_MORE)
        rc = object_read_found(&reader->read, reader->buffer, read_wanted(reader));
    if (rc) {
        mem_free(reader);
        return rc;
    }
    *ret_reader = reader;
    if (ret_stat)
        *ret_stat = reader->read.stat;
    return 0;
}

int64_t shoal_reader_read(
    struct shoal_reader *reader, uint64_t offset, void *buffer, size_t size_bytes)
{
    uint64_t size = reader->read.stat.size_bytes;
    size_t done = 0;

    if (offset >= size)
        return 0;
    if (size_bytes > size - offset)
        size_bytes = (size_t)(size - offset);
    while (done < size_bytes) {
        const void *bytes;
        size_t length;
        int rc = object_read_seek(&reader->read, offset + done);

        while (rc == OBJECT_READ_MORE)
            rc = object_read_piece(&reader->read, reader->buffer, read_wanted(reader));
        if (rc)
            return rc;
        object_read_bytes(&reader->read, &bytes, &length);
        length = length < size_bytes - done ? length : size_bytes - done;
        memcpy((uint8_t *)buffer + done, bytes, length);
        done += length;
    }
    return (int64_t)done;
}

void shoal_reader_set_direct(struct shoal_reader *reader, bool direct)
{
    reader->direct = direct;
    reader->read.bytes_length = 0; /* what is in the buffer came another way */
}

void shoal_reader_close(struct shoal_reader *reader)
{
    mem_free(reader);
}

int shoal_stat(struct shoal *store, const char *bucket, const void *key, size_t key_length,
    struct shoal_stat *ret_stat)
{
    struct shoal_bucket existing;
    struct object_meta meta;
    struct record record;
    struct found found;
    struct key parsed;
    uint8_t buffer[RECORD_HEAD_MAX];
    int rc = object_key(bucket, key, key_length, &parsed);

    if (!rc)
        rc = shoal_bucket_stat(store, bucket, &existing);
    if (rc)
        return rc;
    rc = store_lookup_head(store, &parsed, store_hash(store, &parsed), buffer, &record, &found);
    if (rc <= 0)
        return rc ? rc : SHOAL_E_ABSENT;
    rc = found.kind ? 0 : SHOAL_E_CORRUPT;
    if (!rc)
        rc = meta_decode(record.meta, record.meta_length, &meta);
    if (rc)
        return rc;
    *ret_stat = (struct shoal_stat){.sequence = record.sequence,
        .size_bytes = meta_object_bytes(&record, &meta),
        .mtime_ns = record.time_ms * 1000000 + meta.mtime_ns};
    memcpy(ret_stat->md5, meta.md5, sizeof(meta.md5));
    memcpy(ret_stat->content_type, meta.content_type ? meta.content_type : "",
        meta.content_type_length);
    return 0;
}
