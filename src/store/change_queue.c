/* The queue of changes for the catalogue.

   Blocks of a fixed size hold changes and, behind them, the bytes of their keys; one that is used up is
   followed by a new one, and freed when its last change is popped. The last block is kept and used
   again, so that single puts allocate nothing. What can fail is only an allocation. */
#include "store/change_queue.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "store/catalogue.h"
#include "store/meta.h"
#include "store/record.h"

#define BLOCK_CHANGES   1024u
#define BLOCK_KEY_BYTES (64u << 10)

struct change_block {
    struct change_block *next;
    unsigned count, popped;
    uint32_t key_bytes;
    struct catalogue_change changes[BLOCK_CHANGES];
    uint8_t keys[BLOCK_KEY_BYTES];
};

bool change_queue_wants(const struct record *record)
{
    return record->key.bucket_length > 0 &&
           (record->kind == RECORD_OBJECT || record->kind == RECORD_BLOB ||
               record->kind == RECORD_TOMBSTONE);
}

/* A change as the catalogue wants it; the key stays where the record has it. */
static void change_of(const struct record *record, struct catalogue_change *ret_change)
{
    struct object_meta meta = {0};

    (void)meta_decode(record->meta, record->meta_length, &meta); /* zeros then */
    *ret_change = (struct catalogue_change){.key = record->key,
        .sequence = record->sequence,
        .size_bytes = meta_object_bytes(record, &meta),
        .mtime_ns = record->time_ms * 1000000 + meta.mtime_ns,
        .prev_bytes = record->prev.object_bytes,
        .has_prev = record->has_prev,
        .is_delete = record->kind == RECORD_TOMBSTONE};
    memcpy(ret_change->md5, meta.md5, sizeof(meta.md5));
}

static struct change_block *block_with_room(struct change_queue *queue, uint32_t key_bytes)
{
    struct change_block *block = queue->tail;

    if (block && block->count < BLOCK_CHANGES && block->key_bytes + key_bytes <= BLOCK_KEY_BYTES)
        return block;
    block = mem_alloc(sizeof(*block));
    if (!block)
        return NULL;
    block->next = NULL;
    block->count = block->popped = 0;
    block->key_bytes = 0;
    if (queue->tail)
        queue->tail->next = block;
    else
        queue->head = block;
    queue->tail = block;
    queue->bytes += sizeof(*block);
    return block;
}

int change_queue_push(struct change_queue *queue, const struct record *record)
{
    uint32_t key_bytes = (uint32_t)record->key.bucket_length + record->key.length;
    struct change_block *block = block_with_room(queue, key_bytes);
    struct catalogue_change *change;
    uint8_t *at;

    if (!block)
        return -ENOMEM;
    change = &block->changes[block->count++];
    change_of(record, change);
    at = block->keys + block->key_bytes;
    memcpy(at, record->key.bucket, record->key.bucket_length);
    memcpy(at + record->key.bucket_length, record->key.bytes, record->key.length);
    change->key.bucket = (const char *)at;
    change->key.bytes = at + record->key.bucket_length;
    block->key_bytes += key_bytes;
    return 0;
}

uint64_t change_queue_first(const struct change_queue *queue)
{
    for (const struct change_block *block = queue->head; block; block = block->next)
        if (block->popped < block->count)
            return block->changes[block->popped].sequence;
    return 0;
}

size_t change_queue_gather(const struct change_queue *queue, uint64_t through,
    struct catalogue_change *ret_changes, size_t limit)
{
    size_t count = 0;

    for (const struct change_block *block = queue->head; block; block = block->next)
        for (unsigned i = block->popped; i < block->count; i++) {
            if (count == limit || block->changes[i].sequence > through)
                return count;
            ret_changes[count++] = block->changes[i];
        }
    return count;
}

void change_queue_pop(struct change_queue *queue, size_t count)
{
    while (queue->head) {
        struct change_block *block = queue->head;
        size_t part = block->count - block->popped;

        part = count < part ? count : part;
        block->popped += (unsigned)part;
        count -= part;
        if (block->popped < block->count)
            return;
        if (block == queue->tail) {
            block->count = block->popped = 0;
            block->key_bytes = 0;
            return;
        }
        queue->head = block->next;
        queue->bytes -= sizeof(*block);
        mem_free(block);
    }
}

void change_queue_cut(struct change_queue *queue, uint64_t through)
{
    for (struct change_block *block = queue->head; block; block = block->next)
        while (block->count > block->popped && block->changes[block->count - 1].sequence > through)
            block->count--;
}

void change_queue_clear(struct change_queue *queue)
{
    while (queue->head) {
        struct change_block *next = queue->head->next;

        mem_free(queue->head);
        queue->head = next;
    }
    queue->tail = NULL;
    queue->bytes = 0;
}
