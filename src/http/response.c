/* The sending half of an HTTP/1.x connection.

   Responses are written one after the other into a buffer that leaves in one send when no more
   input is at hand, so pipelined responses share it. A piece over EXCHANGE_COPY_BYTES, or one that
   does not fit, is not copied: it leaves behind the buffer in the same call, and the handler goes
   on when it is gone. While a buffer leaves the next one fills, so there are at most two.

   A send that fails ends the connection. A handler that promised more bytes than it gave has its
   connection cut, since that is the only way to tell the client. */
#include "http/connection_priv.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "os/clock.h"

#define FREE_OUTS_MAX 256

/* --- buffers --- */

struct http_out *out_take(struct http_host *host)
{
    struct http_out *out = host->free_outs;

    if (out != NULL) {
        host->free_outs = out->next_free;
        host->free_out_count--;
    } else {
        out = mem_alloc(sizeof(*out));
        if (out == NULL)
            return NULL;
    }
    out->length = 0;
    return out;
}

void out_give(struct http_host *host, struct http_out *out)
{
    if (host->free_out_count >= FREE_OUTS_MAX) {
        mem_free(out);
        return;
    }
    out->next_free = host->free_outs;
    host->free_outs = out;
    host->free_out_count++;
}

bool connection_has_room(const struct http_connection *c)
{
    return c->external == NULL &&
           (c->filling == NULL || HTTP_OUT_BYTES - c->filling->length >= EXCHANGE_HEAD_BYTES + 512);
}

void connection_append(struct http_connection *c, const void *bytes, size_t length)
{
    if (c->stream.closing)
        return;
    if (c->filling == NULL)
        c->filling = out_take(c->host);
    if (c->filling == NULL || HTTP_OUT_BYTES - c->filling->length < length) {
        connection_fail(c); /* out of memory, or a handler beyond its limit */
        return;
    }
    memcpy(c->filling->bytes + c->filling->length, bytes, length);
    c->filling->length += (uint32_t)length;
}

/* --- sending --- */

/* What left makes room; the handler may go on. */
static void left(struct http_connection *c)
{
    bool external = c->external_leaving;

    if (c->leaving != NULL)
        out_give(c->host, c->leaving);
    c->leaving = NULL;
    c->external_leaving = false;
    if (!external)
        return;
    c->external = NULL;
    c->external_length = 0;
    if (c->x != NULL && !c->stream.closing)
        c->x->events->proceed(c->x);
}

static int send_filled(struct http_connection *c)
{
    struct iovec pieces[2];
    unsigned count = 0;

    c->leaving = c->filling;
    c->filling = NULL;
    if (c->leaving != NULL)
        pieces[count++] = (struct iovec){c->leaving->bytes, c->leaving->length};
    if (c->external != NULL) {
        pieces[count++] = (struct iovec){(uint8_t *)(uintptr_t)c->external, c->external_length};
        c->external_leaving = true;
    }
    for (unsigned i = 0; i < count; i++)
        http_count(&c->host->counters.sent_bytes, pieces[i].iov_len);
    return stream_send(&c->stream, pieces, count);
}

void connection_flush(struct http_connection *c)
{
    if (c->flushing)
        return; /* the loop below goes on with what was added */
    c->flushing = true;
    while (
        !c->stream.sending && !c->stream.closing && (c->filling != NULL || c->external != NULL)) {
        int rc = send_filled(c);

        if (rc == 0)
            left(c);
        else if (rc < 0)
            connection_fail(c);
    }
    c->flushing = false;
    if (c->filling == NULL && c->external == NULL && !c->stream.sending)
        connection_sent_all(c);
    if (!c->receiving && c->phase == PHASE_IDLE && stream_has_kept(&c->stream) &&
        connection_has_room(c))
        stream_resume(&c->stream);
}

void connection_sent(struct stream *stream, int code)
{
    struct http_connection *c = (struct http_connection *)stream;

    if (code != 0) {
        connection_fail(c);
        return;
    }
    c->flushing = true; /* what the handler adds leaves below */
    left(c);
    c->flushing = false;
    connection_flush(c);
    connection_set_timer(c);
}

/* --- the head --- */

