/* The store below the public API: opening it on any volume, clock and catalogue, and its background
   jobs as single steps. */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include <shoal/shoal.h>

struct catalogue;
struct clock;
struct random_source;
struct volume;

struct store_config {
    struct volume *volume; /* the store's from here on, also when opening fails */
    struct clock *clock;
    struct random_source *random;
    /* As catalogue_rocksdb_open, with arg for its place. */
    int (*catalogue_open)(void *arg, const uint8_t identity[32], uint64_t durable_sequence,
        struct catalogue **ret_catalogue, struct shoal_error *error);
    void *catalogue_arg; /* freed by mem_free when the store closes, if catalogue_arg_owned */
    bool catalogue_arg_owned;
    bool create;
    bool read_only;
    bool threads; /* a committer and a background thread; otherwise the caller steps */
    bool relaxed;
    unsigned relaxed_ms;
    uint64_t segment_bytes; /* at least twice group_bytes */
    uint32_t group_bytes; /* holds a record of chunk_bytes with its head */
    uint32_t chunk_bytes; /* of large objects; at most SHOAL_CHUNK_BYTES */
    unsigned group_buffers;
};

int store_open(
    const struct store_config *config, struct shoal **ret_store, struct shoal_error *error);
/* Frees the store without a word to the volume, as a crash would leave it. No threads. */
void store_abandon(struct shoal *store);

/* Single steps. 1: did something, 0: nothing to do, or a negative code. */
int store_commit_step(struct shoal *store);
int store_catalogue_step(struct shoal *store);
int store_seal_step(struct shoal *store);
int store_reap_step(struct shoal *store);

/* What opening found damaged; check reports the same with more. */
uint64_t store_damage_at_open(struct shoal *store);

#endif
