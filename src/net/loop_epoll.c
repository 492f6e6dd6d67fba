/* The loop on epoll, for kernels and sandboxes that refuse io_uring.

   Sockets are non-blocking and level-triggered. Reading interest stays on from one request to the
   next, so the usual request costs a receive and a send and no change of interest; writing interest
   is on only while a send is blocked. Received bytes go through one buffer of the loop.

   What the page cache can't give is read by a few threads of the loop's own, and comes back as a
   message. A peer that resets while nobody reads is reported through the same path as a failed
   receive, because epoll repeats that news until somebody acts on it. */
#include "net/loop_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/mem.h"

#define RECV_BYTES   (64u << 10)
#define EVENTS       256
#define ACCEPT_BATCH 16
#define READ_THREADS 4
#define READ_QUEUE   8192
#define LARGE_BYTES  (32u << 10)
#define LARGE_SENDS  16 /* of a stream in one turn */

enum tag { TAG_STREAM, TAG_ACCEPT, TAG_WAKE, TAG_MASK = 7 };

struct poller {
    int fd;
    struct thread_pool *readers;
    uint8_t bytes[RECV_BYTES];
};

static uint64_t tagged(void *owner, enum tag tag)
{
    return (uint64_t)(uintptr_t)owner | tag;
}

static int epoll_init(struct loop *loop)
{
    struct poller *poller = mem_zero(1, sizeof(*poller));
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = tagged(NULL, TAG_WAKE)};
    int rc;

    if (poller == NULL)
        return -ENOMEM;
    poller->fd = epoll_create1(EPOLL_CLOEXEC);
    if (poller->fd < 0 || epoll_ctl(poller->fd, EPOLL_CTL_ADD, loop->wake_fd, &event) != 0) {
        rc = -errno;
        goto fail;
    }
    rc = thread_pool_new(READ_THREADS, READ_QUEUE, &poller->readers);
    if (rc != 0)
        goto fail;
    loop->backend = poller;
    return 0;
fail:
    if (poller->fd >= 0)
        close(poller->fd);
    mem_free(poller);
    return rc;
}

static void epoll_done(struct loop *loop)
{
    struct poller *poller = loop->backend;

    thread_pool_free(poller->readers);
    close(poller->fd);
    mem_free(poller);
}

static int epoll_start(struct loop *loop)
{
    (void)loop;
    return 0;
}

/* --- accepting --- */

static int epoll_accept_start(struct acceptor *acceptor)
{
    struct poller *poller = acceptor->loop->backend;
    /* Exclusive: a connection to a socket that several loops share wakes one of them. */
    struct epoll_event event = {
        .events = EPOLLIN | EPOLLEXCLUSIVE,
        .data.u64 = tagged(acceptor, TAG_ACCEPT),
    };
    int flags = fcntl(acceptor->fd, F_GETFL);

    if (flags < 0 || fcntl(acceptor->fd, F_SETFL, flags | O_NONBLOCK) != 0)
        return -errno;
    if (!acceptor->armed && epoll_ctl(poller->fd, EPOLL_CTL_ADD, acceptor->fd, &event) != 0)
        return -errno;
    acceptor->armed = true;
    return 0;
}

static void epoll_accept_stop(struct acceptor *acceptor)
{
    struct poller *poller = acceptor->loop->backend;

    if (acceptor->armed)
        (void)epoll_ctl(poller->fd, EPOLL_CTL_DEL, acceptor->fd, NULL); /* it was added */
    acceptor->armed = false;
}

static void accept_ready(struct acceptor *acceptor)
{
    for (int i = 0; i < ACCEPT_BATCH && acceptor->armed; i++) {
        int fd = accept4(acceptor->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

        if (fd >= 0) {
            acceptor_got(acceptor, fd);
            continue;
        }
        if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED)
            return;
        fd = -errno;
        epoll_accept_stop(acceptor); /* until the pause is over */
        acceptor_got(acceptor, fd);
    }
}

/* --- streams --- */

static int set_interest(struct stream *stream, uint32_t events)
{
    struct poller *poller = stream->loop->backend;
    struct epoll_event event = {
        .events = events,
        .data.u64 = tagged(stream, TAG_STREAM),
    };
    int action = stream->epoll_added ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;

    if (stream->epoll_added && stream->epoll_events == events)
        return 0;
    if (epoll_ctl(poller->fd, action, stream->fd, &event) != 0)
        return -errno;
    stream->epoll_added = true;
    stream->epoll_events = events;
    return 0;
}

static uint32_t interest(const struct stream *stream)
{
    return (stream->recv_armed ? EPOLLIN : 0) | (stream->sending ? EPOLLOUT : 0);
}

static int epoll_recv_start(struct stream *stream)
{
    int rc;

    stream->recv_armed = true;
    rc = set_interest(stream, interest(stream));
    if (rc != 0)
        stream->recv_armed = false;
    return rc;
}

static void epoll_recv_stop(struct stream *stream)
{
    stream->recv_armed = false;
    (void)set_interest(stream, interest(stream)); /* a failure shows as an event too many */
}

