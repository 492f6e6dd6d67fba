/* Keys of the store's own records. They live under a bucket of length 0, which no user can name, and
   begin with a letter for what they are; numbers are big-endian, so that keys sort as they do. */
#include <string.h>

#include <shoal/error.h>

#include "store/store_priv.h"

static uint8_t *put_big_endian(uint8_t *at, uint64_t value)
{
    for (int i = 0; i < 8; i++)
        at[i] = (uint8_t)(value >> (56 - 8 * i));
    return at + 8;
}

static uint8_t *begin(struct system_key *key, char kind)
{
    key->key.bucket = "";
    key->key.bucket_length = 0;
    key->key.bytes = key->bytes;
    key->bytes[0] = (uint8_t)kind;
    return key->bytes + 1;
}

static void finish(struct system_key *key, const uint8_t *end)
{
    key->key.length = (uint16_t)(end - key->bytes);
}

void system_key_bucket(struct system_key *ret_key, const char *name, size_t length)
{
    uint8_t *at = begin(ret_key, 'b');

    memcpy(at, name, length);
    finish(ret_key, at + length);
}

void system_key_chunk(struct system_key *ret_key, uint64_t blob_id, uint64_t number)
{
    finish(ret_key, put_big_endian(put_big_endian(begin(ret_key, 'c'), blob_id), number));
}

void system_key_open(struct system_key *ret_key, uint64_t blob_id)
{
    finish(ret_key, put_big_endian(begin(ret_key, 'o'), blob_id));
}

void system_key_reap(struct system_key *ret_key, uint64_t blob_id)
{
    finish(ret_key, put_big_endian(begin(ret_key, 'r'), blob_id));
}

void owner_encode(struct record *record, const struct key *key, uint8_t ret_bytes[OWNER_MAX])
{
    ret_bytes[0] = key->bucket_length;
    memcpy(ret_bytes + 1, key->bucket, key->bucket_length);
    memcpy(ret_bytes + 1 + key->bucket_length, key->bytes, key->length);
    record->data = ret_bytes;
    record->data_length = 1u + key->bucket_length + key->length;
    record_checksum(record, NULL);
}

int owner_decode(const struct record *record, struct key *ret_key)
{
    if (!record->data || record->data_length < 3 || record->data_length > OWNER_MAX ||
        record->data[0] == 0 || record->data_length < 2u + record->data[0] ||
        !record_payload_valid(record))
        return SHOAL_E_CORRUPT;
    ret_key->bucket = (const char *)record->data + 1;
    ret_key->bucket_length = record->data[0];
    ret_key->bytes = record->data + 1 + ret_key->bucket_length;
    ret_key->length = (uint16_t)(record->data_length - 1u - ret_key->bucket_length);
    return 0;
}

struct hash128 store_hash(const struct shoal *store, const struct key *key)
{
    return hash_key(
        store->manifest.hash_seed, key->bucket, key->bucket_length, key->bytes, key->length);
}
