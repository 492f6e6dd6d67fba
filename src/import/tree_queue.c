/* The queue through which workers share frames.

   It holds at most one frame a worker: enough to keep all of them busy, since a worker that finds
   room hands over the next directory or stretch of names it meets. What finds no room is visited by
   the worker that met it, so memory does not grow with the tree. The walk ends when every worker
   waits and the queue is empty: nobody is left who could add to it. */
#include "import/tree_priv.h"

void tree_queue_init(struct tree_queue *queue, unsigned workers)
{
    pthread_mutex_init(&queue->lock, NULL);
    pthread_cond_init(&queue->changed, NULL);
    queue->first = queue->count = queue->idle = 0;
    queue->workers = workers;
    queue->ended = false;
    atomic_init(&queue->room, workers);
}

void tree_queue_done(struct tree_queue *queue)
{
    for (; queue->count; queue->count--) {
        tree_frame_free(queue->frames[queue->first]);
        queue->first = (queue->first + 1) % queue->workers;
    }
    pthread_cond_destroy(&queue->changed);
    pthread_mutex_destroy(&queue->lock);
}

bool tree_queue_offer(struct tree_queue *queue, struct tree_frame *frame)
{
    pthread_mutex_lock(&queue->lock);
    bool fits = queue->count < queue->workers;
    if (fits) {
        queue->frames[(queue->first + queue->count) % queue->workers] = frame;
        queue->count++;
        atomic_store(&queue->room, queue->workers - queue->count);
        pthread_cond_signal(&queue->changed);
    }
    pthread_mutex_unlock(&queue->lock);
    return fits;
}

/* With the lock held: this worker waits, and if all do it is over. */
static void note_idle(struct tree_queue *queue)
{
    queue->idle++;
    if (queue->idle == queue->workers && queue->count == 0) {
        queue->ended = true;
        pthread_cond_broadcast(&queue->changed);
    }
}

struct tree_frame *tree_queue_take(struct tree_queue *queue)
{
    struct tree_frame *frame = NULL;
    pthread_mutex_lock(&queue->lock);
    note_idle(queue);
    while (queue->count == 0 && !queue->ended)
        pthread_cond_wait(&queue->changed, &queue->lock);
    if (queue->count) {
        frame = queue->frames[queue->first];
        queue->first = (queue->first + 1) % queue->workers;
        queue->count--;
        queue->idle--;
        atomic_store(&queue->room, queue->workers - queue->count);
    }
    pthread_mutex_unlock(&queue->lock);
    return frame;
}

void tree_queue_absent(struct tree_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    note_idle(queue);
    pthread_mutex_unlock(&queue->lock);
}
