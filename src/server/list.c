/* GET of a bucket: its keys in byte order, a page at a time.

   A browser gets a page of links; everybody else one key a line, where control bytes and '%' are
   percent-escaped so that a line is always one key. `prefix` and `start-after` choose the part;
   when there is more, the page links to it, and a Link header says the same. The page is made on a
   pool thread, because a listing first waits for the catalogue, and ends at 1,000 keys or 1 MiB. */
#include "server/server_priv.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "http/date.h"
#include "http/target.h"

#define PAGE_KEYS  1000
#define PAGE_BYTES (1u << 20)
#define PAGE_ROOM  (3 * PAGE_BYTES) /* what a page may take while it grows */

struct list_state {
    struct object_name name; /* first; its key is the prefix */
    struct exchange *x;
    struct server_job job;
    struct text text;
    uint16_t after_length, last_length;
    int code;
    bool html, more;
    uint8_t after[SHOAL_KEY_MAX];
    uint8_t last[SHOAL_KEY_MAX]; /* the last key shown */
};

_Static_assert(sizeof(struct list_state) <= EXCHANGE_STATE_BYTES, "the state must fit");

static struct list_state *list_of(struct server_job *job)
{
    return (struct list_state *)((uint8_t *)job - offsetof(struct list_state, job));
}

static void drop_text(struct list_state *list)
{
    text_done(&list->text);
    memory_return(server_of(list->x), PAGE_ROOM);
}

/* --- the page --- */

static void add_url(struct text *text, const void *bytes, size_t length)
{
    char url[3 * SHOAL_KEY_MAX];

    text_add(text, url, http_percent_encode(bytes, length, url));
}

static void add_next_url(struct text *text, const struct list_state *list)
{
    text_addf(text, "?start-after=");
    add_url(text, list->last, list->last_length);
    if (list->name.key_length > 0) {
        text_addf(text, "&prefix=");
        add_url(text, list->name.key, list->name.key_length);
    }
}

static void add_plain_entry(struct text *text, const struct shoal_entry *entry)
{
    const uint8_t *key = entry->key;

    for (size_t i = 0; i < entry->key_length; i++) {
        if (key[i] < 0x20 || key[i] == 0x7f || key[i] == '%')
            text_addf(text, "%%%02X", key[i]);
        else
            text_add(text, key + i, 1);
    }
    text_add(text, "\n", 1);
}

static void add_html_entry(
    struct text *text, const struct list_state *list, const struct shoal_entry *entry)
{
    char date[HTTP_DATE_BYTES];

    http_date_format(entry->mtime_ns / 1000000000, date);
    text_addf(text, "<tr><td><a href=\"/%s/", list->name.bucket);
    add_url(text, entry->key, entry->key_length);
    text_addf(text, "\">");
    text_add_html(text, entry->key, entry->key_length);
    text_addf(text, "</a></td><td>%llu</td><td>%.*s</td></tr>\n",
        (unsigned long long)entry->size_bytes, HTTP_DATE_BYTES, date);
}

static void add_html_start(struct text *text, const struct list_state *list)
{
    text_addf(text,
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>%s</title>\n"
        "<style>body{font-family:sans-serif;margin:2em}td,th{padding:.2em 1em .2em 0;"
        "text-align:left}td:nth-child(2){text-align:right}</style></head>\n<body><h1>%s</h1>\n",
        list->name.bucket, list->name.bucket);
    if (list->name.key_length > 0) {
        text_addf(text, "<p>Keys that begin with <code>");
        text_add_html(text, list->name.key, list->name.key_length);
        text_addf(text, "</code></p>\n");
    }
    text_addf(text, "<table><tr><th>Key</th><th>Bytes</th><th>Modified</th></tr>\n");
}

static void add_html_end(struct text *text, const struct list_state *list)
{
    text_addf(text, "</table>\n");
    if (list->more) {
        struct text url = {0};

        add_next_url(&url, list);
        text_addf(text, "<p><a rel=\"next\" href=\"");
        text_add_html(text, url.bytes, url.length);
        text_addf(text, "\">more</a></p>\n");
        text->failed |= url.failed;
        text_done(&url);
    }
    text_addf(text, "</body></html>\n");
}

static int add_entries(struct list_state *list, struct shoal_scan *scan)
{
    struct shoal_entry entry;
    int rc;

    for (unsigned count = 0; (rc = shoal_scan_next(scan, &entry)) == 1; count++) {
        if (count == PAGE_KEYS || list->text.length > PAGE_BYTES) {
            list->more = true;
            return 0;
        }
        if (entry.key_length > SHOAL_KEY_MAX)
            return SHOAL_E_CORRUPT;
        if (list->html)
            add_html_entry(&list->text, list, &entry);
        else
            add_plain_entry(&list->text, &entry);
        memcpy(list->last, entry.key, entry.key_length);
        list->last_length = (uint16_t)entry.key_length;
    }
    return rc;
}

