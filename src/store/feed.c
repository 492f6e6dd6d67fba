/* The way from the log into the catalogue.

   The catalogue is opened when it is first wanted: by a listing, a count, or after a thousand writes.
   From then on the committer queues each object put or deleted, and a background step applies what is
   durable, in sequence order, many at a time. What was published before, above the progress that the
   catalogue knows itself, is read from the segments first.

   A listing waits until nothing published before it is left in the queue. The queue is bounded:
   writers wait when it is full. If the catalogue fails (a full disk), it is closed and the queue
   dropped; the next one who wants it opens it again and catches up from the log. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "store/store_priv.h"
#include "store/volume.h"
#include "store/walk.h"

#define QUEUE_BYTES_MAX   (16u << 20)
#define APPLY_CHANGES_MAX 32768u
#define CATCH_UP_CHANGES  8192u
#define WANTED_AFTER      1000u
#define GATHER_NS         50000000

void feed_init(struct feed *feed)
{
    memset(feed, 0, sizeof(*feed));
    pthread_mutex_init(&feed->lock, NULL);
    pthread_cond_init(&feed->changed, NULL);
    pthread_cond_init(&feed->work, NULL);
}

void feed_done(struct feed *feed)
{
    change_queue_clear(&feed->queue);
    if (feed->filling)
        feed->filling->ops->close(feed->filling);
    pthread_cond_destroy(&feed->work);
    pthread_cond_destroy(&feed->changed);
    pthread_mutex_destroy(&feed->lock);
}

/* --- the committer's side --- */

/* Under the lock: as if it had never been open. The next one who wants it starts over. */
static void give_up(struct feed *feed, int code)
{
    feed->failure = code;
    feed->failures++;
    feed->running = feed->caught_up = false;
    feed->wanted = false;
    change_queue_clear(&feed->queue);
    pthread_cond_broadcast(&feed->changed);
}

void feed_publish(struct shoal *store, const struct record *record, uint64_t sequence)
{
    struct feed *feed = &store->feed;

    pthread_mutex_lock(&feed->lock);
    if (feed->running && change_queue_wants(record) && change_queue_push(&feed->queue, record))
        give_up(feed, -ENOMEM);
    feed->fed_sequence = sequence;
    if (!feed->running && !feed->wanted && store->config.threads && ++feed->unseen >= WANTED_AFTER)
        feed->wanted = true;
    pthread_mutex_unlock(&feed->lock);
}

void feed_rollback(struct shoal *store)
{
    struct feed *feed = &store->feed;
    uint64_t durable = atomic_load(&store->log.durable_sequence);

    pthread_mutex_lock(&feed->lock);
    change_queue_cut(&feed->queue, durable);
    if (feed->fed_sequence > durable)
        feed->fed_sequence = durable;
    pthread_mutex_unlock(&feed->lock);
}

void feed_throttle(struct shoal *store)
{
    struct feed *feed = &store->feed;

    if (feed->queue.bytes <= QUEUE_BYTES_MAX)
        return; /* as always but in a bulk load; without the lock, which the committer holds often */
    pthread_mutex_lock(&feed->lock);
    while (feed->running && feed->queue.bytes > QUEUE_BYTES_MAX) {
        if (store->config.threads) {
            pthread_cond_wait(&feed->changed, &feed->lock);
        } else {
            pthread_mutex_unlock(&feed->lock);
            (void)store_catalogue_step(store); /* gives the queue up if it fails */
            pthread_mutex_lock(&feed->lock);
        }
    }
    pthread_mutex_unlock(&feed->lock);
}

/* --- applying --- */

/* The size of a version whose record can't be read any more is asked from the catalogue itself. */
static int resolve_prev(struct catalogue *catalogue, struct catalogue_change *change)
{
    const struct key *key = &change->key;
    struct catalogue_entry entry;
    struct catalogue_scan *scan;
    int rc = catalogue->ops->scan_open(
        catalogue, key->bucket, key->bucket_length, key->bytes, key->length, &scan);

    if (rc)
        return rc;
    rc = catalogue->ops->scan_next(scan, &entry);
    change->has_prev = rc == 1 && entry.key_length == key->length;
    if (change->has_prev)
        change->prev_bytes = entry.size_bytes;
    catalogue->ops->scan_close(scan);
    return rc < 0 ? rc : 0;
}

static int apply(
    struct catalogue *catalogue, struct catalogue_change *changes, size_t count, uint64_t through)
{
    size_t from = 0;
    int rc = 0;

