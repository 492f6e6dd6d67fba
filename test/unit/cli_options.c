/* options: where options may stand, their forms, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include <stdbool.h>

#include "cli/commands.h"
#include "cli/options.h"

#define ARGS_MAX 24

struct values {
    bool json, recursive;
    const char *data;
    uint64_t number, size;
    struct option_list list;
    char *argv[ARGS_MAX];
    int status;
};

static const struct command_help help = {.name = "try", .usage = "try A B", .about = ""};

/* words: the arguments, parted by single spaces. */
static int parse(struct values *values, int fewest, int most, char *words)
{
    const struct option options[] = {
        OPTION_DATA(&values->data),
        OPTION_JSON(&values->json),
        {OPTION_FLAG, "recursive", 'r', &values->recursive, NULL, ""},
        {OPTION_NUMBER, "number", 'n', &values->number, "N", ""},
        {OPTION_SIZE, "size", 0, &values->size, "BYTES", ""},
        {OPTION_LIST, "listen", 0, &values->list, "ADDR", ""},
        {OPTION_END},
    };
    static char name[] = "try";
    int argc = 0;
    memset(values, 0, sizeof *values);
    values->status = -1;
    values->argv[argc++] = name;
    for (char *word = strtok(words, " "); word && argc < ARGS_MAX; word = strtok(NULL, " "))
        values->argv[argc++] = word;
    return options_parse(&help, options, fewest, most, argc, values->argv, &values->status);
}

#define PARSE(values, fewest, most, words)                                                         \
    parse(values, fewest, most, strcpy((char[512]){0}, words))

static void options_stand_anywhere(void **state)
{
    struct values v;
    char words[] = "one --json two -r --data DIR three --number=7";
    assert_int_equal(parse(&v, 0, -1, words), 3);
    assert_string_equal(v.argv[1], "one");
    assert_string_equal(v.argv[2], "two");
    assert_string_equal(v.argv[3], "three");
    assert_true(v.json && v.recursive);
    assert_string_equal(v.data, "DIR");
    assert_int_equal(v.number, 7);
}

static void two_dashes_end_them(void **state)
{
    struct values v;
    char words[] = "--json -- --data -r -- -";
    assert_int_equal(parse(&v, 0, -1, words), 4);
    assert_string_equal(v.argv[1], "--data");
    assert_string_equal(v.argv[3], "--");
    assert_null(v.data);
    assert_false(v.recursive);
}

static void a_dash_alone_is_an_operand(void **state)
{
    struct values v;
    char words[] = "- --data=- x";
    assert_int_equal(parse(&v, 0, -1, words), 2);
    assert_string_equal(v.argv[1], "-");
    assert_string_equal(v.data, "-");
}

static void short_forms_cluster(void **state)
{
    struct values v;
    char together[] = "-rn5 x", apart[] = "-n 6 -r";
    assert_int_equal(parse(&v, 0, -1, together), 1);
    assert_true(v.recursive);
    assert_int_equal(v.number, 5);
    assert_int_equal(parse(&v, 0, -1, apart), 0);
    assert_int_equal(v.number, 6);
}

static void sizes_have_units(void **state)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } rows[] = {{"--size=0", 0}, {"--size=1024", 1024}, {"--size=4K", 4096}, {"--size=4k", 4096},
        {"--size=4KiB", 4096}, {"--size=4KB", 4096}, {"--size=3M", 3u << 20},
        {"--size=2G", UINT64_C(2) << 30}, {"--size=5T", UINT64_C(5) << 40},
        {"--size=18446744073709551615", UINT64_MAX}};
    struct values v;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(PARSE(&v, 0, 0, rows[i].text), 0);
        assert_true(v.size == rows[i].bytes);
    }
}

static void lists_collect(void **state)
{
    struct values v;
    char words[] = "--listen a --listen=b --listen c";
    assert_int_equal(parse(&v, 0, 0, words), 0);
    assert_int_equal(v.list.count, 3);
    assert_string_equal(v.list.items[2], "c");
}

static void what_is_wrong_is_refused(void **state)
{
    static const char *const lines[] = {"--nonsense", "-x", "-rx", "--data", "-n", "--json=1",
        "--number=x", "--number=", "--number=-1", "--number=+1", "--number=1K", "--size=1Q",
        "--size=1KK", "--size=K", "--size=99999999999999999999", "--size=99999999999T", "--jso",
        "--jsonx", "a b c d",
        "--listen 1 --listen 2 --listen 3 --listen 4 --listen 5 --listen=6 --listen=7 --listen=8 "
        "--listen=9 --listen=10 --listen=11 --listen=12 --listen=13 --listen=14 --listen=15 "
        "--listen=16 --listen=17"};
    struct values v;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        assert_int_equal(PARSE(&v, 0, 3, lines[i]), -1);
        assert_int_equal(v.status, STATUS_USAGE);
    }
    assert_int_equal(PARSE(&v, 1, 1, "--json"), -1);
    assert_int_equal(v.status, STATUS_USAGE);
}

static void help_is_status_0(void **state)
{
    struct values v;
    assert_int_equal(PARSE(&v, 2, 2, "--json --help"), -1);
    assert_int_equal(v.status, STATUS_DONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_stand_anywhere),
        cmocka_unit_test(two_dashes_end_them),
        cmocka_unit_test(a_dash_alone_is_an_operand),
        cmocka_unit_test(short_forms_cluster),
        cmocka_unit_test(sizes_have_units),
        cmocka_unit_test(lists_collect),
        cmocka_unit_test(what_is_wrong_is_refused),
        cmocka_unit_test(help_is_status_0),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
