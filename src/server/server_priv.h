/* What the server's parts share. */
#ifndef SERVER_SERVER_PRIV_H
#define SERVER_SERVER_PRIV_H

#include <pthread.h>
#include <stdatomic.h>

#include <shoal/shoal.h>

#include "http/connection.h"
#include "net/loop.h"
#include "net/threads.h"
#include "server/server.h"
#include "store/read.h"

#define TOKEN_DIGITS 64

/* Memory for request bodies and lists, over all workers; uploads beyond it wait. */
#define REQUEST_BYTES (256ll << 20)
/* Buffers for reading objects, per worker; requests beyond them wait. */
#define FETCH_BUFFERS 1024
#define POOL_THREADS  16
#define POOL_QUEUE    1024
#define STOP_MS       5000

struct get_state;

/* Holds what one turn of an object_read needs. */
struct fetch_buffer {
    struct fetch_buffer *next_free;
    _Alignas(64) uint8_t bytes[OBJECT_READ_BUFFER_BYTES];
};

struct listener {
    struct acceptor acceptor; /* first */
    struct worker *worker;
    const struct http_service *service;
};

#define WORKER_LISTENERS_MAX 32

/* One thread, one loop. Everything belongs to that thread but `thread` and `loop`'s post. */
struct worker {
    struct server *server; /* first */
    struct loop *loop;
    struct http_host host;
    pthread_t thread;
    bool started;
    int status; /* of loop_run */
    struct listener listeners[WORKER_LISTENERS_MAX];
    unsigned listener_count;
    struct fetch_buffer *free_buffers;
    unsigned free_buffer_count, buffer_count;
    struct get_state *first_waiting, *last_waiting; /* for a buffer */
    unsigned pending; /* jobs and reads under way */
    struct loop_message begin, stop;
    struct loop_timer stop_timer;
    uint64_t stop_deadline_ms;
};

struct server {
    const struct server_config *config;
    struct shoal *store;
    struct thread_pool *pool;
    char token[TOKEN_DIGITS + 1];
    atomic_llong memory_left; /* of REQUEST_BYTES */
    atomic_bool stopping;
    atomic_bool checking; /* a check is under way */
    atomic_llong last_report_s;
    struct worker *workers;
    unsigned worker_count;
    unsigned connections_max; /* of one worker */
    int alarm_fd; /* an eventfd: a worker's loop has failed */
};

static inline struct worker *worker_of(const struct exchange *x)
{
    return x->host->context;
}

static inline struct server *server_of(const struct exchange *x)
{
    return worker_of(x)->server;
}

static inline bool memory_reserve(struct server *server, long long bytes)
{
    if (atomic_fetch_sub(&server->memory_left, bytes) >= bytes)
        return true;
    atomic_fetch_add(&server->memory_left, bytes);
    return false;
}

static inline void memory_return(struct server *server, long long bytes)
{
    atomic_fetch_add(&server->memory_left, bytes);
}

/* --- workers (worker.c) --- */

int worker_init(struct worker *worker, struct server *server, enum loop_kind kind);
/* Before worker_start. The descriptor stays the caller's. -ENOSPC: too many. */
int worker_listen(struct worker *worker, int fd, const struct http_service *service);
int worker_start(struct worker *worker);
/* From any thread: no new connections, running requests end, then the loop. */
void worker_stop(struct worker *worker);
void worker_join(struct worker *worker);
void worker_done(struct worker *worker);

/* --- jobs: work on a pool thread, then back on the loop (job.c) --- */

struct server_job {
    struct pool_job pool;
    struct loop_message message;
    struct worker *worker;
    void (*work)(struct server_job *job); /* on a pool thread */
    void (*done)(struct server_job *job); /* on the loop, when all parts are done */
    atomic_uint parts;
};
/* -EAGAIN: too many are waiting. */
int job_submit(struct worker *worker, struct server_job *job, void (*work)(struct server_job *job),
    void (*done)(struct server_job *job));
/* Inside work: something else, on another thread, will call job_part_done too. */
void job_add_part(struct server_job *job);
void job_part_done(struct server_job *job);

/* --- answers (answer.c) --- */

int status_of_code(int code);
/* The status and sentence of a store's error; names the object for damage and says it once on
   standard error. */
void answer_code(
    struct exchange *x, int code, const char *bucket, const void *key, size_t key_length);
void answer_not_allowed(struct exchange *x, const char *allow);

/* --- access (token.c) --- */

/* Reads DIR/access.token, or makes it. 0 or a code, with the reason in error. */
int token_load(const char *data_dir, char ret_token[TOKEN_DIGITS + 1], struct shoal_error *error);
/* 0; 401: no token; 403: a wrong one. */
int token_check(const struct exchange *x);
void token_refuse(struct exchange *x, int status);

/* --- handlers --- */

/* What each begins with: decoded and checked. */
struct object_name {
    char bucket[SHOAL_BUCKET_MAX + 1];
    uint8_t key[SHOAL_KEY_MAX];
    uint16_t key_length;
    bool is_public;
};

extern const struct http_service object_service; /* route.c */
extern const struct http_service admin_service; /* admin.c: TCP, read-only */
extern const struct http_service socket_service; /* socket.c: DIR/admin.sock */

/* All expect the name at the start of x->state. */
void get_object(struct exchange *x);
void put_object(struct exchange *x);
void delete_object(struct exchange *x);
void list_bucket(struct exchange *x);

void get_wake_waiting(struct worker *worker);
void get_free_buffers(struct worker *worker);

/* --- text in memory, for lists and reports (text.c) --- */

struct text {
    char *bytes;
    size_t length, capacity;
    bool failed; /* out of memory: length stays */
};
void text_done(struct text *text);
void text_add(struct text *text, const void *bytes, size_t length);
void text_addf(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_add_html(struct text *text, const void *bytes, size_t length);
/* A quoted JSON string; bytes that are not UTF-8 become \ufffd, so keys travel beside as hex where
   they must be exact. */
void text_add_json(struct text *text, const void *bytes, size_t length);

/* Prometheus text of the whole server. Blocks. */
void metrics_write(struct server *server, struct text *text);

#endif
