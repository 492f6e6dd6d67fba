/* Addresses as people write them; sockets bound, shared, refused and replaced. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "net/listen.h"

static void parses_addresses(void **state)
{
    static const struct {
        const char *text, *shown;
    } good[] = {
        {"127.0.0.1:80", "http://127.0.0.1:80/"},
        {"[::1]:0", "http://[::1]:0/"},
        {"127.0.0.1:65535", "http://127.0.0.1:65535/"},
        {"unix:/a/b", "unix:/a/b"},
        {"unix:c:d", "unix:c:d"},
    };
    static const char *const bad[] = {"", "80", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x",
        "127.0.0.1:65536", "127.0.0.1:-1", "127.0.0.1: 80", "::1:80", "unix:"};
    struct listen_address address;
    char text[256], path[256] = "unix:/";

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_int_equal(listen_address_parse(good[i].text, &address), 0);
        listen_address_text(&address, text, sizeof(text));
        assert_string_equal(text, good[i].shown);
        assert_int_equal(listen_address_is_unix(&address), good[i].text[0] == 'u');
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(listen_address_parse(bad[i], &address), -EINVAL);
    memset(path + 6, 'x', 106);
    assert_int_equal(listen_address_parse(path, &address), 0);
    path[112] = 'x';
    assert_int_equal(listen_address_parse(path, &address), -ENAMETOOLONG);
    assert_int_equal(listen_address_parse(":80", &address), 0);
    assert_int_equal(listen_address_parse("*:80", &address), 0);
}

static void shares_a_port_within_the_process_only(void **state)
{
    struct listen_address address;
    int first, second, third;

    (void)state;
    assert_int_equal(listen_address_parse("127.0.0.1:0", &address), 0);
    assert_int_equal(listen_probe(&address), 0);
    assert_int_equal(listen_open(&address, true, 0, &first), 0);
    assert_int_equal(listen_address_of(first, &address), 0);
    assert_int_equal(listen_open(&address, true, 0, &second), 0);
    assert_int_equal(listen_probe(&address), -EADDRINUSE);
    assert_int_equal(listen_open(&address, false, 0, &third), -EADDRINUSE);
    close(first);
    close(second);
    assert_int_equal(listen_probe(&address), 0);
}

static void unix_sockets(void **state)
{
    char folder[] = "/tmp/shoal-net-listen-XXXXXX", text[64], path[64];
    struct listen_address address;
    struct stat st;
    FILE *file;
    int first, second;

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(text, sizeof(text), "unix:%s/s", folder);
    snprintf(path, sizeof(path), "%s/s", folder);
    assert_int_equal(listen_address_parse(text, &address), 0);
    assert_int_equal(listen_open(&address, false, 0600, &first), 0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(listen_open(&address, false, 0600, &second), -EADDRINUSE);
    close(first);
    assert_int_equal(listen_open(&address, false, 0777, &second), 0); /* nobody serves it */
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0777);
    close(second);
    unlink(path);
    file = fopen(path, "w");
    assert_non_null(file);
    fclose(file);
    assert_int_equal(listen_open(&address, false, 0600, &second), -EADDRINUSE); /* no socket */
    unlink(path);
    rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parses_addresses),
        cmocka_unit_test(shares_a_port_within_the_process_only),
        cmocka_unit_test(unix_sockets),
    };

    return cmocka_run_group_tests_name("net_listen", tests, NULL, NULL);
}
