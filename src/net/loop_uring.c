/* The loop on io_uring.

   One ring per loop, used by its thread alone (single issuer, task work deferred to the wait).
   Accepting and receiving are multishot: armed once, they complete until stopped. Received bytes
   arrive in buffers that the ring takes from a shared set; a buffer goes back as soon as its owner
   has seen it, so 2 MiB serve any number of connections. Sends and reads queue up during a turn
   and are handed in by the same call that waits for the next completions.

   Kernels that refuse a setup flag get the next simpler set; those without multishot get single
   operations, armed anew each time. Without provided buffers (before 5.19), or where io_uring is
   forbidden, init fails and the caller takes epoll. A receive that found no free buffer is armed
   again at the end of the turn, when all are free. */
#include "net/loop_priv.h"

#include <errno.h>
#include <liburing.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"

#define RING_ENTRIES 1024
#define CQ_ENTRIES   8192
#define BUFFER_COUNT 128
#define BUFFER_BYTES (16u << 10)
#define BUFFER_GROUP 1
#define BATCH        256

/* The low bits of user_data say what the pointer is. */
enum tag { TAG_NONE, TAG_RECV, TAG_SEND, TAG_ACCEPT, TAG_READ, TAG_WAKE, TAG_MASK = 7 };

struct uring {
    struct io_uring ring;
    struct io_uring_buf_ring *buffer_ring;
    uint8_t *buffers;
    struct stream *starved;
    uint64_t wake_count;
    bool single_recv, single_accept; /* the kernel knows no multishot */
};

static uint64_t tagged(void *owner, enum tag tag)
{
    return (uint64_t)(uintptr_t)owner | tag;
}

/* NULL only if the kernel takes no more work at all. */
static struct io_uring_sqe *get_sqe(struct uring *uring)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&uring->ring);

    if (sqe == NULL) {
        (void)io_uring_submit(&uring->ring); /* whether it helped shows in the next line */
        sqe = io_uring_get_sqe(&uring->ring);
    }
    return sqe;
}

/* --- setup --- */

static int setup_ring(struct io_uring *ring)
{
    static const unsigned flag_sets[] = {
        IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_SUBMIT_ALL,
        IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_COOP_TASKRUN | IORING_SETUP_SUBMIT_ALL,
        IORING_SETUP_COOP_TASKRUN | IORING_SETUP_SUBMIT_ALL,
        0,
    };
    int rc = -EINVAL;

    for (unsigned i = 0; i < sizeof(flag_sets) / sizeof(flag_sets[0]) && rc == -EINVAL; i++) {
        struct io_uring_params params = {
            /* Disabled until its own thread starts it: that one becomes the single issuer. */
            .flags =
                flag_sets[i] | IORING_SETUP_R_DISABLED | IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP,
            .cq_entries = CQ_ENTRIES,
        };

        rc = io_uring_queue_init_params(RING_ENTRIES, ring, &params);
        if (rc == 0 && !(params.features & IORING_FEAT_EXT_ARG)) {
            io_uring_queue_exit(ring);
            rc = -EOPNOTSUPP;
        }
    }
    return rc;
}

static void give_buffer(struct uring *uring, unsigned id)
{
    io_uring_buf_ring_add(uring->buffer_ring, uring->buffers + (size_t)id * BUFFER_BYTES,
        BUFFER_BYTES, (unsigned short)id, io_uring_buf_ring_mask(BUFFER_COUNT), 0);
    io_uring_buf_ring_advance(uring->buffer_ring, 1);
}

static void *map(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return memory == MAP_FAILED ? NULL : memory;
}

static void unmap(void *memory, size_t bytes)
{
    if (memory != NULL)
        munmap(memory, bytes);
}

static int setup_buffers(struct uring *uring)
{
    struct io_uring_buf_reg registration = {.ring_entries = BUFFER_COUNT, .bgid = BUFFER_GROUP};
    int rc;

    /* Mapped, not allocated: the kernel keeps the pages, and touches only those that are used. */
    uring->buffer_ring = map(BUFFER_COUNT * sizeof(struct io_uring_buf));
    uring->buffers = map((size_t)BUFFER_COUNT * BUFFER_BYTES);
    if (uring->buffer_ring == NULL || uring->buffers == NULL)
        return -ENOMEM;
    registration.ring_addr = (uint64_t)(uintptr_t)uring->buffer_ring;
    rc = io_uring_register_buf_ring(&uring->ring, &registration, 0);
    if (rc != 0)
        return rc;
    io_uring_buf_ring_init(uring->buffer_ring);
    for (unsigned id = 0; id < BUFFER_COUNT; id++)
        give_buffer(uring, id);
    return 0;
}

static void free_buffers(struct uring *uring)
{
    unmap(uring->buffer_ring, BUFFER_COUNT * sizeof(struct io_uring_buf));
    unmap(uring->buffers, (size_t)BUFFER_COUNT * BUFFER_BYTES);
}

