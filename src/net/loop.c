/* What both kinds of loop share: making and running one, messages from other threads, accepting,
   and reading files.

   A turn of the loop: the backend hands in what was queued, waits, and calls back for what has
   completed; then due timers fire, and streams whose closing is complete are let go. A message from
   another thread is put on a list under a lock; the first one on an empty list wakes the loop
   through an eventfd, whose reading the backend has under way.

   A file is first read with RWF_NOWAIT, which gives what the page cache holds without a switch of
   context; only the rest goes through the ring or the pool. Where the file system does not know
   that flag everything goes that way. */
#include "net/loop_priv.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/mem.h"
#include "os/clock.h"

#define ACCEPT_PAUSE_MS 100

void loop_update_now(struct loop *loop)
{
    struct clock *clock = clock_system();

    loop->now_ms = clock->monotonic_ns(clock) / 1000000;
}

int loop_new(enum loop_kind kind, struct loop **ret_loop)
{
    struct loop *loop = mem_zero(1, sizeof(*loop));
    int rc = -ENOMEM;

    if (loop == NULL)
        return -ENOMEM;
    loop->ops = kind == LOOP_URING ? &loop_uring_ops : &loop_epoll_ops;
    loop->posted_tail = &loop->posted;
    loop_update_now(loop);
    timers_init(loop);
    rc = -pthread_mutex_init(&loop->post_lock, NULL);
    if (rc != 0)
        goto free_loop;
    loop->wake_fd = eventfd(0, EFD_CLOEXEC | (kind == LOOP_EPOLL ? EFD_NONBLOCK : 0));
    if (loop->wake_fd < 0) {
        rc = -errno;
        goto destroy_lock;
    }
    rc = loop->ops->init(loop);
    if (rc != 0)
        goto close_wake;
    *ret_loop = loop;
    return 0;
close_wake:
    close(loop->wake_fd);
destroy_lock:
    pthread_mutex_destroy(&loop->post_lock);
free_loop:
    mem_free(loop);
    return rc;
}

void loop_free(struct loop *loop)
{
    if (loop == NULL)
        return;
    loop->ops->done(loop);
    close(loop->wake_fd);
    pthread_mutex_destroy(&loop->post_lock);
    mem_free(loop);
}

const char *loop_name(const struct loop *loop)
{
    return loop->ops->name;
}

uint64_t loop_now_ms(const struct loop *loop)
{
    return loop->now_ms;
}

void loop_stop(struct loop *loop)
{
    loop->stopping = true;
}

int loop_run(struct loop *loop)
{
    int rc = loop->ops->start(loop);

    while (rc == 0 && !loop->stopping) {
        rc = loop->ops->turn(loop, timers_wait_ms(loop));
        timers_run(loop);
        stream_finish_closing(loop);
    }
    return rc;
}

/* --- messages --- */

void loop_post(struct loop *loop, struct loop_message *message)
{
    static const uint64_t one = 1;
    bool was_empty;

    message->next = NULL;
    pthread_mutex_lock(&loop->post_lock);
    was_empty = loop->posted == NULL;
    *loop->posted_tail = message;
    loop->posted_tail = &message->next;
    /* Inside the lock: the loop may be freed as soon as it has seen its last message. An eventfd's
       count can't overflow here, so the result says nothing. */
    if (was_empty)
        (void)!write(loop->wake_fd, &one, sizeof(one));
    pthread_mutex_unlock(&loop->post_lock);
}

void loop_run_posted(struct loop *loop)
{
    struct loop_message *message, *next;

    pthread_mutex_lock(&loop->post_lock);
    message = loop->posted;
    loop->posted = NULL;
    loop->posted_tail = &loop->posted;
    pthread_mutex_unlock(&loop->post_lock);
    for (; message != NULL; message = next) {
        next = message->next;
        message->run(message);
    }
}

/* --- accepting --- */

static void accept_again(struct loop_timer *timer)
{
    struct acceptor *acceptor =
        (struct acceptor *)((uint8_t *)timer - offsetof(struct acceptor, pause));

    if (!acceptor->wanted || acceptor->armed)
        return;
    if (acceptor->loop->ops->accept_start(acceptor) != 0)
        loop_timer_set(acceptor->loop, timer, ACCEPT_PAUSE_MS);
}

int acceptor_start(struct loop *loop, struct acceptor *acceptor)
{
    acceptor->loop = loop;
    acceptor->wanted = true;
    acceptor->pause.fire = accept_again;
    return loop->ops->accept_start(acceptor);
}

void acceptor_stop(struct acceptor *acceptor)
{
    if (!acceptor->wanted)
        return;
    acceptor->wanted = false;
    loop_timer_done(&acceptor->pause);
    acceptor->loop->ops->accept_stop(acceptor);
}

void acceptor_got(struct acceptor *acceptor, int fd_or_error)
{
    if (fd_or_error >= 0) {
        if (acceptor->wanted)
            acceptor->accepted(acceptor, fd_or_error);
        else
            close(fd_or_error);
        return;
    }
    if (!acceptor->wanted || acceptor->armed)
        return;
    /* A peer that left before it was accepted is no reason to wait; a lack of descriptors is. */
    if (fd_or_error == -ECONNABORTED || fd_or_error == -EINTR || fd_or_error == -EAGAIN) {
        if (acceptor->loop->ops->accept_start(acceptor) == 0)
            return;
    }
    loop_timer_set(acceptor->loop, &acceptor->pause, ACCEPT_PAUSE_MS);
}

/* --- reading files --- */

/* All of it, the count at the end of the file, or -EAGAIN for the rest. */
static int64_t read_cached(struct file_read *read)
{
    while (read->got < read->length) {
        struct iovec piece = {read->buffer + read->got, read->length - read->got};
        ssize_t n = preadv2(read->fd, &piece, 1, (off_t)(read->offset + read->got), RWF_NOWAIT);

        if (n == 0)
            break;
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EOPNOTSUPP ? -EAGAIN : -errno;
        read->got += (uint32_t)n;
    }
    return read->got;
}

int64_t file_read_start(struct loop *loop, struct file_read *read, int fd, void *buffer,
    uint32_t length, uint64_t offset)
{
    int64_t result;
    int rc;

    read->loop = loop;
    read->fd = fd;
    read->buffer = buffer;
    read->length = length;
    read->offset = offset;
    read->got = 0;
    result = read_cached(read);
    if (result != -EAGAIN)
        return result;
    rc = loop->ops->file_read(read);
    return rc != 0 ? rc : -EAGAIN;
}

void file_read_more(struct file_read *read, int64_t result)
{
    int rc;

    if (result > 0) {
        read->got += (uint32_t)result;
        if (read->got < read->length) {
            rc = read->loop->ops->file_read(read);
            if (rc == 0)
                return;
            result = rc;
        }
    }
    if (result == -EAGAIN || result == -EINTR)
        result = -EIO; /* never leave the caller waiting for a call that does not come */
    read->done(read, result < 0 ? result : (int64_t)read->got);
}
