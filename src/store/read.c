/* Reading an object, as a state machine without I/O.

   find asks the index for candidates and names the first one's place. found decodes the head that the
   caller has read; if the key is another one it names the next candidate. The payload is verified
   block by block: a short one at once, with what the first read brought; of a longer one the blocks
   that lie whole in the buffer. seek names the next blocks, or for a blob looks up the chunk that
   holds the offset and names its head first.

   Each length comes from a head whose CRC has passed. A candidate that is damaged is remembered: if no
   other one has the key, the answer is corrupt and not absent. */
#include "store/read.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/crc32c.h"
#include "store/store_priv.h"

static_assert(OBJECT_BLOCK_BYTES == RECORD_BLOCK_BYTES, "one block size");

int object_key(const char *bucket, const void *bytes, size_t length, struct key *ret_key)
{
    if (!shoal_bucket_name_valid(bucket))
        return SHOAL_E_BAD_NAME;
    if (length == 0 || length > SHOAL_KEY_MAX || memchr(bytes, 0, length))
        return SHOAL_E_BAD_KEY;
    *ret_key = (struct key){.bucket = bucket,
        .bytes = bytes,
        .length = (uint16_t)length,
        .bucket_length = (uint8_t)strlen(bucket)};
    return 0;
}

static uint32_t at_most(uint64_t value, uint32_t limit)
{
    return value < limit ? (uint32_t)value : limit;
}

/* Names the next candidate's place; when there is none left, says why. */
static int next_candidate(struct object_read *read)
{
    while (read->candidate_next < read->candidate_count) {
        const struct candidate *candidate = &read->candidates[read->candidate_next++];
        struct segment *segment =
            segment_table_get(&read->store->segments, candidate->place.segment);

        if (!segment) {
            read->failure = SHOAL_E_CORRUPT;
            continue;
        }
        read->file = segment->file;
        read->place = candidate->place;
        read->record_offset = read->want_offset = (uint64_t)candidate->place.slot * SLOT_BYTES;
        read->want_bytes = at_most(candidate->read_bytes, OBJECT_READ_BUFFER_BYTES);
        return OBJECT_READ_MORE;
    }
    return read->failure ? read->failure : SHOAL_E_ABSENT;
}

static int look_up(struct object_read *read, const struct key *key)
{
    read->hash = store_hash(read->store, key);
    read->candidate_count = index_find(read->store->index, read->hash, read->candidates);
    read->candidate_next = 0;
    read->failure = 0;
    return next_candidate(read);
}

int object_read_find(struct object_read *read, struct shoal *store, const struct key *key)
{
    read->store = store;
    read->key = *key;
    read->blob_id = 0;
    read->finding_chunk = 0;
    read->bytes_length = 0;
    return look_up(read, key);
}

/* Decodes the head in buffer if it is that of `key`. 0, OBJECT_READ_MORE, or the failure. */
static int take_head(struct object_read *read, const struct key *key, const void *buffer,
    int64_t length, struct record *ret_record)
{
    struct segment *segment = segment_table_get(&read->store->segments, read->place.segment);
    int rc = length < 0 ? (int)length
                        : record_decode(buffer, (size_t)length, segment_seed(segment),
                              read->record_offset, ret_record);

    if (rc == 0 && key_equal(&ret_record->key, key))
        return 0;
    if (rc)
        read->failure = rc < 0 ? rc : SHOAL_E_CORRUPT; /* cut off: the file is too short */
    return next_candidate(read);
}

/* Remembers the record whose payload is read from here on, and verifies what of it is in buffer. */
static int take_payload(
    struct object_read *read, const struct record *record, const uint8_t *buffer, int64_t length)
{
    uint32_t blocks = record_blocks(record->data_length);
    uint32_t in_buffer;

    read->header_bytes = record_head_bytes(record);
    read->data_bytes = record->data_length;
    read->payload_crc = record->payload_crc;
    read->bytes = buffer + read->header_bytes;
    read->bytes_start = read->record_start;
    read->bytes_length = 0;
    if (blocks)
        memcpy(read->crc_table, record->crc_table, 4 * blocks);
    in_buffer = at_most((uint64_t)length - read->header_bytes, record->data_length);
    if (blocks == 0) {
        if (in_buffer < record->data_length ||
            crc32c(0, read->bytes, record->data_length) != record->payload_crc)
            return SHOAL_E_CORRUPT;
        read->bytes_length = record->data_length;
        return 0;
    }
    if (in_buffer < record->data_length)
        in_buffer -= in_buffer % RECORD_BLOCK_BYTES;
    for (uint32_t at = 0; at < in_buffer; at += RECORD_BLOCK_BYTES) {
        uint32_t part = at_most(in_buffer - at, RECORD_BLOCK_BYTES);

        /* A bad block behind the first is noticed when it is asked for. */
        if (!record_block_valid(read->crc_table, at / RECORD_BLOCK_BYTES, read->bytes + at, part))
            break;
        read->bytes_length = at + part;
    }
    return read->bytes_length || in_buffer == 0 ? 0 : SHOAL_E_CORRUPT;
}

