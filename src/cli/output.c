/* Readable and machine-readable output.

   Keys and file names are bytes from strangers: they reach a terminal only escaped, so that none
   can move the cursor or fake a line of output, and JSON only as valid UTF-8.

   Nothing here fails on its own account: write errors stay in the FILE, and main.c looks for them
   on standard output when the command is over. */
#include "cli/output.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>

size_t utf8_length(const uint8_t *at, size_t available)
{
    if (available == 0)
        return 0;
    if (at[0] < 0x80)
        return 1;
    size_t length = at[0] >= 0xf0 ? 4 : at[0] >= 0xe0 ? 3 : 2;
    if (at[0] < 0xc2 || at[0] > 0xf4 || length > available)
        return 0;
    for (size_t i = 1; i < length; i++)
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    /* Overlong forms, surrogates and what lies above U+10FFFF. */
    if ((at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xed && at[1] > 0x9f) ||
        (at[0] == 0xf0 && at[1] < 0x90) || (at[0] == 0xf4 && at[1] > 0x8f))
        return 0;
    return length;
}

/* Controls of both sets, and the characters that reorder or break lines. */
static bool is_unsafe(const uint8_t *at, size_t length)
{
    if (length == 1)
        return at[0] < 0x20 || at[0] == 0x7f || at[0] == '\\';
    if (length == 2)
        return at[0] == 0xc2 && at[1] < 0xa0;
    if (length == 3 && at[0] == 0xe2)
        return (at[1] == 0x80 &&
                   ((at[2] >= 0xa8 && at[2] <= 0xae) || at[2] == 0x8e || at[2] == 0x8f)) ||
               (at[1] == 0x81 && at[2] >= 0xa6 && at[2] <= 0xa9);
    return false;
}

/* The promise is one line that does a terminal no harm, whatever texts from elsewhere hold. What
   wants to be read exactly has been escaped before. */
static void make_safe(char *line)
{
    size_t left = strlen(line);
    for (uint8_t *at = (uint8_t *)line; left;) {
        size_t width = utf8_length(at, left);
        if (width == 0 || (is_unsafe(at, width) && *at != '\\'))
            memset(at, '?', width ? width : 1);
        at += width ? width : 1;
        left -= width ? width : 1;
    }
}

void complain(const char *command, const char *format, ...)
{
    /* One buffer and one write, so that lines of several threads do not mix. */
    char line[8192];
    va_list list;
    va_start(list, format);
    int head =
        snprintf(line, sizeof line, "shoal%s%s: ", command ? " " : "", command ? command : "");
    (void)vsnprintf(line + head, sizeof line - (size_t)head, format, list);
    va_end(list);
    make_safe(line);
    fprintf(stderr, "%s\n", line);
}

static size_t escape_one(const uint8_t *at, size_t length, char text[17])
{
    static const char short_forms[] = "\n\t\r\\";
    static const char letters[] = "ntr\\";
    const char *found = length == 1 && at[0] ? strchr(short_forms, at[0]) : NULL;
    if (found)
        return (size_t)snprintf(text, 17, "\\%c", letters[found - short_forms]);
    size_t used = 0;
    for (size_t i = 0; i < length; i++)
        used += (size_t)snprintf(text + used, 17 - used, "\\x%02x", at[i]);
    return used;
}

char *escape(const void *bytes, size_t length, char *ret_text, size_t room)
{
    static const char ellipsis[] = "…";
    const uint8_t *at = bytes;
    size_t used = 0, cut = 0; /* cut: the last place where an ellipsis fits */
    while (length) {
        size_t width = utf8_length(at, length);
        size_t taken = width ? width : 1;
        char text[17];
        size_t text_length = taken;
        if (width && !is_unsafe(at, width))
            memcpy(text, at, width);
        else
            text_length = escape_one(at, taken, text);
        if (used + sizeof ellipsis <= room)
            cut = used;
        if (used + text_length + 1 > room)
            break;
        memcpy(ret_text + used, text, text_length);
        used += text_length;
        at += taken;
        length -= taken;
    }
    if (length && cut + sizeof ellipsis <= room) {
        memcpy(ret_text + cut, ellipsis, sizeof ellipsis - 1);
        used = cut + sizeof ellipsis - 1;
    }
    if (room)
        ret_text[used] = 0;
    return ret_text;
}

