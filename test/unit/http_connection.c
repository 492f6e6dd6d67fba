/* Connections with short time limits and small bounds, on both kinds of loop: what the black-box
   tests could only wait a minute for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "http/connection.h"

/* The loop runs on a thread of its own; the test is the client. */
struct rig {
    enum loop_kind kind;
    struct loop *loop;
    struct http_host host;
    pthread_t thread;
    struct loop_message message;
    struct loop_timer look;
    int fd; /* to be opened by the message */
    sem_t opened;
    atomic_uint stops;
    uint8_t large[4 << 20];
};

static struct rig *rig_of(struct exchange *x)
{
    return x->host->context;
}

/* --- the service: /text, /large, /body (echoes its length), /hang --- */

static void body(struct exchange *x, const uint8_t *bytes, size_t length, bool last)
{
    size_t *total = (size_t *)x->state;

    (void)bytes;
    *total += length;
    if (last) {
        exchange_reply(x, *total == 10 ? 200 : 500, "body");
        return;
    }
    exchange_want_body(x, 4);
}

static void proceed(struct exchange *x)
{
    exchange_finish(x);
}

static void stop(struct exchange *x)
{
    rig_of(x)->stops++;
}

static const struct exchange_events events = {.body = body, .proceed = proceed, .stop = stop};

static void serve(struct exchange *x)
{
    uint8_t what = x->head_bytes[x->head.path.start + 1];

    x->events = &events;
    if (what == 't') {
        exchange_reply(x, 200, "text");
    } else if (what == 'l') {
        exchange_begin(x, 200);
        exchange_body(x, sizeof(rig_of(x)->large));
        if (exchange_send(x, rig_of(x)->large, sizeof(rig_of(x)->large)) == 1)
            exchange_finish(x);
    } else if (what == 'b') {
        *(size_t *)x->state = 0;
        exchange_want_body(x, 4);
    } else if (what == 's') { /* promises more than it gives */
        exchange_begin(x, 200);
        exchange_body(x, 100);
        (void)exchange_send(x, "short", 5);
        exchange_finish(x);
    }
}

static const struct http_service service = {.request = serve};

/* --- the rig --- */

static void *run(void *arg)
{
    struct rig *rig = arg;

    if (loop_run(rig->loop) != 0)
        abort();
    return NULL;
}

static int open_rig(void **state, enum loop_kind kind)
{
    static struct rig rig;
    const struct http_limits limits = {
        .head_ms = 300,
        .idle_ms = 500,
        .body_ms = 300,
        .send_ms = 300,
        .drain_ms = 300,
        .drain_bytes = 100000,
        .connections = 3,
    };

    memset(&rig, 0, sizeof(rig));
    sem_init(&rig.opened, 0, 0);
    rig.kind = kind;
    if (loop_new(kind, &rig.loop) != 0) {
        rig.kind = LOOP_EPOLL; /* where io_uring is forbidden */
        if (loop_new(LOOP_EPOLL, &rig.loop) != 0)
            return -1;
    }
    http_host_init(&rig.host, rig.loop, &limits, &rig);
    *state = &rig;
    return pthread_create(&rig.thread, NULL, run, &rig);
}

static int open_uring(void **state)
{
    return open_rig(state, LOOP_URING);
}

static int open_epoll(void **state)
{
    return open_rig(state, LOOP_EPOLL);
}

static void look(struct loop_timer *timer)
{
    struct rig *rig = (struct rig *)((uint8_t *)timer - offsetof(struct rig, look));

    http_host_cut(&rig->host);
    if (rig->host.count == 0)
        loop_stop(rig->loop);
    else
        loop_timer_set(rig->loop, timer, 10);
}

static void begin_end(struct loop_message *message)
{
    struct rig *rig = (struct rig *)((uint8_t *)message - offsetof(struct rig, message));

    rig->look.fire = look;
    look(&rig->look);
}

static int close_rig(void **state)
{
    struct rig *rig = *state;

    rig->message.run = begin_end;
    loop_post(rig->loop, &rig->message);
    pthread_join(rig->thread, NULL);
    http_host_done(&rig->host);
    loop_free(rig->loop);
    return 0;
}

