/* What the loop's parts share: the table that a backend fills, and the calls it makes. */
#ifndef NET_LOOP_PRIV_H
#define NET_LOOP_PRIV_H

#include "net/loop.h"
#include "net/stream.h"

#include <pthread.h>

#define WHEEL_SLOTS 2048

struct loop_ops {
    const char *name;
    int (*init)(struct loop *loop);
    void (*done)(struct loop *loop);
    /* On the loop's thread, before the first turn. */
    int (*start)(struct loop *loop);
    /* Hands in what was queued, waits at most wait_ms for something to happen, and calls back. */
    int (*turn)(struct loop *loop, unsigned wait_ms);
    int (*accept_start)(struct acceptor *acceptor);
    void (*accept_stop)(struct acceptor *acceptor);
    /* Receives until stopped: stream_got for bytes, stream_recv_over when it no longer does. */
    int (*recv_start)(struct stream *stream);
    void (*recv_stop)(struct stream *stream);
    /* Sends stream->pieces. 1: stream_sent follows; otherwise the count or -errno. */
    int64_t (*send)(struct stream *stream, bool *ret_pending);
    /* The descriptor is about to be closed. */
    void (*forget)(struct stream *stream);
    /* The rest of a read that the page cache could not give. */
    int (*file_read)(struct file_read *read);
};

extern const struct loop_ops loop_uring_ops, loop_epoll_ops;

struct loop {
    const struct loop_ops *ops;
    void *backend;
    uint64_t now_ms;
    bool stopping;
    struct stream *closing;
    struct acceptor *acceptors;

    pthread_mutex_t post_lock; /* guards posted */
    struct loop_message *posted, **posted_tail;
    int wake_fd;

    struct loop_timer wheel[WHEEL_SLOTS]; /* list heads */
    uint64_t wheel_tick;
    unsigned timer_count;
};

/* For backends. The time is taken right after the wait: callbacks set timers by it. */
void loop_update_now(struct loop *loop);
void loop_run_posted(struct loop *loop);
void stream_got(struct stream *stream, const uint8_t *bytes, size_t length);
/* 0: the peer ended; -errno: failed; -ECANCELED: stopped on request. */
void stream_recv_over(struct stream *stream, int code);
/* A send that was pending moved so many bytes, or failed. */
void stream_moved(struct stream *stream, int64_t result);
void stream_finish_closing(struct loop *loop);
void acceptor_got(struct acceptor *acceptor, int fd_or_error);
void file_read_more(struct file_read *read, int64_t result);

/* Timers. */
void timers_init(struct loop *loop);
void timers_run(struct loop *loop);
unsigned timers_wait_ms(const struct loop *loop);

#endif