    for (size_t i = 0; !rc && i < count; i++) {
        if (!changes[i].has_prev || changes[i].prev_bytes != PREV_BYTES_UNKNOWN)
            continue;
        if (i > from)
            rc =
                catalogue->ops->apply(catalogue, changes + from, i - from, changes[i - 1].sequence);
        from = i;
        if (!rc)
            rc = resolve_prev(catalogue, &changes[i]);
    }
    return rc ? rc : catalogue->ops->apply(catalogue, changes + from, count - from, through);
}

/* --- catching up from the segments --- */

struct catch_up {
    struct shoal *store;
    struct catalogue *catalogue;
    uint64_t from, through;
    struct change_queue queue;
    struct catalogue_change *changes; /* CATCH_UP_CHANGES of them */
    size_t count; /* in the queue */
};

static int apply_queue(struct catch_up *up)
{
    size_t count = change_queue_gather(&up->queue, UINT64_MAX, up->changes, CATCH_UP_CHANGES);
    int rc = count ? apply(up->catalogue, up->changes, count, up->changes[count - 1].sequence) : 0;

    change_queue_pop(&up->queue, count);
    up->count = 0;
    return rc;
}

static int catch_record(void *arg, const struct record *record, uint64_t offset, bool valid)
{
    struct catch_up *up = arg;

    (void)offset;
    (void)valid; /* a damaged payload still has a key */
    if (atomic_load(&up->store->stopping))
        return SHOAL_E_CLOSED;
    if (record->sequence <= up->from || record->sequence > up->through ||
        !change_queue_wants(record))
        return 0;
    if (change_queue_push(&up->queue, record))
        return -ENOMEM;
    return ++up->count == CATCH_UP_CHANGES ? apply_queue(up) : 0;
}

static int catch_up(struct shoal *store, struct catalogue *catalogue, uint64_t through)
{
    struct catch_up up = {.store = store,
        .catalogue = catalogue,
        .from = catalogue->ops->progress(catalogue),
        .through = through};
    uint32_t count = atomic_load(&store->segments.count);
    int rc = 0;

    up.changes = mem_alloc(CATCH_UP_CHANGES * sizeof(*up.changes));
    if (!up.changes)
        return -ENOMEM;
    for (uint32_t i = 0; !rc && i < count; i++) {
        struct segment *segment = segment_table_get(&store->segments, i);
        struct walk walk = {.volume = store->config.volume,
            .segment = segment,
            .from = store->config.volume->block_bytes,
            .end = atomic_load(&segment->shown_end),
            .hooks = {.arg = &up, .record = catch_record}};
        struct walk_result result;

        if (atomic_load(&segment->shown_sequence) > up.from)
            rc = segment_walk(&walk, &result);
    }
    if (!rc)
        rc = apply_queue(&up);
    change_queue_clear(&up.queue);
    mem_free(up.changes);
    if (!rc && through > up.from)
        rc = catalogue->ops->apply(catalogue, NULL, 0, through);
    return rc;
}

static void identity(const struct shoal *store, uint8_t ret_identity[32])
{
    memcpy(ret_identity, store->manifest.uuid, 16);
    memcpy(ret_identity + 16, store->manifest.incarnation, 16);
}

/* Opens the catalogue and brings it up to what was published when queueing began. */
static int start(struct shoal *store)
{
    struct feed *feed = &store->feed;
    struct shoal_error error;
    uint8_t id[32];
    uint64_t through;
    int rc;

    identity(store, id);
    if (!feed->filling) {
        rc = store->config.catalogue_open(store->config.catalogue_arg, id,
            atomic_load(&store->log.durable_sequence), &feed->filling, &error);
        if (rc)
            return rc;
    }
    pthread_mutex_lock(&feed->lock);
    feed->running = true;
    feed->unseen = 0;
    through = feed->fed_sequence;
    pthread_mutex_unlock(&feed->lock);
    rc = store->config.read_only ? 0 : log_sync_published(&store->log);
    if (!rc)
        rc = catch_up(store, feed->filling, through);
    if (rc)
        return rc;
    pthread_mutex_lock(&feed->lock);
    feed->caught_up = feed->running; /* unless the queue was given up meanwhile */
    pthread_mutex_unlock(&feed->lock);
    return 1;
}

/* --- the background step --- */

static int apply_some(struct shoal *store)
{
    struct feed *feed = &store->feed;
    struct catalogue_change *changes = mem_alloc(APPLY_CHANGES_MAX * sizeof(*changes));
    size_t count;
    int rc = 0;

    if (!changes)
        return -ENOMEM;
    pthread_mutex_lock(&feed->lock);
    count = change_queue_gather(
        &feed->queue, atomic_load(&store->log.durable_sequence), changes, APPLY_CHANGES_MAX);
    pthread_mutex_unlock(&feed->lock);
    if (count)
        rc = apply(feed->filling, changes, count, changes[count - 1].sequence);
    pthread_mutex_lock(&feed->lock);
    if (!rc)
        change_queue_pop(&feed->queue, count);
    pthread_cond_broadcast(&feed->changed);
    pthread_mutex_unlock(&feed->lock);
    mem_free(changes);
    return rc ? rc : count > 0;
}

