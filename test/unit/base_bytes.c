/* bytes: the order of bytes, the edges of each width, rounding. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/bytes.h"

static void integers_are_little_endian(void **state)
{
    uint8_t bytes[9] = {0};

    put_u64(bytes, 0x0807060504030201);
    for (unsigned i = 0; i < 8; i++)
        assert_int_equal(bytes[i], i + 1);
    assert_int_equal(get_u64(bytes), 0x0807060504030201);
    assert_int_equal(get_u32(bytes + 1), 0x05040302);
    assert_int_equal(get_u24(bytes + 2), 0x050403);
    assert_int_equal(get_u16(bytes + 3), 0x0504);
    assert_int_equal(bytes[8], 0);
}

static void each_width_keeps_its_largest_value(void **state)
{
    uint8_t bytes[8];

    put_u16(bytes, UINT16_MAX);
    assert_int_equal(get_u16(bytes), UINT16_MAX);
    put_u24(bytes, 0xffffff);
    assert_int_equal(get_u24(bytes), 0xffffff);
    put_u32(bytes, UINT32_MAX);
    assert_int_equal(get_u32(bytes), UINT32_MAX);
    put_u64(bytes, UINT64_MAX);
    assert_true(get_u64(bytes) == UINT64_MAX);
}

static void a_width_touches_no_byte_beyond(void **state)
{
    uint8_t bytes[8] = {0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa};

    put_u16(bytes, 0);
    assert_int_equal(bytes[2], 0xaa);
    put_u24(bytes, 0);
    assert_int_equal(bytes[3], 0xaa);
    put_u32(bytes, 0);
    assert_int_equal(bytes[4], 0xaa);
}

static void round_up_goes_to_the_next_multiple(void **state)
{
    assert_int_equal(round_up(0, 64), 0);
    assert_int_equal(round_up(1, 64), 64);
    assert_int_equal(round_up(64, 64), 64);
    assert_int_equal(round_up(65, 64), 128);
    assert_int_equal(round_up(7, 3), 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_are_little_endian),
        cmocka_unit_test(each_width_keeps_its_largest_value),
        cmocka_unit_test(a_width_touches_no_byte_beyond),
        cmocka_unit_test(round_up_goes_to_the_next_multiple),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
