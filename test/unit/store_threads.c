/* Eight threads on one real store: puts, overwrites, deletes, large objects, reads and listings of keys
   that they share. Each key's bytes tell which put wrote them, so a read may see any put but no
   mixture. Meant for TSan; the figures at the end are exact. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <shoal/shoal.h>

#define THREADS   8
#define ROUNDS    400
#define KEYS      64
#define LARGE     (SHOAL_CHUNK_BYTES + 12345)
#define SMALL_MAX 5000

static struct shoal *store;
static _Atomic int failures, in_flight;
static uint8_t *large;

static size_t key_of(unsigned number, char key[16])
{
    return (size_t)snprintf(key, 16, "key/%02u", number % KEYS);
}

static void expect(bool good, const char *what, int code)
{
    if (!good) {
        print_message("%s: %d\n", what, code);
        atomic_fetch_add(&failures, 1);
    }
}

static void put_done(void *arg, int code, const struct shoal_stat *stat)
{
    (void)arg;
    expect(code == 0 && stat != NULL, "put", code);
    atomic_fetch_sub(&in_flight, 1);
}

/* Every byte the same, so that a mixture shows. */
static void put_small(unsigned number, unsigned chance)
{
    uint8_t bytes[SMALL_MAX];
    char key[16];
    size_t length = key_of(number, key), size = 1 + chance % SMALL_MAX;
    int rc;

    memset(bytes, (int)(chance >> 8 & 255), size);
    atomic_fetch_add(&in_flight, 1);
    rc = shoal_put_start(store, "mixed", key, length, bytes, size, NULL, put_done, NULL);
    expect(rc == 0, "put_start", rc);
}

static void put_large(unsigned number)
{
    char key[16];
    size_t length = key_of(number, key);
    int rc = shoal_put(store, "mixed", key, length, large, LARGE, NULL, NULL);

    expect(rc == 0, "large put", rc);
}

/* A reader of a blob that is replaced meanwhile may lose its chunks: that is said, never hidden. */
static void get(unsigned number)
{
    uint8_t bytes[SMALL_MAX];
    struct shoal_reader *reader;
    struct shoal_stat stat;
    char key[16];
    size_t length = key_of(number, key);
    int rc = shoal_reader_open(store, "mixed", key, length, &reader, &stat);
    int64_t got;

    if (rc == SHOAL_E_ABSENT)
        return;
    expect(rc == 0, "open", rc);
    if (rc)
        return;
    got = shoal_reader_read(reader, 0, bytes, sizeof(bytes));
    if (stat.size_bytes <= SMALL_MAX) {
        expect(got == (int64_t)stat.size_bytes, "read", (int)got);
        for (int64_t i = 1; i < got; i++)
            if (bytes[i] != bytes[0]) {
                expect(false, "mixture", (int)i);
                break;
            }
    } else {
        expect(got == SHOAL_E_CORRUPT || (got > 0 && memcmp(bytes, large, (size_t)got) == 0),
            "large read", (int)got);
    }
    shoal_reader_close(reader);
}

static void list(void)
{
    struct shoal_scan *scan;
    struct shoal_entry entry;
    unsigned count = 0;
    int rc = shoal_scan_open(store, "mixed", "key/", 4, NULL, 0, &scan);

    expect(rc == 0, "list", rc);
    if (rc)
        return;
    while ((rc = shoal_scan_next(scan, &entry)) == 1)
        count++;
    expect(rc == 0 && count <= KEYS, "scan", rc);
    shoal_scan_close(scan);
}

static void *mix(void *arg)
{
    unsigned chance = (unsigned)(uintptr_t)arg * 2654435761u + 1;

    for (unsigned round = 0; round < ROUNDS; round++) {
        char key[16];
        unsigned number;
        int rc;

        chance = chance * 1664525u + 1013904223u;
        number = chance >> 20;
        switch (chance >> 28) {
        case 0:
        case 1:
            rc = shoal_delete(store, "mixed", key, key_of(number, key));
            expect(rc == 0 || rc == SHOAL_E_ABSENT, "delete", rc);
            break;
        case 2:
            if (round % 16 == 0)
                put_large(number);
            break;
        case 3:
            if (round % 8 == 0)
                list();
            break;
        case 4:
        case 5:
        case 6:
        case 7:
        case 8:
            get(number);
            break;
        default:
            put_small(number, chance);
        }
    }
    return NULL;
}

static void ignore_finding(void *arg, const struct shoal_finding *finding)
{
    (void)arg;
    print_message(
        "%s at %llu: %s\n", finding->file, (unsigned long long)finding->offset, finding->text);
}

static void run_mix(bool relaxed)
{
    char dir[] = "/tmp/shoal-threads-XXXXXX", command[64];
    struct shoal_options options = {.create = true, .relaxed = relaxed, .relaxed_ms = 5};
    struct shoal_check_report report;
    struct shoal_error error;
    struct shoal_info info;
    pthread_t threads[THREADS];

    large = malloc(LARGE);
    assert_non_null(large);
    memset(large, 7, LARGE);
    assert_non_null(mkdtemp(dir));
    assert_int_equal(shoal_open(dir, &options, &store, &error), 0);
    assert_int_equal(shoal_bucket_create(store, "mixed", false), 0);
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, mix, (void *)i), 0);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(shoal_flush(store), 0);
    while (atomic_load(&in_flight))
        assert_int_equal(shoal_flush(store), 0);
    assert_int_equal(atomic_load(&failures), 0);
    assert_int_equal(shoal_check(store, ignore_finding, NULL, NULL, &report), 0);
    assert_int_equal(report.damaged, 0);
    assert_int_equal(shoal_info(store, &info), 0);
    assert_int_equal(info.objects, report.objects);
    assert_int_equal(info.data_bytes, report.bytes);
    assert_int_equal(shoal_close(store), 0);
    assert_true(snprintf(command, sizeof(command), "rm -rf %s", dir) < (int)sizeof(command));
    assert_int_equal(system(command), 0);
    free(large);
}

static void test_sync(void **state)
{
    (void)state;
    run_mix(false);
}

static void test_relaxed(void **state)
{
    (void)state;
    run_mix(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sync), cmocka_unit_test(test_relaxed)};

    return cmocka_run_group_tests_name("store_threads", tests, NULL, NULL);
}
