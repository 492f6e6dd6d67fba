/* Creates many small files in a tree of folders, as fast as the file system takes them: the peer of
   `shoal bench put`, with the same names and contents.

       peer_create DIR FILES BYTES [--threads N] [--sync]

   DIR must exist and be empty. Each number below FILES gives a name xx/xx/xx/xx.jpg, the hex
   digits of the number times an odd constant, so that all differ and come in no order. Folders
   are made when the first file in them needs them and remembered in a bitmap; files are created
   relative to the open folder of the first level with one openat, one write and one close. Threads
   (as many as processors, if not told) take equal shares of the numbers. --sync: syncfs in the end.

   For a fair figure the file system must not have lost many files in the last five minutes: ext4
   passes over the inodes of files deleted that recently one by one, which makes creating several
   times slower. So keep earlier trees until all rounds are done.

   Prints one line of JSON: seconds and seconds_created until the last file is closed, with --sync
   also seconds_synced until syncfs has returned (the creating included). Exit status 1 and a line
   on standard error when a call fails. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define THREADS_MAX 64
#define BYTES_MAX   (64u << 20)
#define STAMP_EVERY 256
#define LEVEL_1     256u
#define LEVEL_2     (256u * 256)
#define LEVEL_3     (256u * 256 * 256)

struct tree {
    int fd;
    atomic_int level_1[LEVEL_1]; /* open folders, plus 1; 0: not made yet */
    atomic_uchar level_2[LEVEL_2 / 8]; /* a bit for each folder made */
    atomic_uchar level_3[LEVEL_3 / 8];
    size_t bytes;
    atomic_bool failed;
};

struct share {
    struct tree *tree;
    uint64_t from, to;
    pthread_t thread;
};

static void put_hex(char *at, uint32_t byte)
{
    static const char digits[] = "0123456789abcdef";
    at[0] = digits[byte >> 4 & 15];
    at[1] = digits[byte & 15];
}

static int fail(struct tree *tree, const char *what, const char *path)
{
    if (!atomic_exchange(&tree->failed, true))
        fprintf(stderr, "peer_create: %s %s: %s\n", what, path, strerror(errno));
    return -1;
}

/* Another thread may make the same folder at the same time: then there are two mkdirs, and one of
   them finds it there. */
static int folder_make(struct tree *tree, int fd, const char *path)
{
    return mkdirat(fd, path, 0777) < 0 && errno != EEXIST ? fail(tree, "mkdir", path) : 0;
}

static int folder_once(
    struct tree *tree, atomic_uchar *made, uint32_t number, int fd, const char *path)
{
    unsigned char bit = (unsigned char)(1u << number % 8);
    if (atomic_load_explicit(&made[number / 8], memory_order_acquire) & bit)
        return 0;
    if (folder_make(tree, fd, path) < 0)
        return -1;
    atomic_fetch_or(&made[number / 8], bit);
    return 0;
}

