#!/usr/bin/env python3
"""Writes golden vectors with the Python package gguf: *.gold of this folder, *.quant of quantize/testdata.

    pip install gguf==0.19.0 numpy==2.4.6
    python gen_gguf.py

Each file <TYPE>.gold holds u32 n, n bytes of blocks, then the float32 values that
gguf.quants.dequantize gives for them. Each file <TYPE>.quant holds u32 n, n float32s, then
the bytes that gguf.quants.quantize (numpy's astype for F16) gives. Little-endian.
"""
import pathlib
import struct

import numpy as np
from gguf import GGMLQuantizationType as T, GGML_QUANT_SIZES, quants

HERE = pathlib.Path(__file__).parent
HALVES = {T.Q4_0: [0], T.Q4_1: [0, 2], T.Q5_0: [0], T.Q5_1: [0, 2], T.Q8_0: [0], T.Q2_K: [80, 82], T.Q3_K: [108],
          T.Q4_K: [0, 2], T.Q5_K: [0, 2], T.Q6_K: [208], T.IQ4_NL: [0], T.IQ4_XS: [0], T.MXFP4: [], T.BF16: [], T.F16: [],
          T.IQ2_XXS: [0], T.IQ2_XS: [0], T.IQ2_S: [0], T.IQ3_XXS: [0], T.IQ3_S: [0], T.IQ1_S: [0], T.IQ1_M: [48],
          T.TQ1_0: [52], T.TQ2_0: [64], T.NVFP4: []}
QUANTIZED = [T.F16, T.BF16, T.Q4_0, T.Q4_1, T.Q5_0, T.Q5_1, T.Q8_0]
EDGES = [0x0000, 0x8000, 0x0001, 0x83ff, 0x0400, 0x3c00, 0xbc00, 0x2e66, 0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7e00]
PLAIN = [0x2e66, 0x1c21, 0xa833, 0x3c00, 0x9155]

rng = np.random.default_rng(20261121)


def blocks(t):
    """Random blocks under plain scales, then one block under each edge scale."""
    size = GGML_QUANT_SIZES[t][1]
    if t == T.NVFP4:
        b = rng.integers(0, 256, size=(64, size), dtype=np.uint8)
        b[:, :4] = np.arange(256).reshape(64, 4)  # every scale
        return b
    if not HALVES[t]:
        return rng.integers(0, 256, size=(512 // size * 2 + 8, size), dtype=np.uint8)
    b = rng.integers(0, 256, size=(8 + len(EDGES), size), dtype=np.uint8)
    for row in range(len(b)):
        for i, at in enumerate(HALVES[t]):
            h = PLAIN[(row + i) % len(PLAIN)] if row < 8 else EDGES[(row - 8 + 5 * i) % len(EDGES)]
            place(t, b[row, at:], h)
    return b


def place(t, b, h):
    """IQ1_M has its scale in the upper nibbles of four words."""
    if t != T.IQ1_M:
        b[:2] = list(struct.pack("<H", h))
        return
    for k in range(4):
        b[2 * k + 1] = b[2 * k + 1] & 15 | (h >> 4 * k & 15) << 4


def golden(t):
    b = blocks(t)
    with np.errstate(all="ignore"):
        y = quants.dequantize(b.reshape(1, -1), t).astype(np.float32)
    write(t.name + ".gold", b.tobytes(), y.tobytes())


def weights():
    """Finite rows: plain weights, one sign only, constants, zeros, outliers, wide ranges, ties."""
    rows = [rng.normal(0, 0.02, 32) for _ in range(24)]
    rows += [np.abs(rng.normal(0, 1, 32)), -np.abs(rng.normal(0, 1, 32)), np.zeros(32), np.full(32, 0.3), np.full(32, -7.0)]
    rows += [rng.normal(0, 1, 32) * 10.0 ** rng.integers(-6, 5, 32) for _ in range(8)]
    rows += [np.arange(-16, 16) / 2, np.arange(32) / 4, (np.arange(32) - 20) * 0.1, rng.normal(0, 1e6, 32), rng.normal(0, 1e-7, 32)]
    rows += [np.linspace(-1, 1, 32), np.linspace(1, -1, 32)]  # two extremes of equal magnitude: the first counts
    return np.array(rows, dtype=np.float32)


def golden_quant(t):
    x = weights()
    with np.errstate(all="ignore"):
        q = quants.quantize(x, t)
    write(t.name + ".quant", x.tobytes(), q.tobytes())


def write(name, head, tail):
    folder = HERE.parents[1] / "quantize/testdata" if name.endswith(".quant") else HERE
    (folder / name).write_bytes(struct.pack("<I", len(head)) + head + tail)


# Random numbers are drawn in order, so what comes later stands behind.
first = list(HALVES).index(T.IQ2_XXS)
for t in list(HALVES)[:first]:
    golden(t)
for t in QUANTIZED:
    golden_quant(t)
for t in list(HALVES)[first:]:
    golden(t)
