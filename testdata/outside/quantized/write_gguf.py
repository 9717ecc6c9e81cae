"""Writes a GGUF file with NVFP4 blocks and the scales beside them, with the package gguf.

    pip install numpy==2.4.6 safetensors==0.8.0 gguf==0.19.0

GGUFWriter writes; a tensor's factor is blk.N.X.scale, as llama.cpp's convert_hf_to_gguf.py writes it, one number, or one for each expert.
Expected values are what gguf.quants.dequantize reads out of the blocks, times the factor, in float32.
"""

import gguf
import numpy as np
from common import EMBED, GATE_UP, NORM, Q, folder, original, store_expected

NAMES = {Q: "blk.0.attn_q.weight", EMBED: "blk.0.attn_k.weight", GATE_UP: "blk.1.ffn_up_exps.weight"}
VALUES = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
TYPE = gguf.GGMLQuantizationType.NVFP4


def blocks(w, factor):
    """block_nvfp4 of ggml-common.h: four scales UE4M3, then 64 codes E2M1, the first eight of sixteen in the low nibbles."""
    sixteens = (w / factor).reshape(-1, 4, 16).astype("f4")
    d = gguf.quants.NVFP4.fp32_to_ue4m3(np.abs(sixteens).max(-1) / 6)
    scale = np.where(d == 0, 1, gguf.quants.NVFP4.ue4m3_to_fp32(d) * 2)  # of whole E2M1 values
    codes = np.abs(np.abs(sixteens / scale[..., None])[..., None] - VALUES).argmin(-1).astype("u1") | np.where(sixteens < 0, 8, 0).astype("u1")
    qs = codes[..., :8] | codes[..., 8:] << 4
    return np.concatenate([d, qs.reshape(-1, 32)], 1)


d = folder("gguf-nvfp4")
writer = gguf.GGUFWriter(str(d / "model.gguf"), "llama")
writer.add_block_count(2)
expected = {}
for name in (Q, EMBED):
    w = original(name)
    rows, cols = w.shape
    factor = np.float32(np.abs(w).max() / (6 * 448))
    raw = blocks(w, factor)
    writer.add_tensor(NAMES[name], raw.reshape(rows, -1), raw_dtype=TYPE)
    writer.add_tensor(NAMES[name].replace(".weight", ".scale"), np.array([factor], "f4"))
    writer.add_tensor(NAMES[name].replace(".weight", ".input_scale"), np.array([0.5], "f4"))
    expected[name] = (gguf.quants.dequantize(raw, TYPE).reshape(rows, cols) * factor).astype("f4")
w = original(GATE_UP)
factors = (np.abs(w).max((1, 2)) / (6 * 448)).astype("f4")
raw = np.stack([blocks(e, f) for e, f in zip(w, factors)])
writer.add_tensor(NAMES[GATE_UP], raw.reshape(3, 32, -1), raw_dtype=TYPE)
writer.add_tensor(NAMES[GATE_UP].replace(".weight", ".scale"), factors)
expected[GATE_UP] = (gguf.quants.dequantize(raw.reshape(-1, 36), TYPE).reshape(w.shape) * factors[:, None, None]).astype("f4")
writer.add_tensor("output_norm.weight", original(NORM))
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
store_expected("gguf-nvfp4", expected, NAMES)
