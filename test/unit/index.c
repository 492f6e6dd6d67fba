/* index: against a plain array as the model, with hashes that collide, gather at the ends of a
   partition, or fill it evenly; size classes; failing allocations; threads (for TSan). */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/mem.h"
#include "store/index.h"

static uint64_t random_next(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static struct hash128 hash_of(uint64_t high)
{
    return (struct hash128){.high = high, .low = ~high};
}

static bool holds(struct index *index, uint64_t hash, struct place place, uint32_t *ret_bytes)
{
    struct candidate found[INDEX_CANDIDATES_MAX];
    unsigned count = index_find(index, hash_of(hash), found);
    for (unsigned i = 0; i < count; i++) {
        if (found[i].place.segment == place.segment && found[i].place.slot == place.slot) {
            *ret_bytes = found[i].read_bytes;
            return true;
        }
    }
    return false;
}

static void classes_waste_at_most_an_eighth(void **state)
{
    (void)state;
    struct index *index = index_new();
    assert_non_null(index);
    struct place place = {.segment = 7, .slot = 9};
    assert_int_equal(index_replace(index, hash_of(1), NULL, &place, 1), 0);
    for (uint32_t bytes = 1; bytes <= (4u << 20) + 8192; bytes += bytes < 70000 ? 1 : 61) {
        uint32_t read_bytes = 0;
        assert_int_equal(index_replace(index, hash_of(1), &place, &place, bytes), 0);
        assert_true(holds(index, 1, place, &read_bytes));
        assert_in_range(read_bytes, bytes, UINT32_MAX);
        uint32_t slots_bytes = (bytes + 63) / 64 * 64;
        assert_in_range(read_bytes, slots_bytes, slots_bytes + slots_bytes / 8);
    }
    uint32_t read_bytes = 0;
    assert_int_equal(index_replace(index, hash_of(1), &place, &place, UINT32_MAX), 0);
    assert_true(holds(index, 1, place, &read_bytes));
    assert_in_range(read_bytes, 4u << 20, 16u << 20);
    index_free(index);
}

static void whole_range_of_places(void **state)
{
    (void)state;
    struct index *index = index_new();
    struct place places[] = {
        {0, 0}, {(1u << 24) - 1, (1u << 24) - 1}, {(1u << 29) - 1, (1u << 28) - 1}};
    struct place beyond[] = {{1u << 29, 0}, {0, 1u << 28}, {PLACE_NONE_SEGMENT, 0}};
    uint32_t read_bytes;
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(index_replace(index, hash_of(5), NULL, &places[i], 100), 0);
        assert_int_equal(index_replace(index, hash_of(5), NULL, &beyond[i], 100), -EINVAL);
    }
    assert_int_equal(index_count(index), 3);
    for (unsigned i = 0; i < 3; i++)
        assert_true(holds(index, 5, places[i], &read_bytes));
    index_free(index);
}

static void swap_needs_the_old_place(void **state)
{
    (void)state;
    struct index *index = index_new();
    struct place a = {1, 10}, b = {2, 20}, c = {3, 30};
    uint32_t read_bytes;
    assert_int_equal(index_replace(index, hash_of(8), &a, &b, 64), 1);
    assert_int_equal(index_replace(index, hash_of(8), &a, NULL, 64), 1);
    assert_int_equal(index_replace(index, hash_of(8), NULL, &a, 64), 0);
    assert_int_equal(index_replace(index, hash_of(8), &b, &c, 64), 1);
    assert_true(holds(index, 8, a, &read_bytes));
    assert_int_equal(index_replace(index, hash_of(8), &a, &b, 200), 0);
    assert_false(holds(index, 8, a, &read_bytes));
    assert_true(holds(index, 8, b, &read_bytes));
    assert_int_equal(read_bytes, 256);
    assert_int_equal(index_replace(index, hash_of(9), &b, NULL, 0), 1);
    assert_int_equal(index_replace(index, hash_of(8), &b, NULL, 0), 0);
    assert_int_equal(index_count(index), 0);
    index_free(index);
}

static void one_hash_many_times(void **state)
{
    (void)state;
    const uint64_t hashes[] = {0, 1, UINT64_MAX, UINT64_MAX >> 8, 0x42ffffffffffffffu};
    for (unsigned h = 0; h < sizeof(hashes) / sizeof(*hashes); h++) {
        struct index *index = index_new();
        struct candidate found[INDEX_CANDIDATES_MAX];
        for (uint32_t i = 0; i < 1000; i++) {
            struct place place = {i, i + 1};
            assert_int_equal(index_replace(index, hash_of(hashes[h]), NULL, &place, 64), 0);
        }
        assert_int_equal(index_find(index, hash_of(hashes[h]), found), INDEX_CANDIDATES_MAX);
        assert_int_equal(index_find(index, hash_of(hashes[h] ^ 2), found), 0);
        for (uint32_t i = 0; i < 1000; i++) {
            struct place place = {i, i + 1};
            assert_int_equal(index_replace(index, hash_of(hashes[h]), &place, NULL, 0), 0);
        }
        assert_int_equal(index_count(index), 0);
        index_free(index);
    }
}

