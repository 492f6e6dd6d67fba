/* volume_sim: what was synced stays, what was not may go in every way that counts, faults do what
   they say, and breaches of the contract are noticed. Outcomes left to chance are tried with many
   seeds, and each outcome that is legal must come up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <errno.h>
#include <stdbool.h>

#include <shoal/error.h>

#include "base/mem.h"
#include "lib/volume_sim.h"

#define BLOCK VOLUME_SIM_BLOCK_BYTES
#define SEEDS 200

static uint8_t *blocks(size_t count, uint8_t byte)
{
    uint8_t *bytes = mem_aligned(BLOCK, count * BLOCK);

    assert_non_null(bytes);
    memset(bytes, byte, count * BLOCK);
    return bytes;
}

static struct volume *start(struct volume_sim *sim)
{
    struct volume *volume = volume_sim_open(sim, false);

    assert_int_equal(volume->ops->lock(volume, NULL), 0);
    return volume;
}

static struct volume_file *create(struct volume *volume, uint64_t id)
{
    struct volume_file *file = NULL;

    assert_int_equal(volume->ops->create(volume, id, &file), 0);
    return file;
}

static struct volume_file *reopen(struct volume *volume, uint64_t id)
{
    struct volume_file *file = NULL;

    return volume->ops->open(volume, id, &file) == 0 ? file : NULL;
}

static int write_block(struct volume *volume, struct volume_file *file, uint8_t byte, uint64_t at)
{
    uint8_t *bytes = blocks(1, byte);
    int rc = volume->ops->write_at(file, bytes, BLOCK, at);

    mem_free(bytes);
    return rc;
}

/* Sectors of this byte among the first `size` bytes. */
static unsigned sectors_of(
    struct volume *volume, struct volume_file *file, uint8_t byte, size_t size)
{
    static uint8_t got[64 * BLOCK];
    int64_t count = volume->ops->read_at(file, got, size, 0);
    unsigned found = 0;

    for (int64_t at = 0; at + 512 <= count; at += 512) {
        unsigned same = 0;

        for (unsigned i = 0; i < 512; i++)
            same += got[at + i] == byte;
        found += same == 512;
    }
    return found;
}

static struct volume *cut_power(struct volume_sim *sim, struct volume *volume)
{
    volume->ops->done(volume);
    volume_sim_restart(sim, VOLUME_SIM_POWER_CUT);
    return start(sim);
}

static void what_was_synced_survives(void **state)
{
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct volume_sim *sim = volume_sim_new(seed);
        struct volume *volume = start(sim);
        struct volume_file *file = create(volume, 7);

        assert_int_equal(write_block(volume, file, 'a', 0), 0);
        assert_int_equal(write_block(volume, file, 'b', BLOCK), 0);
        assert_int_equal(volume->ops->sync(file), 0);
        assert_int_equal(volume->ops->dir_sync(volume), 0);
        assert_int_equal(volume->ops->manifest_append(volume, 0, "manifest", 8), 0);
        volume->ops->close(file);
        volume = cut_power(sim, volume);
        file = reopen(volume, 7);
        assert_non_null(file);
        assert_int_equal(sectors_of(volume, file, 'a', BLOCK), 8);
        assert_int_equal(sectors_of(volume, file, 'b', 2 * BLOCK), 8);
        assert_int_equal(volume_sim_manifest_size(sim), 8);
        volume->ops->close(file);
        volume->ops->done(volume);
        assert_null(volume_sim_violation(sim));
        volume_sim_free(sim);
    }
}

static void what_was_not_synced_is_lost_kept_or_torn(void **state)
{
    unsigned none = 0, all = 0, torn = 0, reordered = 0, shorter = 0;

    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct volume_sim *sim = volume_sim_new(seed);
        struct volume *volume = start(sim);
        struct volume_file *file = create(volume, 7);
        unsigned first, second;
        uint64_t size;

        assert_int_equal(volume->ops->dir_sync(volume), 0);
        assert_int_equal(write_block(volume, file, 'a', 0), 0);
        assert_int_equal(write_block(volume, file, 'b', BLOCK), 0);
        assert_int_equal(sectors_of(volume, file, 'a', 2 * BLOCK), 8); /* readers see it at once */
        volume->ops->close(file);
        volume = cut_power(sim, volume);
        file = reopen(volume, 7);
        assert_non_null(file);
        assert_int_equal(volume->ops->size(file, &size), 0);
        first = sectors_of(volume, file, 'a', 2 * BLOCK);
        second = sectors_of(volume, file, 'b', 2 * BLOCK);
        none += first + second == 0;
        all += first + second == 16;
        torn += first > 0 && first < 8;
        reordered += first < 8 && second > 0;
        shorter += size < 2 * (uint64_t)BLOCK;
        volume->ops->close(file);
        volume->ops->done(volume);
        volume_sim_free(sim);
    }
    assert_true(none > 10 && all > 10 && torn > 10 && reordered > 10 && shorter > 10);
}

