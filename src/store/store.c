/* An open store: its parts put together, its threads, its end.

   Opening replays the segments, seals what the last life left open, and starts three threads that
   only loop over steps: the committer (the log), the cataloguer, and the housekeeper, which seals full
   segments and reaps dead blobs. Closing stops them in the order that leaves nothing behind: no new
   work, the log drained and synced, the catalogue brought up to it, the last segment sealed.

   Without threads the caller takes the steps, one by one. */
#include "store/store.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/mem.h"
#include "os/clock.h"
#include "os/random.h"
#include "store/store_priv.h"
#include "store/volume.h"

#define HOUSEKEEPING_NS 200000000
#define SEGMENT_BYTES   SEGMENT_BYTES_MAX
#define GROUP_BYTES     (8u << 20)
#define GROUP_BUFFERS   3u

/* --- what the log calls back --- */

static int hook_publish(
    void *arg, struct segment *segment, const struct log_entry *entry, const uint8_t *bytes)
{
    struct shoal *store = arg;
    struct record record;
    int rc = store_show(store, segment, entry, false);

    record_view(bytes, &record);
    feed_publish(store, &record, entry->sequence);
    return rc;
}

static void hook_unpublish(void *arg, struct segment *segment, const struct log_entry *entry)
{
    store_unshow(arg, segment, entry);
}

static void hook_moved(void *arg)
{
    struct shoal *store = arg;

    if (store->seen_lost_windows != store->log.lost_windows) {
        store->seen_lost_windows = store->log.lost_windows;
        feed_rollback(store);
    }
    feed_moved(store);
}

/* --- steps --- */

int store_commit_step(struct shoal *store)
{
    return log_step(&store->log);
}

int store_seal_step(struct shoal *store)
{
    uint32_t count = atomic_load(&store->segments.count);

    for (uint32_t i = count; i-- > 0;) {
        struct segment *segment = segment_table_get(&store->segments, i);
        int rc;

        if (segment->state == SEGMENT_SEALED)
            break; /* they are sealed in order, but for those that failed */
        if (segment->state != SEGMENT_ENDED || segment->seal_failed)
            continue;
        rc = segment_seal(&store->log, segment);
        segment->seal_failed = rc != 0;
        return rc ? rc : 1;
    }
    return 0;
}

/* --- threads --- */

static void *committer_main(void *arg)
{
    struct shoal *store = arg;

    while (log_wait_work(&store->log))
        (void)store_commit_step(store); /* each write is told of its own failure */
    return NULL;
}

static void *cataloguer_main(void *arg)
{
    struct shoal *store = arg;

    while (feed_wait_work(store))
        (void)store_catalogue_step(store); /* those who wait for the catalogue are told */
    return NULL;
}

static void pause_housekeeper(struct shoal *store)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += HOUSEKEEPING_NS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&store->idle_lock);
    if (!atomic_load(&store->stopping))
        pthread_cond_timedwait(&store->idle, &store->idle_lock, &until);
    pthread_mutex_unlock(&store->idle_lock);
}

static void *housekeeper_main(void *arg)
{
    struct shoal *store = arg;

    while (!atomic_load(&store->stopping)) {
        int sealed = store_seal_step(store);
        int reaped = store_reap_step(store);

        if (sealed <= 0 && reaped <= 0)
            pause_housekeeper(store);
    }
    return NULL;
}

static int start_threads(struct shoal *store)
{
    int rc = -pthread_create(&store->committer, NULL, committer_main, store);

    store->has_committer = rc == 0;
    if (!rc)
        rc = -pthread_create(&store->cataloguer, NULL, cataloguer_main, store);
    store->has_cataloguer = rc == 0;
    if (!rc && !store->config.read_only)
        rc = -pthread_create(&store->housekeeper, NULL, housekeeper_main, store);
    store->has_housekeeper = rc == 0 && !store->config.read_only;
    return rc;
}

