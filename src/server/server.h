/* The server: a store behind HTTP listeners. */
#ifndef SERVER_SERVER_H
#define SERVER_SERVER_H

#include <stdbool.h>
#include <stddef.h>

enum server_loop { SERVER_LOOP_AUTO, SERVER_LOOP_URING, SERVER_LOOP_EPOLL };

struct server_config {
    const char *data_dir;
    const char *const *listens; /* addresses as in net/listen.h */
    size_t listen_count;
    const char *admin;
    unsigned workers; /* 0: one per CPU that this process may use */
    enum server_loop loop;
    bool relaxed; /* durability, as in struct shoal_options */
    unsigned relaxed_ms;
};

#define SERVER_WORKERS_MAX 256

/* Serves until SIGTERM or SIGINT, then returns 0; or says on standard error what is in the way and
   returns 1. Changes the process: signal masks, the descriptor limit. */
int server_run(const struct server_config *config);

#endif
