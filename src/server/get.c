/* GET and HEAD of an object.

   The object is looked up in RAM and read through store/read.h, mostly with one read that the page
   cache answers at once: then everything happens inside the callback that received the request,
   and the payload is copied behind the head. Otherwise the read is under way in the loop and the
   exchange is held until it comes back.

   The first piece is verified before the head is sent, so damage there is a 500 that names the
   object; damage further on can only cut the connection. A large object goes out piece by piece
   from one buffer: the next read begins when the last piece has left. Buffers are limited; who
   finds none waits in line. */
#include "server/server_priv.h"

#include <errno.h>
#include <string.h>

#include "base/md5.h"
#include "base/mem.h"
#include "http/conditions.h"
#include "http/date.h"

#define FREE_BUFFERS_MAX 64

struct get_state {
    struct object_name name; /* first */
    struct exchange *x;
    struct key key;
    struct object_read read;
    struct file_read io;
    struct fetch_buffer *buffer;
    struct get_state *next_waiting;
    uint64_t at, end; /* of what is to be sent */
    struct http_range range;
    bool found, reading, waiting, answered, partial;
    int pending_rc;
};

_Static_assert(sizeof(struct get_state) <= EXCHANGE_STATE_BYTES, "the state must fit");

static void go_on(struct get_state *get, int rc);

/* --- buffers --- */

static struct fetch_buffer *take_buffer(struct worker *worker)
{
    struct fetch_buffer *buffer = worker->free_buffers;

    if (buffer != NULL) {
        worker->free_buffers = buffer->next_free;
        worker->free_buffer_count--;
        return buffer;
    }
    if (worker->buffer_count >= FETCH_BUFFERS)
        return NULL;
    buffer = mem_aligned(64, sizeof(*buffer));
    if (buffer != NULL)
        worker->buffer_count++;
    return buffer;
}

static void give_buffer(struct worker *worker, struct fetch_buffer *buffer)
{
    if (worker->free_buffer_count >= FREE_BUFFERS_MAX) {
        mem_free(buffer);
        worker->buffer_count--;
    } else {
        buffer->next_free = worker->free_buffers;
        worker->free_buffers = buffer;
        worker->free_buffer_count++;
    }
    if (worker->first_waiting != NULL)
        get_wake_waiting(worker);
}

static void drop_buffer(struct get_state *get)
{
    struct fetch_buffer *buffer = get->buffer;

    get->buffer = NULL;
    if (buffer != NULL)
        give_buffer(worker_of(get->x), buffer);
}

static void wait_for_buffer(struct get_state *get)
{
    struct worker *worker = worker_of(get->x);

    get->waiting = true;
    get->next_waiting = NULL;
    if (worker->first_waiting == NULL)
        worker->first_waiting = get;
    else
        worker->last_waiting->next_waiting = get;
    worker->last_waiting = get;
}

static void stop_waiting(struct get_state *get)
{
    struct worker *worker = worker_of(get->x);
    struct get_state *previous = NULL;

    for (struct get_state *at = worker->first_waiting; at != NULL; at = at->next_waiting) {
        if (at == get) {
            if (previous != NULL)
                previous->next_waiting = get->next_waiting;
            else
                worker->first_waiting = get->next_waiting;
            if (worker->last_waiting == get)
                worker->last_waiting = previous;
            break;
        }
        previous = at;
    }
    get->waiting = false;
}

void get_wake_waiting(struct worker *worker)
{
    struct get_state *get = worker->first_waiting;

    if (get == NULL)
        return;
    get->buffer = take_buffer(worker);
    if (get->buffer == NULL)
        return;
    stop_waiting(get);
    go_on(get, OBJECT_READ_MORE);
}

void get_free_buffers(struct worker *worker)
{
    struct fetch_buffer *buffer;

    while ((buffer = worker->free_buffers) != NULL) {
        worker->free_buffers = buffer->next_free;
        mem_free(buffer);
    }
}

/* --- the answer --- */

static void fail(struct get_state *get, int code)
{
    struct exchange *x = get->x;

    drop_buffer(get);
    if (get->answered)
        exchange_cut(x);
    else
        answer_code(x, code, get->name.bucket, get->name.key, get->name.key_length);
}

static bool is_visible(const char *type)
{
    for (; *type != 0; type++) {
        if ((uint8_t)*type < ' ' || *type == 0x7f)
            return false;
    }
    return true;
}

