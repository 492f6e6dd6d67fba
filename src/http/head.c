/* Parses a request head line by line, as the bytes come.

   A line is taken when its LF is there; it must end in CRLF, and no CR, LF or NUL may stand
   anywhere else. So a broken head is refused at its first broken line and never waited for. One
   empty line before the request line is skipped (RFC 9112 section 2.2). When the empty line at the
   end comes, the rules that need the whole head follow: Host, the length of the body, Expect.

   Spans are relative to the first byte, so a caller may move the bytes between calls. Nothing is
   allocated; all limits are in head.h. */
#include "http/head.h"

#include <string.h>

/* Character classes: 1 token (RFC 9110 section 5.6.2), 2 target, 4 field value. */
enum { TOKEN = 1, TARGET = 2, VALUE = 4 };

static const uint8_t classes[256] = {
    ['\t'] = VALUE,
    [' '] = VALUE,
    ['!'] = 7,
    ['"'] = 4,
    ['#'] = 5,
    ['$'] = 7,
    ['%'] = 7,
    ['&'] = 7,
    ['\''] = 7,
    ['('] = 6,
    [')'] = 6,
    ['*'] = 7,
    ['+'] = 7,
    [','] = 6,
    ['-'] = 7,
    ['.'] = 7,
    ['/'] = 6,
    ['0' ... '9'] = 7,
    [':'] = 6,
    [';'] = 6,
    ['<'] = 4,
    ['='] = 6,
    ['>'] = 4,
    ['?'] = 6,
    ['@'] = 6,
    ['A' ... 'Z'] = 7,
    /* [ ] ^ ` { | } are no URI characters, but browsers send them as they are. */
    ['['] = 6,
    ['\\'] = 4,
    [']'] = 6,
    ['^'] = 7,
    ['_'] = 7,
    ['`'] = 7,
    ['a' ... 'z'] = 7,
    ['{'] = 6,
    ['|'] = 7,
    ['}'] = 6,
    ['~'] = 7,
    [0x80 ... 0xff] = VALUE,
};

static bool all_of(const uint8_t *bytes, size_t length, uint8_t class)
{
    for (size_t i = 0; i < length; i++) {
        if (!(classes[bytes[i]] & class))
            return false;
    }
    return true;
}

static uint8_t lower(uint8_t c)
{
    return c >= 'A' && c <= 'Z' ? c | 0x20 : c;
}

bool http_equals(const uint8_t *bytes, size_t length, const char *lower_text)
{
    for (size_t i = 0; i < length; i++) {
        if (lower(bytes[i]) != (uint8_t)lower_text[i])
            return false;
    }
    return lower_text[length] == 0;
}

static bool is_blank(uint8_t c)
{
    return c == ' ' || c == '\t';
}

bool http_list_next(
    const uint8_t *bytes, size_t length, size_t *at, size_t *ret_start, size_t *ret_length)
{
    size_t i = *at, start, end;
    bool quoted = false;

    while (i < length && (bytes[i] == ',' || is_blank(bytes[i])))
        i++;
    start = i;
    for (; i < length && (quoted || bytes[i] != ','); i++) {
        if (bytes[i] == '"')
            quoted = !quoted;
        /* No escapes: entity tags (RFC 9110 section 8.8.3) have none. */
    }
    *at = i;
    end = i;
    while (end > start && is_blank(bytes[end - 1]))
        end--;
    *ret_start = start;
    *ret_length = end - start;
    return end > start;
}

/* --- the request line --- */

static enum http_method method_of(const uint8_t *bytes, size_t length)
{
    static const struct {
        const char *name;
        enum http_method method;
    } methods[] = {
        {"GET", HTTP_GET},
        {"HEAD", HTTP_HEAD},
        {"PUT", HTTP_PUT},
        {"DELETE", HTTP_DELETE},
        {"POST", HTTP_POST},
        {"OPTIONS", HTTP_OTHER_KNOWN},
        {"PATCH", HTTP_OTHER_KNOWN},
        {"TRACE", HTTP_OTHER_KNOWN},
        {"CONNECT", HTTP_OTHER_KNOWN},
    };

    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
        if (strlen(methods[i].name) == length && memcmp(bytes, methods[i].name, length) == 0)
            return methods[i].method;
    }
    return HTTP_UNKNOWN;
}

