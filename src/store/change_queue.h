/* Changes on their way into the catalogue: a queue in blocks, with their keys.

   Not thread-safe: guarded by the feed's lock, or one thread's own. The changes themselves stay where
   they are until they are applied, so what gather names may be read without the lock. */
#ifndef STORE_CHANGE_QUEUE_H
#define STORE_CHANGE_QUEUE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct catalogue_change;
struct change_block;
struct record;

struct change_queue {
    struct change_block *head, *tail;
    _Atomic uint64_t bytes; /* of memory; may be read without the lock */
};

/* Whether a record changes what listings show. */
bool change_queue_wants(const struct record *record);
/* Copies all that is needed of the record. -ENOMEM leaves the queue as it was. */
int change_queue_push(struct change_queue *queue, const struct record *record);
/* The sequence of the first change; 0 when the queue is empty. */
uint64_t change_queue_first(const struct change_queue *queue);
/* Copies the first changes up to sequence `through`, at most limit; returns how many. Their keys lie
   in the queue, until change_queue_pop. */
size_t change_queue_gather(const struct change_queue *queue, uint64_t through,
    struct catalogue_change *ret_changes, size_t limit);
/* Forgets the first `count`. */
void change_queue_pop(struct change_queue *queue, size_t count);
/* Forgets those above sequence `through`. */
void change_queue_cut(struct change_queue *queue, uint64_t through);
/* Forgets all and frees its memory. */
void change_queue_clear(struct change_queue *queue);

#endif
