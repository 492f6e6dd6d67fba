/* The part of a stream that does not depend on the backend: lending received bytes, keeping what
   was not taken, sending in pieces, draining, and closing when nothing is under way any more.

   The kernel may deliver a little after it was told to stop (a multishot receive has buffers on
   their way), hence the kept bytes; their memory exists only while there are any. A stream that is
   out of memory for them, or whose peer outruns every bound, is ended with -ENOBUFS.

   Closing never calls back at once: the stream is put on the loop's list, and let go at the end of
   a turn in which neither a receive nor a send is under way. */
#include "net/loop_priv.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"

int stream_open(
    struct loop *loop, struct stream *stream, int fd, const struct stream_events *events)
{
    memset(stream, 0, sizeof(*stream));
    stream->loop = loop;
    stream->events = events;
    stream->fd = fd;
    stream->receiving = true;
    return loop->ops->recv_start(stream);
}

static void tell_end(struct stream *stream)
{
    if (!stream->end_seen || stream->end_told || stream->closing || !stream->receiving)
        return;
    if (stream->kept_start < stream->kept_end && !stream->draining)
        return;
    stream->end_told = true;
    stream->events->ended(stream, stream->end_code);
}

static void end_stream(struct stream *stream, int code)
{
    if (!stream->end_seen) {
        stream->end_seen = true;
        stream->end_code = code;
    }
    tell_end(stream);
}

/* --- receiving --- */

static bool keep_room(struct stream *stream, size_t length)
{
    size_t used = stream->kept_end - stream->kept_start;
    size_t capacity = stream->kept_capacity > 0 ? stream->kept_capacity : 4096;
    uint8_t *bytes;

    if (stream->kept_start > 0) {
        memmove(stream->kept, stream->kept + stream->kept_start, used);
        stream->kept_start = 0;
        stream->kept_end = used;
    }
    if (used + length <= stream->kept_capacity)
        return true;
    if (used + length > STREAM_KEEP_MAX)
        return false;
    while (capacity < used + length)
        capacity *= 2;
    bytes = mem_resize(stream->kept, capacity);
    if (bytes == NULL)
        return false;
    stream->kept = bytes;
    stream->kept_capacity = capacity;
    return true;
}

static void keep(struct stream *stream, const uint8_t *bytes, size_t length)
{
    if (!keep_room(stream, length)) {
        end_stream(stream, -ENOBUFS);
        return;
    }
    memcpy(stream->kept + stream->kept_end, bytes, length);
    stream->kept_end += length;
    if (stream->kept_end - stream->kept_start >= STREAM_KEEP_BYTES && stream->recv_armed)
        stream->loop->ops->recv_stop(stream);
}

static void drop_kept(struct stream *stream)
{
    mem_free(stream->kept);
    stream->kept = NULL;
    stream->kept_start = stream->kept_end = stream->kept_capacity = 0;
}

static void drain_bytes(struct stream *stream, size_t length)
{
    if (length < stream->drain_left_bytes) {
        stream->drain_left_bytes -= length;
        return;
    }
    /* Enough: the peer is left waiting until the owner's time is over. */
    stream->drain_left_bytes = 0;
    if (stream->recv_armed)
        stream->loop->ops->recv_stop(stream);
}

/* Lends bytes; receiving is off afterwards if some were left. */
static size_t lend(struct stream *stream, const uint8_t *bytes, size_t length)
{
    size_t taken;

    stream->delivering = true;
    stream->receiving = false; /* a resume inside counts: it sets this again */
    taken = stream->events->received(stream, bytes, length);
    stream->delivering = false;
    if (taken == length)
        stream->receiving = true;
    return taken;
}

static void deliver_kept(struct stream *stream)
{
    while (stream->receiving && !stream->closing && !stream->draining &&
           stream->kept_start < stream->kept_end) {
        size_t taken =
            lend(stream, stream->kept + stream->kept_start, stream->kept_end - stream->kept_start);

        if (stream->closing || stream->draining)
            return;
        stream->kept_start += taken;
    }
    if (stream->kept != NULL && stream->kept_start == stream->kept_end)
        drop_kept(stream);
}

void stream_got(struct stream *stream, const uint8_t *bytes, size_t length)
{
    size_t taken = 0;

    if (stream->closing)
        return;
    if (stream->draining) {
        drain_bytes(stream, length);
        return;
    }
    if (stream->receiving && stream->kept_start == stream->kept_end)
        taken = lend(stream, bytes, length);
    if (taken == length || stream->closing || stream->draining)
        return;
    keep(stream, bytes + taken, length - taken);
    deliver_kept(stream); /* if a resume came while the bytes were lent */
}