static void names_need_a_dir_sync(void **state)
{
    unsigned created_lost = 0, created_kept = 0, removed_back = 0, removed_gone = 0;

    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct volume_sim *sim = volume_sim_new(seed);
        struct volume *volume = start(sim);
        struct volume_file *file = create(volume, 1);
        uint64_t ids[4];

        volume->ops->close(file);
        assert_int_equal(volume->ops->dir_sync(volume), 0);
        volume->ops->close(create(volume, 2));
        assert_int_equal(volume->ops->remove(volume, 1), 0);
        assert_null(reopen(volume, 1));
        volume = cut_power(sim, volume);
        file = reopen(volume, 1);
        removed_back += file != NULL;
        removed_gone += file == NULL;
        volume->ops->close(file);
        file = reopen(volume, 2);
        created_kept += file != NULL;
        created_lost += file == NULL;
        volume->ops->close(file);
        assert_true(volume_sim_segments(sim, ids, 4) <= 2);
        volume->ops->done(volume);
        volume_sim_free(sim);
    }
    assert_true(created_lost > 10 && created_kept > 10 && removed_back > 10 && removed_gone > 10);
}

static void an_append_to_the_manifest_may_tear(void **state)
{
    unsigned sizes[2] = {0};

    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct volume_sim *sim = volume_sim_new(seed);
        struct volume *volume = start(sim);
        uint8_t *bytes = blocks(1, 'x'), *got;
        size_t length;

        assert_int_equal(volume->ops->manifest_append(volume, 0, "begin", 5), 0);
        volume_sim_crash_after(sim, 1 + seed % 2);
        assert_int_equal(volume->ops->manifest_append(volume, 5, bytes, BLOCK), -EIO);
        assert_true(volume_sim_crashed(sim));
        assert_int_equal(volume->ops->manifest_append(volume, 5, bytes, BLOCK), -EIO);
        volume = cut_power(sim, volume);
        assert_int_equal(volume->ops->manifest_read(volume, &got, &length), 0);
        assert_true(length >= 5 && length <= 5 + BLOCK);
        assert_memory_equal(got, "begin", 5);
        sizes[0] += length < 5 + BLOCK;
        sizes[1] += length == 5 + BLOCK;
        mem_free(got);
        assert_int_equal(volume->ops->manifest_append(volume, 5, "end", 3), 0);
        assert_int_equal(volume_sim_manifest_size(sim), 8);
        assert_int_equal(volume->ops->manifest_append(volume, 9, "x", 1), SHOAL_E_CONFLICT);
        volume->ops->done(volume);
        mem_free(bytes);
        volume_sim_free(sim);
    }
    assert_true(sizes[0] > 10 && sizes[1] > 10);
}

static void a_failed_sync_is_forgotten_by_the_kernel(void **state)
{
    unsigned lost = 0;

    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct volume_sim *sim = volume_sim_new(seed);
        struct volume *volume = start(sim);
        struct volume_file *file = create(volume, 1);
        uint8_t got[512];

        assert_int_equal(volume->ops->dir_sync(volume), 0);
        assert_int_equal(write_block(volume, file, 'a', 0), 0);
        volume_sim_arm(sim, VOLUME_SIM_SYNC_EIO_LOST, 0);
        assert_int_equal(volume->ops->sync(file), -EIO);
        assert_int_equal(volume->ops->sync(file), 0); /* the lie */
        assert_int_equal(volume->ops->read_at(file, got, 512, 0), 512);
        assert_int_equal(got[0], 'a');
        volume->ops->close(file);
        volume = cut_power(sim, volume);
        file = reopen(volume, 1);
        lost += sectors_of(volume, file, 'a', BLOCK) < 8;
        volume->ops->close(file);
        volume->ops->done(volume);
        volume_sim_free(sim);
    }
    assert_true(lost > SEEDS / 2);
}

static void a_failed_sync_may_have_written_everything(void **state)
{
    struct volume_sim *sim = volume_sim_new(1);
    struct volume *volume = start(sim);
    struct volume_file *file = create(volume, 1);

    assert_int_equal(volume->ops->dir_sync(volume), 0);
    assert_int_equal(write_block(volume, file, 'a', 0), 0);
    volume_sim_arm(sim, VOLUME_SIM_SYNC_EIO, 0);
    assert_int_equal(volume->ops->sync(file), -EIO);
    assert_int_equal(volume_sim_struck(sim, VOLUME_SIM_SYNC_EIO), 1);
    volume->ops->close(file);
    volume = cut_power(sim, volume);
    file = reopen(volume, 1);
    assert_int_equal(sectors_of(volume, file, 'a', BLOCK), 8);
    volume->ops->close(file);
    volume->ops->done(volume);
    volume_sim_free(sim);
}