static bool is_digit(uint8_t c)
{
    return c >= '0' && c <= '9';
}

/* HTTP/1.x; a higher minor version is answered as 1.1 (RFC 9110 section 2.5). */
static int parse_version(struct http_head *head, const uint8_t *at, size_t length)
{
    if (length != 8 || memcmp(at, "HTTP/", 5) != 0 || !is_digit(at[5]) || at[6] != '.' ||
        !is_digit(at[7]))
        return -400;
    if (at[5] != '1')
        return -505;
    head->minor_version = at[7] == '0' ? 0 : 1;
    return 0;
}

/* Where the path begins: http://host/path is as good as /path (RFC 9112 section 3.2.2). */
static int path_start(const uint8_t *target, size_t length, size_t *ret_start)
{
    size_t at = 0;

    if (length >= 7 && http_equals(target, 7, "http://"))
        at = 7;
    else if (length >= 8 && http_equals(target, 8, "https://"))
        at = 8;
    if (at > 0) {
        size_t host = at;

        while (at < length && target[at] != '/' && target[at] != '?')
            at++;
        if (at == host)
            return -400;
    }
    *ret_start = at;
    return 0;
}

static int parse_target(struct http_head *head, const uint8_t *bytes, size_t start, size_t length)
{
    const uint8_t *target = bytes + start;
    const uint8_t *question;
    size_t at, end = length;
    int rc;

    if (length > HTTP_TARGET_MAX)
        return -414;
    if (length == 0 || !all_of(target, length, TARGET))
        return -400;
    if (head->method == HTTP_OTHER_KNOWN) { /* also "*" and host:port: refused by method */
        head->path = (struct http_span){(uint16_t)start, (uint16_t)length};
        return 0;
    }
    rc = path_start(target, length, &at);
    if (rc != 0)
        return rc;
    question = memchr(target + at, '?', length - at);
    if (question != NULL) {
        end = (size_t)(question - target);
        head->query = (struct http_span){(uint16_t)(start + end + 1), (uint16_t)(length - end - 1)};
    }
    if (at > 0 && at == end) { /* http://host: the slash before it stands for the empty path */
        head->path = (struct http_span){(uint16_t)(start + 5 + (target[4] != ':')), 1};
        return 0;
    }
    if (at == end || target[at] != '/')
        return -400;
    head->path = (struct http_span){(uint16_t)(start + at), (uint16_t)(end - at)};
    return 0;
}

static int parse_request_line(
    struct http_head *head, const uint8_t *bytes, size_t start, size_t length)
{
    const uint8_t *line = bytes + start;
    const uint8_t *first = memchr(line, ' ', length);
    const uint8_t *last = memrchr(line, ' ', length);
    size_t method_length;
    int rc;

    if (first == NULL || first == last)
        return -400;
    method_length = (size_t)(first - line);
    if (method_length == 0 || !all_of(line, method_length, TOKEN))
        return -400;
    rc = parse_version(head, last + 1, (size_t)(line + length - (last + 1)));
    if (rc != 0)
        return rc;
    head->method = method_of(line, method_length);
    return parse_target(head, bytes, start + method_length + 1, (size_t)(last - first) - 1);
}

/* --- fields --- */

