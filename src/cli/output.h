/* What commands write: complaints on standard error, JSON and readable values on standard output. */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* One line on standard error: "shoal COMMAND: " and the text. */
void complain(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Room for any key or path of up to `bytes` bytes in escaped form. */
#define ESCAPED_BYTES(bytes) (4 * (bytes) + 1)

/* Makes bytes safe to show: control characters, backslashes and what is not UTF-8 become \n, \t,
   \\ or \xHH. Cut, with an ellipsis, where it would not fit. Returns ret_text. */
char *escape(const void *bytes, size_t length, char *ret_text, size_t room);

/* Bytes of the UTF-8 character that begins at `at`, 0 if none does. */
size_t utf8_length(const uint8_t *at, size_t available);

/* "1.5 GiB"; room for 16 bytes. */
char *human_bytes(uint64_t bytes, char ret_text[16]);
/* "2026-11-30T08:15:00Z"; room for 40 bytes, since a year may have many digits. */
char *human_time(int64_t time_ns, char ret_text[40]);
/* "1,234,567"; room for 32 bytes. */
char *human_count(uint64_t count, char ret_text[32]);

/* A JSON value written piece by piece. name is NULL for the outermost value and inside arrays. */
struct json_out {
    FILE *out;
    bool follows; /* a value precedes at this level */
};
void json_put_open(struct json_out *json, const char *name, char bracket);
void json_put_close(struct json_out *json, char bracket);
void json_put_text(struct json_out *json, const char *name, const char *text);
/* Bytes that need not be UTF-8: what is not becomes U+FFFD, and a second member, name_base64, has
   the exact bytes. */
void json_put_bytes(struct json_out *json, const char *name, const void *bytes, size_t length);
void json_put_number(struct json_out *json, const char *name, uint64_t number);
void json_put_signed(struct json_out *json, const char *name, int64_t number);
void json_put_real(struct json_out *json, const char *name, double number);
void json_put_bool(struct json_out *json, const char *name, bool value);
/* Ends the line. */
void json_put_end(struct json_out *json);

#endif
