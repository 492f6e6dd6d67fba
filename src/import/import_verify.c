/* Comparing one file with what the store holds of it.

   Runs as a second walk when everything is durable: the object is read from the device, past the
   kernel's cache, and compared with the file byte by byte. A file that was changed since it was
   imported differs in size or time and is reported as such; equal size and time with other bytes is
   a mismatch; bytes that fail their checks are damage. Files that could not be read were reported
   by the first walk and are passed over. */
#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "import/local.h"
#include "import/import_priv.h"

/* Why they differ, or NULL. *ret_code is negative if the object can't be read. */
static const char *compare(struct import_worker *worker, int fd, struct shoal_reader *reader,
    const struct stat *st, int *ret_code)
{
    uint64_t offset = 0;
    while (offset < (uint64_t)st->st_size) {
        if (atomic_load(worker->run->job->stop))
            return NULL;
        int64_t stored = shoal_reader_read(reader, offset, worker->stored, COMPARE_BYTES);
        if (stored <= 0) {
            *ret_code = stored < 0 ? (int)stored : SHOAL_E_CORRUPT;
            return NULL;
        }
        int64_t got = import_read(fd, worker->buffer, (size_t)stored, offset);
        if (got < 0)
            return "can't be read again to compare it";
        if (got != stored || memcmp(worker->buffer, worker->stored, (size_t)got) != 0)
            return "the stored bytes differ from the file";
        offset += (uint64_t)got;
    }
    return NULL;
}

static const char *compare_file(
    struct import_worker *worker, const struct tree_entry *entry, int fd, int *ret_code)
{
    const struct import_dir *job = worker->run->job;
    struct shoal_reader *reader;
    struct shoal_stat stored;
    struct stat st;
    const char *text;
    if (fstat(fd, &st) < 0)
        return "can't be read again to compare it";
    int code = shoal_reader_open(
        job->store, job->bucket, entry->path, entry->path_length, &reader, &stored);
    if (code < 0) {
        *ret_code = code;
        return NULL;
    }
    shoal_reader_set_direct(reader, true);
    if (stored.size_bytes != (uint64_t)st.st_size)
        text = "changed since it was imported: its size differs";
    else if (!job->checksum && stored.mtime_ns != local_mtime_ns(&st))
        text = "changed since it was imported: its time differs";
    else
        text = compare(worker, fd, reader, &st, ret_code);
    shoal_reader_close(reader);
    atomic_fetch_add_explicit(
        &worker->run->counts->verified_bytes, stored.size_bytes, memory_order_relaxed);
    return text;
}

void import_verify_file(void *arg, const struct tree_entry *entry)
{
    struct import_worker *worker = arg;
    struct import_run *run = worker->run;
    int code = 0;
    if (entry->type != DT_REG)
        return;
    int fd = import_open(worker, entry);
    if (fd < 0)
        return;
    const char *text = compare_file(worker, entry, fd, &code);
    (void)close(fd); /* read-only */
    if (code < 0)
        import_report(run, code == SHOAL_E_CORRUPT ? IMPORT_DAMAGED : IMPORT_FAILED, entry->path,
            entry->path_length, shoal_strerror(code));
    else if (text)
        import_report(run, IMPORT_FAILED, entry->path, entry->path_length, text);
    else
        atomic_fetch_add_explicit(&run->counts->verified, 1, memory_order_relaxed);
}
