/* What connection.c (receiving, timeouts, closing) and response.c (sending) share. */
#ifndef HTTP_CONNECTION_PRIV_H
#define HTTP_CONNECTION_PRIV_H

#include "http/chunked.h"
#include "http/connection.h"
#include "net/stream.h"

#define HTTP_OUT_BYTES ((32u << 10) - 64)

/* Responses on their way into one send. */
struct http_out {
    struct http_out *next_free;
    uint32_t length;
    uint8_t bytes[HTTP_OUT_BYTES];
};

/* A head that came in pieces, or whose request takes longer than the callback it came in. */
struct http_head_buffer {
    struct http_head_buffer *next_free;
    uint32_t length;
    uint8_t bytes[HTTP_HEAD_MAX];
};

enum connection_phase {
    PHASE_IDLE, /* between requests */
    PHASE_HEAD, /* part of a head has come */
    PHASE_BUSY, /* the handler has it */
    PHASE_ENDED, /* no more requests: the last response leaves, then draining */
};

enum timer_kind { TIMER_NONE, TIMER_IDLE, TIMER_HEAD, TIMER_BODY, TIMER_SEND, TIMER_DRAIN };

struct http_connection {
    struct stream stream; /* first */
    struct loop_timer timer;
    struct http_host *host;
    const struct http_service *service;
    struct http_connection *previous, *next;
    struct exchange *x;
    struct http_head_buffer *head_buffer;
    struct http_out *filling, *leaving;
    const uint8_t *external; /* a piece that is not copied; leaves after filling */
    size_t external_length;
    uint64_t body_left; /* of the request */
    uint64_t promised_left; /* of the response */
    struct http_chunked chunked;
    enum connection_phase phase;
    enum timer_kind timer_kind;
    size_t body_room; /* how much of it the handler wants */
    bool body_pending, continue_wanted;
    bool keep_alive, no_payload, chunked_out, chunk_open;
    bool external_leaving;
    bool receiving, flushing;
    bool peer_ended, draining;
};

/* connection.c */
void connection_fail(struct http_connection *c);
void connection_finished(struct http_connection *c);
void connection_set_timer(struct http_connection *c);
/* Bytes were sent, or nothing is left to send. */
void connection_sent_all(struct http_connection *c);

/* response.c */
struct http_out *out_take(struct http_host *host);
void out_give(struct http_host *host, struct http_out *out);
void connection_append(struct http_connection *c, const void *bytes, size_t length);
bool connection_has_room(const struct http_connection *c);
void connection_flush(struct http_connection *c);
void connection_sent(struct stream *stream, int code);

#endif
