/* The list of a segment's records: gathered in memory while the segment grows, written behind the
   last group when it is sealed, read again at open.

   Not thread-safe: owned by the committer, the sealer or the opener, one at a time. */
#ifndef STORE_FOOTER_H
#define STORE_FOOTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "store/record.h"

struct volume;
struct volume_file;

#define FOOTER_FANOUT_BYTES  (256u * 4u)
#define FOOTER_ENTRY_BYTES   24u
#define FOOTER_PREV_BYTES    28u
#define FOOTER_TRAILER_BYTES 128u

struct footer_entry {
    struct hash128 hash;
    uint32_t slot;
    uint32_t sequence_delta; /* above footer.lowest_sequence */
  uint32_t slots : 20; /* the record's length */
    uint32_t kind : 4;
    uint32_t has_prev : 1;
    uint32_t prev_index; /* into footer.prevs, if has_prev */
};

struct footer {
    struct footer_entry *entries;
    struct prev *prevs;
    uint32_t count, capacity;
    uint32_t prev_count, prev_capacity;
    uint64_t lowest_sequence; /* of the first record; valid if count > 0 */
    uint64_t padding_from; /* see struct walk_result */
};

/* Room for so many more records and prevs, so that adding them cannot fail. -ENOMEM leaves it as it
   was. */
int footer_reserve(struct footer *footer, uint32_t records, uint32_t prevs);
/* prev NULL: none. Records come in rising sequence. -ENOMEM leaves it as it was. */
int footer_add(struct footer *footer, struct hash128 hash, uint64_t sequence, uint32_t slot,
    uint32_t slots, enum record_kind kind, const struct prev *prev);
/* Forgets all but the first count records (in the order they were added). */
void footer_truncate(struct footer *footer, uint32_t count);
static inline uint64_t footer_sequence(
    const struct footer *footer, const struct footer_entry *entry)
{
    return footer->lowest_sequence + entry->sequence_delta;
}
/* Sorts by hash, then sequence, as on disk; no adding after that. */
void footer_sort(struct footer *footer);
void footer_done(struct footer *footer);

/* Writes the sorted footer at `end`, in whole blocks, without a sync. */
int footer_write(struct footer *footer, struct volume *volume, struct volume_file *file,
    struct crc_seed seed, uint64_t end, uint32_t *ret_bytes);
/* Reads and validates it all: 0, SHOAL_E_CORRUPT, -errno. The entries come sorted. */
int footer_read(struct volume *volume, struct volume_file *file, struct crc_seed seed, uint64_t end,
    uint32_t bytes, struct footer *ret_footer);
/* The same on bytes; exposed for the fuzzer. */
int footer_decode(const uint8_t *bytes, size_t length, struct crc_seed seed, uint64_t end,
    struct footer *ret_footer);
/* Whether the footer on disk lists a record of this hash at this slot; its entry. Reads one bucket of
   it. */
bool footer_confirms(struct volume *volume, struct volume_file *file, uint64_t end, uint32_t bytes,
    struct hash128 hash, uint32_t slot, struct footer_entry *ret_entry);

#endif
