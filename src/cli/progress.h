/* How far a long command has come: a bar on a terminal, a plain line every few seconds elsewhere. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A moment of the work. items counts things (files, objects); where there are none to count it
   stays NULL, and done and all are bytes. */
struct progress_state {
    const char *items; /* "files" */
    uint64_t done, all; /* all 0: not known */
    uint64_t bytes;
};

/* Shared between threads; lock guards the rest. */
struct progress {
    pthread_mutex_t lock;
    const char *label; /* "importing" */
    bool terminal;
    bool drawn; /* a bar stands on the current line */
    uint64_t start_ns, shown_ns;
    uint64_t rate_ns; /* the rates below were taken then */
    struct progress_state rate_state;
    double items_per_second, bytes_per_second;
};

void progress_init(struct progress *progress, const char *label);
/* Clears the bar. */
void progress_done(struct progress *progress);
/* Begins another phase of the work. */
void progress_relabel(struct progress *progress, const char *label);
/* Makes room for a line of output. */
void progress_clear(struct progress *progress);
/* Shows the state if it is time to. */
void progress_show(struct progress *progress, const struct progress_state *state);
/* A complaint, with the bar out of its way. */
void progress_complain(struct progress *progress, const char *command, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Takes the rates at now_ns and writes the line, at most `columns` wide; for progress_show and
   tests. Returns ret_text. */
char *progress_format(struct progress *progress, const struct progress_state *state,
    uint64_t now_ns, unsigned columns, char *ret_text, size_t room);

#endif
