/* progress: the line at given moments. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "cli/progress.h"

#define SECOND_NS UINT64_C(1000000000)

static void begin(struct progress *progress, bool terminal)
{
    memset(progress, 0, sizeof *progress);
    progress->label = "importing";
    progress->terminal = terminal;
    progress->start_ns = progress->rate_ns = 5 * SECOND_NS;
}

static void a_bar_with_rates_and_time_left(void **state)
{
    struct progress progress;
    char line[256];
    begin(&progress, true);
    struct progress_state at = {.items = "files", .done = 250, .all = 1000, .bytes = 10 << 20};
    progress_format(&progress, &at, 10 * SECOND_NS, 200, line, sizeof line);
    assert_string_equal(line,
        "importing [=====>              ] 25%, 250 files, 10.0 MiB, 2.0 MiB/s, "
        "50 files/s, 0:16 left");
    at.done = 1000;
    progress_format(&progress, &at, 11 * SECOND_NS, 200, line, sizeof line);
    assert_non_null(strstr(line, "[====================] 100%, 1,000 files"));
    assert_null(strstr(line, "left"));
}

static void an_unknown_whole_has_no_bar(void **state)
{
    struct progress progress;
    char line[256];
    begin(&progress, false);
    struct progress_state at = {.done = 3 << 20, .bytes = 3 << 20};
    progress_format(&progress, &at, 8 * SECOND_NS, 200, line, sizeof line);
    assert_string_equal(line, "importing: 3.0 MiB, 1.0 MiB/s");
}

static void long_times_have_hours(void **state)
{
    struct progress progress;
    char line[256];
    begin(&progress, false);
    struct progress_state at = {.items = "files", .done = 10, .all = 100000};
    progress_format(&progress, &at, 6 * SECOND_NS, 200, line, sizeof line);
    assert_non_null(strstr(line, ", 2:46:40 left"));
}

static void rates_follow_what_happens(void **state)
{
    struct progress progress;
    char line[256];
    begin(&progress, false);
    struct progress_state at = {.items = "files"};
    for (unsigned second = 1; second <= 20; second++) {
        at.done += second <= 10 ? 1000 : 100;
        progress_format(&progress, &at, (5 + second) * SECOND_NS, 200, line, sizeof line);
        if (second == 10)
            assert_non_null(strstr(line, ", 1,000 files/s"));
    }
    assert_non_null(strstr(line, ", 100 files/s"));
}

static void narrow_terminals_cut_the_line(void **state)
{
    struct progress progress;
    char line[256];
    begin(&progress, true);
    struct progress_state at = {.items = "files", .done = 1, .all = 2, .bytes = 3};
    for (unsigned columns = 1; columns < 120; columns++) {
        progress_format(&progress, &at, 6 * SECOND_NS, columns, line, sizeof line);
        assert_true(strlen(line) <= columns);
    }
}

static void extremes_do_no_harm(void **state)
{
    struct progress progress;
    char line[256];
    begin(&progress, true);
    struct progress_state at = {
        .items = "files", .done = UINT64_MAX, .all = UINT64_MAX, .bytes = UINT64_MAX};
    progress_format(&progress, &at, 5 * SECOND_NS, 255, line, sizeof line);
    progress_format(&progress, &at, UINT64_MAX, 255, line, sizeof line);
    assert_non_null(strstr(line, "100%"));
    /* Fewer than before: a file that was retried, another phase. */
    at.done = at.bytes = 0;
    progress_format(&progress, &at, UINT64_MAX, 255, line, sizeof line);
    assert_non_null(strstr(line, " 0%"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bar_with_rates_and_time_left),
        cmocka_unit_test(an_unknown_whole_has_no_bar),
        cmocka_unit_test(long_times_have_hours),
        cmocka_unit_test(rates_follow_what_happens),
        cmocka_unit_test(narrow_terminals_cut_the_line),
        cmocka_unit_test(extremes_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
