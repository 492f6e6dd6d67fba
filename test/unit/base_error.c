/* error: a sentence for every code, and records that are cut rather than overrun. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <errno.h>

#include "base/error.h"

static void every_code_has_its_own_sentence(void **state)
{
    for (int code = SHOAL_E_WRITE_FAILED; code <= SHOAL_E_ABSENT; code++) {
        assert_string_not_equal(shoal_strerror(code), "unknown error");
        for (int other = code + 1; other <= SHOAL_E_ABSENT; other++)
            assert_string_not_equal(shoal_strerror(code), shoal_strerror(other));
    }
}

static void codes_of_the_system_and_unknown_ones(void **state)
{
    assert_string_equal(shoal_strerror(-ENOSPC), "No space left on device");
    assert_string_equal(shoal_strerror(0), "no error");
    assert_string_equal(shoal_strerror(12), "no error");
    assert_string_equal(shoal_strerror(-3999), "unknown error");
    assert_string_equal(shoal_strerror(SHOAL_E_WRITE_FAILED - 1), "unknown error");
    assert_string_equal(shoal_strerror(INT32_MIN), "unknown error");
}

static void the_record_holds_what_where_and_why(void **state)
{
    struct shoal_error error;

    assert_int_equal(error_set(&error, -EIO, "seg/1", 4096, "group %d: %s", 7, "torn"), -EIO);
    assert_int_equal(error.code, -EIO);
    assert_string_equal(error.file, "seg/1");
    assert_int_equal(error.offset, 4096);
    assert_string_equal(error.text, "group 7: torn");
    assert_int_equal(error_set(&error, SHOAL_E_BUSY, NULL, 0, "held"), SHOAL_E_BUSY);
    assert_string_equal(error.file, "");
    assert_int_equal(error_set(NULL, SHOAL_E_BUSY, "x", 0, "no record to fill"), SHOAL_E_BUSY);
}

static void long_names_and_texts_are_cut(void **state)
{
    struct shoal_error error;
    char many[2000];

    memset(many, 'x', sizeof(many) - 1);
    many[sizeof(many) - 1] = 0;
    assert_int_equal(error_set(&error, -EIO, many, 0, "%s", many), -EIO);
    assert_int_equal(strlen(error.file), sizeof(error.file) - 1);
    assert_int_equal(strlen(error.text), sizeof(error.text) - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_has_its_own_sentence),
        cmocka_unit_test(codes_of_the_system_and_unknown_ones),
        cmocka_unit_test(the_record_holds_what_where_and_why),
        cmocka_unit_test(long_names_and_texts_are_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
