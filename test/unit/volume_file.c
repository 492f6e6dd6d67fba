/* volume_file: which directories become stores, the lock and its message, segments and manifest on a
   real file system (the build folder's, and tmpfs where there is one), with and without direct I/O. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <shoal/error.h>

#include "base/mem.h"
#include "store/volume_file_priv.h"

struct place_for_test {
    char root[256], dir[300];
};

static char *below(const struct place_for_test *place, const char *name)
{
    static char path[512];

    (void)snprintf(path, sizeof(path), "%s/%s", place->dir, name);
    return path;
}

static int setup_in(void **state, const char *folder)
{
    struct place_for_test *place = calloc(1, sizeof(*place));

    if (place == NULL)
        return -1;
    (void)snprintf(place->root, sizeof(place->root), "%s/shoal-unit-XXXXXX", folder);
    if (mkdtemp(place->root) == NULL)
        return -1;
    (void)snprintf(place->dir, sizeof(place->dir), "%s/data", place->root);
    *state = place;
    return 0;
}

static int setup(void **state)
{
    return setup_in(state, ".");
}

static int setup_tmpfs(void **state)
{
    return setup_in(state, access("/dev/shm", W_OK) == 0 ? "/dev/shm" : ".");
}

static int teardown(void **state)
{
    struct place_for_test *place = *state;
    char command[320];
    int rc;

    (void)snprintf(command, sizeof(command), "rm -rf '%s'", place->root);
    rc = system(command);
    free(place);
    return rc;
}

static struct volume *must_open(const struct place_for_test *place, bool create, bool read_only)
{
    struct shoal_error error = {0};
    struct volume *volume = NULL;
    int rc = volume_file_open(place->dir, create, read_only, &volume, &error);

    if (rc != 0)
        fail_msg("open: %d %s", rc, error.text);
    return volume;
}

static struct volume *must_lock(const struct place_for_test *place, bool create, bool read_only)
{
    struct volume *volume = must_open(place, create, read_only);
    struct shoal_error error = {0};
    int rc = volume->ops->lock(volume, &error);

    if (rc != 0)
        fail_msg("lock: %d %s", rc, error.text);
    return volume;
}

static void lock_and_leave(const struct place_for_test *place, bool create)
{
    struct volume *volume = must_lock(place, create, false);

    volume->ops->done(volume);
}

static void refuses(const struct place_for_test *place, bool create, int code, const char *words)
{
    struct shoal_error error = {0};
    struct volume *volume = NULL;

    assert_int_equal(volume_file_open(place->dir, create, false, &volume, &error), code);
    assert_null(volume);
    assert_int_equal(error.code, code);
    if (strstr(error.text, words) == NULL || strstr(error.text, place->dir) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", error.text, words);
}

static void write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void make_store(const struct place_for_test *place)
{
    struct volume *volume = must_lock(place, true, false);

    assert_int_equal(volume->ops->manifest_append(volume, 0, "manifest", 8), 0);
    volume->ops->done(volume);
}

/* --- directories --- */