static void a_killed_process_loses_nothing_until_the_power_fails(void **state)
{
    unsigned lost = 0;

    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct volume_sim *sim = volume_sim_new(seed);
        struct volume *volume = start(sim);
        struct volume_file *file = create(volume, 1);

        assert_int_equal(write_block(volume, file, 'a', 0), 0);
        volume->ops->close(file);
        volume->ops->done(volume);
        volume_sim_restart(sim, VOLUME_SIM_KILLED);
        volume = start(sim);
        file = reopen(volume, 1);
        assert_non_null(file);
        assert_int_equal(sectors_of(volume, file, 'a', BLOCK), 8);
        volume->ops->close(file);
        volume = cut_power(sim, volume);
        file = reopen(volume, 1);
        lost += file == NULL || sectors_of(volume, file, 'a', BLOCK) < 8;
        volume->ops->close(file);
        volume->ops->done(volume);
        volume_sim_free(sim);
    }
    assert_true(lost > SEEDS / 2);
}

static void lost_bytes_may_show_an_older_file(void **state)
{
    unsigned old = 0;

    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct volume_sim *sim = volume_sim_new(seed);
        struct volume *volume = start(sim);
        struct volume_file *file = create(volume, 1);

        assert_int_equal(write_block(volume, file, 'o', 0), 0);
        assert_int_equal(volume->ops->sync(file), 0);
        volume->ops->close(file);
        file = create(volume, 2);
        assert_int_equal(volume->ops->dir_sync(volume), 0);
        assert_int_equal(write_block(volume, file, 'n', 0), 0);
        volume->ops->close(file);
        volume = cut_power(sim, volume);
        file = reopen(volume, 2);
        old += sectors_of(volume, file, 'o', BLOCK) > 0;
        volume->ops->close(file);
        volume->ops->done(volume);
        volume_sim_free(sim);
    }
    assert_true(old > 10);
}

static void a_crash_stops_every_call(void **state)
{
    struct volume_sim *sim = volume_sim_new(3);
    struct volume *volume = start(sim);
    struct volume_file *file = create(volume, 1), *other;
    uint64_t size;
    char got[8];

    assert_int_equal(volume_sim_calls(sim), 1);
    volume_sim_crash_after(sim, 2);
    assert_int_equal(write_block(volume, file, 'a', 0), 0);
    assert_false(volume_sim_crashed(sim));
    assert_int_equal(volume->ops->sync(file), -EIO);
    assert_true(volume_sim_crashed(sim));
    assert_int_equal(write_block(volume, file, 'a', BLOCK), -EIO);
    assert_int_equal(volume->ops->read_at(file, got, 8, 0), -EIO);
    assert_int_equal(volume->ops->read_direct(file, got, 8, 0), -EIO);
    assert_int_equal(volume->ops->size(file, &size), -EIO);
    assert_int_equal(volume->ops->reserve(file, 1 << 20), -EIO);
    assert_int_equal(volume->ops->trim(file, 0), -EIO);
    assert_int_equal(volume->ops->create(volume, 2, &other), -EIO);
    assert_int_equal(volume->ops->open(volume, 1, &other), -EIO);
    assert_int_equal(volume->ops->remove(volume, 1), -EIO);
    assert_int_equal(volume->ops->dir_sync(volume), -EIO);
    volume->ops->close(file);
    volume = cut_power(sim, volume);
    assert_int_equal(volume->ops->create(volume, 9, &file), 0);
    volume->ops->close(file);
    volume->ops->done(volume);
    assert_null(volume_sim_violation(sim));
    volume_sim_free(sim);
}

static void a_full_device_says_so(void **state)
{
    struct volume_sim *sim = volume_sim_new(4);
    struct volume *volume = start(sim);
    struct volume_file *file = create(volume, 1), *second = create(volume, 2);

    volume_sim_set_capacity(sim, 3 * BLOCK);
    assert_int_equal(volume->ops->reserve(file, 4 * BLOCK), -ENOSPC);
    assert_int_equal(volume->ops->reserve(file, 2 * BLOCK), 0);
    assert_int_equal(write_block(volume, file, 'a', 0), 0);
    assert_int_equal(write_block(volume, second, 'a', 0), 0);
    assert_int_equal(write_block(volume, second, 'a', BLOCK), -ENOSPC);
    assert_int_equal(volume->ops->manifest_append(volume, 0, "x", 1), -ENOSPC);
    assert_int_equal(volume_sim_used(sim), 3 * BLOCK);
    assert_int_equal(volume->ops->trim(file, BLOCK), 0);
    assert_int_equal(volume->ops->manifest_append(volume, 0, "x", 1), 0);
    assert_int_equal(volume->ops->remove(volume, 2), 0);
    volume->ops->close(second); /* the last handle gives the room back */
    assert_int_equal(volume_sim_used(sim), 2 * BLOCK);
    volume->ops->close(file);
    volume->ops->done(volume);
    volume_sim_free(sim);
}