static int fill_stat(struct object_read *read, const struct record *record)
{
    struct object_meta meta;
    int rc = meta_decode(record->meta, record->meta_length, &meta);

    if (rc)
        return rc;
    if ((record->kind != RECORD_OBJECT && record->kind != RECORD_BLOB) ||
        (record->kind == RECORD_BLOB && (!meta.blob_id || !meta.chunk_bytes)))
        return SHOAL_E_CORRUPT;
    read->stat.sequence = record->sequence;
    read->stat.size_bytes = meta_object_bytes(record, &meta);
    read->stat.mtime_ns = record->time_ms * 1000000 + meta.mtime_ns;
    memcpy(read->stat.md5, meta.md5, sizeof(read->stat.md5));
    memcpy(read->stat.content_type, meta.content_type ? meta.content_type : "",
        meta.content_type_length);
    read->stat.content_type[meta.content_type_length] = 0;
    read->blob_id = record->kind == RECORD_BLOB ? meta.blob_id : 0;
    read->chunk_bytes = meta.chunk_bytes;
    return 0;
}

int object_read_found(struct object_read *read, const void *buffer, int64_t length)
{
    struct record record;
    int rc = take_head(read, &read->key, buffer, length, &record);

    if (rc)
        return rc;
    rc = fill_stat(read, &record);
    read->record_start = 0;
    if (!rc && !read->blob_id)
        rc = take_payload(read, &record, buffer, length);
    return rc;
}

/* --- pieces --- */

static struct key chunk_key(struct object_read *read)
{
    struct system_key key;

    system_key_chunk(&key, read->blob_id, read->chunk_number);
    memcpy(read->chunk_key, key.bytes, key.key.length);
    key.key.bytes = read->chunk_key;
    return key.key;
}

/* Names the whole blocks from the one that holds the offset sought, as many as the buffer takes. */
static int want_blocks(struct object_read *read)
{
    uint64_t in_record = read->seek_offset - read->record_start;
    uint64_t from = in_record - in_record % RECORD_BLOCK_BYTES;
    uint32_t most = OBJECT_READ_BUFFER_BYTES / RECORD_BLOCK_BYTES * RECORD_BLOCK_BYTES;

    read->want_offset = read->record_offset + read->header_bytes + from;
    read->want_bytes = at_most(read->data_bytes - from, most);
    return OBJECT_READ_MORE;
}

int object_read_seek(struct object_read *read, uint64_t offset)
{
    struct key key;
    int rc;

    read->seek_offset = offset;
    if (read->bytes_length && offset >= read->bytes_start &&
        offset - read->bytes_start < read->bytes_length)
        return 0;
    if (!read->blob_id)
        return want_blocks(read);
    if (read->bytes_length && offset / read->chunk_bytes == read->chunk_number)
        return want_blocks(read);
    read->chunk_number = offset / read->chunk_bytes;
    read->record_start = read->chunk_number * read->chunk_bytes;
    read->bytes_length = 0;
    read->finding_chunk = 1;
    key = chunk_key(read);
    rc = look_up(read, &key);
    return rc == SHOAL_E_ABSENT ? SHOAL_E_CORRUPT : rc;
}

static int chunk_found(struct object_read *read, const void *buffer, int64_t length)
{
    struct record record;
    struct key key = chunk_key(read);
    uint64_t expected = read->stat.size_bytes - read->record_start;
    int rc = take_head(read, &key, buffer, length, &record);

    if (rc)
        return rc == SHOAL_E_ABSENT ? SHOAL_E_CORRUPT : rc;
    read->finding_chunk = 0;
    if (record.kind != RECORD_CHUNK || record.data_length != at_most(expected, read->chunk_bytes))
        return SHOAL_E_CORRUPT;
    rc = take_payload(read, &record, buffer, length);
    return rc ? rc : object_read_seek(read, read->seek_offset);
}

int object_read_piece(struct object_read *read, const void *buffer, int64_t length)
{
    const uint8_t *at = buffer;
    uint64_t from = read->want_offset - read->record_offset - read->header_bytes;

    if (read->finding_chunk)
        return chunk_found(read, buffer, length);
    if (length < 0)
        return (int)length;
    if (length < read->want_bytes)
        return SHOAL_E_CORRUPT;
    read->bytes = buffer;
    read->bytes_start = read->record_start + from;
    read->bytes_length = 0;
    if (record_blocks(read->data_bytes) == 0) { /* read again, since the buffer was given up */
        if (crc32c(0, at, read->want_bytes) != read->payload_crc)
            return SHOAL_E_CORRUPT;
        read->bytes_length = read->want_bytes;
    }
    while (read->bytes_length < read->want_bytes) {
        uint32_t part = at_most(read->want_bytes - read->bytes_length, RECORD_BLOCK_BYTES);
        uint32_t block = (uint32_t)((from + read->bytes_length) / RECORD_BLOCK_BYTES);

        if (!record_block_valid(read->crc_table, block, at + read->bytes_length, part))
            break;
        read->bytes_length += part;
    }
    return read->bytes_length ? 0 : SHOAL_E_CORRUPT;
}

void object_read_bytes(const struct object_read *read, const void **ret_bytes, size_t *ret_length)
{
    uint64_t skip = read->seek_offset - read->bytes_start;

    *ret_bytes = read->bytes + skip;
    *ret_length = read->bytes_length - (size_t)skip;
}
