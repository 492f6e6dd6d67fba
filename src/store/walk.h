/* Walking a segment's groups and records in order, past damage: for recovery, for filling the
   catalogue and for check. */
#ifndef STORE_WALK_H
#define STORE_WALK_H

#include <stdbool.h>
#include <stdint.h>

#include "store/record.h"

struct segment;
struct volume;

struct walk_hooks {
    void *arg;
    /* A record whose head is valid; record->data is there. payload_valid: so are its data. A code
       other than 0 ends the walk with it. */
    int (*record)(void *arg, const struct record *record, uint64_t offset, bool payload_valid);
    /* Bytes that should be a group or record and are not. May be NULL. */
    void (*damage)(void *arg, uint64_t offset, const char *text);
};

struct walk {
    struct volume *volume;
    const struct segment *segment;
    uint64_t from; /* a group's offset; the block size for all */
    uint64_t end; /* where the groups end; UINT64_MAX: find the torn tail */
    uint64_t after_sequence; /* finding the tail: the highest sequence of the segments before */
    bool verify_payload;
    bool direct; /* past the page cache */
    /* What can't be read counts as damage. Otherwise it ends the walk with -EIO: records that were left
       out for a passing fault would be missing for good. */
    bool tolerant;
    bool
        recovering; /* padding that a crash may have left is noted, not reported: see walk_result */
    uint64_t padding_from; /* padding of groups from here on is not looked at; 0: of none */
    struct walk_hooks hooks;
};

/* What was found. */
struct walk_result {
    uint64_t end; /* where the last group that counts ends, rounded to blocks */
    uint64_t groups; /* number of the last one */
    uint64_t highest_sequence; /* 0: no records */
    uint64_t records;
    uint64_t damaged;
    /* When recovering: the first group whose padding is not zero and of which no later group says that it
       was durable; 0: none. Its records arrived before a crash and not all of its padding did. */
    uint64_t padding_from;
};

/* In the search for the tail, a bad group counts as damage if a valid one behind it was written
   after the bad one was durable; otherwise the log ends before it. 0, -errno, or a hook's code. */
int segment_walk(const struct walk *walk, struct walk_result *ret_result);

#endif
