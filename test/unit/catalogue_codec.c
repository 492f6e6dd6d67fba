/* catalogue_codec: known bytes, round trips at the limits, and refusal of everything else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "store/catalogue.h"
#include "store/catalogue_codec.h"

static void known_bytes(void **state)
{
    (void)state;
    struct catalogue_change change = {.key = {"photos", (const uint8_t *)"a/b", 3, 6},
        .sequence = 300,
        .size_bytes = 5,
        .mtime_ns = -2};
    for (unsigned i = 0; i < 16; i++)
        change.md5[i] = (uint8_t)(0xa0 + i);
    uint8_t key[CATALOGUE_KEY_MAX], value[CATALOGUE_VALUE_MAX];
    assert_int_equal(catalogue_key_encode(&change.key, key), 10);
    assert_memory_equal(key, "photos\0a/b", 10);
    assert_int_equal(catalogue_value_encode(&change, value), 2 + 1 + 8 + 16);
    assert_memory_equal(value,
        "\xac\x02\x05\xfe\xff\xff\xff\xff\xff\xff\xff"
        "\xa0\xa1\xa2\xa3\xa4\xa5\xa6\xa7\xa8\xa9\xaa\xab\xac\xad\xae\xaf",
        27);
    assert_int_equal(catalogue_usage_key("photos", 6, key), 8);
    assert_memory_equal(key, "\0uphotos", 8);
}

static void limits_come_back(void **state)
{
    (void)state;
    const uint64_t sequences[] = {0, 1, 127, 128, UINT64_MAX >> 1, UINT64_MAX};
    const uint64_t sizes[] = {0, 1, 16383, 16384, SHOAL_OBJECT_MAX};
    const int64_t times[] = {0, INT64_MIN, INT64_MAX};
    for (unsigned i = 0; i < 6 * 5 * 3; i++) {
        struct catalogue_change change = {.sequence = sequences[i % 6],
            .size_bytes = sizes[i / 6 % 5],
            .mtime_ns = times[i / 30],
            .md5 = {1, 2, 3}};
        uint8_t value[CATALOGUE_VALUE_MAX];
        struct catalogue_entry entry;
        size_t length = catalogue_value_encode(&change, value);
        assert_in_range(length, 26, CATALOGUE_VALUE_MAX);
        assert_true(catalogue_value_decode(value, length, &entry));
        assert_true(entry.sequence == change.sequence && entry.size_bytes == change.size_bytes);
        assert_true(entry.mtime_ns == change.mtime_ns);
        assert_memory_equal(entry.md5, change.md5, 16);
        for (size_t cut = 0; cut < length; cut++)
            assert_false(catalogue_value_decode(value, cut, &entry));
        assert_false(catalogue_value_decode(value, length + 1, &entry));
    }
    struct catalogue_usage usage = {UINT64_MAX, UINT64_MAX - 1}, back;
    uint8_t value[CATALOGUE_USAGE_MAX];
    size_t length = catalogue_usage_encode(&usage, value);
    assert_int_equal(length, 20);
    assert_true(catalogue_usage_decode(value, length, &back));
    assert_true(back.objects == usage.objects && back.bytes == usage.bytes);
}

static void other_bytes_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t length;
    } bad[] = {
        {"", 0},
        {"\x01", 1},
        {"\x01\x02\x03", 3}, /* too long */
        {"\x80\x00\x01", 3}, /* not the shortest form */
        {"\x01\x80", 2}, /* cut */
        {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02\x01", 11}, /* over 64 bits */
        {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x01", 12},
    };
    for (unsigned i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        struct catalogue_usage usage;
        assert_false(catalogue_usage_decode((const uint8_t *)bad[i].bytes, bad[i].length, &usage));
    }
    /* A size over the largest object. */
    struct catalogue_change change = {.size_bytes = SHOAL_OBJECT_MAX + 1};
    uint8_t value[CATALOGUE_VALUE_MAX];
    struct catalogue_entry entry;
    size_t length = catalogue_value_encode(&change, value);
    assert_false(catalogue_value_decode(value, length, &entry));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_bytes),
        cmocka_unit_test(limits_come_back),
        cmocka_unit_test(other_bytes_are_refused),
    };
    return cmocka_run_group_tests_name("catalogue_codec", tests, NULL, NULL);
}
