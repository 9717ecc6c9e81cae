#!/usr/bin/env python3
"""Assembles APR2 files with compressed tensors, field by field, after "APR-FORMAT-002: APR v2
Format Specification" 2.0.0-draft. The LZ4 blocks come from encoders that share no code with
this project: liblz4 (fast and HC), the Rust crate lz4_flex, lz4js. README.md says how to run it.

    gen_lz4.py [--flex PROGRAM] [--js PROGRAM...]

PROGRAM reads elements on standard input and writes blocks on standard output; files of an
encoder that is not given are left as they are.
"""

import argparse
import hashlib
import json
import struct
import subprocess
import zlib

import lz4.block
import numpy as np

COMPRESSED, ALIGNED_64, QUANTIZED = 1, 2, 64
DTYPES = {"F32": 0, "F16": 1, "I8": 3, "U8": 7, "Q8_0": 16}
METADATA = {"apr_version": "2.0.0", "model_type": "test", "architecture": {"n_layer": 1}}
BLOCK = 65536


def noise(n, seed):
    """n bytes that no encoder makes smaller: SHA-256 of a counter."""
    out = b"".join(hashlib.sha256(struct.pack("<II", seed, i)).digest() for i in range(-(-n // 32)))
    return out[:n]


def period(n, p, seed=1):
    """n bytes that repeat after p: matches that overlap what they make."""
    unit = noise(p, seed)
    return (unit * (n // p + 1))[:n]


def q8_0(rows, cols):
    """Blocks of a float16 scale and 32 int8s of few different values, and what they mean."""
    n = rows * cols // 32
    d = np.array([0.25, 0.5, -1.5, 3.0], "<f2")[np.arange(n) // 7 % 4]
    q = (np.arange(n * 32) * 7 // 3 % 5 - 2).astype("i1").reshape(n, 32)
    raw = b"".join(d[i].tobytes() + q[i].tobytes() for i in range(n))
    return raw, (q.astype("<f4") * d.astype("<f4")[:, None]).tobytes()


def plain(np_type, values):
    a = np.asarray(values).astype(np_type)
    return a.tobytes(), a.astype("<f4").tobytes()


def octets(data):
    return data, np.frombuffer(data, "u1").astype("<f4").tobytes()


def tensors():
    """name, dtype, shape, elements, values as float32, whether it is compressed"""
    text = b"".join(b'{"layer":%d,"name":"h.%d.attn","bias":null}\n' % (i, i % 12) for i in range(1700))
    q, q_f32 = q8_0(40, 2048)
    mix = noise(700, 5) + bytes(66000) + noise(800, 6) + period(64000, 700, 7)
    return [
        ("raw", "F32", [3], *plain("<f4", [1.5, -2, 0]), False),
        ("zeros", "F32", [128, 128], *plain("<f4", np.zeros(16384)), True),  # 64 KiB
        ("zeros and one", "U8", [65537], *octets(bytes(65536) + b"\x07"), True),
        ("one", "U8", [1], *octets(b"\x2a"), True),
        ("none", "F32", [0, 4], b"", b"", False),
        ("noise", "U8", [2000], *octets(noise(2000, 2)), True),
        ("distance 1", "U8", [70000], *octets(b"\x80" * 70000), True),
        ("distance 2", "U8", [2, 35000], *octets(period(70000, 2)), True),
        ("distance 3", "U8", [131072], *octets(period(131072, 3)), True),  # two blocks
        ("distance 7", "U8", [300], *octets(period(300, 7)), True),
        ("distance 15", "U8", [1000], *octets(period(1000, 15)), True),
        ("distance 17", "U8", [66000], *octets(period(66000, 17)), True),
        ("distance 1000", "U8", [66, 1000], *octets(period(66000, 1000)), True),
        ("mixed", "U8", [131500], *octets(mix), True),
        ("text", "I8", [len(text)], *plain("i1", np.frombuffer(text, "i1")), True),
        ("rows", "F16", [300, 129], *plain("<f2", np.arange(38700) // 9 % 64 / 4 - 3), True),
        ("blocks", "Q8_0", [40, 2048], q, q_f32, True),  # 34 bytes: across the blocks of LZ4
    ]


def liblz4(**how):
    def blocks(data):
        out = b""
        for at in range(0, len(data), BLOCK):
            b = lz4.block.compress(data[at:at + BLOCK], store_size=False, **how)
            out += struct.pack("<I", len(b)) + b
        return out
    return blocks


def program(command):
    return lambda data: subprocess.run(command, input=data, stdout=subprocess.PIPE, check=True).stdout


def up(n):
    return -(-n // 64) * 64


def write(name, encode):
    meta = json.dumps(METADATA, separators=(",", ":")).encode()
    list_ = [(*t, encode(t[3]) if t[5] else t[3]) for t in tensors()]
    index_at = 32 + len(meta)
    index_size = 8 + sum(32 + len(t[0].encode()) + 8 * len(t[2]) for t in list_)
    data_at = at = up(index_at + index_size)
    index, data, described = struct.pack("<II", len(list_), 0), b"", []
    for tensor, dtype, shape, raw, f32, compressed, stored in list_:
        at = up(at)
        data = data.ljust(at - data_at, b"\0") + stored
        index += struct.pack("<H", len(tensor)) + tensor.encode() + struct.pack("<BB", DTYPES[dtype], len(shape))
        index += struct.pack("<%dQ" % len(shape), *shape)
        index += struct.pack("<QQQI", at - data_at, len(stored), len(raw) if compressed else 0, compressed)
        described.append({
            "name": tensor, "dtype": dtype, "shape": shape, "offset": at, "stored": len(stored), "raw": len(raw),
            "encoding": "lz4" if compressed else "raw", "zero_copy": not compressed,
            "stored_sha256": hashlib.sha256(stored).hexdigest(), "raw_sha256": hashlib.sha256(raw).hexdigest(),
            "f32_sha256": hashlib.sha256(f32).hexdigest(),
        })
        at += len(stored)
    assert len(index) == index_size
    head = b"APR2" + struct.pack("<HHIIIIII", 2, 0, COMPRESSED | ALIGNED_64 | QUANTIZED, 32, len(meta), index_at, index_size, data_at)
    out = (head + meta + index).ljust(data_at, b"\0") + data
    out += struct.pack("<I", zlib.crc32(out)) + b"2RPA" + struct.pack("<Q", len(out) + 16)
    with open(name + ".apr", "wb") as f:
        f.write(out)
    with open(name + ".json", "w") as f:
        json.dump({"file": name + ".apr", "format": "apr2", "version": "2.0", "size": len(out), "metadata": METADATA,
                   "tensors": described, "verify": "ok", "findings": []}, f, indent=1)
        f.write("\n")
    print(f"{name}.apr: {len(out)} bytes, {sum(len(t[3]) for t in list_)} of elements")


args = argparse.ArgumentParser()
args.add_argument("--flex", nargs="+")
args.add_argument("--js", nargs="+")
args = args.parse_args()

write("liblz4-fast", liblz4(mode="default"))
write("liblz4-fast8", liblz4(mode="fast", acceleration=8))
write("liblz4-hc3", liblz4(mode="high_compression", compression=3))
write("liblz4-hc12", liblz4(mode="high_compression", compression=12))
if args.flex:
    write("lz4_flex", program(args.flex))
if args.js:
    write("lz4js", program(args.js))
