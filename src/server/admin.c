/* The admin listener on TCP: read-only, for monitoring.

   /healthz   200 while the process serves
   /readyz    200 while it takes requests, 503 once it is stopping
   /metrics   figures for Prometheus */
#include "server/report.h"

#include <string.h>

static void make_metrics(struct report *report)
{
    metrics_write(server_of(report->x), &report->text);
}

static bool path_is(const struct exchange *x, const char *path)
{
    return x->head.path.length == strlen(path) &&
           memcmp(x->head_bytes + x->head.path.start, path, strlen(path)) == 0;
}

static void serve(struct exchange *x)
{
    if (x->head.method != HTTP_GET && x->head.method != HTTP_HEAD)
        answer_not_allowed(x, "GET, HEAD");
    else if (path_is(x, "/healthz"))
        exchange_reply(x, 200, "ok");
    else if (path_is(x, "/readyz"))
        exchange_reply(x, atomic_load(&server_of(x)->stopping) ? 503 : 200,
            atomic_load(&server_of(x)->stopping) ? "stopping" : "ready");
    else if (path_is(x, "/metrics"))
        report_run(x, "text/plain; version=0.0.4; charset=utf-8", make_metrics);
    else if (path_is(x, "/"))
        exchange_reply(x, 200, "shoal's admin listener: /healthz, /readyz, /metrics");
    else
        exchange_reply(x, 404, "no such page: see /");
}

const struct http_service admin_service = {.request = serve};
