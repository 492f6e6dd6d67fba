/* Puts changes into the order of their catalogue keys. */
#ifndef STORE_CATALOGUE_SORT_H
#define STORE_CATALOGUE_SORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct catalogue_change;

struct sort_item {
    uint64_t prefix; /* the sorter's own */
    uint32_t index; /* of the change */
    uint32_t length; /* of its key in the catalogue */
};

/* Sorts all of items by catalogue key, those of one key by index; prefix and length need not be
   set. scratch holds count too. */
void catalogue_sort(const struct catalogue_change *changes, struct sort_item *items, size_t count,
    struct sort_item *scratch);

bool catalogue_same_key(const struct catalogue_change *a, const struct catalogue_change *b);

#endif