const char *http_status_text(int status)
{
    static const struct {
        int status;
        const char *text;
    } texts[] = {
        {200, "OK"},
        {201, "Created"},
        {204, "No Content"},
        {206, "Partial Content"},
        {301, "Moved Permanently"},
        {304, "Not Modified"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {408, "Request Timeout"},
        {409, "Conflict"},
        {412, "Precondition Failed"},
        {413, "Content Too Large"},
        {414, "URI Too Long"},
        {415, "Unsupported Media Type"},
        {416, "Range Not Satisfiable"},
        {417, "Expectation Failed"},
        {431, "Request Header Fields Too Large"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {503, "Service Unavailable"},
        {505, "HTTP Version Not Supported"},
        {507, "Insufficient Storage"},
    };

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (texts[i].status == status)
            return texts[i].text;
    }
    return "Unknown";
}

static void append_text(struct http_connection *c, const char *text)
{
    connection_append(c, text, strlen(text));
}

static void append_date(struct http_connection *c)
{
    struct http_host *host = c->host;
    struct clock *clock = clock_system();
    int64_t now_s = clock->wall_ns(clock) / 1000000000;

    if (now_s != host->date_s) {
        host->date_s = now_s;
        http_date_format(now_s, host->date);
    }
    append_text(c, "\r\nServer: shoal\r\nDate: ");
    connection_append(c, host->date, sizeof(host->date));
    append_text(c, "\r\n");
}

void exchange_begin(struct exchange *x, int status)
{
    struct http_connection *c = x->connection;
    char line[13] = "HTTP/1.1 000 ";

    if (c == NULL)
        return;
    x->status = status;
    line[9] = (char)('0' + status / 100);
    line[10] = (char)('0' + status / 10 % 10);
    line[11] = (char)('0' + status % 10);
    connection_append(c, line, sizeof(line));
    append_text(c, http_status_text(status));
    append_date(c);
}

void exchange_field_bytes(
    struct exchange *x, const char *name, const void *value, size_t value_length)
{
    struct http_connection *c = x->connection;

    if (c == NULL)
        return;
    append_text(c, name);
    append_text(c, ": ");
    connection_append(c, value, value_length);
    append_text(c, "\r\n");
}

void exchange_field(struct exchange *x, const char *name, const char *value)
{
    exchange_field_bytes(x, name, value, strlen(value));
}

void exchange_field_number(struct exchange *x, const char *name, uint64_t value)
{
    char digits[20];
    size_t at = sizeof(digits);

    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    exchange_field_bytes(x, name, digits + at, sizeof(digits) - at);
}

void exchange_close_after(struct exchange *x)
{
    if (x->connection != NULL)
        x->connection->keep_alive = false;
}

void exchange_body(struct exchange *x, uint64_t length)
{
    struct http_connection *c = x->connection;

    if (c == NULL)
        return;
    /* What is left of the request's body would be read as the next request. */
    if (c->body_pending || c->host->ending)
        c->keep_alive = false;
    c->no_payload = x->head.method == HTTP_HEAD || length == EXCHANGE_NO_BODY;
    c->promised_left = length;
    c->chunked_out = length == EXCHANGE_LENGTH_UNKNOWN && x->head.minor_version > 0;
    c->chunk_open = false;
    if (length == EXCHANGE_LENGTH_UNKNOWN && !c->chunked_out)
        c->keep_alive = false; /* 1.0: the end of the connection is the end of the body */
    if (c->chunked_out)
        exchange_field(x, "Transfer-Encoding", "chunked");
    else if (length < EXCHANGE_NO_BODY)
        exchange_field_number(x, "Content-Length", length);
    if (!c->keep_alive)
        exchange_field(x, "Connection", "close");
    append_text(c, "\r\n");
}

/* --- the body --- */

static void append_chunk_size(struct http_connection *c, size_t length)
{
    static const char digits[] = "0123456789abcdef";
    char line[18];
    size_t at = sizeof(line);

    line[--at] = '\n';
    line[--at] = '\r';
    do {
        line[--at] = digits[length & 15];
        length >>= 4;
    } while (length > 0);
    connection_append(c, line + at, sizeof(line) - at);
}

/* What must stay free for framing after a piece was copied. */
#define FRAMING_BYTES 128

static bool fits(const struct http_connection *c, size_t length)
{
    return length <= EXCHANGE_COPY_BYTES &&
           HTTP_OUT_BYTES - (c->filling != NULL ? c->filling->length : 0) >= length + FRAMING_BYTES;
}

/* The line break behind a chunk comes with what follows it, so that its data may leave uncopied. */
static void frame_chunk(struct http_connection *c, size_t length)
{
    if (c->chunk_open)
        append_text(c, "\r\n");
    c->chunk_open = true;
    append_chunk_size(c, length);
}

int exchange_send(struct exchange *x, const void *bytes, size_t length)
{
    struct http_connection *c = x->connection;

    if (c == NULL || c->stream.closing || c->no_payload)
        return 1;
    if (c->promised_left != EXCHANGE_LENGTH_UNKNOWN) {
        if (length > c->promised_left)
            length = (size_t)c->promised_left;
        c->promised_left -= length;
    }
    if (length == 0)
        return 1;
    if (c->chunked_out)
        frame_chunk(c, length);
    if (fits(c, length)) {
        connection_append(c, bytes, length);
        return 1;
    }
    c->external = bytes;
    c->external_length = length;
    if (!c->receiving) {
        connection_flush(c);
        connection_set_timer(c);
    }
    return 0;
}

void exchange_flush(struct exchange *x)
{
    if (x->connection != NULL && !x->connection->receiving)
        connection_flush(x->connection);
}

void exchange_finish(struct exchange *x)
{
    struct http_connection *c = x->connection;
    unsigned hundreds;

    if (c == NULL)
        return;
    if (c->chunked_out && !c->no_payload)
        append_text(c, c->chunk_open ? "\r\n0\r\n\r\n" : "0\r\n\r\n");
    hundreds = (unsigned)x->status / 100;
    http_count(&c->host->counters.requests[x->head.method][hundreds < 6 ? hundreds : 5], 1);
    if (!c->no_payload && c->promised_left != 0 && c->promised_left != EXCHANGE_LENGTH_UNKNOWN)
        connection_fail(c);
    else
        connection_finished(c);
}

void exchange_cut(struct exchange *x)
{
    if (x->connection != NULL)
        connection_fail(x->connection);
}

void exchange_reply(struct exchange *x, int status, const char *text)
{
    size_t length = strlen(text);

    exchange_begin(x, status);
    exchange_field(x, "Content-Type", "text/plain; charset=utf-8");
    exchange_body(x, length + 1);
    if (length > EXCHANGE_COPY_BYTES - 1)
        length = EXCHANGE_COPY_BYTES - 1;
    (void)exchange_send(x, text, length); /* small enough to be copied */
    (void)exchange_send(x, "\n", 1);
    exchange_finish(x);
}
