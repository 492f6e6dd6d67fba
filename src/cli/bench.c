/* shoal bench put --objects N --size BYTES: how fast this machine stores objects from memory.

   Each thread starts puts of its share of the numbers 0 to N-1. A number becomes a key of the form
   xx/xx/xx/xx.jpg by multiplication with an odd constant, which is a bijection of 32 bits: all keys
   are distinct and come in no order. The content is one random block with the number stamped into
   it every 256 bytes, so that no two objects are alike and making them costs next to nothing.

   The clock stops when shoal_flush has returned: everything is durable and in the catalogue. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/bytes.h"
#include "base/mem.h"
#include "cli/access.h"
#include "cli/background.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/progress.h"

static const struct command_help help = {
    .name = "bench",
    .usage = "bench put --objects N --size BYTES [--threads T]",
    .about =
        "Stores N objects of BYTES bytes each, with distinct keys (xx/xx/xx/xx.jpg) and\n"
        "contents made in memory, in the bucket 'bench', and shows how long it took until all\n"
        "of them were on the device and in the catalogue. The store and the bucket are\n"
        "created if they do not exist; objects of an earlier run are replaced.\n",
};

#define BUCKET      "bench"
#define THREADS_MAX 64
#define STAMP_EVERY 256

struct bench {
    struct shoal *store;
    uint64_t objects, size, threads;
    uint8_t *block; /* size bytes, and read-only once filled */
    atomic_bool stop;
    atomic_uint_least64_t done;
    atomic_int error;
    struct progress progress;
    struct timespec start;
    double seconds;
};

/* A thread and its share of the numbers. */
struct share {
    struct bench *bench;
    uint64_t from, to;
    pthread_t thread;
};

static void note_error(struct bench *bench, int code)
{
    int none = 0;
    atomic_compare_exchange_strong(&bench->error, &none, code);
    atomic_store(&bench->stop, true);
}

static void stored(void *arg, int code, const struct shoal_stat *stat)
{
    struct bench *bench = arg;
    if (code < 0)
        note_error(bench, code);
    else
        atomic_fetch_add_explicit(&bench->done, 1, memory_order_relaxed);
}

static size_t make_key(uint64_t number, char ret_key[16])
{
    static const char digits[] = "0123456789abcdef";
    uint32_t mixed = (uint32_t)number * 0x9e3779b1u;
    char *at = ret_key;
    for (int byte = 0; byte < 4; byte++) {
        uint8_t value = (uint8_t)(mixed >> (24 - 8 * byte));
        *at++ = digits[value >> 4];
        *at++ = digits[value & 15];
        *at++ = byte < 3 ? '/' : '.';
    }
    memcpy(at, "jpg", 3);
    return (size_t)(at + 3 - ret_key);
}

static void stamp(uint8_t *data, uint64_t size, uint64_t number)
{
    uint8_t mark[8];
    put_u64(mark, number);
    for (uint64_t at = 0; at < size; at += STAMP_EVERY)
        memcpy(data + at, mark, size - at < 8 ? size - at : 8);
}

static int put_one(const struct share *share, uint8_t *data, uint64_t number)
{
    struct bench *bench = share->bench;
    struct shoal_attrs attrs = {.content_type = "image/jpeg"};
    char key[16];
    size_t key_length = make_key(number, key);
    stamp(data, bench->size, number);
    if (bench->size <= SHOAL_CHUNK_BYTES)
        return shoal_put_start(
            bench->store, BUCKET, key, key_length, data, bench->size, &attrs, stored, bench);
    int code = shoal_put(bench->store, BUCKET, key, key_length, data, bench->size, &attrs, NULL);
    if (code == 0)
        stored(bench, 0, NULL);
    return code;
}

static void *put_share(void *arg)
{
    const struct share *share = arg;
    struct bench *bench = share->bench;
    uint8_t *data = mem_alloc(bench->size);
    if (!data) {
        note_error(bench, -ENOMEM);
        return NULL;
    }
    memcpy(data, bench->block, bench->size);
    for (uint64_t number = share->from; number < share->to && !atomic_load(&bench->stop);
         number++) {
        int code = put_one(share, data, number);
        if (code < 0)
            note_error(bench, code);
    }
    mem_free(data);
    return NULL;
}

static int run_threads(struct bench *bench)
{
    struct share shares[THREADS_MAX];
    unsigned started = 0;
    for (; started < bench->threads; started++) {
        struct share *share = &shares[started];
        share->bench = bench;
        share->from = bench->objects * started / bench->threads;
        share->to = bench->objects * (started + 1) / bench->threads;
        int rc = pthread_create(&share->thread, NULL, put_share, share);
        if (rc) {
            note_error(bench, -rc);
            break;
        }
    }
    for (unsigned i = 0; i < started; i++)
        pthread_join(shares[i].thread, NULL);
    /* Also after an error: callbacks refer to the bench until everything has landed. */
    int code = shoal_flush(bench->store);
    return atomic_load(&bench->error) ? atomic_load(&bench->error) : code;
}

