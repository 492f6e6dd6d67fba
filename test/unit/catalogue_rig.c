/* What the tests of the catalogue on RocksDB share: see the header. */
#include "catalogue_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include <shoal/error.h>

#include "store/catalogue_rocksdb_priv.h"

const uint8_t rig_identity[32] = "a store's uuid and incarnation.";
char rig_folder[64], rig_dir[96];
struct catalogue_change rig_changes[RIG_BATCH_MAX];

/* RocksDB is not built with ThreadSanitizer, which would take its atomics for races. */
const char *__tsan_default_options(void);
__attribute__((visibility("default"))) const char *__tsan_default_options(void)
{
    return "ignore_noninstrumented_modules=1";
}

void rig_shell(const char *format, ...)
{
    char command[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(command, sizeof(command), format, arguments);
    va_end(arguments);
    assert_int_equal(system(command), 0);
}

int rig_make(void **state)
{
    (void)state;
    const char *parent = getenv("TMPDIR");
    snprintf(rig_folder, sizeof(rig_folder), "%.40s/catalogue-XXXXXX", parent ? parent : "/tmp");
    if (!mkdtemp(rig_folder))
        return -1;
    snprintf(rig_dir, sizeof(rig_dir), "%s/catalogue", rig_folder);
    return 0;
}

int rig_remove(void **state)
{
    (void)state;
    rig_shell("rm -rf '%s'", rig_folder);
    return 0;
}

int rig_fresh(void **state)
{
    (void)state;
    rig_shell("rm -rf '%s'", rig_dir);
    return 0;
}

struct catalogue *rig_open(uint64_t durable_sequence)
{
    struct catalogue *catalogue = NULL;
    struct shoal_error error = {0};
    int rc = catalogue_rocksdb_open(rig_dir, rig_identity, durable_sequence, &catalogue, &error);
    if (rc < 0)
        print_error("%s: %s\n", error.file, error.text);
    assert_int_equal(rc, 0);
    return catalogue;
}

void rig_apply(struct model *model, struct catalogue *catalogue, size_t count)
{
    for (size_t i = 0; i < count; i++)
        model_next(model, &rig_changes[i]);
    assert_int_equal(catalogue->ops->apply(catalogue, rig_changes, count, model->sequence), 0);
}

void rig_fill(struct model *model)
{
    struct catalogue *catalogue = rig_open(UINT64_MAX);
    rig_apply(model, catalogue, 7000);
    rig_apply(model, catalogue, 500);
    assert_int_equal(catalogue->ops->flush(catalogue), 0);
    catalogue->ops->close(catalogue);
}

void rig_verify_new(struct catalogue *catalogue)
{
    struct model *empty = model_new(0);
    model_verify(empty, catalogue);
    free(empty);
}

size_t rig_batch_size(uint64_t *random)
{
    uint64_t value = random_next(random);
    switch (value % 8) {
    case 0:
        return CATALOGUE_INGEST_MIN + (value >> 8) % (RIG_BATCH_MAX - CATALOGUE_INGEST_MIN);
    case 1:
    case 2:
        return (value >> 8) % CATALOGUE_INGEST_MIN;
    case 3:
        return (value >> 8) % 2;
    default:
        return (value >> 8) % 100;
    }
}
