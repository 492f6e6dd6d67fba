/* The client of a running server's DIR/admin.sock. */
#ifndef CLI_ADMIN_H
#define CLI_ADMIN_H

#include <stddef.h>

#include <jansson.h>

struct command_help;

/* Called for each line of an answer, parsed; returns 0, or a negative code that ends the call. */
typedef int admin_line_fn(void *arg, const json_t *line);

struct admin_call {
    const char *dir; /* the data directory */
    const char *method; /* "GET", … */
    const char *path; /* "/info" */
    admin_line_fn *line; /* NULL: the whole answer is one value, in ret_value */
    void *arg;
};

/* Asks the server. Returns 0; -ECONNREFUSED when no server listens there, without a word; or another
   negative code after a complaint. ret_value may be NULL; the caller drops it with json_decref. */
int admin_run(const struct command_help *help, const struct admin_call *call, json_t **ret_value);

#endif
