/* What a store's codes are in HTTP.

   Damage names the object in the answer and on standard error; there at most one line a second, so
   that a damaged disk under load doesn't fill another one. */
#include "server/server_priv.h"

#include <errno.h>
#include <stdio.h>

#include "os/clock.h"

int status_of_code(int code)
{
    switch (code) {
    case SHOAL_E_ABSENT:
    case SHOAL_E_NO_BUCKET:
        return 404;
    case SHOAL_E_BAD_KEY:
    case SHOAL_E_BAD_NAME:
        return 400;
    case SHOAL_E_EXISTS:
    case SHOAL_E_NOT_EMPTY:
    case SHOAL_E_CONFLICT:
        return 409;
    case SHOAL_E_TOO_LARGE:
        return 413;
    case SHOAL_E_READ_ONLY:
    case SHOAL_E_CLOSED:
    case SHOAL_E_AGAIN:
    case -EAGAIN:
    case -EBUSY:
    case -ENOMEM:
        return 503;
    case -ENOSPC:
    case -EDQUOT:
        return 507;
    default:
        return 500;
    }
}

/* True once a second. */
static bool may_report(struct server *server)
{
    struct clock *clock = clock_system();
    long long now_s = (long long)(clock->monotonic_ns(clock) / 1000000000);
    long long last_s = atomic_load(&server->last_report_s);

    return now_s != last_s &&
           atomic_compare_exchange_strong(&server->last_report_s, &last_s, now_s);
}

void answer_code(
    struct exchange *x, int code, const char *bucket, const void *key, size_t key_length)
{
    int status = status_of_code(code);
    struct text text = {0};

    if (status == 500 || status == 507) {
        text_addf(&text, "%s/", bucket);
        /* Escaped like a URL, so that a terminal shows what it is. */
        for (size_t i = 0; i < key_length; i++) {
            uint8_t c = ((const uint8_t *)key)[i];

            text_addf(&text, c > ' ' && c < 0x7f && c != '%' ? "%c" : "%%%02X", c);
        }
        text_addf(&text, ": %s", shoal_strerror(code));
    } else {
        text_addf(&text, "%s", shoal_strerror(code));
    }
    text_add(&text, "", 1);
    if ((status == 500 || status == 507) && !text.failed && may_report(server_of(x)))
        fprintf(stderr, "shoal serve: %s\n", text.bytes);
    exchange_reply(x, status, text.failed ? shoal_strerror(code) : text.bytes);
    text_done(&text);
}

void answer_not_allowed(struct exchange *x, const char *allow)
{
    static const char text[] = "this method is not for this address\n";

    exchange_begin(x, 405);
    exchange_field(x, "Allow", allow);
    exchange_field(x, "Content-Type", "text/plain; charset=utf-8");
    exchange_body(x, sizeof(text) - 1);
    (void)exchange_send(x, text, sizeof(text) - 1); /* small enough to be copied */
    exchange_finish(x);
}
