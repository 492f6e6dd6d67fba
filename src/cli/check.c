/* shoal check: verifies every CRC of the store, and that index and catalogue agree with it.

   Findings are printed as they come, in JSON as the members of one array in the one line; a summary
   ends the output. While a server holds the store, the server does the work and sends its findings
   line by line. Damage ends in status 3; a torn tail, which a crash leaves, is not damage. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/access.h"
#include "cli/admin.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/progress.h"

static const struct command_help help = {
    .name = "check",
    .usage = "check",
    .about = "Reads the whole store and verifies every checksum, and that index and catalogue\n"
             "agree with the segments. Names each damaged place, with its key where that is\n"
             "known. Exit status 3 if there is damage. While a server holds the store, it does\n"
             "the checking.\n",
};

struct check {
    bool json;
    struct json_out out;
    struct progress progress;
    struct shoal_check_report report;
};

/* As the store gives them, bucket and key are parted by a NUL. */
static void print_key(char *text, size_t room, const void *key, size_t key_length)
{
    const char *end = memchr(key, 0, key_length);
    size_t bucket_length = end ? (size_t)(end - (const char *)key) : 0;
    int used = end ? snprintf(text, room, "%.*s/", (int)bucket_length, (const char *)key) : 0;
    size_t skip = end ? bucket_length + 1 : 0;
    escape((const char *)key + skip, key_length - skip, text + used, room - (size_t)used);
}

static void print_finding(void *arg, const struct shoal_finding *finding)
{
    struct check *check = arg;
    char shown[ESCAPED_BYTES(SHOAL_KEY_MAX) + SHOAL_BUCKET_MAX + 1] = "";
    if (check->json) {
        json_put_open(&check->out, NULL, '{');
        json_put_text(&check->out, "file", finding->file ? finding->file : "");
        json_put_number(&check->out, "offset", finding->offset);
        json_put_text(&check->out, "text", finding->text);
        if (finding->key)
            json_put_bytes(&check->out, "key", finding->key, finding->key_length);
        json_put_close(&check->out, '}');
        return;
    }
    if (finding->key)
        print_key(shown, sizeof shown, finding->key, finding->key_length);
    progress_clear(&check->progress);
    printf("%s offset %llu: %s%s%s\n", finding->file ? finding->file : "store",
        (unsigned long long)finding->offset, finding->text, finding->key ? ": " : "", shown);
}

static void show(void *arg, uint64_t done_bytes, uint64_t all_bytes)
{
    struct check *check = arg;
    struct progress_state state = {.done = done_bytes, .all = all_bytes, .bytes = done_bytes};
    progress_show(&check->progress, &state);
}

/* A finding, or at the end the report. */
static int take_line(void *arg, const json_t *line)
{
    struct check *check = arg;
    struct shoal_check_report *report = &check->report;
    const json_t *records = json_object_get(line, "records");
    const json_t *key = json_object_get(line, "key");
    struct shoal_finding finding = {
        .file = json_string_value(json_object_get(line, "file")),
        .offset = (uint64_t)json_integer_value(json_object_get(line, "offset")),
        .text = json_string_value(json_object_get(line, "text")),
        .key = json_string_value(key),
        .key_length = json_string_length(key),
    };
    if (finding.text) {
        print_finding(check, &finding);
    } else if (records) {
        report->records = (uint64_t)json_integer_value(records);
        report->objects = (uint64_t)json_integer_value(json_object_get(line, "objects"));
        report->bytes = (uint64_t)json_integer_value(json_object_get(line, "bytes"));
        report->damaged = (uint64_t)json_integer_value(json_object_get(line, "damaged"));
    }
    return 0;
}

static void begin(struct check *check)
{
    progress_init(&check->progress, "checking");
    if (check->json) {
        json_put_open(&check->out, NULL, '{');
        json_put_open(&check->out, "findings", '[');
    }
}

static void finish(struct check *check, bool complete)
{
    const struct shoal_check_report *report = &check->report;
    char records[32], objects[32], damaged[32], bytes[16];
    progress_done(&check->progress);
    if (check->json) {
        json_put_close(&check->out, ']');
        json_put_bool(&check->out, "complete", complete);
        json_put_number(&check->out, "records", report->records);
        json_put_number(&check->out, "objects", report->objects);
        json_put_number(&check->out, "bytes", report->bytes);
        json_put_number(&check->out, "damaged", report->damaged);
        json_put_close(&check->out, '}');
        json_put_end(&check->out);
    } else if (complete) {
        printf("%s records, %s objects, %s verified; %s damaged\n",
            human_count(report->records, records), human_count(report->objects, objects),
            human_bytes(report->bytes, bytes), human_count(report->damaged, damaged));
    }
}

static int status_of(const struct check *check, int code)
{
    if (code < 0)
        return access_status(code);
    return check->report.damaged ? STATUS_DAMAGE : STATUS_DONE;
}

static int check_by_server(struct check *check, const char *dir, const struct shoal_error *busy)
{
    const struct admin_call call = {
        .dir = dir, .method = "POST", .path = "/check", .line = take_line, .arg = check};
    const struct admin_call probe = {.dir = dir, .method = "GET", .path = "/info"};
    /* Asked first, so that no output is begun where nobody listens. */
    int code = admin_run(&help, &probe, NULL);
    if (code == -ECONNREFUSED)
        return access_refused(&help, dir, busy);
    if (code < 0)
        return STATUS_FAILED;
    begin(check);
    code = admin_run(&help, &call, NULL);
    finish(check, code == 0);
    return status_of(check, code);
}

static int check_here(struct check *check, struct shoal *store, const char *dir)
{
    begin(check);
    int code = shoal_check(store, print_finding, show, check, &check->report);
    finish(check, code == 0);
    if (code < 0)
        (void)access_failed(&help, dir, NULL, 0, code);
    return access_close(&help, store, status_of(check, code));
}

int cmd_check(int argc, char **argv)
{
    const char *data = NULL;
    struct check check = {.out = {.out = stdout}};
    struct shoal *store;
    struct shoal_error error;
    const struct option options[] = {
        OPTION_DATA(&data),
        OPTION_JSON(&check.json),
        {OPTION_END},
    };
    int status;
    if (options_parse(&help, options, 0, 0, argc, argv, &status) < 0)
        return status;
    const char *dir = access_dir(&help, data);
    if (!dir)
        return STATUS_USAGE;
    int code = access_try(dir, ACCESS_READ, &store, &error);
    if (code == SHOAL_E_BUSY)
        return check_by_server(&check, dir, &error);
    if (code < 0)
        return access_refused(&help, dir, &error);
    return check_here(&check, store, dir);
}