/* --- random operations against a model --- */

#define MODEL_MAX 30000

struct model_entry {
    uint64_t hash;
    struct place place;
    uint32_t bytes;
};

struct model {
    struct model_entry entries[MODEL_MAX];
    unsigned count;
    uint32_t next_slot;
    uint64_t random;
    unsigned shape;
};

static uint64_t random_hash(struct model *model)
{
    uint64_t value = random_next(&model->random);
    switch (model->shape) {
    case 0: /* spread over all */
        return value;
    case 1: /* few hashes, many equal */
        return (value % 2000) * 0x9e3779b97f4a7c15u;
    case 2: /* the end of one partition */
        return 0x33ffffffffff0000u | (value & 0xffff);
    default: /* one partition */
        return value >> 8 | 0x7full << 56;
    }
}

static void step(struct index *index, struct model *model, unsigned limit)
{
    uint64_t dice = random_next(&model->random) % 100;
    bool full = model->count >= limit;
    struct place to = {model->next_slot % 1000, ++model->next_slot};
    uint32_t bytes = 1 + (uint32_t)(random_next(&model->random) % 100000);
    if (!full && (dice < 60 || !model->count)) {
        uint64_t hash = random_hash(model);
        assert_int_equal(index_replace(index, hash_of(hash), NULL, &to, bytes), 0);
        model->entries[model->count++] = (struct model_entry){hash, to, bytes};
        return;
    }
    struct model_entry *chosen = &model->entries[random_next(&model->random) % model->count];
    struct hash128 hash = hash_of(chosen->hash);
    if (dice < 75) {
        assert_int_equal(index_replace(index, hash, &chosen->place, &to, bytes), 0);
        chosen->place = to;
        chosen->bytes = bytes;
    } else if (dice < 80) {
        assert_int_equal(index_replace(index, hash, &to, &to, bytes), 1);
    } else {
        assert_int_equal(index_replace(index, hash, &chosen->place, NULL, 0), 0);
        *chosen = model->entries[--model->count];
    }
}

struct tally {
    uint64_t count, sum;
};

static uint64_t digest(uint64_t hash, struct place place)
{
    uint64_t state = hash ^ (uint64_t)place.segment << 32 ^ place.slot;
    return random_next(&state);
}

static void tally_visit(void *arg, uint64_t hash_high, struct place place)
{
    struct tally *tally = arg;
    tally->count++;
    tally->sum += digest(hash_high, place);
}

static void verify(struct index *index, const struct model *model)
{
    struct tally tally = {0}, expected = {.count = model->count};
    for (unsigned i = 0; i < model->count; i++)
        expected.sum += digest(model->entries[i].hash, model->entries[i].place);
    index_each(index, tally_visit, &tally);
    assert_int_equal(tally.count, expected.count);
    assert_int_equal(tally.sum, expected.sum);
    assert_int_equal(index_count(index), model->count);
    for (unsigned i = 0; i < model->count; i++) {
        const struct model_entry *entry = &model->entries[i];
        struct candidate found[INDEX_CANDIDATES_MAX];
        uint32_t read_bytes = 0;
        if (!holds(index, entry->hash, entry->place, &read_bytes))
            assert_int_equal(index_find(index, hash_of(entry->hash), found), INDEX_CANDIDATES_MAX);
        else
            assert_in_range(read_bytes, entry->bytes, UINT32_MAX);
    }
}

static void random_operations(void **state)
{
    (void)state;
    struct model *model = calloc(1, sizeof(*model));
    for (unsigned shape = 0; shape < 4; shape++) {
        *model = (struct model){.shape = shape, .random = 1234 + shape};
        struct index *index = index_new();
        unsigned limits[] = {100, 20000, 5, MODEL_MAX, 0};
        for (unsigned round = 0; limits[round]; round++) {
            /* All of shape 2 is one run, whose length every step walks. */
            unsigned limit = shape == 2 && limits[round] > 1000 ? 1000 : limits[round];
            for (unsigned i = 0; i < 60000; i++)
                step(index, model, limit);
            while (model->count > limit / 2) {
                struct model_entry *last = &model->entries[--model->count];
                assert_int_equal(
                    index_replace(index, hash_of(last->hash), &last->place, NULL, 0), 0);
            }
            verify(index, model);
        }
        index_free(index);
    }
    free(model);
}

