/* Buckets: a small table in memory, whose truth is a record for each in the log.

   Creating and changing a bucket writes its record and then changes the table; deleting first closes
   the bucket to writes, waits for those in flight, asks the catalogue whether it is empty, and writes
   the tombstone. Changes are rare and go one at a time; look-ups share a lock.

   A bucket struct is freed only at close, so that a write that has entered keeps a valid pointer. */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "os/clock.h"
#include "store/store_priv.h"

#define BUCKETS_MAX 100000u

bool shoal_bucket_name_valid(const char *name)
{
    size_t length = strlen(name);

    if (length < 3 || length > SHOAL_BUCKET_MAX)
        return false;
    for (size_t i = 0; i < length; i++) {
        char c = name[i];
        bool edge = i == 0 || i == length - 1;
        bool alphanumeric = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');

        if (!alphanumeric && (edge || (c != '.' && c != '-')))
            return false;
    }
    return true;
}

int bucket_table_init(struct bucket_table *table)
{
    memset(table, 0, sizeof(*table));
    pthread_mutex_init(&table->change, NULL);
    return -pthread_rwlock_init(&table->lock, NULL);
}

void bucket_table_done(struct bucket_table *table)
{
    for (size_t i = 0; i < table->count; i++)
        mem_free(table->buckets[i]);
    mem_free(table->buckets);
    pthread_mutex_destroy(&table->change);
    pthread_rwlock_destroy(&table->lock);
}

static int name_compare(const struct bucket *bucket, const char *name, size_t length)
{
    size_t shorter = bucket->name_length < length ? bucket->name_length : length;
    int order = memcmp(bucket->name, name, shorter);

    return order ? order : (int)bucket->name_length - (int)length;
}

