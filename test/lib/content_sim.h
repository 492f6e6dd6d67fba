/* The bytes of one simulated file, as a reader sees them and as the device holds them. */
#ifndef TEST_CONTENT_SIM_H
#define TEST_CONTENT_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct random_sim;

/* A device writes this much or nothing of it. */
#define SECTOR_BYTES 512u

/* Zeroed: an empty file. visible is the page cache, durable the device; both have room bytes, and
   all bytes past the sizes are zero in visible. dirty has a byte a sector: it is still to reach the
   device. A sector may be clean and yet differ, after a failed sync. */
struct content_sim {
    uint8_t *visible, *durable, *dirty;
    size_t room;
    uint64_t visible_size, durable_size;
    uint64_t reserved_end;
    bool size_dirty;
};

void content_sim_done(struct content_sim *content);

void content_sim_write(
    struct content_sim *content, const void *bytes, size_t length, uint64_t offset);
/* Shrinks only. */
void content_sim_cut(struct content_sim *content, uint64_t size);

/* What a sync does: the dirty sectors and the size reach the device … */
void content_sim_sync(struct content_sim *content);
/* … or a sync that fails: some or none do, and the kernel forgets that the others did not. */
void content_sim_sync_lost(struct content_sim *content, struct random_sim *random);

/* The kernel drops clean pages: what was lost behind a failed sync shows. */
void content_sim_evict(struct content_sim *content);
/* Power fails: each dirty sector is kept or lost; lost ones past the device's former end hold zeros
   or bytes of stale (NULL: zeros), a file that may have lain there earlier. */
void content_sim_crash(
    struct content_sim *content, struct random_sim *random, const struct content_sim *stale);

/* Past any cache: what the device holds, or will after the write-back that such a read forces. */
uint8_t content_sim_device_byte(const struct content_sim *content, uint64_t offset);
/* At rest: on the device and, since it is read again, in the cache. */
void content_sim_flip(struct content_sim *content, uint64_t offset, uint8_t mask);

#endif
