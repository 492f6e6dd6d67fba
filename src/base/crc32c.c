/* CRC32C through ISA-L, which picks the fastest form the processor has (the crc32 instruction, or
   carry-less multiplication).

   ISA-L's crc32_iscsi neither inverts the initial value nor the result, as the standard form does,
   so both are done here; a result can then be handed in again to go on with the next bytes. Its
   length is an int: longer input is taken in pieces. Nothing can fail. */
#include "base/crc32c.h"

#include <isa-l/crc.h>

#define PIECE_BYTES_MAX (1u << 30)

uint32_t crc32c(uint32_t crc, const void *data, size_t length)
{
    const unsigned char *at = data;

    crc = ~crc;
    while (length > 0) {
        size_t piece = length < PIECE_BYTES_MAX ? length : PIECE_BYTES_MAX;

        /* The library takes a pointer to non-const and does not write through it. */
        crc = crc32_iscsi((unsigned char *)(uintptr_t)at, (int)piece, crc);
        at += piece;
        length -= piece;
    }
    return ~crc;
}
