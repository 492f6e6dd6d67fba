/* Content types from names and first bytes.

   Two small tables: extensions, sorted for a binary search, and the signatures by which the formats
   that web sites serve begin. A name that says something is believed, as web servers do; bytes are
   looked at only for names without a known extension. libmagic knows thousands of formats more, but
   takes 50 to 500 microseconds a file, as long as an import of a hundred small files, and its
   answers change with its database; for these formats its answers are the same.

   SVG and HTML are recognised by their first element. Text that is valid UTF-8 without control
   characters is text/plain. */
#include "import/content_type.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define EXTENSION_MAX 11

struct extension {
    char name[EXTENSION_MAX + 1];
    const char *type;
};

/* Sorted by name. */
static const struct extension extensions[] = {
    {"3gp", "video/3gpp"},
    {"7z", "application/x-7z-compressed"},
    {"aac", "audio/aac"},
    {"apng", "image/apng"},
    {"atom", "application/atom+xml"},
    {"avi", "video/x-msvideo"},
    {"avif", "image/avif"},
    {"bin", "application/octet-stream"},
    {"bmp", "image/bmp"},
    {"bz2", "application/x-bzip2"},
    {"css", "text/css"},
    {"csv", "text/csv"},
    {"doc", "application/msword"},
    {"docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"},
    {"eot", "application/vnd.ms-fontobject"},
    {"epub", "application/epub+zip"},
    {"flac", "audio/flac"},
    {"flv", "video/x-flv"},
    {"gif", "image/gif"},
    {"gz", "application/gzip"},
    {"heic", "image/heic"},
    {"heif", "image/heif"},
    {"htm", "text/html"},
    {"html", "text/html"},
    {"ico", "image/x-icon"},
    {"ics", "text/calendar"},
    {"jfif", "image/jpeg"},
    {"jp2", "image/jp2"},
    {"jpe", "image/jpeg"},
    {"jpeg", "image/jpeg"},
    {"jpg", "image/jpeg"},
    {"js", "text/javascript"},
    {"json", "application/json"},
    {"jsonld", "application/ld+json"},
    {"jxl", "image/jxl"},
    {"m3u8", "application/vnd.apple.mpegurl"},
    {"m4a", "audio/mp4"},
    {"m4v", "video/mp4"},
    {"map", "application/json"},
    {"md", "text/markdown"},
    {"mid", "audio/midi"},
    {"mjs", "text/javascript"},
    {"mkv", "video/x-matroska"},
    {"mov", "video/quicktime"},
    {"mp3", "audio/mpeg"},
    {"mp4", "video/mp4"},
    {"mpeg", "video/mpeg"},
    {"mpg", "video/mpeg"},
    {"odp", "application/vnd.oasis.opendocument.presentation"},
    {"ods", "application/vnd.oasis.opendocument.spreadsheet"},
    {"odt", "application/vnd.oasis.opendocument.text"},
    {"oga", "audio/ogg"},
    {"ogg", "audio/ogg"},
    {"ogv", "video/ogg"},
    {"opus", "audio/ogg"},
    {"otf", "font/otf"},
    {"pdf", "application/pdf"},
    {"png", "image/png"},
    {"ppt", "application/vnd.ms-powerpoint"},
    {"pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"},
    {"psd", "image/vnd.adobe.photoshop"},
    {"rar", "application/vnd.rar"},
    {"rss", "application/rss+xml"},
    {"rtf", "application/rtf"},
    {"svg", "image/svg+xml"},
    {"svgz", "image/svg+xml"},
    {"tar", "application/x-tar"},
    {"tif", "image/tiff"},
    {"tiff", "image/tiff"},
    {"ts", "video/mp2t"},
    {"ttf", "font/ttf"},
    {"txt", "text/plain"},
    {"wasm", "application/wasm"},
    {"wav", "audio/wav"},
    {"weba", "audio/webm"},
    {"webm", "video/webm"},
    {"webmanifest", "application/manifest+json"},
    {"webp", "image/webp"},
    {"wmv", "video/x-ms-wmv"},
    {"woff", "font/woff"},
    {"woff2", "font/woff2"},
    {"xhtml", "application/xhtml+xml"},
    {"xls", "application/vnd.ms-excel"},
    {"xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"},
    {"xml", "application/xml"},
    {"zip", "application/zip"},
    {"zst", "application/zstd"},
};

static int compare_extension(const void *name, const void *extension)
{
    return strcmp(name, ((const struct extension *)extension)->name);
}

const char *content_type_of_name(const char *name, size_t length)
{
    char lower[EXTENSION_MAX + 1];
    const char *dot = memrchr(name, '.', length);
    if (!dot)
        return NULL;
    size_t extension_length = length - (size_t)(dot + 1 - name);
    if (extension_length == 0 || extension_length > EXTENSION_MAX)
        return NULL;
    for (size_t i = 0; i < extension_length; i++) {
        char byte = dot[1 + i];
        lower[i] = byte >= 'A' && byte <= 'Z' ? (char)(byte - 'A' + 'a') : byte;
    }
    lower[extension_length] = 0;
    const struct extension *found = bsearch(lower, extensions,
        sizeof extensions / sizeof extensions[0], sizeof extensions[0], compare_extension);
    return found ? found->type : NULL;
}

struct signature {
    uint8_t offset, length;
    char bytes[13];
    const char *type;
};

