#!/usr/bin/env python3
"""Files with aprender's 64-byte header that its own crate does not write: those of realizar, and faulty ones.

Assembled after the layout and the dtype tables that ../../layout/apr2/doc.go describes, and
realizar's sources; values by NumPy and gguf (the Python package). Usage: gen_aprender.py [DIRECTORY]
"""
import hashlib
import json
import pathlib
import struct
import sys
import zlib

import gguf
import numpy as np

DIR = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent)
VERSION = "2.0 (64-byte header)"
QUANTIZED, SIGNED, ENCRYPTED, SHARDED, LZ4, ROW, COLUMN = 0x20, 8, 4, 0x10, 1, 0x400, 0x800
rng = np.random.default_rng(4)


def pad(b):
    return b + bytes(-len(b) % 64)


class Tensor:
    def __init__(self, name, id, dtype, shape, data, values):
        self.name, self.id, self.dtype, self.shape, self.data = name, id, dtype, shape, data
        self.values = np.asarray(values).astype("<f4").tobytes()


def plain(name, id, dtype, kind, values, shape=None):
    a = np.array(values, dtype=kind)
    return Tensor(name, id, dtype, shape or list(a.shape), a.tobytes(), a)


def blocks(name, id, dtype, shape):
    """Quantized blocks of random bytes under plain scales."""
    kind = getattr(gguf.GGMLQuantizationType, dtype)
    elems, size = gguf.GGML_QUANT_SIZES[kind]
    n = int(np.prod(shape)) // elems
    b = rng.integers(0, 256, (n, size), dtype=np.uint8)
    for at in {"Q6_K": [208], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q4_1": [0, 2], "Q5_1": [0, 2]}.get(dtype, [0]):
        b[:, at + 1] = b[:, at + 1] & 0x83 | 0x24
    return Tensor(name, id, dtype, shape, b.tobytes(), gguf.quants.dequantize(b, kind))


def entry(t, offset):
    name = t.name.encode()
    return struct.pack("<H", len(name)) + name + struct.pack(f"<BB{len(t.shape)}QQQ", t.id, len(t.shape), *t.shape, offset, len(t.data))


def header(magic, flags, count, md_size, index_at, data_at, summed=True):
    head = bytearray(struct.pack("<4sBBHIQIQQI20x", magic, 2, 0, flags, count, 64, md_size, index_at, data_at, 0))
    if summed:
        head[40:44] = struct.pack("<I", zlib.crc32(head[:40] + head[44:]))
    return bytes(head)


def assemble(tensors, md=b'{"model_type":"test"}', magic=b"APR\0", flags=ROW, summed=True, footer=True, counted=False, gap=0):
    """counted: metadata_size counts the padding. gap: bytes before the first tensor that break its alignment."""
    index, at, offsets = b"", gap, []
    for t in tensors:
        offsets.append(at)
        index += entry(t, at)
        at += len(pad(t.data))
    index_at = 64 + len(pad(md))
    data_at = index_at + len(pad(index))
    body = pad(md) + pad(index) + bytes(gap) + b"".join(pad(t.data) for t in tensors)
    out = header(magic, flags, len(tensors), len(pad(md)) if counted else len(md), index_at, data_at, summed) + body
    if footer:
        out += struct.pack("<I", zlib.crc32(out))
    return out, [data_at + o for o in offsets]


def put(file, data, expected):
    (DIR / file).write_bytes(data)
    text = json.dumps({"file": file, "format": "apr2", "size": len(data)} | expected, indent=1)
    (DIR / file).with_suffix(".json").write_text(text + "\n")


def readable(file, built, tensors, md='{"model_type":"test"}', findings=(), verify="ok", aligned=True):
    data, offsets = built
    sha = lambda b: hashlib.sha256(b).hexdigest()
    put(file, data, {
        "version": VERSION, "metadata": json.loads(md),
        "tensors": [{
            "name": t.name, "dtype": t.dtype, "shape": t.shape, "offset": o, "stored": len(t.data), "raw": len(t.data),
            "encoding": "raw", "zero_copy": aligned, "stored_sha256": sha(t.data), "raw_sha256": sha(t.data), "f32_sha256": sha(t.values),
        } for t, o in zip(tensors, offsets)],
        "verify": verify, "findings": list(findings),
    })


def refused(file, data, field, offset):
    put(file, data, {"error": {"field": field, "offset": offset}})


def literals(b):
    """b as an LZ4 block without a match."""
    n, out = len(b) - 15, b"\xf0"
    while n >= 255:
        out, n = out + b"\xff", n - 255
    return out + bytes([n]) + b


def realizar():
    old = [  # the order is that of the GGUF file it came from
        plain("output.weight", 0, "F32", "<f4", [[1, -2.5, 3], [0, 1e-3, 7]]),
        blocks("blk.0.attn_q.weight", 8, "Q4_K", [2, 256]),
        blocks("blk.0.attn_v.weight", 10, "Q8_0", [3, 32]),
        plain("blk.0.norm", 1, "F16", "<f2", [0.5, -1, 65504]),
    ]
    readable("realizar-0.6.apr", assemble(old, flags=QUANTIZED, summed=False, footer=False), old,
             findings=["checksum", "crc32", "name"], verify="fail")
    summed = [
        blocks("a.q6", 9, "Q6_K", [256]),
        blocks("b.q4", 8, "Q4_K", [512]),  # alone it might be APR_Q4
        plain("c.i8", 3, "I8", "i1", [-128, 127, 3]),
        plain("d.i16", 4, "I16", "<i2", [-32768, 7]),
        plain("e.i32", 5, "I32", "<i4", [1 << 30, -1]),
        plain("f.i64", 6, "I64", "<i8", [1 << 60, -1]),
        plain("g.u8", 7, "U8", "u1", [255, 0]),
        plain("h.bf16", 2, "BF16", "<u2", [0x3f80, 0xc000]),
    ]
    summed[7].values = np.array([1, -2], "<f4").tobytes()
    readable("realizar-ids.apr", assemble(summed, flags=QUANTIZED), summed)
    new = [blocks(f"{i:02d}.{d}", i, d, [2, 256]) for i, d in
           [(2, "Q4_0"), (3, "Q4_1"), (6, "Q5_0"), (7, "Q5_1"), (8, "Q8_0"), (12, "Q4_K"), (13, "Q5_K"), (14, "Q6_K")]]
    readable("realizar-0.8.apr", assemble(new, flags=QUANTIZED, footer=False), new, findings=["crc32"], verify="fail")


def odd():
    w = [plain("w", 0, "F32", "<f4", [1, 2, 3])]
    scalar = [plain("s", 3, "F64", "<f8", 0.1, [])]
    readable("padded-metadata.apr", assemble(scalar, counted=True), scalar)
    none = []
    readable("no-tensors.apr", assemble(none), none)
    readable("signed.apr", assemble(w, flags=ROW | SIGNED), w, findings=["flags"])
    readable("misaligned.apr", assemble(w, gap=4), w, findings=["offset"], verify="fail", aligned=False)
    keys = '{"a":1,"b":{"x":1,"x":2},"a":[],"b":{"y":null,"y":"last"}}'
    readable("twice.apr", assemble(w, md=keys.encode()), w, md=keys)
    data, at = assemble(w)
    flipped = bytearray(data)
    flipped[at[0] + 20] ^= 1  # in the padding
    readable("badcrc.apr", (bytes(flipped), at), w, findings=["crc32"], verify="fail")


def faulty():
    w = [plain("w", 0, "F32", "<f4", [1, 2, 3])]
    for name, flag in [("encrypted", ENCRYPTED), ("sharded", SHARDED), ("column-major", COLUMN)]:
        refused(f"{name}.apr", assemble(w, flags=flag)[0], "flags", 6)
    either = blocks("q", 8, "Q4_K", [256])
    data, _ = assemble([either])
    refused("ambiguous.apr", data, "dtype", 64 + 64 + 2 + 1)
    mixed = [plain("a", 3, "F64", "<f8", [1.0]), plain("b", 4, "I16", "<i2", [1])]
    refused("mixed.apr", assemble(mixed)[0], "dtype", 64 + 64 + (2 + 1 + 2 + 8 + 16) + 2 + 1)
    whole, _ = assemble(w, flags=ROW | LZ4, footer=False)
    packed = whole[:64] + struct.pack("<I", len(whole) - 64) + literals(whole[64:])
    refused("packed.apr", packed + struct.pack("<I", zlib.crc32(packed)), "flags", 6)
    damaged = bytearray(assemble(w)[0])
    damaged[32] ^= 0x40
    refused("badheader.apr", bytes(damaged), "checksum", 40)


realizar()
odd()
faulty()
