/* The server's life: store, token, listeners, workers; then waiting for a signal; then all of that
   backwards.

   Order matters at both ends. The store is opened first, because its lock is what makes the
   leftovers of an earlier server (admin.sock) ours; addresses are bound before any thread starts.
   At the end workers stop while the store is open, since their requests use it; the pool ends when
   no worker can submit any more, and the store is closed last.

   io_uring is tried first. Where the kernel refuses it, that is said once, and epoll is used. */
#include "server/server_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/mem.h"
#include "net/listen.h"

#define SOCKET_FILE     "admin.sock"
#define ADMIN_WORKER    0
#define FDS_RESERVED    1024 /* for segments, the catalogue and the rest */
#define CONNECTIONS_MAX 65536

/* What is bound, so that it can be closed and unlinked. */
struct binding {
    int *fds; /* one per worker, or one for all */
    unsigned fd_count;
    struct listen_address address; /* what it really has */
};

struct assembly {
    struct server server;
    struct binding *bindings; /* listens, then admin */
    size_t binding_count;
    int data_fd, socket_fd, signal_fd;
};

static int say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* One line on standard error; always -1. */
static int say(const char *format, ...)
{
    char line[1024];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(line, sizeof(line), format, arguments); /* a cut line is still the best */
    va_end(arguments);
    fprintf(stderr, "shoal serve: %s\n", line);
    return -1;
}

static int say_error(const struct shoal_error *error)
{
    return error->file[0] != 0 ? say("%s: %s", error->file, error->text) : say("%s", error->text);
}

/* --- the store --- */

static int open_store(struct assembly *assembly)
{
    const struct server_config *config = assembly->server.config;
    const struct shoal_options options = {
        .create = true,
        .relaxed = config->relaxed,
        .relaxed_ms = config->relaxed_ms,
    };
    struct shoal_error error = {0};

    if (shoal_open(config->data_dir, &options, &assembly->server.store, &error) != 0)
        return say_error(&error);
    if (token_load(config->data_dir, assembly->server.token, &error) != 0)
        return say_error(&error);
    return 0;
}

/* --- listeners --- */

static int say_cannot_listen(const char *text, int code)
{
    return say("%s: can't listen there: %s%s", text,
        code == -EINVAL          ? "not an address: use HOST:PORT, [IPV6]:PORT or unix:PATH"
        : code == -EADDRNOTAVAIL ? "this machine has no such address"
                                 : shoal_strerror(code),
        code == -EADDRINUSE ? "; stop what serves it or choose another address" : "");
}

static int bind_one(struct binding *binding, bool share)
{
    int rc = listen_open(&binding->address, share, 0777, &binding->fds[binding->fd_count]);

    if (rc == 0)
        binding->fd_count++;
    return rc;
}

/* The first socket fixes the port, if it was left open; the others share it. */
static int bind_all(struct binding *binding, unsigned fd_count)
{
    int rc = listen_probe(&binding->address);

    if (rc == 0)
        rc = bind_one(binding, fd_count > 1);
    if (rc == 0)
        rc = listen_address_of(binding->fds[0], &binding->address);
    while (rc == 0 && binding->fd_count < fd_count)
        rc = bind_one(binding, true);
    return rc;
}

static int bind_text(struct assembly *assembly, const char *text, bool admin)
{
    struct binding *binding = &assembly->bindings[assembly->binding_count];
    unsigned fd_count = 1;
    int rc = listen_address_parse(text, &binding->address);

    if (rc == 0) {
        if (!admin && !listen_address_is_unix(&binding->address))
            fd_count = assembly->server.worker_count;
        binding->fds = mem_alloc(fd_count * sizeof(binding->fds[0]));
        rc = binding->fds != NULL ? 0 : -ENOMEM;
    }
    if (rc == 0) {
        assembly->binding_count++;
        rc = bind_all(binding, fd_count);
    }
    return rc == 0 ? 0 : say_cannot_listen(text, rc);
}