static enum http_field field_of(const uint8_t *name, size_t length)
{
    static const struct {
        const char *name;
        uint8_t length;
        enum http_field field;
    } fields[] = {
        {"accept", 6, HTTP_ACCEPT},
        {"authorization", 13, HTTP_AUTHORIZATION},
        {"connection", 10, HTTP_CONNECTION},
        {"content-encoding", 16, HTTP_CONTENT_ENCODING},
        {"content-length", 14, HTTP_CONTENT_LENGTH},
        {"content-range", 13, HTTP_CONTENT_RANGE},
        {"content-type", 12, HTTP_CONTENT_TYPE},
        {"expect", 6, HTTP_EXPECT},
        {"host", 4, HTTP_HOST},
        {"if-match", 8, HTTP_IF_MATCH},
        {"if-modified-since", 17, HTTP_IF_MODIFIED_SINCE},
        {"if-none-match", 13, HTTP_IF_NONE_MATCH},
        {"if-range", 8, HTTP_IF_RANGE},
        {"if-unmodified-since", 19, HTTP_IF_UNMODIFIED_SINCE},
        {"range", 5, HTTP_RANGE},
        {"transfer-encoding", 17, HTTP_TRANSFER_ENCODING},
    };

    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        if (fields[i].length == length && lower(name[0]) == (uint8_t)fields[i].name[0] &&
            http_equals(name, length, fields[i].name))
            return fields[i].field;
    }
    return HTTP_FIELD_OTHER;
}

static int parse_field(struct http_head *head, const uint8_t *bytes, size_t start, size_t length)
{
    const uint8_t *line = bytes + start;
    const uint8_t *colon = memchr(line, ':', length);
    size_t name_length, value = 0, end = length;
    struct http_line *ret_line;

    if (colon == NULL || colon == line)
        return -400;
    name_length = (size_t)(colon - line);
    /* A folded line begins with a blank, and a blank before the colon is none of a token's. */
    if (!all_of(line, name_length, TOKEN))
        return -400;
    value = name_length + 1;
    while (value < end && is_blank(line[value]))
        value++;
    while (end > value && is_blank(line[end - 1]))
        end--;
    if (!all_of(line + value, end - value, VALUE))
        return -400;
    if (head->line_count == HTTP_FIELDS_MAX)
        return -431;
    ret_line = &head->lines[head->line_count++];
    ret_line->name = (struct http_span){(uint16_t)start, (uint16_t)name_length};
    ret_line->value = (struct http_span){(uint16_t)(start + value), (uint16_t)(end - value)};
    ret_line->field = field_of(line, name_length);
    head->counts[ret_line->field]++;
    return 0;
}

const struct http_line *http_head_line(
    const struct http_head *head, enum http_field field, unsigned nth)
{
    if (head->counts[field] <= nth)
        return NULL;
    for (unsigned i = 0; i < head->line_count; i++) {
        if (head->lines[i].field == field && nth-- == 0)
            return &head->lines[i];
    }
    return NULL;
}

/* --- rules over the whole head --- */

static int check_host(const struct http_head *head, const uint8_t *bytes)
{
    const struct http_line *line = http_head_line(head, HTTP_HOST, 0);

    if (head->counts[HTTP_HOST] > 1 || (line == NULL && head->minor_version > 0))
        return -400;
    if (line == NULL)
        return 0;
    for (unsigned i = 0; i < line->value.length; i++) {
        uint8_t c = bytes[line->value.start + i];

        if (!(classes[c] & TARGET) || c == '/' || c == '?' || c == '@' || c == ',')
            return -400;
    }
    return 0;
}

static int parse_length(struct http_head *head, const uint8_t *at, size_t length)
{
    uint64_t value = 0;

    if (length == 0)
        return -400;
    for (size_t i = 0; i < length; i++) {
        if (!is_digit(at[i]) || value > (UINT64_MAX >> 1) / 10 - 1)
            return -400;
        value = value * 10 + (uint64_t)(at[i] - '0');
    }
    head->content_length = value;
    head->has_length = true;
    return 0;
}

static int check_transfer(
    struct http_head *head, const uint8_t *bytes, const struct http_line *line)
{
    const uint8_t *value = bytes + line->value.start;

    /* With a length beside it, or in 1.0, somebody else may see another message here. */
    if (head->counts[HTTP_TRANSFER_ENCODING] > 1 || head->counts[HTTP_CONTENT_LENGTH] > 0 ||
        head->minor_version == 0)
        return -400;
    if (http_equals(value, line->value.length, "chunked")) {
        head->chunked = true;
        return 0;
    }
    /* Something before chunked is a coding that isn't known here; no final chunked is an error. */
    if (line->value.length > 8 && memchr(value, ',', line->value.length) != NULL &&
        http_equals(value + line->value.length - 7, 7, "chunked") &&
        !http_equals(value, 7, "chunked"))
        return -501;
    return -400;
}

