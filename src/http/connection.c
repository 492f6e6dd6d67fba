/* The receiving half of an HTTP/1.x connection: heads, bodies, timeouts, and its end.

   Bytes are parsed where they were received. Only a head that comes in pieces, or one whose request
   outlasts the callback, is copied into a buffer from the host's pool; an idle connection has
   neither buffer nor exchange. Requests of one connection are handled one after the other: while
   one is busy, what follows stays with the stream.

   A connection ends in order: the last response leaves, the sending side is shut down, and what the
   client still sends is thrown away up to a limit, so that it can read the answer (an early error
   above all). It is cut instead when a response can't be completed. An exchange is stopped only
   when the stream has let go, because the kernel may still read the memory of a piece. */
#include "http/connection_priv.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"

#define FREE_EXCHANGES_MAX 512
#define FREE_HEADS_MAX     64
#define END_DRAIN_MS       500 /* when the server stops, a client has no more to read its answer */

/* --- what the host shares --- */

void http_host_init(
    struct http_host *host, struct loop *loop, const struct http_limits *limits, void *context)
{
    memset(host, 0, sizeof(*host));
    host->loop = loop;
    host->limits = *limits;
    host->context = context;
    host->date_s = INT64_MIN;
}

void http_host_done(struct http_host *host)
{
    struct http_out *out;
    struct exchange *x;
    struct http_head_buffer *head;

    while ((out = host->free_outs) != NULL) {
        host->free_outs = out->next_free;
        mem_free(out);
    }
    while ((x = host->free_exchanges) != NULL) {
        host->free_exchanges = x->next_free;
        mem_free(x);
    }
    while ((head = host->free_heads) != NULL) {
        host->free_heads = head->next_free;
        mem_free(head);
    }
}

static struct exchange *take_exchange(struct http_host *host)
{
    struct exchange *x = host->free_exchanges;

    if (x != NULL) {
        host->free_exchanges = x->next_free;
        host->free_exchange_count--;
    } else {
        x = mem_alloc(sizeof(*x));
        if (x == NULL)
            return NULL;
        x->host = host;
    }
    http_head_init(&x->head);
    x->events = NULL;
    x->references = 1;
    x->status = 0;
    return x;
}

void exchange_hold(struct exchange *x)
{
    x->references++;
}

void exchange_release(struct exchange *x)
{
    struct http_host *host = x->host;

    if (--x->references > 0)
        return;
    if (host->free_exchange_count >= FREE_EXCHANGES_MAX) {
        mem_free(x);
        return;
    }
    x->next_free = host->free_exchanges;
    host->free_exchanges = x;
    host->free_exchange_count++;
}

bool exchange_is_gone(const struct exchange *x)
{
    return x->connection == NULL || x->connection->stream.closing;
}

static struct http_head_buffer *take_head_buffer(struct http_host *host)
{
    struct http_head_buffer *head = host->free_heads;

    if (head != NULL) {
        host->free_heads = head->next_free;
        host->free_head_count--;
    } else {
        head = mem_alloc(sizeof(*head));
    }
    if (head != NULL)
        head->length = 0;
    return head;
}

static void drop_head_buffer(struct http_connection *c)
{
    struct http_head_buffer *head = c->head_buffer;

    c->head_buffer = NULL;
    if (head == NULL)
        return;
    if (c->host->free_head_count >= FREE_HEADS_MAX) {
        mem_free(head);
        return;
    }
    head->next_free = c->host->free_heads;
    c->host->free_heads = head;
    c->host->free_head_count++;
}

/* --- timeouts --- */

static enum timer_kind wanted_timer(const struct http_connection *c)
{
    if (c->draining)
        return TIMER_DRAIN;
    if (c->stream.sending)
        return TIMER_SEND;
    switch (c->phase) {
    case PHASE_IDLE:
        return TIMER_IDLE;
    case PHASE_HEAD:
        return TIMER_HEAD;
    case PHASE_BUSY:
        return c->body_pending && c->body_room > 0 ? TIMER_BODY : TIMER_NONE;
    default:
        return TIMER_NONE;
    }
}

