/* The decoder of superblocks on arbitrary bytes.

   If the first byte is odd, the CRC is mended first, so that mutations get past it. Properties beside
   not reading outside: the block lies inside the bytes, and what was decoded is written the same way. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <shoal/error.h>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "store/segment.h"
#include "fuzz_copy.h"

#define FIELDS_BYTES 64u

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

static void mend(uint8_t *bytes, size_t length)
{
    uint32_t block_bytes = length >= FIELDS_BYTES ? get_u32(bytes + 56) : 0;

    if (block_bytes >= FIELDS_BYTES && block_bytes <= length)
        put_u32(bytes + 8, crc32c(crc32c(0, bytes, 8), bytes + 12, block_bytes - 12));
}

static void look(const struct superblock *superblock, const uint8_t *bytes, size_t length)
{
    uint8_t *copy;

    assert(superblock->block_bytes > 0 && superblock->block_bytes <= length);
    copy = malloc(superblock->block_bytes);
    assert(copy != NULL);
    superblock_encode(superblock, copy);
    assert(memcmp(copy + 16, bytes + 16, 45) == 0); /* what it says; a version and a CRC precede */
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    struct superblock superblock;
    uint8_t *bytes;
    int rc;

    if (size < 1)
        return 0;
    bytes = fuzz_copy(input + 1, size - 1);
    if (input[0] & 1)
        mend(bytes, size - 1);
    rc = superblock_decode(bytes, size - 1, &superblock);
    if (rc == 0)
        look(&superblock, bytes, size - 1);
    else
        assert(rc == SHOAL_E_CORRUPT || rc == SHOAL_E_FORMAT);
    free(bytes);
    return 0;
}
