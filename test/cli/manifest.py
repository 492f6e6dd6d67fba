"""Changes a MANIFEST the way doc/FORMAT.md describes it."""

import struct

VERSION_AT = 28  # behind the entry's header (24 bytes) and the edit's (4)


def crc32c(data, crc=0):
    crc ^= 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


def raise_format_version(path):
    """The first entry holds the format version; its checksum leaves out itself."""
    with open(path, "rb") as file:
        data = bytearray(file.read())
    length, = struct.unpack_from("<I", data, 8)
    version, = struct.unpack_from("<I", data, VERSION_AT)
    assert version == 1, "the layout of the manifest has changed: see doc/FORMAT.md"
    struct.pack_into("<I", data, VERSION_AT, version + 1)
    struct.pack_into("<I", data, 4, crc32c(bytes(data[0:4] + data[8:length])))
    with open(path, "wb") as file:
        file.write(data)
