#!/usr/bin/env python3
"""Writes the golden vectors of the types that only the newest ggml has, as its C expands them.

    npm pack @node-llama-cpp/linux-x64@3.22.1        # MIT; llama.cpp v0.5.0, compiled
    tar xzf node-llama-cpp-linux-x64-3.22.1.tgz
    pip install numpy==2.4.6
    python gen_llama.py package/bins/linux-x64/libggml-base.so

Each file <TYPE>.ggml holds u32 n, n bytes of blocks, then the float32 values that
dequantize_row_* gives for them. Little-endian.
"""
import ctypes
import pathlib
import struct
import sys

import numpy as np

HERE = pathlib.Path(__file__).parent
SIZES = {"Q1_0": (128, 18), "Q2_0": (64, 18), "NVFP4": (64, 36)}  # elements and bytes of a block
EDGES = [0x0000, 0x8000, 0x0001, 0x83ff, 0x0400, 0x3c00, 0xbc00, 0x2e66, 0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7e00]

ggml = ctypes.CDLL(sys.argv[1])
rng = np.random.default_rng(20261122)


def blocks(name):
    """Random codes under every scale of NVFP4; of the others under plain scales and under edges."""
    b = rng.integers(0, 256, size=(64 if name == "NVFP4" else 4 + len(EDGES), SIZES[name][1]), dtype=np.uint8)
    if name == "NVFP4":
        b[:, :4] = np.arange(256).reshape(64, 4)
        return b
    b[:, :2] = np.array([0x2e66, 0x1c21, 0xa833, 0x9155] + EDGES, "<u2").view(np.uint8).reshape(-1, 2)
    return b


def expand(name, b):
    y = np.empty(len(b) * SIZES[name][0], np.float32)
    row = getattr(ggml, "dequantize_row_" + name.lower())
    row(b.ctypes.data_as(ctypes.c_void_p), y.ctypes.data_as(ctypes.c_void_p), ctypes.c_int64(y.size))
    return y


for name in SIZES:
    b = blocks(name)
    (HERE / (name + ".ggml")).write_bytes(struct.pack("<I", b.size) + b.tobytes() + expand(name, b).tobytes())
