/* content_type: names, first bytes, and what is only nearly one of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "import/content_type.h"

static const char *of_name(const char *name)
{
    return content_type_of_name(name, strlen(name));
}

static void names_tell_types(void **state)
{
    assert_string_equal(of_name("a/b/cat.jpg"), "image/jpeg");
    assert_string_equal(of_name("CAT.JPEG"), "image/jpeg");
    assert_string_equal(of_name("x.tar.gz"), "application/gzip");
    assert_string_equal(of_name("3.3gp"), "video/3gpp");
    assert_string_equal(of_name("z.zst"), "application/zstd");
    assert_string_equal(of_name("x.webmanifest"), "application/manifest+json");
    assert_string_equal(of_name(".png"), "image/png");
    assert_null(of_name("jpg"));
    assert_null(of_name("x."));
    assert_null(of_name("x.jpg2"));
    assert_null(of_name("x.jpg/y"));
    assert_null(of_name("x.averyverylongextension"));
    assert_null(of_name(""));
    assert_null(content_type_of_name("x.jp\0", 5));
}

static void only_the_given_bytes_of_a_name_count(void **state)
{
    assert_string_equal(content_type_of_name("x.pngwhatever", 5), "image/png");
}

static void first_bytes_tell_types(void **state)
{
    static const struct {
        const char *bytes;
        size_t length;
        const char *type;
    } cases[] = {
        {"\xff\xd8\xff\xe0", 4, "image/jpeg"},
        {"\x89PNG\r\n\x1a\n", 8, "image/png"},
        {"GIF89a", 6, "image/gif"},
        {"RIFF\0\0\0\0WEBPVP8 ", 16, "image/webp"},
        {"RIFF\0\0\0\0WAVEfmt ", 16, "audio/wav"},
        {"\0\0\0\x20"
         "ftypavif",
            12, "image/avif"},
        {"\0\0\0\x20"
         "ftypisom",
            12, "video/mp4"},
        {"\x1a\x45\xdf\xa3....webm", 12, "video/webm"},
        {"\x1a\x45\xdf\xa3....matroska", 16, "video/x-matroska"},
        {"%PDF-1.7", 8, "application/pdf"},
        {"<!DOCTYPE html><html>", 21, "text/html"},
        {"\xef\xbb\xbf \n<HTML >", 12, "text/html"},
        {"<?xml version='1.0'?><svg >", 27, "image/svg+xml"},
        {"<?xml version='1.0'?><rss >", 27, "application/xml"},
        {"<svg xmlns=''>", 14, "image/svg+xml"},
        {"h\xc3\xa9llo\n", 7, "text/plain"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *type = content_type_of_bytes(cases[i].bytes, cases[i].length);
        assert_non_null(type);
        assert_string_equal(type, cases[i].type);
    }
}

static void what_is_nearly_something_is_not(void **state)
{
    assert_null(content_type_of_bytes("", 0));
    assert_null(content_type_of_bytes("\xff\xd8", 2));
    assert_null(content_type_of_bytes("XXXX\0\0\0\0WEBP", 12));
    assert_null(content_type_of_bytes("text with a \0 byte", 18));
    assert_null(content_type_of_bytes("broken \xc3(", 9));
    assert_null(content_type_of_bytes("cut at the end \xe2\x82", 17));
    /* "BM" begins many words. */
    assert_string_equal(content_type_of_bytes("BMW and others are cars", 23), "text/plain");
}

/* The head is cut anywhere, which must not make text of a long file binary. */
static void text_cut_within_a_character_is_text(void **state)
{
    char head[CONTENT_TYPE_SNIFF_BYTES + 10];
    memset(head, 'a', sizeof head);
    memcpy(head + CONTENT_TYPE_SNIFF_BYTES - 1, "\xc3\xa9", 2);
    assert_string_equal(content_type_of_bytes(head, sizeof head), "text/plain");
}

static void every_length_of_every_head_is_safe(void **state)
{
    /* Exact allocations, so that the sanitizer sees a read behind the end. */
    static const char head[] = "RIFF\0\0\0\0WEBP\0\0\0\x0c"
                               "ftypavif%PDF-\x1a\x45\xdf\xa3webm<svg>";
    for (size_t length = 0; length < sizeof head; length++)
        for (size_t from = 0; from + length <= sizeof head; from++) {
            void *exact = test_malloc(length + 1);
            memcpy(exact, head + from, length);
            (void)content_type_of_bytes(exact, length);
            test_free(exact);
        }
}

static void names_come_first_and_there_is_always_a_type(void **state)
{
    assert_string_equal(content_type("x.png", 5, "GIF89a", 6), "image/png");
    assert_string_equal(content_type("x.unknown", 9, "GIF89a", 6), "image/gif");
    assert_string_equal(content_type("x", 1, "\0\1", 2), "binary/octet-stream");
    assert_string_equal(content_type("x", 1, "", 0), "binary/octet-stream");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_tell_types),
        cmocka_unit_test(only_the_given_bytes_of_a_name_count),
        cmocka_unit_test(first_bytes_tell_types),
        cmocka_unit_test(what_is_nearly_something_is_not),
        cmocka_unit_test(text_cut_within_a_character_is_text),
        cmocka_unit_test(every_length_of_every_head_is_safe),
        cmocka_unit_test(names_come_first_and_there_is_always_a_type),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
