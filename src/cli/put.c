/* shoal put FILE BUCKET/KEY: stores one file, or what comes from a pipe.

   The first chunk is read into memory. If that was all, it is stored with one call; else a writer
   takes it and the rest piece by piece, in constant memory, so that a pipe may be of any length.
   Nothing shows under the key before everything has been read and stored.

   What can fail: the file can't be read or changes while it is read, and whatever the store says. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
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
#include "import/content_type.h"
#include "import/local.h"

static const struct command_help help = {
    .name = "put",
    .usage = "put FILE BUCKET/KEY\nput - BUCKET/KEY",
    .about = "Stores a file, or with '-' what comes from standard input, as one object. It is on\n"
             "the device when the command ends. An object of that key is replaced. The store and\n"
             "the bucket (private) are created if they do not exist. The key is kept byte for\n"
             "byte. The content type is taken from the key's extension, else from the file's,\n"
             "else from the first bytes.\n",
};

struct source {
    const char *name; /* for complaints */
    int fd;
    bool regular;
    struct stat before;
};

struct put {
    struct shoal *store;
    struct location at;
    struct source source;
    const char *type; /* as given, or NULL */
    uint8_t *buffer; /* one chunk and a byte */
    struct progress progress;
    struct shoal_stat stat;
};

static int complain_of_source(const struct source *source, const char *text)
{
    char shown[512];
    complain(
        help.name, "%s: %s", escape(source->name, strlen(source->name), shown, sizeof shown), text);
    return STATUS_FAILED;
}

