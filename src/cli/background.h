/* Runs the long part of a command on a thread of its own. */
#ifndef CLI_BACKGROUND_H
#define CLI_BACKGROUND_H

#include <stdatomic.h>
#include <stdbool.h>

struct background {
    int (*work)(void *arg); /* on the other thread */
    void (*tick)(void *arg); /* on this one, ten times a second; may be NULL */
    void *arg;
    atomic_bool *stop; /* set when SIGINT or SIGTERM arrives */
};

/* Blocks SIGINT and SIGTERM. To be called before anything starts threads, the store above all: a
   thread that does not block them would be the one to get them. */
void background_hold_signals(void);

/* Needs held signals. Returns what work returned, or -errno if it could not be started. *ret_interrupted tells whether
   a signal came. A second one ends the process at once. */
int background_run(const struct background *background, bool *ret_interrupted);

#endif