static int check_body(struct http_head *head, const uint8_t *bytes)
{
    const struct http_line *line = http_head_line(head, HTTP_TRANSFER_ENCODING, 0);

    if (line != NULL)
        return check_transfer(head, bytes, line);
    line = http_head_line(head, HTTP_CONTENT_LENGTH, 0);
    if (line == NULL)
        return 0;
    if (head->counts[HTTP_CONTENT_LENGTH] > 1)
        return -400;
    return parse_length(head, bytes + line->value.start, line->value.length);
}

static void check_connection(struct http_head *head, const uint8_t *bytes)
{
    const struct http_line *line;

    head->close = head->minor_version == 0;
    for (unsigned i = 0; (line = http_head_line(head, HTTP_CONNECTION, i)) != NULL; i++) {
        const uint8_t *value = bytes + line->value.start;
        size_t at = 0, start, length;

        while (http_list_next(value, line->value.length, &at, &start, &length)) {
            if (http_equals(value + start, length, "close"))
                head->close = true;
        }
    }
}

static int check_expect(struct http_head *head, const uint8_t *bytes)
{
    const struct http_line *line = http_head_line(head, HTTP_EXPECT, 0);

    if (line == NULL)
        return 0;
    if (head->counts[HTTP_EXPECT] > 1 ||
        !http_equals(bytes + line->value.start, line->value.length, "100-continue"))
        return -417;
    /* To a 1.0 client it says nothing (RFC 9110 section 10.1.1). */
    head->expect_continue = head->minor_version > 0;
    return 0;
}

static int check_head(struct http_head *head, const uint8_t *bytes)
{
    int rc = check_host(head, bytes);

    if (rc == 0)
        rc = check_body(head, bytes);
    if (rc == 0)
        rc = check_expect(head, bytes);
    if (rc == 0)
        check_connection(head, bytes);
    return rc;
}

/* --- lines --- */

void http_head_init(struct http_head *head)
{
    memset(head, 0, offsetof(struct http_head, lines));
    head->line_start = head->scanned = 0;
    head->in_fields = false;
}

/* 1 when it was the empty line at the end. */
static int take_line(struct http_head *head, const uint8_t *bytes, size_t start, size_t length)
{
    if (memchr(bytes + start, '\r', length) != NULL)
        return -400;
    if (head->in_fields) {
        if (length == 0)
            return 1;
        return parse_field(head, bytes, start, length);
    }
    if (length == 0)
        return start == 0 ? 0 : -400;
    head->in_fields = true;
    return parse_request_line(head, bytes, start, length);
}

/* What is too long: the target has a status of its own. */
static int too_long(const struct http_head *head)
{
    return head->in_fields ? -431 : -414;
}

int http_head_parse(struct http_head *head, const uint8_t *bytes, size_t length)
{
    size_t limit = length < HTTP_HEAD_MAX ? length : HTTP_HEAD_MAX;

    for (;;) {
        const uint8_t *lf = memchr(bytes + head->scanned, '\n', limit - head->scanned);
        size_t start = head->line_start, end;
        int rc;

        if (lf == NULL) {
            head->scanned = (uint32_t)limit;
            if (limit == HTTP_HEAD_MAX || (!head->in_fields && limit > 2 * HTTP_TARGET_MAX))
                return too_long(head);
            return 0;
        }
        end = (size_t)(lf - bytes);
        if (end == start || bytes[end - 1] != '\r')
            return -400;
        head->line_start = head->scanned = (uint32_t)end + 1;
        rc = take_line(head, bytes, start, end - 1 - start);
        if (rc < 0)
            return rc;
        if (rc > 0) {
            rc = check_head(head, bytes);
            return rc < 0 ? rc : (int)end + 1;
        }
    }
}
