/* catalogue_memory: order and counts against catalogue.h, snapshots, what a crash takes back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <errno.h>

#include "lib/catalogue_memory.h"

static const uint8_t identity[32] = {1, 2, 3}, another[32] = {4};

static struct catalogue_change put(
    const char *bucket, const char *key, uint64_t sequence, uint64_t size)
{
    return (struct catalogue_change){.key = {.bucket = bucket,
                                         .bucket_length = (uint8_t)strlen(bucket),
                                         .bytes = (const uint8_t *)key,
                                         .length = (uint16_t)strlen(key)},
        .sequence = sequence,
        .size_bytes = size,
        .mtime_ns = (int64_t)sequence * 10,
        .md5 = {(uint8_t)sequence}};
}

static struct catalogue_change over(struct catalogue_change change, uint64_t prev_bytes)
{
    change.has_prev = true;
    change.prev_bytes = prev_bytes;
    return change;
}

static struct catalogue_change gone(struct catalogue_change change, uint64_t prev_bytes)
{
    change = over(change, prev_bytes);
    change.is_delete = true;
    return change;
}

static struct catalogue *open_at(struct catalogue_memory *memory, uint64_t durable)
{
    struct catalogue *catalogue = NULL;

    assert_int_equal(catalogue_memory_open(memory, identity, durable, &catalogue, NULL), 0);
    return catalogue;
}

static void apply(struct catalogue *catalogue, struct catalogue_change change)
{
    assert_int_equal(catalogue->ops->apply(catalogue, &change, 1, change.sequence), 0);
}

static struct catalogue_scan *scan(
    struct catalogue *catalogue, const char *bucket, const char *prefix)
{
    struct catalogue_scan *opened = NULL;

    assert_int_equal(catalogue->ops->scan_open(
                         catalogue, bucket, strlen(bucket), prefix, strlen(prefix), &opened),
        0);
    return opened;
}

/* All keys left, each followed by a blank. */
static void keys_are(struct catalogue *catalogue, struct catalogue_scan *scan, const char *right)
{
    struct catalogue_entry entry;
    char text[256] = "";
    int rc;

    while ((rc = catalogue->ops->scan_next(scan, &entry)) == 1) {
        strncat(text, (const char *)entry.key, entry.key_length);
        strcat(text, " ");
    }
    assert_int_equal(rc, 0);
    assert_string_equal(text, right);
}

static void lists(
    struct catalogue *catalogue, const char *bucket, const char *prefix, const char *right)
{
    struct catalogue_scan *opened = scan(catalogue, bucket, prefix);

    keys_are(catalogue, opened, right);
    catalogue->ops->scan_close(opened);
}

static void counts(
    struct catalogue *catalogue, const char *bucket, uint64_t objects, uint64_t bytes)
{
    struct catalogue_usage usage = {9, 9};

    if (bucket == NULL)
        assert_int_equal(catalogue->ops->total(catalogue, &usage), 0);
    else
        assert_int_equal(catalogue->ops->usage(catalogue, bucket, strlen(bucket), &usage), 0);
    assert_int_equal(usage.objects, objects);
    assert_int_equal(usage.bytes, bytes);
}

static void keys_come_in_order_and_counts_are_exact(void **state)
{
    struct catalogue_memory *memory = catalogue_memory_new();
    struct catalogue *catalogue = open_at(memory, 0);

    assert_int_equal(catalogue->ops->progress(catalogue), 0);
    apply(catalogue, put("b", "a/b", 1, 10));
    apply(catalogue, put("b", "a", 2, 20));
    apply(catalogue, put("ab", "z", 3, 5));
    apply(catalogue, put("b", "a/b/c", 4, 30));
    apply(catalogue, put("b", "a.b", 5, 1));
    apply(catalogue, put("bb", "a/", 6, 2));
    lists(catalogue, "b", "", "a a.b a/b a/b/c ");
    lists(catalogue, "b", "a/", "a/b a/b/c ");
    lists(catalogue, "b", "x", "");
    lists(catalogue, "nobody", "", "");
    counts(catalogue, "b", 4, 61);
    counts(catalogue, NULL, 6, 68);
    apply(catalogue, over(put("b", "a", 7, 7), 20));
    apply(catalogue, gone(put("b", "a.b", 8, 0), 1));
    lists(catalogue, "b", "", "a a/b a/b/c ");
    counts(catalogue, "b", 3, 47);
    counts(catalogue, "nobody", 0, 0);
    assert_int_equal(catalogue->ops->apply(catalogue, NULL, 0, 50), 0);
    assert_int_equal(catalogue->ops->progress(catalogue), 50);
    catalogue->ops->close(catalogue);
    assert_null(catalogue_memory_violation(memory));
    catalogue_memory_free(memory);
}

