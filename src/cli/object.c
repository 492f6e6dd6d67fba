/* The one form in which commands show an object's attributes as JSON. */
#include "cli/object.h"

#include <stdio.h>

#include "base/md5.h"
#include "cli/location.h"
#include "cli/output.h"

void object_print_json(const struct location *at, const struct shoal_stat *stat)
{
    struct json_out json = {.out = stdout};
    char hex[33], etag[35], time[40];
    md5_hex(stat->md5, hex);
    snprintf(etag, sizeof etag, "\"%s\"", hex);
    json_put_open(&json, NULL, '{');
    json_put_text(&json, "bucket", at->bucket);
    json_put_bytes(&json, "key", at->key, at->key_length);
    json_put_number(&json, "size", stat->size_bytes);
    json_put_text(&json, "content_type", stat->content_type);
    json_put_text(&json, "etag", etag);
    json_put_text(&json, "modified", human_time(stat->mtime_ns, time));
    json_put_signed(&json, "mtime_ns", stat->mtime_ns);
    json_put_number(&json, "sequence", stat->sequence);
    json_put_close(&json, '}');
    json_put_end(&json);
}
