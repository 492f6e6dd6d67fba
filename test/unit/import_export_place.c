/* The export's judgement of keys: which can be files, and which stand in each other's way. */
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

#include "import/export_priv.h"

static const char *refusal(const char *key)
{
    return export_refusal(key, strlen(key));
}

static void ordinary_keys_pass(void **state)
{
    char longest[256];
    memset(longest, 'x', 255);
    longest[255] = 0;
    assert_null(refusal("a"));
    assert_null(refusal("a/b/c.jpg"));
    assert_null(refusal("..."));
    assert_null(refusal("..a/b../.c"));
    assert_null(refusal("\xff\n\\"));
    assert_null(refusal(longest));
}

static void what_no_path_can_be_is_refused(void **state)
{
    static const char *const keys[] = {"", "/", "/a", "a/", "a//b", ".", "..", "./a", "../a", "a/.",
        "a/..", "a/../b", "a/./b", "//"};
    char long_name[300];
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        assert_non_null(refusal(keys[i]));
    memset(long_name, 'x', 256);
    long_name[256] = 0;
    assert_non_null(refusal(long_name));
    strcpy(long_name + 256, "/a");
    assert_non_null(refusal(long_name));
}

/* In byte order, as a scan gives them. */
static void keys_below_other_keys_are_noticed(void **state)
{
    static const struct {
        const char *key;
        bool blocked;
    } rows[] = {
        {"a", false},
        {"a!", false},
        {"a!/x", true},
        {"a-b", false},
        {"a/b", true},
        {"a/b/c", true},
        {"a0", false},
        {"ab", false},
        {"ab/c/d", true},
        {"b/c", false},
        {"b/c!", false},
        {"b/c/d", true},
        {"b/d", false},
        {"c/d/e", false},
        {"c/d/e/f", true},
        {"c/d/f", false},
    };
    struct export_ancestors *ancestors = calloc(1, sizeof *ancestors);
    assert_non_null(ancestors);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_int_equal(
            export_ancestors_pass(ancestors, rows[i].key, strlen(rows[i].key)), rows[i].blocked);
    free(ancestors);
}

/* Every key a prefix of the next: as many remembered as a key has bytes. */
static void the_longest_chain_of_prefixes_fits(void **state)
{
    struct export_ancestors *ancestors = calloc(1, sizeof *ancestors);
    char key[SHOAL_KEY_MAX];
    assert_non_null(ancestors);
    memset(key, 'k', sizeof key);
    for (size_t length = 1; length <= sizeof key; length++)
        assert_false(export_ancestors_pass(ancestors, key, length));
    assert_int_equal(ancestors->count, SHOAL_KEY_MAX);
    assert_false(export_ancestors_pass(ancestors, "l", 1));
    assert_int_equal(ancestors->count, 1);
    free(ancestors);
}

/* --- places --- */

struct folder {
    char path[64];
    int fd;
};

static int make_folder(void **state)
{
    struct folder *folder = calloc(1, sizeof *folder);
    strcpy(folder->path, "/tmp/shoal-place-XXXXXX");
    if (!mkdtemp(folder->path))
        return -1;
    folder->fd = open(folder->path, O_RDONLY | O_DIRECTORY);
    *state = folder;
    return folder->fd < 0;
}

static int remove_folder(void **state)
{
    struct folder *folder = *state;
    char command[128];
    close(folder->fd);
    snprintf(command, sizeof command, "rm -rf %s", folder->path);
    int rc = system(command);
    free(folder);
    return rc;
}

static int go(struct export_place *place, const char *key, const char **ret_name)
{
    return export_place_go(place, key, strlen(key), ret_name);
}

static void assert_leads_to(
    struct folder *folder, struct export_place *place, const char *key, const char *dir)
{
    struct stat found, wanted;
    const char *name;
    int fd = go(place, key, &name);
    assert_true(fd >= 0);
    assert_string_equal(name, strrchr(key, '/') ? strrchr(key, '/') + 1 : key);
    assert_int_equal(fstat(fd, &found), 0);
    assert_int_equal(fstatat(folder->fd, dir, &wanted, 0), 0);
    assert_int_equal(found.st_ino, wanted.st_ino);
}

static void places_are_reached_from_anywhere(void **state)
{
    struct folder *folder = *state;
    struct export_place *place = malloc(sizeof *place);
    export_place_init(place, folder->fd);
    assert_leads_to(folder, place, "f", ".");
    assert_leads_to(folder, place, "a/b/c/f", "a/b/c");
    assert_leads_to(folder, place, "a/b/c/g", "a/b/c");
    assert_leads_to(folder, place, "a/b/cc/g", "a/b/cc");
    assert_leads_to(folder, place, "a/b/f", "a/b");
    assert_leads_to(folder, place, "a/bc/f", "a/bc");
    assert_leads_to(folder, place, "f", ".");
    assert_leads_to(folder, place, "a/b/c/d/e/f", "a/b/c/d/e");
    export_place_done(place);
    free(place);
}

static void links_and_files_are_not_entered(void **state)
{
    struct folder *folder = *state;
    struct export_place *place = malloc(sizeof *place);
    const char *name;
    export_place_init(place, folder->fd);
    assert_int_equal(symlinkat("/tmp", folder->fd, "link"), 0);
    assert_int_equal(mkdirat(folder->fd, "dir", 0700), 0);
    assert_int_equal(symlinkat(".", folder->fd, "dir/here"), 0);
    close(openat(folder->fd, "file", O_CREAT | O_WRONLY, 0600));
    assert_int_equal(go(place, "link/x", &name), -ELOOP);
    assert_int_equal(go(place, "dir/here/x", &name), -ELOOP);
    assert_int_equal(go(place, "file/x", &name), -ENOTDIR);
    assert_int_equal(go(place, "dir/deep/file", &name) >= 0, 1);
    /* A failure on the way leaves the place usable. */
    assert_leads_to(folder, place, "dir/deep/other", "dir/deep");
    export_place_done(place);
    free(place);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ordinary_keys_pass),
        cmocka_unit_test(what_no_path_can_be_is_refused),
        cmocka_unit_test(keys_below_other_keys_are_noticed),
        cmocka_unit_test(the_longest_chain_of_prefixes_fits),
        cmocka_unit_test_setup_teardown(
            places_are_reached_from_anywhere, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(
            links_and_files_are_not_entered, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
