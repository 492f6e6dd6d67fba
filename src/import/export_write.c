/* A writer of the export: takes batches of keys and makes files of them.

   Each file is written under a temporary name, gets its time, and is renamed, so that no half of an
   object ever stands under its name. The temporary name is made with O_EXCL and follows no link;
   the rename replaces a file or link of that name, never what a link points to.

   An object's own failure (a name in the way, damage) is reported and the rest goes on. A full disk
   or a failed device ends the export. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "import/export_priv.h"
#include "import/local.h"

#define COPY_BYTES (256u << 10)

/* Owned by its thread. */
struct writer {
    struct export_run *run;
    uint8_t *buffer;
    unsigned serial; /* of temporary names */
    struct export_place place;
};

void export_report(
    struct export_run *run, bool damaged, const void *key, size_t length, const char *text)
{
    run->job->report(run->job->arg, damaged, key, length, text);
}

static void give_up(struct export_run *run, int code)
{
    int none = 0;
    atomic_compare_exchange_strong(&run->fatal, &none, code);
    atomic_store(run->job->stop, true);
    pthread_mutex_lock(&run->lock);
    pthread_cond_broadcast(&run->changed); /* the scan may wait for a writer that is gone */
    pthread_mutex_unlock(&run->lock);
}

static bool is_fatal(int code)
{
    return code == -ENOSPC || code == -EDQUOT || code == -EROFS || code == -EIO ||
           code == -EMFILE || code == -ENFILE || code == -ENOMEM || code == SHOAL_E_CLOSED;
}

static const char *explain(int code)
{
    switch (code) {
    case -ELOOP:
        return "a symbolic link is in its way, and links are not followed";
    case -ENOTDIR:
        return "a file is where its directory should be";
    case -EISDIR:
    case -ENOTEMPTY:
    case -EEXIST:
        return "a directory is where the file should be";
    default:
        return shoal_strerror(code);
    }
}

static int copy_out(struct writer *writer, struct shoal_reader *reader, int fd)
{
    uint64_t offset = 0;
    for (;;) {
        int64_t got = shoal_reader_read(reader, offset, writer->buffer, COPY_BYTES);
        if (got <= 0)
            return (int)got;
        int rc = local_write_all(fd, writer->buffer, (size_t)got);
        if (rc < 0)
            return rc;
        offset += (uint64_t)got;
        if (got < COPY_BYTES)
            return 0;
    }
}

static int open_temporary(struct writer *writer, int dir_fd, char ret_name[64])
{
    for (;;) {
        snprintf(ret_name, 64, ".shoal-%ld-%p-%u.part", (long)getpid(), (void *)writer,
            writer->serial++);
        int fd =
            openat(dir_fd, ret_name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (fd >= 0 || errno != EEXIST)
            return fd >= 0 ? fd : -errno;
    }
}

static int make_file(struct writer *writer, int dir_fd, const char *name,
    struct shoal_reader *reader, const struct shoal_stat *stat)
{
    char temporary[64];
    int fd = open_temporary(writer, dir_fd, temporary);
    if (fd < 0)
        return fd;
    int rc = copy_out(writer, reader, fd);
    if (rc == 0)
        rc = local_set_mtime(fd, stat->mtime_ns);
    if (close(fd) < 0 && rc == 0)
        rc = -errno;
    if (rc == 0 && renameat(dir_fd, temporary, dir_fd, name) < 0)
        rc = -errno;
    if (rc < 0)
        (void)unlinkat(dir_fd, temporary, 0); /* the first error is the one to report */
    return rc;
}

static int export_one(struct writer *writer, const uint8_t *key, size_t length)
{
    const struct export_dir *job = writer->run->job;
    struct shoal_reader *reader;
    struct shoal_stat stat;
    char path[SHOAL_KEY_MAX + 1];
    const char *name;
    size_t path_length = length - job->prefix_length;
    memcpy(path, key + job->prefix_length, path_length);
    path[path_length] = 0;
    int rc = shoal_reader_open(job->store, job->bucket, key, length, &reader, &stat);
    if (rc < 0)
        return rc;
    int dir_fd = export_place_go(&writer->place, path, path_length, &name);
    rc = dir_fd < 0 ? dir_fd : make_file(writer, dir_fd, name, reader, &stat);
    shoal_reader_close(reader);
    if (rc == 0) {
        atomic_fetch_add(&writer->run->counts->exported, 1);
        atomic_fetch_add(&writer->run->counts->bytes, stat.size_bytes);
    }
    return rc;
}

static void export_batch(struct writer *writer, const struct export_batch *batch)
{
    struct export_run *run = writer->run;
    const uint8_t *key = batch->keys;
    for (unsigned i = 0; i < batch->count && !atomic_load(run->job->stop); i++) {
        int rc = export_one(writer, key, batch->lengths[i]);
        if (rc < 0) {
            bool damaged = rc == SHOAL_E_CORRUPT;
            atomic_fetch_add(damaged ? &run->counts->damaged : &run->counts->failed, 1);
            export_report(run, damaged, key, batch->lengths[i], explain(rc));
        }
        if (is_fatal(rc))
            give_up(run, rc);
        key += batch->lengths[i];
    }
}

static struct export_batch *take_ready(struct export_run *run)
{
    pthread_mutex_lock(&run->lock);
    while (!run->ready && !run->scanned)
        pthread_cond_wait(&run->changed, &run->lock);
    struct export_batch *batch = run->ready;
    if (batch) {
        run->ready = batch->next;
        if (!run->ready)
            run->ready_end = &run->ready;
    }
    pthread_mutex_unlock(&run->lock);
    return batch;
}

static void give_back(struct export_run *run, struct export_batch *batch)
{
    pthread_mutex_lock(&run->lock);
    batch->next = run->empty;
    run->empty = batch;
    pthread_cond_broadcast(&run->changed);
    pthread_mutex_unlock(&run->lock);
}

void *export_write_all(void *arg)
{
    struct export_run *run = arg;
    struct export_batch *batch;
    struct writer *writer = mem_alloc(sizeof *writer);
    uint8_t *buffer = mem_alloc(COPY_BYTES);
    if (!writer || !buffer) {
        give_up(run, -ENOMEM);
        goto out;
    }
    writer->run = run;
    writer->buffer = buffer;
    writer->serial = 0;
    export_place_init(&writer->place, run->job->root_fd);
    while ((batch = take_ready(run))) {
        export_batch(writer, batch);
        give_back(run, batch);
    }
    export_place_done(&writer->place);
out:
    mem_free(buffer);
    mem_free(writer);
    return NULL;
}
