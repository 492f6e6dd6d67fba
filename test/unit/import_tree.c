/* The tree walk: every entry once, whatever the number of threads; order, limits, stopping, and
   failing allocations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "import/tree.h"

#define FOLDERS 20
#define FILES   700 /* a folder: more than a buffer of names holds */
#define LOOSE   10

/* What the workers saw; each file's own number is its name. */
struct seen {
    pthread_mutex_t lock;
    unsigned files[FOLDERS * FILES + LOOSE];
    unsigned others, left_out;
    int last_code;
    size_t longest;
    unsigned stop_after;
    atomic_bool stop;
};

struct folder {
    char path[64];
    int fd;
    struct seen seen;
};

static void file(void *worker, const struct tree_entry *entry)
{
    struct seen *seen = worker;
    struct stat st;
    assert_int_equal(fstatat(entry->dir_fd, entry->name, &st, AT_SYMLINK_NOFOLLOW), 0);
    assert_int_equal(IFTODT(st.st_mode), entry->type);
    size_t name_length = strlen(entry->name);
    assert_true(entry->path_length >= name_length);
    assert_memory_equal(entry->path + entry->path_length - name_length, entry->name, name_length);
    pthread_mutex_lock(&seen->lock);
    if (entry->type == DT_REG && entry->name[0] >= '0' && entry->name[0] <= '9')
        seen->files[strtoul(entry->name, NULL, 10)]++;
    else
        seen->others++;
    if (entry->path_length > seen->longest)
        seen->longest = entry->path_length;
    if (seen->stop_after && --seen->stop_after == 0)
        atomic_store(&seen->stop, true);
    pthread_mutex_unlock(&seen->lock);
}

static void left_out(void *worker, const char *path, size_t path_length, int code)
{
    struct seen *seen = worker;
    pthread_mutex_lock(&seen->lock);
    seen->left_out++;
    seen->last_code = code;
    pthread_mutex_unlock(&seen->lock);
}

static int walk(struct folder *folder, unsigned workers, const char *prefix, ino_t excluded)
{
    void *args[TREE_WORKERS_MAX];
    struct stat st;
    assert_int_equal(fstat(folder->fd, &st), 0);
    memset(&folder->seen, 0, sizeof folder->seen);
    pthread_mutex_init(&folder->seen.lock, NULL);
    for (unsigned i = 0; i < workers; i++)
        args[i] = &folder->seen;
    return tree_walk(&(struct tree_walk){
        .root_fd = folder->fd,
        .prefix = prefix,
        .prefix_length = strlen(prefix),
        .excluded_dev = st.st_dev,
        .excluded_ino = excluded,
        .worker_count = workers,
        .workers = args,
        .visitor = {file, left_out},
        .stop = &folder->seen.stop,
    });
}

static void make(int dir_fd, unsigned number)
{
    char name[16];
    snprintf(name, sizeof name, "%05u", number);
    int fd = openat(dir_fd, name, O_CREAT | O_WRONLY | O_EXCL, 0600);
    assert_true(fd >= 0);
    close(fd);
}

static int make_folder(void **state)
{
    struct folder *folder = calloc(1, sizeof *folder);
    /* In memory where that exists: it is many files. */
    strcpy(folder->path,
        access("/dev/shm", W_OK) == 0 ? "/dev/shm/shoal-tree-XXXXXX" : "/tmp/shoal-tree-XXXXXX");
    if (!mkdtemp(folder->path))
        return -1;
    folder->fd = open(folder->path, O_RDONLY | O_DIRECTORY);
    *state = folder;
    return folder->fd < 0;
}

