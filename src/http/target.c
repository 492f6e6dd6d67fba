/* Percent coding and the two-part path.

   The path is split before it is decoded, so that an escaped slash belongs to what it stands in.
   Keys are bytes: after the one decoding they are used as they are. */
#include "http/target.h"

#include <string.h>

static int hex_value(uint8_t c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int http_percent_decode(const uint8_t *text, size_t length, uint8_t *out, size_t size)
{
    size_t count = 0;

    for (size_t i = 0; i < length; i++) {
        uint8_t c = text[i];

        if (c == '%') {
            int high = i + 2 < length ? hex_value(text[i + 1]) : -1;
            int low = i + 2 < length ? hex_value(text[i + 2]) : -1;

            if (high < 0 || low < 0 || (high == 0 && low == 0))
                return -400;
            c = (uint8_t)(high << 4 | low);
            i += 2;
        }
        if (count == size)
            return -414;
        out[count++] = c;
    }
    return (int)count;
}

void http_target_split(const uint8_t *path, size_t length, struct http_target *ret_target)
{
    const uint8_t *slash;

    memset(ret_target, 0, sizeof(*ret_target));
    if (length == 0)
        return;
    ret_target->bucket_start = 1;
    slash = memchr(path + 1, '/', length - 1);
    if (slash == NULL) {
        ret_target->bucket_length = length - 1;
        return;
    }
    ret_target->has_slash = true;
    ret_target->bucket_length = (size_t)(slash - path) - 1;
    ret_target->key_start = (size_t)(slash - path) + 1;
    ret_target->key_length = length - ret_target->key_start;
}

bool http_query_find(const uint8_t *query, size_t length, const char *name,
    const uint8_t **ret_value, size_t *ret_length)
{
    size_t name_length = strlen(name);
    const uint8_t *at = query, *end = query + length;

    while (at < end) {
        const uint8_t *stop = memchr(at, '&', (size_t)(end - at));
        size_t part = (size_t)((stop != NULL ? stop : end) - at);

        if (part > name_length && memcmp(at, name, name_length) == 0 && at[name_length] == '=') {
            *ret_value = at + name_length + 1;
            *ret_length = part - name_length - 1;
            return true;
        }
        at += part + 1;
    }
    return false;
}

static bool is_plain(uint8_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_' || c == '~' || c == '/';
}

size_t http_percent_encode(const uint8_t *bytes, size_t length, char *out)
{
    static const char digits[] = "0123456789ABCDEF";
    size_t count = 0;

    for (size_t i = 0; i < length; i++) {
        if (is_plain(bytes[i])) {
            out[count++] = (char)bytes[i];
            continue;
        }
        out[count++] = '%';
        out[count++] = digits[bytes[i] >> 4];
        out[count++] = digits[bytes[i] & 15];
    }
    return count;
}
