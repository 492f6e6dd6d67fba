/* The RAM index: from key hash to the places in segments that may hold the key.

   Thread-safe: a lock per partition. Never blocks on the device. In this form an entry keeps 64 bits
   of the hash, so a second candidate is as good as never seen, but callers must not rely on that:
   the record's key decides. */
#ifndef STORE_INDEX_H
#define STORE_INDEX_H

#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"

struct index;

/* Where a record lies: a dense segment number, the 64-byte slot in it, and the record's length in
   slots rounded up to a size class. */
struct place {
    uint32_t segment;
    uint32_t slot;
};

#define INDEX_CANDIDATES_MAX 16
#define PLACE_NONE_SEGMENT   UINT32_MAX

struct candidate {
    struct place place;
    uint32_t read_bytes; /* enough to hold the record, or its first 4 MiB */
};

struct index *index_new(void);
void index_free(struct index *index);

/* The number of candidates written, at most INDEX_CANDIDATES_MAX. */
unsigned index_find(struct index *index, struct hash128 hash,
    struct candidate ret_candidates[INDEX_CANDIDATES_MAX]);

/* One atomic step. from NULL: inserts to. to NULL: removes the entry at from. Both: the entry at
   from now lies at to. Returns 0; 1 if from was given and is not there (nothing is changed then:
   compare-and-swap); -ENOMEM, -EINVAL where `to` is beyond 2^29 segments of 2^28 slots: nothing is
   changed either. bytes: the record's length; without `to` it is ignored. */
int index_replace(struct index *index, struct hash128 hash, const struct place *from,
    const struct place *to, uint32_t bytes);

uint64_t index_count(struct index *index);
uint64_t index_ram_bytes(struct index *index);

/* Calls visit for every entry with the hash bits kept (the high 64); partition by partition, each under its
   lock: visit must not call the index. */
void index_each(struct index *index,
    void (*visit)(void *arg, uint64_t hash_high, struct place place), void *arg);

#endif