static int work(void *arg)
{
    struct bench *bench = arg;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &bench->start);
    int code = run_threads(bench);
    clock_gettime(CLOCK_MONOTONIC, &now);
    bench->seconds = (double)(now.tv_sec - bench->start.tv_sec) +
                     (double)(now.tv_nsec - bench->start.tv_nsec) / 1e9;
    return code;
}

static void tick(void *arg)
{
    struct bench *bench = arg;
    struct progress_state state = {
        .items = "objects",
        .done = bench->done,
        .all = bench->objects,
        .bytes = bench->done * bench->size,
    };
    progress_show(&bench->progress, &state);
}

static void print_result(struct bench *bench, bool as_json)
{
    struct json_out json = {.out = stdout};
    char count[32], bytes[16];
    double rate = bench->seconds > 0 ? (double)bench->objects / bench->seconds : 0;
    if (!as_json) {
        printf("%s objects", human_count(bench->objects, count));
        printf(
            " (%s) in %.3f s,", human_bytes(bench->objects * bench->size, bytes), bench->seconds);
        printf(" %s a second\n", human_count((uint64_t)rate, count));
        return;
    }
    json_put_open(&json, NULL, '{');
    json_put_text(&json, "name", "put");
    json_put_number(&json, "objects", bench->objects);
    json_put_number(&json, "size", bench->size);
    json_put_number(&json, "bytes", bench->objects * bench->size);
    json_put_number(&json, "threads", bench->threads);
    json_put_real(&json, "seconds", bench->seconds);
    json_put_real(&json, "puts_per_second", rate);
    json_put_close(&json, '}');
    json_put_end(&json);
}

/* Exit status. */
static int run(struct bench *bench, bool json)
{
    const struct background background = {work, tick, bench, &bench->stop};
    bool interrupted;
    int code = access_ensure_bucket(bench->store, BUCKET);
    if (code < 0)
        return access_failed(&help, BUCKET, NULL, 0, code);
    progress_init(&bench->progress, "storing");
    code = background_run(&background, &interrupted);
    progress_done(&bench->progress);
    if (code < 0)
        return access_failed(&help, BUCKET, NULL, 0, code);
    if (interrupted) {
        complain(help.name, "stopped by a signal: no result");
        return STATUS_FAILED;
    }
    print_result(bench, json);
    return STATUS_DONE;
}

static void fill_block(struct bench *bench)
{
    uint64_t state = UINT64_C(0x2545f4914f6cdd1d);
    for (uint64_t i = 0; i < bench->size; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bench->block[i] = (uint8_t)state;
    }
}

static int check_options(const struct bench *bench)
{
    if (bench->objects == 0 || bench->objects > UINT32_MAX)
        return options_wrong(&help, "--objects: give 1 to %u", UINT32_MAX);
    if (bench->size == 0 || bench->size > (UINT64_C(1) << 30))
        return options_wrong(&help, "--size: give 1 byte to 1G");
    if (bench->threads == 0 || bench->threads > THREADS_MAX)
        return options_wrong(&help, "--threads: give 1 to %d", THREADS_MAX);
    return 0;
}

int cmd_bench(int argc, char **argv)
{
    const char *data = NULL;
    bool json = false;
    struct bench bench = {.objects = 0, .size = 1024, .threads = 2};
    const struct option options[] = {
        OPTION_DATA(&data),
        {OPTION_NUMBER, "objects", 0, &bench.objects, "N", "how many objects"},
        {OPTION_SIZE, "size", 0, &bench.size, "BYTES", "size of each (default 1K)"},
        {OPTION_NUMBER, "threads", 0, &bench.threads, "T", "threads that put (default 2)"},
        OPTION_JSON(&json),
        {OPTION_END},
    };
    int status;
    if (options_parse(&help, options, 1, 1, argc, argv, &status) < 0)
        return status;
    if (strcmp(argv[1], "put") != 0)
        return options_wrong(&help, "unknown benchmark: this version knows 'put'");
    status = check_options(&bench);
    if (status)
        return status;
    bench.block = mem_alloc(bench.size);
    if (!bench.block)
        return access_failed(&help, BUCKET, NULL, 0, -ENOMEM);
    fill_block(&bench);
    background_hold_signals();
    status = access_open(&help, data, ACCESS_CREATE, &bench.store);
    if (status == 0)
        status = access_close(&help, bench.store, run(&bench, json));
    mem_free(bench.block);
    return status;
}