static unsigned timer_ms(const struct http_host *host, enum timer_kind kind)
{
    const struct http_limits *limits = &host->limits;

    switch (kind) {
    case TIMER_IDLE:
        return limits->idle_ms;
    case TIMER_HEAD:
        return limits->head_ms;
    case TIMER_BODY:
        return limits->body_ms;
    case TIMER_SEND:
        return limits->send_ms;
    default:
        return host->ending && limits->drain_ms > END_DRAIN_MS ? END_DRAIN_MS : limits->drain_ms;
    }
}

void connection_set_timer(struct http_connection *c)
{
    enum timer_kind kind;

    if (c->stream.closing)
        return;
    kind = wanted_timer(c);
    /* A head and a drain have a time for the whole, the others one for each step. */
    if (kind == c->timer_kind && (kind == TIMER_HEAD || kind == TIMER_DRAIN))
        return;
    c->timer_kind = kind;
    if (kind == TIMER_NONE)
        loop_timer_cancel(&c->timer);
    else
        loop_timer_set(c->host->loop, &c->timer, timer_ms(c->host, kind));
}

/* --- the end of a request --- */

void connection_fail(struct http_connection *c)
{
    loop_timer_cancel(&c->timer);
    stream_close(&c->stream);
}

void connection_finished(struct http_connection *c)
{
    struct exchange *x = c->x;

    c->x = NULL;
    x->connection = NULL;
    exchange_release(x);
    drop_head_buffer(c);
    c->phase = c->keep_alive && !c->peer_ended ? PHASE_IDLE : PHASE_ENDED;
    c->body_pending = false;
    c->body_room = 0;
    if (c->receiving || c->flushing)
        return; /* they go on below us */
    connection_flush(c);
    connection_set_timer(c);
}

void connection_sent_all(struct http_connection *c)
{
    if (c->stream.closing || c->draining)
        return;
    if (c->phase == PHASE_ENDED && !c->peer_ended) {
        c->draining = true;
        stream_drain(&c->stream, c->host->limits.drain_bytes);
        connection_set_timer(c);
    } else if (c->phase == PHASE_ENDED || (c->phase == PHASE_IDLE && c->host->ending)) {
        connection_fail(c);
    }
}

/* Refuses the request at hand, and with it the connection: its framing can't be trusted. */
static void refuse(struct http_connection *c, int status)
{
    struct exchange *x = c->x;

    if (x->events != NULL) {
        const struct exchange_events *events = x->events;

        x->events = NULL;
        events->stop(x);
    }
    c->keep_alive = false;
    exchange_reply(x, status, http_status_text(status));
}

/* --- heads --- */

static bool keep_head(struct http_connection *c, const uint8_t *bytes, size_t length)
{
    if (c->head_buffer == NULL)
        c->head_buffer = take_head_buffer(c->host);
    if (c->head_buffer == NULL)
        return false;
    memcpy(c->head_buffer->bytes + c->head_buffer->length, bytes, length);
    c->head_buffer->length += (uint32_t)length;
    return true;
}

static void begin_request(struct http_connection *c, const uint8_t *bytes, size_t head_length)
{
    struct exchange *x = c->x;

    x->head_bytes = bytes;
    c->phase = PHASE_BUSY;
    c->keep_alive = !x->head.close;
    c->body_left = x->head.content_length;
    c->body_pending = x->head.chunked || c->body_left > 0;
    c->continue_wanted = x->head.expect_continue && c->body_pending;
    memset(&c->chunked, 0, sizeof(c->chunked));
    c->service->request(x);
    if (c->x != x || c->head_buffer != NULL || c->stream.closing)
        return;
    /* It goes on after the bytes were taken back. */
    if (!keep_head(c, bytes, head_length))
        connection_fail(c);
    else
        x->head_bytes = c->head_buffer->bytes;
}

