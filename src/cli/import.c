/* shoal import dir SRC BUCKET[/PREFIX]: copies a directory tree into a bucket.

   src/import does the work on threads of its own; here the arguments are read, progress is shown,
   and signals are turned into a clean stop. An import that a signal stops cleanly ends with
   status 0, as every command does; its summary says that it is not complete. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli/access.h"
#include "cli/background.h"
#include "cli/commands.h"
#include "cli/location.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "import/import_dir.h"
#include "import/tree.h"

static const struct command_help help = {
    .name = "import",
    .usage = "import dir SRC BUCKET[/PREFIX]",
    .about =
        "Copies the regular files below the directory SRC. Each file's key is PREFIX/ and its "
        "path\n"
        "below SRC, byte for byte; its content type comes from its name, else from its first\n"
        "bytes; its modification time is kept. The store and the bucket (private) are created if\n"
        "they do not exist. Files whose size and time are those of the stored object are passed\n"
        "over, so running it again copies what is new or changed, and continues after a stop\n"
        "(Ctrl-C), a crash or a full disk. Symbolic links, special files and the "
        "store's\n"
        "own directory are skipped and named. Files that can't be read or stored are named and\n"
        "the rest goes on; the status is then 1.\n",
};

struct import {
    struct shoal *store;
    const char *source;
    struct location at;
    bool json;
    bool relabelled; /* progress speaks of verifying */
    struct import_dir job;
    struct import_counts counts;
    atomic_bool stop;
    struct progress progress;
    struct timespec start;
};

static void report(
    void *arg, enum import_event event, const char *path, size_t path_length, const char *text)
{
    struct import *import = arg;
    char shown[ESCAPED_BYTES(TREE_PATH_MAX + 256)], source[512];
    (void)event; /* the text says it */
    progress_complain(&import->progress, help.name, "%s%s/%s: %s",
        event == IMPORT_SKIPPED ? "skipped " : "",
        escape(import->source, strlen(import->source), source, sizeof source),
        escape(path, path_length, shown, sizeof shown), text);
}

static void tick(void *arg)
{
    struct import *import = arg;
    struct import_counts *counts = &import->counts;
    bool verifying = atomic_load(&counts->verifying);
    struct progress_state state = {
        .items = "files",
        .done = verifying ? counts->verified : counts->seen,
        .all = verifying ? counts->seen : counts->expected,
        .bytes = verifying ? counts->verified_bytes : counts->bytes,
    };
    if (verifying && !import->relabelled) {
        import->relabelled = true;
        progress_relabel(&import->progress, "verifying");
    }
    progress_show(&import->progress, &state);
}

static int work(void *arg)
{
    struct import *import = arg;
    return import_dir_run(&import->job, &import->counts);
}

static double seconds_since(const struct timespec *start)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - start->tv_sec) + (double)(now.tv_nsec - start->tv_nsec) / 1e9;
}

static void print_json(struct import *import, bool complete)
{
    struct import_counts *counts = &import->counts;
    struct json_out json = {.out = stdout};
    json_put_open(&json, NULL, '{');
    json_put_number(&json, "copied", counts->copied);
    json_put_number(&json, "unchanged", counts->unchanged);
    json_put_number(&json, "skipped", counts->skipped);
    json_put_number(&json, "failed", counts->failed + counts->mismatched + counts->damaged);
    json_put_number(&json, "bytes", counts->bytes);
    json_put_number(&json, "files", counts->seen);
    if (import->job.verify) {
        json_put_number(&json, "verified", counts->verified);
        json_put_number(&json, "mismatched", counts->mismatched);
        json_put_number(&json, "damaged", counts->damaged);
    }
    json_put_bool(&json, "complete", complete);
    json_put_real(&json, "seconds", seconds_since(&import->start));
    json_put_close(&json, '}');
    json_put_end(&json);
}

static void print_text(struct import *import)
{
    struct import_counts *counts = &import->counts;
    char text[32], bytes[16];
    double seconds = seconds_since(&import->start);
    printf("%s copied", human_count(counts->copied, text));
    printf(" (%s)", human_bytes(counts->bytes, bytes));
    printf(", %s unchanged", human_count(counts->unchanged, text));
    printf(", %s skipped", human_count(counts->skipped, text));
    printf(", %s failed", human_count(counts->failed, text));
    if (import->job.verify) {
        printf(", %s verified", human_count(counts->verified, text));
        printf(", %s differ", human_count(counts->mismatched, text));
        printf(", %s damaged", human_count(counts->damaged, text));
    }
    printf(" in %.1f s\n", seconds);
}

