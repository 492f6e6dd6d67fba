/* The manifest: the small append-only log that names the store, its segments and their state.

   Not thread-safe: guarded by the log's manifest lock once the store is open. */
#ifndef STORE_MANIFEST_H
#define STORE_MANIFEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct shoal_error;
struct volume;

#define FORMAT_VERSION 1u

enum segment_kind { SEGMENT_LOG = 1, SEGMENT_PACKED = 2 };

enum segment_state {
    SEGMENT_ACTIVE, /* may take groups; where it ends is not recorded */
    SEGMENT_ENDED, /* nothing counts from `end` on */
    SEGMENT_SEALED, /* and a footer lies at `end` */
};

struct manifest_segment {
    uint64_t id;
    uint64_t epoch;
    uint64_t end;
    uint32_t footer_bytes;
    uint8_t kind;
    uint8_t state;
};

struct manifest {
    uint8_t uuid[16];
    uint8_t incarnation[16];
    uint64_t hash_seed;
    uint32_t block_bytes;
    uint64_t epoch; /* highest used */
    uint64_t last_id; /* highest segment id named */
    uint64_t version; /* bytes of valid content: the compare-and-swap token */
    uint64_t entries; /* number of the last entry */
    struct manifest_segment *segments; /* by id */
    size_t count, capacity;
};

/* One change; several make one entry, which is durable as a whole or not at all. */
enum manifest_edit_kind {
    EDIT_STORE = 1, /* the identity; first edit of the first entry */
    EDIT_SEGMENT = 2, /* id, epoch, kind: may take groups now */
    EDIT_END = 3, /* id, end */
    EDIT_SEALED = 4, /* id, end, footer_bytes */
};
struct manifest_edit {
    enum manifest_edit_kind kind;
    struct manifest_segment segment;
};

/* Reads and applies all entries. SHOAL_E_NO_STORE when there is none, SHOAL_E_FORMAT when a newer
   program wrote it, SHOAL_E_CORRUPT when an entry is bad before a valid one. A bad tail is what a
   crash leaves of an entry that nobody was told of, and is ignored. */
int manifest_load(struct volume *volume, struct manifest *ret_manifest, struct shoal_error *error);
/* The same on bytes; exposed for the fuzzer. */
int manifest_parse(
    const uint8_t *bytes, size_t length, struct manifest *ret_manifest, struct shoal_error *error);
/* Starts a new one from manifest's identity fields, durably. */
int manifest_create(struct volume *volume, struct manifest *manifest);
/* Appends the edits durably as one entry, then applies them to manifest. At most one of them names a
   new segment. On failure it is unknown whether they are durable: the store must take no more writes. */
int manifest_commit(struct volume *volume, struct manifest *manifest,
    const struct manifest_edit *edits, size_t count);
struct manifest_segment *manifest_find(struct manifest *manifest, uint64_t segment_id);
void manifest_done(struct manifest *manifest);

#endif