static void reads_fail_and_bits_flip_when_told(void **state)
{
    struct volume_sim *sim = volume_sim_new(5);
    struct volume *volume = start(sim);
    struct volume_file *file = create(volume, 1);
    uint8_t got[512];

    assert_int_equal(write_block(volume, file, 'a', 0), 0);
    assert_int_equal(volume->ops->sync(file), 0);
    volume_sim_arm(sim, VOLUME_SIM_READ_EIO, 1);
    assert_int_equal(volume->ops->read_at(file, got, 512, 0), 512);
    assert_int_equal(volume->ops->read_at(file, got, 512, 0), -EIO);
    assert_int_equal(volume->ops->read_at(file, got, 512, 0), 512);
    volume_sim_arm(sim, VOLUME_SIM_READ_SHORT, 0);
    assert_true(volume->ops->read_at(file, got, 512, 0) < 512);
    assert_int_equal(volume_sim_flip(sim, 1, 100, 0x40), 0);
    assert_int_equal(volume_sim_flip(sim, 1, BLOCK, 0x40), -ENOENT);
    assert_int_equal(volume_sim_flip(sim, 2, 0, 0x40), -ENOENT);
    assert_int_equal(volume->ops->read_direct(file, got, 512, 0), 512);
    assert_int_equal(got[99], 'a');
    assert_int_equal(got[100], 'a' ^ 0x40);
    assert_int_equal(volume_sim_peek(sim, 1, got, 1, 100), 1);
    assert_int_equal(got[0], 'a' ^ 0x40);
    volume->ops->close(file);
    volume->ops->done(volume);
    volume_sim_free(sim);
}

static void the_lock_holds(void **state)
{
    struct volume_sim *sim = volume_sim_new(6);
    struct volume *first = start(sim), *second = volume_sim_open(sim, false);
    struct shoal_error error;

    assert_int_equal(second->ops->lock(second, &error), SHOAL_E_BUSY);
    second->ops->done(second);
    first->ops->done(first);
    first = start(sim);
    first->ops->done(first);
    volume_sim_free(sim);
}

static void breaches_are_kept(void **state)
{
    for (int breach = 0; breach < 6; breach++) {
        struct volume_sim *sim = volume_sim_new(7);
        struct volume *volume = start(sim), *reader = volume_sim_open(sim, true);
        struct volume_file *file = create(volume, 1), *readers;
        uint8_t *bytes = blocks(2, 'x');

        assert_int_equal(reader->ops->open(reader, 1, &readers), 0);
        assert_int_equal(volume->ops->write_at(file, bytes, BLOCK, BLOCK), 0);
        assert_null(volume_sim_violation(sim));
        if (breach == 0)
            (void)volume->ops->write_at(file, bytes, BLOCK, BLOCK);
        else if (breach == 1)
            (void)volume->ops->write_at(file, bytes, BLOCK, 0);
        else if (breach == 2)
            (void)volume->ops->write_at(file, bytes, 512, 2 * BLOCK);
        else if (breach == 3)
            (void)volume->ops->write_at(file, bytes + 512, BLOCK, 2 * BLOCK);
        else if (breach == 4)
            (void)reader->ops->write_at(readers, bytes, BLOCK, 2 * BLOCK);
        else
            volume_sim_restart(sim, VOLUME_SIM_KILLED);
        assert_non_null(volume_sim_violation(sim));
        mem_free(file);
        mem_free(readers);
        free(volume);
        free(reader);
        mem_free(bytes);
        volume_sim_free(sim);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_synced_survives),
        cmocka_unit_test(what_was_not_synced_is_lost_kept_or_torn),
        cmocka_unit_test(names_need_a_dir_sync),
        cmocka_unit_test(an_append_to_the_manifest_may_tear),
        cmocka_unit_test(a_failed_sync_is_forgotten_by_the_kernel),
        cmocka_unit_test(a_failed_sync_may_have_written_everything),
        cmocka_unit_test(a_killed_process_loses_nothing_until_the_power_fails),
        cmocka_unit_test(lost_bytes_may_show_an_older_file),
        cmocka_unit_test(a_crash_stops_every_call),
        cmocka_unit_test(a_full_device_says_so),
        cmocka_unit_test(reads_fail_and_bits_flip_when_told),
        cmocka_unit_test(the_lock_holds),
        cmocka_unit_test(breaches_are_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