static void memory_follows_the_count(void **state)
{
    (void)state;
    struct index *index = index_new();
    const uint32_t count = 1000000;
    uint64_t random = 99;
    for (uint32_t i = 0; i < count; i++) {
        struct place place = {0, i};
        assert_int_equal(index_replace(index, hash_of(random_next(&random)), NULL, &place, 500), 0);
    }
    assert_in_range(index_ram_bytes(index), count * 18, count * 25);
    random = 99;
    for (uint32_t i = 0; i < count; i++) {
        struct place place = {0, i};
        assert_int_equal(index_replace(index, hash_of(random_next(&random)), &place, NULL, 0), 0);
    }
    assert_int_equal(index_count(index), 0);
    assert_in_range(index_ram_bytes(index), 1, 1 << 20);
    index_free(index);
}

static void failed_allocations_change_nothing(void **state)
{
    (void)state;
    mem_fail_after(0);
    assert_null(index_new());
    mem_fail_after(-1);
    struct index *index = index_new();
    uint64_t random = 5;
    uint32_t count = 0, failed = 0;
    for (uint32_t i = 0; i < 3000; i++) {
        uint64_t hash = random_next(&random) >> 8;
        struct place place = {1, i};
        uint32_t read_bytes;
        mem_fail_after(0);
        int rc = index_replace(index, hash_of(hash), NULL, &place, 64);
        mem_fail_after(-1);
        if (rc < 0) {
            assert_int_equal(rc, -ENOMEM);
            assert_false(holds(index, hash, place, &read_bytes));
            assert_int_equal(index_count(index), count);
            failed++;
            assert_int_equal(index_replace(index, hash_of(hash), NULL, &place, 64), 0);
        }
        count++;
        assert_true(holds(index, hash, place, &read_bytes));
        assert_int_equal(index_count(index), count);
    }
    assert_in_range(failed, 5, 100);
    index_free(index);
}

/* --- threads --- */

#define THREADS         4
#define KEYS_A_THREAD   4000
#define ROUNDS_A_THREAD 5

struct worker {
    struct index *index;
    unsigned number;
    unsigned wrong;
};

/* Every thread owns keys of its own in partitions shared by all, and looks at the others' too. */
static void *work(void *arg)
{
    struct worker *worker = arg;
    uint64_t random = worker->number;
    for (unsigned round = 0; round < ROUNDS_A_THREAD; round++) {
        for (uint32_t i = 0; i < KEYS_A_THREAD; i++) {
            uint64_t seed = (uint64_t)worker->number << 32 | i, hash = random_next(&seed);
            struct place a = {worker->number, 2 * i}, b = {worker->number, 2 * i + 1};
            uint32_t read_bytes;
            struct candidate found[INDEX_CANDIDATES_MAX];
            worker->wrong += index_replace(worker->index, hash_of(hash), NULL, &a, 64) != 0;
            worker->wrong += index_replace(worker->index, hash_of(hash), &a, &b, 64) != 0;
            worker->wrong += !holds(worker->index, hash, b, &read_bytes);
            seed = (random_next(&random) % THREADS) << 32 | i;
            worker->wrong += index_find(worker->index, hash_of(random_next(&seed)), found) > 1;
        }
        for (uint32_t i = round + 1 == ROUNDS_A_THREAD ? 100 : 0; i < KEYS_A_THREAD; i++) {
            uint64_t seed = (uint64_t)worker->number << 32 | i;
            struct place b = {worker->number, 2 * i + 1};
            worker->wrong +=
                index_replace(worker->index, hash_of(random_next(&seed)), &b, NULL, 0) != 0;
        }
    }
    return NULL;
}

static void many_threads(void **state)
{
    (void)state;
    struct index *index = index_new();
    pthread_t threads[THREADS];
    struct worker workers[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.index = index, .number = i};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (unsigned i = 0; i < 20; i++) {
        struct tally tally = {0};
        index_each(index, tally_visit, &tally);
        assert_in_range(tally.count, 0, THREADS * KEYS_A_THREAD);
        assert_in_range(index_count(index), 0, THREADS * KEYS_A_THREAD);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(workers[i].wrong, 0);
    }
    assert_int_equal(index_count(index), THREADS * 100);
    index_free(index);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(classes_waste_at_most_an_eighth),
        cmocka_unit_test(whole_range_of_places),
        cmocka_unit_test(swap_needs_the_old_place),
        cmocka_unit_test(one_hash_many_times),
        cmocka_unit_test(random_operations),
        cmocka_unit_test(memory_follows_the_count),
        cmocka_unit_test(failed_allocations_change_nothing),
        cmocka_unit_test(many_threads),
    };
    return cmocka_run_group_tests_name("index", tests, NULL, NULL);
}
