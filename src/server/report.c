/* Runs a function on the pool and sends what it wrote. A full pool is a 503; a function that ran
   out of memory for its text a 503 too. */
#include "server/report.h"

#include <errno.h>
#include <string.h>

_Static_assert(sizeof(struct report) <= EXCHANGE_STATE_BYTES, "the state must fit");

static struct report *report_of_job(struct server_job *job)
{
    return (struct report *)((uint8_t *)job - offsetof(struct report, job));
}

struct report *report_of(struct exchange *x)
{
    return (struct report *)x->state;
}

static void work(struct server_job *job)
{
    struct report *report = report_of_job(job);

    report->make(report);
}

static void answer(struct report *report)
{
    struct exchange *x = report->x;

    if (report->text.failed) {
        text_done(&report->text);
        answer_code(x, -ENOMEM, "", "", 0);
        return;
    }
    exchange_begin(x, report->status);
    exchange_field(x, "Content-Type", report->content_type);
    exchange_field(x, "Cache-Control", "no-store");
    exchange_field(x, "X-Content-Type-Options", "nosniff");
    exchange_body(x, report->text.length);
    if (exchange_send(x, report->text.bytes, report->text.length) == 0)
        return; /* on with proceed */
    text_done(&report->text);
    exchange_finish(x);
}

static void done(struct server_job *job)
{
    struct report *report = report_of_job(job);
    struct exchange *x = report->x;

    if (exchange_is_gone(x))
        text_done(&report->text);
    else
        answer(report);
    exchange_release(x);
}

static void proceed(struct exchange *x)
{
    text_done(&report_of(x)->text);
    exchange_finish(x);
}

static void stop(struct exchange *x)
{
    if (x->references == 1) /* no job holds it: a text was on its way */
        text_done(&report_of(x)->text);
}

static const struct exchange_events events = {.proceed = proceed, .stop = stop};

void report_run(struct exchange *x, const char *content_type, void (*make)(struct report *report))
{
    struct report *report = report_of(x);
    int rc;

    report->x = x;
    report->make = make;
    report->content_type = content_type;
    report->status = 200;
    memset(&report->text, 0, sizeof(report->text));
    x->events = &events;
    rc = job_submit(worker_of(x), &report->job, work, done);
    if (rc == 0)
        exchange_hold(x);
    else
        answer_code(x, rc, "", "", 0);
}
