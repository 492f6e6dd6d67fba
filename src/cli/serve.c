/* shoal serve: reads the command line into a server's configuration and runs it. */
#include <string.h>

#include "cli/access.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "server/server.h"

static const struct command_help help = {
    .name = "serve",
    .usage = "serve [--data DIR] [--listen ADDR]...",
    .about = "Serves the store over HTTP/1.1: GET, HEAD, PUT and DELETE of /BUCKET/KEY, and the\n"
             "list of a bucket at /BUCKET/. Anyone may read public buckets; everything else needs\n"
             "the access token that the first start writes to DIR/access.token.\n"
             "ADDR is HOST:PORT, [IPV6]:PORT or unix:PATH; a port of 0 is chosen by the system.\n"
             "SIGTERM and SIGINT stop it cleanly.\n",
};

/* sync | relaxed:MS */
static int parse_durability(const char *text, struct server_config *config)
{
    unsigned ms = 0;

    config->relaxed = false;
    if (strcmp(text, "sync") == 0)
        return 0;
    if (strncmp(text, "relaxed:", 8) != 0 || text[8] == 0)
        return -1;
    for (text += 8; *text != 0; text++) {
        if (*text < '0' || *text > '9' || ms > 60000)
            return -1;
        ms = ms * 10 + (unsigned)(*text - '0');
    }
    if (ms < 1 || ms > 60000)
        return -1;
    config->relaxed = true;
    config->relaxed_ms = ms;
    return 0;
}

static int parse_loop(const char *text, struct server_config *config)
{
    if (strcmp(text, "uring") == 0)
        config->loop = SERVER_LOOP_URING;
    else if (strcmp(text, "epoll") == 0)
        config->loop = SERVER_LOOP_EPOLL;
    else
        return -1;
    return 0;
}

int cmd_serve(int argc, char **argv)
{
    static const char *const default_listens[] = {"127.0.0.1:7070"};
    const char *data = NULL, *loop = NULL, *durability = "sync";
    struct option_list listens = {.count = 0};
    struct server_config config = {.admin = "127.0.0.1:7071"};
    uint64_t workers = 0;
    const struct option options[] = {
        OPTION_DATA(&data),
        {OPTION_LIST, "listen", 0, &listens, "ADDR",
            "where to serve (127.0.0.1:7070); may be given several times"},
        {OPTION_TEXT, "admin", 0, &config.admin, "ADDR",
            "where to answer /metrics, /healthz and /readyz (127.0.0.1:7071)"},
        {OPTION_NUMBER, "workers", 0, &workers, "N", "threads that serve (one per CPU)"},
        {OPTION_TEXT, "loop", 0, &loop, "KIND", "uring or epoll (uring where the kernel allows)"},
        {OPTION_TEXT, "durability", 0, &durability, "WHEN",
            "sync, or relaxed:MS: acknowledge first, sync at most MS milliseconds later"},
        {OPTION_END},
    };
    int status = STATUS_DONE;

    if (options_parse(&help, options, 0, 0, argc, argv, &status) < 0)
        return status;
    if (workers > SERVER_WORKERS_MAX)
        return options_wrong(&help, "--workers: at most %d", SERVER_WORKERS_MAX);
    if (loop != NULL && parse_loop(loop, &config) != 0)
        return options_wrong(&help, "--loop: uring or epoll");
    if (parse_durability(durability, &config) != 0)
        return options_wrong(&help, "--durability: sync or relaxed:MS, MS from 1 to 60000");
    config.data_dir = access_dir(&help, data);
    if (config.data_dir == NULL)
        return STATUS_USAGE;
    config.workers = (unsigned)workers;
    config.listens = listens.count > 0 ? listens.items : default_listens;
    config.listen_count = listens.count > 0 ? listens.count : 1;
    return server_run(&config) == 0 ? STATUS_DONE : STATUS_FAILED;
}
