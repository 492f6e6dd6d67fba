/* catalogue_rocksdb, with its applies and scans: random applies against a plain model, with
   reopening; processes killed in the middle of applies; refusals, limits, threads.

   Called as `… writer DIR SEED PROGRESS` it is the process that gets killed: it applies the
   model's changes from where the catalogue stands, for ever, and notes in the file PROGRESS what it
   has flushed. A program of its own and not a fork, since RocksDB's threads don't survive one. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/mem.h"
#include "catalogue_rig.h"
#include "store/catalogue_rocksdb_priv.h"

static void new_and_empty(void **state)
{
    (void)state;
    struct catalogue *catalogue = rig_open(0);
    struct model *model = model_new(0);
    model_verify(model, catalogue);
    assert_int_equal(catalogue->ops->apply(catalogue, NULL, 0, 77), 0);
    assert_int_equal(catalogue->ops->progress(catalogue), 77);
    assert_int_equal(catalogue->ops->flush(catalogue), 0);
    assert_int_equal(catalogue->ops->flush(catalogue), 0);
    catalogue->ops->close(catalogue);
    catalogue = rig_open(77);
    model->sequence = 77;
    model_verify(model, catalogue);
    assert_in_range(catalogue->ops->ram_bytes(catalogue), 1, CATALOGUE_RAM_BYTES);
    catalogue->ops->close(catalogue);
    free(model);
}

static void random_applies(void **state)
{
    for (uint64_t seed = 1; seed <= 4; seed++) {
        rig_fresh(state);
        struct model *model = model_new(seed);
        struct catalogue *catalogue = rig_open(UINT64_MAX);
        uint64_t random = seed;
        for (unsigned i = 0; i < 60; i++) {
            rig_apply(model, catalogue, rig_batch_size(&random));
            if (random_next(&random) % 4 == 0)
                assert_int_equal(catalogue->ops->flush(catalogue), 0);
            if (random_next(&random) % 6 == 0)
                model_verify(model, catalogue);
            if (random_next(&random) % 10 == 0) {
                catalogue->ops->close(catalogue);
                catalogue = rig_open(model->sequence);
                model_verify(model, catalogue);
            }
        }
        model_verify(model, catalogue);
        assert_in_range(catalogue->ops->ram_bytes(catalogue), 1, CATALOGUE_RAM_BYTES);
        catalogue->ops->close(catalogue);
        free(model);
    }
}

static void a_large_apply_goes_in_parts(void **state)
{
    (void)state;
    const size_t count = CATALOGUE_PART_MAX + 1000;
    struct catalogue_change *many = calloc(count, sizeof(*many));
    char(*keys)[16] = calloc(count, sizeof(*keys));
    assert_true(many && keys);
    for (size_t i = 0; i < count; i++) {
        sprintf(keys[i], "%08x", (unsigned)(i * 2654435761u));
        many[i].key = (struct key){"bucket", (const uint8_t *)keys[i], 8, 6};
        many[i].sequence = i + 1;
        many[i].size_bytes = 10;
    }
    struct catalogue *catalogue = rig_open(0);
    assert_int_equal(catalogue->ops->apply(catalogue, many, count, count + 5), 0);
    assert_int_equal(catalogue->ops->progress(catalogue), count + 5);
    struct catalogue_usage usage;
    assert_int_equal(catalogue->ops->total(catalogue, &usage), 0);
    assert_int_equal(usage.objects, count);
    assert_int_equal(usage.bytes, count * 10);
    struct catalogue_scan *scan;
    struct catalogue_entry entry;
    size_t seen = 0;
    assert_int_equal(catalogue->ops->scan_open(catalogue, "bucket", 6, NULL, 0, &scan), 0);
    while (catalogue->ops->scan_next(scan, &entry) == 1)
        seen++;
    assert_int_equal(seen, count);
    catalogue->ops->scan_close(scan);
    assert_in_range(catalogue->ops->ram_bytes(catalogue), 1, CATALOGUE_RAM_BYTES);
    catalogue->ops->close(catalogue);
    free(many);
    free(keys);
}

static void a_scan_sees_its_moment(void **state)
{
    (void)state;
    struct model *model = model_new(9);
    struct catalogue *catalogue = rig_open(0);
    rig_apply(model, catalogue, 9000);
    struct catalogue_scan *scans[3];
    uint64_t expected[3], seen[3] = {0};
    const size_t sizes[3] = {300, 9000, 10};
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(catalogue->ops->scan_open(catalogue, "aaa", 3, "", 0, &scans[i]), 0);
        expected[i] = model->usage[0].objects;
        rig_apply(model, catalogue, sizes[i]);
    }
    for (unsigned i = 0; i < 3; i++) {
        struct catalogue_entry entry;
        while (catalogue->ops->scan_next(scans[i], &entry) == 1)
            seen[i]++;
        assert_int_equal(seen[i], expected[i]);
        catalogue->ops->scan_close(scans[i]);
    }
    model_verify(model, catalogue);
    catalogue->ops->close(catalogue);
    free(model);
}

/* --- killed --- */

