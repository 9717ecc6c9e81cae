#!/usr/bin/env python3
"""Reads a compressed APR2 file with Python and liblz4 alone, and compares its tensors with
those of the file that it was converted from.

    check_ours.py COMPRESSED.apr [SOURCE.apr]

SOURCE is read by the same code; without it, only that every block yields what it has to is
checked. Prints one line; the exit status is 1 where something differs.
"""

import struct
import sys
import zlib

import lz4.block

WIDTH = {0: 4, 1: 2, 2: 2, 3: 1, 4: 2, 5: 4, 6: 8, 7: 1, 0x20: 8, 0x21: 2, 0x22: 4, 0x23: 8, 0x24: 1, 0x25: 1, 0x26: 1}
BLOCKS = {16: (32, 34), 17: (32, 18), 18: (32, 20), 19: (32, 22), 20: (32, 24)}


def expand(stored, raw):
    """The blocks of a tensor, each of which must yield 65,536 bytes, the last one the rest."""
    pieces, at, left = [], 0, raw
    while left:
        (n,) = struct.unpack_from("<I", stored, at)
        want = min(left, 65536)
        b = lz4.block.decompress(stored[at + 4:at + 4 + n], uncompressed_size=want)
        assert len(b) == want, f"a block of {len(b)} bytes, not {want}"
        pieces.append(b)
        left -= want
        at += 4 + n
    assert at == len(stored), f"{len(stored) - at} bytes left over"
    return b"".join(pieces)


def read(path):
    with open(path, "rb") as f:
        b = f.read()
    crc, end, size = struct.unpack("<I4sQ", b[-16:])
    assert b[:4] == b"APR2" and end == b"2RPA" and size == len(b) and crc == zlib.crc32(b[:-16]), "header, footer or CRC32"
    _, _, flags, _, _, index_at, index_size, data_at = struct.unpack_from("<HHIIIIII", b, 4)
    (count, _), at = struct.unpack_from("<II", b, index_at), index_at + 8
    tensors, compressed = {}, 0
    for _ in range(count):
        (n,) = struct.unpack_from("<H", b, at)
        name = b[at + 2:at + 2 + n].decode()
        dtype, rank = struct.unpack_from("<BB", b, at + 2 + n)
        shape = struct.unpack_from("<%dQ" % rank, b, at + 4 + n)
        off, size, raw, entry_flags = struct.unpack_from("<QQQI", b, at + 4 + n + 8 * rank)
        at += 32 + n + 8 * rank
        stored = b[data_at + off:data_at + off + size]
        assert entry_flags & 1 == (raw != 0), name
        compressed += raw != 0
        elements = 1
        for d in shape:
            elements *= d
        per, width = BLOCKS.get(dtype, (1, WIDTH.get(dtype)))
        data = expand(stored, raw) if raw else stored
        assert width is None or len(data) == elements // per * width, name
        tensors[name] = (dtype, shape, data)
    assert at == index_at + index_size and (flags & 1 == 1) == (compressed > 0), "index or flags"
    return tensors, compressed


ours, compressed = read(sys.argv[1])
if len(sys.argv) > 2:
    theirs, _ = read(sys.argv[2])
    if ours != theirs:
        sys.exit(f"{sys.argv[1]}: other tensors: {[n for n in theirs if ours.get(n) != theirs[n]]}")
print(f"{sys.argv[1]}: {len(ours)} tensors, {compressed} of them compressed, all as they should be")