static void a_scan_is_a_snapshot_that_seeks(void **state)
{
    struct catalogue_memory *memory = catalogue_memory_new();
    struct catalogue *catalogue = open_at(memory, 0);
    struct catalogue_scan *before;
    struct catalogue_entry entry;

    apply(catalogue, put("b", "k1", 1, 1));
    apply(catalogue, put("b", "k3", 2, 3));
    apply(catalogue, put("b", "k5", 3, 5));
    before = scan(catalogue, "b", "k");
    apply(catalogue, gone(put("b", "k3", 4, 0), 3));
    apply(catalogue, put("b", "k4", 5, 4));
    assert_int_equal(catalogue->ops->scan_seek(before, "k2", 2), 0);
    assert_int_equal(catalogue->ops->scan_next(before, &entry), 1);
    assert_int_equal(entry.key_length, 2);
    assert_memory_equal(entry.key, "k3", 2);
    assert_int_equal(entry.sequence, 2);
    assert_int_equal(entry.size_bytes, 3);
    assert_int_equal(entry.mtime_ns, 20);
    assert_int_equal(entry.md5[0], 2);
    assert_int_equal(catalogue->ops->scan_seek(before, "", 0), 0);
    keys_are(catalogue, before, "k1 k3 k5 ");
    assert_int_equal(catalogue->ops->scan_seek(before, "k6", 2), 0);
    keys_are(catalogue, before, "");
    catalogue->ops->scan_close(before);
    catalogue->ops->scan_close(NULL);
    lists(catalogue, "b", "", "k1 k4 k5 ");
    catalogue->ops->close(catalogue);
    assert_null(catalogue_memory_violation(memory));
    catalogue_memory_free(memory);
}

static void a_crash_goes_back_to_the_last_flush(void **state)
{
    struct catalogue_memory *memory = catalogue_memory_new();
    struct catalogue *catalogue = open_at(memory, 0);

    apply(catalogue, put("b", "kept", 1, 1));
    assert_int_equal(catalogue->ops->flush(catalogue), 0);
    apply(catalogue, put("b", "lost", 2, 2));
    apply(catalogue, gone(put("b", "kept", 3, 0), 1));
    catalogue->ops->close(catalogue);
    catalogue = open_at(memory, 3); /* a clean stop loses nothing */
    lists(catalogue, "b", "", "lost ");
    catalogue->ops->close(catalogue);
    catalogue_memory_crash(memory);
    catalogue = open_at(memory, 3);
    assert_int_equal(catalogue->ops->progress(catalogue), 1);
    lists(catalogue, "b", "", "kept ");
    counts(catalogue, "b", 1, 1);
    catalogue->ops->close(catalogue);
    catalogue_memory_free(memory);
}

static void one_that_is_ahead_or_another_starts_anew(void **state)
{
    struct catalogue_memory *memory = catalogue_memory_new();
    struct catalogue *catalogue = open_at(memory, 0), *second;

    assert_int_equal(catalogue_memory_open(memory, identity, 0, &second, NULL), -EBUSY);
    apply(catalogue, put("b", "k", 5, 1));
    catalogue->ops->close(catalogue);
    catalogue = open_at(memory, 5);
    counts(catalogue, NULL, 1, 1);
    catalogue->ops->close(catalogue);
    assert_int_equal(catalogue_memory_ahead_count(memory), 0);
    catalogue = open_at(memory, 4);
    assert_int_equal(catalogue->ops->progress(catalogue), 0);
    counts(catalogue, NULL, 0, 0);
    apply(catalogue, put("b", "k", 4, 1));
    catalogue->ops->close(catalogue);
    assert_int_equal(catalogue_memory_ahead_count(memory), 1);
    assert_int_equal(catalogue_memory_open(memory, another, 4, &catalogue, NULL), 0);
    assert_int_equal(catalogue->ops->progress(catalogue), 0);
    catalogue->ops->close(catalogue);
    assert_int_equal(catalogue_memory_ahead_count(memory), 1);
    catalogue_memory_free(memory);
}

static void faults_strike_once_and_change_nothing(void **state)
{
    struct catalogue_memory *memory = catalogue_memory_new();
    struct catalogue *catalogue = open_at(memory, 0);
    struct catalogue_change change = put("b", "k", 1, 1);

    catalogue_memory_fail_after(memory, 1);
    apply(catalogue, put("b", "j", 1, 1));
    change.sequence = 2;
    assert_int_equal(catalogue->ops->apply(catalogue, &change, 1, 2), -EIO);
    assert_int_equal(catalogue->ops->progress(catalogue), 1);
    apply(catalogue, change);
    catalogue_memory_fail_after(memory, 0);
    assert_int_equal(catalogue->ops->flush(catalogue), -EIO);
    assert_int_equal(catalogue->ops->flush(catalogue), 0);
    catalogue->ops->close(catalogue);
    catalogue_memory_free(memory);
}

static void breaches_are_kept(void **state)
{
    const struct {
        struct catalogue_change change;
        const char *words;
    } breaches[] = {
        {put("b", "k", 1, 1), "not above the progress"},
        {put("b", "k", 2, 1), "has_prev is 0"},
        {over(put("b", "j", 2, 1), 1), "has_prev is 1"},
        {over(put("b", "k", 2, 1), 9), "prev_bytes 9, not 1"},
    };

    for (size_t i = 0; i < sizeof(breaches) / sizeof(breaches[0]); i++) {
        struct catalogue_memory *memory = catalogue_memory_new();
        struct catalogue *catalogue = open_at(memory, 0);

        apply(catalogue, put("b", "k", 1, 1));
        assert_null(catalogue_memory_violation(memory));
        apply(catalogue, breaches[i].change);
        assert_non_null(strstr(catalogue_memory_violation(memory), breaches[i].words));
        catalogue->ops->close(catalogue);
        catalogue_memory_free(memory);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_come_in_order_and_counts_are_exact),
        cmocka_unit_test(a_scan_is_a_snapshot_that_seeks),
        cmocka_unit_test(a_crash_goes_back_to_the_last_flush),
        cmocka_unit_test(one_that_is_ahead_or_another_starts_anew),
        cmocka_unit_test(faults_strike_once_and_change_nothing),
        cmocka_unit_test(breaches_are_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
