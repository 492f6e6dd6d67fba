/* shoal get BUCKET/KEY [FILE]: writes one object to a file or a pipe.

   A file is written under a temporary name beside its place and renamed when it is whole, with the
   object's modification time, so that never half an object stands under the name. Where the name
   leads to something that is not a regular file (a pipe, /dev/null), that is written to instead.

   What can fail: the object is absent or damaged (nothing is left behind), the target can't be
   written. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/access.h"
#include "cli/commands.h"
#include "cli/location.h"
#include "cli/object.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "import/local.h"

static const struct command_help help = {
    .name = "get",
    .usage = "get BUCKET/KEY [FILE]\nget BUCKET/KEY -",
    .about =
        "Writes an object to FILE, or with '-' to standard output. Without FILE, or where FILE\n"
        "is a directory, the file is called like the last segment of the key. It appears\n"
        "under its name only when it is whole, with the object's modification time.\n",
};

#define COPY_BYTES (1u << 20)

struct get {
    struct shoal *store;
    struct location at;
    struct shoal_reader *reader;
    struct shoal_stat stat;
    struct progress progress;
    char target[PATH_MAX]; /* empty: standard output */
    char temporary[PATH_MAX]; /* empty: the target is written directly */
};

static int complain_of_target(const struct get *get, int code)
{
    char shown[512];
    const char *name = get->target[0] ? get->target : "standard output";
    complain(help.name, "%s: %s%s", escape(name, strlen(name), shown, sizeof shown),
        shoal_strerror(code), access_advice(code));
    return STATUS_FAILED;
}

/* The name a key suggests: its last segment. */
static int name_from_key(const struct get *get, char *ret_name)
{
    const char *slash = memrchr(get->at.key, '/', get->at.key_length);
    const char *name = slash ? slash + 1 : get->at.key;
    if (!*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strlen(name) > NAME_MAX)
        return options_wrong(&help, "the key suggests no file name: give FILE");
    strcpy(ret_name, name); /* callers have room for NAME_MAX */
    return 0;
}

static int choose_target(struct get *get, const char *file)
{
    char name[NAME_MAX + 1];
    struct stat st;
    int used = 0;
    if (file && strcmp(file, "-") == 0)
        return 0;
    if (!file || (stat(file, &st) == 0 && S_ISDIR(st.st_mode))) {
        int status = name_from_key(get, name);
        if (status)
            return status;
        used = snprintf(
            get->target, sizeof get->target, "%s%s%s", file ? file : "", file ? "/" : "", name);
    } else if (!realpath(file, get->target)) {
        /* A link is followed to what it names, as cp does; what is not there yet has no links. */
        used = snprintf(get->target, sizeof get->target, "%s", file);
    }
    if (used >= (int)sizeof get->target)
        return options_wrong(&help, "the file's name is too long");
    return 0;
}

static int open_target(struct get *get, int *ret_fd)
{
    struct stat st;
    if (!get->target[0]) {
        *ret_fd = STDOUT_FILENO;
        return 0;
    }
    if (stat(get->target, &st) == 0 && !S_ISREG(st.st_mode)) {
        *ret_fd = open(get->target, O_WRONLY | O_CLOEXEC | O_NOCTTY);
        return *ret_fd < 0 ? -errno : 0;
    }
    const char *slash = strrchr(get->target, '/');
    int dir_length = slash ? (int)(slash + 1 - get->target) : 0;
    for (unsigned serial = 0;; serial++) {
        if (snprintf(get->temporary, sizeof get->temporary, "%.*s.shoal-%ld-%u.part", dir_length,
                get->target, (long)getpid(), serial) >= (int)sizeof get->temporary)
            return -ENAMETOOLONG;
        *ret_fd = open(get->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (*ret_fd >= 0)
            return 0;
        if (errno != EEXIST) {
            get->temporary[0] = 0;
            return -errno;
        }
    }
}

/* Exit status. */
static int copy(struct get *get, int fd, uint8_t *buffer)
{
    struct progress_state state = {.all = get->stat.size_bytes};
    while (state.done < get->stat.size_bytes) {
        int64_t got = shoal_reader_read(get->reader, state.done, buffer, COPY_BYTES);
        if (got == 0)
            got = SHOAL_E_CORRUPT; /* shorter than its header says */
        if (got < 0)
            return access_failed(&help, get->at.bucket, get->at.key, get->at.key_length, (int)got);
        int rc = local_write_all(fd, buffer, (size_t)got);
        if (rc < 0)
            return complain_of_target(get, rc);
        state.done = state.bytes += (uint64_t)got;
        progress_show(&get->progress, &state);
    }
    return STATUS_DONE;
}

static int finish_target(struct get *get, int fd)
{
    int rc = get->temporary[0] ? local_set_mtime(fd, get->stat.mtime_ns) : 0;
    if (fd != STDOUT_FILENO && close(fd) < 0 && rc == 0)
        rc = -errno;
    if (rc == 0 && get->temporary[0] && rename(get->temporary, get->target) < 0)
        rc = -errno;
    return rc < 0 ? complain_of_target(get, rc) : STATUS_DONE;
}

static int write_target(struct get *get)
{
    int fd;
    int rc = open_target(get, &fd);
    if (rc < 0)
        return complain_of_target(get, rc);
    uint8_t *buffer = mem_alloc(COPY_BYTES);
    progress_init(&get->progress, "reading");
    int status = buffer ? copy(get, fd, buffer) : complain_of_target(get, -ENOMEM);
    progress_done(&get->progress);
    mem_free(buffer);
    if (status == STATUS_DONE)
        status = finish_target(get, fd);
    else if (fd != STDOUT_FILENO)
        (void)close(fd); /* to be removed */
    if (status != STATUS_DONE && get->temporary[0])
        (void)unlink(get->temporary); /* the first error has been reported */
    return status;
}

static int get_object(struct get *get)
{
    int code = shoal_reader_open(
        get->store, get->at.bucket, get->at.key, get->at.key_length, &get->reader, &get->stat);
    if (code < 0)
        return access_failed(&help, get->at.bucket, get->at.key, get->at.key_length, code);
    int status = write_target(get);
    shoal_reader_close(get->reader);
    return status;
}

int cmd_get(int argc, char **argv)
{
    const char *data = NULL;
    bool json = false;
    struct get get = {.store = NULL};
    const struct option options[] = {
        OPTION_DATA(&data),
        OPTION_JSON(&json),
        {OPTION_END},
    };
    int status;
    int operands = options_parse(&help, options, 1, 2, argc, argv, &status);
    if (operands < 0)
        return status;
    status = location_parse_object(&help, argv[1], &get.at);
    if (status == 0)
        status = choose_target(&get, operands > 1 ? argv[2] : NULL);
    if (status)
        return status;
    if (json && !get.target[0])
        return options_wrong(&help, "--json and '-' both want standard output");
    status = access_open(&help, data, ACCESS_READ, &get.store);
    if (status)
        return status;
    status = access_close(&help, get.store, get_object(&get));
    if (status == STATUS_DONE && json)
        object_print_json(&get.at, &get.stat);
    return status;
}
