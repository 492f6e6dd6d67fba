/* crc32c: published values, chaining, and a bitwise twin at many lengths and alignments. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/crc32c.h"

/* The definition: reflected polynomial 0x82f63b78, one bit at a time. */
static uint32_t bitwise(uint32_t crc, const uint8_t *data, size_t length)
{
    crc = ~crc;
    for (size_t i = 0; i < length; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
    }
    return ~crc;
}

static void published_values(void **state)
{
    uint8_t bytes[32];

    assert_int_equal(crc32c(0, "", 0), 0);
    assert_int_equal(crc32c(0, "123456789", 9), 0xe3069283);
    /* RFC 3720, B.4. */
    memset(bytes, 0, sizeof(bytes));
    assert_int_equal(crc32c(0, bytes, sizeof(bytes)), 0x8a9136aa);
    memset(bytes, 0xff, sizeof(bytes));
    assert_int_equal(crc32c(0, bytes, sizeof(bytes)), 0x62a8ab43);
    for (uint8_t i = 0; i < 32; i++)
        bytes[i] = i;
    assert_int_equal(crc32c(0, bytes, sizeof(bytes)), 0x46dd794e);
}

static void pieces_give_the_same_as_the_whole(void **state)
{
    static const char text[] = "the log is the truth";

    for (size_t cut = 0; cut < sizeof(text); cut++)
        assert_int_equal(crc32c(crc32c(0, text, cut), text + cut, sizeof(text) - cut),
            crc32c(0, text, sizeof(text)));
}

static void agrees_with_the_definition(void **state)
{
    static uint8_t bytes[5000];

    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)(i * 2654435761u >> 13);
    for (size_t length = 0; length < 5000 - 16; length += length < 600 ? 1 : 97) {
        size_t start = length % 16;

        assert_int_equal(crc32c((uint32_t)length, bytes + start, length),
            bitwise((uint32_t)length, bytes + start, length));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_values),
        cmocka_unit_test(pieces_give_the_same_as_the_whole),
        cmocka_unit_test(agrees_with_the_definition),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
