/* shoal info: the state of the store, from its own process or from the server that holds it. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "cli/access.h"
#include "cli/admin.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"

static const struct command_help help = {
    .name = "info",
    .usage = "info",
    .about = "Shows what the store holds and takes. While a server holds the store, it is asked.\n",
};

/* The figures by their names in JSON, in the order they are shown. */
static const struct figure {
    const char *name;
    size_t offset;
    bool bytes;
    const char *meaning;
} figures[] = {
    {"objects", offsetof(struct shoal_info, objects), false, "objects"},
    {"data_bytes", offsetof(struct shoal_info, data_bytes), true, "bytes of the objects"},
    {"live_bytes", offsetof(struct shoal_info, live_bytes), true, "bytes of their records"},
    {"segment_bytes", offsetof(struct shoal_info, segment_bytes), true, "segment files"},
    {"disk_bytes", offsetof(struct shoal_info, disk_bytes), true, "disk taken by everything"},
    {"index_ram_bytes", offsetof(struct shoal_info, index_ram_bytes), true, "RAM of the index"},
    {"sequence", offsetof(struct shoal_info, sequence), false, "highest durable sequence"},
    {"catalogue_sequence", offsetof(struct shoal_info, catalogue_sequence), false,
        "highest sequence in the catalogue"},
    {"segments", offsetof(struct shoal_info, segments), false, "segments"},
    {"buckets", offsetof(struct shoal_info, buckets), false, "buckets"},
    {"reaping_bytes", offsetof(struct shoal_info, reaping_bytes), true,
        "bytes of dead objects still to be reaped"},
};

#define FIGURES (sizeof figures / sizeof figures[0])

static uint64_t *figure_of(struct shoal_info *info, const struct figure *figure)
{
    return (uint64_t *)(void *)((char *)info + figure->offset);
}

static void print_info(struct shoal_info *info, bool json)
{
    struct json_out out = {.out = stdout};
    char count[32], bytes[16];
    if (json)
        json_put_open(&out, NULL, '{');
    for (size_t i = 0; i < FIGURES; i++) {
        uint64_t value = *figure_of(info, &figures[i]);
        if (json)
            json_put_number(&out, figures[i].name, value);
        else if (figures[i].bytes)
            printf("%20s  %s (%s)\n", human_count(value, count), figures[i].meaning,
                human_bytes(value, bytes));
        else
            printf("%20s  %s\n", human_count(value, count), figures[i].meaning);
    }
    if (json) {
        json_put_close(&out, '}');
        json_put_end(&out);
    }
}

static int info_from_server(const char *dir, struct shoal_info *info)
{
    const struct admin_call call = {.dir = dir, .method = "GET", .path = "/info"};
    json_t *value;
    int rc = admin_run(&help, &call, &value);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < FIGURES; i++)
        *figure_of(info, &figures[i]) =
            (uint64_t)json_integer_value(json_object_get(value, figures[i].name));
    json_decref(value);
    return 0;
}

int cmd_info(int argc, char **argv)
{
    const char *data = NULL;
    bool json = false;
    struct shoal *store;
    struct shoal_error error;
    struct shoal_info info = {.objects = 0};
    const struct option options[] = {
        OPTION_DATA(&data),
        OPTION_JSON(&json),
        {OPTION_END},
    };
    int status = STATUS_DONE;
    if (options_parse(&help, options, 0, 0, argc, argv, &status) < 0)
        return status;
    const char *dir = access_dir(&help, data);
    if (!dir)
        return STATUS_USAGE;
    int code = access_try(dir, ACCESS_READ, &store, &error);
    if (code == SHOAL_E_BUSY) {
        code = info_from_server(dir, &info);
        if (code == -ECONNREFUSED)
            return access_refused(&help, dir, &error);
        status = code < 0 ? STATUS_FAILED : STATUS_DONE;
    } else if (code < 0) {
        return access_refused(&help, dir, &error);
    } else {
        code = shoal_info(store, &info);
        if (code < 0)
            status = access_failed(&help, dir, NULL, 0, code);
        status = access_close(&help, store, status);
    }
    if (status == STATUS_DONE)
        print_info(&info, json);
    return status;
}
