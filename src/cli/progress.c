/* Progress on standard error.

   The command's main thread calls progress_show as often as it likes; ten times a second on a
   terminal, and every five seconds elsewhere, a line comes out of it. Rates are smoothed over a few
   seconds, and the time left follows from them once the whole is known. Complaints of other threads
   pass through progress_complain, so that a bar and an error never share a line.

   Nothing here fails: a standard error that can't be written is no reason to stop an import. */
#include "cli/progress.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "cli/output.h"

#define SECOND_NS         UINT64_C(1000000000)
#define TERMINAL_EVERY_NS (SECOND_NS / 10)
#define PLAIN_EVERY_NS    (5 * SECOND_NS)
#define BAR_COLUMNS       20

static uint64_t now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (uint64_t)at.tv_sec * SECOND_NS + (uint64_t)at.tv_nsec;
}

void progress_init(struct progress *progress, const char *label)
{
    memset(progress, 0, sizeof *progress);
    pthread_mutex_init(&progress->lock, NULL);
    progress->label = label;
    progress->terminal = isatty(STDERR_FILENO) == 1;
    progress->start_ns = progress->rate_ns = now();
    /* A bar at once, a plain line only when it gets long. */
    progress->shown_ns = progress->terminal ? 0 : progress->start_ns;
}

void progress_relabel(struct progress *progress, const char *label)
{
    pthread_mutex_lock(&progress->lock);
    progress->label = label;
    progress->start_ns = progress->rate_ns = now();
    progress->rate_state = (struct progress_state){.items = NULL};
    progress->items_per_second = progress->bytes_per_second = 0;
    pthread_mutex_unlock(&progress->lock);
}

static void clear_bar(struct progress *progress)
{
    if (progress->drawn)
        fputs("\r\033[K", stderr);
    progress->drawn = false;
}

void progress_clear(struct progress *progress)
{
    pthread_mutex_lock(&progress->lock);
    clear_bar(progress);
    pthread_mutex_unlock(&progress->lock);
}

void progress_done(struct progress *progress)
{
    progress_clear(progress);
    pthread_mutex_destroy(&progress->lock);
}

/* Half of each new rate is from the last second, half from before. */
static void take_rates(
    struct progress *progress, const struct progress_state *state, uint64_t now_ns)
{
    uint64_t passed_ns = now_ns - progress->rate_ns;
    bool first = progress->rate_ns == progress->start_ns;
    if (passed_ns < SECOND_NS && !first)
        return;
    if (passed_ns == 0)
        return;
    double seconds = (double)passed_ns / (double)SECOND_NS;
    double items = (double)(state->done - progress->rate_state.done) / seconds;
    double bytes = (double)(state->bytes - progress->rate_state.bytes) / seconds;
    double old = first ? 0 : 0.5;
    progress->items_per_second = old * progress->items_per_second + (1 - old) * items;
    progress->bytes_per_second = old * progress->bytes_per_second + (1 - old) * bytes;
    if (passed_ns >= SECOND_NS) {
        progress->rate_ns = now_ns;
        progress->rate_state = *state;
    }
}

static size_t format_left(
    const struct progress *progress, const struct progress_state *state, char *text, size_t room)
{
    if (state->all <= state->done || progress->items_per_second < 0.01)
        return 0;
    uint64_t seconds =
        (uint64_t)((double)(state->all - state->done) / progress->items_per_second) + 1;
    int used = seconds >= 3600 ? snprintf(text, room, ", %llu:%02u:%02u left",
                                     (unsigned long long)(seconds / 3600),
                                     (unsigned)(seconds / 60 % 60), (unsigned)(seconds % 60))
                               : snprintf(text, room, ", %u:%02u left", (unsigned)(seconds / 60),
                                     (unsigned)(seconds % 60));
    return (size_t)used;
}

static size_t format_bar(const struct progress_state *state, char *text, size_t room)
{
    if (state->all == 0)
        return 0;
    double share = (double)state->done / (double)state->all;
    if (share > 1)
        share = 1;
    char bar[BAR_COLUMNS + 1];
    unsigned filled = (unsigned)(share * BAR_COLUMNS);
    for (unsigned i = 0; i < BAR_COLUMNS; i++)
        bar[i] = i < filled ? '=' : i == filled ? '>' : ' ';
    bar[BAR_COLUMNS] = 0;
    return (size_t)snprintf(text, room, "[%s] ", bar);
}

char *progress_format(struct progress *progress, const struct progress_state *state,
    uint64_t now_ns, unsigned columns, char *ret_text, size_t room)
{
    char line[256], count[32], rate[32], bytes[16], bytes_rate[16];
    take_rates(progress, state, now_ns);
    size_t used = (size_t)snprintf(
        line, sizeof line, "%s%s ", progress->label, progress->terminal ? "" : ":");
    if (progress->terminal)
        used += format_bar(state, line + used, sizeof line - used);
    if (state->all)
        used += (size_t)snprintf(line + used, sizeof line - used, "%u%%, ",
            (unsigned)(state->done >= state->all
                           ? 100
                           : 100.0 * (double)state->done / (double)state->all));
    if (state->items)
        used += (size_t)snprintf(line + used, sizeof line - used, "%s %s, ",
            human_count(state->done, count), state->items);
    used += (size_t)snprintf(line + used, sizeof line - used, "%s, %s/s",
        human_bytes(state->bytes, bytes),
        human_bytes((uint64_t)progress->bytes_per_second, bytes_rate));
    if (state->items)
        used += (size_t)snprintf(line + used, sizeof line - used, ", %s %s/s",
            human_count((uint64_t)progress->items_per_second, rate), state->items);
    format_left(progress, state, line + used, sizeof line - used);
    snprintf(ret_text, room < columns + 1 ? room : columns + 1, "%s", line);
    return ret_text;
}

static unsigned terminal_columns(void)
{
    struct winsize size;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) < 0 || size.ws_col < 20)
        return 80;
    return size.ws_col;
}

void progress_show(struct progress *progress, const struct progress_state *state)
{
    char line[256];
    pthread_mutex_lock(&progress->lock);
    uint64_t now_ns = now();
    uint64_t every_ns = progress->terminal ? TERMINAL_EVERY_NS : PLAIN_EVERY_NS;
    if (now_ns - progress->shown_ns >= every_ns) {
        progress->shown_ns = now_ns;
        /* The last column stays free: a full line would scroll. */
        unsigned columns = progress->terminal ? terminal_columns() - 1 : sizeof line - 1;
        progress_format(progress, state, now_ns, columns, line, sizeof line);
        if (progress->terminal)
            fprintf(stderr, "\r%s\033[K", line);
        else
            fprintf(stderr, "%s\n", line);
        progress->drawn = progress->terminal;
    }
    pthread_mutex_unlock(&progress->lock);
}

void progress_complain(struct progress *progress, const char *command, const char *format, ...)
{
    char text[8000];
    va_list list;
    va_start(list, format);
    (void)vsnprintf(text, sizeof text, format, list);
    va_end(list);
    pthread_mutex_lock(&progress->lock);
    clear_bar(progress);
    complain(command, "%s", text);
    pthread_mutex_unlock(&progress->lock);
}
