/* The model: writes are numbered in the order in which they are handed to the store, and each slot
   keeps the versions that a reopen may find.

   The store has one log in one order. So whatever a crash leaves, it must be the state after the
   first N writes for some N, and N must not be below what was answered as durable. model_settle
   tries every N. That catches a lost write, one that comes back, one torn out of a group, and writes
   that change places. */
#include "sim/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/need.h"
#include "lib/random_sim.h"

#define FIRST_MTIME_NS 1500000000000000000

static const char *const bucket_names[MODEL_BUCKETS] = {"posters", "stills.x", "a-1"};
static const char *const content_types[] = {"image/jpeg", "image/png", "text/html", "x/y"};

/* Keys that share prefixes, end in slashes, are not UTF-8, or are prefixes of each other. */
static void name_key(struct slot *slot, unsigned number, struct random_sim *random)
{
    static const char *const forms[] = {"%u", "a/%u", "a/b/%u", "a/%u/", "\xff\xfe%u"};
    const char *form = forms[number % 5];
    char text[MODEL_KEY_MAX];
    const char *digits = strchr(form, '%');
    size_t prefix = (size_t)(digits - form);
    int length;

    memcpy(text, form, prefix);
    length = snprintf(text + prefix, sizeof(text) - prefix, "%u%s", number / 5, digits + 2);
    slot->key_length = (uint16_t)(prefix + (size_t)length);
    memcpy(slot->key, text, slot->key_length);
    if (random_sim_one_in(random, 8)) {
        memset(slot->key + slot->key_length, 'x', MODEL_KEY_MAX - slot->key_length);
        slot->key_length = MODEL_KEY_MAX;
    }
}

void model_init(struct model *model, uint64_t seed)
{
    struct random_sim random;

    memset(model, 0, sizeof(*model));
    random_sim_init(&random, seed);
    model->next_order = 1;
    for (unsigned i = 0; i < MODEL_SLOTS; i++) {
        struct slot *slot = &model->slots[i];

        slot->bucket = i / (MODEL_KEYS_PER_BUCKET + 1);
        slot->is_bucket = i % (MODEL_KEYS_PER_BUCKET + 1) == 0;
        if (!slot->is_bucket)
            name_key(slot, i % (MODEL_KEYS_PER_BUCKET + 1) - 1, &random);
        slot->versions = need_zero(sizeof(struct version));
        slot->versions[0].status = VERSION_DURABLE;
        slot->version_count = 1;
    }
}

void model_done(struct model *model)
{
    for (unsigned i = 0; i < MODEL_SLOTS; i++)
        free(model->slots[i].versions);
    free(model->values);
}

const char *model_bucket_name(unsigned bucket)
{
    return bucket_names[bucket];
}

struct slot *model_bucket(struct model *model, unsigned bucket)
{
    return &model->slots[bucket * (MODEL_KEYS_PER_BUCKET + 1)];
}

struct slot *model_key(struct model *model, unsigned bucket, unsigned number)
{
    return model_bucket(model, bucket) + 1 + number;
}

/* --- contents --- */

uint64_t model_value_new(struct model *model, uint32_t size_bytes)
{
    uint64_t number = model->value_count + 1;
    struct value *value;

    model->values = need_resize(model->values, number * sizeof(*value));
    value = &model->values[model->value_count++];
    *value = (struct value){.number = number,
        .size_bytes = size_bytes,
        .mtime_ns = FIRST_MTIME_NS + (int64_t)number * 1000003,
        .content_type = content_types[number % 4]};
    return number;
}

const struct value *model_value(const struct model *model, uint64_t number)
{
    return &model->values[number - 1];
}

const struct value *model_value_at(const struct model *model, int64_t mtime_ns)
{
    int64_t number = (mtime_ns - FIRST_MTIME_NS) / 1000003;

    if (number < 1 || (uint64_t)number > model->value_count)
        return NULL;
    return model->values[number - 1].mtime_ns == mtime_ns ? &model->values[number - 1] : NULL;
}

void model_value_bytes(const struct value *value, uint8_t *ret_bytes)
{
    struct random_sim random;

    random_sim_init(&random, value->number * 0x2545f4914f6cdd1d);
    (void)random.source.fill(&random.source, ret_bytes, value->size_bytes); /* cannot fail */
}

/* --- versions --- */

uint64_t model_begin(struct model *model, struct slot *slot, uint64_t value)
{
    slot->versions =
        need_resize(slot->versions, (slot->version_count + 1) * sizeof(struct version));
    slot->versions[slot->version_count++] =
        (struct version){.order = model->next_order, .value = value, .status = VERSION_IN_FLIGHT};
    return model->next_order++;
}

