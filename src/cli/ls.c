/* shoal ls [BUCKET[/PREFIX]]: lists buckets, or the keys of one that begin with PREFIX.

   Everything is printed as it comes from the store's scan, in byte order and in constant memory.
   On a terminal, keys are escaped; elsewhere their bytes are printed as they are, and -0 ends each
   with a NUL, so that a key with a newline in it can't be taken for two. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/md5.h"
#include "cli/access.h"
#include "cli/commands.h"
#include "cli/location.h"
#include "cli/options.h"
#include "cli/output.h"

static const struct command_help help = {
    .name = "ls",
    .usage = "ls [BUCKET[/PREFIX]]",
    .about = "Lists the buckets with their objects and bytes, or the keys of a bucket that begin\n"
             "with PREFIX: size, modification time (UTC) and key, in byte order. Keys are escaped\n"
             "on a terminal and printed byte for byte elsewhere. In JSON, a key that is not UTF-8\n"
             "has its exact bytes in key_base64.\n",
};

struct ls {
    struct shoal *store;
    struct location at;
    bool json, zero;
    bool terminal;
};

static int list_buckets(struct ls *ls)
{
    struct shoal_bucket *buckets;
    size_t count;
    struct json_out json = {.out = stdout};
    char time[40];
    int code = shoal_bucket_list(ls->store, &buckets, &count);
    if (code < 0)
        return access_failed(&help, "buckets", NULL, 0, code);
    if (ls->json)
        json_put_open(&json, NULL, '[');
    for (size_t i = 0; i < count && code == 0; i++) {
        const struct shoal_bucket *b = &buckets[i];
        uint64_t objects = 0, bytes = 0;
        code = shoal_bucket_usage(ls->store, b->name, &objects, &bytes);
        if (code < 0)
            break;
        human_time(b->created_ms * 1000000, time);
        if (ls->json) {
            json_put_open(&json, NULL, '{');
            json_put_text(&json, "name", b->name);
            json_put_bool(&json, "public", b->is_public);
            json_put_text(&json, "created", time);
            json_put_number(&json, "objects", objects);
            json_put_number(&json, "bytes", bytes);
            json_put_close(&json, '}');
        } else if (ls->zero) {
            printf("%s%c", b->name, 0);
        } else {
            printf("%-7s  %12llu objects  %15llu bytes  %s  %s\n",
                b->is_public ? "public" : "private", (unsigned long long)objects,
                (unsigned long long)bytes, time, b->name);
        }
    }
    if (ls->json) {
        json_put_close(&json, ']');
        json_put_end(&json);
    }
    free(buckets);
    return code < 0 ? access_failed(&help, "buckets", NULL, 0, code) : STATUS_DONE;
}

static void print_json(struct json_out *json, const struct shoal_entry *entry)
{
    char hex[33], etag[35], time[40];
    md5_hex(entry->md5, hex);
    snprintf(etag, sizeof etag, "\"%s\"", hex);
    json_put_open(json, NULL, '{');
    json_put_bytes(json, "key", entry->key, entry->key_length);
    json_put_number(json, "size", entry->size_bytes);
    json_put_text(json, "modified", human_time(entry->mtime_ns, time));
    json_put_signed(json, "mtime_ns", entry->mtime_ns);
    json_put_text(json, "etag", etag);
    json_put_close(json, '}');
}

static void print_entry(const struct ls *ls, const struct shoal_entry *entry)
{
    char shown[ESCAPED_BYTES(SHOAL_KEY_MAX)], time[40];
    if (!ls->zero)
        printf("%12llu  %s  ", (unsigned long long)entry->size_bytes,
            human_time(entry->mtime_ns, time));
    if (ls->terminal)
        fputs(escape(entry->key, entry->key_length, shown, sizeof shown), stdout);
    else
        fwrite(entry->key, 1, entry->key_length, stdout);
    putchar(ls->zero ? 0 : '\n');
}

static int list_keys(struct ls *ls)
{
    struct json_out json = {.out = stdout};
    struct shoal_scan *scan;
    struct shoal_entry entry;
    int code =
        shoal_scan_open(ls->store, ls->at.bucket, ls->at.key, ls->at.key_length, "", 0, &scan);
    if (code < 0)
        return access_failed(&help, ls->at.bucket, NULL, 0, code);
    if (ls->json)
        json_put_open(&json, NULL, '[');
    /* A reader that has gone away needs no further keys. */
    while ((code = shoal_scan_next(scan, &entry)) > 0 && !ferror(stdout)) {
        if (ls->json)
            print_json(&json, &entry);
        else
            print_entry(ls, &entry);
    }
    shoal_scan_close(scan);
    if (ls->json) {
        json_put_close(&json, ']');
        json_put_end(&json);
    }
    return code < 0 ? access_failed(&help, ls->at.bucket, NULL, 0, code) : STATUS_DONE;
}

int cmd_ls(int argc, char **argv)
{
    const char *data = NULL;
    struct ls ls = {.terminal = isatty(STDOUT_FILENO) == 1};
    const struct option options[] = {
        OPTION_DATA(&data),
        OPTION_JSON(&ls.json),
        {OPTION_FLAG, "null", '0', &ls.zero, NULL, "print names only, each ended by a NUL byte"},
        {OPTION_END},
    };
    int status;
    int operands = options_parse(&help, options, 0, 1, argc, argv, &status);
    if (operands < 0)
        return status;
    if (ls.json && ls.zero)
        return options_wrong(&help, "--json and --null exclude each other");
    status = operands ? location_parse_prefix(&help, argv[1], &ls.at) : 0;
    if (status == 0)
        status = access_open(&help, data, ACCESS_READ, &ls.store);
    if (status)
        return status;
    return access_close(&help, ls.store, operands ? list_keys(&ls) : list_buckets(&ls));
}
