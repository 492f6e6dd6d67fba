/* shoal rm [-r] SRC...: removes objects.

   Without -r every argument names one object. With -r it names all below it: the key itself and what
   follows it after a slash, so that `rm -r demo/photo` does not touch `demo/photos`. The keys come
   from a scan and are removed in batches that are in flight together; memory is constant.

   A removal that fails is reported, and the others go on. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "cli/access.h"
#include "cli/commands.h"
#include "cli/location.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/progress.h"

static const struct command_help help = {
    .name = "rm",
    .usage = "rm BUCKET/KEY...\nrm -r BUCKET[/PREFIX]...",
    .about = "Removes objects. With -r: PREFIX itself, if it is an object, and everything below\n"
             "PREFIX/; all objects of the bucket where there is no PREFIX. The bucket stays.\n",
};

#define IN_FLIGHT_MAX 4096

struct rm {
    struct shoal *store;
    bool recursive;
    struct progress progress;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t landed;
    unsigned in_flight;
    uint64_t done;
    int first_error;
};

static void landed(void *arg, int code, const struct shoal_stat *stat)
{
    struct rm *rm = arg;
    pthread_mutex_lock(&rm->lock);
    rm->in_flight--;
    /* Absent: it went away between scan and removal, which is what was asked for. */
    if (code == 0)
        rm->done++;
    else if (code != SHOAL_E_ABSENT && rm->first_error == 0)
        rm->first_error = code;
    pthread_cond_signal(&rm->landed);
    pthread_mutex_unlock(&rm->lock);
}

/* Waits until at most this many are in flight. Returns the first error so far. */
static int await(struct rm *rm, unsigned at_most)
{
    pthread_mutex_lock(&rm->lock);
    while (rm->in_flight > at_most)
        pthread_cond_wait(&rm->landed, &rm->lock);
    int code = rm->first_error;
    pthread_mutex_unlock(&rm->lock);
    return code;
}

static void show(struct rm *rm)
{
    struct progress_state state = {.items = "objects"};
    pthread_mutex_lock(&rm->lock);
    state.done = rm->done;
    pthread_mutex_unlock(&rm->lock);
    progress_show(&rm->progress, &state);
}

static int start_removal(struct rm *rm, const char *bucket, const void *key, size_t key_length)
{
    int code = await(rm, IN_FLIGHT_MAX - 1);
    if (code < 0)
        return code;
    pthread_mutex_lock(&rm->lock);
    rm->in_flight++;
    pthread_mutex_unlock(&rm->lock);
    code = shoal_delete_start(rm->store, bucket, key, key_length, landed, rm);
    if (code < 0)
        landed(rm, code, NULL);
    return code == SHOAL_E_ABSENT ? 0 : code;
}

static bool is_below(const struct location *at, const struct shoal_entry *entry)
{
    return at->key_length == 0 || entry->key_length == at->key_length ||
           at->key[at->key_length - 1] == '/' || ((const char *)entry->key)[at->key_length] == '/';
}

static int remove_below(struct rm *rm, const struct location *at)
{
    struct shoal_scan *scan;
    struct shoal_entry entry;
    int code = shoal_scan_open(rm->store, at->bucket, at->key, at->key_length, "", 0, &scan);
    if (code < 0)
        return access_failed(&help, at->bucket, NULL, 0, code);
    uint64_t before = rm->done;
    while ((code = shoal_scan_next(scan, &entry)) > 0) {
        if (!is_below(at, &entry))
            continue;
        code = start_removal(rm, at->bucket, entry.key, entry.key_length);
        if (code < 0)
            break;
        show(rm);
    }
    int landing = await(rm, 0);
    shoal_scan_close(scan);
    if (code == 0)
        code = landing;
    rm->first_error = 0;
    if (code < 0)
        return access_failed(&help, at->bucket, at->key, at->key_length, code);
    /* An empty bucket is no mistake, a prefix that matches nothing probably is one. */
    if (rm->done == before && at->key_length)
        return access_failed(&help, at->bucket, at->key, at->key_length, SHOAL_E_ABSENT);
    return STATUS_DONE;
}

static int remove_one(struct rm *rm, const struct location *at)
{
    int code = shoal_delete(rm->store, at->bucket, at->key, at->key_length);
    if (code < 0)
        return access_failed(&help, at->bucket, at->key, at->key_length, code);
    rm->done++;
    return STATUS_DONE;
}

/* All arguments are checked before the first object goes. */
static int check_arguments(const struct rm *rm, char **arguments)
{
    struct location at;
    int status = 0;
    for (; *arguments && status == 0; arguments++)
        status = rm->recursive ? location_parse_prefix(&help, *arguments, &at)
                               : location_parse_object(&help, *arguments, &at);
    return status;
}

static int remove_all(struct rm *rm, char **arguments)
{
    int status = STATUS_DONE;
    for (; *arguments; arguments++) {
        struct location at;
        (void)location_parse_prefix(&help, *arguments, &at); /* checked before */
        int one = rm->recursive ? remove_below(rm, &at) : remove_one(rm, &at);
        if (one > status)
            status = one;
    }
    return status;
}

static void print_result(const struct rm *rm, bool json)
{
    struct json_out out = {.out = stdout};
    char count[32];
    if (json) {
        json_put_open(&out, NULL, '{');
        json_put_number(&out, "removed", rm->done);
        json_put_close(&out, '}');
        json_put_end(&out);
    } else if (rm->recursive) {
        printf("%s objects removed\n", human_count(rm->done, count));
    }
}

int cmd_rm(int argc, char **argv)
{
    const char *data = NULL;
    bool json = false;
    struct rm rm = {
        .lock = PTHREAD_MUTEX_INITIALIZER,
        .landed = PTHREAD_COND_INITIALIZER,
    };
    const struct option options[] = {
        OPTION_DATA(&data),
        {OPTION_FLAG, "recursive", 'r', &rm.recursive, NULL, "remove everything below"},
        OPTION_JSON(&json),
        {OPTION_END},
    };
    int status;
    int operands = options_parse(&help, options, 1, -1, argc, argv, &status);
    if (operands < 0)
        return status;
    argv[1 + operands] = NULL;
    status = check_arguments(&rm, argv + 1);
    if (status == 0)
        status = access_open(&help, data, ACCESS_WRITE, &rm.store);
    if (status)
        return status;
    progress_init(&rm.progress, "removing");
    status = remove_all(&rm, argv + 1);
    progress_done(&rm.progress);
    status = access_close(&help, rm.store, status);
    print_result(&rm, json);
    return status;
}
