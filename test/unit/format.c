/* The format as doc/FORMAT.md gives it: a store written from the page's golden bytes opens and holds
   what the page says, and a store made under the same clock and chance has those bytes. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include <shoal/shoal.h>

#include "lib/catalogue_memory.h"
#include "lib/clock_sim.h"
#include "os/random.h"
#include "store/store.h"
#include "store/volume.h"

#define BLOCK      4096
#define FILE_BYTES (16 * BLOCK)

struct golden {
    uint8_t manifest[BLOCK], segment[FILE_BYTES];
    size_t manifest_bytes, segment_bytes;
};

/* --- the page --- */

/* "00001000  53 47 …": sixteen bytes or fewer at that offset. Lines left out are zeros; a line with a
   star says that the one before repeats up to the next. */
static size_t parse_line(const char *line, size_t repeat_from, uint8_t *bytes, size_t limit)
{
    char *end;
    size_t offset = strtoul(line, &end, 16);

    for (size_t at = repeat_from; repeat_from && at + 16 <= offset; at += 16)
        memcpy(bytes + at, bytes + repeat_from - 16, 16);
    for (;;) {
        char *next;
        unsigned long value = strtoul(end, &next, 16);

        if (next == end)
            return offset;
        assert_true(offset < limit && value < 256);
        bytes[offset++] = (uint8_t)value;
        end = next;
    }
}

static void load_golden(struct golden *golden)
{
    FILE *page = fopen(FORMAT_PAGE, "r");
    char line[256];
    uint8_t *bytes = NULL;
    size_t limit = 0, repeat_from = 0, *length = NULL;

    memset(golden, 0, sizeof(*golden));
    assert_non_null(page);
    while (fgets(line, sizeof(line), page)) {
        if (strncmp(line, "Golden `MANIFEST`", 17) == 0) {
            bytes = golden->manifest;
            limit = sizeof(golden->manifest);
            length = &golden->manifest_bytes;
        } else if (strncmp(line, "Golden `seg/", 12) == 0) {
            bytes = golden->segment;
            limit = sizeof(golden->segment);
            length = &golden->segment_bytes;
        } else if (bytes && strncmp(line, "    0", 5) == 0) {
            *length = parse_line(line + 4, repeat_from, bytes, limit);
            repeat_from = 0;
        } else if (bytes && strncmp(line, "    *", 5) == 0) {
            repeat_from = *length;
        }
    }
    (void)fclose(page);
    assert_true(golden->manifest_bytes > 0 && golden->segment_bytes > 0);
}

/* --- files --- */

static void make_path(char *path, size_t size, const char *dir, const char *name)
{
    assert_true((size_t)snprintf(path, size, "%s/%s", dir, name) < size);
}

static void write_file(const char *dir, const char *name, const uint8_t *bytes, size_t length)
{
    char path[256];
    FILE *file;

    make_path(path, sizeof(path), dir, name);
    file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
}

static size_t read_file(const char *dir, const char *name, uint8_t *bytes, size_t limit)
{
    char path[256];
    FILE *file;
    size_t length;

    make_path(path, sizeof(path), dir, name);
    file = fopen(path, "r");
    assert_non_null(file);
    length = fread(bytes, 1, limit, file);
    (void)fclose(file);
    return length;
}

static void remove_dir(const char *dir)
{
    char command[300];

    assert_true((size_t)snprintf(command, sizeof(command), "rm -rf '%s'", dir) < sizeof(command));
    assert_int_equal(system(command), 0);
}

/* --- a store under a fixed clock and fixed chance --- */

static int fill_counting(struct random_source *source, void *buffer, size_t length)
{
    uint8_t *at = buffer;

    (void)source;
    for (size_t i = 0; i < length; i++)
        at[i] = (uint8_t)(0xa0 + i);
    return 0;
}

static int open_catalogue(void *arg, const uint8_t identity[32], uint64_t durable_sequence,
    struct catalogue **ret_catalogue, struct shoal_error *error)
{
    return catalogue_memory_open(arg, identity, durable_sequence, ret_catalogue, error);
}

static void make_store(const char *dir)
{
    struct random_source chance = {.fill = fill_counting};
    struct catalogue_memory *memory = catalogue_memory_new();
    struct clock_sim clock;
    struct store_config config = {.clock = &clock.clock,
        .random = &chance,
        .catalogue_open = open_catalogue,
        .catalogue_arg = memory,
        .create = true};
    struct shoal_attrs attrs = {.content_type = "text/plain", .mtime_ns = 1500000000123456789};
    struct shoal_error error;
    struct shoal *store;

    clock_sim_init(&clock);
    assert_int_equal(volume_file_open(dir, 1, 0, &config.volume, &error), 0);
    assert_int_equal(store_open(&config, &store, &error), 0);
    assert_int_equal(shoal_bucket_create(store, "demo", true), 0);
    assert_int_equal(shoal_put(store, "demo", "a", 1, "hello", 5, &attrs, NULL), 0);
    assert_int_equal(shoal_put(store, "demo", "a", 1, "hello, world", 12, &attrs, NULL), 0);
    assert_int_equal(shoal_put(store, "demo", "b", 1, "gone", 4, &attrs, NULL), 0);
    assert_int_equal(shoal_delete(store, "demo", "b", 1), 0);
    assert_int_equal(shoal_close(store), 0);
    catalogue_memory_free(memory);
}

