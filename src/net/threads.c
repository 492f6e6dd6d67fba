/* A bounded queue of jobs and the threads that take from it.

   A job is a struct inside its owner, so submitting allocates nothing. Threads are all started at
   once and end when the pool is freed, after the queue has become empty. A full queue is the
   caller's signal to refuse work. */
#include "net/threads.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/mem.h"

struct thread_pool {
    pthread_mutex_t lock; /* guards all below but thread_count and threads */
    pthread_cond_t work;
    struct pool_job *first, **last;
    unsigned queued, queue_limit;
    bool ending;
    unsigned thread_count;
    pthread_t threads[];
};

static struct pool_job *take_job(struct thread_pool *pool)
{
    struct pool_job *job;

    pthread_mutex_lock(&pool->lock);
    while (pool->first == NULL && !pool->ending)
        pthread_cond_wait(&pool->work, &pool->lock);
    job = pool->first;
    if (job != NULL) {
        pool->first = job->next;
        if (pool->first == NULL)
            pool->last = &pool->first;
        pool->queued--;
    }
    pthread_mutex_unlock(&pool->lock);
    return job;
}

static void *work(void *arg)
{
    struct thread_pool *pool = arg;
    struct pool_job *job;

    while ((job = take_job(pool)) != NULL)
        job->run(job);
    return NULL;
}

int thread_pool_new(unsigned threads, unsigned queue_limit, struct thread_pool **ret_pool)
{
    struct thread_pool *pool = mem_zero(1, sizeof(*pool) + threads * sizeof(pool->threads[0]));
    int rc;

    if (pool == NULL)
        return -ENOMEM;
    pool->last = &pool->first;
    pool->queue_limit = queue_limit;
    rc = -pthread_mutex_init(&pool->lock, NULL);
    if (rc != 0)
        goto free_pool;
    rc = -pthread_cond_init(&pool->work, NULL);
    if (rc != 0)
        goto destroy_lock;
    for (; pool->thread_count < threads; pool->thread_count++) {
        rc = -pthread_create(&pool->threads[pool->thread_count], NULL, work, pool);
        if (rc != 0) {
            thread_pool_free(pool);
            return rc;
        }
    }
    *ret_pool = pool;
    return 0;
destroy_lock:
    pthread_mutex_destroy(&pool->lock);
free_pool:
    mem_free(pool);
    return rc;
}

int thread_pool_submit(struct thread_pool *pool, struct pool_job *job)
{
    int rc = 0;

    job->next = NULL;
    pthread_mutex_lock(&pool->lock);
    if (pool->queued >= pool->queue_limit) {
        rc = -EAGAIN;
    } else {
        *pool->last = job;
        pool->last = &job->next;
        pool->queued++;
        pthread_cond_signal(&pool->work);
    }
    pthread_mutex_unlock(&pool->lock);
    return rc;
}

void thread_pool_free(struct thread_pool *pool)
{
    if (pool == NULL)
        return;
    pthread_mutex_lock(&pool->lock);
    pool->ending = true;
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->lock);
    for (unsigned i = 0; i < pool->thread_count; i++)
        pthread_join(pool->threads[i], NULL);
    pthread_cond_destroy(&pool->work);
    pthread_mutex_destroy(&pool->lock);
    mem_free(pool);
}