static int uring_init(struct loop *loop)
{
    struct uring *uring = mem_zero(1, sizeof(*uring));
    int rc;

    if (uring == NULL)
        return -ENOMEM;
    rc = setup_ring(&uring->ring);
    if (rc != 0)
        goto free_uring;
    rc = setup_buffers(uring);
    if (rc != 0)
        goto exit_ring;
    loop->backend = uring;
    return 0;
exit_ring:
    io_uring_queue_exit(&uring->ring);
    free_buffers(uring);
free_uring:
    mem_free(uring);
    return rc;
}

static void uring_done(struct loop *loop)
{
    struct uring *uring = loop->backend;

    io_uring_queue_exit(&uring->ring);
    free_buffers(uring);
    mem_free(uring);
}

static int arm_wake(struct loop *loop)
{
    struct uring *uring = loop->backend;
    struct io_uring_sqe *sqe = get_sqe(uring);

    if (sqe == NULL)
        return -EAGAIN;
    io_uring_prep_read(sqe, loop->wake_fd, &uring->wake_count, sizeof(uring->wake_count), 0);
    sqe->user_data = tagged(NULL, TAG_WAKE);
    return 0;
}

static int uring_start(struct loop *loop)
{
    struct uring *uring = loop->backend;

    /* liburing 2.3 declares io_uring_enable_rings but does not export it. */
    if (syscall(
            SYS_io_uring_register, uring->ring.ring_fd, IORING_REGISTER_ENABLE_RINGS, NULL, 0) != 0)
        return -errno;
    /* Saves a lookup per call; works as well without. */
    (void)io_uring_register_ring_fd(&uring->ring);
    return arm_wake(loop);
}

/* --- operations --- */

static int uring_accept_start(struct acceptor *acceptor)
{
    struct uring *uring = acceptor->loop->backend;
    struct io_uring_sqe *sqe = get_sqe(uring);

    if (sqe == NULL)
        return -EAGAIN;
    if (uring->single_accept)
        io_uring_prep_accept(sqe, acceptor->fd, NULL, NULL, SOCK_CLOEXEC);
    else
        io_uring_prep_multishot_accept(sqe, acceptor->fd, NULL, NULL, SOCK_CLOEXEC);
    sqe->user_data = tagged(acceptor, TAG_ACCEPT);
    acceptor->armed = true;
    return 0;
}

static void cancel(struct uring *uring, uint64_t user_data)
{
    struct io_uring_sqe *sqe = get_sqe(uring);

    if (sqe == NULL)
        return;
    io_uring_prep_cancel64(sqe, user_data, 0);
    sqe->user_data = tagged(NULL, TAG_NONE);
}

static void uring_accept_stop(struct acceptor *acceptor)
{
    if (acceptor->armed)
        cancel(acceptor->loop->backend, tagged(acceptor, TAG_ACCEPT));
}

static int uring_recv_start(struct stream *stream)
{
    struct uring *uring = stream->loop->backend;
    struct io_uring_sqe *sqe;

    if (stream->recv_armed || stream->starved)
        return 0; /* it is armed again when the stopping one is over */
    sqe = get_sqe(uring);
    if (sqe == NULL)
        return -EAGAIN;
    io_uring_prep_recv(sqe, stream->fd, NULL, 0, 0);
    if (!uring->single_recv)
        sqe->ioprio |= IORING_RECV_MULTISHOT;
    sqe->flags |= IOSQE_BUFFER_SELECT;
    sqe->buf_group = BUFFER_GROUP;
    sqe->user_data = tagged(stream, TAG_RECV);
    stream->recv_armed = true;
    stream->recv_stopping = false;
    return 0;
}

static void uring_recv_stop(struct stream *stream)
{
    if (stream->recv_stopping)
        return;
    stream->recv_stopping = true;
    cancel(stream->loop->backend, tagged(stream, TAG_RECV));
}

static int64_t uring_send(struct stream *stream, bool *ret_pending)
{
    struct io_uring_sqe *sqe = get_sqe(stream->loop->backend);

    if (sqe == NULL)
        return -EAGAIN;
    if (stream->piece_count == 1) {
        io_uring_prep_send(
            sqe, stream->fd, stream->pieces[0].iov_base, stream->pieces[0].iov_len, MSG_NOSIGNAL);
    } else {
        stream->message.msg_iov = stream->pieces;
        stream->message.msg_iovlen = stream->piece_count;
        io_uring_prep_sendmsg(sqe, stream->fd, &stream->message, MSG_NOSIGNAL);
    }
    sqe->user_data = tagged(stream, TAG_SEND);
    stream->send_armed = true;
    *ret_pending = true;
    return 0;
}

static int uring_file_read(struct file_read *read)
{
    struct io_uring_sqe *sqe = get_sqe(read->loop->backend);

    if (sqe == NULL)
        return -EBUSY;
    io_uring_prep_read(sqe, read->fd, read->buffer + read->got, read->length - read->got,
        read->offset + read->got);
    sqe->user_data = tagged(read, TAG_READ);
    return 0;
}

