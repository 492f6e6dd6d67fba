/* The metadata part of a record: tagged values, unknown tags skipped. */
#ifndef STORE_META_H
#define STORE_META_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/record.h"

struct object_meta {
    const char *content_type; /* not NUL-terminated; NULL when not given */
    uint32_t content_type_length;
    uint8_t md5[16];
    uint32_t mtime_ns; /* of the record's millisecond, 0 to 999,999 */
    uint64_t blob_id; /* RECORD_BLOB, RECORD_OPEN, RECORD_REAP */
    uint64_t blob_bytes; /* RECORD_BLOB, RECORD_REAP */
    uint32_t chunk_bytes; /* RECORD_BLOB */
    bool has_md5;
    bool bucket_public; /* RECORD_BUCKET */
};

/* Writes at most RECORD_META_MAX bytes; returns how many. */
uint32_t meta_encode(const struct object_meta *meta, uint8_t *ret_bytes);
/* 0 or SHOAL_E_CORRUPT. content_type points into bytes. */
int meta_decode(const uint8_t *bytes, size_t length, struct object_meta *ret_meta);

/* Size of the object that a record holds: its data, or what its blob holds. */
uint64_t meta_object_bytes(const struct record *record, const struct object_meta *meta);

#endif