static void print_golden(const char *title, const uint8_t *bytes, size_t length)
{
    bool starred = false;

    printf("%s\n\n", title);
    for (size_t at = 0; at < length; at += 16) {
        static const uint8_t zeros[16];
        size_t count = length - at < 16 ? length - at : 16;
        bool last = at + 16 >= length;

        if (!last && memcmp(bytes + at, zeros, count) == 0)
            continue;
        if (!last && at >= 16 && memcmp(bytes + at, bytes + at - 16, 16) == 0) {
            if (!starred)
                printf("    *\n");
            starred = true;
            continue;
        }
        starred = false;
        printf("    %08zx ", at);
        for (size_t i = 0; i < count; i++)
            printf(" %02x", bytes[at + i]);
        printf("\n");
    }
}

/* --- tests --- */

static void ignore_finding(void *arg, const struct shoal_finding *finding)
{
    (void)arg;
    print_message(
        "%s at %llu: %s\n", finding->file, (unsigned long long)finding->offset, finding->text);
}

static void test_page_opens(void **state)
{
    char dir[] = "/tmp/shoal-format-XXXXXX", seg[64], text[16];
    struct shoal_check_report report;
    struct shoal_bucket bucket;
    struct shoal_reader *reader;
    struct shoal_error error;
    struct shoal_stat stat;
    struct golden golden;
    struct shoal *store;

    (void)state;
    load_golden(&golden);
    assert_non_null(mkdtemp(dir));
    make_path(seg, sizeof(seg), dir, "seg");
    assert_int_equal(mkdir(seg, 0700), 0);
    write_file(dir, "MANIFEST", golden.manifest, golden.manifest_bytes);
    write_file(dir, "seg/0000000000000001", golden.segment, golden.segment_bytes);
    assert_int_equal(shoal_open(dir, NULL, &store, &error), 0);
    assert_int_equal(shoal_bucket_stat(store, "demo", &bucket), 0);
    assert_true(bucket.is_public);
    assert_int_equal(shoal_reader_open(store, "demo", "a", 1, &reader, &stat), 0);
    assert_int_equal(shoal_reader_read(reader, 0, text, sizeof(text)), 12);
    assert_memory_equal(text, "hello, world", 12);
    shoal_reader_close(reader);
    assert_string_equal(stat.content_type, "text/plain");
    assert_int_equal(stat.mtime_ns, 1500000000123456789);
    assert_int_equal(shoal_stat(store, "demo", "b", 1, &stat), SHOAL_E_ABSENT);
    assert_int_equal(shoal_check(store, ignore_finding, NULL, NULL, &report), 0);
    assert_int_equal(report.damaged, 0);
    assert_int_equal(report.records, 5);
    assert_int_equal(report.objects, 1);
    assert_int_equal(shoal_close(store), 0);
    remove_dir(dir);
}

static void test_store_writes_page(void **state)
{
    char dir[] = "/tmp/shoal-format-XXXXXX";
    uint8_t manifest[BLOCK], segment[FILE_BYTES];
    struct golden golden;
    size_t manifest_bytes, segment_bytes;

    (void)state;
    load_golden(&golden);
    assert_non_null(mkdtemp(dir));
    make_store(dir);
    manifest_bytes = read_file(dir, "MANIFEST", manifest, sizeof(manifest));
    segment_bytes = read_file(dir, "seg/0000000000000001", segment, sizeof(segment));
    assert_int_equal(manifest_bytes, golden.manifest_bytes);
    assert_memory_equal(manifest, golden.manifest, manifest_bytes);
    assert_int_equal(segment_bytes, golden.segment_bytes);
    assert_memory_equal(segment, golden.segment, segment_bytes);
    remove_dir(dir);
}

/* With "print": the page's section for the store as it is made now. */
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_page_opens), cmocka_unit_test(test_store_writes_page)};

    if (argc > 1 && strcmp(argv[1], "print") == 0) {
        char dir[] = "/tmp/shoal-format-XXXXXX";
        uint8_t bytes[FILE_BYTES];

        if (!mkdtemp(dir))
            return 1;
        make_store(dir);
        print_golden("Golden `MANIFEST`:", bytes, read_file(dir, "MANIFEST", bytes, sizeof(bytes)));
        printf("\n");
        print_golden("Golden `seg/0000000000000001`:", bytes,
            read_file(dir, "seg/0000000000000001", bytes, sizeof(bytes)));
        remove_dir(dir);
        return 0;
    }
    return cmocka_run_group_tests_name("format", tests, NULL, NULL);
}
