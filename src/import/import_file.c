/* Copying one file into the store.

   A regular file is opened without following links, read in one system call if it is small, and
   handed to the store, which copies it; its size and time are looked at before and after, and a
   file that changed meanwhile is read again. Files above one chunk go through a writer in pieces.
   Where the store may hold the file already, its size and time (or its MD5) decide first.

   What can fail: the file can't be opened or read, keeps changing, or is refused by the store: it is
   reported, counted, and the walk goes on. A store that can't take anything more (disk full, device
   failed) ends the import. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/md5.h"
#include "import/content_type.h"
#include "import/local.h"
#include "import/import_priv.h"

#define READ_ATTEMPTS 3

enum { CHANGED = 1 }; /* the file is not what it was when its reading began */

void import_report(struct import_run *run, enum import_event event, const char *path,
    size_t path_length, const char *text)
{
    atomic_uint_least64_t *count = event == IMPORT_SKIPPED  ? &run->counts->skipped
                                   : event == IMPORT_FAILED ? &run->counts->failed
                                                            : &run->counts->damaged;
    if (event == IMPORT_FAILED && atomic_load(&run->counts->verifying))
        count = &run->counts->mismatched;
    atomic_fetch_add(count, 1);
    run->job->report(run->job->arg, event, path + run->strip, path_length - run->strip, text);
}

/* These concern one object; anything else will meet every further object as well. */
static bool is_own_failure(int code)
{
    return code == SHOAL_E_BAD_KEY || code == SHOAL_E_TOO_LARGE || code == SHOAL_E_CORRUPT ||
           code == SHOAL_E_CONFLICT;
}

void import_put_failed(struct import_run *run, const char *path, size_t path_length, int code)
{
    int none = 0;
    if (is_own_failure(code)) {
        import_report(run, IMPORT_FAILED, path, path_length, shoal_strerror(code));
        return;
    }
    /* Whatever else is in flight fails too, and no file is to blame: the caller says it once. */
    atomic_compare_exchange_strong(&run->fatal, &none, code);
    atomic_fetch_add(&run->counts->failed, 1);
    atomic_store(run->job->stop, true);
}

int import_open(struct import_worker *worker, const struct tree_entry *entry)
{
    /* A name may have become a pipe since it was listed: opening must not wait. */
    int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY;
    if (worker->use_noatime) {
        int fd = openat(entry->dir_fd, entry->name, flags | O_NOATIME);
        if (fd >= 0 || errno != EPERM)
            return fd >= 0 ? fd : -errno;
        worker->use_noatime = false; /* only the owner may ask for it */
    }
    int fd = openat(entry->dir_fd, entry->name, flags);
    return fd >= 0 ? fd : -errno;
}

