/* Sorting changes by key, the larger part of what a bulk apply would cost if left to a comparison
   sort: each comparison touches two keys somewhere in memory.

   A range of items is sorted by eight bytes of their keys at a time: the bytes that all of the range
   have in common are skipped, the next eight go into the item as one big-endian number, and the
   items are sorted by that number alone (radix sort; insertion sort for a few). What is still
   equal is sorted by the next eight bytes. Keys of random digits are told apart in the first round,
   long common paths are skipped at once. Every sort here is stable, which leaves the changes of one
   key in their order.

   Short keys are filled up with zeros; keys that differ in trailing zeros only are then ordered
   by length, as byte order wants. Nothing can fail. The recursion is at most one level for each
   eight bytes of the longest key, and only its smaller frames repeat. */
#include "store/catalogue_sort.h"

#include <string.h>

#include "base/bytes.h"
#include "store/catalogue.h"

#define INSERTION_MAX 32

bool catalogue_same_key(const struct catalogue_change *a, const struct catalogue_change *b)
{
    return a->key.length == b->key.length && a->key.bucket_length == b->key.bucket_length &&
           memcmp(a->key.bytes, b->key.bytes, a->key.length) == 0 &&
           memcmp(a->key.bucket, b->key.bucket, a->key.bucket_length) == 0;
}

static uint8_t key_byte(const struct key *key, size_t at)
{
    if (at < key->bucket_length)
        return (uint8_t)key->bucket[at];
    size_t behind = (size_t)key->bucket_length + 1;
    return at < behind ? 0 : key->bytes[at - behind];
}

/* Eight bytes from at, zeros past the end. */
static uint64_t key_prefix(const struct key *key, size_t at, size_t length)
{
    size_t behind = (size_t)key->bucket_length + 1;
    if (at >= behind && at + 8 <= length)
        return __builtin_bswap64(get_u64(key->bytes + (at - behind)));
    uint64_t prefix = 0;
    for (size_t i = 0; i < 8; i++)
        prefix = prefix << 8 | (at + i < length ? key_byte(key, at + i) : 0);
    return prefix;
}

/* How many bytes from `at` on a and b have in common, at most `limit`. */
static size_t common_bytes(const struct key *a, const struct key *b, size_t at, size_t limit)
{
    size_t behind = (size_t)a->bucket_length + 1, same = 0;
    if (a->bucket == b->bucket && a->bucket_length == b->bucket_length && at < behind)
        same = behind - at;
    while (same < limit && key_byte(a, at + same) == key_byte(b, at + same))
        same++;
    return same < limit ? same : limit;
}

static size_t skip_common(
    const struct catalogue_change *changes, const struct sort_item *items, size_t count, size_t at)
{
    size_t common = items[0].length > at ? items[0].length - at : 0;
    const struct key *first = &changes[items[0].index].key;
    for (size_t i = 1; i < count && common; i++) {
        size_t left = items[i].length > at ? items[i].length - at : 0;
        common =
            common_bytes(first, &changes[items[i].index].key, at, left < common ? left : common);
    }
    return at + common;
}

static void insertion_sort(struct sort_item *items, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        struct sort_item item = items[i];
        size_t at = i;
        for (; at > 0 && items[at - 1].prefix > item.prefix; at--)
            items[at] = items[at - 1];
        items[at] = item;
    }
}

/* One pass by the byte at shift; start holds where each value begins. */
static void radix_pass(const struct sort_item *from, struct sort_item *to, size_t count,
    unsigned shift, uint32_t start[256])
{
    for (size_t i = 0; i < count; i++)
        to[start[from[i].prefix >> shift & 0xff]++] = from[i];
}

static void radix_sort(struct sort_item *items, size_t count, struct sort_item *scratch)
{
    uint32_t counts[8][256] = {0};
    for (size_t i = 0; i < count; i++) {
        for (unsigned byte = 0; byte < 8; byte++)
            counts[byte][items[i].prefix >> 8 * byte & 0xff]++;
    }
    struct sort_item *from = items, *to = scratch;
    for (unsigned byte = 0; byte < 8; byte++) {
        if (counts[byte][from[0].prefix >> 8 * byte & 0xff] == count)
            continue; /* the same in all, like the slashes of a tree of folders */
        uint32_t sum = 0;
        for (unsigned value = 0; value < 256; value++) {
            uint32_t here = counts[byte][value];
            counts[byte][value] = sum;
            sum += here;
        }
        radix_pass(from, to, count, 8 * byte, counts[byte]);
        struct sort_item *other = from;
        from = to;
        to = other;
    }
    if (from != items)
        memcpy(items, from, count * sizeof(*items));
}

/* Not inlined: the tables of counts must not lie in every frame of the recursion. */
static __attribute__((noinline)) void sort_by_prefix(
    struct sort_item *items, size_t count, struct sort_item *scratch)
{
    if (count <= INSERTION_MAX)
        insertion_sort(items, count);
    else
        radix_sort(items, count, scratch);
}

static bool any_longer(const struct sort_item *items, size_t count, size_t length)
{
    for (size_t i = 0; i < count; i++) {
        if (items[i].length > length)
            return true;
    }
    return false;
}

static void sort_by_length(struct sort_item *items, size_t count, struct sort_item *scratch)
{
    for (size_t i = 0; i < count; i++)
        items[i].prefix = items[i].length;
    sort_by_prefix(items, count, scratch);
}

/* Sorts items that are equal in all bytes before at. */
static void sort_from(const struct catalogue_change *changes, struct sort_item *items, size_t count,
    size_t at, struct sort_item *scratch)
{
    if (!any_longer(items, count, at)) {
        sort_by_length(items, count, scratch);
        return;
    }
    at = skip_common(changes, items, count, at);
    for (size_t i = 0; i < count; i++)
        items[i].prefix = key_prefix(&changes[items[i].index].key, at, items[i].length);
    sort_by_prefix(items, count, scratch);
    for (size_t i = 0, next; i < count; i = next) {
        for (next = i + 1; next < count && items[next].prefix == items[i].prefix;)
            next++;
        if (next - i > 1)
            sort_from(changes, items + i, next - i, at + 8, scratch);
    }
}

void catalogue_sort(const struct catalogue_change *changes, struct sort_item *items, size_t count,
    struct sort_item *scratch)
{
    for (size_t i = 0; i < count; i++) {
        const struct key *key = &changes[i].key;
        items[i].index = (uint32_t)i;
        items[i].length = (uint32_t)key->bucket_length + 1 + key->length;
    }
    if (count > 1)
        sort_from(changes, items, count, 0, scratch);
}
