/* Puts in flight.

   A reader starts a put and goes on with the next file; the store's committer says later how it
   ended. Each worker has a fixed number of slots, which bounds what can be under way and remembers
   each path for a complaint. The committer gives slots back on a list of their own, and the worker
   takes that list as a whole when its free ones have run out, so the two hardly ever meet at the
   lock. */
#include "import/import_priv.h"

#include <errno.h>

#include "base/mem.h"

int flight_init(struct flight *flight, struct import_run *run, unsigned count)
{
    flight->run = run;
    flight->slots = mem_alloc(count * sizeof *flight->slots);
    if (!flight->slots)
        return -ENOMEM;
    flight->free = flight->returned = NULL;
    flight->count = flight->free_count = count;
    flight->returned_count = 0;
    flight->waiting = false;
    /* The first slots come first off the list. */
    for (unsigned i = count; i-- > 0;) {
        flight->slots[i].flight = flight;
        flight->slots[i].next = flight->free;
        flight->free = &flight->slots[i];
    }
    pthread_mutex_init(&flight->lock, NULL);
    pthread_cond_init(&flight->landed, NULL);
    return 0;
}

void flight_done(struct flight *flight)
{
    if (!flight->slots)
        return;
    pthread_cond_destroy(&flight->landed);
    pthread_mutex_destroy(&flight->lock);
    mem_free(flight->slots);
    flight->slots = NULL;
}

/* Takes back what has landed, once at least this much has. */
static void collect(struct flight *flight, unsigned wanted)
{
    pthread_mutex_lock(&flight->lock);
    flight->waiting = true;
    while (flight->returned_count < wanted)
        pthread_cond_wait(&flight->landed, &flight->lock);
    flight->waiting = false;
    while (flight->returned) {
        struct flight_slot *slot = flight->returned;
        flight->returned = slot->next;
        slot->next = flight->free;
        flight->free = slot;
    }
    flight->free_count += flight->returned_count;
    flight->returned_count = 0;
    pthread_mutex_unlock(&flight->lock);
}

struct flight_slot *flight_take(struct flight *flight)
{
    if (!flight->free)
        collect(flight, 1);
    struct flight_slot *slot = flight->free;
    flight->free = slot->next;
    flight->free_count--;
    return slot;
}

void flight_put_back(struct flight *flight, struct flight_slot *slot)
{
    slot->next = flight->free;
    flight->free = slot;
    flight->free_count++;
}

void flight_drain(struct flight *flight)
{
    collect(flight, flight->count - flight->free_count);
}

void flight_landed(void *arg, int code, const struct shoal_stat *stat)
{
    struct flight_slot *slot = arg;
    struct import_run *run = slot->flight->run;
    if (code < 0) {
        import_put_failed(run, slot->path, slot->path_length, code);
    } else {
        atomic_fetch_add_explicit(&run->counts->bytes, slot->size_bytes, memory_order_relaxed);
        atomic_fetch_add_explicit(&run->counts->copied, 1, memory_order_relaxed);
    }
    struct flight *flight = slot->flight;
    pthread_mutex_lock(&flight->lock);
    slot->next = flight->returned;
    flight->returned = slot;
    flight->returned_count++;
    if (flight->waiting)
        pthread_cond_signal(&flight->landed);
    pthread_mutex_unlock(&flight->lock);
}