static void stop_threads(struct shoal *store)
{
    pthread_mutex_lock(&store->idle_lock);
    atomic_store(&store->stopping, true);
    pthread_cond_broadcast(&store->idle);
    pthread_mutex_unlock(&store->idle_lock);
    pthread_mutex_lock(&store->feed.lock);
    pthread_cond_broadcast(&store->feed.work);
    pthread_mutex_unlock(&store->feed.lock);
    if (store->has_housekeeper)
        pthread_join(store->housekeeper, NULL);
    if (store->has_cataloguer)
        pthread_join(store->cataloguer, NULL);
    log_stop(&store->log);
    if (store->has_committer)
        pthread_join(store->committer, NULL);
    while (log_step(&store->log) > 0)
        ;
}

/* --- opening and closing --- */

static void store_free(struct shoal *store)
{
    struct volume *volume = store->config.volume;

    feed_done(&store->feed);
    reaper_done(&store->reaper);
    pending_done(&store->pending);
    bucket_table_done(&store->buckets);
    log_done(&store->log);
    segment_table_done(&store->segments, volume);
    index_free(store->index);
    manifest_done(&store->manifest);
    pthread_cond_destroy(&store->idle);
    pthread_mutex_destroy(&store->idle_lock);
    if (store->config.catalogue_arg_owned)
        mem_free(store->config.catalogue_arg);
    volume->ops->done(volume);
    mem_free(store);
}

static int init_log(struct shoal *store, struct shoal_error *error)
{
    const struct store_config *config = &store->config;
    struct log_config log = {.volume = config->volume,
        .clock = config->clock,
        .hooks = {.arg = store,
            .publish = hook_publish,
            .unpublish = hook_unpublish,
            .moved = hook_moved},
        .segments = &store->segments,
        .manifest = &store->manifest,
        .segment_bytes = config->segment_bytes,
        .group_bytes = config->group_bytes,
        .group_buffers = config->group_buffers,
        .threads = config->threads,
        .relaxed = config->relaxed,
        .relaxed_ms = config->relaxed_ms};
    uint64_t next_id = 0;
    int rc = config->read_only ? 0 : store_next_segment_id(store, &next_id);

    if (!rc && !config->read_only)
        store_remove_unborn(store);

    if (rc)
        return error_set(error, rc, "seg", 0, "can't be listed: %s", shoal_strerror(rc));
    rc = log_init(&store->log, &log, store->durable_at_open, next_id);
    if (rc)
        return error_set(error, rc, NULL, 0, "no memory for the log's buffers");
    store->feed.fed_sequence = store->durable_at_open;
    return 0;
}

static int open_parts(struct shoal *store, struct shoal_error *error)
{
    struct volume *volume = store->config.volume;
    int rc = volume->ops->lock(volume, error);

    if (rc)
        return rc;
    store->index = index_new();
    if (!store->index)
        return error_set(error, -ENOMEM, NULL, 0, "no memory for the index");
    rc = store_recover(store, error);
    if (!rc)
        rc = init_log(store, error);
    if (!rc && !store->config.read_only)
        rc = store_seal_tails(store, error);
    if (!rc && store->config.threads) {
        rc = start_threads(store);
        if (rc)
            (void)error_set(error, rc, NULL, 0, "threads can't be started: %s", shoal_strerror(rc));
    }
    return rc;
}

int store_open(
    const struct store_config *config, struct shoal **ret_store, struct shoal_error *error)
{
    struct shoal *store = mem_zero(1, sizeof(*store));
    int rc;

    if (!store) {
        config->volume->ops->done(config->volume);
        return error_set(error, -ENOMEM, NULL, 0, "no memory");
    }
    store->config = *config;
    store->config.segment_bytes = config->segment_bytes ? config->segment_bytes : SEGMENT_BYTES;
    store->config.group_bytes = config->group_bytes ? config->group_bytes : GROUP_BYTES;
    store->config.group_buffers = config->group_buffers ? config->group_buffers : GROUP_BUFFERS;
    store->config.chunk_bytes = config->chunk_bytes ? config->chunk_bytes : SHOAL_CHUNK_BYTES;
    atomic_init(&store->blob_counter, 1);
    pthread_mutex_init(&store->idle_lock, NULL);
    pthread_cond_init(&store->idle, NULL);
    (void)bucket_table_init(&store->buckets);
    pending_init(&store->pending);
    reaper_init(&store->reaper);
    feed_init(&store->feed);
    rc = open_parts(store, error);
    if (rc) {
        stop_threads(store);
        store_free(store);
        return rc;
    }
    *ret_store = store;
    return 0;
}