static void work(struct server_job *job)
{
    struct list_state *list = list_of(job);
    struct shoal_scan *scan;
    int rc = shoal_scan_open(server_of(list->x)->store, list->name.bucket, list->name.key,
        list->name.key_length, list->after, list->after_length, &scan);

    if (rc == 0) {
        if (list->html)
            add_html_start(&list->text, list);
        rc = add_entries(list, scan);
        shoal_scan_close(scan);
        if (list->html)
            add_html_end(&list->text, list);
    }
    list->code = rc == 0 && list->text.failed ? -ENOMEM : rc;
}

/* --- the answer --- */

static void add_link(struct list_state *list)
{
    struct text link = {0};

    text_addf(&link, "<");
    add_next_url(&link, list);
    text_addf(&link, ">; rel=\"next\"");
    if (!link.failed)
        exchange_field_bytes(list->x, "Link", link.bytes, link.length);
    text_done(&link);
}

static void answer(struct list_state *list)
{
    struct exchange *x = list->x;

    if (list->code != 0) {
        drop_text(list);
        answer_code(x, list->code, list->name.bucket, "", 0);
        return;
    }
    exchange_begin(x, 200);
    exchange_field(
        x, "Content-Type", list->html ? "text/html; charset=utf-8" : "text/plain; charset=utf-8");
    exchange_field(x, "Vary", "Accept");
    exchange_field(x, "Cache-Control", "no-cache");
    exchange_field(x, "X-Content-Type-Options", "nosniff");
    if (list->html)
        exchange_field(x, "Content-Security-Policy",
            "default-src 'none'; style-src 'unsafe-inline'; form-action 'none'; base-uri 'none'");
    if (list->more)
        add_link(list);
    exchange_body(x, list->text.length);
    if (exchange_send(x, list->text.bytes, list->text.length) == 0)
        return; /* on with proceed */
    drop_text(list);
    exchange_finish(x);
}

static void done(struct server_job *job)
{
    struct list_state *list = list_of(job);
    struct exchange *x = list->x;

    if (exchange_is_gone(x))
        drop_text(list);
    else
        answer(list);
    exchange_release(x);
}

static void proceed(struct exchange *x)
{
    drop_text((struct list_state *)x->state);
    exchange_finish(x);
}

static void stop(struct exchange *x)
{
    struct list_state *list = (struct list_state *)x->state;

    if (x->references == 1) /* no job holds it: a page was on its way */
        drop_text(list);
}

static const struct exchange_events events = {.proceed = proceed, .stop = stop};

/* --- the request --- */

/* Decodes a parameter; absent is empty. The status to answer, or 0. */
static int parameter(
    const struct exchange *x, const char *name, uint8_t *bytes, uint16_t *ret_length)
{
    const uint8_t *value;
    size_t length;
    int rc;

    *ret_length = 0;
    if (!http_query_find(
            x->head_bytes + x->head.query.start, x->head.query.length, name, &value, &length))
        return 0;
    rc = http_percent_decode(value, length, bytes, SHOAL_KEY_MAX);
    if (rc < 0)
        return 400;
    *ret_length = (uint16_t)rc;
    return 0;
}

static bool wants_html(const struct exchange *x)
{
    const struct http_line *line;

    for (unsigned i = 0; (line = http_head_line(&x->head, HTTP_ACCEPT, i)) != NULL; i++) {
        if (memmem(x->head_bytes + line->value.start, line->value.length, "text/html", 9) != NULL)
            return true;
    }
    return false;
}

void list_bucket(struct exchange *x)
{
    struct list_state *list = (struct list_state *)x->state;
    int status, rc;

    list->x = x;
    memset(&list->text, 0, sizeof(list->text));
    list->more = false;
    list->last_length = 0;
    list->code = 0;
    list->html = wants_html(x);
    status = parameter(x, "prefix", list->name.key, &list->name.key_length);
    if (status == 0)
        status = parameter(x, "start-after", list->after, &list->after_length);
    if (status != 0) {
        exchange_reply(x, status, "a parameter of the list is over 1,024 bytes or badly escaped");
        return;
    }
    x->events = &events;
    rc = memory_reserve(server_of(x), PAGE_ROOM) ? 0 : -EBUSY;
    if (rc == 0) {
        rc = job_submit(worker_of(x), &list->job, work, done);
        if (rc != 0)
            memory_return(server_of(x), PAGE_ROOM);
    }
    if (rc == 0)
        exchange_hold(x);
    else
        answer_code(x, rc, list->name.bucket, "", 0);
}