static int writer(const char *seed_text, const char *progress_path)
{
    uint64_t seed = strtoull(seed_text, NULL, 10), random = seed ^ (uint64_t)getpid();
    int fd = open(progress_path, O_RDWR);
    _Atomic uint64_t *flushed = mmap(NULL, 8, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    struct catalogue *catalogue = NULL;
    if (flushed == MAP_FAILED ||
        catalogue_rocksdb_open(rig_dir, rig_identity, UINT64_MAX, &catalogue, NULL) < 0)
        return 1;
    struct model *model = model_new(seed);
    while (model->sequence < catalogue->ops->progress(catalogue))
        model_next(model, &rig_changes[0]);
    for (;;) {
        size_t count = rig_batch_size(&random);
        for (size_t i = 0; i < count; i++)
            model_next(model, &rig_changes[i]);
        if (catalogue->ops->apply(catalogue, rig_changes, count, model->sequence) < 0)
            return 1;
        if (random_next(&random) % 4)
            continue;
        if (catalogue->ops->flush(catalogue) < 0)
            return 1;
        atomic_store(flushed, model->sequence);
    }
}

static void killed_in_the_middle(void **state)
{
    (void)state;
    char path[128], seed[] = "42";
    extern char **environ;
    snprintf(path, sizeof(path), "%s/flushed", rig_folder);
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    assert_true(fd >= 0 && ftruncate(fd, 8) == 0);
    _Atomic uint64_t *flushed = mmap(NULL, 8, PROT_READ, MAP_SHARED, fd, 0);
    assert_true(flushed != MAP_FAILED);
    struct model *model = model_new(42);
    uint64_t random = 42, before = 0;
    for (unsigned round = 0; round < 15; round++) {
        char name[] = "writer", *arguments[] = {name, name, rig_dir, seed, path, NULL};
        pid_t pid;
        assert_int_equal(posix_spawn(&pid, "/proc/self/exe", NULL, NULL, arguments, environ), 0);
        struct timespec wait = {.tv_nsec = (long)(20 + random_next(&random) % 300) * 1000000};
        nanosleep(&wait, NULL);
        kill(pid, SIGKILL);
        int status = 0;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status)); /* it did not end by itself */
        struct catalogue *catalogue = rig_open(UINT64_MAX);
        uint64_t progress = catalogue->ops->progress(catalogue);
        assert_true(progress >= atomic_load(flushed) && progress >= before);
        while (model->sequence < progress) {
            struct catalogue_change change;
            model_next(model, &change);
        }
        model_verify(model, catalogue);
        assert_int_equal(access(((struct catalogue_rocksdb *)catalogue)->ingest_path, F_OK), -1);
        catalogue->ops->close(catalogue);
        before = progress;
    }
    assert_true(before > 0);
    munmap((void *)flushed, 8);
    close(fd);
    free(model);
}

/* --- refused --- */