/* Types that a browser would run scripts from. */
static bool is_active(const char *type)
{
    static const char *const active[] = {"image/svg", "text/html", "application/xhtml", "text/xml",
        "application/xml", "text/xsl", "application/rdf", "application/mathml"};
    size_t length = strcspn(type, "; \t");

    for (size_t i = 0; i < sizeof(active) / sizeof(active[0]); i++) {
        if (strncasecmp(type, active[i], strlen(active[i])) == 0)
            return true;
    }
    return length >= 4 && strncasecmp(type + length - 4, "+xml", 4) == 0;
}

static void add_type(struct get_state *get)
{
    const char *type = get->read.stat.content_type;

    if (*type == 0 || !is_visible(type))
        type = "application/octet-stream";
    exchange_field(get->x, "Content-Type", type);
    if (!get->name.is_public)
        return;
    exchange_field(get->x, "X-Content-Type-Options", "nosniff");
    if (is_active(type))
        exchange_field(get->x, "Content-Security-Policy",
            "sandbox; default-src 'none'; img-src 'self' data:; style-src 'unsafe-inline'");
}

static void add_validators(struct get_state *get, const struct http_validators *validators)
{
    char tag[sizeof(validators->etag) + 2], date[HTTP_DATE_BYTES];

    tag[0] = tag[sizeof(tag) - 1] = '"';
    memcpy(tag + 1, validators->etag, sizeof(validators->etag));
    exchange_field_bytes(get->x, "ETag", tag, sizeof(tag));
    http_date_format(validators->mtime_s, date);
    exchange_field_bytes(get->x, "Last-Modified", date, sizeof(date));
}

static void validators_of(const struct shoal_stat *stat, struct http_validators *ret_validators)
{
    char hex[33];

    md5_hex(stat->md5, hex);
    memcpy(ret_validators->etag, hex, sizeof(ret_validators->etag));
    ret_validators->mtime_s = stat->mtime_ns / 1000000000;
    if (stat->mtime_ns % 1000000000 < 0)
        ret_validators->mtime_s--;
}

static void begin_answer(struct get_state *get, const struct http_validators *validators)
{
    struct exchange *x = get->x;
    uint64_t size = get->read.stat.size_bytes;

    get->answered = true;
    exchange_begin(x, get->partial ? 206 : 200);
    add_type(get);
    add_validators(get, validators);
    exchange_field(x, "Accept-Ranges", "bytes");
    if (get->partial) {
        struct text range = {0};

        text_addf(&range, "bytes %llu-%llu/%llu", (unsigned long long)get->range.start,
            (unsigned long long)(get->range.start + get->range.length - 1),
            (unsigned long long)size);
        exchange_field_bytes(x, "Content-Range", range.bytes, range.length);
        text_done(&range);
    }
    exchange_body(x, get->range.length);
}

static void answer_unsatisfiable(struct get_state *get)
{
    struct exchange *x = get->x;
    struct text range = {0};

    text_addf(&range, "bytes */%llu", (unsigned long long)get->read.stat.size_bytes);
    drop_buffer(get);
    exchange_begin(x, 416);
    exchange_field_bytes(x, "Content-Range", range.bytes, range.length);
    exchange_body(x, 0);
    exchange_finish(x);
    text_done(&range);
}

static void answer_condition(
    struct get_state *get, int status, const struct http_validators *validators)
{
    struct exchange *x = get->x;

    drop_buffer(get);
    exchange_begin(x, status);
    add_validators(get, validators);
    exchange_body(x, status == 304 ? EXCHANGE_NO_BODY : 0);
    exchange_finish(x);
}

/* --- the body --- */

/* Sends the piece at hand. True if the next may be asked for. */
static bool send_piece(struct get_state *get)
{
    const void *bytes;
    size_t length;

    if (!get->answered) {
        struct http_validators validators;

        validators_of(&get->read.stat, &validators);
        begin_answer(get, &validators);
    }
    object_read_bytes(&get->read, &bytes, &length);
    if (length > get->end - get->at)
        length = (size_t)(get->end - get->at);
    get->at += length;
    return exchange_send(get->x, bytes, length) == 1;
}

static void finish(struct get_state *get)
{
    struct exchange *x = get->x;

    drop_buffer(get);
    exchange_finish(x);
}

