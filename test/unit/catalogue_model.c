/* The model behind the tests of a catalogue: see the header. Keys of several shapes: folders of
   digits, long paths in common, bytes of 0xff and below ' ', numbers that are prefixes of each
   other, and the longest. */
#include "catalogue_model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

const char *const model_buckets[MODEL_BUCKETS] = {"aaa", "aaa-b", "zoo"};

uint64_t random_next(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static int compare_bytes(const void *a, size_t a_length, const void *b, size_t b_length)
{
    int order = memcmp(a, b, a_length < b_length ? a_length : b_length);
    return order ? order : (a_length > b_length) - (a_length < b_length);
}

static int compare_keys(const void *a, const void *b)
{
    const struct key *first = &((const struct model_key *)a)->key;
    const struct key *second = &((const struct model_key *)b)->key;
    int order =
        compare_bytes(first->bucket, first->bucket_length, second->bucket, second->bucket_length);
    return order ? order
                 : compare_bytes(first->bytes, first->length, second->bytes, second->length);
}

static uint16_t key_make(unsigned number, uint8_t bytes[1024])
{
    char *text = (char *)bytes;
    uint64_t random = number;
    unsigned value = (unsigned)random_next(&random);
    switch (number % 6) {
    case 0:
        return (uint16_t)sprintf(text, "%02x/%02x/%05x.jpg", value & 255, value >> 8 & 255, number);
    case 1:
        memset(text, 'd', 200);
        return (uint16_t)(200 + sprintf(text + 200, "/%u", number));
    case 2:
        return (uint16_t)sprintf(text, "\xff\xff%s%u", number & 8 ? "\xff" : "\x01", number);
    case 3:
        return (uint16_t)sprintf(text, "%u", number);
    case 4:
        return (uint16_t)sprintf(text, "写真/%u/\xe9t\xe9", number);
    default:
        memset(text, 'x', 1024);
        memcpy(text + 1024 - 8, &random, 8);
        return (uint16_t)(number % 50 == 5 ? 1024 : 20 + sprintf(text + 20, "-%u", number));
    }
}

struct model *model_new(uint64_t seed)
{
    struct model *model = calloc(1, sizeof(*model));
    assert_non_null(model);
    for (unsigned i = 0; i < MODEL_KEYS; i++) {
        struct model_key *key = &model->keys[i];
        const char *bucket = model_buckets[i * 7 % 10 < 6 ? 0 : 1 + i % 2];
        uint8_t bytes[2048];
        uint16_t length = key_make(i, bytes);
        for (uint16_t k = 0; k < length; k++)
            key->bytes[k] = bytes[k] ? bytes[k] : 1;
        key->key = (struct key){bucket, NULL, length, (uint8_t)strlen(bucket)};
        key->key.bytes = key->bytes;
    }
    /* Compared through pointers that lead to the elements' places before sorting. */
    struct model_key *sorted = malloc(sizeof(model->keys));
    assert_non_null(sorted);
    memcpy(sorted, model->keys, sizeof(model->keys));
    qsort(sorted, MODEL_KEYS, sizeof(*sorted), compare_keys);
    memcpy(model->keys, sorted, sizeof(model->keys));
    free(sorted);
    for (unsigned i = 0; i < MODEL_KEYS; i++)
        model->keys[i].key.bytes = model->keys[i].bytes;
    model->random = seed;
    return model;
}

static unsigned bucket_number(const struct key *key)
{
    for (unsigned i = 0; i < MODEL_BUCKETS; i++) {
        if (key->bucket == model_buckets[i])
            return i;
    }
    return 0;
}

static void usage_change(struct catalogue_usage *usage, const struct catalogue_change *change)
{
    usage->objects += !change->is_delete;
    usage->objects -= change->has_prev;
    usage->bytes += change->is_delete ? 0 : change->size_bytes;
    usage->bytes -= change->has_prev ? change->prev_bytes : 0;
}

void model_next(struct model *model, struct catalogue_change *ret_change)
{
    struct model_key *key = &model->keys[random_next(&model->random) % MODEL_KEYS];
    uint64_t value = random_next(&model->random);
    struct catalogue_change change = {.key = key->key, .sequence = ++model->sequence};
    change.has_prev = key->present;
    change.prev_bytes = key->present ? key->size_bytes : 0;
    change.is_delete = value % 100 < 35;
    if (!change.is_delete) {
        change.size_bytes = value >> 8 & 7 ? (value >> 16 & 0xffff) : value >> 24;
        change.mtime_ns = (int64_t)random_next(&model->random);
        memset(change.md5, (int)(value >> 48), 16);
    }
    key->present = !change.is_delete;
    key->sequence = change.sequence;
    key->size_bytes = change.size_bytes;
    key->mtime_ns = change.mtime_ns;
    memcpy(key->md5, change.md5, 16);
    usage_change(&model->usage[bucket_number(&key->key)], &change);
    usage_change(&model->total, &change);
    *ret_change = change;
}

/* --- verification --- */

static void entry_verify(const struct model_key *key, const struct catalogue_entry *entry)
{
    assert_int_equal(entry->key_length, key->key.length);
    assert_memory_equal(entry->key, key->bytes, key->key.length);
    assert_int_equal(entry->sequence, key->sequence);
    assert_int_equal(entry->size_bytes, key->size_bytes);
    assert_true(entry->mtime_ns == key->mtime_ns);
    assert_memory_equal(entry->md5, key->md5, 16);
}

static bool in_scan(const struct model_key *key, unsigned bucket, const struct key *prefix)
{
    return key->key.bucket == model_buckets[bucket] && key->key.length >= prefix->length &&
           memcmp(key->bytes, prefix->bytes, prefix->length) == 0;
}

/* Compares a scan, beginning at the first key not below from (NULL: the first). */
static void scan_verify(struct model *model, struct catalogue *catalogue, unsigned bucket,
    const struct key *prefix, const struct key *from, unsigned limit)
{
    struct catalogue_scan *scan = NULL;
    struct catalogue_entry entry;
    const char *name = model_buckets[bucket];
    assert_int_equal(catalogue->ops->scan_open(
                         catalogue, name, strlen(name), prefix->bytes, prefix->length, &scan),
        0);
    if (from)
        assert_int_equal(catalogue->ops->scan_seek(scan, from->bytes, from->length), 0);
    for (unsigned i = 0; i < MODEL_KEYS && limit; i++) {
        const struct model_key *key = &model->keys[i];
        if (!key->present || !in_scan(key, bucket, prefix))
            continue;
        if (from && compare_bytes(key->bytes, key->key.length, from->bytes, from->length) < 0)
            continue;
        assert_int_equal(catalogue->ops->scan_next(scan, &entry), 1);
        entry_verify(key, &entry);
        limit--;
    }
    if (limit) {
        assert_int_equal(catalogue->ops->scan_next(scan, &entry), 0);
        assert_int_equal(catalogue->ops->scan_next(scan, &entry), 0);
    }
    catalogue->ops->scan_close(scan);
}

static void usage_verify(struct model *model, struct catalogue *catalogue)
{
    struct catalogue_usage usage;
    for (unsigned i = 0; i < MODEL_BUCKETS; i++) {
        assert_int_equal(
            catalogue->ops->usage(catalogue, model_buckets[i], strlen(model_buckets[i]), &usage),
            0);
        assert_int_equal(usage.objects, model->usage[i].objects);
        assert_int_equal(usage.bytes, model->usage[i].bytes);
    }
    assert_int_equal(catalogue->ops->total(catalogue, &usage), 0);
    assert_int_equal(usage.objects, model->total.objects);
    assert_int_equal(usage.bytes, model->total.bytes);
    assert_int_equal(catalogue->ops->usage(catalogue, "nothing", 7, &usage), 0);
    assert_int_equal(usage.objects + usage.bytes, 0);
}

void model_verify(struct model *model, struct catalogue *catalogue)
{
    static const char *const prefixes[] = {"", "d", "\xff", "\xff\xff", "\xff\xff\xff", "1", "12",
        "写真/", "none", "xxxxxxxxxxxxxxxxxxxx-"};
    uint64_t random = model->sequence;
    assert_int_equal(catalogue->ops->progress(catalogue), model->sequence);
    usage_verify(model, catalogue);
    for (unsigned i = 0; i < MODEL_BUCKETS * sizeof(prefixes) / sizeof(*prefixes); i++) {
        const char *text = prefixes[i / MODEL_BUCKETS];
        struct key prefix = {.bytes = (const uint8_t *)text, .length = (uint16_t)strlen(text)};
        struct key from = model->keys[random_next(&random) % MODEL_KEYS].key;
        scan_verify(model, catalogue, i % MODEL_BUCKETS, &prefix, NULL, UINT32_MAX);
        scan_verify(model, catalogue, i % MODEL_BUCKETS, &prefix, &from, 20);
        from.length = (uint16_t)(1 + random_next(&random) % from.length);
        scan_verify(model, catalogue, i % MODEL_BUCKETS, &prefix, &from, 3);
    }
}
