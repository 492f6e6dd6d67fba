/* shoal stat BUCKET/KEY: shows what is known about an object. */
#include <stdio.h>
#include <string.h>

#include "base/md5.h"
#include "cli/access.h"
#include "cli/commands.h"
#include "cli/location.h"
#include "cli/object.h"
#include "cli/options.h"
#include "cli/output.h"

static const struct command_help help = {
    .name = "stat",
    .usage = "stat BUCKET/KEY",
    .about = "Shows an object's size, content type, ETag, modification time and sequence. The\n"
             "record's header and key are verified, its bytes are not.\n",
};

static void print_stat(const struct location *at, const struct shoal_stat *stat)
{
    char shown[ESCAPED_BYTES(SHOAL_KEY_MAX)], type[ESCAPED_BYTES(SHOAL_TYPE_MAX)];
    char hex[33], time[40], count[32];
    md5_hex(stat->md5, hex);
    printf("object    %s/%s\n", at->bucket, escape(at->key, at->key_length, shown, sizeof shown));
    printf("size      %s bytes\n", human_count(stat->size_bytes, count));
    printf("type      %s\n",
        escape(stat->content_type, strlen(stat->content_type), type, sizeof type));
    printf("etag      \"%s\"\n", hex);
    printf("modified  %s\n", human_time(stat->mtime_ns, time));
    printf("sequence  %llu\n", (unsigned long long)stat->sequence);
}

int cmd_stat(int argc, char **argv)
{
    const char *data = NULL;
    bool json = false;
    struct location at;
    struct shoal *store;
    struct shoal_stat stat;
    const struct option options[] = {
        OPTION_DATA(&data),
        OPTION_JSON(&json),
        {OPTION_END},
    };
    int status;
    if (options_parse(&help, options, 1, 1, argc, argv, &status) < 0)
        return status;
    status = location_parse_object(&help, argv[1], &at);
    if (status == 0)
        status = access_open(&help, data, ACCESS_READ, &store);
    if (status)
        return status;
    int code = shoal_stat(store, at.bucket, at.key, at.key_length, &stat);
    if (code < 0)
        status = access_failed(&help, at.bucket, at.key, at.key_length, code);
    status = access_close(&help, store, status);
    if (status == STATUS_DONE && json)
        object_print_json(&at, &stat);
    else if (status == STATUS_DONE)
        print_stat(&at, &stat);
    return status;
}
