/* Bucket and key out of a request's path, and parameters out of its query. */
#ifndef HTTP_TARGET_H
#define HTTP_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decodes percent escapes once into out, which holds size bytes. The length, or -400: a bad escape
   or %00; -414: it does not fit. '+' is a plus. */
int http_percent_decode(const uint8_t *text, size_t length, uint8_t *out, size_t size);

/* "/bucket/key…": where the bucket ends and the key begins; nothing is decoded or resolved, so
   `//`, `.` and `..` remain. has_slash tells "/bucket/" from "/bucket". */
struct http_target {
    size_t bucket_start, bucket_length, key_start, key_length;
    bool has_slash;
};
void http_target_split(const uint8_t *path, size_t length, struct http_target *ret_target);

/* The raw value of a parameter of the query; false: absent. The first one counts. */
bool http_query_find(const uint8_t *query, size_t length, const char *name,
    const uint8_t **ret_value, size_t *ret_length);

/* Escapes for a URL's path: all but unreserved characters and '/'. out holds 3 × length. */
size_t http_percent_encode(const uint8_t *bytes, size_t length, char *out);

#endif
