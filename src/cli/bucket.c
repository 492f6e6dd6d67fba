/* shoal bucket create|list|public|private|delete [NAME]

   Each action is a row of a table: what it does with the store, and what to ask a server for that
   holds the store. Only `create` makes a store where there is none. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/access.h"
#include "cli/admin.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"

static const struct command_help help = {
    .name = "bucket",
    .usage = "bucket create NAME [--public]\nbucket list\nbucket public NAME\n"
             "bucket private NAME\nbucket delete NAME",
    .about = "Creates, lists and deletes buckets, and says who may read them: anyone (public) or\n"
             "holders of the access token (private, the default). A bucket is deleted only when\n"
             "it is empty. Names have 3 to 63 of a-z, 0-9, '.' and '-', with a letter or digit\n"
             "at both ends. While a server holds the store, it is asked.\n",
};

struct request {
    const char *dir;
    const char *name; /* of the bucket; NULL for list */
    bool is_public, json;
};

struct action {
    const char *word;
    enum access_use use;
    int (*local)(struct shoal *store, const struct request *request);
    const char *method;
    const char *suffix; /* of the path /buckets/NAME */
};

static int create(struct shoal *store, const struct request *request)
{
    return shoal_bucket_create(store, request->name, request->is_public);
}

static int make_public(struct shoal *store, const struct request *request)
{
    return shoal_bucket_set_public(store, request->name, true);
}

static int make_private(struct shoal *store, const struct request *request)
{
    return shoal_bucket_set_public(store, request->name, false);
}

static int delete (struct shoal *store, const struct request *request)
{
    return shoal_bucket_delete(store, request->name);
}

static void print_bucket(
    struct json_out *json, bool as_json, const char *name, bool is_public, int64_t created_ms)
{
    char time[40];
    human_time(created_ms * 1000000, time);
    if (!as_json) {
        printf("%-7s  %s  %s\n", is_public ? "public" : "private", time, name);
        return;
    }
    json_put_open(json, NULL, '{');
    json_put_text(json, "name", name);
    json_put_bool(json, "public", is_public);
    json_put_text(json, "created", time);
    json_put_close(json, '}');
}

static void begin_list(struct json_out *json, bool as_json)
{
    json->out = stdout;
    if (as_json)
        json_put_open(json, NULL, '[');
}

static void end_list(struct json_out *json, bool as_json)
{
    if (as_json) {
        json_put_close(json, ']');
        json_put_end(json);
    }
}

static int list(struct shoal *store, const struct request *request)
{
    struct shoal_bucket *buckets;
    struct json_out json = {.follows = false};
    size_t count;
    int code = shoal_bucket_list(store, &buckets, &count);
    if (code < 0)
        return code;
    begin_list(&json, request->json);
    for (size_t i = 0; i < count; i++)
        print_bucket(
            &json, request->json, buckets[i].name, buckets[i].is_public, buckets[i].created_ms);
    end_list(&json, request->json);
    free(buckets);
    return 0;
}

static const struct action actions[] = {
    {"create", ACCESS_CREATE, create, "POST", ""},
    {"list", ACCESS_READ, list, "GET", NULL},
    {"public", ACCESS_WRITE, make_public, "POST", "/public"},
    {"private", ACCESS_WRITE, make_private, "POST", "/private"},
    {"delete", ACCESS_WRITE, delete, "DELETE", ""},
};

static void print_server_list(const json_t *value, const struct request *request)
{
    struct json_out json = {.follows = false};
    begin_list(&json, request->json);
    for (size_t i = 0; i < json_array_size(value); i++) {
        const json_t *bucket = json_array_get(value, i);
        const char *name = json_string_value(json_object_get(bucket, "name"));
        print_bucket(&json, request->json, name ? name : "",
            json_is_true(json_object_get(bucket, "public")),
            json_integer_value(json_object_get(bucket, "created_ms")));
    }
    end_list(&json, request->json);
}

static int ask_server(
    const struct action *action, const struct request *request, const char *path, bool is_list)
{
    const struct admin_call call = {.dir = request->dir, .method = action->method, .path = path};
    json_t *value = NULL;
    int code = admin_run(&help, &call, is_list ? &value : NULL);
    if (code == 0 && is_list)
        print_server_list(value, request);
    json_decref(value);
    return code;
}

/* Through the server that holds the store. Exit status. */
static int run_there(
    const struct action *action, const struct request *request, const struct shoal_error *busy)
{
    char path[128];
    bool is_list = !request->name;
    snprintf(path, sizeof path, "/buckets%s%s%s", is_list ? "" : "/", is_list ? "" : request->name,
        is_list ? "" : action->suffix);
    int code = ask_server(action, request, path, is_list);
    if (code == 0 && action->local == create && request->is_public) {
        snprintf(path, sizeof path, "/buckets/%s/public", request->name);
        code = ask_server(action, request, path, false);
    }
    if (code == -ECONNREFUSED)
        return access_refused(&help, request->dir, busy);
    return code < 0 ? STATUS_FAILED : STATUS_DONE;
}

static int run(const struct action *action, const struct request *request)
{
    struct shoal *store;
    struct shoal_error error;
    int status = STATUS_DONE;
    int code = access_try(request->dir, action->use, &store, &error);
    if (code == SHOAL_E_BUSY)
        return run_there(action, request, &error);
    if (code < 0)
        return access_refused(&help, request->dir, &error);
    code = action->local(store, request);
    if (code < 0)
        status = access_failed(&help, request->name ? request->name : request->dir, NULL, 0, code);
    return access_close(&help, store, status);
}

int cmd_bucket(int argc, char **argv)
{
    const char *data = NULL;
    struct request request = {.name = NULL};
    const struct action *action = NULL;
    const struct option options[] = {
        OPTION_DATA(&data),
        {OPTION_FLAG, "public", 0, &request.is_public, NULL, "with create: anyone may read it"},
        OPTION_JSON(&request.json),
        {OPTION_END},
    };
    int status;
    int operands = options_parse(&help, options, 1, 2, argc, argv, &status);
    if (operands < 0)
        return status;
    for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++)
        if (strcmp(argv[1], actions[i].word) == 0)
            action = &actions[i];
    if (!action)
        return options_wrong(&help, "unknown action: use create, list, public, private or delete");
    if ((operands == 2) != (action->suffix != NULL))
        return options_wrong(&help, "%s %s", action->word,
            action->suffix ? "needs the NAME of a bucket" : "takes no name");
    request.name = operands == 2 ? argv[2] : NULL;
    if (request.name && !shoal_bucket_name_valid(request.name))
        return options_wrong(&help,
            "not a legal bucket name: use 3 to 63 of a-z, 0-9, '.' and '-', with a letter or "
            "digit at both ends");
    request.dir = access_dir(&help, data);
    return request.dir ? run(action, &request) : STATUS_USAGE;
}
