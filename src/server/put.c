/* PUT of an object.

   What can be refused is refused before a byte of the body is asked for. A body of up to 4 MiB is
   collected in memory, as it comes, and handed to the log in one call on a pool thread; the log's
   committer then says when it is durable. A longer one, or one whose length is not known and that
   outgrows a piece, goes through a writer: a piece is collected, written by a pool thread while the
   connection waits, and so on, so an upload takes constant memory.

   The memory of all uploads is reserved from one budget before they begin. Who finds too little
   waits, not reading from the client, and is told 503 in the end. When the client goes away nothing
   shows under the key: the writer is aborted, on the pool as well. */
#include "server/server_priv.h"

#include <errno.h>
#include <string.h>

#include "base/md5.h"
#include "base/mem.h"

#define PIECE_BYTES     (1u << 20)
#define FIRST_BYTES     (16u << 10)
#define WRITER_BYTES    (2 * SHOAL_CHUNK_BYTES) /* what a writer keeps for itself, at most */
#define BUDGET_WAIT_MS  10000
#define BUDGET_RETRY_MS 50
#define JOB_RETRY_MS    50

struct put_state {
    struct object_name name; /* first */
    struct exchange *x;
    struct server_job job;
    struct loop_timer retry; /* for budget, or for a place in the pool's queue */
    uint64_t give_up_ms;
    uint8_t *buffer;
    size_t length, capacity, limit; /* limit: when it is full a piece is written */
    long long reserved_bytes;
    struct shoal_writer *writer;
    int code;
    bool whole; /* all of the body lies in the buffer: one call */
    bool last; /* the body's end has come */
    bool working; /* a job is under way: buffer and writer are its */
    bool gone;
    uint8_t md5[16];
    char content_type[SHOAL_TYPE_MAX + 1];
};

_Static_assert(sizeof(struct put_state) <= EXCHANGE_STATE_BYTES, "the state must fit");

static struct put_state *put_of(struct server_job *job)
{
    return (struct put_state *)((uint8_t *)job - offsetof(struct put_state, job));
}

static struct put_state *put_of_timer(struct loop_timer *timer)
{
    return (struct put_state *)((uint8_t *)timer - offsetof(struct put_state, retry));
}

/* --- budget and buffer --- */

static bool reserve(struct put_state *put, long long bytes)
{
    if (!memory_reserve(server_of(put->x), bytes))
        return false;
    put->reserved_bytes = bytes;
    return true;
}

/* On any thread that has the buffer. */
static void drop_buffer(struct put_state *put)
{
    mem_free(put->buffer);
    put->buffer = NULL;
    put->length = put->capacity = 0;
    memory_return(server_of(put->x), put->reserved_bytes);
    put->reserved_bytes = 0;
}

/* Doubles, so that an announced length alone takes no memory. */
static bool grow(struct put_state *put, size_t length)
{
    size_t capacity = put->capacity > 0 ? put->capacity : FIRST_BYTES;
    uint8_t *buffer;

    if (length <= put->capacity)
        return true;
    while (capacity < length)
        capacity *= 2;
    if (capacity > put->limit)
        capacity = put->limit;
    buffer = mem_resize(put->buffer, capacity);
    if (buffer == NULL)
        return false;
    put->buffer = buffer;
    put->capacity = capacity;
    return true;
}

/* --- the end --- */

static void answer(struct put_state *put)
{
    struct exchange *x = put->x;
    char tag[35];

    if (put->code != 0) {
        answer_code(x, put->code, put->name.bucket, put->name.key, put->name.key_length);
        return;
    }
    tag[0] = '"';
    md5_hex(put->md5, tag + 1);
    tag[33] = '"';
    exchange_begin(x, 200);
    exchange_field_bytes(x, "ETag", tag, 34);
    exchange_body(x, 0);
    exchange_finish(x);
}

static void abort_writer(struct put_state *put);

static void abort_again(struct loop_timer *timer)
{
    worker_of(put_of_timer(timer)->x)->pending--;
    abort_writer(put_of_timer(timer));
}

static void abort_work(struct server_job *job)
{
    struct put_state *put = put_of(job);

    shoal_writer_abort(put->writer);
    put->writer = NULL;
}

