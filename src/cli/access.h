/* How commands open the store, and how they say what went wrong with it. */
#ifndef CLI_ACCESS_H
#define CLI_ACCESS_H

#include <stddef.h>

#include <shoal/shoal.h>

struct command_help;

enum access_use {
    ACCESS_READ, /* changes nothing; the store must exist */
    ACCESS_WRITE, /* the store must exist */
    ACCESS_CREATE, /* makes a store where the directory is absent or empty */
};

/* The directory: what --data said, else SHOAL_DATA. NULL after a complaint (status 2). */
const char *access_dir(const struct command_help *help, const char *data);

/* 0 or a code, with *ret_error filled; says nothing. */
int access_try(
    const char *dir, enum access_use use, struct shoal **ret_store, struct shoal_error *ret_error);
/* Complains about a failed access_try; returns the exit status. */
int access_refused(
    const struct command_help *help, const char *dir, const struct shoal_error *error);
/* Both steps: 0, or the exit status after a complaint. */
int access_open(const struct command_help *help, const char *data, enum access_use use,
    struct shoal **ret_store);
/* Closes; a status of 0 becomes 1 after a complaint if the last sync failed. */
int access_close(const struct command_help *help, struct shoal *store, int status);

/* Complains that something about BUCKET/KEY (key may be NULL) failed with this code, with advice
   where there is some; returns the exit status. */
int access_failed(const struct command_help *help, const char *bucket, const void *key,
    size_t key_length, int code);
/* What to do about a code: a clause that begins with "; ", or "". */
const char *access_advice(int code);
/* 3 for damage, else 1. */
int access_status(int code);
/* A missing bucket is made, private, by put, import and bench. 0 or a code. */
int access_ensure_bucket(struct shoal *store, const char *bucket);

#endif
