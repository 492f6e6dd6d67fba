/* Keys and values of the catalogue.

   A key is the bucket, a NUL and the object's key, so that a bucket's objects lie together in byte
   order: bucket names hold no NUL, hence no bucket's keys lie between another's.

       value:   sequence varint, size varint, mtime 8 bytes (two's complement), MD5 16 bytes
       usage:   objects varint, bytes varint

   Varints hold 7 bits a byte, the lowest first, a set top bit on all but the last; the shortest
   form is the only legal one. A value takes 30 to 38 bytes. Decoding fails on anything that encode
   can't have written; the caller then calls the catalogue damaged. */
#include "store/catalogue_codec.h"

#include <string.h>

#include "base/bytes.h"
#include "store/catalogue.h"

#define VARINT_MAX 10
_Static_assert(2 * VARINT_MAX + 8 + 16 <= CATALOGUE_VALUE_MAX, "a value fits its buffer");
_Static_assert(2 * VARINT_MAX <= CATALOGUE_USAGE_MAX, "a usage fits its buffer");

static uint8_t *put_varint(uint8_t *at, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        *at++ = (uint8_t)(value | 0x80);
    *at++ = (uint8_t)value;
    return at;
}

/* Behind the number, or NULL. at may be NULL, so that calls can be chained. */
static const uint8_t *get_varint(const uint8_t *at, const uint8_t *end, uint64_t *ret_value)
{
    uint64_t value = 0;
    for (unsigned shift = 0; at && at < end && shift < 64; shift += 7) {
        uint8_t byte = *at++;
        if (shift == 63 && byte > 1)
            return NULL;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            if (byte == 0 && shift > 0)
                return NULL;
            *ret_value = value;
            return at;
        }
    }
    return NULL;
}

size_t catalogue_key_encode(const struct key *key, uint8_t ret_bytes[CATALOGUE_KEY_MAX])
{
    memcpy(ret_bytes, key->bucket, key->bucket_length);
    ret_bytes[key->bucket_length] = 0;
    memcpy(ret_bytes + key->bucket_length + 1, key->bytes, key->length);
    return (size_t)key->bucket_length + 1 + key->length;
}

size_t catalogue_usage_key(
    const char *bucket, size_t bucket_length, uint8_t ret_bytes[CATALOGUE_KEY_MAX])
{
    memcpy(ret_bytes, CATALOGUE_KEY_BUCKET, CATALOGUE_KEY_OWN);
    memcpy(ret_bytes + CATALOGUE_KEY_OWN, bucket, bucket_length);
    return CATALOGUE_KEY_OWN + bucket_length;
}

size_t catalogue_value_encode(
    const struct catalogue_change *change, uint8_t ret_bytes[CATALOGUE_VALUE_MAX])
{
    uint8_t *at = put_varint(ret_bytes, change->sequence);
    at = put_varint(at, change->size_bytes);
    put_u64(at, (uint64_t)change->mtime_ns);
    memcpy(at + 8, change->md5, 16);
    return (size_t)(at + 24 - ret_bytes);
}

bool catalogue_value_decode(const uint8_t *bytes, size_t length, struct catalogue_entry *ret_entry)
{
    const uint8_t *end = bytes + length;
    uint64_t sequence, size_bytes;
    const uint8_t *at = get_varint(bytes, end, &sequence);
    at = get_varint(at, end, &size_bytes);
    if (!at || end - at != 24 || size_bytes > SHOAL_OBJECT_MAX)
        return false;
    ret_entry->sequence = sequence;
    ret_entry->size_bytes = size_bytes;
    ret_entry->mtime_ns = (int64_t)get_u64(at);
    memcpy(ret_entry->md5, at + 8, 16);
    return true;
}

size_t catalogue_usage_encode(
    const struct catalogue_usage *usage, uint8_t ret_bytes[CATALOGUE_USAGE_MAX])
{
    return (size_t)(put_varint(put_varint(ret_bytes, usage->objects), usage->bytes) - ret_bytes);
}

bool catalogue_usage_decode(const uint8_t *bytes, size_t length, struct catalogue_usage *ret_usage)
{
    const uint8_t *end = bytes + length;
    struct catalogue_usage usage;
    const uint8_t *at = get_varint(bytes, end, &usage.objects);
    at = get_varint(at, end, &usage.bytes);
    if (at != end || !at)
        return false;
    *ret_usage = usage;
    return true;
}
