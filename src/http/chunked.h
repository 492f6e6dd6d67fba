/* Decodes a chunked body (RFC 9112 section 7.1) piece by piece. */
#ifndef HTTP_CHUNKED_H
#define HTTP_CHUNKED_H

#include <stddef.h>
#include <stdint.h>

/* All extensions of a body together, and all trailers: thrown away, and refused beyond. */
#define HTTP_EXTENSIONS_MAX (16u << 10)
#define HTTP_TRAILERS_MAX   (8u << 10)

enum chunk_state {
    CHUNK_SIZE,
    CHUNK_EXTENSION,
    CHUNK_SIZE_LF,
    CHUNK_DATA,
    CHUNK_DATA_CR,
    CHUNK_DATA_LF,
    CHUNK_TRAILER_START,
    CHUNK_TRAILER_NAME,
    CHUNK_TRAILER_VALUE,
    CHUNK_TRAILER_LF,
    CHUNK_END_LF,
    CHUNK_DONE,
};

/* Zeroed is the start. */
struct http_chunked {
    enum chunk_state state;
    uint32_t digits;
    uint32_t extension_bytes, trailer_bytes;
    uint64_t left;
};

/* Takes bytes and returns how many; *ret_data, *ret_length are the body bytes among them (the last
   ones taken; length 0: none). At the end of the body it takes no more and state is CHUNK_DONE.
   -400: broken framing. */
int64_t http_chunked_take(struct http_chunked *chunked, const uint8_t *bytes, size_t length,
    const uint8_t **ret_data, size_t *ret_length);

#endif
