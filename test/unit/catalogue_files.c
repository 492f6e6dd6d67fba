/* catalogue_files and the ways to open a catalogue that can't be used as it is: one of another store,
   ahead of the log, damaged in any file, with leftovers; and places where none can be. */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include <shoal/error.h>

#include "catalogue_rig.h"
#include "store/catalogue_rocksdb_priv.h"

static void of_another_store(void **state)
{
    (void)state;
    struct model *model = model_new(3);
    rig_fill(model);
    uint8_t other[32] = {1};
    struct catalogue *catalogue;
    assert_int_equal(catalogue_rocksdb_open(rig_dir, other, UINT64_MAX, &catalogue, NULL), 0);
    rig_verify_new(catalogue);
    catalogue->ops->close(catalogue);
    catalogue = rig_open(UINT64_MAX);
    rig_verify_new(catalogue);
    catalogue->ops->close(catalogue);
    free(model);
}

static void ahead_of_the_log(void **state)
{
    (void)state;
    struct model *model = model_new(4);
    rig_fill(model);
    struct catalogue *catalogue = rig_open(model->sequence);
    model_verify(model, catalogue);
    catalogue->ops->close(catalogue);
    catalogue = rig_open(model->sequence - 1);
    rig_verify_new(catalogue);
    catalogue->ops->close(catalogue);
    free(model);
}

/* Only the catalogue's own files go, and nothing behind a link. */
static void other_files_stay(void **state)
{
    (void)state;
    struct model *model = model_new(5);
    rig_fill(model);
    rig_shell("mkdir -p '%s/kept' '%s/linked' && touch '%s/kept/a' '%s/linked/b'", rig_dir,
        rig_folder, rig_dir, rig_folder);
    rig_shell("ln -s '%s/linked' '%s/db/link' && mkdir '%s/db/sub' && touch '%s/db/sub/c'",
        rig_folder, rig_dir, rig_dir, rig_dir);
    struct catalogue *catalogue = rig_open(0);
    rig_verify_new(catalogue);
    catalogue->ops->close(catalogue);
    rig_shell("test -e '%s/kept/a' && test -e '%s/linked/b' && ! test -e '%s/db/sub'", rig_dir,
        rig_folder, rig_dir);
    free(model);
}

static void a_file_left_before_ingestion(void **state)
{
    (void)state;
    struct model *model = model_new(6);
    rig_fill(model);
    rig_shell("echo rest > '%s/" CATALOGUE_INGEST_NAME "'", rig_dir);
    struct catalogue *catalogue = rig_open(model->sequence);
    model_verify(model, catalogue);
    rig_shell("! test -e '%s/" CATALOGUE_INGEST_NAME "'", rig_dir);
    rig_apply(model, catalogue, 6000);
    model_verify(model, catalogue);
    catalogue->ops->close(catalogue);
    free(model);
}

/* Reads everything; SHOAL_E_CORRUPT when something of it can't be read. What can be must be right. */
static int read_through(struct model *model, struct catalogue *catalogue)
{
    struct catalogue_usage usage;
    int rc = catalogue->ops->total(catalogue, &usage);
    for (unsigned i = 0; i < MODEL_BUCKETS && rc >= 0; i++) {
        struct catalogue_scan *scan;
        struct catalogue_entry entry;
        const char *name = model_buckets[i];
        rc = catalogue->ops->usage(catalogue, name, strlen(name), &usage);
        if (rc < 0)
            break;
        assert_int_equal(usage.objects, model->usage[i].objects);
        assert_int_equal(
            catalogue->ops->scan_open(catalogue, name, strlen(name), NULL, 0, &scan), 0);
        uint64_t seen = 0;
        while ((rc = catalogue->ops->scan_next(scan, &entry)) == 1)
            seen++;
        if (rc == 0)
            assert_int_equal(seen, usage.objects);
        else
            assert_int_equal(catalogue->ops->scan_next(scan, &entry), rc);
        catalogue->ops->scan_close(scan);
    }
    return rc;
}

