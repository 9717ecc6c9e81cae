#!/usr/bin/env python3
"""Assembles the APR2 files of this folder by hand, field by field, with struct and
from the tables of "APR-FORMAT-002: APR v2 Format Specification" 2.0.0-draft alone.

It shares no code with the Go packages that are tested against what it writes. For each
NAME.apr there is a NAME.json that says what a reader must find in it. Run it in this
folder, with Python 3.9 or later and numpy (for float16); it writes the same bytes each
time.
"""

import hashlib
import json
import struct
import zlib

import numpy as np

COMPRESSED, ALIGNED_64, ALIGNED_32, SHARDED, ENCRYPTED, SIGNED, QUANTIZED, STREAMING = (
    1 << i for i in range(8))
FLAG_NAMES = ["COMPRESSED", "ALIGNED_64", "ALIGNED_32", "SHARDED",
              "ENCRYPTED", "SIGNED", "QUANTIZED", "STREAMING"]

# id, elements of a block, bytes of a block. From 0x20 on: the extension of minor version 1.
DTYPES = {
    "F32": (0, 1, 4), "F16": (1, 1, 2), "BF16": (2, 1, 2),
    "I8": (3, 1, 1), "I16": (4, 1, 2), "I32": (5, 1, 4), "I64": (6, 1, 8), "U8": (7, 1, 1),
    "Q8_0": (16, 32, 34), "Q4_0": (17, 32, 18), "Q4_1": (18, 32, 20),
    "Q5_0": (19, 32, 22), "Q5_1": (20, 32, 24),
    "F64": (0x20, 1, 8), "U16": (0x21, 1, 2), "U32": (0x22, 1, 4), "U64": (0x23, 1, 8),
    "BOOL": (0x24, 1, 1), "F8_E4M3": (0x25, 1, 1), "F8_E5M2": (0x26, 1, 1),
    "Q8_1": (0x49, 32, 36), "Q2_K": (0x4A, 256, 84), "Q3_K": (0x4B, 256, 110),
    "Q4_K": (0x4C, 256, 144), "Q5_K": (0x4D, 256, 176), "Q6_K": (0x4E, 256, 210),
    "IQ4_NL": (0x54, 32, 18), "MXFP4": (0x67, 32, 17),
}

REQUIRED = {"apr_version": "2.0.0", "model_type": "test", "architecture": {"n_layer": 1}}


class Tensor:
    """A tensor as it will be in a file. raw are its elements; stored is what the file holds."""

    def __init__(self, name, dtype, shape, raw, stored=None, f32=None):
        _, elems, width = DTYPES[dtype]
        n = 1
        for d in shape:
            n *= d
        assert len(raw) == n // elems * width, (name, len(raw), n)
        self.name, self.dtype, self.shape, self.raw = name, dtype, shape, raw
        self.compressed = stored is not None
        self.stored = raw if stored is None else stored
        self.f32 = f32


def numbers(name, dtype, shape, values):
    """A tensor of plain numbers, whose values as float32 numpy knows."""
    if dtype == "BF16":
        raw = b"".join(struct.pack("<f", v)[2:] for v in values)
        back = np.frombuffer(b"".join(b"\0\0" + raw[i:i + 2] for i in range(0, len(raw), 2)), "<f4")
    else:
        np_type = {"F32": "<f4", "F16": "<f2", "F64": "<f8", "I8": "<i1", "I16": "<i2", "I32": "<i4",
                   "I64": "<i8", "U8": "<u1", "U16": "<u2", "U32": "<u4", "U64": "<u8", "BOOL": "<u1"}[dtype]
        raw = np.array(values, np_type).tobytes()
        with np.errstate(over="ignore"):
            back = np.frombuffer(raw, np_type).astype("<f4")
    return Tensor(name, dtype, shape, raw, f32=back.tobytes())


def pattern(n, seed):
    """n bytes without a short period."""
    return bytes((i * i * 7 + i * 13 + seed * 29) >> 2 & 0xFF for i in range(n))


