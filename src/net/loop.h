/* An event loop in completion style: one per thread, on io_uring or on epoll.

   All functions are for the loop's own thread unless they say otherwise. Structs are embedded in
   their owner, who keeps them in place until the callback that ends them; nothing is allocated per
   operation. Callbacks may start further operations. */
#ifndef NET_LOOP_H
#define NET_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/threads.h"

struct loop;

enum loop_kind { LOOP_URING, LOOP_EPOLL };

/* Makes a loop; it may be made in another thread than the one that runs it. -errno where the
   kernel refuses this kind. */
int loop_new(enum loop_kind kind, struct loop **ret_loop);
void loop_free(struct loop *loop);
/* "io_uring" or "epoll". */
const char *loop_name(const struct loop *loop);
/* Runs until loop_stop. 0, or -errno when the kernel's queue itself failed. */
int loop_run(struct loop *loop);
void loop_stop(struct loop *loop);
/* Monotonic, as of the start of this turn. */
uint64_t loop_now_ms(const struct loop *loop);

/* --- messages --- */

struct loop_message {
    struct loop_message *next;
    void (*run)(struct loop_message *message); /* on the loop's thread; may free the message */
};
/* From any thread. Messages of one thread keep their order. */
void loop_post(struct loop *loop, struct loop_message *message);

/* --- timers --- */

/* Coarse: fires up to two ticks late, never early. Zeroed is unset. */
#define LOOP_TICK_MS 50
struct loop_timer {
    struct loop_timer *previous, *next; /* in a slot of the wheel while set */
    uint64_t deadline_ms; /* 0: not wanted */
    void (*fire)(struct loop_timer *timer);
};
/* Sets or moves it. Moving to a later time costs nothing. */
void loop_timer_set(struct loop *loop, struct loop_timer *timer, unsigned after_ms);
/* It will not fire, but may still be linked. */
void loop_timer_cancel(struct loop_timer *timer);
/* Unlinks it: before its memory goes. */
void loop_timer_done(struct loop_timer *timer);

/* --- accepting --- */

struct acceptor {
    void (*accepted)(struct acceptor *acceptor, int fd); /* owns fd from now on */
    int fd; /* listening; owned by the caller */
    struct loop *loop;
    bool armed, wanted;
    struct loop_timer pause; /* after the kernel ran out of descriptors or memory */
    struct acceptor *next; /* the loop's list */
};
int acceptor_start(struct loop *loop, struct acceptor *acceptor);
/* No accepted call after this. The struct must live as long as the loop. */
void acceptor_stop(struct acceptor *acceptor);

/* --- reading files --- */

struct file_read {
    void (*done)(struct file_read *read, int64_t result); /* bytes, fewer only at the end; -errno */
    uint8_t *buffer;
    uint64_t offset;
    uint32_t length, got;
    int fd;
    struct loop *loop;
    struct loop_message message; /* from here on: epoll's way */
    struct pool_job job;
    int64_t result;
};
/* Reads what the page cache holds at once: returns the result; or -EAGAIN: done will be called. */
int64_t file_read_start(struct loop *loop, struct file_read *read, int fd, void *buffer,
    uint32_t length, uint64_t offset);

#endif