void store_abandon(struct shoal *store)
{
    store_free(store);
}

/* Every record is in a group that is synced, or was refused. */
static int close_log(struct shoal *store)
{
    int rc = log_failure(&store->log);

    if (store->config.read_only || rc)
        return rc;
    rc = log_end_segment(&store->log);
    while (!rc) {
        rc = store_seal_step(store);
        if (rc <= 0)
            break;
        rc = 0;
    }
    return rc;
}

int shoal_close(struct shoal *store)
{
    unsigned lost_windows;
    int rc;

    if (!store)
        return 0;
    pthread_mutex_lock(&store->log.lock);
    lost_windows = store->log.lost_windows;
    pthread_mutex_unlock(&store->log.lock);
    stop_threads(store);
    (void)feed_close(store); /* it is derived: the next that needs it catches up, or says why not */
    rc = close_log(store);
    if (!rc && store->log.lost_windows != lost_windows)
        rc = SHOAL_E_WRITE_FAILED;
    store_free(store);
    return rc;
}

int shoal_flush(struct shoal *store)
{
    struct catalogue *catalogue;
    int rc = feed_wait(store, &catalogue);

    if (!rc)
        feed_release(store);
    return rc;
}

uint64_t store_damage_at_open(struct shoal *store)
{
    return store->damage_at_open;
}

/* --- on files --- */

static int open_catalogue(void *arg, const uint8_t identity[32], uint64_t durable_sequence,
    struct catalogue **ret_catalogue, struct shoal_error *error)
{
    return catalogue_rocksdb_open(arg, identity, durable_sequence, ret_catalogue, error);
}

static char *catalogue_path(const char *dir)
{
    size_t bytes = strlen(dir) + sizeof("/catalogue");
    char *path = mem_alloc(bytes);

    if (path)
        (void)snprintf(path, bytes, "%s/catalogue", dir);
    return path;
}

int shoal_open(const char *dir, const struct shoal_options *opt, struct shoal **ret_store,
    struct shoal_error *ret_error)
{
    static const struct shoal_options defaults;
    struct store_config config = {.clock = clock_system(),
        .random = random_system(),
        .catalogue_open = open_catalogue,
        .catalogue_arg_owned = true,
        .threads = true};
    int rc;

    opt = opt ? opt : &defaults;
    config.create = opt->create;
    config.read_only = opt->read_only;
    config.relaxed = opt->relaxed;
    config.relaxed_ms = opt->relaxed_ms;
    config.segment_bytes = opt->segment_bytes;
    config.group_buffers = opt->log_buffers;
    if (opt->segment_bytes &&
        (opt->segment_bytes < 2 * GROUP_BYTES || opt->segment_bytes > SEGMENT_BYTES_MAX))
        return error_set(ret_error, SHOAL_E_TOO_LARGE, NULL, 0,
            "segments are of 16 MiB to 1 GiB, not %llu bytes",
            (unsigned long long)opt->segment_bytes);
    rc = volume_file_open(dir, opt->create, opt->read_only, &config.volume, ret_error);
    if (rc)
        return rc;
    config.catalogue_arg = catalogue_path(dir);
    if (!config.catalogue_arg) {
        config.volume->ops->done(config.volume);
        return error_set(ret_error, -ENOMEM, NULL, 0, "no memory");
    }
    return store_open(&config, ret_store, ret_error);
}