static void uring_forget(struct stream *stream)
{
    (void)stream; /* nothing is under way, and the ring knows no descriptors */
}

/* --- completions --- */

static void recv_completed(struct uring *uring, struct stream *stream, int result, unsigned flags)
{
    bool over = !(flags & IORING_CQE_F_MORE);

    if (over)
        stream->recv_armed = false;
    if (result > 0 && (flags & IORING_CQE_F_BUFFER)) {
        unsigned id = flags >> IORING_CQE_BUFFER_SHIFT;

        stream_got(stream, uring->buffers + (size_t)id * BUFFER_BYTES, (size_t)result);
        give_buffer(uring, id);
    } else if (flags & IORING_CQE_F_BUFFER) {
        give_buffer(uring, flags >> IORING_CQE_BUFFER_SHIFT);
    }
    if (!over)
        return;
    if (result == -EINVAL && !uring->single_recv)
        uring->single_recv = true;
    else if (result == -ENOBUFS) {
        stream->starved = true;
        stream->next_starved = uring->starved;
        uring->starved = stream;
        return;
    } else if (result <= 0 && result != -ECANCELED && result != -EINTR) {
        stream_recv_over(stream, result);
        return;
    }
    stream_recv_over(stream, -ECANCELED);
}

/* All buffers are back: those who found none try again. */
static void feed_starved(struct uring *uring)
{
    struct stream *stream = uring->starved, *next;

    uring->starved = NULL;
    for (; stream != NULL; stream = next) {
        next = stream->next_starved;
        stream->starved = false;
        stream_recv_over(stream, -ECANCELED);
    }
}

static void send_completed(struct stream *stream, int result)
{
    stream->send_armed = false;
    if (result == -EINTR || result == -EAGAIN)
        result = 0; /* nothing moved: it is handed in again */
    else if (result == 0)
        result = -EPIPE;
    stream_moved(stream, result);
}

static void accept_completed(
    struct uring *uring, struct acceptor *acceptor, int result, unsigned flags)
{
    bool over = !(flags & IORING_CQE_F_MORE);

    if (over)
        acceptor->armed = false;
    if (result == -EINVAL && !uring->single_accept) {
        uring->single_accept = true;
        result = -EAGAIN;
    }
    acceptor_got(acceptor, result);
    if (over && result >= 0 && acceptor->wanted && !acceptor->armed)
        acceptor_got(acceptor, -EAGAIN); /* arms it again */
}

static void completed(struct loop *loop, uint64_t user_data, int result, unsigned flags)
{
    struct uring *uring = loop->backend;
    void *owner = (void *)(uintptr_t)(user_data & ~(uint64_t)TAG_MASK);

    switch ((enum tag)(user_data & TAG_MASK)) {
    case TAG_RECV:
        recv_completed(uring, owner, result, flags);
        break;
    case TAG_SEND:
        send_completed(owner, result);
        break;
    case TAG_ACCEPT:
        accept_completed(uring, owner, result, flags);
        break;
    case TAG_READ:
        file_read_more(owner, result);
        break;
    case TAG_WAKE:
        /* Armed first: a message posted while these run wakes the loop again. */
        (void)arm_wake(loop); /* fails only when the ring does, which the turn reports */
        loop_run_posted(loop);
        break;
    default:
        break;
    }
}

static int uring_turn(struct loop *loop, unsigned wait_ms)
{
    struct uring *uring = loop->backend;
    struct __kernel_timespec wait = {wait_ms / 1000, (long long)(wait_ms % 1000) * 1000000};
    struct io_uring_cqe *cqes[BATCH];
    unsigned count;
    int rc = io_uring_submit_and_wait_timeout(&uring->ring, cqes, 1, &wait, NULL);

    loop_update_now(loop);
    if (rc < 0 && rc != -ETIME && rc != -EINTR && rc != -EAGAIN && rc != -EBUSY)
        return rc;
    do {
        count = io_uring_peek_batch_cqe(&uring->ring, cqes, BATCH);
        for (unsigned i = 0; i < count; i++) {
            uint64_t user_data = cqes[i]->user_data;
            int result = cqes[i]->res;
            unsigned flags = cqes[i]->flags;

            io_uring_cqe_seen(&uring->ring, cqes[i]);
            completed(loop, user_data, result, flags);
        }
    } while (count == BATCH);
    feed_starved(uring);
    return 0;
}

const struct loop_ops loop_uring_ops = {
    .name = "io_uring",
    .init = uring_init,
    .done = uring_done,
    .start = uring_start,
    .turn = uring_turn,
    .accept_start = uring_accept_start,
    .accept_stop = uring_accept_stop,
    .recv_start = uring_recv_start,
    .recv_stop = uring_recv_stop,
    .send = uring_send,
    .forget = uring_forget,
    .file_read = uring_file_read,
};
