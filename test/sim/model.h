/* What a store must hold: a plain list of keys, each with the versions that may be true. */
#ifndef SIM_MODEL_H
#define SIM_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MODEL_BUCKETS         3u
#define MODEL_KEYS_PER_BUCKET 20u
#define MODEL_SLOTS           (MODEL_BUCKETS * (MODEL_KEYS_PER_BUCKET + 1))
#define MODEL_KEY_MAX         80u

/* Of a bucket's slot. An object's value is the number of the put that stored it. */
enum { VALUE_ABSENT = 0, VALUE_PRIVATE = 1, VALUE_PUBLIC = 2 };

enum version_status {
    VERSION_IN_FLIGHT, /* handed to the store, not answered */
    VERSION_ACKED, /* answered; a power cut may still take it (relaxed durability) */
    VERSION_DURABLE, /* answered and synced: it stays */
    VERSION_MAYBE, /* failed in a way that leaves open whether it is on the device */
};

struct version {
    uint64_t order; /* of submission, over all slots */
    uint64_t value;
    uint64_t sequence; /* once answered: the highest of its group */
    enum version_status status;
};

/* A bucket, or a key of one. versions[0] is what the others would replace. */
struct slot {
    bool is_bucket;
    unsigned bucket;
    uint16_t key_length;
    uint8_t key[MODEL_KEY_MAX];
    struct version *versions;
    size_t version_count;
};

/* One put's content, from its number alone. */
struct value {
    uint64_t number;
    uint32_t size_bytes;
    int64_t mtime_ns; /* different for each, so it tells which put is seen */
    const char *content_type;
};

struct model {
    struct slot slots[MODEL_SLOTS];
    uint64_t next_order;
    struct value *values; /* of all puts so far */
    size_t value_count;
};

void model_init(struct model *model, uint64_t seed);
void model_done(struct model *model);
const char *model_bucket_name(unsigned bucket);
struct slot *model_bucket(struct model *model, unsigned bucket);
struct slot *model_key(struct model *model, unsigned bucket, unsigned number);

/* A new content; its number is the value. */
uint64_t model_value_new(struct model *model, uint32_t size_bytes);
const struct value *model_value(const struct model *model, uint64_t number);
/* NULL if no put had this time. */
const struct value *model_value_at(const struct model *model, int64_t mtime_ns);
void model_value_bytes(const struct value *value, uint8_t *ret_bytes);

/* The order number of a write that is about to be handed to the store. */
uint64_t model_begin(struct model *model, struct slot *slot, uint64_t value);
void model_acked(struct slot *slot, uint64_t order, uint64_t sequence);
/* maybe: it may come back after a reopen; otherwise it never will. */
void model_failed(struct slot *slot, uint64_t order, bool maybe);
/* Everything answered up to this sequence is on the device. */
void model_durable(struct model *model, uint64_t sequence);
/* A late sync failed: what was answered and not durable is taken back. */
void model_lost_window(struct model *model, bool maybe);
/* Everything without an answer, or answered and not durable, may be there or not. */
void model_crashed(struct model *model);

/* What readers see while the store is open. */
uint64_t model_visible(const struct slot *slot);
bool model_in_flight(const struct slot *slot);

/* After a reopen: whether actual (a value for each slot) is the state after some number of the
   writes in the order of their submission, with all that had to stay. If so that is the state now. */
bool model_settle(struct model *model, const uint64_t actual[MODEL_SLOTS]);

#endif