static void receive_again(struct stream *stream)
{
    int rc;

    if (stream->closing || stream->end_seen || stream->recv_armed)
        return;
    if (stream->draining ? stream->drain_left_bytes == 0
                         : stream->kept_end - stream->kept_start >= STREAM_KEEP_BYTES)
        return;
    rc = stream->loop->ops->recv_start(stream);
    if (rc != 0)
        end_stream(stream, rc);
}

void stream_resume(struct stream *stream)
{
    stream->receiving = true;
    if (stream->delivering || stream->closing)
        return;
    deliver_kept(stream);
    if (!stream->receiving || stream->closing)
        return;
    receive_again(stream);
    tell_end(stream);
}

bool stream_has_kept(const struct stream *stream)
{
    return stream->kept_start < stream->kept_end;
}

void stream_recv_over(struct stream *stream, int code)
{
    if (stream->closing)
        return;
    if (code == -ECANCELED) {
        receive_again(stream);
        return;
    }
    end_stream(stream, code);
}

/* --- sending --- */

/* Takes off what was sent; true when nothing is left. */
static bool advance(struct stream *stream, size_t length)
{
    unsigned done = 0;

    while (done < stream->piece_count && length >= stream->pieces[done].iov_len)
        length -= stream->pieces[done++].iov_len;
    for (unsigned i = done; i < stream->piece_count; i++)
        stream->pieces[i - done] = stream->pieces[i];
    stream->piece_count -= done;
    if (stream->piece_count == 0)
        return true;
    stream->pieces[0].iov_base = (uint8_t *)stream->pieces[0].iov_base + length;
    stream->pieces[0].iov_len -= length;
    return false;
}

/* 0: all left; 1: pending; -errno. */
static int push(struct stream *stream)
{
    for (;;) {
        bool pending = false;
        int64_t n = stream->loop->ops->send(stream, &pending);

        if (pending)
            return 1;
        if (n < 0)
            return (int)n;
        if (advance(stream, (size_t)n))
            return 0;
    }
}

int stream_send(struct stream *stream, const struct iovec *pieces, unsigned count)
{
    int rc;

    if (stream->closing || stream->sending)
        return -EPIPE;
    memcpy(stream->pieces, pieces, count * sizeof(pieces[0]));
    stream->piece_count = count;
    stream->sending = true;
    rc = push(stream);
    if (rc != 1)
        stream->sending = false;
    return rc;
}

void stream_moved(struct stream *stream, int64_t result)
{
    int rc;

    if (stream->closing) {
        stream->sending = false;
        return;
    }
    rc = result < 0 ? (int)result : 0;
    if (rc == 0 && !advance(stream, (size_t)result)) {
        stream->events->progress(stream);
        rc = stream->closing ? -EPIPE : push(stream);
        if (rc == 1)
            return;
    }
    stream->sending = false;
    if (!stream->closing)
        stream->events->sent(stream, rc);
}

/* --- ending --- */

void stream_drain(struct stream *stream, uint64_t limit_bytes)
{
    if (stream->closing || stream->draining)
        return;
    stream->draining = true;
    stream->receiving = true;
    stream->drain_left_bytes = limit_bytes;
    /* Fails only where the peer is gone, which the receive will say. */
    (void)shutdown(stream->fd, SHUT_WR);
    if (!stream->delivering)
        drop_kept(stream);
    receive_again(stream);
    tell_end(stream);
}

void stream_close(struct stream *stream)
{
    if (stream->closing)
        return;
    stream->closing = true;
    stream->next_closing = stream->loop->closing;
    stream->loop->closing = stream;
    /* Ends whatever the kernel still waits for on it. */
    if (stream->recv_armed || stream->send_armed) {
        (void)shutdown(stream->fd, SHUT_RDWR);
        if (stream->recv_armed)
            stream->loop->ops->recv_stop(stream);
    }
}

void stream_finish_closing(struct loop *loop)
{
    struct stream **at = &loop->closing;

    while (*at != NULL) {
        struct stream *stream = *at;

        if (stream->recv_armed || stream->send_armed || stream->starved) {
            at = &stream->next_closing;
            continue;
        }
        *at = stream->next_closing;
        loop->ops->forget(stream);
        close(stream->fd);
        drop_kept(stream);
        stream->events->closed(stream);
        at = &loop->closing; /* the callback may have closed others */
    }
}
