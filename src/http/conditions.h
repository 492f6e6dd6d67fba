/* Conditional requests (RFC 9110 section 13) and byte ranges (section 14). */
#ifndef HTTP_CONDITIONS_H
#define HTTP_CONDITIONS_H

#include <stdint.h>

#include "http/head.h"

/* What the conditions are held against. */
struct http_validators {
    char etag[32]; /* the tag's characters, without quotes or NUL; always a strong one */
    int64_t mtime_s;
};

/* 0: go on; 304; 412. For GET and HEAD. */
int http_conditions_check(
    const struct http_head *head, const uint8_t *bytes, const struct http_validators *validators);

enum http_range_kind {
    HTTP_RANGE_WHOLE, /* none, several, malformed, or If-Range says so: 200 */
    HTTP_RANGE_PART, /* 206 */
    HTTP_RANGE_UNSATISFIABLE, /* 416 */
};

struct http_range {
    uint64_t start, length;
};

/* ret_range is set for WHOLE too. */
enum http_range_kind http_range_check(const struct http_head *head, const uint8_t *bytes,
    const struct http_validators *validators, uint64_t size_bytes, struct http_range *ret_range);

#endif
