/* One request and its response, as handlers see them: nothing here depends on HTTP/1.1's framing.

   A handler is called with the complete head. It answers at once, or asks for the body, or holds
   the exchange while something is under way elsewhere:

       exchange_begin(x, 200);
       exchange_field(x, "Content-Type", "image/jpeg");
       exchange_body(x, size);
       while (exchange_send(x, piece, length) == 1 && more) … // 0: goes on in events->proceed
       exchange_finish(x);

   All calls are for the thread of the connection's loop. When the client is gone, events->stop is
   called instead of anything else, and the calls below do nothing; the struct lives on while it is
   held. */
#ifndef HTTP_EXCHANGE_H
#define HTTP_EXCHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "http/head.h"

struct exchange;
struct http_connection;
struct http_host;

struct exchange_events {
    /* Bytes of the request's body, never more than was asked for; last: no more come (length may
       be 0 then). */
    void (*body)(struct exchange *x, const uint8_t *bytes, size_t length, bool last);
    /* The piece given to exchange_send has left: its memory is free. */
    void (*proceed)(struct exchange *x);
    /* The client is gone or its body was broken: let go of everything. Last call. */
    void (*stop)(struct exchange *x);
};

/* Room for the handler's own state, which needs no allocation that way. */
#define EXCHANGE_STATE_BYTES 4096
/* Bodies up to this are copied and leave with the head, and with the responses around them. */
#define EXCHANGE_COPY_BYTES (16u << 10)
/* All fields of a response together. */
#define EXCHANGE_HEAD_BYTES (12u << 10)

struct exchange {
    struct http_head head;
    const uint8_t *head_bytes; /* what head's spans are relative to */
    struct http_host *host;
    const struct exchange_events *events; /* set by the handler before it returns unfinished */

    /* Owned by connection.c. */
    struct http_connection *connection; /* NULL: gone, or finished */
    struct exchange *next_free;
    unsigned references;
    int status; /* 0: not answered yet */
    _Alignas(16) uint8_t state[EXCHANGE_STATE_BYTES];
};

/* --- the request --- */

/* The only line of a field; NULL if it is absent. ret_length may not be NULL. */
const uint8_t *exchange_request_field(
    const struct exchange *x, enum http_field field, size_t *ret_length);
bool exchange_has_body(const struct exchange *x);
/* Asks events->body for up to so many bytes in all (0: none for now). The first time tells a client
   that waits for it to go on. */
void exchange_want_body(struct exchange *x, size_t room);

/* --- the response --- */

void exchange_begin(struct exchange *x, int status);
void exchange_field(struct exchange *x, const char *name, const char *value);
void exchange_field_bytes(
    struct exchange *x, const char *name, const void *value, size_t value_length);
void exchange_field_number(struct exchange *x, const char *name, uint64_t value);
/* The connection ends after this response. Before exchange_body. */
void exchange_close_after(struct exchange *x);
#define EXCHANGE_LENGTH_UNKNOWN UINT64_MAX
/* No body at all, not even a length of 0: 204 and 304. */
#define EXCHANGE_NO_BODY (UINT64_MAX - 1)
/* Ends the head. The length is also what HEAD tells. */
void exchange_body(struct exchange *x, uint64_t length);
/* 1: done with the bytes, go on; 0: they must stay until events->proceed (or stop). */
int exchange_send(struct exchange *x, const void *bytes, size_t length);
/* What was copied so far leaves now rather than with what follows. */
void exchange_flush(struct exchange *x);
/* The response is complete; the handler's part ends here. Fewer bytes than promised cut the
   connection, so that the client notices. */
void exchange_finish(struct exchange *x);
/* Cuts the connection. stop follows, later. */
void exchange_cut(struct exchange *x);
/* A whole response with one line of text. */
void exchange_reply(struct exchange *x, int status, const char *text);
const char *http_status_text(int status);

/* --- life --- */

void exchange_hold(struct exchange *x);
void exchange_release(struct exchange *x);
bool exchange_is_gone(const struct exchange *x);

#endif