static void abort_done(struct server_job *job)
{
    struct put_state *put = put_of(job);

    drop_buffer(put);
    exchange_release(put->x);
}

/* The exchange is held. The abort writes to the log, so it needs the pool too. */
static void abort_writer(struct put_state *put)
{
    struct worker *worker = worker_of(put->x);

    if (job_submit(worker, &put->job, abort_work, abort_done) == 0)
        return;
    worker->pending++; /* the loop must not end before it is done */
    put->retry.fire = abort_again;
    loop_timer_set(worker->loop, &put->retry, JOB_RETRY_MS);
}

/* Lets go of everything; the exchange lives as long as the writer. */
static void let_go(struct put_state *put)
{
    loop_timer_done(&put->retry);
    if (put->writer == NULL) {
        drop_buffer(put);
        return;
    }
    exchange_hold(put->x);
    abort_writer(put);
}

static void fail(struct put_state *put, int code)
{
    put->code = code;
    let_go(put);
    answer(put);
}

/* --- on the pool --- */

static struct shoal_attrs attrs_of(const struct put_state *put)
{
    return (struct shoal_attrs){
        .content_type = put->content_type[0] != 0 ? put->content_type : NULL};
}

/* On the committer's thread. */
static void committed(void *arg, int code, const struct shoal_stat *stat)
{
    struct put_state *put = arg;

    put->code = code;
    if (code == 0)
        memcpy(put->md5, stat->md5, sizeof(put->md5));
    job_part_done(&put->job);
}

static void put_work(struct server_job *job)
{
    struct put_state *put = put_of(job);
    struct shoal_attrs attrs = attrs_of(put);
    int rc;

    job_add_part(job);
    rc = shoal_put_start(server_of(put->x)->store, put->name.bucket, put->name.key,
        put->name.key_length, put->buffer != NULL ? put->buffer : (const uint8_t *)"", put->length,
        &attrs, committed, put);
    drop_buffer(put); /* the log has its copy */
    if (rc != 0) {
        put->code = rc;
        job_part_done(job);
    }
}

static void commit_work(struct put_state *put)
{
    struct shoal_stat stat;
    int rc = shoal_writer_commit(put->writer, &stat);

    put->writer = NULL;
    put->code = rc;
    if (rc == 0)
        memcpy(put->md5, stat.md5, sizeof(put->md5));
}

static void piece_work(struct server_job *job)
{
    struct put_state *put = put_of(job);
    struct shoal_attrs attrs = attrs_of(put);
    int rc = 0;

    if (put->writer == NULL)
        rc = shoal_writer_open(server_of(put->x)->store, put->name.bucket, put->name.key,
            put->name.key_length, &attrs, &put->writer);
    if (rc == 0 && put->length > 0)
        rc = shoal_writer_write(put->writer, put->buffer, put->length);
    put->length = 0;
    put->code = rc;
    if (rc == 0 && put->last)
        commit_work(put);
}

/* --- back on the loop --- */

static void want_more(struct put_state *put)
{
    exchange_want_body(put->x, put->limit - put->length);
}

static void work_done(struct server_job *job)
{
    struct put_state *put = put_of(job);
    struct exchange *x = put->x;

    put->working = false;
    if (put->gone || exchange_is_gone(x)) {
        if (put->gone)
            let_go(put); /* otherwise stop is still to come */
    } else if (put->code != 0) {
        fail(put, put->code);
    } else if (put->last) {
        drop_buffer(put);
        answer(put);
    } else {
        want_more(put);
    }
    exchange_release(x);
}

static void submit(struct put_state *put);

static void submit_again(struct loop_timer *timer)
{
    submit(put_of_timer(timer));
}

static void submit(struct put_state *put)
{
    struct worker *worker = worker_of(put->x);
    int rc = job_submit(worker, &put->job, put->whole ? put_work : piece_work, work_done);

    if (rc == 0) {
        put->working = true;
        exchange_hold(put->x);
    } else if (put->writer != NULL) {
        /* An upload that has come so far waits; a new one is refused. */
        put->retry.fire = submit_again;
        loop_timer_set(worker->loop, &put->retry, JOB_RETRY_MS);
    } else {
        fail(put, rc);
    }
}

/* --- the body --- */