int store_catalogue_step(struct shoal *store)
{
    struct feed *feed = &store->feed;
    struct catalogue *broken = NULL;
    bool running;
    int rc;

    pthread_mutex_lock(&feed->lock);
    running = feed->running;
    pthread_mutex_unlock(&feed->lock);
    rc = running ? apply_some(store) : start(store);
    pthread_mutex_lock(&feed->lock);
    if (rc < 0) {
        give_up(feed, rc);
        if (feed->users == 0) {
            broken = feed->filling;
            feed->filling = NULL;
        }
    }
    pthread_cond_broadcast(&feed->changed);
    pthread_mutex_unlock(&feed->lock);
    if (broken)
        broken->ops->close(broken);
    return rc;
}

/* Under the lock: whether a step would do something. */
static bool has_work(struct shoal *store)
{
    const struct feed *feed = &store->feed;
    uint64_t durable = atomic_load(&store->log.durable_sequence), first;

    if (!feed->running)
        return feed->wanted;
    first = change_queue_first(&feed->queue);
    return first && first <= durable;
}

void feed_moved(struct shoal *store)
{
    pthread_mutex_lock(&store->feed.lock);
    if (has_work(store))
        pthread_cond_signal(&store->feed.work);
    pthread_mutex_unlock(&store->feed.lock);
}

bool feed_wait_work(struct shoal *store)
{
    struct feed *feed = &store->feed;
    struct timespec until;

    pthread_mutex_lock(&feed->lock);
    while (!atomic_load(&store->stopping) && !has_work(store))
        pthread_cond_wait(&feed->work, &feed->lock);
    if (feed->running && feed->waiters == 0 && feed->queue.bytes < QUEUE_BYTES_MAX / 4) {
        /* Nobody waits: let more come together. */
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += GATHER_NS;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        while (!atomic_load(&store->stopping) && feed->waiters == 0 &&
               feed->queue.bytes < QUEUE_BYTES_MAX / 4 &&
               pthread_cond_timedwait(&feed->work, &feed->lock, &until) == 0)
            ;
    }
    pthread_mutex_unlock(&feed->lock);
    return !atomic_load(&store->stopping);
}

/* --- those who read the catalogue --- */

/* Under the lock: whether all up to target is in it. */
static bool shows(const struct feed *feed, uint64_t target)
{
    uint64_t first;

    if (!feed->running || !feed->caught_up)
        return false;
    first = change_queue_first(&feed->queue);
    return !first || first > target;
}

int feed_wait(struct shoal *store, struct catalogue **ret_catalogue)
{
    struct feed *feed = &store->feed;
    unsigned failures;
    uint64_t target;
    int rc;

    /* First the target: what is published while this syncs need not be durable after it. */
    pthread_mutex_lock(&feed->lock);
    target = feed->fed_sequence;
    pthread_mutex_unlock(&feed->lock);
    rc = store->config.read_only ? 0 : log_sync_published(&store->log);
    if (rc)
        return rc;
    pthread_mutex_lock(&feed->lock);
    failures = feed->failures;
    feed->waiters++;
    while (!shows(feed, target)) {
        if (feed->failures != failures) {
            rc = feed->failure;
            break;
        }
        if (store->config.threads) {
            feed->wanted = true;
            pthread_cond_signal(&feed->work);
            pthread_cond_wait(&feed->changed, &feed->lock);
        } else {
            pthread_mutex_unlock(&feed->lock);
            (void)store_catalogue_step(store); /* counts its failure */
            pthread_mutex_lock(&feed->lock);
        }
    }
    feed->waiters--;
    if (!rc) {
        feed->users++;
        *ret_catalogue = feed->filling;
    }
    pthread_mutex_unlock(&feed->lock);
    return rc;
}

void feed_release(struct shoal *store)
{
    pthread_mutex_lock(&store->feed.lock);
    store->feed.users--;
    pthread_mutex_unlock(&store->feed.lock);
}

int feed_close(struct shoal *store)
{
    struct feed *feed = &store->feed;
    struct catalogue *catalogue = feed->filling;
    int rc = 0;

    if (!catalogue || !feed->running)
        return 0;
    do
        rc = store_catalogue_step(store);
    while (rc > 0);
    if (!rc && feed->fed_sequence > catalogue->ops->progress(catalogue))
        rc = catalogue->ops->apply(catalogue, NULL, 0, feed->fed_sequence);
    return rc ? rc : catalogue->ops->flush(catalogue);
}
