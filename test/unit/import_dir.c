/* The import of a tree on a real store: what is stored, what counts, and failing allocations; and the
   keys that the public API refuses, which no command line can express. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <shoal/shoal.h>

#include "base/mem.h"
#include "import/export_dir.h"
#include "import/import_dir.h"

#define FILES 30

struct rig {
    char path[64];
    int tree_fd, out_fd;
    struct shoal *store;
    atomic_bool stop;
    atomic_uint reports;
};

static void run(const char *format, const char *path)
{
    char command[256];
    snprintf(command, sizeof command, format, path, path, path);
    assert_int_equal(system(command), 0);
}

static int open_below(const char *path, const char *name)
{
    char full[128];
    snprintf(full, sizeof full, "%s/%s", path, name);
    return open(full, O_RDONLY | O_DIRECTORY);
}

static int rig_open(void **state)
{
    struct rig *rig = calloc(1, sizeof *rig);
    struct shoal_error error;
    char data[128];
    strcpy(rig->path, "/tmp/shoal-import-XXXXXX");
    assert_non_null(mkdtemp(rig->path));
    run("mkdir %s/tree %s/tree/sub %s/out", rig->path);
    rig->tree_fd = open_below(rig->path, "tree");
    rig->out_fd = open_below(rig->path, "out");
    for (int i = 0; i < FILES; i++) {
        char name[32];
        snprintf(name, sizeof name, "%s%d.txt", i % 2 ? "sub/" : "", i);
        int fd = openat(rig->tree_fd, name, O_CREAT | O_WRONLY, 0600);
        assert_int_equal(write(fd, name, strlen(name)), (ssize_t)strlen(name));
        close(fd);
    }
    snprintf(data, sizeof data, "%s/data", rig->path);
    assert_int_equal(
        shoal_open(data, &(struct shoal_options){.create = true}, &rig->store, &error), 0);
    assert_int_equal(shoal_bucket_create(rig->store, "demo", false), 0);
    *state = rig;
    return 0;
}

static int rig_close(void **state)
{
    struct rig *rig = *state;
    assert_int_equal(shoal_close(rig->store), 0);
    close(rig->tree_fd);
    close(rig->out_fd);
    run("rm -rf %s", rig->path);
    free(rig);
    return 0;
}

static void report(
    void *arg, enum import_event event, const char *path, size_t path_length, const char *text)
{
    atomic_fetch_add(&((struct rig *)arg)->reports, 1);
}

static void export_report(
    void *arg, bool damaged, const void *key, size_t key_length, const char *text)
{
    atomic_fetch_add(&((struct rig *)arg)->reports, 1);
}

static int import(struct rig *rig, bool verify, struct import_counts *counts)
{
    memset(counts, 0, sizeof *counts);
    atomic_store(&rig->stop, false);
    return import_dir_run(&(struct import_dir){.store = rig->store,
                              .bucket = "demo",
                              .prefix = "p",
                              .prefix_length = 1,
                              .root_fd = rig->tree_fd,
                              .data_fd = -1,
                              .readers = 2,
                              .verify = verify,
                              .checksum = verify,
                              .count_ahead = true,
                              .report = report,
                              .arg = rig,
                              .stop = &rig->stop},
        counts);
}

static int export(struct rig *rig, struct export_counts *counts)
{
    memset(counts, 0, sizeof *counts);
    atomic_store(&rig->stop, false);
    return export_dir_run(&(struct export_dir){.store = rig->store,
                              .bucket = "demo",
                              .prefix = "p/",
                              .prefix_length = 2,
                              .root_fd = rig->out_fd,
                              .writers = 2,
                              .report = export_report,
                              .arg = rig,
                              .stop = &rig->stop},
        counts);
}

static void counts_are_exact(void **state)
{
    struct rig *rig = *state;
    struct import_counts counts;
    struct shoal_stat stat;
    assert_int_equal(import(rig, true, &counts), 0);
    assert_int_equal(counts.copied, FILES);
    assert_int_equal(counts.verified, FILES);
    assert_int_equal(counts.expected, FILES);
    assert_int_equal(counts.failed + counts.skipped + counts.unchanged + counts.mismatched, 0);
    assert_int_equal(import(rig, true, &counts), 0);
    assert_int_equal(counts.unchanged, FILES);
    assert_int_equal(counts.copied, 0);
    assert_int_equal(shoal_stat(rig->store, "demo", "p/sub/7.txt", 11, &stat), 0);
    assert_int_equal(stat.size_bytes, 9);
    assert_string_equal(stat.content_type, "text/plain");
    assert_int_equal(atomic_load(&rig->reports), 0);
}

static void a_stop_before_the_start_copies_nothing(void **state)
{
    struct rig *rig = *state;
    struct import_counts counts = {0};
    atomic_store(&rig->stop, true);
    assert_int_equal(import_dir_run(&(struct import_dir){.store = rig->store,
                                        .bucket = "demo",
                                        .prefix = "",
                                        .root_fd = rig->tree_fd,
                                        .data_fd = -1,
                                        .readers = 1,
                                        .report = report,
                                        .arg = rig,
                                        .stop = &rig->stop},
                         &counts),
        0);
    assert_int_equal(counts.copied, 0);
}

static void an_unknown_bucket_ends_the_import(void **state)
{
    struct rig *rig = *state;
    struct import_counts counts = {0};
    atomic_store(&rig->stop, false);
    assert_int_equal(import_dir_run(&(struct import_dir){.store = rig->store,
                                        .bucket = "none",
                                        .prefix = "",
                                        .root_fd = rig->tree_fd,
                                        .data_fd = -1,
                                        .readers = 2,
                                        .report = report,
                                        .arg = rig,
                                        .stop = &rig->stop},
                         &counts),
        SHOAL_E_NO_BUCKET);
    assert_true(counts.failed > 0);
    assert_int_equal(counts.copied, 0);
}

/* Whatever allocation fails, in the import or in the store below it: no crash, no leak, nothing
   counted that is not there, and the next run completes. */
