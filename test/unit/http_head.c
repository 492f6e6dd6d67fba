#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "http/head.h"

static int parse(struct http_head *head, const char *text)
{
    http_head_init(head);
    return http_head_parse(head, (const uint8_t *)text, strlen(text));
}

static void fills_the_head(void **state)
{
    const char *text =
        "PUT /b/k%20y?prefix=a&x HTTP/1.1\r\nhOsT:  test \r\nContent-Length: 12\r\n"
        "X-Other:\r\nConnection: keep-alive , Close\r\nExpect: 100-Continue\r\n\r\nrest";
    struct http_head head;

    (void)state;
    assert_int_equal(parse(&head, text), strlen(text) - 4);
    assert_int_equal(head.method, HTTP_PUT);
    assert_int_equal(head.minor_version, 1);
    assert_memory_equal(text + head.path.start, "/b/k%20y", head.path.length);
    assert_int_equal(head.path.length, 8);
    assert_memory_equal(text + head.query.start, "prefix=a&x", head.query.length);
    assert_int_equal(head.query.length, 10);
    assert_true(head.has_length && !head.chunked && head.close && head.expect_continue);
    assert_int_equal(head.content_length, 12);
    assert_int_equal(head.line_count, 5);
    assert_memory_equal(text + head.lines[0].value.start, "test", 4);
    assert_int_equal(head.lines[0].value.length, 4);
    assert_int_equal(head.lines[2].value.length, 0);
    assert_ptr_equal(http_head_line(&head, HTTP_EXPECT, 0), &head.lines[4]);
    assert_null(http_head_line(&head, HTTP_EXPECT, 1));
    assert_null(http_head_line(&head, HTTP_RANGE, 0));
}

static void goes_on_where_it_stopped(void **state)
{
    const char *text = "GET / HTTP/1.1\r\nHost: a\r\nRange: bytes=0-\r\n\r\n";
    struct http_head head;

    (void)state;
    http_head_init(&head);
    for (size_t length = 1; length < strlen(text); length++)
        assert_int_equal(http_head_parse(&head, (const uint8_t *)text, length), 0);
    assert_int_equal(http_head_parse(&head, (const uint8_t *)text, strlen(text)), strlen(text));
    assert_int_equal(head.line_count, 2);
}

static void refuses_at_the_first_bad_line(void **state)
{
    struct http_head head;

    (void)state;
    assert_int_equal(parse(&head, "GET / HTTP/1.1\n"), -400);
    assert_int_equal(parse(&head, "GET / HTTP/3.0\r\n"), -505);
    assert_int_equal(parse(&head, "GET / HTTP/1.1\r\nA : b\r\n"), -400);
    assert_int_equal(parse(&head, "GET / HTTP/1.1\r\n folded\r\n"), -400);
}

static void largest_length(void **state)
{
    struct http_head head;

    (void)state;
    assert_true(parse(&head,
                    "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 900000000000000000\r\n\r\n") > 0);
    assert_int_equal(head.content_length, 900000000000000000);
    assert_int_equal(
        parse(&head, "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744073709551616\r\n\r\n"),
        -400);
}

static void walks_lists(void **state)
{
    const char *text = " , \"a,b\" ,,c d,\"";
    size_t at = 0, start, length;

    (void)state;
    assert_true(http_list_next((const uint8_t *)text, strlen(text), &at, &start, &length));
    assert_int_equal(length, 5);
    assert_memory_equal(text + start, "\"a,b\"", 5);
    assert_true(http_list_next((const uint8_t *)text, strlen(text), &at, &start, &length));
    assert_int_equal(length, 3);
    assert_true(http_list_next((const uint8_t *)text, strlen(text), &at, &start, &length));
    assert_int_equal(length, 1);
    assert_false(http_list_next((const uint8_t *)text, strlen(text), &at, &start, &length));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fills_the_head),
        cmocka_unit_test(goes_on_where_it_stopped),
        cmocka_unit_test(refuses_at_the_first_bad_line),
        cmocka_unit_test(largest_length),
        cmocka_unit_test(walks_lists),
    };

    return cmocka_run_group_tests_name("http_head", tests, NULL, NULL);
}