static int64_t send_now(struct stream *stream)
{
    struct msghdr message = {.msg_iov = stream->pieces, .msg_iovlen = stream->piece_count};
    ssize_t n;

    do {
        n = stream->piece_count == 1 ? send(stream->fd, stream->pieces[0].iov_base,
                                           stream->pieces[0].iov_len, MSG_NOSIGNAL)
                                     : sendmsg(stream->fd, &message, MSG_NOSIGNAL);
    } while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : n;
}

/* A client that takes a large object as fast as it comes lets the others have a turn now and then. */
static bool must_yield(struct stream *stream)
{
    size_t last = stream->piece_count > 0 ? stream->pieces[stream->piece_count - 1].iov_len : 0;

    return last >= LARGE_BYTES && ++stream->large_sends % LARGE_SENDS == 0;
}

static int64_t epoll_send(struct stream *stream, bool *ret_pending)
{
    int64_t n = must_yield(stream) ? -EAGAIN : send_now(stream);
    int rc;

    if (n != -EAGAIN)
        return n;
    rc = set_interest(stream, interest(stream) | EPOLLOUT);
    if (rc != 0)
        return rc;
    *ret_pending = true;
    return 0;
}

static void epoll_forget(struct stream *stream)
{
    (void)stream; /* closing the descriptor takes it out */
}

static void stream_writable(struct stream *stream)
{
    int64_t n = send_now(stream);

    if (n != -EAGAIN)
        stream_moved(stream, n);
    if (!stream->closing && !stream->sending)
        (void)set_interest(stream, interest(stream)); /* a failure costs an event too many */
}

static void stream_readable(struct stream *stream)
{
    struct poller *poller = stream->loop->backend;
    ssize_t n = recv(stream->fd, poller->bytes, RECV_BYTES, 0);

    if (n > 0) {
        stream_got(stream, poller->bytes, (size_t)n);
        return;
    }
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    n = n < 0 ? -errno : 0;
    epoll_recv_stop(stream);
    stream_recv_over(stream, (int)n);
}

/* Nobody reads, and the connection is broken in both directions. */
static void stream_broken(struct stream *stream)
{
    struct poller *poller = stream->loop->backend;

    (void)epoll_ctl(poller->fd, EPOLL_CTL_DEL, stream->fd, NULL); /* it was added */
    stream->epoll_added = false;
    if (stream->sending) {
        stream_moved(stream, -EPIPE);
        return;
    }
    stream_recv_over(stream, -ECONNRESET);
}

static void stream_ready(struct stream *stream, uint32_t events)
{
    if (stream->closing)
        return;
    if ((events & EPOLLOUT) && stream->sending)
        stream_writable(stream);
    if (stream->closing || !(events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
        return;
    if (stream->recv_armed)
        stream_readable(stream);
    else if (events & (EPOLLHUP | EPOLLERR))
        stream_broken(stream);
}

/* --- reading files --- */

static void read_arrived(struct loop_message *message)
{
    struct file_read *read =
        (struct file_read *)((uint8_t *)message - offsetof(struct file_read, message));

    file_read_more(read, read->result);
}

static void read_blocking(struct pool_job *job)
{
    struct file_read *read = (struct file_read *)((uint8_t *)job - offsetof(struct file_read, job));
    ssize_t n;

    do {
        n = pread(read->fd, read->buffer + read->got, read->length - read->got,
            (off_t)(read->offset + read->got));
    } while (n < 0 && errno == EINTR);
    read->result = n < 0 ? -errno : n;
    read->message.run = read_arrived;
    loop_post(read->loop, &read->message);
}

static int epoll_file_read(struct file_read *read)
{
    struct poller *poller = read->loop->backend;

    read->job.run = read_blocking;
    return thread_pool_submit(poller->readers, &read->job) == 0 ? 0 : -EBUSY;
}

/* --- the turn --- */

static void wake(struct loop *loop)
{
    uint64_t count;

    /* Emptied first: a message posted from now on wakes the loop again. */
    (void)!read(loop->wake_fd, &count, sizeof(count));
    loop_run_posted(loop);
}

static int epoll_turn(struct loop *loop, unsigned wait_ms)
{
    struct poller *poller = loop->backend;
    struct epoll_event events[EVENTS];
    int count = epoll_wait(poller->fd, events, EVENTS, (int)wait_ms);
    int code = errno;

    loop_update_now(loop);
    if (count < 0)
        return code == EINTR ? 0 : -code;
    for (int i = 0; i < count; i++) {
        void *owner = (void *)(uintptr_t)(events[i].data.u64 & ~(uint64_t)TAG_MASK);

        switch ((enum tag)(events[i].data.u64 & TAG_MASK)) {
        case TAG_STREAM:
            stream_ready(owner, events[i].events);
            break;
        case TAG_ACCEPT:
            accept_ready(owner);
            break;
        default:
            wake(loop);
            break;
        }
    }
    return 0;
}

const struct loop_ops loop_epoll_ops = {
    .name = "epoll",
    .init = epoll_init,
    .done = epoll_done,
    .start = epoll_start,
    .turn = epoll_turn,
    .accept_start = epoll_accept_start,
    .accept_stop = epoll_accept_stop,
    .recv_start = epoll_recv_start,
    .recv_stop = epoll_recv_stop,
    .send = epoll_send,
    .forget = epoll_forget,
    .file_read = epoll_file_read,
};
