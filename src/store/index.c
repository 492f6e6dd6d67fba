/* The RAM index.

   256 partitions by the top 8 bits of the hash, each a table of 16-byte entries under a mutex of its
   own. Within a partition the remaining hash bits, taken as a fraction of 2^64 and multiplied by the
   capacity, give an entry's home; entries are kept sorted by hash, each at its home or as little
   behind it as the ones before it allow (linear probing in Robin Hood order). So

   - a lookup starts at the home and stops at the first empty entry or larger hash: at a load of
     0.85 about four entries, one or two cache lines;
   - removal shifts the rest of the run back by one: no tombstones that fill the table;
   - growing is one sequential pass over the old table that writes the new one in order, so that any
     growth factor will do. A quarter at a time keeps the load between 0.68 and 0.85 (about 21
     bytes an entry; doubling would take up to 38), and a pass over the 400,000 entries that a
     partition has at 100 million takes a few milliseconds. First capacities differ from partition to
     partition, so that they do not all grow at once.

   The table does not wrap around: behind its capacity lies room for entries pushed past the end,
   which grows when it is used up (many equal hashes at the end of the hash space).

   A mutex and not a spinlock, since growing holds it for milliseconds; uncontended it costs some
   15 ns. What can fail is only an allocation, and that leaves everything as it was. */
#include "store/index.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "base/mem.h"

#define PARTITION_BITS  8
#define PARTITION_COUNT (1u << PARTITION_BITS)

/* An entry's second word, from the low bit: class, slot, segment. 2^28 slots are 16 GiB. */
#define CLASS_BITS   7
#define SLOT_BITS    28
#define SEGMENT_BITS 29
_Static_assert(CLASS_BITS + SLOT_BITS + SEGMENT_BITS == 64, "an entry's second word is full");

#define SLOT_BYTES   64u
#define CLASS_MAX    ((1u << CLASS_BITS) - 1)
#define CAPACITY_MIN 48u
#define SPILL_MIN    16u

/* packed is 0 where the entry is empty: classes start at 1. */
struct entry {
    uint64_t hash;
    uint64_t packed;
};

struct partition {
    pthread_mutex_t lock; /* guards all of this */
    struct entry *entries; /* capacity + spill of them */
    uint32_t capacity; /* what homes are scaled to; 0 before the first insert */
    uint32_t spill;
    uint32_t count;
} __attribute__((aligned(64)));

struct index {
    struct partition partitions[PARTITION_COUNT];
};

/* Size classes: up to 15 slots exactly, then eight classes an octave, so that a class is at most
   1/8 above the length it was made for. The largest, 15 MiB, is above any record. */
static unsigned class_of(uint32_t bytes)
{
    uint32_t slots = bytes / SLOT_BYTES + (bytes % SLOT_BYTES != 0);
    if (slots < 16)
        return slots ? slots : 1;
    unsigned shift = 31u - (unsigned)__builtin_clz(slots) - 3;
    unsigned class = 8 * shift + (slots >> shift) + ((slots & ((1u << shift) - 1)) != 0);
    return class < CLASS_MAX ? class : CLASS_MAX;
}

static uint32_t class_bytes(unsigned class)
{
    if (class < 16)
        return class * SLOT_BYTES;
    unsigned shift = class / 8 - 1;
    return (8 + class % 8) << shift << 6;
}

static uint64_t entry_pack(struct place place, uint32_t bytes)
{
    return (uint64_t)place.segment << (CLASS_BITS + SLOT_BITS) |
           (uint64_t)place.slot << CLASS_BITS | class_of(bytes);
}

static struct place entry_place(uint64_t packed)
{
    return (struct place){
        .segment = (uint32_t)(packed >> (CLASS_BITS + SLOT_BITS)),
        .slot = (uint32_t)(packed >> CLASS_BITS) & ((1u << SLOT_BITS) - 1),
    };
}

static bool place_fits(const struct place *place)
{
    return place->segment < 1u << SEGMENT_BITS && place->slot < 1u << SLOT_BITS;
}

static struct partition *partition_of(struct index *index, uint64_t hash)
{
    return &index->partitions[hash >> (64 - PARTITION_BITS)];
}