static void body(struct exchange *x, const uint8_t *bytes, size_t length, bool last)
{
    struct put_state *put = (struct put_state *)x->state;

    if (!grow(put, put->length + length)) {
        fail(put, -ENOMEM);
        return;
    }
    if (length > 0)
        memcpy(put->buffer + put->length, bytes, length);
    put->length += length;
    put->last = last;
    if (!last && put->length < put->limit)
        return;
    put->whole = last && put->writer == NULL;
    submit(put);
}

static void stop(struct exchange *x)
{
    struct put_state *put = (struct put_state *)x->state;

    put->gone = true;
    if (!put->working)
        let_go(put);
}

static const struct exchange_events events = {.body = body, .stop = stop};

static void begin(struct put_state *put)
{
    if (exchange_has_body(put->x)) {
        want_more(put);
        return;
    }
    put->last = put->whole = true;
    submit(put);
}

static long long needed_bytes(const struct put_state *put)
{
    const struct http_head *head = &put->x->head;

    return !head->chunked && head->content_length <= SHOAL_CHUNK_BYTES
               ? (long long)head->content_length
               : (long long)PIECE_BYTES + WRITER_BYTES;
}

static void try_begin(struct loop_timer *timer)
{
    struct put_state *put = put_of_timer(timer);
    struct loop *loop = worker_of(put->x)->loop;

    if (reserve(put, needed_bytes(put)))
        begin(put);
    else if (loop_now_ms(loop) >= put->give_up_ms)
        fail(put, -EBUSY);
    else
        loop_timer_set(loop, &put->retry, BUDGET_RETRY_MS);
}

/* --- refusals --- */

/* 0, or the status to answer: what the store could not keep as it is meant. */
static int check_fields(const struct exchange *x, const char **ret_text)
{
    const uint8_t *coding;
    size_t length = 0;

    if (x->head.counts[HTTP_CONTENT_RANGE] > 0) {
        *ret_text = "a part of an object can't be put";
        return 400;
    }
    if (x->head.counts[HTTP_IF_MATCH] + x->head.counts[HTTP_IF_NONE_MATCH] +
            x->head.counts[HTTP_IF_UNMODIFIED_SINCE] >
        0) {
        *ret_text = "conditional writes are not supported";
        return 501;
    }
    coding = exchange_request_field(x, HTTP_CONTENT_ENCODING, &length);
    if (x->head.counts[HTTP_CONTENT_ENCODING] > 0 &&
        (coding == NULL || !http_equals(coding, length, "identity"))) {
        *ret_text = "the store keeps no content codings: send the plain bytes";
        return 415;
    }
    (void)exchange_request_field(x, HTTP_CONTENT_TYPE, &length);
    if (x->head.counts[HTTP_CONTENT_TYPE] > 1 || length > SHOAL_TYPE_MAX) {
        *ret_text = "the content type is given twice or over 255 bytes long";
        return 400;
    }
    return 0;
}

void put_object(struct exchange *x)
{
    struct put_state *put = (struct put_state *)x->state;
    const uint8_t *type;
    const char *text = NULL;
    struct key key;
    size_t length = 0;
    int rc = object_key(put->name.bucket, put->name.key, put->name.key_length, &key);
    int status = check_fields(x, &text);

    if (status != 0) {
        exchange_reply(x, status, text);
        return;
    }
    if (rc == 0 && x->head.content_length > SHOAL_OBJECT_MAX)
        rc = SHOAL_E_TOO_LARGE;
    if (rc != 0) {
        answer_code(x, rc, put->name.bucket, put->name.key, put->name.key_length);
        return;
    }
    memset((uint8_t *)put + sizeof(put->name), 0, sizeof(*put) - sizeof(put->name));
    put->x = x;
    type = exchange_request_field(x, HTTP_CONTENT_TYPE, &length);
    if (type != NULL)
        memcpy(put->content_type, type, length);
    put->limit = !x->head.chunked && x->head.content_length <= SHOAL_CHUNK_BYTES
                     ? (size_t)x->head.content_length
                     : PIECE_BYTES;
    x->events = &events;
    put->retry.fire = try_begin;
    put->give_up_ms = loop_now_ms(worker_of(x)->loop) + BUDGET_WAIT_MS;
    try_begin(&put->retry);
}