int64_t import_read(int fd, void *buffer, size_t size, uint64_t offset)
{
    size_t done = 0;
    while (done < size) {
        ssize_t got = pread(fd, (char *)buffer + done, size - done, (off_t)(offset + done));
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

/* Reads a file of at most one chunk into the worker's buffer. 0, CHANGED or -errno. */
static int read_small(struct import_worker *worker, int fd, const struct stat *before)
{
    struct stat after;
    size_t size = (size_t)before->st_size;
    size_t done = 0;
    /* One byte more than expected: a short answer is the end, without a second call. */
    while (done <= size) {
        ssize_t got = pread(fd, worker->buffer + done, size + 1 - done, (off_t)done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -errno;
        done += (size_t)got;
        if (got == 0 || done == size)
            break;
    }
    if (fstat(fd, &after) < 0)
        return -errno;
    return done == size && local_same(before, &after) ? 0 : CHANGED;
}

static void put_small(
    struct import_worker *worker, const struct tree_entry *entry, const struct stat *st)
{
    struct import_run *run = worker->run;
    size_t size = (size_t)st->st_size;
    struct shoal_attrs attrs = {
        .content_type = content_type(entry->name, strlen(entry->name), worker->buffer, size),
        .mtime_ns = local_mtime_attr(st),
    };
    struct flight_slot *slot = flight_take(&worker->flight);
    slot->size_bytes = size;
    slot->path_length = entry->path_length;
    memcpy(slot->path, entry->path, entry->path_length);
    int code = shoal_put_start(run->job->store, run->job->bucket, entry->path, entry->path_length,
        worker->buffer, size, &attrs, flight_landed, slot);
    if (code < 0) {
        flight_put_back(&worker->flight, slot);
        import_put_failed(run, entry->path, entry->path_length, code);
    }
}

static int copy_small(
    struct import_worker *worker, const struct tree_entry *entry, int fd, const struct stat *st)
{
    int rc = read_small(worker, fd, st);
    if (rc == 0)
        put_small(worker, entry, st);
    return rc;
}

/* Feeds the writer. 0, CHANGED, or -errno of the file; *ret_refused is the store's own code. */
static int feed(struct import_worker *worker, int fd, const struct stat *before,
    struct shoal_writer *writer, int *ret_refused)
{
    struct stat after;
    uint64_t offset = 0;
    for (;;) {
        if (atomic_load(worker->run->job->stop))
            return -ECANCELED;
        int64_t got = import_read(fd, worker->buffer, 1u << 20, offset);
        if (got < 0)
            return (int)got;
        if (got == 0)
            break;
        offset += (uint64_t)got;
        if (offset > (uint64_t)before->st_size)
            return CHANGED;
        *ret_refused = shoal_writer_write(writer, worker->buffer, (size_t)got);
        if (*ret_refused < 0)
            return 0;
    }
    if (fstat(fd, &after) < 0)
        return -errno;
    return offset == (uint64_t)before->st_size && local_same(before, &after) ? 0 : CHANGED;
}

static int copy_large(
    struct import_worker *worker, const struct tree_entry *entry, int fd, const struct stat *st)
{
    struct import_run *run = worker->run;
    struct shoal_writer *writer = NULL;
    int refused = 0;
    /* Found out beforehand: chunks of an object that turns out too large would fill the disk. */
    if (run->job->data_fd >= 0 && !local_has_room(run->job->data_fd, (uint64_t)st->st_size)) {
        import_report(run, IMPORT_FAILED, entry->path, entry->path_length,
            "larger than the free space of the store's disk");
        return 0;
    }
    int64_t head = import_read(fd, worker->buffer, CONTENT_TYPE_SNIFF_BYTES, 0);
    if (head < 0)
        return (int)head;
    struct shoal_attrs attrs = {
        .content_type =
            content_type(entry->name, strlen(entry->name), worker->buffer, (size_t)head),
        .mtime_ns = local_mtime_attr(st),
    };
    refused = shoal_writer_open(
        run->job->store, run->job->bucket, entry->path, entry->path_length, &attrs, &writer);
    int rc = refused < 0 ? 0 : feed(worker, fd, st, writer, &refused);
    if (rc == 0 && refused == 0) {
        refused = shoal_writer_commit(writer, NULL);
        writer = NULL;
    }
    if (writer)
        shoal_writer_abort(writer);
    if (refused < 0) {
        import_put_failed(run, entry->path, entry->path_length, refused);
    } else if (rc == 0) {
        atomic_fetch_add(&run->counts->bytes, (uint64_t)st->st_size);
        atomic_fetch_add(&run->counts->copied, 1);
    }
    return rc;
}

/* The MD5 of an open file. 0 or -errno. */
static int digest(struct import_worker *worker, int fd, uint8_t ret_md5[16])
{
    uint64_t offset = 0;
    int64_t got;
    uint8_t unused[16];
    while ((got = import_read(fd, worker->buffer, 1u << 20, offset)) > 0) {
        md5_update(worker->md5, worker->buffer, (size_t)got);
        offset += (uint64_t)got;
    }
    md5_finish(worker->md5, got < 0 ? unused : ret_md5);
    return (int)got;
}

/* 1 if the store holds the file as it is, 0 if not, -errno if it can't be read. fd is -1 without
   --checksum. */
static int is_unchanged(
    struct import_worker *worker, const struct tree_entry *entry, int fd, const struct stat *st)
{
    const struct import_dir *job = worker->run->job;
    struct known_object stored;
    uint8_t md5[16];
    /* Unreadable or absent alike: the file is to be written. */
    if (known_find(&worker->known, entry->path, entry->path_length, &stored) <= 0 ||
        stored.size_bytes != (uint64_t)st->st_size)
        return 0;
    if (!job->checksum)
        return stored.mtime_ns == local_mtime_ns(st);
    int rc = digest(worker, fd, md5);
    return rc < 0 ? rc : memcmp(md5, stored.md5, sizeof md5) == 0;
}

static const char *why_skipped(unsigned type)
{
    switch (type) {
    case DT_LNK:
        return "a symbolic link";
    case DT_FIFO:
        return "a named pipe";
    case DT_SOCK:
        return "a socket";
    default:
        return "a device or other special file";
    }
}

/* With the file open. 0, CHANGED or -errno. */
static int copy_open(struct import_worker *worker, const struct tree_entry *entry, int fd)
{
    struct import_run *run = worker->run;
    struct stat st;
    if (fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode)) {
        import_report(
            run, IMPORT_SKIPPED, entry->path, entry->path_length, why_skipped(IFTODT(st.st_mode)));
        return 0;
    }
    if (run->job->checksum && !run->fresh) {
        int rc = is_unchanged(worker, entry, fd, &st);
        if (rc > 0)
            atomic_fetch_add_explicit(&run->counts->unchanged, 1, memory_order_relaxed);
        if (rc)
            return rc < 0 ? rc : 0;
    }
    return st.st_size <= (off_t)SHOAL_CHUNK_BYTES ? copy_small(worker, entry, fd, &st)
                                                  : copy_large(worker, entry, fd, &st);
}

static void copy_regular(struct import_worker *worker, const struct tree_entry *entry)
{
    struct import_run *run = worker->run;
    int fd = import_open(worker, entry);
    int rc = fd;
    if (fd >= 0) {
        for (int attempt = 0; attempt < READ_ATTEMPTS; attempt++) {
            rc = copy_open(worker, entry, fd);
            if (rc != CHANGED)
                break;
        }
        (void)close(fd); /* read-only */
    }
    if (rc == -ELOOP)
        import_report(run, IMPORT_SKIPPED, entry->path, entry->path_length, why_skipped(DT_LNK));
    else if (rc == CHANGED)
        import_report(
            run, IMPORT_FAILED, entry->path, entry->path_length, "changes while it is read");
    else if (rc < 0 && rc != -ECANCELED)
        import_report(run, IMPORT_FAILED, entry->path, entry->path_length, shoal_strerror(rc));
}

void import_copy_file(void *arg, const struct tree_entry *entry)
{
    struct import_worker *worker = arg;
    struct import_run *run = worker->run;
    struct stat st;
    atomic_fetch_add_explicit(&run->counts->seen, 1, memory_order_relaxed);
    if (entry->type != DT_REG) {
        import_report(
            run, IMPORT_SKIPPED, entry->path, entry->path_length, why_skipped(entry->type));
        return;
    }
    /* Looking first spares opening what is there already; into an empty bucket all is new. */
    if (!run->fresh && !run->job->checksum &&
        fstatat(entry->dir_fd, entry->name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
        is_unchanged(worker, entry, -1, &st) > 0) {
        atomic_fetch_add_explicit(&run->counts->unchanged, 1, memory_order_relaxed);
        return;
    }
    copy_regular(worker, entry);
}
