/* The metadata part of a record.

   Each value is a tag, a length in two bytes and the bytes. A tag that this program does not know is
   skipped, so that a later one may add what an older one need not understand; what it must
   understand is guarded by the format's feature flags. Values of a known tag with a wrong length are
   corrupt. */
#include "store/meta.h"

#include <string.h>

#include <shoal/error.h>

#include "base/bytes.h"

enum tag {
    TAG_MD5 = 1,
    TAG_CONTENT_TYPE = 2,
    TAG_MTIME_NS = 3,
    TAG_BLOB_ID = 4,
    TAG_BLOB_BYTES = 5,
    TAG_CHUNK_BYTES = 6,
    TAG_BUCKET_PUBLIC = 7,
};

#define TAG_HEADER_BYTES 3

static uint8_t *put_tag(uint8_t *at, enum tag tag, uint32_t length)
{
    at[0] = (uint8_t)tag;
    put_u16(at + 1, (uint16_t)length);
    return at + TAG_HEADER_BYTES;
}

static uint8_t *put_tag_u32(uint8_t *at, enum tag tag, uint32_t value)
{
    at = put_tag(at, tag, 4);
    put_u32(at, value);
    return at + 4;
}

static uint8_t *put_tag_u64(uint8_t *at, enum tag tag, uint64_t value)
{
    at = put_tag(at, tag, 8);
    put_u64(at, value);
    return at + 8;
}

uint32_t meta_encode(const struct object_meta *meta, uint8_t *ret_bytes)
{
    uint8_t *at = ret_bytes;

    if (meta->has_md5) {
        at = put_tag(at, TAG_MD5, 16);
        memcpy(at, meta->md5, 16);
        at += 16;
    }
    if (meta->content_type) {
        at = put_tag(at, TAG_CONTENT_TYPE, meta->content_type_length);
        memcpy(at, meta->content_type, meta->content_type_length);
        at += meta->content_type_length;
    }
    if (meta->mtime_ns)
        at = put_tag_u32(at, TAG_MTIME_NS, meta->mtime_ns);
    if (meta->blob_id)
        at = put_tag_u64(at, TAG_BLOB_ID, meta->blob_id);
    if (meta->blob_bytes)
        at = put_tag_u64(at, TAG_BLOB_BYTES, meta->blob_bytes);
    if (meta->chunk_bytes)
        at = put_tag_u32(at, TAG_CHUNK_BYTES, meta->chunk_bytes);
    if (meta->bucket_public)
        at = put_tag(at, TAG_BUCKET_PUBLIC, 0);
    return (uint32_t)(at - ret_bytes);
}

static bool decode_value(enum tag tag, const uint8_t *at, uint32_t length, struct object_meta *meta)
{
    switch (tag) {
    case TAG_MD5:
        if (length != 16)
            return false;
        memcpy(meta->md5, at, 16);
        meta->has_md5 = true;
        return true;
    case TAG_CONTENT_TYPE:
        meta->content_type = (const char *)at;
        meta->content_type_length = length;
        return length <= 255;
    case TAG_MTIME_NS:
        meta->mtime_ns = length == 4 ? get_u32(at) : UINT32_MAX;
        return meta->mtime_ns < 1000000;
    case TAG_BLOB_ID:
        meta->blob_id = length == 8 ? get_u64(at) : 0;
        return meta->blob_id != 0;
    case TAG_BLOB_BYTES:
        meta->blob_bytes = length == 8 ? get_u64(at) : 0;
        return meta->blob_bytes != 0;
    case TAG_CHUNK_BYTES:
        meta->chunk_bytes = length == 4 ? get_u32(at) : 0;
        return meta->chunk_bytes != 0 && meta->chunk_bytes <= RECORD_DATA_MAX;
    case TAG_BUCKET_PUBLIC:
        meta->bucket_public = true;
        return length == 0;
    }
    return true;
}

int meta_decode(const uint8_t *bytes, size_t length, struct object_meta *ret_meta)
{
    struct object_meta meta = {0};
    const uint8_t *end = bytes + length;

    for (const uint8_t *at = bytes; at < end;) {
        uint32_t value_length;

        if (end - at < TAG_HEADER_BYTES)
            return SHOAL_E_CORRUPT;
        value_length = get_u16(at + 1);
        if (end - at - TAG_HEADER_BYTES < (ptrdiff_t)value_length)
            return SHOAL_E_CORRUPT;
        if (!decode_value(at[0], at + TAG_HEADER_BYTES, value_length, &meta))
            return SHOAL_E_CORRUPT;
        at += TAG_HEADER_BYTES + value_length;
    }
    *ret_meta = meta;
    return 0;
}

uint64_t meta_object_bytes(const struct record *record, const struct object_meta *meta)
{
    return record->kind == RECORD_BLOB ? meta->blob_bytes : record->data_length;
}