static const struct signature signatures[] = {
    {0, 3, "\xff\xd8\xff", "image/jpeg"},
    {0, 8, "\x89PNG\r\n\x1a\n", "image/png"},
    {0, 6, "GIF87a", "image/gif"},
    {0, 6, "GIF89a", "image/gif"},
    {8, 4, "WEBP", "image/webp"}, /* RIFF is looked for apart */
    {8, 4, "WAVE", "audio/wav"},
    {8, 4, "AVI ", "video/x-msvideo"},
    {4, 8, "ftypavif", "image/avif"},
    {4, 8, "ftypavis", "image/avif"},
    {4, 8, "ftypheic", "image/heic"},
    {4, 8, "ftypheix", "image/heic"},
    {4, 8, "ftypmif1", "image/heif"},
    {4, 8, "ftypqt  ", "video/quicktime"},
    {4, 7, "ftypM4A", "audio/mp4"},
    {4, 7, "ftyp3gp", "video/3gpp"},
    {4, 4, "ftyp", "video/mp4"},
    {0, 2, "BM", "image/bmp"}, /* its header's size is looked at apart */
    {0, 4, "II*\0", "image/tiff"},
    {0, 4, "MM\0*", "image/tiff"},
    {0, 4, "\0\0\1\0", "image/x-icon"},
    {0, 12, "\0\0\0\x0cJXL \r\n\x87\n", "image/jxl"},
    {0, 2, "\xff\x0a", "image/jxl"},
    {0, 12, "\0\0\0\x0cjP  \r\n\x87\n", "image/jp2"},
    {0, 4, "8BPS", "image/vnd.adobe.photoshop"},
    {0, 4, "\x1a\x45\xdf\xa3", "video/x-matroska"}, /* or WebM, looked at apart */
    {0, 4, "OggS", "audio/ogg"},
    {0, 4, "fLaC", "audio/flac"},
    {0, 3, "ID3", "audio/mpeg"},
    {0, 5, "%PDF-", "application/pdf"},
    {0, 4, "PK\3\4", "application/zip"},
    {0, 3, "\x1f\x8b\x08", "application/gzip"},
    {0, 4, "\x28\xb5\x2f\xfd", "application/zstd"},
    {0, 4, "wOFF", "font/woff"},
    {0, 4, "wOF2", "font/woff2"},
    {0, 4, "OTTO", "font/otf"},
    {0, 4, "\0asm", "application/wasm"},
};

static bool contains(const uint8_t *head, size_t length, const char *text)
{
    return memmem(head, length, text, strlen(text)) != NULL;
}

/* The two short or shared signatures need a second look. */
static const char *refine(const struct signature *found, const uint8_t *head, size_t length)
{
    if (found->offset == 8 && memcmp(head, "RIFF", 4) != 0)
        return NULL;
    if (found->length == 2 && found->bytes[0] == 'B' &&
        (length < 18 || head[15] || head[16] || head[17] ||
            (head[14] != 40 && head[14] != 12 && head[14] != 108 && head[14] != 124)))
        return NULL;
    if (found->bytes[0] == '\x1a' && contains(head, length < 64 ? length : 64, "webm"))
        return "video/webm";
    return found->type;
}

static bool is_text(const uint8_t *head, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (head[i] >= 0x20 && head[i] < 0x7f)
            continue;
        if (head[i] == '\n' || head[i] == '\r' || head[i] == '\t' || head[i] == '\f')
            continue;
        if (head[i] < 0xc2 || head[i] > 0xf4)
            return false;
        size_t more = head[i] >= 0xf0 ? 3 : head[i] >= 0xe0 ? 2 : 1;
        for (; more; more--) {
            if (i + 1 == length)
                return length == CONTENT_TYPE_SNIFF_BYTES; /* only cut, not broken */
            if ((head[++i] & 0xc0) != 0x80)
                return false;
        }
    }
    return true;
}

static bool begins_with_tag(const uint8_t *at, size_t length, const char *tag)
{
    size_t tag_length = strlen(tag);
    return length > tag_length && strncasecmp((const char *)at, tag, tag_length) == 0;
}

static const char *type_of_text(const uint8_t *head, size_t length)
{
    const uint8_t *at = head;
    size_t left = length;
    if (left >= 3 && memcmp(at, "\xef\xbb\xbf", 3) == 0) {
        at += 3;
        left -= 3;
    }
    while (left && (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t')) {
        at++;
        left--;
    }
    if (begins_with_tag(at, left, "<!doctype html") || begins_with_tag(at, left, "<html") ||
        begins_with_tag(at, left, "<head") || begins_with_tag(at, left, "<body"))
        return "text/html";
    if (begins_with_tag(at, left, "<svg") || begins_with_tag(at, left, "<!doctype svg"))
        return "image/svg+xml";
    if (begins_with_tag(at, left, "<?xml"))
        return contains(at, left, "<svg") ? "image/svg+xml" : "application/xml";
    return "text/plain";
}

const char *content_type_of_bytes(const void *bytes, size_t length)
{
    const uint8_t *head = bytes;
    if (length > CONTENT_TYPE_SNIFF_BYTES)
        length = CONTENT_TYPE_SNIFF_BYTES;
    for (size_t i = 0; i < sizeof signatures / sizeof signatures[0]; i++) {
        const struct signature *s = &signatures[i];
        if (length < (size_t)s->offset + s->length ||
            memcmp(head + s->offset, s->bytes, s->length) != 0)
            continue;
        const char *type = refine(s, head, length);
        if (type)
            return type;
    }
    return length && is_text(head, length) ? type_of_text(head, length) : NULL;
}

const char *content_type(const char *name, size_t name_length, const void *head, size_t length)
{
    const char *type = content_type_of_name(name, name_length);
    if (!type)
        type = content_type_of_bytes(head, length);
    return type ? type : "binary/octet-stream";
}
