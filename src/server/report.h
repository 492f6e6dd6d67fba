/* An answer made on a pool thread: a status and a text, which leave when the thread is done. */
#ifndef SERVER_REPORT_H
#define SERVER_REPORT_H

#include "server/server_priv.h"

struct report {
    struct exchange *x;
    struct server_job job;
    void (*make)(struct report *report); /* on a pool thread: fills status and text */
    const char *content_type;
    int status;
    struct text text;
    char argument[SHOAL_BUCKET_MAX + 1];
    int action;
};

/* Takes the exchange's state; argument and action may be set before. */
struct report *report_of(struct exchange *x);
void report_run(struct exchange *x, const char *content_type, void (*make)(struct report *report));

#endif
