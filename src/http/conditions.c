/* Evaluates the conditional fields in the order of RFC 9110 section 13.2.2, then the range.

   Dates that can't be read are as good as absent. If-None-Match compares weakly, If-Match and
   If-Range strongly: a tag with W/ never matches there. A date in If-Range must be exactly the last
   modification. Several ranges are answered with the whole, which is always allowed. */
#include "http/conditions.h"

#include <string.h>

#include "http/date.h"

static bool tag_matches(
    const uint8_t *tag, size_t length, const struct http_validators *validators, bool weak)
{
    if (length >= 2 && tag[0] == 'W' && tag[1] == '/') {
        if (!weak)
            return false;
        tag += 2;
        length -= 2;
    }
    return length == sizeof(validators->etag) + 2 && tag[0] == '"' && tag[length - 1] == '"' &&
           memcmp(tag + 1, validators->etag, sizeof(validators->etag)) == 0;
}

/* Over all lines of the field. */
static bool any_tag_matches(const struct http_head *head, const uint8_t *bytes,
    enum http_field field, const struct http_validators *validators, bool weak)
{
    const struct http_line *line;

    for (unsigned i = 0; (line = http_head_line(head, field, i)) != NULL; i++) {
        const uint8_t *value = bytes + line->value.start;
        size_t at = 0, start, length;

        while (http_list_next(value, line->value.length, &at, &start, &length)) {
            if (length == 1 && value[start] == '*')
                return true;
            if (tag_matches(value + start, length, validators, weak))
                return true;
        }
    }
    return false;
}

/* True if the field is there once and is a date. */
static bool date_of(
    const struct http_head *head, const uint8_t *bytes, enum http_field field, int64_t *ret_seconds)
{
    const struct http_line *line = http_head_line(head, field, 0);

    return line != NULL && head->counts[field] == 1 &&
           http_date_parse(bytes + line->value.start, line->value.length, ret_seconds) == 0;
}

int http_conditions_check(
    const struct http_head *head, const uint8_t *bytes, const struct http_validators *validators)
{
    int64_t seconds;

    if (head->counts[HTTP_IF_MATCH] > 0) {
        if (!any_tag_matches(head, bytes, HTTP_IF_MATCH, validators, false))
            return 412;
    } else if (date_of(head, bytes, HTTP_IF_UNMODIFIED_SINCE, &seconds)) {
        if (validators->mtime_s > seconds)
            return 412;
    }
    if (head->counts[HTTP_IF_NONE_MATCH] > 0) {
        if (any_tag_matches(head, bytes, HTTP_IF_NONE_MATCH, validators, true))
            return 304;
    } else if (date_of(head, bytes, HTTP_IF_MODIFIED_SINCE, &seconds)) {
        if (validators->mtime_s <= seconds)
            return 304;
    }
    return 0;
}

/* --- ranges --- */

/* Digits up to the end or the stop; saturates. False if there are none. */
static bool take_number(const uint8_t **at, const uint8_t *end, uint64_t *ret_value)
{
    uint64_t value = 0;
    const uint8_t *start = *at;

    for (; *at < end && **at >= '0' && **at <= '9'; (*at)++) {
        uint64_t digit = (uint64_t)(**at - '0');

        value = value > (UINT64_MAX - digit) / 10 ? UINT64_MAX : value * 10 + digit;
    }
    *ret_value = value;
    return *at > start;
}

static enum http_range_kind suffix_range(
    uint64_t count, uint64_t size_bytes, struct http_range *ret_range)
{
    if (count == 0 || size_bytes == 0)
        return HTTP_RANGE_UNSATISFIABLE;
    if (count > size_bytes)
        count = size_bytes;
    ret_range->start = size_bytes - count;
    ret_range->length = count;
    return HTTP_RANGE_PART;
}

static enum http_range_kind parse_range(
    const uint8_t *at, size_t length, uint64_t size_bytes, struct http_range *ret_range)
{
    const uint8_t *end = at + length;
    uint64_t first, last = UINT64_MAX;
    bool has_first;

    if (length < 7 || !http_equals(at, 6, "bytes="))
        return HTTP_RANGE_WHOLE;
    at += 6;
    has_first = take_number(&at, end, &first);
    if (at == end || *at != '-')
        return HTTP_RANGE_WHOLE;
    at++;
    if (!take_number(&at, end, &last)) {
        if (!has_first)
            return HTTP_RANGE_WHOLE;
        last = UINT64_MAX;
    }
    if (at != end)
        return HTTP_RANGE_WHOLE;
    if (!has_first)
        return suffix_range(last, size_bytes, ret_range);
    if (last < first)
        return HTTP_RANGE_WHOLE;
    if (first >= size_bytes)
        return HTTP_RANGE_UNSATISFIABLE;
    ret_range->start = first;
    ret_range->length = (last >= size_bytes ? size_bytes - 1 : last) - first + 1;
    return HTTP_RANGE_PART;
}

/* Whether If-Range allows a part. */
static bool range_is_current(
    const struct http_head *head, const uint8_t *bytes, const struct http_validators *validators)
{
    const struct http_line *line = http_head_line(head, HTTP_IF_RANGE, 0);
    const uint8_t *value;
    int64_t seconds;

    if (line == NULL)
        return true;
    if (head->counts[HTTP_IF_RANGE] > 1)
        return false;
    value = bytes + line->value.start;
    if (http_date_parse(value, line->value.length, &seconds) == 0)
        return seconds == validators->mtime_s;
    return tag_matches(value, line->value.length, validators, false);
}

enum http_range_kind http_range_check(const struct http_head *head, const uint8_t *bytes,
    const struct http_validators *validators, uint64_t size_bytes, struct http_range *ret_range)
{
    const struct http_line *line = http_head_line(head, HTTP_RANGE, 0);

    ret_range->start = 0;
    ret_range->length = size_bytes;
    if (line == NULL || head->method != HTTP_GET || head->counts[HTTP_RANGE] > 1)
        return HTTP_RANGE_WHOLE;
    if (!range_is_current(head, bytes, validators))
        return HTTP_RANGE_WHOLE;
    return parse_range(bytes + line->value.start, line->value.length, size_bytes, ret_range);
}
