/* catalogue_flush: a disk that is full while the catalogue flushes in the background or on request,
   and has space again later. What flush and ingestion call durable is looked for in a copy of
   the files, which is what a crash would leave.

   The program has a write(2) of its own in front of the C library's, which RocksDB calls as well. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "catalogue_rig.h"
#include "store/catalogue_rocksdb_priv.h"

static atomic_bool full;

__attribute__((visibility("default"))) ssize_t write(int fd, const void *bytes, size_t length)
{
    if (atomic_load(&full) && fd > STDERR_FILENO) {
        errno = ENOSPC;
        return -1;
    }
    return syscall(SYS_write, fd, bytes, length);
}

/* The files as they are must hold the model's state. */
static void verify_copy(struct model *model)
{
    char original[sizeof(rig_dir)];
    memcpy(original, rig_dir, sizeof(rig_dir));
    rig_shell("rm -rf '%s/copy' && cp -r '%s' '%s/copy'", rig_folder, rig_dir, rig_folder);
    snprintf(rig_dir, sizeof(rig_dir), "%s/copy", rig_folder);
    struct catalogue *copy = rig_open(UINT64_MAX);
    model_verify(model, copy);
    copy->ops->close(copy);
    memcpy(rig_dir, original, sizeof(rig_dir));
}

static void pause_briefly(void)
{
    const struct timespec pause = {.tv_nsec = 50 * 1000000l};
    nanosleep(&pause, NULL);
}

static void recover_and_go_on(struct model *model, struct catalogue *catalogue)
{
    for (unsigned i = 0; i < 3; i++) {
        rig_apply(model, catalogue, 300);
        assert_int_equal(catalogue->ops->flush(catalogue), 0);
        verify_copy(model);
        rig_apply(model, catalogue, 2000);
        rig_apply(model, catalogue, 6000);
        model_verify(model, catalogue);
        assert_int_equal(catalogue->ops->flush(catalogue), 0);
        verify_copy(model);
    }
}

static void full_in_the_background(void **state)
{
    (void)state;
    struct model *model = model_new(21);
    struct catalogue *catalogue = rig_open(0);
    rig_apply(model, catalogue, 100);
    int rc = 0;
    uint64_t sequence = 0;
    atomic_store(&full, true);
    for (unsigned i = 0; i < 1000 && rc == 0; i++) {
        sequence = model->sequence;
        for (unsigned k = 0; k < 2000; k++)
            model_next(model, &rig_changes[k]);
        rc = catalogue->ops->apply(catalogue, rig_changes, 2000, model->sequence);
    }
    assert_int_equal(rc, -ENOSPC);
    assert_int_equal(catalogue->ops->progress(catalogue), sequence);
    struct catalogue_usage usage;
    assert_int_equal(catalogue->ops->total(catalogue, &usage), 0);
    atomic_store(&full, false);
    for (unsigned i = 0; i < 600 && rc < 0; i++) {
        pause_briefly();
        rc = catalogue->ops->apply(catalogue, rig_changes, 2000, model->sequence);
    }
    assert_int_equal(rc, 0);
    model_verify(model, catalogue);
    recover_and_go_on(model, catalogue);
    catalogue->ops->close(catalogue);
    free(model);
}

static void full_on_request(void **state)
{
    (void)state;
    struct model *model = model_new(22);
    struct catalogue *catalogue = rig_open(0);
    rig_apply(model, catalogue, 2000);
    atomic_store(&full, true);
    assert_int_equal(catalogue->ops->flush(catalogue), -ENOSPC);
    model_verify(model, catalogue);
    atomic_store(&full, false);
    int rc = -1;
    for (unsigned i = 0; i < 600 && rc < 0; i++) {
        pause_briefly();
        rc = catalogue->ops->flush(catalogue);
    }
    assert_int_equal(rc, 0);
    verify_copy(model);
    recover_and_go_on(model, catalogue);
    catalogue->ops->close(catalogue);
    free(model);
}

static void full_before_ingestion(void **state)
{
    (void)state;
    struct model *model = model_new(23);
    struct catalogue *catalogue = rig_open(0);
    rig_apply(model, catalogue, 2000);
    uint64_t sequence = model->sequence;
    for (unsigned k = 0; k < 8000; k++)
        model_next(model, &rig_changes[k]);
    atomic_store(&full, true);
    int rc = catalogue->ops->apply(catalogue, rig_changes, 8000, model->sequence);
    assert_int_equal(rc, -ENOSPC);
    assert_int_equal(catalogue->ops->progress(catalogue), sequence);
    atomic_store(&full, false);
    assert_int_equal(catalogue->ops->apply(catalogue, rig_changes, 8000, model->sequence), 0);
    model_verify(model, catalogue);
    verify_copy(model);
    recover_and_go_on(model, catalogue);
    catalogue->ops->close(catalogue);
    free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(full_in_the_background, rig_fresh),
        cmocka_unit_test_setup(full_on_request, rig_fresh),
        cmocka_unit_test_setup(full_before_ingestion, rig_fresh),
    };
    return cmocka_run_group_tests_name("catalogue_flush", tests, rig_make, rig_remove);
}
