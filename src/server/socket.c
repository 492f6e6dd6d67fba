/* DIR/admin.sock: what the command line asks of a running server. Who may open the socket (mode
   0600) may do everything here; answers are JSON.

   GET /info                    figures of the store
   GET /buckets                 an array of name, public, created_ms
   POST /buckets/NAME           create; POST …/public, …/private; DELETE /buckets/NAME
   POST /check                  findings and a report, one object a line (check.c)

   An error is {"error": text, "code": number} with a status to match. */
#include "server/socket.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "http/target.h"
#include "server/report.h"

#define JSON "application/json"

enum action { BUCKET_CREATE, BUCKET_PUBLIC, BUCKET_PRIVATE, BUCKET_DELETE };

static void add_error(struct text *text, int code)
{
    const char *sentence = shoal_strerror(code);

    text_addf(text, "{\"error\": ");
    text_add_json(text, sentence, strlen(sentence));
    text_addf(text, ", \"code\": %d}\n", code);
}

static void set_error(struct report *report, int code)
{
    report->status = status_of_code(code);
    add_error(&report->text, code);
}

void socket_refuse(struct exchange *x, int status, const char *sentence)
{
    struct text text = {0};

    text_addf(&text, "{\"error\": ");
    text_add_json(&text, sentence, strlen(sentence));
    text_addf(&text, ", \"code\": %d}\n", -status);
    exchange_begin(x, status);
    exchange_field(x, "Content-Type", JSON);
    exchange_body(x, text.length);
    (void)exchange_send(x, text.bytes, text.length); /* small enough to be copied */
    exchange_finish(x);
    text_done(&text);
}

/* --- on the pool --- */

static void make_info(struct report *report)
{
    struct text *text = &report->text;
    struct shoal_info info;
    int rc = shoal_info(server_of(report->x)->store, &info);

    if (rc != 0) {
        set_error(report, rc);
        return;
    }
    text_addf(text, "{\"uuid\": \"");
    for (size_t i = 0; i < sizeof(info.uuid); i++)
        text_addf(text, "%02x", info.uuid[i]);
    text_addf(text, "\", \"objects\": %llu, \"data_bytes\": %llu, \"live_bytes\": %llu, ",
        (unsigned long long)info.objects, (unsigned long long)info.data_bytes,
        (unsigned long long)info.live_bytes);
    text_addf(text, "\"segment_bytes\": %llu, \"disk_bytes\": %llu, \"index_ram_bytes\": %llu, ",
        (unsigned long long)info.segment_bytes, (unsigned long long)info.disk_bytes,
        (unsigned long long)info.index_ram_bytes);
    text_addf(text, "\"sequence\": %llu, \"catalogue_sequence\": %llu, \"segments\": %llu, ",
        (unsigned long long)info.sequence, (unsigned long long)info.catalogue_sequence,
        (unsigned long long)info.segments);
    text_addf(text, "\"buckets\": %llu, \"reaping_bytes\": %llu}\n",
        (unsigned long long)info.buckets, (unsigned long long)info.reaping_bytes);
}

static void make_buckets(struct report *report)
{
    struct shoal_bucket *buckets;
    size_t count;
    int rc = shoal_bucket_list(server_of(report->x)->store, &buckets, &count);

    if (rc != 0) {
        set_error(report, rc);
        return;
    }
    text_addf(&report->text, "[");
    for (size_t i = 0; i < count; i++) {
        text_addf(&report->text, "%s\n{\"name\": ", i > 0 ? "," : "");
        text_add_json(&report->text, buckets[i].name, strlen(buckets[i].name));
        text_addf(&report->text, ", \"public\": %s, \"created_ms\": %lld}",
            buckets[i].is_public ? "true" : "false", (long long)buckets[i].created_ms);
    }
    text_addf(&report->text, "\n]\n");
    free(buckets);
}

static void make_bucket_change(struct report *report)
{
    struct shoal *store = server_of(report->x)->store;
    int rc;

    switch ((enum action)report->action) {
    case BUCKET_CREATE:
        rc = shoal_bucket_create(store, report->argument, false);
        report->status = 201;
        break;
    case BUCKET_PUBLIC:
    case BUCKET_PRIVATE:
        rc = shoal_bucket_set_public(store, report->argument, report->action == (int)BUCKET_PUBLIC);
        break;
    default:
        rc = shoal_bucket_delete(store, report->argument);
        break;
    }
    if (rc != 0) {
        set_error(report, rc);
        return;
    }
    text_addf(&report->text, "{\"bucket\": ");
    text_add_json(&report->text, report->argument, strlen(report->argument));
    text_addf(&report->text, "}\n");
}

/* --- routing --- */

static bool part_is(const uint8_t *part, size_t length, const char *text)
{
    return length == strlen(text) && memcmp(part, text, length) == 0;
}

/* -1 where method and path do not go together. */
static int action_of(const struct exchange *x, const uint8_t *verb, size_t length)
{
    if (x->head.method == HTTP_DELETE && length == 0)
        return BUCKET_DELETE;
    if (x->head.method != HTTP_POST)
        return -1;
    if (length == 0)
        return BUCKET_CREATE;
    if (part_is(verb, length, "public"))
        return BUCKET_PUBLIC;
    return part_is(verb, length, "private") ? (int)BUCKET_PRIVATE : -1;
}

/* rest is NAME or NAME/verb. */
static void serve_bucket(struct exchange *x, const uint8_t *rest, size_t length)
{
    struct report *report = report_of(x);
    const uint8_t *slash = memchr(rest, '/', length);
    size_t name_length = slash != NULL ? (size_t)(slash - rest) : length;
    size_t verb_length = slash != NULL ? length - name_length - 1 : 0;
    int action = action_of(x, slash != NULL ? slash + 1 : rest, verb_length);
    int rc = http_percent_decode(rest, name_length, (uint8_t *)report->argument, SHOAL_BUCKET_MAX);

    if (action < 0 || (slash != NULL && verb_length == 0)) {
        socket_refuse(x, 405, "this method is not for this address");
        return;
    }
    if (rc < 0) {
        socket_refuse(x, 400, shoal_strerror(SHOAL_E_BAD_NAME));
        return;
    }
    report->argument[rc] = 0;
    report->action = action;
    report_run(x, JSON, make_bucket_change);
}

static void serve(struct exchange *x)
{
    const uint8_t *path = x->head_bytes + x->head.path.start;
    size_t length = x->head.path.length;
    bool reads = x->head.method == HTTP_GET || x->head.method == HTTP_HEAD;

    if (reads && part_is(path, length, "/info"))
        report_run(x, JSON, make_info);
    else if (reads && part_is(path, length, "/buckets"))
        report_run(x, JSON, make_buckets);
    else if (x->head.method == HTTP_POST && part_is(path, length, "/check"))
        check_run(x);
    else if (length > 9 && memcmp(path, "/buckets/", 9) == 0)
        serve_bucket(x, path + 9, length - 9);
    else
        socket_refuse(x, 404, "no such address");
}

const struct http_service socket_service = {.request = serve};