static uint32_t home_of(uint64_t hash, uint32_t capacity)
{
    return (uint32_t)(((unsigned __int128)(hash << PARTITION_BITS) * capacity) >> 64);
}

static uint64_t partition_end(const struct partition *partition)
{
    return (uint64_t)partition->capacity + partition->spill;
}

/* The first entry that is empty or whose hash is not below this one, at or behind its home. */
static uint64_t lower_bound(const struct partition *partition, uint64_t hash)
{
    uint64_t end = partition_end(partition);
    uint64_t at = home_of(hash, partition->capacity);
    while (at < end && partition->entries[at].packed && partition->entries[at].hash < hash)
        at++;
    return at;
}

/* Copies every entry into the new table; false when its spill is too small. */
static bool refill(const struct partition *old, struct partition *new)
{
    uint64_t old_end = partition_end(old), new_end = partition_end(new), next = 0;
    for (uint64_t i = 0; i < old_end; i++) {
        if (!old->entries[i].packed)
            continue;
        uint64_t home = home_of(old->entries[i].hash, new->capacity);
        uint64_t at = home > next ? home : next;
        if (at >= new_end)
            return false;
        new->entries[at] = old->entries[i];
        next = at + 1;
    }
    return true;
}

static int resize(struct partition *partition, uint32_t capacity, uint32_t spill)
{
    struct partition new = {.capacity = capacity, .spill = spill};
    for (;;) {
        new.entries = mem_zero(partition_end(&new), sizeof(*new.entries));
        if (!new.entries)
            return -ENOMEM;
        if (refill(partition, &new))
            break;
        mem_free(new.entries);
        new.spill *= 2;
    }
    mem_free(partition->entries);
    partition->entries = new.entries;
    partition->capacity = new.capacity;
    partition->spill = new.spill;
    return 0;
}

/* A different one for each partition, spread over one growth step. */
static uint32_t capacity_first(const struct index *index, const struct partition *partition)
{
    return CAPACITY_MIN + (uint32_t)(partition - index->partitions) * CAPACITY_MIN / 4 / 256;
}

/* Makes room for one more at the usual load. */
static int grow_for_one(const struct index *index, struct partition *partition)
{
    if ((uint64_t)(partition->count + 1) * 20 <= (uint64_t)partition->capacity * 17)
        return 0;
    if (!partition->capacity)
        return resize(partition, capacity_first(index, partition), SPILL_MIN);
    uint64_t capacity = (uint64_t)partition->capacity + partition->capacity / 4;
    if (capacity > UINT32_MAX / 2)
        return -ENOMEM;
    return resize(partition, (uint32_t)capacity, partition->spill);
}

static int insert(
    const struct index *index, struct partition *partition, uint64_t hash, uint64_t packed)
{
    int rc = grow_for_one(index, partition);
    if (rc < 0)
        return rc;
    for (;;) {
        uint64_t at = lower_bound(partition, hash), empty = at, end = partition_end(partition);
        while (empty < end && partition->entries[empty].packed)
            empty++;
        if (empty < end) {
            struct entry *entry = &partition->entries[at];
            memmove(entry + 1, entry, (empty - at) * sizeof(*entry));
            *entry = (struct entry){.hash = hash, .packed = packed};
            partition->count++;
            return 0;
        }
        rc = resize(partition, partition->capacity, partition->spill * 2);
        if (rc < 0)
            return rc;
    }
}

/* Where few are left memory is given back; that it can't be had for the smaller table is no
   failure. */
static void shrink_if_sparse(const struct index *index, struct partition *partition)
{
    uint32_t first = capacity_first(index, partition);
    if (partition->capacity / 2 < first || partition->count > partition->capacity / 4)
        return;
    (void)resize(partition, partition->capacity / 2, SPILL_MIN);
}

static void remove_at(const struct index *index, struct partition *partition, uint64_t at)
{
    uint64_t end = partition_end(partition), next = at + 1;
    while (next < end && partition->entries[next].packed &&
           home_of(partition->entries[next].hash, partition->capacity) < next)
        next++;
    struct entry *entry = &partition->entries[at];
    memmove(entry, entry + 1, (next - at - 1) * sizeof(*entry));
    partition->entries[next - 1] = (struct entry){0};
    partition->count--;
    shrink_if_sparse(index, partition);
}

