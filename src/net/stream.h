/* A connected socket on a loop.

   Received bytes are lent to the owner for the time of the callback, so that an idle connection has
   no buffer; what the owner does not take is kept by the stream, which stops receiving until
   stream_resume. One send at a time. */
#ifndef NET_STREAM_H
#define NET_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>

struct loop;
struct stream;

/* Kept bytes beyond this stop the kernel from delivering more; what was on its way still comes. */
#define STREAM_KEEP_BYTES (64u << 10)
/* More than this can't be on its way: the stream is broken off. */
#define STREAM_KEEP_MAX (4u << 20)
#define STREAM_PIECES   2

struct stream_events {
    /* Returns how many bytes it took; less than length: the rest is offered after stream_resume. */
    size_t (*received)(struct stream *stream, const uint8_t *bytes, size_t length);
    /* The peer will send no more (0), or the connection failed (-errno). Once. */
    void (*ended)(struct stream *stream, int code);
    /* Some bytes left (more of this send follow): progress, for timeouts. */
    void (*progress)(struct stream *stream);
    /* All of stream_send's bytes left, or -errno. Only after it returned 1. */
    void (*sent)(struct stream *stream, int code);
    /* After stream_close: the loop has let go, the memory may be freed. */
    void (*closed)(struct stream *stream);
};

struct stream {
    const struct stream_events *events;
    struct loop *loop;
    int fd;
    bool receiving; /* the owner wants bytes: not paused */
    bool recv_armed; /* the loop has a receive under way */
    bool recv_stopping;
    bool send_armed; /* the kernel holds the pieces */
    bool delivering; /* inside received */
    bool sending, draining, closing;
    bool end_seen, end_told;
    int end_code;
    bool epoll_added;
    uint32_t epoll_events;
    unsigned large_sends;
    uint64_t drain_left_bytes;
    uint8_t *kept;
    size_t kept_start, kept_end, kept_capacity;
    struct iovec pieces[STREAM_PIECES];
    unsigned piece_count;
    struct msghdr message;
    struct stream *next_closing, *next_starved;
    bool starved;
};

/* Takes over fd and begins to receive. On failure fd is still the caller's. */
int stream_open(
    struct loop *loop, struct stream *stream, int fd, const struct stream_events *events);
/* Offers kept bytes again and goes on receiving. Inside received: after it returned. */
void stream_resume(struct stream *stream);
/* Whether bytes wait for a resume. */
bool stream_has_kept(const struct stream *stream);
/* Memory of the pieces stays until sent. 0: all has left already; 1: sent will be called; -errno. */
int stream_send(struct stream *stream, const struct iovec *pieces, unsigned count);
/* Says that no more will be sent, and throws away what comes, at most limit bytes, until the peer
   ends too: then ended is called. This way the last response arrives: a close with unread bytes
   would reset the connection. The owner keeps the time and calls stream_close. */
void stream_drain(struct stream *stream, uint64_t limit_bytes);
/* No callback but closed from now on, never before this returned. */
void stream_close(struct stream *stream);

#endif