static void invalid_changes(void **state)
{
    (void)state;
    struct model *model = model_new(8);
    struct catalogue *catalogue = rig_open(0);
    rig_apply(model, catalogue, 100);
    static const uint8_t long_key[1025];
    const struct catalogue_change good = {
        .key = {"aaa", (const uint8_t *)"key", 3, 3}, .sequence = 101};
    struct catalogue_change bad[8];
    for (unsigned i = 0; i < 8; i++)
        bad[i] = good;
    bad[0].key.bucket_length = 0;
    bad[1].key.bucket_length = 64;
    bad[2].key.length = 0;
    bad[3].key = (struct key){"aaa", long_key, 1025, 3};
    bad[4].size_bytes = SHOAL_OBJECT_MAX + 1;
    bad[5].has_prev = true;
    bad[5].prev_bytes = SHOAL_OBJECT_MAX + 1;
    bad[6].sequence = 102;
    for (unsigned i = 0; i < 7; i++) {
        struct catalogue_change two[] = {good, bad[i]};
        assert_int_equal(catalogue->ops->apply(catalogue, two, 2, 101), -EINVAL);
    }
    assert_int_equal(catalogue->ops->apply(catalogue, NULL, 0, 99), -EINVAL);
    struct catalogue_usage usage;
    struct catalogue_scan *scan;
    assert_int_equal(catalogue->ops->usage(catalogue, "", 0, &usage), -EINVAL);
    assert_int_equal(catalogue->ops->scan_open(catalogue, "", 0, NULL, 0, &scan), -EINVAL);
    assert_int_equal(
        catalogue->ops->scan_open(catalogue, "aaa", 3, long_key, 1025, &scan), -EINVAL);
    model_verify(model, catalogue);
    catalogue->ops->close(catalogue);
    free(model);
}

/* More taken away than was there: the counts were wrong, so all of it is made anew. */
static void usage_below_zero(void **state)
{
    (void)state;
    struct catalogue_change change = {.key = {"aaa", (const uint8_t *)"key", 3, 3},
        .sequence = 2,
        .is_delete = true,
        .has_prev = true,
        .prev_bytes = 5};
    struct catalogue *catalogue = rig_open(0);
    assert_int_equal(catalogue->ops->apply(catalogue, NULL, 0, 1), 0);
    assert_int_equal(catalogue->ops->apply(catalogue, &change, 1, 2), SHOAL_E_CORRUPT);
    assert_int_equal(catalogue->ops->progress(catalogue), 1);
    catalogue->ops->close(catalogue);
    catalogue = rig_open(UINT64_MAX);
    rig_verify_new(catalogue);
    catalogue->ops->close(catalogue);
}

static void set_file_limit(rlim_t bytes)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* The device refuses to take more in the middle of a large apply, and later takes it. */
static void refused_by_the_device(void **state)
{
    (void)state;
    struct model *model = model_new(11);
    struct catalogue *catalogue = rig_open(0);
    rig_apply(model, catalogue, 8000);
    for (unsigned i = 0; i < 3; i++) {
        uint64_t sequence = model->sequence;
        for (size_t k = 0; k < 10000; k++)
            model_next(model, &rig_changes[k]);
        signal(SIGXFSZ, SIG_IGN);
        set_file_limit(100000);
        int rc = catalogue->ops->apply(catalogue, rig_changes, 10000, model->sequence);
        set_file_limit(RLIM_INFINITY);
        assert_int_equal(rc, -EFBIG);
        assert_int_equal(catalogue->ops->progress(catalogue), sequence);
        assert_int_equal(catalogue->ops->apply(catalogue, rig_changes, 10000, model->sequence), 0);
        model_verify(model, catalogue);
    }
    catalogue->ops->close(catalogue);
    catalogue = rig_open(model->sequence);
    model_verify(model, catalogue);
    catalogue->ops->close(catalogue);
    free(model);
}

