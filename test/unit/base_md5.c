/* md5: the values of RFC 1321, pieces, contexts used again, many threads, failing allocations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <errno.h>
#include <pthread.h>

#include "base/md5.h"
#include "base/mem.h"

/* RFC 1321, A.5. */
static const struct {
    const char *text, *hex;
} published[] = {
    {"", "d41d8cd98f00b204e9800998ecf8427e"},
    {"a", "0cc175b9c0f1b6a831c399e269772661"},
    {"abc", "900150983cd24fb0d6963f7d28e17f72"},
    {"message digest", "f96b697d7cb7938d525a2f31aaf161d0"},
    {"abcdefghijklmnopqrstuvwxyz", "c3fcd3d76192e4007dfb496cca67e13b"},
    {"12345678901234567890123456789012345678901234567890123456789012345678901234567890",
        "57edf4a22be3c955ac49da2e2107b67a"},
};

static void published_values(void **state)
{
    uint8_t digest[16];
    char hex[33];

    for (size_t i = 0; i < sizeof(published) / sizeof(published[0]); i++) {
        assert_int_equal(md5_of(published[i].text, strlen(published[i].text), digest), 0);
        md5_hex(digest, hex);
        assert_string_equal(hex, published[i].hex);
    }
}

static void a_context_serves_one_message_after_another(void **state)
{
    struct md5 *md5 = md5_new();
    uint8_t digest[16];
    char hex[33];

    assert_non_null(md5);
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < sizeof(published) / sizeof(published[0]); i++) {
            for (const char *at = published[i].text; *at != 0; at++)
                md5_update(md5, at, 1);
            md5_finish(md5, digest);
            md5_hex(digest, hex);
            assert_string_equal(hex, published[i].hex);
        }
    }
    md5_free(md5);
    md5_free(NULL);
}

static void *digest_in_thread(void *arg)
{
    uint8_t digest[16];
    uintptr_t wrong = 0;
    char hex[33];

    for (int i = 0; i < 1000; i++) {
        wrong += md5_of("abc", 3, digest) != 0;
        md5_hex(digest, hex);
        wrong += strcmp(hex, "900150983cd24fb0d6963f7d28e17f72") != 0;
    }
    return (void *)wrong;
}

static void threads_do_not_disturb_each_other(void **state)
{
    pthread_t threads[4];
    void *wrong;

    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, digest_in_thread, NULL), 0);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(threads[i], &wrong), 0);
        assert_null(wrong);
    }
}

static void *first_call_without_memory(void *arg)
{
    uint8_t digest[16] = {0};
    int rc;

    mem_fail_after(0);
    rc = md5_of("abc", 3, digest);
    mem_fail_after(-1);
    if (rc != -ENOMEM || digest[0] != 0)
        return (void *)1;
    return (void *)(uintptr_t)(md5_of("abc", 3, digest) != 0);
}

static void out_of_memory_is_returned_and_not_kept(void **state)
{
    pthread_t thread;
    void *wrong;

    mem_fail_after(0);
    assert_null(md5_new());
    mem_fail_after(-1);
    /* A new thread has no context yet. */
    assert_int_equal(pthread_create(&thread, NULL, first_call_without_memory, NULL), 0);
    assert_int_equal(pthread_join(thread, &wrong), 0);
    assert_null(wrong);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_values),
        cmocka_unit_test(a_context_serves_one_message_after_another),
        cmocka_unit_test(threads_do_not_disturb_each_other),
        cmocka_unit_test(out_of_memory_is_returned_and_not_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