def blocks(name, dtype, shape, seed):
    """A tensor of a block type. Its first two bytes, a scale in most types, are a small float16."""
    _, elems, width = DTYPES[dtype]
    n = 1
    for d in shape:
        n *= d
    raw = bytearray(pattern(n // elems * width, seed))
    for at in range(0, len(raw), width):
        raw[at:at + 2] = np.float16(0.0625 * (1 + at // width)).tobytes()
    return Tensor(name, dtype, shape, bytes(raw))


def lz4_literals(data):
    """data as LZ4 blocks of 64 KiB, nothing matched: a run of literals each (LZ4 Block
    Format: token with 15 in the high nibble, then 255s and the rest of the length)."""
    out = b""
    for at in range(0, len(data), 65536):
        lit = data[at:at + 65536]
        if len(lit) < 15:
            block = bytes([len(lit) << 4]) + lit
        else:
            more = len(lit) - 15
            block = b"\xf0" + b"\xff" * (more // 255) + bytes([more % 255]) + lit
        out += struct.pack("<I", len(block)) + block
    return out


def lz4_zeros(n):
    """n <= 65,536 zero bytes as one block: one literal, a match at distance 1, and the
    five literals that must end a block."""
    match = n - 6 - 4 - 15
    block = b"\x1f\x00" + struct.pack("<H", 1) + b"\xff" * (match // 255) + bytes([match % 255])
    block += b"\x50" + b"\x00" * 5
    return struct.pack("<I", len(block)) + block


def up(n, align):
    return -(-n // align) * align


class Model:
    """One file. The options stray from what a plain writer does."""

    def __init__(self, tensors, metadata=REQUIRED, flags=ALIGNED_64, minor=0, align=64, shift=None,
                 order="drawn", reserved=0, entry_flags=None, crc_xor=0, magic_end=b"2RPA",
                 size_add=0, trailing=b""):
        self.__dict__.update(locals())

    def layout(self):
        """Where everything goes: header, metadata, index, data as the draft draws it, or
        "behind": header, data, index, metadata; tensors last to first."""
        meta = b"" if self.metadata is None else json.dumps(
            self.metadata, ensure_ascii=False, separators=(",", ":")).encode()
        index_size = 8 + sum(32 + len(t.name.encode()) + 8 * len(t.shape) for t in self.tensors)
        if self.order == "drawn":
            meta_at, index_at = 32, 32 + len(meta)
            data_at = up(index_at + index_size, 64)
        else:
            data_at = 64
        at, places = data_at, {}
        for t in self.tensors if self.order == "drawn" else self.tensors[::-1]:
            at = up(at, self.align) + (self.shift or {}).get(t.name, 0)
            places[t.name] = at
            at += len(t.stored)
        if self.order != "drawn":
            index_at = at + 3  # nothing says that sections are aligned
            meta_at = index_at + index_size
            at = meta_at + len(meta)
        return meta, index_size, meta_at, index_at, data_at, places, at

    def encode(self):
        meta, index_size, meta_at, index_at, data_at, places, end = self.layout()
        index = struct.pack("<II", len(self.tensors), self.reserved)
        for t in self.tensors:
            name = t.name.encode()
            flags = int(t.compressed) if self.entry_flags is None else self.entry_flags
            index += struct.pack("<H", len(name)) + name
            index += struct.pack("<BB", DTYPES[t.dtype][0], len(t.shape))
            index += b"".join(struct.pack("<Q", d) for d in t.shape)
            index += struct.pack("<QQQ", places[t.name] - data_at, len(t.stored), len(t.raw) if t.compressed else 0)
            index += struct.pack("<I", flags)
        assert len(index) == index_size
        out = bytearray(end)
        out[0:32] = b"APR2" + struct.pack("<HHIIIIII", 2, self.minor, self.flags, meta_at, len(meta),
                                          index_at, index_size, data_at)
        out[meta_at:meta_at + len(meta)] = meta
        out[index_at:index_at + index_size] = index
        for t in self.tensors:
            out[places[t.name]:places[t.name] + len(t.stored)] = t.stored
        out += self.trailing
        crc = zlib.crc32(bytes(out)) ^ self.crc_xor
        out += struct.pack("<I", crc) + self.magic_end + struct.pack("<Q", len(out) + 16 + self.size_add)
        return bytes(out), crc

    def expect(self, data, crc):
        meta, index_size, meta_at, index_at, data_at, places, _ = self.layout()
        return {
            "size": len(data),
            "crc32": crc,
            "header": {"Major": 2, "Minor": self.minor, "Flags": self.flags,
                       "MetadataOffset": meta_at, "MetadataSize": len(meta),
                       "IndexOffset": index_at, "IndexSize": index_size, "DataOffset": data_at},
            "flags": [n for i, n in enumerate(FLAG_NAMES) if self.flags >> i & 1],
            "metadata": {} if self.metadata is None else self.metadata,
            "tensors": [{
                "name": t.name, "dtype": t.dtype, "shape": t.shape, "offset": places[t.name],
                "stored": len(t.stored), "raw": len(t.raw), "encoding": "lz4" if t.compressed else "raw",
                "stored_sha256": hashlib.sha256(t.stored).hexdigest(),
                "raw_sha256": hashlib.sha256(t.raw).hexdigest(),
                **({} if t.f32 is None else {"f32_hex": t.f32.hex()}),
            } for t in self.tensors],
        }


def plain():
    inf, nan = float("inf"), float("nan")
    return [
        numbers("f32", "F32", [2, 3], [0.0, -0.0, 1.5, -3.4028234663852886e38, 1e-45, inf]),
        numbers("f16", "F16", [3, 2], [0.0, -1.0, 65504.0, 6e-8, -inf, nan]),
        numbers("bf16", "BF16", [4], [1.0, -2.5, inf, 1.1754943508222875e-38]),
        numbers("i8", "I8", [5], [-128, -1, 0, 1, 127]),
        numbers("i16", "I16", [3], [-32768, 0, 32767]),
        numbers("i32", "I32", [3], [-2**31, 16777217, 2**31 - 1]),
        numbers("i64", "I64", [1, 3], [-2**63, 0, 2**63 - 1]),
        numbers("u8", "U8", [2, 2], [0, 1, 128, 255]),
    ]


def quantized():
    return [blocks(d.lower(), d, [2, 64], i) for i, d in enumerate(["Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1"])]


def extension():
    return [
        numbers("f64", "F64", [2], [1.0 / 3, -1e300]),
        numbers("u16", "U16", [2], [0, 65535]),
        numbers("u32", "U32", [2], [16777217, 2**32 - 1]),
        numbers("u64", "U64", [2], [2**53 + 1, 2**64 - 1]),
        numbers("bool", "BOOL", [2], [0, 1]),
        Tensor("f8_e4m3", "F8_E4M3", [4], b"\x00\x38\x7e\xff"),
        Tensor("f8_e5m2", "F8_E5M2", [4], b"\x00\x3c\x7b\xfc"),
        blocks("q8_1", "Q8_1", [32], 1), blocks("iq4_nl", "IQ4_NL", [2, 32], 2), blocks("mxfp4", "MXFP4", [1, 32], 3),
        blocks("q2_k", "Q2_K", [256], 4), blocks("q3_k", "Q3_K", [256], 5), blocks("q4_k", "Q4_K", [256], 6),
        blocks("q5_k", "Q5_K", [256], 7), blocks("q6_k", "Q6_K", [256], 8),
    ]


def shapes():
    return [
        numbers("eight", "I8", [1, 2, 1, 2, 1, 1, 1, 1], [1, 2, 3, 4]),
        numbers("empty", "F32", [0, 3], []),
        numbers("größe/重み", "F32", [1], [42.0]),
        numbers("", "U8", [1], [7]),
        numbers("last and empty", "F16", [4, 0], []),
    ]


def scaled():
    return [numbers("w", "I8", [2, 2], [-3, 0, 5, 127]), numbers("v", "I16", [2], [-300, 300]),
            numbers("ids", "I64", [2], [1, 2])]


def compressed():
    text = pattern(70000, 9)
    return [
        numbers("raw", "F32", [2], [1.0, 2.0]),
        Tensor("literals", "U8", [70000], text, lz4_literals(text)),
        Tensor("zeros", "F32", [128, 64], bytes(32768), lz4_zeros(32768)),
        Tensor("short", "I8", [3], b"\x01\x02\x03", lz4_literals(b"\x01\x02\x03")),
    ]


SCALES = {**REQUIRED, "quantization": {"method": "I8", "scales": {"w": 0.1, "v": 2.5e-3},
                                       "zero_points": {"w": -3}}}

MODELS = {
    # as a plain writer writes them
    "tiny": Model(plain() + quantized(), flags=ALIGNED_64 | QUANTIZED),
    "shapes": Model(shapes()),
    "aligned32": Model(plain(), flags=ALIGNED_32, align=32),
    "extension": Model(extension(), flags=ALIGNED_64 | QUANTIZED, minor=1),
    "scaled": Model(scaled(), metadata=SCALES),
    "notensors": Model([], flags=ALIGNED_64 | SHARDED | STREAMING),
    "compressed": Model(compressed(), flags=ALIGNED_64 | COMPRESSED),
    # odd, but right
    "behind": Model(plain(), order="behind"),
    "odd": Model(plain(), minor=7, reserved=0xDEADBEEF, entry_flags=0xFFFFFFFF,
                 flags=0xABCDE000 | ALIGNED_64 | ALIGNED_32 | SIGNED | SHARDED),
    "nometadata": Model(plain(), metadata=None),
    "unaligned": Model(plain(), flags=0, align=1),
    "flagliar": Model(plain(), flags=ALIGNED_64 | COMPRESSED, metadata={**REQUIRED, "architecture": "whisper"}),
    "gap": Model(plain(), shift={"i8": 256}, trailing=bytes(100)),
    # wrong, but readable: verify fails them
    "misaligned": Model(plain(), shift={"f16": 2, "i8": 4}),
    "badcrc": Model(plain(), crc_xor=0x00010000),
    "badmagicend": Model(plain(), magic_end=b"APR2"),
    "badfilesize": Model(plain(), size_add=1),
}

for name, model in MODELS.items():
    data, crc = model.encode()
    with open(name + ".apr", "wb") as f:
        f.write(data)
    with open(name + ".json", "w", encoding="utf-8") as f:
        json.dump(model.expect(data, crc), f, indent=1, ensure_ascii=False)
        f.write("\n")
    print(f"{name}.apr: {len(data)} bytes, {len(model.tensors)} tensors")
