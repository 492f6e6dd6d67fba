/* The export of a bucket, as a whole.

   This thread lists the keys in byte order, refuses those that can't be files, and hands the others
   on in batches of neighbours, so that a writer stays in one directory; the number of batches is
   fixed, which bounds memory. At the end the target's file system is synced: only then is it known
   that everything found its place.

   What can fail: the listing, or what the writers met; the first fatal code is returned. */
#include "import/export_dir.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "import/export_priv.h"

/* NULL once a writer has given up. */
static struct export_batch *take_empty(struct export_run *run)
{
    pthread_mutex_lock(&run->lock);
    while (!run->empty && !atomic_load(&run->fatal))
        pthread_cond_wait(&run->changed, &run->lock);
    struct export_batch *batch = run->empty;
    if (batch)
        run->empty = batch->next;
    pthread_mutex_unlock(&run->lock);
    if (!batch)
        return NULL;
    batch->next = NULL;
    batch->count = 0;
    batch->used_bytes = 0;
    return batch;
}

static void hand_over(struct export_run *run, struct export_batch *batch)
{
    pthread_mutex_lock(&run->lock);
    *run->ready_end = batch;
    run->ready_end = &batch->next;
    pthread_cond_broadcast(&run->changed);
    pthread_mutex_unlock(&run->lock);
}

static void end_scan(struct export_run *run)
{
    pthread_mutex_lock(&run->lock);
    run->scanned = true;
    pthread_cond_broadcast(&run->changed);
    pthread_mutex_unlock(&run->lock);
}

/* True if the key may become a file; otherwise it has been counted and named. */
static bool admit(
    struct export_run *run, struct export_ancestors *ancestors, const struct shoal_entry *entry)
{
    const char *path = (const char *)entry->key + run->job->prefix_length;
    size_t length = entry->key_length - run->job->prefix_length;
    const char *refusal = export_refusal(path, length);
    if (!refusal && export_ancestors_pass(ancestors, path, length))
        refusal = "a directory of it is itself an object";
    if (!refusal)
        return true;
    atomic_fetch_add(&run->counts->refused, 1);
    export_report(run, false, entry->key, entry->key_length, refusal);
    return false;
}

static struct export_batch *append(
    struct export_run *run, struct export_batch *batch, const struct shoal_entry *entry)
{
    if (batch && (batch->count == EXPORT_BATCH_KEYS ||
                     batch->used_bytes + entry->key_length > EXPORT_BATCH_BYTES)) {
        hand_over(run, batch);
        batch = NULL;
    }
    if (!batch)
        batch = take_empty(run);
    if (!batch)
        return NULL; /* the export is over, and its error is noted */
    memcpy(batch->keys + batch->used_bytes, entry->key, entry->key_length);
    batch->used_bytes += entry->key_length;
    batch->lengths[batch->count++] = (uint16_t)entry->key_length;
    return batch;
}

static int scan(struct export_run *run)
{
    const struct export_dir *job = run->job;
    struct export_ancestors *ancestors = mem_zero(1, sizeof *ancestors);
    struct export_batch *batch = NULL;
    struct shoal_scan *scan = NULL;
    struct shoal_entry entry;
    if (!ancestors)
        return -ENOMEM;
    int rc =
        shoal_scan_open(job->store, job->bucket, job->prefix, job->prefix_length, "", 0, &scan);
    while (rc == 0 && !atomic_load(job->stop)) {
        rc = shoal_scan_next(scan, &entry);
        if (rc <= 0)
            break;
        rc = 0;
        if (admit(run, ancestors, &entry))
            batch = append(run, batch, &entry);
    }
    shoal_scan_close(scan);
    if (batch)
        hand_over(run, batch);
    mem_free(ancestors);
    return rc;
}

static void free_batches(struct export_batch *batch)
{
    while (batch) {
        struct export_batch *next = batch->next;
        mem_free(batch);
        batch = next;
    }
}

static int make_batches(struct export_run *run, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        struct export_batch *batch = mem_alloc(sizeof *batch);
        if (!batch)
            return -ENOMEM;
        batch->next = run->empty;
        run->empty = batch;
    }
    return 0;
}

int export_dir_run(const struct export_dir *job, struct export_counts *counts)
{
    struct export_run run = {.job = job, .counts = counts};
    pthread_t threads[EXPORT_WRITERS_MAX];
    unsigned started = 0;

    if (job->writers == 0 || job->writers > EXPORT_WRITERS_MAX)
        return -EINVAL;
    pthread_mutex_init(&run.lock, NULL);
    pthread_cond_init(&run.changed, NULL);
    run.ready_end = &run.ready;
    int rc = make_batches(&run, 2 * job->writers + 1);
    for (; rc == 0 && started < job->writers; started++) {
        rc = -pthread_create(&threads[started], NULL, export_write_all, &run);
        if (rc < 0)
            break;
    }
    if (started)
        rc = scan(&run);
    end_scan(&run);
    for (unsigned i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    if (atomic_load(&run.fatal) < 0)
        rc = atomic_load(&run.fatal);
    if (rc == 0 && syncfs(job->root_fd) < 0)
        rc = -errno;
    free_batches(run.empty);
    free_batches(run.ready);
    pthread_cond_destroy(&run.changed);
    pthread_mutex_destroy(&run.lock);
    return rc;
}