static void a_store_is_made_where_nothing_is(void **state)
{
    const struct place_for_test *place = *state;
    struct stat status;

    refuses(place, false, SHOAL_E_NO_STORE, "there is no directory");
    assert_int_equal(stat(place->dir, &status), -1);
    make_store(place);
    assert_int_equal(stat(place->dir, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0700);
    assert_int_equal(stat(below(place, "seg"), &status), 0);
    assert_int_equal(stat(below(place, "MANIFEST"), &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
    lock_and_leave(place, false);
}

static void an_empty_directory_becomes_one_only_when_asked(void **state)
{
    const struct place_for_test *place = *state;

    assert_int_equal(mkdir(place->dir, 0700), 0);
    refuses(place, false, SHOAL_E_NO_STORE, "holds no store");
    assert_int_equal(rmdir(place->dir), 0); /* still empty */
    assert_int_equal(mkdir(place->dir, 0700), 0);
    assert_int_equal(mkdir(below(place, "lost+found"), 0700), 0);
    make_store(place);
}

static void a_creation_cut_short_goes_on(void **state)
{
    const struct place_for_test *place = *state;

    lock_and_leave(place, true);
    write_text(below(place, "MANIFEST"), "");
    refuses(place, false, SHOAL_E_NO_STORE, "holds no store");
    make_store(place);
    lock_and_leave(place, false);
}

static void other_things_are_left_alone(void **state)
{
    const struct place_for_test *place = *state;

    write_text(place->dir, "a file");
    refuses(place, true, SHOAL_E_NO_STORE, "is not a directory");
    refuses(place, false, SHOAL_E_NO_STORE, "is not a directory");
    assert_int_equal(unlink(place->dir), 0);

    assert_int_equal(mkdir(place->dir, 0700), 0);
    write_text(below(place, "thesis.tex"), "x");
    refuses(place, true, SHOAL_E_NO_STORE, "thesis.tex");
    assert_int_equal(access(below(place, "seg"), F_OK), -1);
    assert_int_equal(unlink(below(place, "thesis.tex")), 0);

    assert_int_equal(mkdir(below(place, "seg"), 0700), 0);
    write_text(below(place, "seg/0000000000000001"), "x");
    refuses(place, true, SHOAL_E_NO_STORE, "MANIFEST is gone");
}

static void a_missing_parent_is_named(void **state)
{
    struct place_for_test place = *(struct place_for_test *)*state;

    (void)strcat(place.dir, "/x/y");
    refuses(&place, true, -ENOENT, "make the folder above it first");
}

/* --- the lock --- */

static pid_t hold_in_child(const struct place_for_test *place, bool read_only)
{
    int ends[2];
    char byte;
    pid_t pid;

    assert_int_equal(pipe(ends), 0);
    pid = fork();
    if (pid == 0) {
        struct shoal_error error;
        struct volume *volume;

        if (volume_file_open(place->dir, 0, read_only, &volume, &error) != 0 ||
            volume->ops->lock(volume, &error) != 0 || write(ends[1], "x", 1) != 1)
            _exit(1);
        for (;;)
            (void)pause();
    }
    assert_true(pid > 0);
    assert_int_equal(read(ends[0], &byte, 1), 1);
    assert_int_equal(close(ends[0]), 0);
    assert_int_equal(close(ends[1]), 0);
    return pid;
}

static void busy_while(const struct place_for_test *place, pid_t pid)
{
    struct volume *volume = must_open(place, false, false);
    struct shoal_error error = {0};
    char words[64];

    (void)snprintf(words, sizeof(words), "in use by process %ld:", (long)pid);
    assert_int_equal(volume->ops->lock(volume, &error), SHOAL_E_BUSY);
    if (strstr(error.text, words) == NULL || strstr(error.text, place->dir) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", error.text, words);
    volume->ops->done(volume);
}

static void a_second_opener_learns_who_holds_it(void **state)
{
    const struct place_for_test *place = *state;
    pid_t pid;

    make_store(place);
    pid = hold_in_child(place, false);
    busy_while(place, pid);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    lock_and_leave(place, false);

    /* A reader writes no pid into the file; the kernel knows it all the same. */
    pid = hold_in_child(place, true);
    if (access("/proc/locks", R_OK) == 0)
        busy_while(place, pid);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void the_holder_writes_its_pid(void **state)
{
    const struct place_for_test *place = *state;
    struct volume *volume = must_lock(place, true, false);
    char text[32] = {0};
    FILE *file = fopen(below(place, "LOCK"), "r");

    assert_non_null(file);
    assert_non_null(fgets(text, sizeof(text), file));
    assert_int_equal(fclose(file), 0);
    assert_int_equal(atol(text), getpid());
    volume->ops->done(volume);
}

/* --- segments --- */

static uint8_t *pattern(const struct volume *volume, size_t blocks)
{
    uint8_t *bytes = mem_aligned(volume->block_bytes, blocks * volume->block_bytes);

    assert_non_null(bytes);
    for (size_t i = 0; i < blocks * volume->block_bytes; i++)
        bytes[i] = (uint8_t)(i * 2654435761u >> 11);
    return bytes;
}

static void read_everywhere(
    struct volume *volume, struct volume_file *file, const uint8_t *right, size_t size)
{
    uint8_t *got = malloc(size + 100);

    assert_non_null(got);
    for (size_t offset = 0; offset <= size + 4096; offset += 1111) {
        static const size_t lengths[] = {0, 1, 511, 4096, 5000, 1u << 20};

        for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
            size_t length = lengths[i] < size + 100 ? lengths[i] : size + 100;
            size_t there = offset < size ? size - offset : 0;
            int64_t count = (int64_t)(length < there ? length : there);

            assert_int_equal(volume->ops->read_at(file, got, length, offset), count);
            assert_memory_equal(got, right + offset, (size_t)count);
            memset(got, 0, length);
            assert_int_equal(volume->ops->read_direct(file, got, length, offset), count);
            assert_memory_equal(got, right + offset, (size_t)count);
        }
    }
    free(got);
}

static void write_and_read(struct volume *volume)
{
    size_t block = volume->block_bytes, size = 0;
    uint8_t *bytes = pattern(volume, 7);
    struct volume_file *file, *again;
    uint64_t reported;

    assert_int_equal(volume->ops->create(volume, 0xab1, &file), 0);
    assert_int_equal(volume->ops->size(file, &reported), 0);
    assert_int_equal(reported, 0);
    for (size_t blocks = 1; size < 7 * block; blocks *= 2) {
        assert_int_equal(volume->ops->write_at(file, bytes + size, blocks * block, size), 0);
        size += blocks * block;
        read_everywhere(volume, file, bytes, size);
    }
    assert_int_equal(volume->ops->sync(file), 0);
    assert_int_equal(volume->ops->dir_sync(volume), 0);
    assert_int_equal(volume->ops->open(volume, 0xab1, &again), 0);
    assert_int_equal(volume->ops->size(again, &reported), 0);
    assert_int_equal(reported, size);
    read_everywhere(volume, again, bytes, size);
    assert_true(volume_file_fd(again) >= 0);
    volume->ops->close(again);
    volume->ops->close(file);
    volume->ops->close(NULL);
    mem_free(bytes);
}

static void what_is_written_is_read(void **state)
{
    struct volume *volume = must_lock(*state, true, false);

    assert_true(volume->block_bytes >= 4096);
    assert_int_equal(volume->block_bytes & (volume->block_bytes - 1), 0);
    write_and_read(volume);
    volume->ops->done(volume);
}

static void also_without_direct_io(void **state)
{
    struct volume *volume = must_lock(*state, true, false);

    ((struct file_volume *)volume)->direct = false;
    write_and_read(volume);
    volume->ops->done(volume);
}

static void the_end_of_an_odd_file_is_read_directly(void **state)
{
    const struct place_for_test *place = *state;
    struct volume *volume = must_lock(place, true, false);
    struct volume_file *file;
    char got[8192];

    write_text(below(place, "seg/0000000000000005"), "odd");
    assert_int_equal(volume->ops->open(volume, 5, &file), 0);
    assert_int_equal(volume->ops->read_direct(file, got, sizeof(got), 0), 3);
    assert_memory_equal(got, "odd", 3);
    assert_int_equal(volume->ops->read_direct(file, got, 10, 1), 2);
    assert_int_equal(volume->ops->read_direct(file, got, 10, 3), 0);
    assert_int_equal(volume->ops->read_direct(file, got, 10, 1 << 20), 0);
    volume->ops->close(file);
    volume->ops->done(volume);
}

struct seen {
    uint64_t ids[10];
    size_t count, stop_at;
};

static int note(void *arg, uint64_t id)
{
    struct seen *seen = arg;

    seen->ids[seen->count++] = id;
    return seen->count == seen->stop_at ? -ECANCELED : 0;
}

static void names_come_and_go(void **state)
{
    const struct place_for_test *place = *state;
    struct volume *volume = must_lock(place, true, false);
    struct seen seen = {0};
    struct volume_file *file;

    assert_int_equal(volume->ops->open(volume, 1, &file), -ENOENT);
    assert_int_equal(volume->ops->create(volume, 1, &file), 0);
    volume->ops->close(file);
    assert_int_equal(volume->ops->create(volume, 1, &file), -EEXIST);
    assert_int_equal(volume->ops->create(volume, UINT64_MAX, &file), 0);
    volume->ops->close(file);
    assert_int_equal(access(below(place, "seg/ffffffffffffffff"), F_OK), 0);
    write_text(below(place, "seg/0000000000000002.tmp"), "x");
    write_text(below(place, "seg/000000000000000G"), "x");
    write_text(below(place, "seg/ABCDEFABCDEFABCD"), "x");
    write_text(below(place, "seg/1"), "x");
    assert_int_equal(volume->ops->list(volume, note, &seen), 0);
    assert_int_equal(seen.count, 2);
    assert_true(seen.ids[0] + seen.ids[1] == 0); /* 1 and 2^64 - 1, in either order */
    seen = (struct seen){.stop_at = 1};
    assert_int_equal(volume->ops->list(volume, note, &seen), -ECANCELED);
    assert_int_equal(seen.count, 1);
    assert_int_equal(volume->ops->remove(volume, 1), 0);
    assert_int_equal(volume->ops->remove(volume, 1), -ENOENT);
    volume->ops->done(volume);
}

static uint64_t blocks_of(const char *path)
{
    struct stat status;

    assert_int_equal(stat(path, &status), 0);
    return (uint64_t)status.st_blocks * 512;
}

static void reserved_room_is_given_back(void **state)
{
    const struct place_for_test *place = *state;
    struct volume *volume = must_lock(place, true, false);
    size_t block = volume->block_bytes;
    uint8_t *bytes = pattern(volume, 1);
    uint64_t before, size, usage;
    struct volume_file *file;

    assert_int_equal(volume->ops->create(volume, 3, &file), 0);
    assert_int_equal(volume->ops->usage(volume, &before), 0);
    assert_int_equal(volume->ops->reserve(file, 8 << 20), 0);
    assert_int_equal(volume->ops->size(file, &size), 0);
    assert_int_equal(size, 0);
    if (blocks_of(below(place, "seg/0000000000000003")) > 0) {
        assert_true(blocks_of(below(place, "seg/0000000000000003")) >= 8 << 20);
        assert_int_equal(volume->ops->usage(volume, &usage), 0);
        assert_in_range(usage - before, 8 << 20, 9 << 20);
    }
    assert_int_equal(volume->ops->write_at(file, bytes, block, 0), 0);
    assert_int_equal(volume->ops->trim(file, block), 0);
    assert_in_range(blocks_of(below(place, "seg/0000000000000003")), block, 1 << 20);
    assert_int_equal(volume->ops->size(file, &size), 0);
    assert_int_equal(size, block);
    /* It never makes a file longer. */
    assert_int_equal(volume->ops->trim(file, 5 * block), 0);
    assert_int_equal(volume->ops->size(file, &size), 0);
    assert_int_equal(size, block);
    volume->ops->close(file);
    volume->ops->done(volume);
    mem_free(bytes);
}

static void a_refused_write_is_reported(void **state)
{
    struct volume *volume = must_lock(*state, true, false);
    struct rlimit old, limit;
    size_t block = volume->block_bytes;
    uint8_t *bytes = pattern(volume, 4);
    struct volume_file *file;

    assert_int_equal(volume->ops->create(volume, 4, &file), 0);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    limit = old;
    limit.rlim_cur = 2 * block;
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_true(volume->ops->write_at(file, bytes, 4 * block, 0) < 0);
    assert_true(volume->ops->manifest_append(volume, 0, bytes, 4 * block) < 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    volume->ops->close(file);
    volume->ops->done(volume);
    mem_free(bytes);
}

/* --- the manifest --- */

static void manifest_is(struct volume *volume, const char *text)
{
    uint8_t *bytes = NULL;
    size_t length = 99;

    assert_int_equal(volume->ops->manifest_read(volume, &bytes, &length), 0);
    assert_int_equal(length, strlen(text));
    assert_memory_equal(bytes, text, length);
    mem_free(bytes);
}

static void the_manifest_grows_from_the_known_version(void **state)
{
    const struct place_for_test *place = *state;
    struct volume *volume = must_lock(place, true, false);

    manifest_is(volume, "");
    assert_int_equal(volume->ops->manifest_append(volume, 5, "x", 1), SHOAL_E_CONFLICT);
    assert_int_equal(access(below(place, "MANIFEST"), F_OK), -1);
    assert_int_equal(volume->ops->manifest_append(volume, 0, "one", 3), 0);
    assert_int_equal(volume->ops->manifest_append(volume, 3, "two", 3), 0);
    manifest_is(volume, "onetwo");
    assert_int_equal(volume->ops->manifest_append(volume, 7, "x", 1), SHOAL_E_CONFLICT);
    manifest_is(volume, "onetwo");
    /* What a crash left behind the version goes. */
    assert_int_equal(volume->ops->manifest_append(volume, 3, "2", 1), 0);
    manifest_is(volume, "one2");
    assert_int_equal(volume->ops->manifest_append(volume, UINT32_MAX, "x", 1), SHOAL_E_TOO_LARGE);
    volume->ops->done(volume);
}

static void a_manifest_of_another_kind_is_refused(void **state)
{
    const struct place_for_test *place = *state;
    struct volume *volume = must_lock(place, true, false);
    uint8_t *bytes;
    size_t length;

    assert_int_equal(mkdir(below(place, "MANIFEST"), 0700), 0);
    assert_int_equal(volume->ops->manifest_read(volume, &bytes, &length), SHOAL_E_FORMAT);
    assert_true(volume->ops->manifest_append(volume, 0, "x", 1) < 0);
    assert_int_equal(rmdir(below(place, "MANIFEST")), 0);
    write_text(below(place, "MANIFEST"), "x");
    assert_int_equal(truncate(below(place, "MANIFEST"), (off_t)MANIFEST_BYTES_MAX + 1), 0);
    assert_int_equal(volume->ops->manifest_read(volume, &bytes, &length), SHOAL_E_TOO_LARGE);
    volume->ops->done(volume);
}

/* --- read-only --- */

static void read_only_changes_nothing(void **state)
{
    const struct place_for_test *place = *state;
    struct volume *volume = must_lock(place, true, false);
    uint8_t *bytes = pattern(volume, 1);
    size_t block = volume->block_bytes;
    struct volume_file *file;
    char got[16];

    assert_int_equal(volume->ops->manifest_append(volume, 0, "m", 1), 0);
    assert_int_equal(volume->ops->create(volume, 9, &file), 0);
    assert_int_equal(volume->ops->write_at(file, bytes, block, 0), 0);
    volume->ops->close(file);
    volume->ops->done(volume);

    assert_int_equal(unlink(below(place, "LOCK")), 0);
    volume = must_lock(place, true, true);
    assert_int_equal(access(below(place, "LOCK"), F_OK), -1);
    manifest_is(volume, "m");
    assert_int_equal(volume->ops->create(volume, 10, &file), SHOAL_E_READ_ONLY);
    assert_int_equal(volume->ops->remove(volume, 9), SHOAL_E_READ_ONLY);
    assert_int_equal(volume->ops->manifest_append(volume, 1, "x", 1), SHOAL_E_READ_ONLY);
    assert_int_equal(volume->ops->dir_sync(volume), SHOAL_E_READ_ONLY);
    assert_int_equal(volume->ops->open(volume, 9, &file), 0);
    assert_int_equal(volume->ops->write_at(file, bytes, block, block), SHOAL_E_READ_ONLY);
    assert_int_equal(volume->ops->reserve(file, 1 << 20), SHOAL_E_READ_ONLY);
    assert_int_equal(volume->ops->trim(file, 0), SHOAL_E_READ_ONLY);
    assert_int_equal(volume->ops->sync(file), SHOAL_E_READ_ONLY);
    assert_int_equal(volume->ops->read_at(file, got, 16, 1), 16);
    assert_memory_equal(got, bytes + 1, 16);
    assert_int_equal(volume->ops->read_direct(file, got, 16, 2), 16);
    assert_memory_equal(got, bytes + 2, 16);
    volume->ops->close(file);
    volume->ops->done(volume);
    mem_free(bytes);
}

static void read_only_makes_nothing(void **state)
{
    const struct place_for_test *place = *state;
    struct volume *volume = NULL;
    struct shoal_error error;

    assert_int_equal(volume_file_open(place->dir, 1, 1, &volume, &error), SHOAL_E_NO_STORE);
    assert_int_equal(access(place->dir, F_OK), -1);
}

/* --- memory --- */

static int use_all(const struct place_for_test *place)
{
    struct volume *volume = NULL;
    struct volume_file *file = NULL;
    uint8_t *bytes = NULL;
    char got[10];
    size_t length;
    int64_t rc = volume_file_open(place->dir, 1, 0, &volume, NULL);

    if (rc < 0)
        return (int)rc;
    rc = volume->ops->manifest_read(volume, &bytes, &length);
    if (rc == 0)
        rc = volume->ops->open(volume, 1, &file);
    if (rc == 0)
        rc = volume->ops->read_direct(file, got, 10, 5);
    mem_free(bytes);
    volume->ops->close(file);
    volume->ops->done(volume);
    return rc < 0 ? (int)rc : 0;
}

static void each_allocation_may_fail(void **state)
{
    const struct place_for_test *place = *state;
    long failed = 0;
    int rc;

    make_store(place);
    write_text(below(place, "seg/0000000000000001"), "0123456789abcdefgh");
    do {
        mem_fail_after(failed++);
        rc = use_all(place);
        assert_true(rc == 0 || rc == -ENOMEM);
    } while (rc != 0);
    mem_fail_after(-1);
    assert_true(failed > 4);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_store_is_made_where_nothing_is),
        TEST(an_empty_directory_becomes_one_only_when_asked),
        TEST(a_creation_cut_short_goes_on),
        TEST(other_things_are_left_alone),
        TEST(a_missing_parent_is_named),
        TEST(a_second_opener_learns_who_holds_it),
        TEST(the_holder_writes_its_pid),
        TEST(what_is_written_is_read),
        cmocka_unit_test_setup_teardown(what_is_written_is_read, setup_tmpfs, teardown),
        TEST(also_without_direct_io),
        TEST(the_end_of_an_odd_file_is_read_directly),
        TEST(names_come_and_go),
        TEST(reserved_room_is_given_back),
        TEST(a_refused_write_is_reported),
        TEST(the_manifest_grows_from_the_known_version),
        TEST(a_manifest_of_another_kind_is_refused),
        TEST(read_only_changes_nothing),
        TEST(read_only_makes_nothing),
        TEST(each_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
