/* The parsers of the HTTP side on arbitrary bytes: the head in one piece and in many, which must
   agree; what the head's fields lead to (conditions, ranges, target, query); and the rest as a
   chunked body, again in one piece and in many.

   The first byte chooses the pieces' sizes. Properties beside not crashing: spans lie inside the
   head, decoded lengths never grow, a range lies inside the object. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "http/chunked.h"
#include "http/conditions.h"
#include "http/date.h"
#include "http/head.h"
#include "http/target.h"

#define OBJECT_BYTES 1000

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

/* The sizes of pieces: from a small generator, so that an input says it all. */
static size_t next_piece(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return 1 + (*state >> 24) % 13;
}

static int parse_in_pieces(
    struct http_head *head, const uint8_t *bytes, size_t length, uint32_t state)
{
    size_t end = 0;
    int rc = 0;

    http_head_init(head);
    while (rc == 0 && end < length) {
        uint8_t *copy;

        end += next_piece(&state);
        if (end > length)
            end = length;
        /* A copy of exactly this size shows a read beyond it. */
        copy = malloc(end);
        memcpy(copy, bytes, end);
        rc = http_head_parse(head, copy, end);
        free(copy);
    }
    return rc;
}

static void check_span(const struct http_span *span, size_t length)
{
    assert((size_t)span->start + span->length <= length);
}

static void check_head(const struct http_head *head, const uint8_t *bytes, size_t length)
{
    const struct http_validators validators = {
        .etag = "0123456789abcdef0123456789abcdef", .mtime_s = 784111777};
    const uint8_t *path = bytes + head->path.start;
    uint8_t decoded[HTTP_TARGET_MAX];
    char encoded[3 * HTTP_TARGET_MAX];
    struct http_target target;
    struct http_range range;
    const uint8_t *value;
    size_t value_length;
    int rc;

    check_span(&head->path, length);
    check_span(&head->query, length);
    for (unsigned i = 0; i < head->line_count; i++) {
        check_span(&head->lines[i].name, length);
        check_span(&head->lines[i].value, length);
    }
    assert(!head->chunked || !head->has_length);
    assert(head->has_length || head->content_length == 0);
    rc = http_conditions_check(head, bytes, &validators);
    assert(rc == 0 || rc == 304 || rc == 412);
    if (http_range_check(head, bytes, &validators, OBJECT_BYTES, &range) == HTTP_RANGE_PART)
        assert(range.length > 0 && range.start < OBJECT_BYTES &&
               range.length <= OBJECT_BYTES - range.start);
    http_target_split(path, head->path.length, &target);
    assert(target.key_start + target.key_length <= head->path.length);
    assert(target.bucket_start + target.bucket_length <= head->path.length);
    rc = http_percent_decode(path, head->path.length, decoded, sizeof(decoded));
    assert(rc == -400 || (rc >= 0 && rc <= head->path.length));
    if (rc > 0) {
        size_t back = http_percent_encode(decoded, (size_t)rc, encoded);
        uint8_t again[HTTP_TARGET_MAX];

        assert(http_percent_decode((uint8_t *)encoded, back, again, sizeof(again)) == rc);
        assert(memcmp(again, decoded, (size_t)rc) == 0);
    }
    if (http_query_find(
            bytes + head->query.start, head->query.length, "prefix", &value, &value_length))
        assert(value + value_length <= bytes + head->query.start + head->query.length);
}

/* Returns the bytes taken, or -400; *ret_sum tells the body apart. */
static int64_t decode(const uint8_t *bytes, size_t length, uint32_t state, bool pieces,
    uint64_t *ret_sum, uint64_t *ret_count)
{
    struct http_chunked chunked = {0};
    size_t at = 0;

    *ret_sum = *ret_count = 0;
    while (at < length && chunked.state != CHUNK_DONE) {
        size_t part = pieces ? next_piece(&state) : length;
        const uint8_t *data;
        size_t data_length;
        int64_t taken;

        if (part > length - at)
            part = length - at;
        taken = http_chunked_take(&chunked, bytes + at, part, &data, &data_length);
        if (taken < 0)
            return taken;
        assert(taken > 0 && (size_t)taken <= part);
        assert(data >= bytes + at && data + data_length <= bytes + at + taken);
        for (size_t i = 0; i < data_length; i++)
            *ret_sum = *ret_sum * 31 + data[i];
        *ret_count += data_length;
        at += (size_t)taken;
    }
    return (int64_t)at;
}

static void check_body(const uint8_t *bytes, size_t length, uint32_t state)
{
    uint64_t sums[2], counts[2];
    int64_t whole = decode(bytes, length, state, false, &sums[0], &counts[0]);
    int64_t pieces = decode(bytes, length, state, true, &sums[1], &counts[1]);

    assert(whole == pieces);
    assert(sums[0] == sums[1] && counts[0] == counts[1]);
}

static void check_date(const uint8_t *bytes, size_t length)
{
    char text[HTTP_DATE_BYTES];
    int64_t seconds, again;

    if (http_date_parse(bytes, length, &seconds) != 0)
        return;
    http_date_format(seconds, text);
    if (http_date_parse((const uint8_t *)text, sizeof(text), &again) == 0)
        assert(seconds == again);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    static struct http_head whole, pieces;
    uint8_t *bytes;
    uint32_t state;
    int rc;

    if (size < 1)
        return 0;
    state = input[0];
    size--;
    bytes = malloc(size + 1);
    memcpy(bytes, input + 1, size);
    http_head_init(&whole);
    rc = size > 0 ? http_head_parse(&whole, bytes, size) : 0;
    if (size <= 4096) /* in pieces is quadratic, for the copies */
        assert(parse_in_pieces(&pieces, bytes, size, state) == rc);
    if (rc > 0) {
        assert((size_t)rc <= size);
        check_head(&whole, bytes, (size_t)rc);
    }
    check_body(bytes + (rc > 0 ? rc : 0), size - (size_t)(rc > 0 ? rc : 0), state);
    check_date(bytes, size);
    free(bytes);
    return 0;
}