/* Parses what is there of a head; returns how many of the new bytes belong to it. */
static size_t take_head(struct http_connection *c, const uint8_t *bytes, size_t length)
{
    size_t before = c->head_buffer != NULL ? c->head_buffer->length : 0;
    int rc;

    if (c->x == NULL) {
        c->x = take_exchange(c->host);
        if (c->x == NULL) {
            connection_fail(c);
            return length;
        }
        c->x->connection = c;
        c->phase = PHASE_HEAD;
    }
    if (before > 0) {
        if (length > HTTP_HEAD_MAX - before)
            length = HTTP_HEAD_MAX - before;
        (void)keep_head(c, bytes, length); /* the buffer is there already */
        bytes = c->head_buffer->bytes;
    }
    rc = http_head_parse(&c->x->head, bytes, before + length);
    if (rc < 0) {
        refuse(c, -rc);
        return length;
    }
    if (rc > 0) {
        begin_request(c, bytes, (size_t)rc);
        return (size_t)rc - before;
    }
    if (before == 0 && !keep_head(c, bytes, length))
        connection_fail(c);
    return length;
}

/* --- bodies --- */

static void give_body(struct http_connection *c, const uint8_t *bytes, size_t length, bool last)
{
    c->continue_wanted = false;
    c->body_room -= length;
    if (last)
        c->body_pending = false;
    if (length > 0 || last)
        c->x->events->body(c->x, bytes, length, last);
}

static size_t take_body(struct http_connection *c, const uint8_t *bytes, size_t length)
{
    const uint8_t *data;
    size_t data_length;
    int64_t taken;

    if (length > c->body_room)
        length = c->body_room;
    if (!c->x->head.chunked) {
        if (length > c->body_left)
            length = (size_t)c->body_left;
        c->body_left -= length;
        give_body(c, bytes, length, c->body_left == 0);
        return length;
    }
    taken = http_chunked_take(&c->chunked, bytes, length, &data, &data_length);
    if (taken < 0) {
        refuse(c, 400);
        return length;
    }
    give_body(c, data, data_length, c->chunked.state == CHUNK_DONE);
    return (size_t)taken;
}

void exchange_want_body(struct exchange *x, size_t room)
{
    static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
    struct http_connection *c = x->connection;

    if (c == NULL || c->stream.closing)
        return;
    c->body_room = room;
    if (room > 0 && c->continue_wanted && !stream_has_kept(&c->stream)) {
        connection_append(c, go_on, sizeof(go_on) - 1);
        c->continue_wanted = false;
    }
    if (room == 0 || c->receiving)
        return;
    connection_flush(c);
    if (stream_has_kept(&c->stream))
        stream_resume(&c->stream);
    connection_set_timer(c);
}

bool exchange_has_body(const struct exchange *x)
{
    return x->head.chunked || x->head.content_length > 0;
}

const uint8_t *exchange_request_field(
    const struct exchange *x, enum http_field field, size_t *ret_length)
{
    const struct http_line *line = http_head_line(&x->head, field, 0);

    if (line == NULL || x->head.counts[field] != 1)
        return NULL;
    *ret_length = line->value.length;
    return x->head_bytes + line->value.start;
}

/* --- the stream's events --- */

static size_t take(struct http_connection *c, const uint8_t *bytes, size_t length)
{
    if (c->phase == PHASE_IDLE || c->phase == PHASE_HEAD)
        return connection_has_room(c) ? take_head(c, bytes, length) : 0;
    if (c->phase == PHASE_BUSY && c->body_pending && c->body_room > 0)
        return take_body(c, bytes, length);
    return 0;
}

static size_t received(struct stream *stream, const uint8_t *bytes, size_t length)
{
    struct http_connection *c = (struct http_connection *)stream;
    size_t at = 0, taken;

    http_count(&c->host->counters.received_bytes, length);
    c->receiving = true;
    do {
        taken = 0;
        while (at < length && !stream->closing && !c->draining) {
            taken = take(c, bytes + at, length - at);
            if (taken == 0)
                break;
            at += taken;
        }
        connection_flush(c);
        /* What was sent at once may have made room or ended a request. */
    } while (at < length && !stream->closing && !c->draining && !stream->sending &&
             (c->phase == PHASE_IDLE ||
                 (c->phase == PHASE_BUSY && c->body_pending && c->body_room > 0)));
    c->receiving = false;
    connection_set_timer(c);
    return at;
}