/* Where name is or would be; *ret_found tells which. Under the lock. */
static size_t position(
    const struct bucket_table *table, const char *name, size_t length, bool *ret_found)
{
    size_t low = 0, high = table->count;

    *ret_found = false;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = name_compare(table->buckets[middle], name, length);

        if (order == 0)
            *ret_found = true;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct bucket *find(const struct bucket_table *table, const char *name, size_t length)
{
    bool found;
    size_t at = position(table, name, length, &found);

    return found ? table->buckets[at] : NULL;
}

/* Makes room first, so that inserting can't fail after the record is durable. */
static int table_reserve(struct bucket_table *table)
{
    size_t capacity = table->capacity ? 2 * table->capacity : 16;
    void *grown;

    if (table->count >= BUCKETS_MAX)
        return SHOAL_E_TOO_LARGE;
    if (table->count < table->capacity)
        return 0;
    grown = mem_resize(table->buckets, capacity * sizeof(*table->buckets));
    if (!grown)
        return -ENOMEM;
    table->buckets = grown;
    table->capacity = capacity;
    return 0;
}

static void table_insert(struct bucket_table *table, struct bucket *bucket)
{
    bool found;
    size_t at = position(table, bucket->name, bucket->name_length, &found);

    memmove(table->buckets + at + 1, table->buckets + at,
        (table->count - at) * sizeof(*table->buckets));
    table->buckets[at] = bucket;
    table->count++;
}

static struct bucket *bucket_new(
    const char *name, size_t length, bool is_public, int64_t created_ms)
{
    struct bucket *bucket = mem_zero(1, sizeof(*bucket));

    if (!bucket)
        return NULL;
    memcpy(bucket->name, name, length);
    bucket->name_length = (uint8_t)length;
    bucket->is_public = is_public;
    bucket->created_ms = created_ms;
    return bucket;
}

int bucket_load(struct shoal *store, const struct record *record)
{
    const char *name = (const char *)record->key.bytes + 1;
    size_t length = (size_t)record->key.length - 1;
    struct object_meta meta;
    struct bucket *bucket;
    int rc = meta_decode(record->meta, record->meta_length, &meta);

    if (!rc && (record->key.length < 2 || length > SHOAL_BUCKET_MAX))
        rc = SHOAL_E_CORRUPT;
    if (!rc && find(&store->buckets, name, length))
        rc = SHOAL_E_CORRUPT;
    if (!rc)
        rc = table_reserve(&store->buckets);
    if (rc)
        return rc;
    bucket = bucket_new(name, length, meta.bucket_public, record->time_ms);
    if (!bucket)
        return -ENOMEM;
    table_insert(&store->buckets, bucket);
    return 0;
}

/* Why the table lacks a name. A record that was damaged at open was not loaded, but the index still
   has it: the bucket's objects are there, and must not be taken for absent. */
static int why_unknown(struct shoal *store, const char *name)
{
    struct system_key key;
    struct found found;
    int rc;

    if (store->damage_at_open == 0 || !shoal_bucket_name_valid(name))
        return SHOAL_E_NO_BUCKET;
    system_key_bucket(&key, name, strlen(name));
    rc = store_lookup(store, &key.key, store_hash(store, &key.key), &found);
    if (rc == 0)
        return SHOAL_E_NO_BUCKET;
    return rc < 0 ? rc : SHOAL_E_CORRUPT;
}

int bucket_enter(struct shoal *store, const char *name, size_t length, struct bucket **ret_bucket)
{
    struct bucket_table *table = &store->buckets;
    struct bucket *bucket;

    pthread_rwlock_rdlock(&table->lock);
    bucket = find(table, name, length);
    if (bucket && bucket->deleting)
        bucket = NULL;
    if (bucket)
        atomic_fetch_add(&bucket->writes, 1);
    pthread_rwlock_unlock(&table->lock);
    if (!bucket)
        return why_unknown(store, name);
    *ret_bucket = bucket;
    return 0;
}

void bucket_leave(struct bucket *bucket)
{
    atomic_fetch_sub(&bucket->writes, 1);
}

/* Under `change`: the bucket's record as it should be from now on. */
static int write_settings(struct shoal *store, const char *name, size_t length, bool is_public)
{
    struct object_meta meta = {.bucket_public = is_public};
    struct system_key key;
    uint8_t bytes[64];

    system_key_bucket(&key, name, length);
    return write_system(store, RECORD_BUCKET, &key, bytes, meta_encode(&meta, bytes));
}

int shoal_bucket_create(struct shoal *store, const char *name, bool is_public)
{
    struct bucket_table *table = &store->buckets;
    struct clock *clock = store->config.clock;
    size_t length = strlen(name);
    struct bucket *bucket = NULL;
    int rc = 0;

    if (!shoal_bucket_name_valid(name))
        return SHOAL_E_BAD_NAME;
    pthread_mutex_lock(&table->change);
    pthread_rwlock_wrlock(&table->lock);
    if (find(table, name, length))
        rc = SHOAL_E_EXISTS;
    else
        rc = table_reserve(table);
    pthread_rwlock_unlock(&table->lock);
    if (rc)
        goto out;
    bucket = bucket_new(name, length, is_public, clock->wall_ns(clock) / 1000000);
    rc = bucket ? write_settings(store, name, length, is_public) : -ENOMEM;
    if (rc)
        goto out;
    pthread_rwlock_wrlock(&table->lock);
    table_insert(table, bucket);
    bucket = NULL;
    pthread_rwlock_unlock(&table->lock);
out:
    pthread_mutex_unlock(&table->change);
    mem_free(bucket);
    return rc;
}

int shoal_bucket_set_public(struct shoal *store, const char *name, bool is_public)
{
    struct bucket_table *table = &store->buckets;
    struct bucket *bucket;
    int rc;

    pthread_mutex_lock(&table->change);
    pthread_rwlock_rdlock(&table->lock);
    bucket = find(table, name, strlen(name));
    pthread_rwlock_unlock(&table->lock);
    rc = bucket ? write_settings(store, name, bucket->name_length, is_public)
                : why_unknown(store, name);
    if (!rc) {
        pthread_rwlock_wrlock(&table->lock);
        bucket->is_public = is_public;
        pthread_rwlock_unlock(&table->lock);
    }
    pthread_mutex_unlock(&table->change);
    return rc;
}

static void set_deleting(struct bucket_table *table, struct bucket *bucket, bool deleting)
{
    pthread_rwlock_wrlock(&table->lock);
    bucket->deleting = deleting;
    pthread_rwlock_unlock(&table->lock);
}

/* With the bucket closed to writes: 0 when it is empty, and stays so. */
static int check_empty(struct shoal *store, struct bucket *bucket)
{
    struct catalogue_usage usage;
    struct catalogue *catalogue;
    int rc;

    while (atomic_load(&bucket->writes) != 0) {
        if (store->config.threads)
            sched_yield();
        else
            (void)store_commit_step(store); /* the writer learns of a failure */
    }
    rc = feed_wait(store, &catalogue);
    if (rc)
        return rc;
    rc = catalogue->ops->usage(catalogue, bucket->name, bucket->name_length, &usage);
    feed_release(store);
    if (rc)
        return rc;
    return usage.objects ? SHOAL_E_NOT_EMPTY : 0;
}

static void table_remove(struct bucket_table *table, struct bucket *bucket)
{
    bool found;
    size_t at;

    pthread_rwlock_wrlock(&table->lock);
    at = position(table, bucket->name, bucket->name_length, &found);
    memmove(table->buckets + at, table->buckets + at + 1,
        (table->count - at - 1) * sizeof(*table->buckets));
    table->count--;
    pthread_rwlock_unlock(&table->lock);
    mem_free(bucket); /* no write is in flight, and none can enter */
}

int shoal_bucket_delete(struct shoal *store, const char *name)
{
    struct bucket_table *table = &store->buckets;
    struct bucket *bucket;
    struct system_key key;
    int rc;

    pthread_mutex_lock(&table->change);
    pthread_rwlock_rdlock(&table->lock);
    bucket = find(table, name, strlen(name));
    pthread_rwlock_unlock(&table->lock);
    rc = bucket ? 0 : why_unknown(store, name);
    if (rc)
        goto out;
    set_deleting(table, bucket, true);
    rc = check_empty(store, bucket);
    if (!rc) {
        system_key_bucket(&key, name, bucket->name_length);
        rc = write_system(store, RECORD_TOMBSTONE, &key, NULL, 0);
    }
    if (rc)
        set_deleting(table, bucket, false);
    else
        table_remove(table, bucket);
out:
    pthread_mutex_unlock(&table->change);
    return rc;
}

static void describe(const struct bucket *bucket, struct shoal_bucket *ret_bucket)
{
    *ret_bucket =
        (struct shoal_bucket){.is_public = bucket->is_public, .created_ms = bucket->created_ms};
    memcpy(ret_bucket->name, bucket->name, sizeof(ret_bucket->name));
}

int shoal_bucket_stat(struct shoal *store, const char *name, struct shoal_bucket *ret_bucket)
{
    struct bucket_table *table = &store->buckets;
    const struct bucket *bucket;

    pthread_rwlock_rdlock(&table->lock);
    bucket = find(table, name, strlen(name));
    if (bucket)
        describe(bucket, ret_bucket);
    pthread_rwlock_unlock(&table->lock);
    return bucket ? 0 : why_unknown(store, name);
}

int shoal_bucket_list(struct shoal *store, struct shoal_bucket **ret_buckets, size_t *ret_count)
{
    struct bucket_table *table = &store->buckets;
    struct shoal_bucket *list;
    size_t count;

    pthread_rwlock_rdlock(&table->lock);
    count = table->count;
    list = malloc((count + 1) * sizeof(*list)); /* the caller's to free() */
    for (size_t i = 0; list && i < count; i++)
        describe(table->buckets[i], &list[i]);
    pthread_rwlock_unlock(&table->lock);
    if (!list)
        return -ENOMEM;
    *ret_buckets = list;
    *ret_count = count;
    return 0;
}

int shoal_bucket_usage(
    struct shoal *store, const char *name, uint64_t *ret_objects, uint64_t *ret_bytes)
{
    struct catalogue_usage usage;
    struct catalogue *catalogue;
    struct shoal_bucket bucket;
    int rc = shoal_bucket_stat(store, name, &bucket);

    if (!rc)
        rc = feed_wait(store, &catalogue);
    if (rc)
        return rc;
    rc = catalogue->ops->usage(catalogue, name, strlen(name), &usage);
    feed_release(store);
    if (rc)
        return rc;
    *ret_objects = usage.objects;
    *ret_bytes = usage.bytes;
    return 0;
}
