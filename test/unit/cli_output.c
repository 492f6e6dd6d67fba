/* output: escaping, UTF-8, readable numbers and times, JSON. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "cli/output.h"

static void safe_text_stays(void **state)
{
    char text[64];
    assert_string_equal(escape("a/b c", 5, text, sizeof text), "a/b c");
    assert_string_equal(escape("\xc3\xa9\xe2\x82\xac\xf0\x9f\x90\x9f", 9, text, sizeof text),
        "\xc3\xa9\xe2\x82\xac\xf0\x9f\x90\x9f");
    assert_string_equal(escape("", 0, text, sizeof text), "");
}

static void unsafe_bytes_are_escaped(void **state)
{
    char text[64];
    assert_string_equal(escape("a\nb\t\r\\", 6, text, sizeof text), "a\\nb\\t\\r\\\\");
    assert_string_equal(escape("\x1b[31m\0\x7f", 7, text, sizeof text), "\\x1b[31m\\x00\\x7f");
    assert_string_equal(escape("\xff\xc3(\xe2\x82", 5, text, sizeof text), "\\xff\\xc3(\\xe2\\x82");
    /* C1 controls, line separators and marks that reorder text. */
    assert_string_equal(escape("\xc2\x9b", 2, text, sizeof text), "\\xc2\\x9b");
    assert_string_equal(escape("\xe2\x80\xae", 3, text, sizeof text), "\\xe2\\x80\\xae");
    assert_string_equal(escape("\xe2\x80\xa8", 3, text, sizeof text), "\\xe2\\x80\\xa8");
}

/* In every size of buffer the result is ended, within bounds, and whole characters. */
static void cut_text_ends_in_an_ellipsis(void **state)
{
    static const char bytes[] = "abc\xc3\xa9\n\xff def";
    char full[64], text[64];
    size_t length = sizeof bytes - 1;
    escape(bytes, length, full, sizeof full);
    for (size_t room = 1; room <= strlen(full) + 1; room++) {
        memset(text, '#', sizeof text);
        escape(bytes, length, text, room);
        assert_true(strlen(text) < room);
        assert_int_equal(text[room], '#');
        if (room <= strlen(full) && room >= 4)
            assert_non_null(strstr(text, "\xe2\x80\xa6"));
    }
    assert_string_equal(text, full);
}

static void utf8_is_judged_strictly(void **state)
{
    static const char *const bad[] = {"\x80", "\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf",
        "\xed\xa0\x80", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xc3",
        "\xe2\x82"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(utf8_length((const uint8_t *)bad[i], strlen(bad[i])), 0);
    assert_int_equal(utf8_length((const uint8_t *)"\xf4\x8f\xbf\xbf", 4), 4);
    assert_int_equal(utf8_length((const uint8_t *)"\xed\x9f\xbf", 3), 3);
    assert_int_equal(utf8_length((const uint8_t *)"", 0), 0);
    assert_int_equal(utf8_length((const uint8_t *)"\0", 1), 1);
}

static void numbers_are_readable(void **state)
{
    char bytes[16], count[32], time[40];
    assert_string_equal(human_bytes(0, bytes), "0 B");
    assert_string_equal(human_bytes(1023, bytes), "1023 B");
    assert_string_equal(human_bytes(1536, bytes), "1.5 KiB");
    assert_string_equal(human_bytes((1u << 20) - 1, bytes), "1.0 MiB");
    assert_string_equal(human_bytes(UINT64_MAX, bytes), "16.0 EiB");
    assert_string_equal(human_count(0, count), "0");
    assert_string_equal(human_count(999, count), "999");
    assert_string_equal(human_count(1234567, count), "1,234,567");
    assert_string_equal(human_count(UINT64_MAX, count), "18,446,744,073,709,551,615");
    assert_string_equal(human_time(0, time), "1970-01-01T00:00:00Z");
    assert_string_equal(human_time(-1, time), "1969-12-31T23:59:59Z");
    assert_string_equal(human_time(INT64_MAX, time), "2262-04-11T23:47:16Z");
}

struct sink {
    struct json_out json;
    char *text;
    size_t length;
};

static void sink_open(struct sink *sink)
{
    memset(sink, 0, sizeof *sink);
    sink->json.out = open_memstream(&sink->text, &sink->length);
}

static void assert_sink(struct sink *sink, const char *wanted)
{
    fclose(sink->json.out);
    assert_string_equal(sink->text, wanted);
    free(sink->text);
}

static void json_nests_and_separates(void **state)
{
    struct sink sink;
    sink_open(&sink);
    json_put_open(&sink.json, NULL, '{');
    json_put_number(&sink.json, "a", UINT64_MAX);
    json_put_open(&sink.json, "list", '[');
    json_put_open(&sink.json, NULL, '{');
    json_put_close(&sink.json, '}');
    json_put_open(&sink.json, NULL, '{');
    json_put_bool(&sink.json, "x", true);
    json_put_close(&sink.json, '}');
    json_put_close(&sink.json, ']');
    json_put_signed(&sink.json, "b", INT64_MIN);
    json_put_real(&sink.json, "c", 0.5);
    json_put_real(&sink.json, "d", 1.0 / 0.0);
    json_put_close(&sink.json, '}');
    json_put_end(&sink.json);
    assert_sink(&sink, "{\"a\":18446744073709551615,\"list\":[{},{\"x\":true}],"
                       "\"b\":-9223372036854775808,\"c\":0.5,\"d\":0}\n");
}

static void json_strings_are_valid(void **state)
{
    struct sink sink;
    sink_open(&sink);
    json_put_open(&sink.json, NULL, '{');
    json_put_text(&sink.json, "t", "\"\\\n\x7f\xc3\xa9");
    json_put_bytes(&sink.json, "k", "a\0b", 3);
    json_put_bytes(&sink.json, "r",
        "\xff"
        "abc",
        4);
    json_put_bytes(&sink.json, "s",
        "\xff"
        "ab",
        3);
    json_put_bytes(&sink.json, "u",
        "\xff"
        "a",
        2);
    json_put_close(&sink.json, '}');
    assert_sink(&sink, "{\"t\":\"\\\"\\\\\\u000a\\u007f\xc3\xa9\",\"k\":\"a\\u0000b\","
                       "\"r\":\"\\ufffdabc\",\"r_base64\":\"/2FiYw==\","
                       "\"s\":\"\\ufffdab\",\"s_base64\":\"/2Fi\","
                       "\"u\":\"\\ufffda\",\"u_base64\":\"/2E=\"}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(safe_text_stays),
        cmocka_unit_test(unsafe_bytes_are_escaped),
        cmocka_unit_test(cut_text_ends_in_an_ellipsis),
        cmocka_unit_test(utf8_is_judged_strictly),
        cmocka_unit_test(numbers_are_readable),
        cmocka_unit_test(json_nests_and_separates),
        cmocka_unit_test(json_strings_are_valid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