static void damaged_files(void **state)
{
    static const char *const damages[] = {
        /* each for all files of the kind */
        "rm db/CURRENT && touch db/CURRENT",
        "rm db/MANIFEST-*",
        "for f in db/MANIFEST-*; do truncate -s 100 $f; done",
        "for f in db/MANIFEST-*; do printf xxxx | dd of=$f bs=1 seek=200 conv=notrunc; done",
        "echo nonsense > db/CURRENT",
        "rm db/*.sst",
        "for f in db/*.sst; do truncate -s 1000 $f; done",
        "for f in db/*.sst; do truncate -s 0 $f; done",
        "for f in db/*.sst; do printf xxxx | dd of=$f bs=1 seek=100 conv=notrunc; done",
        "for f in db/*.sst; do printf xxxx | dd of=$f bs=1 seek=20000 conv=notrunc; done",
        "for f in db/*.sst; do head -c 100000 /dev/zero > $f; done",
        "rm -r db && touch db",
        "rm -r db && mkdir -p db/CURRENT",
        "touch DAMAGED",
    };
    for (unsigned i = 0; i < sizeof(damages) / sizeof(*damages); i++) {
        rig_fresh(state);
        struct model *model = model_new(100 + i);
        rig_fill(model);
        rig_shell("cd '%s' && { %s; } 2>/dev/null", rig_dir, damages[i]);
        struct catalogue *catalogue = rig_open(UINT64_MAX);
        int rc = 0;
        if (catalogue->ops->progress(catalogue) > 0) {
            assert_int_equal(catalogue->ops->progress(catalogue), model->sequence);
            rc = read_through(model, catalogue);
            catalogue->ops->close(catalogue);
            if (rc != SHOAL_E_CORRUPT)
                print_error("unnoticed: %s\n", damages[i]);
            assert_int_equal(rc, SHOAL_E_CORRUPT);
            catalogue = rig_open(UINT64_MAX);
        }
        rig_verify_new(catalogue);
        catalogue->ops->close(catalogue);
        free(model);
    }
}

static void flip_bit(uint64_t *random)
{
    char pattern[128];
    glob_t files = {0};
    snprintf(pattern, sizeof(pattern), "%s/db/*.sst", rig_dir);
    assert_int_equal(glob(pattern, 0, NULL, &files), 0);
    snprintf(pattern, sizeof(pattern), "%s/db/MANIFEST-*", rig_dir);
    assert_int_equal(glob(pattern, GLOB_APPEND, NULL, &files), 0);
    int fd = open(files.gl_pathv[random_next(random) % files.gl_pathc], O_RDWR);
    globfree(&files);
    struct stat stat;
    assert_true(fd >= 0 && fstat(fd, &stat) == 0);
    off_t offset = (off_t)(random_next(random) % (uint64_t)stat.st_size);
    uint8_t byte;
    assert_int_equal(pread(fd, &byte, 1, offset), 1);
    byte ^= (uint8_t)(1u << random_next(random) % 8);
    assert_int_equal(pwrite(fd, &byte, 1, offset), 1);
    close(fd);
}

/* A bit flipped anywhere: found at once, found when read, or without effect; never believed. */
static void flipped_bits(void **state)
{
    uint64_t random = 77;
    for (unsigned i = 0; i < 25; i++) {
        rig_fresh(state);
        struct model *model = model_new(200 + i);
        rig_fill(model);
        flip_bit(&random);
        struct catalogue *catalogue = rig_open(UINT64_MAX);
        uint64_t progress = catalogue->ops->progress(catalogue);
        int rc = progress ? read_through(model, catalogue) : 0;
        if (progress && rc == 0)
            model_verify(model, catalogue);
        catalogue->ops->close(catalogue);
        catalogue = rig_open(UINT64_MAX);
        if (progress == 0 || rc < 0) {
            assert_true(rc == 0 || rc == SHOAL_E_CORRUPT);
            rig_verify_new(catalogue);
        }
        catalogue->ops->close(catalogue);
        free(model);
    }
}

static void unusable_places(void **state)
{
    (void)state;
    struct catalogue *catalogue = NULL;
    struct shoal_error error = {0};
    rig_shell("touch '%s'", rig_dir);
    assert_int_equal(
        catalogue_rocksdb_open(rig_dir, rig_identity, 0, &catalogue, &error), -ENOTDIR);
    assert_int_equal(error.code, -ENOTDIR);
    assert_true(error.text[0] && strstr(error.file, rig_dir));
    char deep[128];
    snprintf(deep, sizeof(deep), "%s/none/below", rig_folder);
    assert_int_equal(catalogue_rocksdb_open(deep, rig_identity, 0, &catalogue, &error), -ENOENT);
    assert_null(catalogue);
    rig_shell("rm '%s'", rig_dir);
    struct catalogue *first = rig_open(0);
    assert_int_equal(
        catalogue_rocksdb_open(rig_dir, rig_identity, 0, &catalogue, &error), SHOAL_E_BUSY);
    first->ops->close(first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(of_another_store, rig_fresh),
        cmocka_unit_test_setup(ahead_of_the_log, rig_fresh),
        cmocka_unit_test_setup(other_files_stay, rig_fresh),
        cmocka_unit_test_setup(a_file_left_before_ingestion, rig_fresh),
        cmocka_unit_test_setup(damaged_files, rig_fresh),
        cmocka_unit_test_setup(flipped_bits, rig_fresh),
        cmocka_unit_test_setup(unusable_places, rig_fresh),
    };
    return cmocka_run_group_tests_name("catalogue_files", tests, rig_make, rig_remove);
}