char *human_bytes(uint64_t bytes, char ret_text[16])
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    if (bytes < 1024) {
        snprintf(ret_text, 16, "%u B", (unsigned)bytes);
        return ret_text;
    }
    double value = (double)bytes / 1024;
    unsigned unit = 0;
    while (value >= 1023.95 && unit < 5) {
        value /= 1024;
        unit++;
    }
    snprintf(ret_text, 16, "%.1f %s", value, units[unit]);
    return ret_text;
}

char *human_time(int64_t time_ns, char ret_text[40])
{
    time_t seconds = (time_t)(time_ns / 1000000000);
    if (time_ns % 1000000000 < 0)
        seconds--;
    struct tm tm;
    if (!gmtime_r(&seconds, &tm) || strftime(ret_text, 40, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
        snprintf(ret_text, 40, "@%lld", (long long)seconds);
    return ret_text;
}

char *human_count(uint64_t count, char ret_text[32])
{
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%llu", (unsigned long long)count);
    char *at = ret_text;
    for (int i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0)
            *at++ = ',';
        *at++ = digits[i];
    }
    *at = 0;
    return ret_text;
}

/* --- JSON --- */

static void put_string(FILE *out, const uint8_t *at, size_t length)
{
    putc('"', out);
    while (length) {
        size_t width = utf8_length(at, length);
        if (width == 0)
            fputs("\\ufffd", out);
        else if (width == 1 && (at[0] < 0x20 || at[0] == 0x7f))
            fprintf(out, "\\u%04x", at[0]);
        else if (width == 1 && (at[0] == '"' || at[0] == '\\'))
            fprintf(out, "\\%c", at[0]);
        else
            fwrite(at, 1, width, out);
        at += width ? width : 1;
        length -= width ? width : 1;
    }
    putc('"', out);
}

static void begin(struct json_out *json, const char *name)
{
    if (json->follows)
        putc(',', json->out);
    json->follows = true;
    if (name) {
        put_string(json->out, (const uint8_t *)name, strlen(name));
        putc(':', json->out);
    }
}

void json_put_open(struct json_out *json, const char *name, char bracket)
{
    begin(json, name);
    putc(bracket, json->out);
    json->follows = false;
}

void json_put_close(struct json_out *json, char bracket)
{
    putc(bracket, json->out);
    json->follows = true;
}

void json_put_text(struct json_out *json, const char *name, const char *text)
{
    begin(json, name);
    put_string(json->out, (const uint8_t *)text, strlen(text));
}

static bool is_utf8(const uint8_t *at, size_t length)
{
    while (length) {
        size_t width = utf8_length(at, length);
        if (width == 0)
            return false;
        at += width;
        length -= width;
    }
    return true;
}

static void put_base64(FILE *out, const uint8_t *at, size_t length)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (; length; at += length < 3 ? length : 3, length -= length < 3 ? length : 3) {
        uint32_t group = (uint32_t)at[0] << 16;
        if (length > 1)
            group |= (uint32_t)at[1] << 8;
        if (length > 2)
            group |= at[2];
        putc(digits[group >> 18], out);
        putc(digits[group >> 12 & 63], out);
        putc(length > 1 ? digits[group >> 6 & 63] : '=', out);
        putc(length > 2 ? digits[group & 63] : '=', out);
    }
}

void json_put_bytes(struct json_out *json, const char *name, const void *bytes, size_t length)
{
    begin(json, name);
    put_string(json->out, bytes, length);
    if (is_utf8(bytes, length))
        return;
    fprintf(json->out, ",\"%s_base64\":\"", name);
    put_base64(json->out, bytes, length);
    putc('"', json->out);
}

void json_put_number(struct json_out *json, const char *name, uint64_t number)
{
    begin(json, name);
    fprintf(json->out, "%llu", (unsigned long long)number);
}

void json_put_signed(struct json_out *json, const char *name, int64_t number)
{
    begin(json, name);
    fprintf(json->out, "%lld", (long long)number);
}

void json_put_real(struct json_out *json, const char *name, double number)
{
    begin(json, name);
    fprintf(json->out, "%.6g", isfinite(number) ? number : 0.0);
}

void json_put_bool(struct json_out *json, const char *name, bool value)
{
    begin(json, name);
    fputs(value ? "true" : "false", json->out);
}

void json_put_end(struct json_out *json)
{
    putc('\n', json->out);
}
