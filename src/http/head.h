/* The head of an HTTP/1.x request, parsed strictly and piece by piece.

   Sources: RFC 9110 (semantics), RFC 9112 (syntax). What a lenient parser would have to guess is
   refused: guesses that differ between a proxy and a server are how requests get smuggled. */
#ifndef HTTP_HEAD_H
#define HTTP_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HTTP_HEAD_MAX   (32u << 10) /* bytes of a head; beyond: 431 */
#define HTTP_TARGET_MAX (8u << 10) /* bytes of a request target; beyond: 414 */
#define HTTP_FIELDS_MAX 100 /* fields; beyond: 431 */

enum http_method {
    HTTP_GET,
    HTTP_HEAD,
    HTTP_PUT,
    HTTP_DELETE,
    HTTP_POST,
    HTTP_OTHER_KNOWN, /* OPTIONS, PATCH, TRACE, CONNECT: 405 */
    HTTP_UNKNOWN, /* 501 */
};

/* Fields that something here looks at. */
enum http_field {
    HTTP_FIELD_OTHER,
    HTTP_ACCEPT,
    HTTP_AUTHORIZATION,
    HTTP_CONNECTION,
    HTTP_CONTENT_ENCODING,
    HTTP_CONTENT_LENGTH,
    HTTP_CONTENT_RANGE,
    HTTP_CONTENT_TYPE,
    HTTP_EXPECT,
    HTTP_HOST,
    HTTP_IF_MATCH,
    HTTP_IF_MODIFIED_SINCE,
    HTTP_IF_NONE_MATCH,
    HTTP_IF_RANGE,
    HTTP_IF_UNMODIFIED_SINCE,
    HTTP_RANGE,
    HTTP_TRANSFER_ENCODING,
    HTTP_FIELD_COUNT,
};

/* Bytes of the head, by place, so that a head can be moved. */
struct http_span {
    uint16_t start, length;
};

struct http_line {
    struct http_span name, value; /* value without the white space around it */
    enum http_field field;
};

struct http_head {
    enum http_method method;
    uint8_t minor_version;
    bool close; /* the connection ends after this request */
    bool chunked, has_length;
    bool expect_continue;
    uint64_t content_length; /* 0 without a body */
    struct http_span path; /* as sent, begins with '/' (or is "*") */
    struct http_span query; /* as sent, without '?' */
    unsigned line_count;
    uint8_t counts[HTTP_FIELD_COUNT]; /* how often each field occurs */
    struct http_line lines[HTTP_FIELDS_MAX];

    /* Owned by head.c: where parsing goes on. */
    uint32_t line_start, scanned;
    bool in_fields;
};

void http_head_init(struct http_head *head);

/* bytes is the head from its first byte on, as far as it has come; call again with more. 0: not
   complete; the head's length when it is; or a negative HTTP status (-400, -414, -417, -431, -501,
   -505): nothing after it can be trusted. No allocation. */
int http_head_parse(struct http_head *head, const uint8_t *bytes, size_t length);

/* The nth line of a field, NULL if there is none. */
const struct http_line *http_head_line(
    const struct http_head *head, enum http_field field, unsigned nth);

/* Case-insensitive comparison of bytes with a lower-case text. */
bool http_equals(const uint8_t *bytes, size_t length, const char *lower_text);
/* Walks a comma-separated list: true and the next element (never empty, without white space), which
   advances *at; commas inside quoted strings do not count. */
bool http_list_next(
    const uint8_t *bytes, size_t length, size_t *at, size_t *ret_start, size_t *ret_length);

#endif
