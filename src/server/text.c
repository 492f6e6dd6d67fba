/* A growing text. A failed allocation is remembered and everything after it ignored, so that the
   writer checks once at the end. */
#include "server/server_priv.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

static bool reserve(struct text *text, size_t length)
{
    size_t capacity = text->capacity > 0 ? text->capacity : 1024;
    char *bytes;

    if (text->failed)
        return false;
    if (text->length + length <= text->capacity)
        return true;
    while (capacity < text->length + length)
        capacity *= 2;
    bytes = mem_resize(text->bytes, capacity);
    if (bytes == NULL) {
        text->failed = true;
        return false;
    }
    text->bytes = bytes;
    text->capacity = capacity;
    return true;
}

void text_done(struct text *text)
{
    mem_free(text->bytes);
    memset(text, 0, sizeof(*text));
}

void text_add(struct text *text, const void *bytes, size_t length)
{
    if (length == 0 || !reserve(text, length))
        return;
    memcpy(text->bytes + text->length, bytes, length);
    text->length += length;
}

void text_addf(struct text *text, const char *format, ...)
{
    char line[1024];
    va_list arguments;
    int length;

    va_start(arguments, format);
    length = vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    if (length > 0)
        text_add(text, line, (size_t)length < sizeof(line) ? (size_t)length : sizeof(line) - 1);
}

void text_add_html(struct text *text, const void *bytes, size_t length)
{
    const char *from = bytes;

    for (size_t i = 0; i < length; i++) {
        switch (from[i]) {
        case '<':
            text_add(text, "&lt;", 4);
            break;
        case '>':
            text_add(text, "&gt;", 4);
            break;
        case '&':
            text_add(text, "&amp;", 5);
            break;
        case '"':
            text_add(text, "&quot;", 6);
            break;
        case '\'':
            text_add(text, "&#39;", 5);
            break;
        default:
            text_add(text, from + i, 1);
            break;
        }
    }
}

/* --- JSON --- */

/* The length of a UTF-8 sequence, 0 where it is none (RFC 3629: no surrogates, no overlong ones). */
static size_t utf8_length(const uint8_t *at, size_t left)
{
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    size_t length = at[0] < 0x80             ? 1
                    : (at[0] & 0xe0) == 0xc0 ? 2
                    : (at[0] & 0xf0) == 0xe0 ? 3
                    : (at[0] & 0xf8) == 0xf0 ? 4
                                             : 0;
    uint32_t value;

    if (length == 0 || length > left)
        return 0;
    if (length == 1)
        return 1;
    value = at[0] & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        if ((at[i] & 0xc0) != 0x80)
            return 0;
        value = value << 6 | (at[i] & 0x3f);
    }
    if (value < least[length] || value > 0x10ffff || (value >= 0xd800 && value < 0xe000))
        return 0;
    return length;
}

void text_add_json(struct text *text, const void *bytes, size_t length)
{
    const uint8_t *at = bytes, *end = at + length;

    text_add(text, "\"", 1);
    while (at < end) {
        size_t count = utf8_length(at, (size_t)(end - at));

        if (count == 0) {
            text_add(text, "\\ufffd", 6);
            count = 1;
        } else if (*at < 0x20) {
            text_addf(text, "\\u%04x", *at);
        } else {
            if (*at == '"' || *at == '\\')
                text_add(text, "\\", 1);
            text_add(text, at, count);
        }
        at += count;
    }
    text_add(text, "\"", 1);
}
