/* HTTP/1.x connections of one loop. */
#ifndef HTTP_CONNECTION_H
#define HTTP_CONNECTION_H

#include "http/exchange.h"
#include "http/date.h"
#include "net/loop.h"

/* What answers: one per kind of listener. */
struct http_service {
    void (*request)(struct exchange *x);
};

struct http_limits {
    unsigned head_ms; /* from a head's first byte to its last */
    unsigned idle_ms; /* without a request */
    unsigned body_ms; /* without a byte of a body that is wanted */
    unsigned send_ms; /* without a byte of a response leaving */
    unsigned drain_ms; /* after the last response of a connection */
    uint64_t drain_bytes;
    unsigned connections;
};

/* Written by the host's thread alone, read by others (relaxed atomics). */
struct http_counters {
    uint64_t requests[HTTP_UNKNOWN + 1][6]; /* by method and hundreds of the status */
    uint64_t received_bytes, sent_bytes;
    uint64_t accepted, open, refused;
};

struct http_out;
struct http_head_buffer;

/* Connections of one loop, and what they share. Belongs to the loop's thread. */
struct http_host {
    struct loop *loop;
    struct http_limits limits;
    struct http_counters counters;
    void *context; /* the server's */
    bool ending; /* connections close after what they are at */

    /* Owned by connection.c. */
    struct http_connection *first; /* all connections */
    unsigned count;
    struct exchange *free_exchanges;
    struct http_out *free_outs;
    struct http_head_buffer *free_heads;
    unsigned free_exchange_count, free_out_count, free_head_count;
    int64_t date_s;
    char date[HTTP_DATE_BYTES];
};

void http_host_init(
    struct http_host *host, struct loop *loop, const struct http_limits *limits, void *context);
/* When count is 0. */
void http_host_done(struct http_host *host);
/* Takes over an accepted socket. At the limit an idle connection gives way; if there is none the
   new one is told 503. */
void http_connection_open(struct http_host *host, const struct http_service *service, int fd);
/* Idle connections close, busy ones after their response. */
void http_host_end(struct http_host *host);
/* The rest is cut off. */
void http_host_cut(struct http_host *host);

static inline void http_count(uint64_t *counter, uint64_t add)
{
    __atomic_store_n(counter, *counter + add, __ATOMIC_RELAXED);
}

#endif