/* The object's header is there: conditions, range, or the head alone. The code of the first seek;
   1 when it is answered. */
static int header_found(struct get_state *get, int *ret_rc)
{
    struct exchange *x = get->x;
    struct http_validators validators;
    enum http_range_kind kind;
    int status;

    get->found = true;
    validators_of(&get->read.stat, &validators);
    status = http_conditions_check(&x->head, x->head_bytes, &validators);
    if (status != 0) {
        answer_condition(get, status, &validators);
        return 1;
    }
    kind = http_range_check(
        &x->head, x->head_bytes, &validators, get->read.stat.size_bytes, &get->range);
    if (kind == HTTP_RANGE_UNSATISFIABLE) {
        answer_unsatisfiable(get);
        return 1;
    }
    get->partial = kind == HTTP_RANGE_PART;
    if (x->head.method == HTTP_HEAD || get->range.length == 0) {
        begin_answer(get, &validators);
        finish(get);
        return 1;
    }
    get->at = get->range.start;
    get->end = get->range.start + get->range.length;
    *ret_rc = object_read_seek(&get->read, get->at);
    return 0;
}

/* --- reading --- */

static void read_done(struct file_read *io, int64_t result)
{
    struct get_state *get = (struct get_state *)((uint8_t *)io - offsetof(struct get_state, io));
    struct exchange *x = get->x;
    int rc;

    get->reading = false;
    worker_of(x)->pending--;
    if (exchange_is_gone(x)) {
        drop_buffer(get);
    } else {
        rc = get->found ? object_read_piece(&get->read, get->buffer->bytes, result)
                        : object_read_found(&get->read, get->buffer->bytes, result);
        go_on(get, rc);
    }
    exchange_release(x);
}

/* What a read that was answered at once says; or OBJECT_READ_MORE with get->reading set. */
static int read_more(struct get_state *get)
{
    int fd = volume_file_fd(get->read.file);
    int64_t result;

    if (fd < 0)
        return -EIO; /* only simulated volumes have no descriptor */
    get->io.done = read_done;
    result = file_read_start(worker_of(get->x)->loop, &get->io, fd, get->buffer->bytes,
        get->read.want_bytes, get->read.want_offset);
    if (result == -EAGAIN) {
        get->reading = true;
        worker_of(get->x)->pending++;
        exchange_hold(get->x);
        return OBJECT_READ_MORE;
    }
    return get->found ? object_read_piece(&get->read, get->buffer->bytes, result)
                      : object_read_found(&get->read, get->buffer->bytes, result);
}

/* Reads and sends until something is under way or all is done. */
static void go_on(struct get_state *get, int rc)
{
    for (;;) {
        while (rc == OBJECT_READ_MORE) {
            rc = read_more(get);
            if (get->reading)
                return;
        }
        if (rc == 0 && !get->found) {
            if (header_found(get, &rc) != 0)
                return;
            continue;
        }
        if (rc != 0) {
            fail(get, rc);
            return;
        }
        if (!send_piece(get))
            return; /* on with proceed */
        if (get->at == get->end) {
            finish(get);
            return;
        }
        rc = object_read_seek(&get->read, get->at);
    }
}

static void proceed(struct exchange *x)
{
    struct get_state *get = (struct get_state *)x->state;

    if (get->at == get->end)
        finish(get);
    else
        go_on(get, object_read_seek(&get->read, get->at));
}

static void stop(struct exchange *x)
{
    struct get_state *get = (struct get_state *)x->state;

    if (get->waiting)
        stop_waiting(get);
    if (!get->reading)
        drop_buffer(get);
}

static const struct exchange_events events = {.proceed = proceed, .stop = stop};

void get_object(struct exchange *x)
{
    struct get_state *get = (struct get_state *)x->state;
    struct worker *worker = worker_of(x);
    int rc;

    get->x = x;
    get->buffer = NULL;
    get->found = get->reading = get->waiting = get->answered = get->partial = false;
    x->events = &events;
    rc = object_key(get->name.bucket, get->name.key, get->name.key_length, &get->key);
    if (rc == 0)
        rc = object_read_find(&get->read, worker->server->store, &get->key);
    if (rc == OBJECT_READ_MORE) {
        get->buffer = take_buffer(worker);
        if (get->buffer == NULL) {
            wait_for_buffer(get);
            return;
        }
    }
    go_on(get, rc);
}