/* A socket's path has at most 107 bytes, a directory's may be longer: hence the descriptor. */
static int bind_socket(struct assembly *assembly)
{
    const char *data_dir = assembly->server.config->data_dir;
    struct listen_address address;
    char path[64];
    int rc;

    assembly->data_fd = open(data_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (assembly->data_fd < 0)
        return say("%s: can't be opened: %s", data_dir, shoal_strerror(-errno));
    (void)snprintf(path, sizeof(path), "unix:/proc/self/fd/%d/" SOCKET_FILE, assembly->data_fd);
    rc = listen_address_parse(path, &address);
    if (rc == 0)
        rc = listen_open(&address, false, 0600, &assembly->socket_fd);
    return rc == 0
               ? 0
               : say("%s/" SOCKET_FILE ": can't listen there: %s", data_dir, shoal_strerror(rc));
}

static int bind_listeners(struct assembly *assembly)
{
    const struct server_config *config = assembly->server.config;
    int rc = 0;

    assembly->bindings = mem_zero(config->listen_count + 1, sizeof(assembly->bindings[0]));
    if (assembly->bindings == NULL)
        return say("out of memory");
    for (size_t i = 0; i < config->listen_count && rc == 0; i++)
        rc = bind_text(assembly, config->listens[i], false);
    if (rc == 0)
        rc = bind_text(assembly, config->admin, true);
    if (rc == 0)
        rc = bind_socket(assembly);
    return rc;
}

static void close_listeners(struct assembly *assembly)
{
    for (size_t i = 0; i < assembly->binding_count; i++) {
        struct binding *binding = &assembly->bindings[i];
        char text[256];

        for (unsigned j = 0; j < binding->fd_count; j++)
            close(binding->fds[j]);
        listen_address_text(&binding->address, text, sizeof(text));
        /* A file that can't be removed is replaced by the next start. */
        if (binding->fd_count > 0 && listen_address_is_unix(&binding->address))
            (void)unlink(text + strlen("unix:"));
        mem_free(binding->fds);
    }
    mem_free(assembly->bindings);
    if (assembly->socket_fd >= 0) {
        close(assembly->socket_fd);
        (void)unlinkat(assembly->data_fd, SOCKET_FILE, 0); /* as above */
    }
    if (assembly->data_fd >= 0)
        close(assembly->data_fd);
}

/* --- workers --- */

static unsigned cpu_count(void)
{
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof(set), &set) != 0)
        return 1;
    return (unsigned)CPU_COUNT(&set);
}

/* Raises the limit as far as it goes; returns it. */
static uint64_t raise_descriptor_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return FDS_RESERVED;
    if (limit.rlim_cur < limit.rlim_max) {
        rlim_t before = limit.rlim_cur;

        limit.rlim_cur = limit.rlim_max;
        if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
            limit.rlim_cur = before;
    }
    return limit.rlim_cur;
}

static unsigned connections_of(uint64_t descriptors, unsigned workers)
{
    uint64_t reserved = descriptors / 2 < FDS_RESERVED ? descriptors / 2 : FDS_RESERVED;
    uint64_t each = (descriptors - reserved) / workers;

    if (each > CONNECTIONS_MAX)
        each = CONNECTIONS_MAX;
    return each > 0 ? (unsigned)each : 1;
}

static int make_worker(struct server *server, struct worker *worker, enum loop_kind *kind)
{
    int rc = worker_init(worker, server, *kind);

    if (rc != 0 && *kind == LOOP_URING) {
        if (server->config->loop == SERVER_LOOP_URING)
            return say("io_uring is refused: %s; use --loop epoll", shoal_strerror(rc));
        say("io_uring is refused (%s): using epoll", shoal_strerror(rc));
        *kind = LOOP_EPOLL;
        rc = worker_init(worker, server, *kind);
    }
    return rc == 0 ? 0 : say("no event loop: %s", shoal_strerror(rc));
}

static int attach_listeners(struct assembly *assembly)
{
    struct server *server = &assembly->server;
    size_t admin = assembly->binding_count - 1;
    int rc = 0;

    for (unsigned i = 0; i < server->worker_count && rc == 0; i++) {
        for (size_t j = 0; j < admin && rc == 0; j++) {
            const struct binding *binding = &assembly->bindings[j];

            rc = worker_listen(
                &server->workers[i], binding->fds[i < binding->fd_count ? i : 0], &object_service);
        }
    }
    if (rc == 0)
        rc = worker_listen(
            &server->workers[ADMIN_WORKER], assembly->bindings[admin].fds[0], &admin_service);
    if (rc == 0)
        rc = worker_listen(&server->workers[ADMIN_WORKER], assembly->socket_fd, &socket_service);
    return rc == 0 ? 0 : say("too many --listen addresses");
}

static int start_workers(struct assembly *assembly)
{
    struct server *server = &assembly->server;
    enum loop_kind kind = server->config->loop == SERVER_LOOP_EPOLL ? LOOP_EPOLL : LOOP_URING;
    int rc = 0;

    for (unsigned i = 0; i < server->worker_count && rc == 0; i++)
        rc = make_worker(server, &server->workers[i], &kind);
    if (rc == 0)
        rc = attach_listeners(assembly);
    if (rc != 0)
        return rc;
    rc = thread_pool_new(POOL_THREADS, POOL_QUEUE, &server->pool);
    for (unsigned i = 0; i < server->worker_count && rc == 0; i++)
        rc = worker_start(&server->workers[i]);
    return rc == 0 ? 0 : say("no thread can be started: %s", shoal_strerror(rc));
}

