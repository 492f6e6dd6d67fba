/* How the catalogue writes keys and values. Numbers in values are checked when read. */
#ifndef STORE_CATALOGUE_CODEC_H
#define STORE_CATALOGUE_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <shoal/shoal.h>

#include "store/key.h"

struct catalogue_change;
struct catalogue_entry;
struct catalogue_usage;

#define CATALOGUE_KEY_MAX   (SHOAL_BUCKET_MAX + 1 + SHOAL_KEY_MAX)
#define CATALOGUE_VALUE_MAX 48
#define CATALOGUE_USAGE_MAX 20

/* Keys of the catalogue's own begin with a NUL, which no bucket name does, and sort in this order
   before all others. */
#define CATALOGUE_KEY_IDENTITY "\0i"
#define CATALOGUE_KEY_PROGRESS "\0p"
#define CATALOGUE_KEY_TOTAL    "\0t"
#define CATALOGUE_KEY_BUCKET   "\0u" /* and the bucket's name */
#define CATALOGUE_KEY_OWN      2 /* bytes of each */

/* bucket NUL key; returns the length. The parts are within their limits. */
size_t catalogue_key_encode(const struct key *key, uint8_t ret_bytes[CATALOGUE_KEY_MAX]);
/* The key under which a bucket's usage is kept. */
size_t catalogue_usage_key(
    const char *bucket, size_t bucket_length, uint8_t ret_bytes[CATALOGUE_KEY_MAX]);

size_t catalogue_value_encode(
    const struct catalogue_change *change, uint8_t ret_bytes[CATALOGUE_VALUE_MAX]);
/* Fills all but the key. False when the bytes are not what encode writes. */
bool catalogue_value_decode(const uint8_t *bytes, size_t length, struct catalogue_entry *ret_entry);

size_t catalogue_usage_encode(
    const struct catalogue_usage *usage, uint8_t ret_bytes[CATALOGUE_USAGE_MAX]);
bool catalogue_usage_decode(const uint8_t *bytes, size_t length, struct catalogue_usage *ret_usage);

#endif
