/* DELETE of an object: one call on a pool thread, answered when the tombstone is durable. */
#include "server/server_priv.h"

#include <string.h>

struct delete_state {
    struct object_name name; /* first */
    struct exchange *x;
    struct server_job job;
    int code;
};

_Static_assert(sizeof(struct delete_state) <= EXCHANGE_STATE_BYTES, "the state must fit");

static struct delete_state *delete_of(struct server_job *job)
{
    return (struct delete_state *)((uint8_t *)job - offsetof(struct delete_state, job));
}

/* On the committer's thread. */
static void committed(void *arg, int code, const struct shoal_stat *stat)
{
    struct delete_state *del = arg;

    (void)stat; /* a deletion has none */
    del->code = code;
    job_part_done(&del->job);
}

static void work(struct server_job *job)
{
    struct delete_state *del = delete_of(job);
    int rc;

    job_add_part(job);
    rc = shoal_delete_start(server_of(del->x)->store, del->name.bucket, del->name.key,
        del->name.key_length, committed, del);
    if (rc != 0) {
        del->code = rc;
        job_part_done(job);
    }
}

static void done(struct server_job *job)
{
    struct delete_state *del = delete_of(job);
    struct exchange *x = del->x;

    if (del->code != 0) {
        answer_code(x, del->code, del->name.bucket, del->name.key, del->name.key_length);
    } else {
        exchange_begin(x, 204);
        exchange_body(x, EXCHANGE_NO_BODY);
        exchange_finish(x);
    }
    exchange_release(x);
}

static void stop(struct exchange *x)
{
    (void)x; /* the job holds the exchange, and its answer goes nowhere */
}

static const struct exchange_events events = {.stop = stop};

void delete_object(struct exchange *x)
{
    struct delete_state *del = (struct delete_state *)x->state;
    int rc;

    if (x->head.counts[HTTP_IF_MATCH] + x->head.counts[HTTP_IF_NONE_MATCH] +
            x->head.counts[HTTP_IF_UNMODIFIED_SINCE] >
        0) {
        exchange_reply(x, 501, "conditional writes are not supported");
        return;
    }
    del->x = x;
    del->code = 0;
    x->events = &events;
    rc = job_submit(worker_of(x), &del->job, work, done);
    if (rc == 0)
        exchange_hold(x);
    else
        answer_code(x, rc, del->name.bucket, del->name.key, del->name.key_length);
}
