/* Timers on a hashed wheel.

   A timer is linked in the slot of its tick; the wheel turns with the clock and looks at the timers
   of the slots it passes. One whose deadline has moved to later since is linked anew, so a
   connection that sets its timeout at every request writes one number. A deadline beyond one turn
   of the wheel stays in its slot for another round. Nothing here can fail. */
#include "net/loop_priv.h"

static void list_remove(struct loop_timer *timer)
{
    timer->previous->next = timer->next;
    timer->next->previous = timer->previous;
    timer->previous = timer->next = NULL;
}

static void list_append(struct loop_timer *head, struct loop_timer *timer)
{
    timer->previous = head->previous;
    timer->next = head;
    head->previous->next = timer;
    head->previous = timer;
}

void timers_init(struct loop *loop)
{
    for (unsigned i = 0; i < WHEEL_SLOTS; i++)
        loop->wheel[i].previous = loop->wheel[i].next = &loop->wheel[i];
    loop->wheel_tick = loop->now_ms / LOOP_TICK_MS;
}

/* The slot after the deadline, so that it never fires early. */
static void link_timer(struct loop *loop, struct loop_timer *timer)
{
    uint64_t tick = timer->deadline_ms / LOOP_TICK_MS + 1;

    if (tick <= loop->wheel_tick)
        tick = loop->wheel_tick + 1;
    list_append(&loop->wheel[tick % WHEEL_SLOTS], timer);
}

void loop_timer_set(struct loop *loop, struct loop_timer *timer, unsigned after_ms)
{
    uint64_t deadline_ms = loop->now_ms + after_ms;

    if (timer->next != NULL && deadline_ms < timer->deadline_ms)
        list_remove(timer);
    if (timer->next != NULL && timer->deadline_ms == 0)
        list_remove(timer); /* cancelled: its slot may be a whole turn away */
    timer->deadline_ms = deadline_ms;
    if (timer->next == NULL)
        link_timer(loop, timer);
}

void loop_timer_cancel(struct loop_timer *timer)
{
    timer->deadline_ms = 0;
}

void loop_timer_done(struct loop_timer *timer)
{
    if (timer->next != NULL)
        list_remove(timer);
    timer->deadline_ms = 0;
}

static void run_slot(struct loop *loop, struct loop_timer *head)
{
    struct loop_timer due;

    if (head->next == head)
        return;
    /* The slot's timers move to a list of their own: a callback may set or end any timer. */
    due.next = head->next;
    due.previous = head->previous;
    due.next->previous = due.previous->next = &due;
    head->next = head->previous = head;
    while (due.next != &due) {
        struct loop_timer *timer = due.next;

        list_remove(timer);
        if (timer->deadline_ms == 0)
            continue;
        if (timer->deadline_ms > loop->now_ms) {
            link_timer(loop, timer);
            continue;
        }
        timer->deadline_ms = 0;
        timer->fire(timer);
    }
}

void timers_run(struct loop *loop)
{
    uint64_t tick = loop->now_ms / LOOP_TICK_MS;

    /* After a long sleep one turn over all slots is enough. */
    if (tick > loop->wheel_tick + WHEEL_SLOTS)
        loop->wheel_tick = tick - WHEEL_SLOTS;
    while (loop->wheel_tick < tick) {
        loop->wheel_tick++;
        run_slot(loop, &loop->wheel[loop->wheel_tick % WHEEL_SLOTS]);
    }
}

/* Until the next slot that holds timers, at most a second. */
unsigned timers_wait_ms(const struct loop *loop)
{
    unsigned ticks = 1;

    while (ticks < 1000 / LOOP_TICK_MS) {
        const struct loop_timer *head = &loop->wheel[(loop->wheel_tick + ticks) % WHEEL_SLOTS];

        if (head->next != head)
            break;
        ticks++;
    }
    return (unsigned)((loop->wheel_tick + ticks) * LOOP_TICK_MS - loop->now_ms);
}