/* The line that says how it ended, and the exit status. */
static int conclude(struct import *import, int rc, bool interrupted)
{
    const struct import_counts *counts = &import->counts;
    if (rc < 0) {
        complain(help.name, "stopped: %s%s; what was copied is stored, the same command continues",
            shoal_strerror(rc), access_advice(rc));
        return access_status(rc);
    }
    if (interrupted) {
        complain(help.name, "stopped by a signal; the same command continues");
        return counts->failed ? STATUS_FAILED : STATUS_DONE;
    }
    if (counts->damaged)
        return STATUS_DAMAGE;
    return counts->failed || counts->mismatched ? STATUS_FAILED : STATUS_DONE;
}

static int run(struct import *import)
{
    const struct background background = {work, tick, import, &import->stop};
    bool interrupted;
    int code = access_ensure_bucket(import->store, import->at.bucket);
    if (code < 0)
        return access_failed(&help, import->at.bucket, NULL, 0, code);
    clock_gettime(CLOCK_MONOTONIC, &import->start);
    progress_init(&import->progress, "importing");
    import->job.store = import->store;
    import->job.count_ahead = import->progress.terminal;
    int rc = background_run(&background, &interrupted);
    progress_done(&import->progress);
    int status = conclude(import, rc, interrupted);
    if (import->json)
        print_json(import, rc == 0 && !interrupted);
    else
        print_text(import);
    return status;
}

static int open_source(struct import *import)
{
    char shown[512];
    import->job.root_fd = open(import->source, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (import->job.root_fd >= 0)
        return 0;
    complain(help.name, "%s: %s; SRC must be a directory that can be read",
        escape(import->source, strlen(import->source), shown, sizeof shown), strerror(errno));
    return STATUS_FAILED;
}

/* A store that holds itself would never be done. */
static int refuse_own_store(const struct import *import)
{
    const struct import_dir *job = &import->job;
    struct stat st;
    if (fstat(job->root_fd, &st) < 0 || st.st_ino != job->data_ino || st.st_dev != job->data_dev)
        return 0;
    complain(help.name, "SRC is the data directory itself; name the tree to import");
    return STATUS_FAILED;
}

/* PREFIX may be written with a slash at its end: the one that joins is added anyway. */
static void fill_job(struct import *import, const char *dir)
{
    struct import_dir *job = &import->job;
    struct stat st;
    job->bucket = import->at.bucket;
    job->prefix = import->at.key;
    job->prefix_length = import->at.key_length;
    if (job->prefix_length && job->prefix[job->prefix_length - 1] == '/')
        job->prefix_length--;
    job->report = report;
    job->arg = import;
    job->stop = &import->stop;
    job->data_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (job->data_fd >= 0 && fstat(job->data_fd, &st) == 0) {
        job->data_dev = st.st_dev;
        job->data_ino = st.st_ino;
    }
}

static unsigned default_readers(void)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    return processors < 2 ? 2 : processors > 8 ? 8 : (unsigned)processors;
}

int cmd_import(int argc, char **argv)
{
    const char *data = NULL;
    uint64_t readers = default_readers();
    struct import import = {.json = false};
    const struct option options[] = {
        OPTION_DATA(&data),
        {OPTION_FLAG, "checksum", 0, &import.job.checksum, NULL,
            "compare contents (MD5) instead of size and time"},
        {OPTION_FLAG, "verify", 0, &import.job.verify, NULL,
            "read every object back from the device and compare"},
        {OPTION_NUMBER, "readers", 0, &readers, "N", "threads that read files (default: the CPUs)"},
        OPTION_JSON(&import.json),
        {OPTION_END},
    };
    int status;
    if (options_parse(&help, options, 3, 3, argc, argv, &status) < 0)
        return status;
    if (strcmp(argv[1], "dir") != 0)
        return options_wrong(&help, "unknown source: this version knows 'dir'");
    if (readers == 0 || readers > TREE_WORKERS_MAX)
        return options_wrong(&help, "--readers: give 1 to %d", TREE_WORKERS_MAX);
    import.source = argv[2];
    import.job.readers = (unsigned)readers;
    status = location_parse_prefix(&help, argv[3], &import.at);
    if (status)
        return status;
    const char *dir = access_dir(&help, data);
    if (!dir)
        return STATUS_USAGE;
    status = open_source(&import);
    if (status)
        return status;
    background_hold_signals();
    status = access_open(&help, dir, ACCESS_CREATE, &import.store);
    if (status == 0) {
        fill_job(&import, dir);
        status = refuse_own_store(&import);
        status = access_close(&help, import.store, status ? status : run(&import));
        if (import.job.data_fd >= 0)
            (void)close(import.job.data_fd); /* opened for its path only */
    }
    (void)close(import.job.root_fd); /* read-only */
    return status;
}
