/* The loop in both kinds: timers, messages from other threads, file reads, streams. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/loop.h"
#include "net/stream.h"

struct rig {
    struct loop *loop;
    enum loop_kind kind;
};

/* Loops run on the thread of the test. Where io_uring is forbidden epoll is tested twice, as it is
   used there. */
static int open_rig(void **state, enum loop_kind kind)
{
    static struct rig rig;

    rig.kind = kind;
    if (loop_new(kind, &rig.loop) != 0) {
        rig.kind = LOOP_EPOLL;
        if (loop_new(LOOP_EPOLL, &rig.loop) != 0)
            return -1;
    }
    *state = &rig;
    return 0;
}

static int open_uring(void **state)
{
    return open_rig(state, LOOP_URING);
}

static int open_epoll(void **state)
{
    return open_rig(state, LOOP_EPOLL);
}

static int close_rig(void **state)
{
    loop_free(((struct rig *)*state)->loop);
    return 0;
}

/* --- timers --- */

struct test_timer {
    struct loop_timer timer; /* first */
    struct loop *loop;
    struct test_timer *other;
    uint64_t set_ms, fired_ms;
    unsigned fired;
    bool last;
};

static void note_fire(struct loop_timer *timer)
{
    struct test_timer *test = (struct test_timer *)timer;

    test->fired++;
    test->fired_ms = loop_now_ms(test->loop);
    if (test->other != NULL)
        loop_timer_done(&test->other->timer);
    if (test->last)
        loop_stop(test->loop);
}

static void timers_fire_in_time(void **state)
{
    struct rig *rig = *state;
    struct test_timer timers[6] = {0};
    static const unsigned after_ms[6] = {100, 300, 10, 200, 200, 600};
    uint64_t start_ms = loop_now_ms(rig->loop);

    for (unsigned i = 0; i < 6; i++) {
        timers[i].loop = rig->loop;
        timers[i].timer.fire = note_fire;
        loop_timer_set(rig->loop, &timers[i].timer, after_ms[i]);
    }
    loop_timer_set(rig->loop, &timers[1].timer, 150); /* earlier */
    loop_timer_set(rig->loop, &timers[2].timer, 400); /* later */
    loop_timer_cancel(&timers[3].timer);
    timers[0].other = &timers[4]; /* ended by another's callback */
    timers[5].last = true;
    assert_int_equal(loop_run(rig->loop), 0);
    for (unsigned i = 0; i < 6; i++)
        assert_int_equal(timers[i].fired, i != 3 && i != 4);
    assert_true(timers[0].fired_ms - start_ms >= 100);
    assert_true(timers[1].fired_ms - start_ms >= 150);
    assert_true(timers[1].fired_ms < timers[2].fired_ms);
    assert_true(timers[2].fired_ms - start_ms >= 400);
    assert_true(timers[5].fired_ms - start_ms < 1500);
}

/* --- messages --- */

#define POSTERS  4
#define MESSAGES 2000

struct test_message {
    struct loop_message message; /* first */
    struct post_test *test;
    unsigned poster, number;
};

struct post_test {
    struct loop *loop;
    struct test_message messages[POSTERS][MESSAGES];
    unsigned next[POSTERS];
    unsigned total;
    bool in_order;
};

static void take_message(struct loop_message *message)
{
    struct test_message *posted = (struct test_message *)message;
    struct post_test *test = posted->test;

    if (posted->number != test->next[posted->poster]++)
        test->in_order = false;
    if (++test->total == POSTERS * MESSAGES)
        loop_stop(test->loop);
}

static void *post_all(void *arg)
{
    struct test_message *messages = arg;

    for (unsigned i = 0; i < MESSAGES; i++)
        loop_post(messages[i].test->loop, &messages[i].message);
    return NULL;
}

static void messages_keep_their_order(void **state)
{
    struct rig *rig = *state;
    struct post_test *test = calloc(1, sizeof(*test));
    pthread_t threads[POSTERS];

    test->loop = rig->loop;
    test->in_order = true;
    for (unsigned i = 0; i < POSTERS; i++) {
        for (unsigned j = 0; j < MESSAGES; j++)
            test->messages[i][j] = (struct test_message){{NULL, take_message}, test, i, j};
        assert_int_equal(pthread_create(&threads[i], NULL, post_all, test->messages[i]), 0);
    }
    assert_int_equal(loop_run(rig->loop), 0);
    for (unsigned i = 0; i < POSTERS; i++)
        pthread_join(threads[i], NULL);
    assert_true(test->in_order);
    free(test);
}

