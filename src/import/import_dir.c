/* The import of a directory tree, as a whole.

   One walk copies: its workers read files and start puts, and end when all their puts have landed.
   shoal_flush then makes sure of the catalogue. With verify a second walk compares. A counting walk
   may run beside the first one, which knows the number of files long before they are copied.

   Nothing is remembered between runs: what the store holds is the state, so an import that was
   stopped, killed or ran out of space continues by being started again. */
#include "import/import_dir.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/md5.h"
#include "base/mem.h"
#include "import/import_priv.h"

static void leave_out(void *arg, const char *path, size_t path_length, int code)
{
    struct import_worker *worker = arg;
    struct import_run *run = worker->run;
    char text[96];
    if (code == TREE_EXCLUDED) {
        import_report(run, IMPORT_SKIPPED, path, path_length, "the store's own data directory");
    } else if (code == TREE_TOO_LONG) {
        snprintf(text, sizeof text, "its key would exceed %d bytes", SHOAL_KEY_MAX);
        import_report(run, IMPORT_FAILED, path, path_length, text);
    } else {
        import_report(run, IMPORT_FAILED, path, path_length, shoal_strerror(code));
    }
}

/* What the copying walk left out has been said. */
static void leave_out_again(void *arg, const char *path, size_t path_length, int code)
{
}

static void worker_done(struct import_worker *worker)
{
    flight_done(&worker->flight);
    mem_free(worker->buffer);
    mem_free(worker->stored);
    md5_free(worker->md5);
}

static int worker_init(struct import_worker *worker, struct import_run *run)
{
    const struct import_dir *job = run->job;
    worker->run = run;
    worker->use_noatime = true;
    worker->known = (struct known){.store = job->store, .bucket = job->bucket};
    worker->buffer = mem_alloc(READ_BUFFER_BYTES);
    if (job->verify)
        worker->stored = mem_alloc(COMPARE_BYTES);
    if (job->checksum)
        worker->md5 = md5_new();
    int rc = flight_init(&worker->flight, run, FLIGHT_SLOTS / job->readers);
    if (!worker->buffer || (job->verify && !worker->stored) || (job->checksum && !worker->md5))
        rc = -ENOMEM;
    return rc;
}

/* The path of every file begins with "PREFIX/", so that it is the key. */
static size_t path_prefix(const struct import_dir *job, char ret_prefix[SHOAL_KEY_MAX + 1])
{
    memcpy(ret_prefix, job->prefix, job->prefix_length);
    if (job->prefix_length == 0)
        return 0;
    ret_prefix[job->prefix_length] = '/';
    return job->prefix_length + 1;
}

static void base_walk(const struct import_run *run, const char *prefix, struct tree_walk *ret_walk)
{
    *ret_walk = (struct tree_walk){
        .root_fd = run->job->root_fd,
        .prefix = prefix,
        .prefix_length = run->strip,
        .excluded_dev = run->job->data_dev,
        .excluded_ino = run->job->data_ino,
        .stop = run->job->stop,
    };
}

/* A further walk that only counts. Its thread owns files. */
struct ahead {
    struct tree_walk walk;
    struct import_counts *counts;
    void *self;
    uint64_t files;
    pthread_t thread;
    bool started;
};

static void count_file(void *arg, const struct tree_entry *entry)
{
    ((struct ahead *)arg)->files++;
}

static void *count_all(void *arg)
{
    struct ahead *ahead = arg;
    /* If it can't be walked the time left stays unknown: no harm done. */
    if (tree_walk(&ahead->walk) == 0)
        atomic_store(&ahead->counts->expected, ahead->files);
    return NULL;
}

static void ahead_start(struct ahead *ahead, struct import_run *run, const char *prefix)
{
    ahead->counts = run->counts;
    ahead->self = ahead;
    base_walk(run, prefix, &ahead->walk);
    ahead->walk.worker_count = 1;
    ahead->walk.workers = &ahead->self;
    ahead->walk.visitor = (struct tree_visitor){count_file, leave_out_again};
    ahead->started = pthread_create(&ahead->thread, NULL, count_all, ahead) == 0;
}

/* An object that is in the bucket before its file is met may be unchanged; in an empty bucket
   there is none, since each file is met once. */
static bool bucket_is_empty(const struct import_dir *job)
{
    uint64_t objects, bytes;
    return shoal_bucket_usage(job->store, job->bucket, &objects, &bytes) == 0 && objects == 0;
}

static int run_walks(struct import_run *run, struct import_worker *workers, const char *prefix)
{
    const struct import_dir *job = run->job;
    void *args[TREE_WORKERS_MAX];
    struct tree_walk walk;
    base_walk(run, prefix, &walk);
    walk.worker_count = job->readers;
    walk.workers = args;
    walk.visitor = (struct tree_visitor){import_copy_file, leave_out};
    for (unsigned i = 0; i < job->readers; i++)
        args[i] = &workers[i];
    int rc = tree_walk(&walk);
    for (unsigned i = 0; i < job->readers; i++) {
        flight_drain(&workers[i].flight);
        known_done(&workers[i].known);
    }
    if (atomic_load(&run->fatal) < 0)
        return atomic_load(&run->fatal);
    if (rc == 0)
        rc = shoal_flush(job->store);
    if (rc < 0 || !job->verify || atomic_load(job->stop))
        return rc;
    atomic_store(&run->counts->verifying, true);
    walk.visitor = (struct tree_visitor){import_verify_file, leave_out_again};
    return tree_walk(&walk);
}

int import_dir_run(const struct import_dir *job, struct import_counts *counts)
{
    char prefix[SHOAL_KEY_MAX + 1];
    struct import_run run = {.job = job, .counts = counts};
    struct ahead ahead = {.started = false};
    int rc = -ENOMEM;

    if (job->readers == 0 || job->readers > TREE_WORKERS_MAX || job->prefix_length >= SHOAL_KEY_MAX)
        return -EINVAL;
    struct import_worker *workers = mem_zero(job->readers, sizeof *workers);
    if (!workers)
        return -ENOMEM;
    for (unsigned i = 0; i < job->readers; i++)
        if ((rc = worker_init(&workers[i], &run)) < 0)
            goto out;
    run.strip = path_prefix(job, prefix);
    run.fresh = bucket_is_empty(job);
    if (job->count_ahead)
        ahead_start(&ahead, &run, prefix);
    rc = run_walks(&run, workers, prefix);
out:
    /* After a fatal end the counting walk has been stopped as well. */
    if (ahead.started)
        pthread_join(ahead.thread, NULL);
    for (unsigned i = 0; i < job->readers; i++)
        worker_done(&workers[i]);
    mem_free(workers);
    return rc;
}
