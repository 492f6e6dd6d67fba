/* Parsing of command lines.

   options_parse walks argv once. An argument that begins with a dash (and is not "-" alone, which
   names a pipe) is an option until `--` has been seen; everything else is an operand and moves to
   the front of argv, in its order. Values are checked by their kind at once, so that a command's
   own code begins with well-formed values.

   What can go wrong is the user's: an unknown option, a value missing, superfluous or malformed,
   too few or too many operands. Each ends in one line on standard error and status 2. */
#include "cli/options.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/output.h"

int options_wrong(const struct command_help *help, const char *format, ...)
{
    char text[512];
    va_list list;
    va_start(list, format);
    (void)vsnprintf(text, sizeof text, format, list); /* a cut message is still a message */
    va_end(list);
    complain(help->name, "%s; see 'shoal %s --help'", text, help->name);
    return STATUS_USAGE;
}

static void print_help(const struct command_help *help, const struct option *options)
{
    const char *start = help->usage;
    const char *lead = "usage:";
    while (*start) {
        size_t length = strcspn(start, "\n");
        printf("%s shoal %.*s\n", lead, (int)length, start);
        start += length + (start[length] == '\n');
        lead = "      ";
    }
    printf("\n%s\noptions:\n", help->about);
    for (const struct option *o = options; o->kind != OPTION_END; o++) {
        char left[64];
        snprintf(
            left, sizeof left, "--%s%s%s", o->name, o->value ? " " : "", o->value ? o->value : "");
        if (o->letter)
            printf("  -%c, %-20s %s\n", o->letter, left, o->help);
        else
            printf("      %-20s %s\n", left, o->help);
    }
    printf("      %-20s %s\n", "--help", "print this text");
}

/* Digits and, for sizes, one unit letter (K, KB and KiB are the same). */
static int parse_number(const char *text, bool size, uint64_t *ret_number)
{
    char *end;
    if (!isdigit((unsigned char)*text))
        return -EINVAL;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (errno)
        return -ERANGE;
    if (size && *end) {
        const char *units = "KMGT";
        const char *unit = strchr(units, toupper((unsigned char)*end));
        if (!unit)
            return -EINVAL;
        unsigned shift = 10 * (unsigned)(unit - units + 1);
        if (number > UINT64_MAX >> shift)
            return -ERANGE;
        number <<= shift;
        end++;
        end += *end == 'i';
        end += *end == 'B' || *end == 'b';
    }
    if (*end)
        return -EINVAL;
    *ret_number = number;
    return 0;
}

static int set_value(
    const struct command_help *help, const struct option *option, const char *value)
{
    int rc;
    struct option_list *list;
    switch (option->kind) {
    case OPTION_TEXT:
        *(const char **)option->target = value;
        return 0;
    case OPTION_NUMBER:
    case OPTION_SIZE:
        rc = parse_number(value, option->kind == OPTION_SIZE, option->target);
        if (rc < 0)
            return options_wrong(help, "--%s: '%s' is %s", option->name, value,
                rc == -ERANGE ? "too large" : "not a number");
        return 0;
    case OPTION_LIST:
        list = option->target;
        if (list->count == OPTION_LIST_MAX)
            return options_wrong(help, "--%s may be given %d times", option->name, OPTION_LIST_MAX);
        list->items[list->count++] = value;
        return 0;
    default:
        return 0;
    }
}

static const struct option *find_long(const struct option *options, const char *name, size_t length)
{
    for (const struct option *o = options; o->kind != OPTION_END; o++)
        if (strlen(o->name) == length && memcmp(o->name, name, length) == 0)
            return o;
    return NULL;
}

static const struct option *find_letter(const struct option *options, char letter)
{
    for (const struct option *o = options; o->kind != OPTION_END; o++)
        if (o->letter && o->letter == letter)
            return o;
    return NULL;
}

/* One long option at argv[*at]; moves *at past a value that stands apart. */
static int take_long(
    const struct command_help *help, const struct option *options, int argc, char **argv, int *at)
{
    const char *name = argv[*at] + 2;
    size_t length = strcspn(name, "=");
    const struct option *option = find_long(options, name, length);
    if (!option)
        return options_wrong(help, "unknown option '--%.*s'", (int)length, name);
    if (option->kind == OPTION_FLAG) {
        if (name[length] == '=')
            return options_wrong(help, "--%s takes no value", option->name);
        *(bool *)option->target = true;
        return 0;
    }
    if (name[length] == '=')
        return set_value(help, option, name + length + 1);
    if (*at + 1 >= argc)
        return options_wrong(help, "--%s needs a value: %s", option->name, option->value);
    return set_value(help, option, argv[++*at]);
}

/* A cluster of short options: flags, and at its end perhaps one with a value. */
static int take_letters(
    const struct command_help *help, const struct option *options, int argc, char **argv, int *at)
{
    for (const char *letter = argv[*at] + 1; *letter; letter++) {
        const struct option *option = find_letter(options, *letter);
        if (!option)
            return options_wrong(help, "unknown option '-%c'", *letter);
        if (option->kind == OPTION_FLAG) {
            *(bool *)option->target = true;
            continue;
        }
        if (letter[1])
            return set_value(help, option, letter + 1);
        if (*at + 1 >= argc)
            return options_wrong(help, "-%c needs a value: %s", *letter, option->value);
        return set_value(help, option, argv[++*at]);
    }
    return 0;
}

int options_parse(const struct command_help *help, const struct option *options, int fewest,
    int most, int argc, char **argv, int *ret_status)
{
    int operands = 0;
    bool ended = false;
    for (int at = 1; at < argc; at++) {
        char *argument = argv[at];
        int status = 0;
        if (ended || argument[0] != '-' || argument[1] == 0) {
            argv[1 + operands++] = argument;
        } else if (strcmp(argument, "--") == 0) {
            ended = true;
        } else if (strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0) {
            print_help(help, options);
            *ret_status = STATUS_DONE;
            return -1;
        } else if (argument[1] == '-') {
            status = take_long(help, options, argc, argv, &at);
        } else {
            status = take_letters(help, options, argc, argv, &at);
        }
        if (status) {
            *ret_status = status;
            return -1;
        }
    }
    if (operands < fewest || (most >= 0 && operands > most)) {
        *ret_status = options_wrong(help, "%s; usage: shoal %.*s",
            operands < fewest ? "an argument is missing" : "too many arguments",
            (int)strcspn(help->usage, "\n"), help->usage);
        return -1;
    }
    return operands;
}
