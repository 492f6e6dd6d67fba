#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "http/date.h"

static int64_t parsed(const char *text)
{
    int64_t seconds = -12345;

    return http_date_parse((const uint8_t *)text, strlen(text), &seconds) == 0 ? seconds : -12345;
}

static void formats_like_the_c_library(void **state)
{
    (void)state;
    /* A prime step of about 47 days, over 1900 to 2300, so that every kind of year comes. */
    for (int64_t seconds = -2208988800; seconds < 10413792000; seconds += 4060801) {
        char expected[64], text[HTTP_DATE_BYTES];
        time_t time = (time_t)seconds;
        struct tm tm;

        gmtime_r(&time, &tm);
        strftime(expected, sizeof(expected), "%a, %d %b %Y %H:%M:%S GMT", &tm);
        http_date_format(seconds, text);
        assert_memory_equal(text, expected, HTTP_DATE_BYTES);
        assert_int_equal(parsed(expected), seconds);
    }
}

static void the_three_forms(void **state)
{
    (void)state;
    assert_int_equal(parsed("Sun, 06 Nov 1994 08:49:37 GMT"), 784111777);
    assert_int_equal(parsed("Sunday, 06-Nov-94 08:49:37 GMT"), 784111777);
    assert_int_equal(parsed("Sun Nov  6 08:49:37 1994"), 784111777);
    assert_int_equal(parsed("Thu, 29 Feb 2024 23:59:59 GMT"), 1709251199);
    assert_int_equal(parsed("Fri Jan 01 00:00:00 2100"), 4102444800);
}

static void refuses_what_is_no_date(void **state)
{
    static const char *const texts[] = {"", "0", "Sun, 06 Nov 1994 08:49:37",
        "Sun, 06 Nov 1994 08:49:37 CET", "Sun, 6 Nov 1994 08:49:37 GMT",
        "Sun, 06 nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 24:49:37 GMT",
        "Sun, 00 Nov 1994 08:49:37 GMT", "Sun, 32 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 08:49:37 GMT ", "Sun, 06 Nov 19940 8:49:37 GMT",
        "Sunday, 06-Nov-1994 08:49:37 GMT", "Sun Nov  6 08:49:37 1994 GMT"};

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        assert_int_equal(parsed(texts[i]), -12345);
}

static void extremes_are_cut(void **state)
{
    char text[HTTP_DATE_BYTES];

    (void)state;
    http_date_format(INT64_MAX, text);
    assert_memory_equal(text, "Fri, 31 Dec 9999 23:59:59 GMT", HTTP_DATE_BYTES);
    http_date_format(INT64_MIN, text);
    assert_memory_equal(text, "Sat, 01 Jan 0000 00:00:00 GMT", HTTP_DATE_BYTES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formats_like_the_c_library),
        cmocka_unit_test(the_three_forms),
        cmocka_unit_test(refuses_what_is_no_date),
        cmocka_unit_test(extremes_are_cut),
    };

    return cmocka_run_group_tests_name("http_date", tests, NULL, NULL);
}
