"""Writes rounded.safetensors: float32s around every place where rounding to 16 bits decides ("x"), and what numpy and
ml_dtypes make of them ("f16", "bf16"). Every run writes the same bytes.

    pip install safetensors==0.8.0 numpy==2.4.6 ml_dtypes==0.6.0
    python gen_rounded.py
"""

import ml_dtypes
import numpy as np
from safetensors.numpy import save_file

edges = [0x0, 0x1, 0xfff, 0x1000, 0x1001, 0x2fff, 0x3000, 0x7fff, 0x8000, 0x8001, 0x18000, 0x7fefff, 0x7ff000, 0x7fffff]
bits = np.array([sign << 31 | e << 23 | m for sign in (0, 1) for e in range(256) for m in edges], dtype="uint32")
x = bits.view("float32").reshape(512, len(edges))
with np.errstate(over="ignore"):
    save_file({"x": x, "f16": x.astype("float16"), "bf16": x.astype(ml_dtypes.bfloat16)}, "rounded.safetensors")
