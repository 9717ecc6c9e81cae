#!/usr/bin/env python3
"""Writes the golden vectors of this folder that need NumPy and ml_dtypes, but not gguf.

    pip install numpy==2.4.6 ml_dtypes==0.6.0
    python gen_numpy.py

<TYPE>.gold is as gen_gguf.py has it: u32 n, n bytes of blocks, then the float32 values. For
floats of 8 bits or fewer these are all codes, which ml_dtypes converts; for Q8_1 they are random blocks.

<TYPE>.scaled holds u32 n, n bytes of input, then the float32 values scale * (q - zero). The
input is records of a float32 scale, an int64 zero point and 256 integers q. Little-endian.
"""
import pathlib
import struct

import ml_dtypes
import numpy as np

HERE = pathlib.Path(__file__).parent
HALVES = np.array([0x2e66, 0x1c21, 0xa833, 0x3c00, 0x9155, 0x0000, 0x8000, 0x0001, 0x83ff, 0x0400, 0xbc00, 0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7e00],
                  dtype="<u2")
SCALES = [0.1, -0.0025, 1.0, 3e-39, 2.5e38, 0.0]
ZEROS = [0, -3, 127, 1 << 23, (1 << 23) + 1, -(1 << 40) - 12345]

rng = np.random.default_rng(20261121)


def ofp8(name, dtype):
    codes = np.arange(256, dtype=np.uint8)
    write(name + ".gold", codes.tobytes(), codes.view(dtype).astype("<f4").tobytes())


def small(name, dtype, bits):
    """Every code in every place of a block. ml_dtypes has a code in each byte; here they lie without gaps, the first in the lowest bits."""
    codes = np.concatenate([np.roll(np.arange(1 << bits, dtype=np.uint8), k) for k in range(4)])
    packed = np.packbits((codes[:, None] >> np.arange(bits, dtype=np.uint8)) & 1, bitorder="little")
    write(name + ".gold", packed.tobytes(), codes.view(dtype).astype("<f4").tobytes())


def q8_1():
    """ggml's block_q8_1: half d, half s (d times the sum of the codes), 32 int8 codes."""
    block = np.dtype([("d", "<f2"), ("s", "<f2"), ("qs", "i1", 32)])
    b = np.zeros(3 * len(HALVES), dtype=block)
    b["d"] = np.tile(HALVES, 3).view("<f2")
    b["s"] = rng.integers(0, 1 << 16, len(b), dtype=np.uint16).astype("<u2").view("<f2")
    b["qs"] = rng.integers(-128, 128, (len(b), 32), dtype=np.int8)
    with np.errstate(all="ignore"):
        y = b["d"].astype(np.float32)[:, None] * b["qs"].astype(np.float32)
    write("Q8_1.gold", b.tobytes(), y.astype("<f4").tobytes())


def scaled(bits):
    """All 256 codes of int8; wider integers at random, of every magnitude (but int64's greatest: no difference may overflow)."""
    src, out = b"", b""
    for i in range(12):
        scale, zero = SCALES[i % 6], ZEROS[(i + i // 6) % 6]
        if bits == 8:
            q = np.arange(-128, 128, dtype=np.int64)
        else:
            q = rng.integers(-1 << 62, 1 << 62, 256, dtype=np.int64) >> (max(0, 63 - bits) + rng.integers(0, bits - 1, 256))
        with np.errstate(all="ignore"):
            y = (np.float64(np.float32(scale)) * (q - np.int64(zero)).astype(np.float64)).astype("<f4")
        src += struct.pack("<fq", scale, zero) + q.astype(f"<i{bits // 8}").tobytes()
        out += y.tobytes()
    write(f"I{bits}.scaled", src, out)


def write(name, head, tail):
    (HERE / name).write_bytes(struct.pack("<I", len(head)) + head + tail)


ofp8("F8_E4M3", ml_dtypes.float8_e4m3fn)
ofp8("F8_E5M2", ml_dtypes.float8_e5m2)
ofp8("F8_E8M0", ml_dtypes.float8_e8m0fnu)
ofp8("F8_E4M3FNUZ", ml_dtypes.float8_e4m3fnuz)
ofp8("F8_E5M2FNUZ", ml_dtypes.float8_e5m2fnuz)
small("F6_E2M3", ml_dtypes.float6_e2m3fn, 6)
small("F6_E3M2", ml_dtypes.float6_e3m2fn, 6)
small("F4", ml_dtypes.float4_e2m1fn, 4)
q8_1()
for bits in (8, 16, 32, 64):
    scaled(bits)