static void ended(struct stream *stream, int code)
{
    struct http_connection *c = (struct http_connection *)stream;

    c->peer_ended = true;
    if (code < 0 || c->draining || c->phase == PHASE_HEAD ||
        (c->phase == PHASE_BUSY && c->body_pending)) {
        connection_fail(c);
        return;
    }
    /* A request that came in full is answered; then it is over. */
    c->keep_alive = false;
    if (c->phase == PHASE_IDLE) {
        c->phase = PHASE_ENDED;
        connection_flush(c);
    }
}

static void progress(struct stream *stream)
{
    connection_set_timer((struct http_connection *)stream);
}

static void closed(struct stream *stream)
{
    struct http_connection *c = (struct http_connection *)stream;
    struct http_host *host = c->host;
    struct exchange *x = c->x;

    loop_timer_done(&c->timer);
    if (x != NULL) {
        x->connection = NULL;
        if (x->events != NULL)
            x->events->stop(x);
        exchange_release(x);
    }
    if (c->filling != NULL)
        out_give(host, c->filling);
    if (c->leaving != NULL)
        out_give(host, c->leaving);
    drop_head_buffer(c);
    if (c->previous != NULL)
        c->previous->next = c->next;
    else
        host->first = c->next;
    if (c->next != NULL)
        c->next->previous = c->previous;
    host->count--;
    http_count(&host->counters.open, (uint64_t)-1);
    mem_free(c);
}

static void timed_out(struct loop_timer *timer)
{
    struct http_connection *c =
        (struct http_connection *)((uint8_t *)timer - offsetof(struct http_connection, timer));

    if (c->stream.closing)
        return;
    if ((c->timer_kind == TIMER_HEAD || c->timer_kind == TIMER_BODY) && c->x->status == 0)
        refuse(c, 408);
    else
        connection_fail(c);
}

/* --- opening and ending --- */

static const struct stream_events events = {
    .received = received,
    .ended = ended,
    .progress = progress,
    .sent = connection_sent,
    .closed = closed,
};

/* True if an idle connection was found and closed. */
static bool make_way(struct http_host *host)
{
    for (struct http_connection *c = host->first; c != NULL; c = c->next) {
        if (c->phase == PHASE_IDLE && !c->stream.closing && !c->stream.sending &&
            c->filling == NULL) {
            connection_fail(c);
            return true;
        }
    }
    return false;
}

static void turn_away(struct http_host *host, int fd)
{
    static const char busy[] =
        "HTTP/1.1 503 Service Unavailable\r\nServer: shoal\r\nContent-Type: text/plain\r\n"
        "Content-Length: 21\r\nConnection: close\r\n\r\ntoo many connections\n";

    http_count(&host->counters.refused, 1);
    /* Best effort: nothing was read, so the peer may see a reset instead. */
    (void)!send(fd, busy, sizeof(busy) - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)shutdown(fd, SHUT_WR);
    close(fd);
}

void http_connection_open(struct http_host *host, const struct http_service *service, int fd)
{
    struct http_connection *c;

    http_count(&host->counters.accepted, 1);
    if (host->ending || (host->count >= host->limits.connections && !make_way(host))) {
        turn_away(host, fd);
        return;
    }
    c = mem_zero(1, sizeof(*c));
    if (c == NULL) {
        turn_away(host, fd);
        return;
    }
    c->host = host;
    c->service = service;
    c->timer.fire = timed_out;
    if (stream_open(host->loop, &c->stream, fd, &events) != 0) {
        turn_away(host, fd);
        mem_free(c);
        return;
    }
    c->next = host->first;
    if (c->next != NULL)
        c->next->previous = c;
    host->first = c;
    host->count++;
    http_count(&host->counters.open, 1);
    connection_set_timer(c);
}

void http_host_end(struct http_host *host)
{
    host->ending = true;
    for (struct http_connection *c = host->first; c != NULL; c = c->next) {
        bool idle = c->phase == PHASE_IDLE && !c->stream.sending && c->filling == NULL;

        c->keep_alive = false;
        if (idle || c->phase == PHASE_HEAD)
            connection_fail(c);
        else if (c->draining)
            loop_timer_set(host->loop, &c->timer, timer_ms(host, TIMER_DRAIN));
    }
}

void http_host_cut(struct http_host *host)
{
    for (struct http_connection *c = host->first; c != NULL; c = c->next)
        connection_fail(c);
}