static void failing_allocations_lose_nothing(void **state)
{
    struct rig *rig = *state;
    struct import_counts counts;
    struct export_counts exported;
    for (long n = 0; n < 150; n++) {
        mem_fail_after(n);
        int rc = import(rig, n % 2, &counts);
        mem_fail_after(-1);
        assert_true(rc <= 0);
        assert_true(counts.copied + counts.unchanged <= FILES);
        if (rc == 0 && counts.failed == 0)
            assert_int_equal(counts.copied + counts.unchanged, FILES);
    }
    assert_int_equal(import(rig, true, &counts), 0);
    assert_int_equal(counts.verified, FILES);
    for (long n = 0; n < 60; n++) {
        mem_fail_after(n);
        int rc = export(rig, &exported);
        mem_fail_after(-1);
        assert_true(rc <= 0);
    }
    assert_int_equal(export(rig, &exported), 0);
    assert_int_equal(exported.exported, FILES);
    run("diff -r %s/tree %s/out", rig->path);
}

static void landed(void *arg, int code, const struct shoal_stat *stat)
{
    fail(); /* a refused key never gets here */
}

static void keys_that_cannot_be_are_refused(void **state)
{
    struct rig *rig = *state;
    char longer[SHOAL_KEY_MAX + 1];
    struct shoal_reader *reader;
    struct shoal_writer *writer;
    struct shoal_stat stat;
    memset(longer, 'k', sizeof longer);
    const struct {
        const char *key;
        size_t length;
    } keys[] = {{"", 0}, {"a\0b", 3}, {"\0", 1}, {"a\0", 2}, {longer, sizeof longer}};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const char *key = keys[i].key;
        size_t length = keys[i].length;
        struct shoal *store = rig->store;
        assert_int_equal(
            shoal_put(store, "demo", key, length, "x", 1, NULL, NULL), SHOAL_E_BAD_KEY);
        assert_int_equal(shoal_put_start(store, "demo", key, length, "x", 1, NULL, landed, NULL),
            SHOAL_E_BAD_KEY);
        assert_int_equal(
            shoal_writer_open(store, "demo", key, length, NULL, &writer), SHOAL_E_BAD_KEY);
        assert_int_equal(shoal_delete(store, "demo", key, length), SHOAL_E_BAD_KEY);
        assert_int_equal(
            shoal_delete_start(store, "demo", key, length, landed, NULL), SHOAL_E_BAD_KEY);
        assert_int_equal(shoal_stat(store, "demo", key, length, &stat), SHOAL_E_BAD_KEY);
        assert_int_equal(
            shoal_reader_open(store, "demo", key, length, &reader, &stat), SHOAL_E_BAD_KEY);
    }
    assert_int_equal(shoal_put(rig->store, "demo", longer, SHOAL_KEY_MAX, "x", 1, NULL, &stat), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(counts_are_exact, rig_open, rig_close),
        cmocka_unit_test_setup_teardown(
            a_stop_before_the_start_copies_nothing, rig_open, rig_close),
        cmocka_unit_test_setup_teardown(an_unknown_bucket_ends_the_import, rig_open, rig_close),
        cmocka_unit_test_setup_teardown(failing_allocations_lose_nothing, rig_open, rig_close),
        cmocka_unit_test_setup_teardown(keys_that_cannot_be_are_refused, rig_open, rig_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