static int source_open(const char *name, struct source *source)
{
    bool pipe = strcmp(name, "-") == 0;
    source->name = pipe ? "standard input" : name;
    source->fd = pipe ? STDIN_FILENO : open(name, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (source->fd < 0 || fstat(source->fd, &source->before) < 0)
        return complain_of_source(source, shoal_strerror(-errno));
    source->regular = S_ISREG(source->before.st_mode);
    if (S_ISDIR(source->before.st_mode)) {
        (void)close(source->fd); /* read-only */
        return complain_of_source(source, "is a directory; use 'shoal import dir' for trees");
    }
    return 0;
}

/* Fills the buffer; fewer bytes only at the end. */
static int64_t source_read(const struct source *source, uint8_t *buffer, size_t size)
{
    size_t done = 0;
    while (done < size) {
        ssize_t got = read(source->fd, buffer + done, size - done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -errno;
        if (got == 0)
            break;
        done += (size_t)got;
    }
    return (int64_t)done;
}

/* A regular file must be what it was, or a mix of two versions would be stored. */
static bool source_changed(const struct source *source)
{
    struct stat after;
    if (!source->regular)
        return false;
    return fstat(source->fd, &after) < 0 || !local_same(&source->before, &after);
}

static int complain_of_change(const struct source *source)
{
    return complain_of_source(source, "changed while it was read, nothing was stored; try again");
}

static void fill_attrs(const struct put *put, size_t head, struct shoal_attrs *attrs)
{
    const struct source *source = &put->source;
    const char *type = put->type;
    if (!type)
        type = content_type_of_name(put->at.key, put->at.key_length);
    if (!type)
        type = content_type(source->name, strlen(source->name), put->buffer, head);
    attrs->content_type = type;
    attrs->mtime_ns = 0;
    if (source->regular)
        attrs->mtime_ns = local_mtime_attr(&source->before);
}

static int put_small(struct put *put, size_t size)
{
    struct shoal_attrs attrs;
    if (source_changed(&put->source))
        return complain_of_change(&put->source);
    fill_attrs(put, size, &attrs);
    int code = shoal_put(put->store, put->at.bucket, put->at.key, put->at.key_length, put->buffer,
        size, &attrs, &put->stat);
    if (code < 0)
        return access_failed(&help, put->at.bucket, put->at.key, put->at.key_length, code);
    return STATUS_DONE;
}

/* Moves everything into the writer, beginning with what the buffer holds. Exit status. */
static int feed(struct put *put, struct shoal_writer *writer, int64_t got)
{
    struct progress_state state = {
        .all = put->source.regular ? (uint64_t)put->source.before.st_size : 0};
    while (got > 0) {
        int code = shoal_writer_write(writer, put->buffer, (size_t)got);
        if (code < 0)
            return access_failed(&help, put->at.bucket, put->at.key, put->at.key_length, code);
        state.done = state.bytes += (uint64_t)got;
        progress_show(&put->progress, &state);
        got = source_read(&put->source, put->buffer, SHOAL_CHUNK_BYTES);
    }
    if (got < 0)
        return complain_of_source(&put->source, shoal_strerror((int)got));
    return source_changed(&put->source) ? complain_of_change(&put->source) : STATUS_DONE;
}

static int put_large(struct put *put, size_t head)
{
    struct shoal_attrs attrs;
    struct shoal_writer *writer;
    fill_attrs(put, head, &attrs);
    int code = shoal_writer_open(
        put->store, put->at.bucket, put->at.key, put->at.key_length, &attrs, &writer);
    if (code < 0)
        return access_failed(&help, put->at.bucket, put->at.key, put->at.key_length, code);
    int status = feed(put, writer, (int64_t)head);
    if (status != STATUS_DONE) {
        shoal_writer_abort(writer);
        return status;
    }
    code = shoal_writer_commit(writer, &put->stat);
    if (code < 0)
        return access_failed(&help, put->at.bucket, put->at.key, put->at.key_length, code);
    return STATUS_DONE;
}

/* Chunks of an object that turns out too large would fill the disk: better refused at once. */
static int refuse_too_large(const struct put *put, const char *dir)
{
    int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    uint64_t size = put->source.regular ? (uint64_t)put->source.before.st_size : 0;
    char bytes[16], key[ESCAPED_BYTES(SHOAL_KEY_MAX)];
    bool fits = fd < 0 || local_has_room(fd, size);
    if (fd >= 0)
        (void)close(fd); /* opened for its path only */
    if (fits)
        return STATUS_DONE;
    complain(help.name, "%s/%s: no space for %s on the store's disk%s", put->at.bucket,
        escape(put->at.key, put->at.key_length, key, sizeof key), human_bytes(size, bytes),
        access_advice(-ENOSPC));
    return STATUS_FAILED;
}

static int put_source(struct put *put)
{
    int code = access_ensure_bucket(put->store, put->at.bucket);
    if (code < 0)
        return access_failed(&help, put->at.bucket, NULL, 0, code);
    put->buffer = mem_alloc(SHOAL_CHUNK_BYTES + 1);
    if (!put->buffer)
        return access_failed(&help, put->at.bucket, NULL, 0, -ENOMEM);
    /* One byte more than fits a record tells whether that was all. */
    int64_t got = source_read(&put->source, put->buffer, SHOAL_CHUNK_BYTES + 1);
    if (got < 0)
        return complain_of_source(&put->source, shoal_strerror((int)got));
    progress_init(&put->progress, "storing");
    int status = got <= (int64_t)SHOAL_CHUNK_BYTES ? put_small(put, (size_t)got)
                                                   : put_large(put, (size_t)got);
    progress_done(&put->progress);
    mem_free(put->buffer);
    return status;
}

/* It will stand in a header: printable ASCII. */
static bool is_type(const char *type)
{
    size_t length = strlen(type);
    for (size_t i = 0; i < length; i++)
        if (type[i] < 0x20 || type[i] > 0x7e)
            return false;
    return length > 0 && length <= SHOAL_TYPE_MAX;
}

int cmd_put(int argc, char **argv)
{
    const char *data = NULL;
    bool json = false;
    struct put put = {.type = NULL};
    const struct option options[] = {
        OPTION_DATA(&data),
        {OPTION_TEXT, "type", 0, &put.type, "TYPE", "content type to store"},
        OPTION_JSON(&json),
        {OPTION_END},
    };
    int status;
    if (options_parse(&help, options, 2, 2, argc, argv, &status) < 0)
        return status;
    status = location_parse_object(&help, argv[2], &put.at);
    if (status)
        return status;
    if (put.type && !is_type(put.type))
        return options_wrong(&help,
            "--type: give a content type such as image/jpeg, at most %d bytes", SHOAL_TYPE_MAX);
    const char *dir = access_dir(&help, data);
    if (!dir)
        return STATUS_USAGE;
    status = source_open(argv[1], &put.source);
    if (status)
        return status;
    status = access_open(&help, dir, ACCESS_CREATE, &put.store);
    if (status)
        return status;
    status = refuse_too_large(&put, dir);
    status = access_close(&help, put.store, status ? status : put_source(&put));
    if (status == STATUS_DONE && json)
        object_print_json(&put.at, &put.stat);
    return status;
}
