/* A folder with a catalogue in it, for the tests of the catalogue on RocksDB. */
#ifndef UNIT_CATALOGUE_RIG_H
#define UNIT_CATALOGUE_RIG_H

#include <stddef.h>
#include <stdint.h>

#include "catalogue_model.h"

#define RIG_BATCH_MAX 12000

extern const uint8_t rig_identity[32];
extern char rig_folder[64]; /* made for this run */
extern char rig_dir[96]; /* the catalogue's, in the folder */
extern struct catalogue_change rig_changes[RIG_BATCH_MAX];

/* Set-up and tear-down: of the folder for all tests, of the catalogue for each. */
int rig_make(void **state);
int rig_remove(void **state);
int rig_fresh(void **state);

struct catalogue *rig_open(uint64_t durable_sequence);
/* Applies the model's next changes, at most RIG_BATCH_MAX. */
void rig_apply(struct model *model, struct catalogue *catalogue, size_t count);
/* Makes a closed catalogue that holds the model's first changes. */
void rig_fill(struct model *model);
/* Fails the test unless the catalogue is as new. */
void rig_verify_new(struct catalogue *catalogue);
/* Mostly few changes, at times enough to be ingested. */
size_t rig_batch_size(uint64_t *random);
/* Runs a command, which must succeed. */
void rig_shell(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