static void open_there(struct loop_message *message)
{
    struct rig *rig = (struct rig *)((uint8_t *)message - offsetof(struct rig, message));

    http_connection_open(&rig->host, &service, rig->fd);
    sem_post(&rig->opened);
}

/* --- the client --- */

static uint64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static int client(struct rig *rig)
{
    struct timeval limit = {.tv_sec = 10};
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    if (rig->kind == LOOP_EPOLL)
        assert_int_equal(fcntl(fds[0], F_SETFL, O_NONBLOCK), 0);
    assert_int_equal(setsockopt(fds[1], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), 0);
    rig->fd = fds[0];
    rig->message.run = open_there;
    loop_post(rig->loop, &rig->message);
    while (sem_wait(&rig->opened) != 0)
        continue;
    return fds[1];
}

static void say(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* What comes until the end, at most size - 1. Returns the milliseconds it took. */
static uint64_t hear(int fd, char *text, size_t size)
{
    uint64_t start_ms = now_ms();
    size_t length = 0;
    ssize_t n;

    do {
        n = recv(fd, text + length, size - 1 - length, 0);
        if (n > 0)
            length += (size_t)n;
        /* The end of an earlier ring may interrupt a receive with a time limit. */
    } while (length < size - 1 && (n > 0 || (n < 0 && errno == EINTR)));
    text[length] = 0;
    return now_ms() - start_ms;
}

static bool begins(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

static void idle_connections_end(void **state)
{
    char text[1000];
    int fd = client(*state);
    uint64_t took_ms;

    say(fd, "GET /text HTTP/1.1\r\nHost: a\r\n\r\n");
    took_ms = hear(fd, text, sizeof(text));
    assert_true(begins(text, "HTTP/1.1 200 OK"));
    assert_true(took_ms >= 400 && took_ms < 1500);
    close(fd);
    fd = client(*state); /* without any request too */
    took_ms = hear(fd, text, sizeof(text));
    assert_string_equal(text, "");
    assert_true(took_ms >= 400 && took_ms < 1500);
    close(fd);
}

static void slow_heads_end_with_408(void **state)
{
    char text[1000];
    int fd = client(*state);

    /* A byte now and then doesn't help: the time is for the whole head. */
    for (unsigned i = 0; i < 6; i++) {
        if (send(fd, &"GET /t"[i], 1, MSG_NOSIGNAL) != 1)
            break;
        usleep(60000);
    }
    (void)hear(fd, text, sizeof(text));
    assert_true(begins(text, "HTTP/1.1 408"));
    close(fd);
}

static void slow_bodies_end_with_408(void **state)
{
    struct rig *rig = *state;
    char text[1000];
    int fd = client(rig);
    uint64_t took_ms;

    say(fd, "PUT /body HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n123");
    usleep(200000);
    say(fd, "456"); /* this does */
    took_ms = hear(fd, text, sizeof(text));
    assert_true(begins(text, "HTTP/1.1 408"));
    assert_true(took_ms >= 250);
    close(fd);
    assert_int_equal(rig->stops, 1);
}

static void bodies_come_in_the_pieces_asked_for(void **state)
{
    char text[1000];
    int fd = client(*state);

    say(fd,
        "PUT /body HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n1234567890"
        "PUT /body HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
        "9\r\n123456789\r\n1\r\n0\r\n0\r\n\r\n");
    (void)hear(fd, text, sizeof(text));
    assert_true(begins(text, "HTTP/1.1 200 OK"));
    assert_non_null(strstr(text + 10, "HTTP/1.1 200 OK"));
    assert_null(strstr(text, "500"));
    close(fd);
}

static void readers_that_do_not_read_are_cut(void **state)
{
    struct rig *rig = *state;
    char *text = malloc(sizeof(rig->large) + 1000);
    int fd = client(rig);

    say(fd, "GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
    usleep(1000000);
    (void)hear(fd, text, sizeof(rig->large) + 1000);
    assert_true(begins(text, "HTTP/1.1 200 OK"));
    close(fd);
    usleep(50000);
    assert_int_equal(rig->stops, 1);
    free(text);
}

static void unread_bodies_are_drained_up_to_a_limit(void **state)
{
    static char block[50000];
    char text[1000];
    int fd = client(*state);

    memset(block, 'x', sizeof(block));
    say(fd, "PUT /text HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999\r\n\r\n");
    assert_int_equal(send(fd, block, sizeof(block), MSG_NOSIGNAL), sizeof(block));
    (void)hear(fd, text, sizeof(text)); /* ends with the half-close, before the limits */
    assert_true(begins(text, "HTTP/1.1 200 OK"));
    assert_non_null(strstr(text, "Connection: close\r\n"));
    for (unsigned i = 0; i < 100; i++) {
        if (send(fd, block, sizeof(block), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
            break;
        usleep(10000);
    }
    usleep(400000);
    assert_int_equal(send(fd, block, sizeof(block), MSG_NOSIGNAL), -1);
    assert_int_equal(errno, EPIPE);
    close(fd);
}

static void a_short_response_is_cut(void **state)
{
    char text[1000];
    int fd = client(*state);

    say(fd, "GET /short HTTP/1.1\r\nHost: a\r\n\r\nGET /text HTTP/1.1\r\nHost: a\r\n\r\n");
    (void)hear(fd, text, sizeof(text));
    assert_null(strstr(text, "text/plain"));
    close(fd);
}

static void idle_ones_give_way_at_the_limit(void **state)
{
    struct rig *rig = *state;
    int fds[3], other;
    char text[1000];

    for (unsigned i = 0; i < 3; i++)
        fds[i] = client(rig);
    say(fds[1], "GET /hang HTTP/1.1\r\nHost: a\r\n\r\n");
    say(fds[2], "GET /hang HTTP/1.1\r\nHost: a\r\n\r\n");
    usleep(20000);
    other = client(rig); /* fds[0] is idle */
    (void)hear(fds[0], text, sizeof(text));
    assert_string_equal(text, "");
    say(other, "GET /hang HTTP/1.1\r\nHost: a\r\n\r\n");
    close(fds[0]);
    usleep(20000);
    fds[0] = client(rig); /* all are busy */
    (void)hear(fds[0], text, sizeof(text));
    assert_true(begins(text, "HTTP/1.1 503"));
    close(other);
    for (unsigned i = 0; i < 3; i++)
        close(fds[i]);
}

/* Whatever allocation fails, the connection ends or answers; the loop goes on. */
static void any_allocation_may_fail(void **state)
{
    struct rig *rig = *state;
    char text[2000];

    for (long countdown = 0; countdown < 12; countdown++) {
        int fd = client(rig);

        mem_fail_after(countdown);
        (void)send(fd, "GET /te", 7, MSG_NOSIGNAL);
        usleep(5000);
        (void)send(fd, "xt HTTP/1.1\r\nHost: a\r\n\r\nPUT /body HTTP/1.1\r\nHost: a\r\n", 54,
            MSG_NOSIGNAL);
        usleep(5000);
        (void)send(
            fd, "Content-Length: 10\r\nConnection: close\r\n\r\n1234567890", 51, MSG_NOSIGNAL);
        (void)hear(fd, text, sizeof(text));
        mem_fail_after(-1);
        close(fd);
    }
}

#define BOTH(test)                                                                                 \
    cmocka_unit_test_setup_teardown(test, open_uring, close_rig),                                  \
        cmocka_unit_test_setup_teardown(test, open_epoll, close_rig)

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(idle_connections_end),
        BOTH(slow_heads_end_with_408),
        BOTH(slow_bodies_end_with_408),
        BOTH(bodies_come_in_the_pieces_asked_for),
        BOTH(readers_that_do_not_read_are_cut),
        BOTH(unread_bodies_are_drained_up_to_a_limit),
        BOTH(a_short_response_is_cut),
        BOTH(idle_ones_give_way_at_the_limit),
        BOTH(any_allocation_may_fail),
    };

    return cmocka_run_group_tests_name("http_connection", tests, NULL, NULL);
}