/* 0, or -1 if one of them had failed. */
static int stop_workers(struct server *server)
{
    int rc = 0;

    atomic_store(&server->stopping, true);
    for (unsigned i = 0; i < server->worker_count; i++) {
        if (server->workers[i].started)
            worker_stop(&server->workers[i]);
    }
    for (unsigned i = 0; i < server->worker_count; i++) {
        worker_join(&server->workers[i]);
        if (server->workers[i].status != 0)
            rc = say("an event loop failed: %s", shoal_strerror(server->workers[i].status));
    }
    return rc;
}

/* --- signals --- */

static int block_signals(struct assembly *assembly)
{
    sigset_t signals;

    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    assembly->signal_fd = signalfd(-1, &signals, SFD_CLOEXEC);
    assembly->server.alarm_fd = eventfd(0, EFD_CLOEXEC);
    return assembly->signal_fd >= 0 && assembly->server.alarm_fd >= 0
               ? 0
               : say("no descriptor for signals: %s", shoal_strerror(-errno));
}

/* The signals stay blocked: a second one changes nothing, the end is bounded in time anyway. */
static void wait_for_end(const struct assembly *assembly)
{
    struct pollfd fds[2] = {
        {.fd = assembly->signal_fd, .events = POLLIN},
        {.fd = assembly->server.alarm_fd, .events = POLLIN},
    };

    while (poll(fds, 2, -1) < 0 && errno == EINTR)
        continue;
}

/* --- the whole --- */

static void announce(const struct assembly *assembly)
{
    const struct server *server = &assembly->server;

    for (size_t i = 0; i < assembly->binding_count; i++) {
        char text[256];

        listen_address_text(&assembly->bindings[i].address, text, sizeof(text));
        if (i + 1 == assembly->binding_count)
            printf("shoal: admin at %s\n", text);
        else
            printf("shoal: serving %s (%u worker%s, %s)\n", text, server->worker_count,
                server->worker_count == 1 ? "" : "s", loop_name(server->workers[0].loop));
    }
    fflush(stdout);
}

static int start(struct assembly *assembly)
{
    struct server *server = &assembly->server;

    server->workers = mem_zero(server->worker_count, sizeof(server->workers[0]));
    if (server->workers == NULL)
        return say("out of memory");
    if (block_signals(assembly) != 0 || open_store(assembly) != 0)
        return -1;
    if (bind_listeners(assembly) != 0)
        return -1;
    return start_workers(assembly);
}

/* A check can take hours and can't be broken off: what was acknowledged is made durable, and the
   process ends around it. */
static void leave_check_behind(struct server *server, int status)
{
    int rc = shoal_flush(server->store);

    if (rc != 0) {
        say("the last sync failed: %s", shoal_strerror(rc));
        status = 1;
    }
    fflush(NULL);
    _exit(status);
}

static int end(struct assembly *assembly, int status)
{
    struct server *server = &assembly->server;
    int rc;

    if (server->workers != NULL && stop_workers(server) != 0)
        status = 1;
    if (atomic_load(&server->checking)) {
        close_listeners(assembly);
        leave_check_behind(server, status);
    }
    thread_pool_free(server->pool);
    close_listeners(assembly);
    for (unsigned i = 0; i < server->worker_count && server->workers != NULL; i++)
        worker_done(&server->workers[i]);
    mem_free(server->workers);
    rc = shoal_close(server->store);
    if (rc != 0) {
        say("the last sync failed: %s", shoal_strerror(rc));
        status = 1;
    }
    if (assembly->signal_fd >= 0)
        close(assembly->signal_fd);
    if (server->alarm_fd >= 0)
        close(server->alarm_fd);
    return status;
}

int server_run(const struct server_config *config)
{
    struct assembly assembly = {
        .server = {.config = config, .alarm_fd = -1},
        .data_fd = -1,
        .socket_fd = -1,
        .signal_fd = -1,
    };
    struct server *server = &assembly.server;
    int status = 1;

    server->worker_count = config->workers > 0 ? config->workers : cpu_count();
    if (server->worker_count > SERVER_WORKERS_MAX)
        server->worker_count = SERVER_WORKERS_MAX;
    server->connections_max = connections_of(raise_descriptor_limit(), server->worker_count);
    atomic_init(&server->memory_left, REQUEST_BYTES);
    if (start(&assembly) == 0) {
        announce(&assembly);
        wait_for_end(&assembly);
        status = 0;
    }
    return end(&assembly, status);
}