/* The descriptor of a folder of the first level. */
static int level_1_open(struct tree *tree, uint32_t number)
{
    int known = atomic_load_explicit(&tree->level_1[number], memory_order_acquire);
    if (known)
        return known - 1;
    char name[3] = {0};
    put_hex(name, number);
    if (folder_make(tree, tree->fd, name) < 0)
        return -1;
    int fd = openat(tree->fd, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return fail(tree, "open", name);
    int none = 0;
    if (atomic_compare_exchange_strong(&tree->level_1[number], &none, fd + 1))
        return fd;
    close(fd); /* another thread was first */
    return none - 1;
}

static int file_create(struct tree *tree, uint32_t mixed, const uint8_t *data)
{
    char name[] = "xx/xx/xx.jpg";
    int parent = level_1_open(tree, mixed >> 24);
    if (parent < 0)
        return -1;
    put_hex(name, mixed >> 16 & 255);
    name[2] = 0;
    if (folder_once(tree, tree->level_2, mixed >> 16, parent, name) < 0)
        return -1;
    name[2] = '/';
    put_hex(name + 3, mixed >> 8 & 255);
    name[5] = 0;
    if (folder_once(tree, tree->level_3, mixed >> 8, parent, name) < 0)
        return -1;
    name[5] = '/';
    put_hex(name + 6, mixed & 255);
    int fd = openat(parent, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return fail(tree, "create", name);
    ssize_t written = write(fd, data, tree->bytes);
    if (close(fd) < 0 || written != (ssize_t)tree->bytes)
        return fail(tree, "write", name);
    return 0;
}

static void stamp(uint8_t *data, size_t bytes, uint64_t number)
{
    for (size_t at = 0; at + sizeof(number) <= bytes; at += STAMP_EVERY)
        memcpy(data + at, &number, sizeof(number));
}

static void *create_share(void *arg)
{
    struct share *share = arg;
    struct tree *tree = share->tree;
    uint8_t *data = malloc(tree->bytes + 1);
    if (!data) {
        errno = ENOMEM;
        fail(tree, "allocate", "a file's bytes");
        return NULL;
    }
    uint32_t state = 1;
    for (size_t i = 0; i < tree->bytes; i++)
        data[i] = (uint8_t)((state = state * 1664525u + 1013904223u) >> 24);
    for (uint64_t number = share->from; number < share->to; number++) {
        stamp(data, tree->bytes, number);
        if (atomic_load_explicit(&tree->failed, memory_order_relaxed) ||
            file_create(tree, (uint32_t)number * 0x9e3779b1u, data) < 0)
            break;
    }
    free(data);
    return NULL;
}

static void create_all(struct tree *tree, uint64_t files, unsigned threads)
{
    struct share shares[THREADS_MAX];
    unsigned started = 0;
    for (; started < threads; started++) {
        struct share *share = &shares[started];
        *share = (struct share){
            .tree = tree, .from = files * started / threads, .to = files * (started + 1) / threads};
        errno = pthread_create(&share->thread, NULL, create_share, share);
        if (errno) {
            fail(tree, "start", "a thread");
            break;
        }
    }
    for (unsigned i = 0; i < started; i++)
        pthread_join(shares[i].thread, NULL);
}

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static bool parse_number(const char *text, uint64_t most, uint64_t *ret_number)
{
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (errno || end == text || *end || *text == '-' || number > most)
        return false;
    *ret_number = number;
    return true;
}

static int usage(void)
{
    fprintf(stderr, "usage: peer_create DIR FILES BYTES [--threads N] [--sync]\n");
    return 2;
}

int main(int argc, char **argv)
{
    static struct tree tree;
    uint64_t files, bytes, threads = (uint64_t)sysconf(_SC_NPROCESSORS_ONLN);
    bool sync_too = false;
    if (argc < 4 || !parse_number(argv[2], UINT32_MAX, &files) ||
        !parse_number(argv[3], BYTES_MAX, &bytes))
        return usage();
    for (int i = 4; i < argc; i++) {
        if (strcmp(argv[i], "--sync") == 0)
            sync_too = true;
        else if (strcmp(argv[i], "--threads") != 0 || i + 1 == argc ||
                 !parse_number(argv[++i], THREADS_MAX, &threads))
            return usage();
    }
    threads = threads < 1 ? 1 : threads > THREADS_MAX ? THREADS_MAX : threads;
    tree.bytes = (size_t)bytes;
    tree.fd = open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (tree.fd < 0) {
        fail(&tree, "open", argv[1]);
        return 1;
    }
    double start = seconds_now();
    create_all(&tree, files, (unsigned)threads);
    double created = seconds_now() - start;
    if (!atomic_load(&tree.failed) && sync_too && syncfs(tree.fd) < 0)
        fail(&tree, "sync", argv[1]);
    double synced = seconds_now() - start;
    if (atomic_load(&tree.failed))
        return 1;
    printf("{\"files\": %llu, \"bytes\": %llu, \"threads\": %llu, \"seconds\": %.6f, "
           "\"seconds_created\": %.6f",
        (unsigned long long)files, (unsigned long long)bytes, (unsigned long long)threads, created,
        created);
    if (sync_too)
        printf(", \"seconds_synced\": %.6f", synced);
    printf("}\n");
    return 0;
}
