/* A state machine over single bytes for the framing, and whole runs for the data.

   Strict: CRLF everywhere, at most 16 hex digits, no blanks around the size, nothing but printable
   bytes in extensions and trailers, a trailer line must have a name and a colon. Extensions and
   trailers mean nothing here; their total is limited so that they cost only so much. */
#include "http/chunked.h"

#include <stdbool.h>

static int hex_value(uint8_t c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

static bool is_text(uint8_t c)
{
    return c == '\t' || (c >= ' ' && c != 0x7f);
}

static bool is_name(uint8_t c)
{
    return c > ' ' && c < 0x7f && c != ':' && c != ',' && c != ';' && c != '(' && c != ')' &&
           c != '<' && c != '>' && c != '"' && c != '/' && c != '[' && c != ']' && c != '{' &&
           c != '}' && c != '?' && c != '=' && c != '@' && c != '\\';
}

static int size_byte(struct http_chunked *chunked, uint8_t c)
{
    int digit = hex_value(c);

    if (digit >= 0) {
        if (++chunked->digits > 16 || chunked->left >> 59 != 0)
            return -400;
        chunked->left = chunked->left << 4 | (uint64_t)digit;
        return 0;
    }
    if (chunked->digits == 0)
        return -400;
    if (c == '\r')
        chunked->state = CHUNK_SIZE_LF;
    else if (c == ';')
        chunked->state = CHUNK_EXTENSION;
    else
        return -400;
    return 0;
}

static int extension_byte(struct http_chunked *chunked, uint8_t c)
{
    if (++chunked->extension_bytes > HTTP_EXTENSIONS_MAX)
        return -400;
    if (c == '\r')
        chunked->state = CHUNK_SIZE_LF;
    else if (!is_text(c))
        return -400;
    return 0;
}

static int expect(struct http_chunked *chunked, uint8_t c, uint8_t wanted, enum chunk_state next)
{
    if (c != wanted)
        return -400;
    chunked->state = next;
    return 0;
}

static int size_end(struct http_chunked *chunked, uint8_t c)
{
    chunked->digits = 0;
    return expect(chunked, c, '\n', chunked->left > 0 ? CHUNK_DATA : CHUNK_TRAILER_START);
}

static int trailer_byte(struct http_chunked *chunked, uint8_t c)
{
    if (++chunked->trailer_bytes > HTTP_TRAILERS_MAX)
        return -400;
    switch (chunked->state) {
    case CHUNK_TRAILER_START:
        if (c == '\r')
            return expect(chunked, c, '\r', CHUNK_END_LF);
        chunked->state = CHUNK_TRAILER_NAME;
        return is_name(c) ? 0 : -400;
    case CHUNK_TRAILER_NAME:
        if (c == ':')
            chunked->state = CHUNK_TRAILER_VALUE;
        else if (!is_name(c))
            return -400;
        return 0;
    default: /* CHUNK_TRAILER_VALUE */
        if (c == '\r')
            chunked->state = CHUNK_TRAILER_LF;
        else if (!is_text(c))
            return -400;
        return 0;
    }
}

static int framing_byte(struct http_chunked *chunked, uint8_t c)
{
    switch (chunked->state) {
    case CHUNK_SIZE:
        return size_byte(chunked, c);
    case CHUNK_EXTENSION:
        return extension_byte(chunked, c);
    case CHUNK_SIZE_LF:
        return size_end(chunked, c);
    case CHUNK_DATA_CR:
        return expect(chunked, c, '\r', CHUNK_DATA_LF);
    case CHUNK_DATA_LF:
        return expect(chunked, c, '\n', CHUNK_SIZE);
    case CHUNK_TRAILER_LF:
        return expect(chunked, c, '\n', CHUNK_TRAILER_START);
    case CHUNK_END_LF:
        return expect(chunked, c, '\n', CHUNK_DONE);
    default:
        return trailer_byte(chunked, c);
    }
}

int64_t http_chunked_take(struct http_chunked *chunked, const uint8_t *bytes, size_t length,
    const uint8_t **ret_data, size_t *ret_length)
{
    size_t at = 0;

    *ret_data = bytes;
    *ret_length = 0;
    while (at < length && chunked->state != CHUNK_DONE) {
        if (chunked->state == CHUNK_DATA) {
            size_t run = length - at < chunked->left ? length - at : (size_t)chunked->left;

            *ret_data = bytes + at;
            *ret_length = run;
            chunked->left -= run;
            if (chunked->left == 0)
                chunked->state = CHUNK_DATA_CR;
            return (int64_t)(at + run);
        }
        if (framing_byte(chunked, bytes[at]) != 0)
            return -400;
        at++;
    }
    return (int64_t)at;
}