static size_t find_version(const struct slot *slot, uint64_t order)
{
    size_t at = slot->version_count - 1;

    while (at > 0 && slot->versions[at].order != order)
        at--;
    return at;
}

static void forget(struct slot *slot, size_t at, size_t count)
{
    slot->version_count -= count;
    memmove(slot->versions + at, slot->versions + at + count,
        (slot->version_count - at) * sizeof(struct version));
}

/* What came before a durable version can't be seen again. */
static void drop_older(struct slot *slot)
{
    for (size_t at = slot->version_count - 1; at > 0; at--) {
        if (slot->versions[at].status == VERSION_DURABLE) {
            forget(slot, 0, at);
            return;
        }
    }
}

void model_acked(struct slot *slot, uint64_t order, uint64_t sequence)
{
    struct version *version = &slot->versions[find_version(slot, order)];

    version->status = VERSION_ACKED;
    version->sequence = sequence;
}

void model_failed(struct slot *slot, uint64_t order, bool maybe)
{
    size_t at = find_version(slot, order);

    if (maybe)
        slot->versions[at].status = VERSION_MAYBE;
    else
        forget(slot, at, 1);
}

void model_durable(struct model *model, uint64_t sequence)
{
    for (unsigned i = 0; i < MODEL_SLOTS; i++) {
        struct slot *slot = &model->slots[i];

        for (size_t j = 0; j < slot->version_count; j++) {
            if (slot->versions[j].status == VERSION_ACKED && slot->versions[j].sequence <= sequence)
                slot->versions[j].status = VERSION_DURABLE;
        }
        drop_older(slot);
    }
}

void model_lost_window(struct model *model, bool maybe)
{
    for (unsigned i = 0; i < MODEL_SLOTS; i++) {
        struct slot *slot = &model->slots[i];

        for (size_t j = slot->version_count - 1; j > 0; j--) {
            if (slot->versions[j].status == VERSION_ACKED && maybe)
                slot->versions[j].status = VERSION_MAYBE;
            else if (slot->versions[j].status == VERSION_ACKED)
                forget(slot, j, 1);
        }
    }
}

void model_crashed(struct model *model)
{
    for (unsigned i = 0; i < MODEL_SLOTS; i++) {
        struct slot *slot = &model->slots[i];

        for (size_t j = 1; j < slot->version_count; j++) {
            if (slot->versions[j].status == VERSION_IN_FLIGHT)
                slot->versions[j].status = VERSION_MAYBE;
        }
    }
}

uint64_t model_visible(const struct slot *slot)
{
    size_t at = slot->version_count - 1;

    while (at > 0 && slot->versions[at].status != VERSION_ACKED)
        at--;
    return slot->versions[at].value;
}

bool model_in_flight(const struct slot *slot)
{
    for (size_t i = 1; i < slot->version_count; i++) {
        if (slot->versions[i].status == VERSION_IN_FLIGHT)
            return true;
    }
    return false;
}

/* --- after a reopen --- */

/* The last version among the first `through` writes. */
static uint64_t value_through(const struct slot *slot, uint64_t through)
{
    size_t at = slot->version_count - 1;

    while (at > 0 && slot->versions[at].order > through)
        at--;
    return slot->versions[at].value;
}

static bool is_state_through(
    const struct model *model, const uint64_t actual[MODEL_SLOTS], uint64_t through)
{
    for (unsigned i = 0; i < MODEL_SLOTS; i++) {
        if (value_through(&model->slots[i], through) != actual[i])
            return false;
    }
    return true;
}

/* The number of the last write that must be there. */
static uint64_t durable_through(const struct model *model)
{
    uint64_t highest = 0;

    for (unsigned i = 0; i < MODEL_SLOTS; i++) {
        if (model->slots[i].versions[0].order > highest)
            highest = model->slots[i].versions[0].order;
    }
    return highest;
}

bool model_settle(struct model *model, const uint64_t actual[MODEL_SLOTS])
{
    uint64_t through = durable_through(model);

    while (through < model->next_order && !is_state_through(model, actual, through))
        through++;
    if (through == model->next_order)
        return false;
    for (unsigned i = 0; i < MODEL_SLOTS; i++) {
        struct slot *slot = &model->slots[i];
        size_t at = slot->version_count - 1;

        while (at > 0 && slot->versions[at].order > through)
            at--;
        slot->versions[0] = slot->versions[at];
        slot->versions[0].status = VERSION_DURABLE;
        slot->version_count = 1;
    }
    return true;
}
