/* The main thread of a long command.

   SIGINT and SIGTERM are blocked in every thread and read from a descriptor here, so that no code
   runs in a signal handler. The first one asks the work to stop at its next file; then they are
   unblocked, and a second one ends the process, which loses nothing that was acknowledged. */
#include "cli/background.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define TICK_MS 100

struct state {
    const struct background *background;
    int ended_fd;
    int rc;
};

static void *run(void *arg)
{
    struct state *state = arg;
    uint64_t one = 1;
    state->rc = state->background->work(state->background->arg);
    /* Eight bytes into a fresh eventfd: it can't be full. */
    (void)!write(state->ended_fd, &one, sizeof one);
    return NULL;
}

static void get_signals(sigset_t *ret_signals)
{
    sigemptyset(ret_signals);
    sigaddset(ret_signals, SIGINT);
    sigaddset(ret_signals, SIGTERM);
}

void background_hold_signals(void)
{
    sigset_t signals;
    get_signals(&signals);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
}

static void attend(
    const struct state *state, int signal_fd, const sigset_t *signals, bool *ret_interrupted)
{
    const struct background *background = state->background;
    struct pollfd fds[2] = {
        {.fd = state->ended_fd, .events = POLLIN},
        {.fd = signal_fd, .events = POLLIN},
    };
    while (!(fds[0].revents & POLLIN)) {
        if (poll(fds, 2, TICK_MS) < 0)
            continue; /* interrupted: the answers are not valid */
        if (!*ret_interrupted && (fds[1].revents & POLLIN)) {
            struct signalfd_siginfo info;
            *ret_interrupted = read(signal_fd, &info, sizeof info) == sizeof info;
            atomic_store(background->stop, true);
            fds[1].fd = -1;
            pthread_sigmask(SIG_UNBLOCK, signals, NULL);
        }
        if (background->tick)
            background->tick(background->arg);
    }
}

int background_run(const struct background *background, bool *ret_interrupted)
{
    struct state state = {.background = background, .ended_fd = -1};
    int signal_fd = -1;
    pthread_t thread;
    sigset_t signals;

    *ret_interrupted = false;
    get_signals(&signals);
    state.ended_fd = eventfd(0, EFD_CLOEXEC);
    signal_fd = signalfd(-1, &signals, SFD_CLOEXEC);
    int rc = state.ended_fd < 0 || signal_fd < 0 ? -errno : 0;
    if (rc == 0)
        rc = -pthread_create(&thread, NULL, run, &state);
    if (rc == 0) {
        attend(&state, signal_fd, &signals, ret_interrupted);
        pthread_join(thread, NULL);
        rc = state.rc;
    }
    if (signal_fd >= 0)
        (void)close(signal_fd);
    if (state.ended_fd >= 0)
        (void)close(state.ended_fd);
    return rc;
}
