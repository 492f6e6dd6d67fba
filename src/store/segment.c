/* Superblocks and the table of segments.

   The superblock tells all that is needed to rebuild the manifest: the store's identity, the
   segment's id, epoch and kind. It fills the first block, so that groups begin on a fresh one.

   The table is two levels of arrays that never move, so that a reader that holds a dense number from
   the index reaches the segment with two loads while another thread adds segments. */
#include "store/segment.h"

#include <errno.h>
#include <string.h>

#include <shoal/error.h>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "base/mem.h"
#include "store/manifest.h"
#include "store/volume.h"

#define SUPERBLOCK_MAGIC "SHOALSEG"
#define SUPERBLOCK_BYTES 80u

static uint32_t superblock_crc(const uint8_t *block, size_t length)
{
    return crc32c(crc32c(0, block, 8), block + 12, length - 12);
}

void superblock_encode(const struct superblock *superblock, uint8_t *ret_block)
{
    memset(ret_block, 0, superblock->block_bytes);
    memcpy(ret_block, SUPERBLOCK_MAGIC, 8);
    put_u32(ret_block + 12, FORMAT_VERSION);
    memcpy(ret_block + 16, superblock->uuid, 16);
    put_u64(ret_block + 32, superblock->hash_seed);
    put_u64(ret_block + 40, superblock->segment_id);
    put_u64(ret_block + 48, superblock->epoch);
    put_u32(ret_block + 56, superblock->block_bytes);
    ret_block[60] = superblock->kind;
    /* 64: how many segments this one replaces, for packed ones: none here. */
    put_u32(ret_block + 8, superblock_crc(ret_block, superblock->block_bytes));
}

int superblock_decode(const uint8_t *block, size_t length, struct superblock *ret_superblock)
{
    uint32_t block_bytes;

    if (length < SUPERBLOCK_BYTES || memcmp(block, SUPERBLOCK_MAGIC, 8) != 0)
        return SHOAL_E_CORRUPT;
    block_bytes = get_u32(block + 56);
    if (block_bytes < SUPERBLOCK_BYTES || block_bytes > length ||
        get_u32(block + 8) != superblock_crc(block, block_bytes))
        return SHOAL_E_CORRUPT;
    if (get_u32(block + 12) > FORMAT_VERSION)
        return SHOAL_E_FORMAT;
    memcpy(ret_superblock->uuid, block + 16, 16);
    ret_superblock->hash_seed = get_u64(block + 32);
    ret_superblock->segment_id = get_u64(block + 40);
    ret_superblock->epoch = get_u64(block + 48);
    ret_superblock->block_bytes = block_bytes;
    ret_superblock->kind = block[60];
    return 0;
}

struct segment *segment_table_get(struct segment_table *table, uint32_t dense)
{
    struct segment **chunk;

    if (dense >= atomic_load_explicit(&table->count, memory_order_acquire))
        return NULL;
    chunk = atomic_load_explicit(&table->chunks[dense / SEGMENT_TABLE_CHUNK], memory_order_acquire);
    return chunk[dense % SEGMENT_TABLE_CHUNK];
}

struct segment *segment_table_find(struct segment_table *table, uint64_t segment_id)
{
    uint32_t low = 0, high = atomic_load(&table->count);

    /* Segments are added in the order of their ids. */
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        struct segment *segment = segment_table_get(table, middle);

        if (segment->id == segment_id)
            return segment;
        if (segment->id < segment_id)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

int segment_table_add(struct segment_table *table, struct segment **ret_segment)
{
    uint32_t dense = atomic_load(&table->count);
    struct segment **chunk;
    struct segment *segment;

    if (dense == SEGMENT_TABLE_CHUNK * SEGMENT_TABLE_CHUNKS)
        return SHOAL_E_TOO_LARGE;
    chunk = atomic_load(&table->chunks[dense / SEGMENT_TABLE_CHUNK]);
    if (!chunk) {
        chunk = mem_zero(SEGMENT_TABLE_CHUNK, sizeof(*chunk));
        if (!chunk)
            return -ENOMEM;
        atomic_store(&table->chunks[dense / SEGMENT_TABLE_CHUNK], chunk);
    }
    segment = chunk[dense % SEGMENT_TABLE_CHUNK]; /* left by one that did not come into being */
    if (!segment) {
        segment = mem_zero(1, sizeof(*segment));
        if (!segment)
            return -ENOMEM;
        chunk[dense % SEGMENT_TABLE_CHUNK] = segment;
    }
    segment->dense = dense;
    *ret_segment = segment;
    return 0;
}

void segment_table_done(struct segment_table *table, struct volume *volume)
{
    for (uint32_t i = 0; i < SEGMENT_TABLE_CHUNKS; i++) {
        struct segment **chunk = atomic_load(&table->chunks[i]);

        for (uint32_t j = 0; chunk && j < SEGMENT_TABLE_CHUNK; j++)
            if (chunk[j]) {
                if (chunk[j]->file)
                    volume->ops->close(chunk[j]->file);
                footer_done(&chunk[j]->footer);
                mem_free(chunk[j]);
            }
        mem_free(chunk);
        atomic_store(&table->chunks[i], NULL);
    }
    atomic_store(&table->count, 0);
}
