/* MD5 for ETags: OpenSSL's, with the lookup of the algorithm done once a context. */
#ifndef BASE_MD5_H
#define BASE_MD5_H

#include <stddef.h>
#include <stdint.h>

struct md5; /* one thread at a time */

/* NULL when out of memory. A new one is ready for update. */
struct md5 *md5_new(void);
void md5_free(struct md5 *md5);
void md5_update(struct md5 *md5, const void *data, size_t length);
/* Writes the digest and makes it ready for the next message. */
void md5_finish(struct md5 *md5, uint8_t ret_digest[16]);
/* One message, with a context kept per thread: no allocation after the first call. -ENOMEM. */
int md5_of(const void *data, size_t length, uint8_t ret_digest[16]);
/* 32 lower-case digits and a NUL. */
void md5_hex(const uint8_t digest[16], char ret_hex[33]);

#endif
