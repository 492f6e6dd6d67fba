/* A worker: one thread with its loop, its listeners and its connections.

   It is set up by the main thread, then belongs to its own. Stopping begins with a message: the
   listeners go first, idle connections close, and a timer looks whether what is left has ended. After
   STOP_MS the rest is cut off; jobs under way are waited for, since the store must not close under
   them. Only a check, which can't be broken off, is left behind. */
#include "server/server_priv.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/mem.h"

#define LEAVE_CHECK_MS (STOP_MS + 1000)

static void accepted(struct acceptor *acceptor, int fd)
{
    struct listener *listener = (struct listener *)acceptor;

    http_connection_open(&listener->worker->host, listener->service, fd);
}

int worker_init(struct worker *worker, struct server *server, enum loop_kind kind)
{
    const struct http_limits limits = {
        .head_ms = 10000,
        .idle_ms = 60000,
        .body_ms = 30000,
        .send_ms = 60000,
        .drain_ms = 10000,
        .drain_bytes = 64u << 20,
        .connections = server->connections_max,
    };
    int rc;

    memset(worker, 0, sizeof(*worker));
    worker->server = server;
    rc = loop_new(kind, &worker->loop);
    if (rc == 0)
        http_host_init(&worker->host, worker->loop, &limits, worker);
    return rc;
}

int worker_listen(struct worker *worker, int fd, const struct http_service *service)
{
    struct listener *listener;

    if (worker->listener_count == WORKER_LISTENERS_MAX)
        return -ENOSPC;
    listener = &worker->listeners[worker->listener_count++];
    listener->acceptor.fd = fd;
    listener->acceptor.accepted = accepted;
    listener->worker = worker;
    listener->service = service;
    return 0;
}

/* --- stopping --- */

static bool may_end(const struct worker *worker, uint64_t now_ms)
{
    if (worker->host.count > 0)
        return false;
    return worker->pending == 0 ||
           (now_ms >= worker->stop_deadline_ms + (LEAVE_CHECK_MS - STOP_MS) &&
               worker->pending == 1 && atomic_load(&worker->server->checking));
}

static void look_whether_ended(struct loop_timer *timer)
{
    struct worker *worker =
        (struct worker *)((uint8_t *)timer - offsetof(struct worker, stop_timer));
    uint64_t now_ms = loop_now_ms(worker->loop);

    if (may_end(worker, now_ms)) {
        loop_stop(worker->loop);
        return;
    }
    if (now_ms >= worker->stop_deadline_ms)
        http_host_cut(&worker->host);
    loop_timer_set(worker->loop, timer, LOOP_TICK_MS);
}

static void begin_stop(struct loop_message *message)
{
    struct worker *worker = (struct worker *)((uint8_t *)message - offsetof(struct worker, stop));

    for (unsigned i = 0; i < worker->listener_count; i++)
        acceptor_stop(&worker->listeners[i].acceptor);
    http_host_end(&worker->host);
    worker->stop_deadline_ms = loop_now_ms(worker->loop) + STOP_MS;
    worker->stop_timer.fire = look_whether_ended;
    look_whether_ended(&worker->stop_timer);
}

void worker_stop(struct worker *worker)
{
    worker->stop.run = begin_stop;
    loop_post(worker->loop, &worker->stop);
}

/* --- the thread --- */

static void *run(void *arg)
{
    static const uint64_t one = 1;
    struct worker *worker = arg;

    worker->status = loop_run(worker->loop);
    /* The main thread hears of a loop that ended by itself; the count can't overflow. */
    if (worker->status != 0)
        (void)!write(worker->server->alarm_fd, &one, sizeof(one));
    return NULL;
}

static void begin_accepting(struct loop_message *message)
{
    struct worker *worker = (struct worker *)((uint8_t *)message - offsetof(struct worker, begin));

    for (unsigned i = 0; i < worker->listener_count; i++) {
        struct acceptor *acceptor = &worker->listeners[i].acceptor;

        /* A listening descriptor that was just opened is accepted from, or nothing is. */
        if (acceptor_start(worker->loop, acceptor) != 0)
            loop_timer_set(worker->loop, &acceptor->pause, LOOP_TICK_MS);
    }
}

int worker_start(struct worker *worker)
{
    int rc;

    worker->begin.run = begin_accepting;
    loop_post(worker->loop, &worker->begin);
    rc = -pthread_create(&worker->thread, NULL, run, worker);
    worker->started = rc == 0;
    return rc;
}

void worker_join(struct worker *worker)
{
    if (worker->started)
        pthread_join(worker->thread, NULL);
    worker->started = false;
}

void worker_done(struct worker *worker)
{
    if (worker->loop == NULL)
        return;
    get_free_buffers(worker);
    http_host_done(&worker->host);
    loop_free(worker->loop);
    worker->loop = NULL;
}
