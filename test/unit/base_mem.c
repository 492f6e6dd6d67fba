/* mem: sizes of 0, alignment, and a countdown that fails exactly one call, in any thread. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>

#include "base/mem.h"

static void sizes_of_0_give_unique_pointers(void **state)
{
    void *a = mem_alloc(0), *b = mem_zero(0, 8), *c = mem_zero(8, 0), *d = mem_aligned(4096, 0);

    assert_non_null(a);
    assert_non_null(b);
    assert_non_null(c);
    assert_non_null(d);
    assert_ptr_not_equal(a, b);
    assert_ptr_not_equal(b, c);
    a = mem_resize(a, 0);
    assert_non_null(a);
    mem_free(a);
    mem_free(b);
    mem_free(c);
    mem_free(d);
    mem_free(NULL);
}

static void memory_is_as_asked_for(void **state)
{
    uint8_t *zero = mem_zero(100, 10), *aligned = mem_aligned(4096, 8192);
    char *text = mem_strdup("seg");

    for (int i = 0; i < 1000; i++)
        assert_int_equal(zero[i], 0);
    assert_int_equal((uintptr_t)aligned % 4096, 0);
    assert_string_equal(text, "seg");
    /* A product that overflows is out of memory, not a small block; volatile, so that the compiler
       does not know. */
    volatile size_t half = SIZE_MAX / 2;
    assert_null(mem_zero(half, 4));
    mem_free(zero);
    mem_free(aligned);
    mem_free(text);
}

static void exactly_the_chosen_call_fails(void **state)
{
    void *all[8];

    for (long chosen = 0; chosen < 8; chosen++) {
        mem_fail_after(chosen);
        for (long call = 0; call < 8; call++) {
            switch (call % 4) {
            case 0:
                all[call] = mem_alloc(10);
                break;
            case 1:
                all[call] = mem_zero(1, 10);
                break;
            case 2:
                all[call] = mem_aligned(64, 64);
                break;
            default:
                all[call] = mem_strdup("x");
                break;
            }
            assert_int_equal(all[call] == NULL, call == chosen);
        }
        for (long call = 0; call < 8; call++)
            mem_free(all[call]);
    }
    mem_fail_after(-1);
}

static void a_failed_resize_leaves_the_old_block(void **state)
{
    char *text = mem_strdup("kept"), *longer;

    mem_fail_after(0);
    longer = mem_resize(text, 100);
    assert_null(longer);
    assert_string_equal(text, "kept");
    mem_fail_after(-1);
    longer = mem_resize(text, 100);
    assert_string_equal(longer, "kept");
    mem_free(longer);
}

static void *count_failures(void *arg)
{
    for (int i = 0; i < 10000; i++) {
        void *memory = mem_alloc(8);

        if (memory == NULL)
            atomic_fetch_add((atomic_int *)arg, 1);
        mem_free(memory);
    }
    return NULL;
}

static void one_call_fails_among_all_threads(void **state)
{
    atomic_int failures = 0;
    pthread_t threads[4];

    mem_fail_after(20000);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count_failures, &failures), 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(atomic_load(&failures), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_of_0_give_unique_pointers),
        cmocka_unit_test(memory_is_as_asked_for),
        cmocka_unit_test(exactly_the_chosen_call_fails),
        cmocka_unit_test(a_failed_resize_leaves_the_old_block),
        cmocka_unit_test(one_call_fails_among_all_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
