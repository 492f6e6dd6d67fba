/* shoal export BUCKET[/PREFIX] DIR: copies objects into a directory tree.

   src/import does the work; here the arguments are read, the target is made and opened, progress is
   shown and signals stop it cleanly. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/access.h"
#include "cli/background.h"
#include "cli/commands.h"
#include "cli/location.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "import/export_dir.h"

static const struct command_help help = {
    .name = "export",
    .usage = "export BUCKET[/PREFIX] DIR",
    .about =
        "Writes each object of the bucket, or each whose key begins with PREFIX/, as a file below\n"
        "DIR, which is created if it does not exist. Names are the keys, without PREFIX/, byte "
        "for\n"
        "byte; modification times are kept. Keys that can't be file names ('.' and '..', empty\n"
        "segments, a slash at either end, segments over 255 bytes, 'a/b' beside 'a') are named,\n"
        "the rest is exported, and the status is 1. Nothing is written outside DIR, and links in\n"
        "it are not followed.\n",
};

struct export
{
    struct shoal *store;
    struct location at;
    char prefix[SHOAL_KEY_MAX + 1];
    bool json;
    uint64_t expected;
    struct export_dir job;
    struct export_counts counts;
    atomic_bool stop;
    struct progress progress;
};

static void report(void *arg, bool damaged, const void *key, size_t key_length, const char *text)
{
    struct export *export = arg;
    char shown[ESCAPED_BYTES(SHOAL_KEY_MAX)];
    (void)damaged; /* counted already */
    progress_complain(&export->progress, help.name, "%s/%s: not exported: %s", export->at.bucket,
        escape(key, key_length, shown, sizeof shown), text);
}

static void tick(void *arg)
{
    struct export *export = arg;
    struct export_counts *counts = &export->counts;
    struct progress_state state = {
        .items = "objects",
        .done = counts->exported + counts->refused + counts->failed + counts->damaged,
        .all = export->expected,
        .bytes = counts->bytes,
    };
    progress_show(&export->progress, &state);
}

static int work(void *arg)
{
    struct export *export = arg;
    return export_dir_run(&export->job, &export->counts);
}

static void print_result(struct export *export, bool complete)
{
    struct export_counts *counts = &export->counts;
    struct json_out json = {.out = stdout};
    char exported[32], refused[32], failed[32], bytes[16];
    if (!export->json) {
        printf("%s exported (%s), %s refused, %s failed\n", human_count(counts->exported, exported),
            human_bytes(counts->bytes, bytes), human_count(counts->refused, refused),
            human_count(counts->failed + counts->damaged, failed));
        return;
    }
    json_put_open(&json, NULL, '{');
    json_put_number(&json, "exported", counts->exported);
    json_put_number(&json, "bytes", counts->bytes);
    json_put_number(&json, "refused", counts->refused);
    json_put_number(&json, "failed", counts->failed);
    json_put_number(&json, "damaged", counts->damaged);
    json_put_bool(&json, "complete", complete);
    json_put_close(&json, '}');
    json_put_end(&json);
}

static int conclude(struct export *export, const char *target, int rc, bool interrupted)
{
    const struct export_counts *counts = &export->counts;
    if (rc < 0) {
        complain(help.name, "%s to %s: stopped: %s%s", export->at.bucket, target,
            shoal_strerror(rc), access_advice(rc));
        return access_status(rc);
    }
    if (interrupted) {
        complain(help.name, "stopped by a signal; the export is incomplete");
        return counts->refused || counts->failed ? STATUS_FAILED : STATUS_DONE;
    }
    if (counts->damaged)
        return STATUS_DAMAGE;
    if (export->at.key_length && !counts->exported && !counts->refused && !counts->failed)
        return access_failed(
            &help, export->at.bucket, export->at.key, export->at.key_length, SHOAL_E_ABSENT);
    return counts->refused || counts->failed ? STATUS_FAILED : STATUS_DONE;
}

static int run(struct export *export, const char *target)
{
    const struct background background = {work, tick, export, &export->stop};
    struct shoal_bucket bucket;
    uint64_t bytes;
    bool interrupted;
    int code = shoal_bucket_stat(export->store, export->at.bucket, &bucket);
    if (code < 0)
        return access_failed(&help, export->at.bucket, NULL, 0, code);
    /* Without the number of objects there is no time left to show, and that is all. */
    if (export->at.key_length == 0 &&
        shoal_bucket_usage(export->store, export->at.bucket, &export->expected, &bytes) < 0)
        export->expected = 0;
    export->job.store = export->store;
    progress_init(&export->progress, "exporting");
    int rc = background_run(&background, &interrupted);
    progress_done(&export->progress);
    int status = conclude(export, target, rc, interrupted);
    print_result(export, rc == 0 && !interrupted);
    return status;
}

static int open_target(struct export *export, const char *target)
{
    char shown[512];
    int rc = 0;
    if (mkdir(target, 0777) < 0 && errno != EEXIST)
        rc = -errno;
    if (rc == 0) {
        export->job.root_fd = open(target, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        rc = export->job.root_fd < 0 ? -errno : 0;
    }
    if (rc == 0)
        return 0;
    complain(help.name, "%s: %s%s", escape(target, strlen(target), shown, sizeof shown),
        strerror(-rc), rc == -ENOENT ? "; create the directory above it" : access_advice(rc));
    return STATUS_FAILED;
}

static void fill_job(struct export *export)
{
    struct export_dir *job = &export->job;
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    job->bucket = export->at.bucket;
    job->prefix = export->prefix;
    job->prefix_length = export->at.key_length;
    memcpy(export->prefix, export->at.key, export->at.key_length);
    if (job->prefix_length && export->prefix[job->prefix_length - 1] != '/')
        export->prefix[job->prefix_length++] = '/';
    job->writers = processors < 2 ? 2 : processors > 8 ? 8 : (unsigned)processors;
    job->report = report;
    job->arg = export;
    job->stop = &export->stop;
}

int cmd_export(int argc, char **argv)
{
    const char *data = NULL;
    struct export export = {.json = false};
    const struct option options[] = {
        OPTION_DATA(&data),
        OPTION_JSON(&export.json),
        {OPTION_END},
    };
    int status;
    if (options_parse(&help, options, 2, 2, argc, argv, &status) < 0)
        return status;
    status = location_parse_prefix(&help, argv[1], &export.at);
    if (status)
        return status;
    /* The store first: a mistaken --data must not leave an empty directory behind. */
    background_hold_signals();
    status = access_open(&help, data, ACCESS_READ, &export.store);
    if (status)
        return status;
    status = open_target(&export, argv[2]);
    if (status == 0) {
        fill_job(&export);
        status = run(&export, argv[2]);
        (void)close(export.job.root_fd); /* synced before */
    }
    return access_close(&help, export.store, status);
}