static int fill_folder(void **state)
{
    unsigned number = 0;
    if (make_folder(state))
        return -1;
    struct folder *folder = *state;
    for (unsigned i = 0; i < FOLDERS; i++) {
        char name[16];
        snprintf(name, sizeof name, "dir%u", i);
        mkdirat(folder->fd, name, 0700);
        int fd = openat(folder->fd, name, O_RDONLY | O_DIRECTORY);
        for (unsigned j = 0; j < FILES; j++)
            make(fd, number++);
        close(fd);
    }
    for (unsigned i = 0; i < LOOSE; i++)
        make(folder->fd, number++);
    return symlinkat("dir0", folder->fd, "link") || mkfifoat(folder->fd, "pipe", 0600);
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

static void assert_all_once(const struct folder *folder)
{
    for (unsigned i = 0; i < FOLDERS * FILES + LOOSE; i++)
        assert_int_equal(folder->seen.files[i], 1);
    assert_int_equal(folder->seen.others, 2);
    assert_int_equal(folder->seen.left_out, 0);
}

static void every_entry_is_visited_once(void **state)
{
    struct folder *folder = *state;
    for (unsigned workers = 1; workers <= TREE_WORKERS_MAX; workers *= 2) {
        assert_int_equal(walk(folder, workers, "", 0), 0);
        assert_all_once(folder);
        assert_int_equal(folder->seen.longest, strlen("dir19/00000"));
    }
    assert_int_equal(walk(folder, 3, "some/prefix/", 0), 0);
    assert_all_once(folder);
    assert_int_equal(folder->seen.longest, strlen("some/prefix/dir19/00000"));
}

static void the_excluded_directory_is_not_entered(void **state)
{
    struct folder *folder = *state;
    struct stat st;
    assert_int_equal(fstatat(folder->fd, "dir3", &st, 0), 0);
    assert_int_equal(walk(folder, 2, "", st.st_ino), 0);
    assert_int_equal(folder->seen.left_out, 1);
    assert_int_equal(folder->seen.last_code, TREE_EXCLUDED);
    for (unsigned i = 0; i < FOLDERS * FILES + LOOSE; i++)
        assert_int_equal(folder->seen.files[i], i / FILES != 3);
}

static void a_walk_can_be_stopped(void **state)
{
    struct folder *folder = *state;
    void *args[2] = {&folder->seen, &folder->seen};
    unsigned visited = 0;
    memset(&folder->seen, 0, sizeof folder->seen);
    pthread_mutex_init(&folder->seen.lock, NULL);
    folder->seen.stop_after = 100;
    assert_int_equal(tree_walk(&(struct tree_walk){.root_fd = folder->fd,
                         .prefix = "",
                         .worker_count = 2,
                         .workers = args,
                         .visitor = {file, left_out},
                         .stop = &folder->seen.stop}),
        0);
    for (unsigned i = 0; i < FOLDERS * FILES + LOOSE; i++)
        visited += folder->seen.files[i];
    assert_in_range(visited + folder->seen.others, 100, 102);
}

static void a_long_prefix_leaves_no_room(void **state)
{
    struct folder *folder = *state;
    char prefix[TREE_PATH_MAX + 2];
    memset(prefix, 'p', sizeof prefix);
    prefix[TREE_PATH_MAX - 5] = 0; /* the loose files' names just fit, directories can't */
    assert_int_equal(walk(folder, 2, prefix, 0), 0);
    assert_int_equal(folder->seen.longest, TREE_PATH_MAX);
    assert_int_equal(folder->seen.left_out, FOLDERS);
    assert_int_equal(folder->seen.last_code, TREE_TOO_LONG);
    prefix[TREE_PATH_MAX - 5] = 'p';
    prefix[TREE_PATH_MAX - 4] = 0;
    assert_int_equal(walk(folder, 1, prefix, 0), 0);
    assert_int_equal(folder->seen.left_out, FOLDERS + LOOSE);
    prefix[TREE_PATH_MAX - 4] = 'p';
    prefix[TREE_PATH_MAX + 1] = 0;
    assert_int_equal(walk(folder, 1, prefix, 0), -EINVAL);
}

/* 500 levels of one-letter names: as deep as a key can lead. */
static void a_deep_tree_is_walked_to_its_end(void **state)
{
    struct folder *folder = *state;
    int fd = dup(folder->fd);
    for (unsigned i = 0; i < 500; i++) {
        assert_int_equal(mkdirat(fd, "d", 0700), 0);
        int deeper = openat(fd, "d", O_RDONLY | O_DIRECTORY);
        close(fd);
        fd = deeper;
        make(fd, i);
    }
    close(fd);
    assert_int_equal(walk(folder, 2, "", 0), 0);
    for (unsigned i = 0; i < 500; i++)
        assert_int_equal(folder->seen.files[i], 1);
    assert_int_equal(folder->seen.left_out, 0);
}

static void out_of_memory_ends_the_walk(void **state)
{
    struct folder *folder = *state;
    int rc = -ENOMEM;
    for (long n = 0; rc == -ENOMEM; n++) {
        mem_fail_after(n);
        rc = walk(folder, 2, "", 0);
        mem_fail_after(-1);
        assert_in_range(n, 0, 1000);
    }
    assert_int_equal(rc, 0);
    assert_all_once(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_entry_is_visited_once),
        cmocka_unit_test(the_excluded_directory_is_not_entered),
        cmocka_unit_test(a_walk_can_be_stopped),
        cmocka_unit_test(a_long_prefix_leaves_no_room),
        cmocka_unit_test_setup_teardown(
            a_deep_tree_is_walked_to_its_end, make_folder, remove_folder),
        cmocka_unit_test(out_of_memory_ends_the_walk),
    };
    return cmocka_run_group_tests(tests, fill_folder, remove_folder);
}