/* The entry with this hash at this place, or the table's end. */
static uint64_t locate(const struct partition *partition, uint64_t hash, const struct place *place)
{
    uint64_t end = partition_end(partition);
    if (!partition->count)
        return end;
    for (uint64_t at = lower_bound(partition, hash); at < end; at++) {
        const struct entry *entry = &partition->entries[at];
        if (!entry->packed || entry->hash != hash)
            break;
        struct place found = entry_place(entry->packed);
        if (found.segment == place->segment && found.slot == place->slot)
            return at;
    }
    return end;
}

struct index *index_new(void)
{
    struct index *index = mem_aligned(64, sizeof(*index));
    if (!index)
        return NULL;
    memset(index, 0, sizeof(*index));
    for (unsigned i = 0; i < PARTITION_COUNT; i++)
        pthread_mutex_init(&index->partitions[i].lock, NULL);
    return index;
}

void index_free(struct index *index)
{
    if (!index)
        return;
    for (unsigned i = 0; i < PARTITION_COUNT; i++) {
        pthread_mutex_destroy(&index->partitions[i].lock);
        mem_free(index->partitions[i].entries);
    }
    mem_free(index);
}

unsigned index_find(
    struct index *index, struct hash128 hash, struct candidate ret_candidates[INDEX_CANDIDATES_MAX])
{
    struct partition *partition = partition_of(index, hash.high);
    unsigned count = 0;
    pthread_mutex_lock(&partition->lock);
    if (partition->count) {
        uint64_t end = partition_end(partition);
        for (uint64_t at = lower_bound(partition, hash.high); at < end; at++) {
            struct entry entry = partition->entries[at];
            if (!entry.packed || entry.hash != hash.high || count == INDEX_CANDIDATES_MAX)
                break;
            ret_candidates[count++] = (struct candidate){
                .place = entry_place(entry.packed),
                .read_bytes = class_bytes(entry.packed & CLASS_MAX),
            };
        }
    }
    pthread_mutex_unlock(&partition->lock);
    return count;
}

int index_replace(struct index *index, struct hash128 hash, const struct place *from,
    const struct place *to, uint32_t bytes)
{
    if (to && !place_fits(to))
        return -EINVAL;
    struct partition *partition = partition_of(index, hash.high);
    int rc = 0;
    pthread_mutex_lock(&partition->lock);
    if (!from) {
        rc = to ? insert(index, partition, hash.high, entry_pack(*to, bytes)) : 0;
    } else {
        uint64_t at = locate(partition, hash.high, from);
        if (at == partition_end(partition))
            rc = 1;
        else if (to)
            partition->entries[at].packed = entry_pack(*to, bytes);
        else
            remove_at(index, partition, at);
    }
    pthread_mutex_unlock(&partition->lock);
    return rc;
}

uint64_t index_count(struct index *index)
{
    uint64_t count = 0;
    for (unsigned i = 0; i < PARTITION_COUNT; i++) {
        pthread_mutex_lock(&index->partitions[i].lock);
        count += index->partitions[i].count;
        pthread_mutex_unlock(&index->partitions[i].lock);
    }
    return count;
}

uint64_t index_ram_bytes(struct index *index)
{
    uint64_t bytes = sizeof(*index);
    for (unsigned i = 0; i < PARTITION_COUNT; i++) {
        pthread_mutex_lock(&index->partitions[i].lock);
        bytes += partition_end(&index->partitions[i]) * sizeof(struct entry);
        pthread_mutex_unlock(&index->partitions[i].lock);
    }
    return bytes;
}

void index_each(struct index *index,
    void (*visit)(void *arg, uint64_t hash_high, struct place place), void *arg)
{
    for (unsigned i = 0; i < PARTITION_COUNT; i++) {
        struct partition *partition = &index->partitions[i];
        pthread_mutex_lock(&partition->lock);
        for (uint64_t at = 0; at < partition_end(partition); at++) {
            if (partition->entries[at].packed)
                visit(arg, partition->entries[at].hash, entry_place(partition->entries[at].packed));
        }
        pthread_mutex_unlock(&partition->lock);
    }
}
