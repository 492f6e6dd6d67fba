/* Dates as HTTP writes them (RFC 9110 section 5.6.7). */
#ifndef HTTP_DATE_H
#define HTTP_DATE_H

#include <stddef.h>
#include <stdint.h>

#define HTTP_DATE_BYTES 29

/* "Sun, 06 Nov 1994 08:49:37 GMT", no NUL; years 0 to 9999, others are cut to those. */
void http_date_format(int64_t seconds, char ret_text[HTTP_DATE_BYTES]);
/* Any of the three forms. 0, or -1 if it is none. */
int http_date_parse(const uint8_t *text, size_t length, int64_t *ret_seconds);

#endif
