/* The one parser for command lines: options may stand anywhere, `--` ends them, values are given as
   `--name value` or `--name=value`. The same tables print --help. */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include <stddef.h>

enum option_kind {
    OPTION_END, /* closes a table */
    OPTION_FLAG, /* target: bool */
    OPTION_TEXT, /* target: const char *; the last one given wins */
    OPTION_NUMBER, /* target: uint64_t */
    OPTION_SIZE, /* target: uint64_t; bytes, with K, M, G or T for powers of 1,024 */
    OPTION_LIST, /* target: struct option_list; may be given several times */
};

#define OPTION_LIST_MAX 16

struct option_list {
    const char *items[OPTION_LIST_MAX];
    size_t count;
};

struct option {
    enum option_kind kind;
    const char *name; /* without dashes */
    char letter; /* its short form, 0: none */
    void *target; /* untouched when the option is not given */
    const char *value; /* what the help calls its value; NULL for flags */
    const char *help; /* one line */
};

/* Two options nearly every command has. */
#define OPTION_DATA(variable)                                                                      \
    {                                                                                              \
        OPTION_TEXT, "data", 0, variable, "DIR", "directory of the store (or set SHOAL_DATA)"      \
    }
#define OPTION_JSON(variable)                                                                      \
    {                                                                                              \
        OPTION_FLAG, "json", 0, variable, NULL, "print the result as one line of JSON"             \
    }

struct command_help {
    const char *name; /* "put" */
    const char *usage; /* one line a form, without the program's name: "put FILE BUCKET/KEY" */
    const char *about; /* paragraphs, each line at most 80 columns, ending in a newline */
};

/* Fills the targets and moves the operands to argv[1], argv[2], … Returns their count, or -1 when
   the command is over: after --help (*ret_status is 0), or after a complaint on standard error
   (2). fewest and most bound the operands; most -1: any number. */
int options_parse(const struct command_help *help, const struct option *options, int fewest,
    int most, int argc, char **argv, int *ret_status);

/* Complains about the command line in one line that ends in a pointer to --help; returns 2. */
int options_wrong(const struct command_help *help, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