/* --- file reads --- */

struct test_read {
    struct file_read read; /* first */
    int64_t result;
};

static void note_read(struct file_read *read, int64_t result)
{
    ((struct test_read *)read)->result = result;
    loop_stop(read->loop);
}

static void reads_files(void **state)
{
    struct rig *rig = *state;
    char path[] = "/tmp/shoal-net-loop-XXXXXX";
    int fd = mkstemp(path);
    char buffer[100];
    struct test_read test = {.read = {.done = note_read}, .result = 1};
    int64_t rc;

    unlink(path);
    assert_int_equal(write(fd, "0123456789", 10), 10);
    rc = file_read_start(rig->loop, &test.read, fd, buffer, sizeof(buffer), 4);
    if (rc == -EAGAIN) {
        assert_int_equal(loop_run(rig->loop), 0);
        rc = test.result;
    }
    assert_int_equal(rc, 6);
    assert_memory_equal(buffer, "456789", 6);
    close(fd);
    rc = file_read_start(rig->loop, &test.read, fd, buffer, sizeof(buffer), 0);
    assert_int_equal(rc, -EBADF);
}

/* --- streams --- */

struct test_stream {
    struct stream stream; /* first */
    uint8_t *bytes;
    size_t length, limit; /* takes at most limit at a time */
    bool paused;
    unsigned pauses;
    int end_code, sent_code;
    bool ended, closed, sent;
    struct loop_timer timer;
};

static size_t take(struct stream *stream, const uint8_t *bytes, size_t length)
{
    struct test_stream *test = (struct test_stream *)stream;

    if (test->paused)
        return 0;
    if (length > test->limit)
        length = test->limit;
    memcpy(test->bytes + test->length, bytes, length);
    test->length += length;
    if (test->limit < SIZE_MAX && ++test->pauses % 7 == 0) {
        test->paused = true; /* for a tick */
        loop_timer_set(stream->loop, &test->timer, 1);
    } else {
        stream_resume(stream);
    }
    return length;
}

static void go_on(struct loop_timer *timer)
{
    struct test_stream *test =
        (struct test_stream *)((uint8_t *)timer - offsetof(struct test_stream, timer));

    test->paused = false;
    stream_resume(&test->stream);
}

static void note_end(struct stream *stream, int code)
{
    struct test_stream *test = (struct test_stream *)stream;

    test->ended = true;
    test->end_code = code;
    stream_close(stream);
}

static void note_progress(struct stream *stream)
{
    (void)stream;
}

static void note_sent(struct stream *stream, int code)
{
    struct test_stream *test = (struct test_stream *)stream;

    test->sent = true;
    test->sent_code = code;
    stream_drain(stream, 1 << 20);
}

static void note_closed(struct stream *stream)
{
    struct test_stream *test = (struct test_stream *)stream;

    test->closed = true;
    loop_timer_done(&test->timer);
    loop_stop(stream->loop);
}

static const struct stream_events events = {
    .received = take,
    .ended = note_end,
    .progress = note_progress,
    .sent = note_sent,
    .closed = note_closed,
};

#define PATTERN_BYTES (3u << 20)

static uint8_t pattern(size_t at)
{
    return (uint8_t)(at * 31 + (at >> 9));
}

static void *send_pattern(void *arg)
{
    int fd = *(int *)arg;
    uint8_t *bytes = malloc(PATTERN_BYTES);

    for (size_t i = 0; i < PATTERN_BYTES; i++)
        bytes[i] = pattern(i);
    for (size_t at = 0; at < PATTERN_BYTES;) {
        ssize_t n = send(fd, bytes + at, PATTERN_BYTES - at, MSG_NOSIGNAL);

        if (n <= 0)
            break;
        at += (size_t)n;
    }
    shutdown(fd, SHUT_WR);
    free(bytes);
    return NULL;
}

