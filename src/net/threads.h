/* A few threads that work off a bounded queue: for calls that block. */
#ifndef NET_THREADS_H
#define NET_THREADS_H

struct pool_job {
    struct pool_job *next;
    void (*run)(struct pool_job *job); /* on one of the threads; may free the job */
};

struct thread_pool;

int thread_pool_new(unsigned threads, unsigned queue_limit, struct thread_pool **ret_pool);
/* From any thread. -EAGAIN: the queue is full. Jobs start in order. */
int thread_pool_submit(struct thread_pool *pool, struct pool_job *job);
/* Works off what is queued, then ends the threads. NULL is fine. */
void thread_pool_free(struct thread_pool *pool);

#endif
