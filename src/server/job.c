/* Calls that block, done on the pool for a request on a loop.

   The loop submits a job, a pool thread works, and the result comes back as a message to the same
   loop. Work may hand on to a third thread (the committer of a put) by adding a part: the last one
   to finish posts. A job lives in its exchange, which the submitter holds meanwhile. */
#include "server/server_priv.h"

static struct server_job *job_of_message(struct loop_message *message)
{
    return (struct server_job *)((uint8_t *)message - offsetof(struct server_job, message));
}

static void back_on_loop(struct loop_message *message)
{
    struct server_job *job = job_of_message(message);

    job->worker->pending--;
    job->done(job);
}

static void run_job(struct pool_job *pool_job)
{
    struct server_job *job =
        (struct server_job *)((uint8_t *)pool_job - offsetof(struct server_job, pool));

    job->work(job);
    job_part_done(job);
}

int job_submit(struct worker *worker, struct server_job *job, void (*work)(struct server_job *job),
    void (*done)(struct server_job *job))
{
    int rc;

    job->worker = worker;
    job->work = work;
    job->done = done;
    job->pool.run = run_job;
    job->message.run = back_on_loop;
    atomic_init(&job->parts, 1);
    worker->pending++;
    rc = thread_pool_submit(worker->server->pool, &job->pool);
    if (rc != 0)
        worker->pending--;
    return rc;
}

void job_add_part(struct server_job *job)
{
    atomic_fetch_add(&job->parts, 1);
}

void job_part_done(struct server_job *job)
{
    if (atomic_fetch_sub(&job->parts, 1) == 1)
        loop_post(job->worker->loop, &job->message);
}
