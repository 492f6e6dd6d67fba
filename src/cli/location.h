/* BUCKET/KEY and BUCKET[/PREFIX] arguments. Keys are the argument's bytes as they are. */
#ifndef CLI_LOCATION_H
#define CLI_LOCATION_H

#include <stddef.h>

#include <shoal/shoal.h>

struct command_help;

struct location {
    char bucket[SHOAL_BUCKET_MAX + 1];
    const char *key; /* lies in the argument; never NULL */
    size_t key_length;
};

/* Needs a key of legal length. Returns 0, or 2 after a complaint. */
int location_parse_object(
    const struct command_help *help, const char *argument, struct location *ret_location);
/* The key is a prefix and may be empty. */
int location_parse_prefix(
    const struct command_help *help, const char *argument, struct location *ret_location);

#endif
