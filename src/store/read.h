/* Reading an object without doing the I/O: the caller is told what to read, reads it in its own way
   (a ring, a pool thread, pread) and hands the bytes back. One lookup in RAM and one read for an
   object up to 128 KiB; larger ones follow in pieces, each verified before it is given out.

       rc = object_read_find(&r, store, &key);              // RAM only
       while (rc == OBJECT_READ_MORE)                       // one turn, but for hash collisions
           rc = object_read_found(&r, buffer, pread(r.fd, buffer, r.want_bytes, r.want_offset));
       // rc == 0: r.stat holds size, type, ETag, time; the payload may be asked for
       for (at = 0; at < end; at += length) {
           rc = object_read_seek(&r, at);                   // 0: already in buffer, or MORE
           while (rc == OBJECT_READ_MORE)
               rc = object_read_piece(&r, buffer, pread(…));
           object_read_bytes(&r, &bytes, &length);          // verified, inside buffer
       }

   A read never holds a lock. One thread at a time per struct; no allocation, nothing to free. */
#ifndef STORE_READ_H
#define STORE_READ_H

#include <stddef.h>
#include <stdint.h>

#include <shoal/shoal.h>

#include "base/hash.h"
#include "store/index.h"
#include "store/key.h"
#include "store/volume.h"

#define OBJECT_READ_MORE 1 /* read want_bytes at want_offset of file, then call again */

/* The buffer must hold this much; every want_bytes is at most this. */
#define OBJECT_READ_BUFFER_BYTES (160u << 10)

/* Payloads above this carry one CRC per block of it. */
#define OBJECT_BLOCK_BYTES (64u << 10)

struct object_read {
    /* What to read next, valid after OBJECT_READ_MORE. */
    struct volume_file *file;
    uint64_t want_offset;
    uint32_t want_bytes;

    /* Valid after object_read_found returned 0. */
    struct shoal_stat stat;
    uint64_t blob_id; /* not 0: the bytes lie in chunks */

    /* Owned by read.c. */
    struct shoal *store;
    struct key key; /* borrowed: must outlive the read */
    struct hash128 hash;
    struct candidate candidates[INDEX_CANDIDATES_MAX];
    unsigned candidate_count, candidate_next;
    int failure; /* remembered while other candidates are tried */
    struct place place; /* of the record whose pieces are read: the object's or a chunk's */
    uint64_t record_offset;
    uint32_t header_bytes, data_bytes, payload_crc;
    uint64_t record_start; /* object offset of the record's first payload byte */
    uint64_t chunk_number;
    uint32_t chunk_bytes;
    uint8_t chunk_key[32];
    uint8_t crc_table[4 * (SHOAL_CHUNK_BYTES / OBJECT_BLOCK_BYTES)];
    uint64_t seek_offset;
    const uint8_t *bytes; /* verified payload in the caller's buffer … */
    uint64_t bytes_start; /* … at this object offset … */
    uint32_t bytes_length; /* … this many */
    int finding_chunk;
};

/* Looks the key up. OBJECT_READ_MORE, or SHOAL_E_ABSENT. bucket existence is the caller's affair. */
int object_read_find(struct object_read *read, struct shoal *store, const struct key *key);

/* Takes the result of the read: length is the count or -errno. 0: found, and the first payload bytes
   may lie in buffer already; OBJECT_READ_MORE; SHOAL_E_ABSENT; SHOAL_E_CORRUPT: the record is
   damaged, and no other candidate held the key; -errno. */
int object_read_found(struct object_read *read, const void *buffer, int64_t length);

/* Asks for the bytes from offset (below the size). 0: they are in the buffer handed in last, which
   the caller has kept unchanged; OBJECT_READ_MORE; SHOAL_E_CORRUPT where a chunk is missing. */
int object_read_seek(struct object_read *read, uint64_t offset);
int object_read_piece(struct object_read *read, const void *buffer, int64_t length);

/* The verified bytes at the offset sought: at least one, up to the end of the piece. */
void object_read_bytes(const struct object_read *read, const void **ret_bytes, size_t *ret_length);

/* Fills key after checking the rules of bucket names and keys: 0, SHOAL_E_BAD_KEY, _BAD_NAME. */
int object_key(const char *bucket, const void *bytes, size_t length, struct key *ret_key);

#endif
