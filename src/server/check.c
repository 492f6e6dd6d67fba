/* POST /check on the admin socket: verifies the whole store and streams what it finds.

   A thread of its own runs the check, which may take hours, and writes lines into a queue of
   bounded size; it waits while the queue is full, and the loop sends what is there. When the client
   goes away the check can't be broken off, but from then on its findings are dropped at once. One
   check at a time; a server that stops does not wait for it (server.c).

   {"file": …, "offset": …, "text": …, "key": "bucket\u0000key"} for each finding, at the end
   {"records": …, "objects": …, "bytes": …, "damaged": …} or {"error": …, "code": …}. */
#include "server/socket.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "server/server_priv.h"

#define QUEUE_BYTES (64u << 10)

/* Freed when both the thread and the exchange have let go of it. */
struct check {
    struct server *server;
    struct worker *worker;
    struct exchange *x; /* the loop's; NULL once the client is gone */
    struct loop_message message;
    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t room;
    struct text lines; /* written, not yet taken by the loop */
    bool posted; /* the message is under way */
    bool over; /* the thread will write no more */
    bool gone; /* nobody reads */
    struct text sending; /* the loop's */
};

struct check_state {
    struct check *check;
};

/* --- the thread's side --- */

static void add_line(struct check *check, struct text *line)
{
    pthread_mutex_lock(&check->lock);
    while (check->lines.length >= QUEUE_BYTES && !check->gone)
        pthread_cond_wait(&check->room, &check->lock);
    if (!check->gone) {
        text_add(&check->lines, line->bytes, line->length);
        if (!check->posted)
            loop_post(check->worker->loop, &check->message);
        check->posted = true;
    }
    pthread_mutex_unlock(&check->lock);
    text_done(line);
}

static void found(void *arg, const struct shoal_finding *finding)
{
    struct text line = {0};
    const char *file = finding->file != NULL ? finding->file : "";

    text_addf(&line, "{\"file\": ");
    text_add_json(&line, file, strlen(file));
    text_addf(&line, ", \"offset\": %llu, \"text\": ", (unsigned long long)finding->offset);
    text_add_json(&line, finding->text, strlen(finding->text));
    if (finding->key != NULL) {
        text_addf(&line, ", \"key\": ");
        text_add_json(&line, finding->key, finding->key_length);
    }
    text_addf(&line, "}\n");
    add_line(arg, &line);
}

static void add_result(struct check *check, int rc, const struct shoal_check_report *report)
{
    struct text line = {0};

    if (rc != 0) {
        text_addf(&line, "{\"error\": ");
        text_add_json(&line, shoal_strerror(rc), strlen(shoal_strerror(rc)));
        text_addf(&line, ", \"code\": %d}\n", rc);
    } else {
        text_addf(&line,
            "{\"records\": %llu, \"objects\": %llu, \"bytes\": %llu, \"damaged\": %llu}\n",
            (unsigned long long)report->records, (unsigned long long)report->objects,
            (unsigned long long)report->bytes, (unsigned long long)report->damaged);
    }
    add_line(check, &line);
}

static void *run(void *arg)
{
    struct check *check = arg;
    struct shoal_check_report report;

    memset(&report, 0, sizeof(report));
    add_result(check, shoal_check(check->server->store, found, NULL, check, &report), &report);
    pthread_mutex_lock(&check->lock);
    check->over = true;
    if (!check->posted)
        loop_post(check->worker->loop, &check->message);
    check->posted = true;
    pthread_mutex_unlock(&check->lock);
    return NULL;
}

/* --- the loop's side --- */

static void check_free(struct check *check)
{
    atomic_store(&check->server->checking, false);
    check->worker->pending--;
    text_done(&check->lines);
    text_done(&check->sending);
    pthread_cond_destroy(&check->room);
    pthread_mutex_destroy(&check->lock);
    mem_free(check);
}

/* Sends what is there. */
static void send_lines(struct check *check)
{
    struct exchange *x = check->x;
    bool over, failed;

    do {
        text_done(&check->sending);
        pthread_mutex_lock(&check->lock);
        check->sending = check->lines;
        memset(&check->lines, 0, sizeof(check->lines));
        over = check->over;
        pthread_cond_signal(&check->room);
        pthread_mutex_unlock(&check->lock);
        failed = check->sending.failed;
        if (failed)
            break;
        if (check->sending.length > 0 &&
            exchange_send(x, check->sending.bytes, check->sending.length) == 0)
            return; /* on with proceed */
    } while (check->sending.length > 0);
    if (failed) {
        exchange_cut(x); /* stop follows */
    } else if (over) {
        check->x = NULL;
        exchange_finish(x);
        check_free(check);
    } else {
        exchange_flush(x);
    }
}

static void arrived(struct loop_message *message)
{
    struct check *check = (struct check *)((uint8_t *)message - offsetof(struct check, message));
    bool over;

    pthread_mutex_lock(&check->lock);
    check->posted = false;
    over = check->over;
    pthread_mutex_unlock(&check->lock);
    if (check->x == NULL) {
        if (over)
            check_free(check);
        return;
    }
    if (check->sending.length == 0)
        send_lines(check); /* otherwise proceed does */
}

static void proceed(struct exchange *x)
{
    struct check *check = ((struct check_state *)x->state)->check;

    text_done(&check->sending);
    send_lines(check);
}

static void stop(struct exchange *x)
{
    struct check *check = ((struct check_state *)x->state)->check;
    bool free_now;

    check->x = NULL;
    pthread_mutex_lock(&check->lock);
    check->gone = true;
    free_now = check->over && !check->posted;
    pthread_cond_signal(&check->room);
    pthread_mutex_unlock(&check->lock);
    if (free_now)
        check_free(check);
}

static const struct exchange_events events = {.proceed = proceed, .stop = stop};

static int start(struct check *check)
{
    pthread_attr_t attributes;
    pthread_t thread;
    int rc = -pthread_attr_init(&attributes);

    if (rc != 0)
        return rc;
    (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED); /* a valid value */
    rc = -pthread_create(&thread, &attributes, run, check);
    pthread_attr_destroy(&attributes);
    return rc;
}

void check_run(struct exchange *x)
{
    struct server *server = server_of(x);
    struct check *check;

    if (atomic_exchange(&server->checking, true)) {
        socket_refuse(x, 409, "a check is running already");
        return;
    }
    check = mem_zero(1, sizeof(*check));
    if (check == NULL) {
        atomic_store(&server->checking, false);
        socket_refuse(x, 503, shoal_strerror(-ENOMEM));
        return;
    }
    check->server = server;
    check->worker = worker_of(x);
    check->worker->pending++;
    check->message.run = arrived;
    /* Default attributes on Linux: these can't fail. */
    (void)pthread_mutex_init(&check->lock, NULL);
    (void)pthread_cond_init(&check->room, NULL);
    if (start(check) != 0) {
        check_free(check);
        socket_refuse(x, 503, "no thread can be started for it");
        return;
    }
    check->x = x;
    ((struct check_state *)x->state)->check = check;
    x->events = &events;
    exchange_begin(x, 200);
    exchange_field(x, "Content-Type", "application/x-ndjson");
    exchange_body(x, EXCHANGE_LENGTH_UNKNOWN);
}
