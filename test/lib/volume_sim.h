/* A volume in memory whose device loses, tears and damages what it legally may. */
#ifndef TEST_VOLUME_SIM_H
#define TEST_VOLUME_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "store/volume.h"

/* The device and the machine: outlives the stores that open it. Calls through a volume may come
   from several threads; the functions below are for one, while no call is under way. */
struct volume_sim;

#define VOLUME_SIM_BLOCK_BYTES 4096u

/* Ends the test when out of memory. The seed decides what each crash and fault leaves. */
struct volume_sim *volume_sim_new(uint64_t seed);
void volume_sim_free(struct volume_sim *sim);

/* A volume for one life of a store, to be ended by its done. */
struct volume *volume_sim_open(struct volume_sim *sim, bool read_only);

/* --- crashes --- */

/* The calls that change something come through to the Nth, which may or may not take effect (in
   whole or in part); it and all later ones return -EIO until the restart. An append to the manifest
   is several such calls. */
void volume_sim_crash_after(struct volume_sim *sim, uint64_t calls);
/* At once. */
void volume_sim_stop(struct volume_sim *sim);
bool volume_sim_crashed(const struct volume_sim *sim);
/* Calls so far that change something. */
uint64_t volume_sim_calls(const struct volume_sim *sim);

enum volume_sim_restart {
    VOLUME_SIM_POWER_CUT, /* what was not synced is lost, kept or torn; names too */
    VOLUME_SIM_KILLED, /* only the process ended: the kernel still has everything */
};
/* The volume opened before must have been done with. */
void volume_sim_restart(struct volume_sim *sim, enum volume_sim_restart how);

/* --- faults --- */

enum volume_sim_fault {
    VOLUME_SIM_WRITE_EIO, /* part of the write may be there */
    VOLUME_SIM_SYNC_EIO, /* the data did reach the device */
    VOLUME_SIM_SYNC_EIO_LOST, /* it did not, and a second sync would claim it had */
    VOLUME_SIM_DIR_SYNC_EIO, /* the names did or did not */
    VOLUME_SIM_CREATE_EIO, /* the file may be there */
    VOLUME_SIM_READ_EIO,
    VOLUME_SIM_READ_SHORT, /* fewer bytes than there are */
    VOLUME_SIM_MANIFEST_EIO, /* at one of its steps */
    VOLUME_SIM_FAULTS
};
/* The call of that kind after the next `calls` fails, once. */
void volume_sim_arm(struct volume_sim *sim, enum volume_sim_fault fault, uint64_t calls);
void volume_sim_disarm_all(struct volume_sim *sim);
/* How many faults of that kind have struck. */
uint64_t volume_sim_struck(const struct volume_sim *sim, enum volume_sim_fault fault);

/* Bytes that segments and manifest may take, reservations included; 0: no limit. */
void volume_sim_set_capacity(struct volume_sim *sim, uint64_t bytes);
uint64_t volume_sim_used(struct volume_sim *sim);
/* Lost bytes past a file's end may show what an earlier file left there. On at the start. */
void volume_sim_set_stale(struct volume_sim *sim, bool on);

/* --- the device, looked at and damaged from outside --- */

/* The ids of the files that have names, in the order of their creation; at most max. */
size_t volume_sim_segments(struct volume_sim *sim, uint64_t *ret_ids, size_t max);
/* 0, or -ENOENT. */
int volume_sim_segment_size(struct volume_sim *sim, uint64_t segment_id, uint64_t *ret_bytes);
/* Copies what the device holds; the count. */
size_t volume_sim_peek(
    struct volume_sim *sim, uint64_t segment_id, void *buffer, size_t length, uint64_t offset);
/* Bit rot: 0, or -ENOENT past the end. */
int volume_sim_flip(struct volume_sim *sim, uint64_t segment_id, uint64_t offset, uint8_t mask);
int volume_sim_flip_manifest(struct volume_sim *sim, uint64_t offset, uint8_t mask);
uint64_t volume_sim_manifest_size(struct volume_sim *sim);

/* --- the contract --- */

/* The first breach of what volume.h asks of callers, or NULL. */
const char *volume_sim_violation(const struct volume_sim *sim);

/* Prints each call that changes something; NULL: not. */
void volume_sim_trace(struct volume_sim *sim, FILE *to);

#endif
