/* The manifest's parser on arbitrary bytes.

   If the first byte is odd, the CRC of each entry is mended first, so that mutations get past it.
   Properties beside not reading outside: the valid part lies inside, segments are in the order of their
   ids, a refusal has a text. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <shoal/error.h>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "store/manifest.h"
#include "fuzz_copy.h"

#define ENTRY_HEADER_BYTES 24u

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

static void mend_entries(uint8_t *bytes, size_t length)
{
    size_t at = 0;

    while (length - at >= ENTRY_HEADER_BYTES) {
        uint32_t entry = get_u32(bytes + at + 8);

        if (entry < ENTRY_HEADER_BYTES || entry > length - at)
            return;
        put_u32(bytes + at + 4, crc32c(crc32c(0, bytes + at, 4), bytes + at + 8, entry - 8));
        at += entry;
    }
}

static void look(struct manifest *manifest, size_t length)
{
    assert(manifest->version > 0 && manifest->version <= length && manifest->version % 8 == 0);
    assert(manifest->entries > 0 && manifest->block_bytes >= 512);
    assert(manifest->count <= manifest->capacity);
    for (size_t i = 0; i < manifest->count; i++) {
        const struct manifest_segment *segment = &manifest->segments[i];

        assert(i == 0 || segment->id > manifest->segments[i - 1].id);
        assert(segment->id <= manifest->last_id && segment->epoch <= manifest->epoch);
        assert(segment->end % manifest->block_bytes == 0);
        assert(manifest_find(manifest, segment->id) == segment);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    struct shoal_error error = {0};
    struct manifest manifest;
    uint8_t *bytes;
    int rc;

    if (size < 1)
        return 0;
    bytes = fuzz_copy(input + 1, size - 1);
    if (input[0] & 1)
        mend_entries(bytes, size - 1);
    rc = manifest_parse(bytes, size - 1, &manifest, &error);
    if (rc == 0) {
        look(&manifest, size - 1);
        manifest_done(&manifest);
    } else {
        assert(rc == SHOAL_E_CORRUPT || rc == SHOAL_E_FORMAT || rc == SHOAL_E_NO_STORE);
        assert(error.code == rc && error.text[0] != 0);
    }
    free(bytes);
    return 0;
}
