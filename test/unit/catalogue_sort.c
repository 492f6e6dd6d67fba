/* catalogue_sort against byte-wise comparison of whole keys, over sets of keys that are short, deep,
   equal, prefixes of each other, or differ in trailing NULs only. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "store/catalogue.h"
#include "store/catalogue_codec.h"
#include "store/catalogue_sort.h"

#define COUNT_MAX 20000

static uint64_t random_next(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static int compare(const struct catalogue_change *a, const struct catalogue_change *b)
{
    uint8_t first[CATALOGUE_KEY_MAX], second[CATALOGUE_KEY_MAX];
    size_t first_length = catalogue_key_encode(&a->key, first);
    size_t second_length = catalogue_key_encode(&b->key, second);
    size_t shorter = first_length < second_length ? first_length : second_length;
    int order = memcmp(first, second, shorter);
    return order ? order : (first_length > second_length) - (first_length < second_length);
}

/* Fills in a key of the shape: 1 to 1,024 bytes. */
static uint16_t make_key(unsigned shape, uint64_t *random, uint8_t *bytes)
{
    uint64_t value = random_next(random);
    switch (shape) {
    case 0: /* a tree of random digits */
        return (uint16_t)sprintf((char *)bytes, "%02x/%02x/%04x.jpg", (unsigned)value & 255,
            (unsigned)(value >> 8) & 255, (unsigned)(value >> 16) & 0xffff);
    case 1: /* a long path in common, or nearly */
        memset(bytes, 'p', 900);
        bytes[value % 3 * 300] = 'q';
        return (uint16_t)(900 + sprintf((char *)bytes + 900, "%u", (unsigned)(value >> 40)));
    case 2: /* few keys, many times */
        return (uint16_t)sprintf((char *)bytes, "%u", (unsigned)(value % 50));
    case 3: { /* runs of one byte, of any length: prefixes of each other */
        uint16_t length = (uint16_t)(1 + value % 1024);
        memset(bytes, value >> 32 & 1 ? 0xff : 'x', length);
        return length;
    }
    case 4: { /* NULs, which keys don't hold, must not break the order either */
        uint16_t length = (uint16_t)(1 + value % 20);
        for (uint16_t i = 0; i < length; i++)
            bytes[i] = (uint8_t)(random_next(random) % 2);
        return length;
    }
    default: { /* anything */
        uint16_t length = (uint16_t)(1 + value % 12);
        for (uint16_t i = 0; i < length; i++)
            bytes[i] = (uint8_t)random_next(random);
        return length;
    }
    }
}

static void sort_and_verify(unsigned shape, size_t count, uint64_t seed)
{
    static const char *const buckets[] = {"abc", "abcd", "abcdefghij", "abcdefghik"};
    struct catalogue_change *changes = calloc(count + 1, sizeof(*changes));
    struct sort_item *items = malloc((2 * count + 1) * sizeof(*items));
    bool *seen = calloc(count + 1, sizeof(*seen));
    uint64_t random = seed;
    for (size_t i = 0; i < count; i++) {
        uint8_t bytes[1100];
        uint16_t length = make_key(shape, &random, bytes);
        /* Exactly as long as the key, so that a sanitizer sees reading past it. */
        uint8_t *copy = malloc(length);
        memcpy(copy, bytes, length);
        const char *bucket = buckets[seed % 2 ? 0 : random_next(&random) % 4];
        changes[i].key = (struct key){bucket, copy, length, (uint8_t)strlen(bucket)};
    }
    catalogue_sort(changes, items, count, items + count);
    for (size_t i = 0; i < count; i++) {
        assert_in_range(items[i].index, 0, count - 1);
        assert_false(seen[items[i].index]);
        seen[items[i].index] = true;
        if (i == 0)
            continue;
        const struct catalogue_change *before = &changes[items[i - 1].index];
        const struct catalogue_change *here = &changes[items[i].index];
        int order = compare(before, here);
        assert_true(order <= 0);
        assert_int_equal(order == 0, catalogue_same_key(before, here));
        if (order == 0)
            assert_true(items[i - 1].index < items[i].index);
    }
    for (size_t i = 0; i < count; i++)
        free((void *)changes[i].key.bytes);
    free(changes);
    free(items);
    free(seen);
}

static void every_shape_and_size(void **state)
{
    (void)state;
    const size_t counts[] = {0, 1, 2, 3, 31, 32, 33, 100, 1000, COUNT_MAX};
    for (unsigned shape = 0; shape < 6; shape++) {
        for (unsigned i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
            sort_and_verify(shape, counts[i], 2 * i + 10 * shape);
            sort_and_verify(shape, counts[i], 2 * i + 10 * shape + 1);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_shape_and_size),
    };
    return cmocka_run_group_tests_name("catalogue_sort", tests, NULL, NULL);
}
