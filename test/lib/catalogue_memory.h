/* The catalogue's twin in memory: same interface, no RocksDB, and it can lose what was not flushed. */
#ifndef TEST_CATALOGUE_MEMORY_H
#define TEST_CATALOGUE_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "store/catalogue.h"

/* What lies on the disk: outlives the stores that open it. The functions below are for one thread,
   while no store has it open. */
struct catalogue_memory;

/* Ends the test when out of memory. */
struct catalogue_memory *catalogue_memory_new(void);
void catalogue_memory_free(struct catalogue_memory *memory);

/* As catalogue_rocksdb_open: one of another identity, or whose progress is above durable_sequence,
   is emptied. -EBUSY while it is open. */
int catalogue_memory_open(struct catalogue_memory *memory, const uint8_t identity[32],
    uint64_t durable_sequence, struct catalogue **ret_catalogue, struct shoal_error *error);

/* Power fails: back to the last flush. */
void catalogue_memory_crash(struct catalogue_memory *memory);
/* As if somebody had deleted it. */
void catalogue_memory_wipe(struct catalogue_memory *memory);

/* The call of apply or flush after the next `calls` fails with -EIO, once; negative: none. */
void catalogue_memory_fail_after(struct catalogue_memory *memory, int64_t calls);

/* How often open found it ahead of what was durable. */
uint64_t catalogue_memory_ahead_count(const struct catalogue_memory *memory);
/* The first breach of what catalogue.h asks of callers (order of sequences, prev_bytes that are not
   those of the version replaced), or NULL. */
const char *catalogue_memory_violation(const struct catalogue_memory *memory);

#endif