static void out_of_memory(void **state)
{
    (void)state;
    struct catalogue *catalogue = NULL;
    int rc = -ENOMEM;
    for (long nth = 0; rc == -ENOMEM; nth++) {
        mem_fail_after(nth);
        rc = catalogue_rocksdb_open(rig_dir, rig_identity, 0, &catalogue, NULL);
        mem_fail_after(-1);
        assert_true(rc == 0 || rc == -ENOMEM);
    }
    struct model *model = model_new(12);
    for (size_t i = 0; i < 6000; i++)
        model_next(model, &rig_changes[i]);
    mem_fail_after(0);
    assert_int_equal(catalogue->ops->apply(catalogue, rig_changes, 6000, 6000), -ENOMEM);
    mem_fail_after(-1);
    assert_int_equal(catalogue->ops->apply(catalogue, rig_changes, 6000, 6000), 0);
    struct catalogue_scan *scan;
    mem_fail_after(0);
    assert_int_equal(catalogue->ops->scan_open(catalogue, "aaa", 3, NULL, 0, &scan), -ENOMEM);
    mem_fail_after(-1);
    model_verify(model, catalogue);
    catalogue->ops->close(catalogue);
    free(model);
}

/* --- threads --- */

struct reader {
    struct catalogue *catalogue;
    atomic_bool *stop;
    unsigned wrong;
};

static void *read_beside(void *arg)
{
    struct reader *reader = arg;
    const struct catalogue_ops *table = reader->catalogue->ops;
    while (!atomic_load(reader->stop)) {
        struct catalogue_scan *scan;
        struct catalogue_entry entry;
        struct catalogue_usage usage;
        uint64_t before = table->progress(reader->catalogue), highest = 0;
        int rc = table->scan_open(reader->catalogue, "aaa", 3, NULL, 0, &scan);
        while (rc >= 0 && (rc = table->scan_next(scan, &entry)) == 1) {
            if (entry.sequence > highest)
                highest = entry.sequence;
        }
        table->scan_close(scan);
        reader->wrong += rc != 0;
        reader->wrong += table->usage(reader->catalogue, "zoo", 3, &usage) != 0;
        reader->wrong += table->progress(reader->catalogue) < before;
        reader->wrong += table->ram_bytes(reader->catalogue) == 0;
    }
    return NULL;
}

static void readers_beside_applies(void **state)
{
    (void)state;
    struct model *model = model_new(13);
    struct catalogue *catalogue = rig_open(0);
    atomic_bool stop = false;
    pthread_t threads[2];
    struct reader readers[2];
    uint64_t random = 13;
    for (unsigned i = 0; i < 2; i++) {
        readers[i] = (struct reader){.catalogue = catalogue, .stop = &stop};
        assert_int_equal(pthread_create(&threads[i], NULL, read_beside, &readers[i]), 0);
    }
    for (unsigned i = 0; i < 40; i++) {
        rig_apply(model, catalogue, rig_batch_size(&random));
        if (i % 8 == 0)
            assert_int_equal(catalogue->ops->flush(catalogue), 0);
    }
    atomic_store(&stop, true);
    for (unsigned i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(readers[i].wrong, 0);
    }
    model_verify(model, catalogue);
    catalogue->ops->close(catalogue);
    free(model);
}

int main(int argc, char **argv)
{
    if (argc == 5 && strcmp(argv[1], "writer") == 0) {
        snprintf(rig_dir, sizeof(rig_dir), "%s", argv[2]);
        return writer(argv[3], argv[4]);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(new_and_empty, rig_fresh),
        cmocka_unit_test_setup(random_applies, rig_fresh),
        cmocka_unit_test_setup(a_large_apply_goes_in_parts, rig_fresh),
        cmocka_unit_test_setup(a_scan_sees_its_moment, rig_fresh),
        cmocka_unit_test_setup(killed_in_the_middle, rig_fresh),
        cmocka_unit_test_setup(invalid_changes, rig_fresh),
        cmocka_unit_test_setup(usage_below_zero, rig_fresh),
        cmocka_unit_test_setup(refused_by_the_device, rig_fresh),
        cmocka_unit_test_setup(out_of_memory, rig_fresh),
        cmocka_unit_test_setup(readers_beside_applies, rig_fresh),
    };
    return cmocka_run_group_tests_name("catalogue_rocksdb", tests, rig_make, rig_remove);
}