static void *receive_pattern(void *arg)
{
    int fd = *(int *)arg;
    uint8_t bytes[5000];
    size_t at = 0;
    ssize_t n;

    while ((n = recv(fd, bytes, sizeof(bytes), 0)) > 0) {
        for (ssize_t i = 0; i < n; i++) {
            if (bytes[i] != pattern(at++))
                abort();
        }
    }
    if (at != PATTERN_BYTES)
        abort();
    shutdown(fd, SHUT_WR);
    return NULL;
}

static void open_pair(struct rig *rig, int fds[2])
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    if (rig->kind == LOOP_EPOLL) /* the other end is a thread's and blocks */
        assert_int_equal(fcntl(fds[0], F_SETFL, O_NONBLOCK), 0);
}

static void receive_with_limit(struct rig *rig, size_t limit)
{
    struct test_stream test = {.limit = limit, .bytes = malloc(PATTERN_BYTES)};
    pthread_t thread;
    int fds[2];

    test.timer.fire = go_on;
    open_pair(rig, fds);
    assert_int_equal(stream_open(rig->loop, &test.stream, fds[0], &events), 0);
    assert_int_equal(pthread_create(&thread, NULL, send_pattern, &fds[1]), 0);
    assert_int_equal(loop_run(rig->loop), 0);
    pthread_join(thread, NULL);
    close(fds[1]);
    assert_true(test.ended && test.closed);
    assert_int_equal(test.end_code, 0);
    assert_int_equal(test.length, PATTERN_BYTES);
    for (size_t i = 0; i < PATTERN_BYTES; i++)
        assert_int_equal(test.bytes[i], pattern(i));
    free(test.bytes);
}

static void receives_all(void **state)
{
    receive_with_limit(*state, SIZE_MAX);
}

static void receives_all_though_it_pauses(void **state)
{
    receive_with_limit(*state, 30000);
}

static void sends_two_pieces_and_drains(void **state)
{
    struct rig *rig = *state;
    struct test_stream test = {.limit = SIZE_MAX};
    uint8_t *bytes = malloc(PATTERN_BYTES);
    struct iovec pieces[2] = {{bytes, 1000}, {bytes + 1000, PATTERN_BYTES - 1000}};
    pthread_t thread;
    int fds[2], rc;

    for (size_t i = 0; i < PATTERN_BYTES; i++)
        bytes[i] = pattern(i);
    open_pair(rig, fds);
    assert_int_equal(stream_open(rig->loop, &test.stream, fds[0], &events), 0);
    assert_int_equal(pthread_create(&thread, NULL, receive_pattern, &fds[1]), 0);
    rc = stream_send(&test.stream, pieces, 2);
    assert_true(rc == 0 || rc == 1);
    if (rc == 0)
        stream_drain(&test.stream, 1 << 20);
    assert_int_equal(loop_run(rig->loop), 0);
    pthread_join(thread, NULL);
    close(fds[1]);
    assert_true(test.ended && test.closed && (rc == 0 || test.sent));
    assert_int_equal(test.sent_code, 0);
    free(bytes);
}

static void closing_with_a_blocked_send(void **state)
{
    struct rig *rig = *state;
    struct test_stream test = {.limit = SIZE_MAX};
    uint8_t *bytes = calloc(1, PATTERN_BYTES);
    struct iovec piece = {bytes, PATTERN_BYTES};
    int fds[2];

    open_pair(rig, fds);
    assert_int_equal(stream_open(rig->loop, &test.stream, fds[0], &events), 0);
    assert_int_equal(stream_send(&test.stream, &piece, 1), 1);
    stream_close(&test.stream);
    assert_false(test.closed);
    assert_int_equal(loop_run(rig->loop), 0);
    assert_true(test.closed && !test.sent && !test.ended);
    close(fds[1]);
    free(bytes);
}

#define BOTH(test)                                                                                 \
    cmocka_unit_test_setup_teardown(test, open_uring, close_rig),                                  \
        cmocka_unit_test_setup_teardown(test, open_epoll, close_rig)

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(timers_fire_in_time),
        BOTH(messages_keep_their_order),
        BOTH(reads_files),
        BOTH(receives_all),
        BOTH(receives_all_though_it_pauses),
        BOTH(sends_two_pieces_and_drains),
        BOTH(closing_with_a_blocked_send),
    };

    return cmocka_run_group_tests_name("net_loop", tests, NULL, NULL);
}
