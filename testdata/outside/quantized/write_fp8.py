"""Writes FP8 checkpoints: blocks as transformers writes them, ragged blocks as DeepSeek-V3 has them, DeepSeek-V4's names, Mistral's.

    pip install numpy==2.4.6 safetensors==0.8.0 torch==2.15.0 transformers==5.23.0

Fp8Quantize of transformers (integrations/finegrained_fp8.py) writes blocks that divide the weight, Fp8Dequantize reads them in float32. It
refuses ragged edges. These are after DeepSeek-V3's own inference/kernel.py (weight_dequant: the block is the
configuration's, the edge is masked) in NumPy. Files whose names no library here writes are put together from the same tensors.
"""

import types

import numpy as np
import torch
from common import DOWN, DOWN_3D, EMBED, EMPTY, GATE, GATE_UP, K, NORM, Q, Q_BIAS, UP, original, same, store
from transformers.integrations.finegrained_fp8 import Fp8Dequantize, Fp8Quantize


def quantizer(**config):
    return types.SimpleNamespace(quantization_config=types.SimpleNamespace(**config))


def transformers_blocks(names, block, scale_fmt=None):
    q = quantizer(weight_block_size=block, scale_fmt=scale_fmt)
    parts, expected = {}, {}
    for name in names:
        out = Fp8Quantize(q)._quantize_one(name, torch.from_numpy(original(name)))
        assert len(out) == 2, (name, "is not divisible")
        parts.update(out)
        codes, scale = out.values()
        expected[name] = Fp8Dequantize(q)._dequantize_one(codes, scale, torch.float32)
    return parts, expected


def ragged(name, block, dtype):
    """Codes and scales of blocks with short edges, and their product in float32."""
    w = original(name)
    (rows, cols), grid = block, tuple(-(-n // b) for n, b in zip(w.shape, block))
    scale = np.zeros(grid, "f4")
    for i, j in np.ndindex(grid):
        scale[i, j] = np.abs(w[i * rows:(i + 1) * rows, j * cols:(j + 1) * cols]).max() / 448
    scale = torch.from_numpy(scale).to(dtype)
    wide = scale.float().numpy().repeat(rows, 0)[:w.shape[0]].repeat(cols, 1)[:, :w.shape[1]]
    codes = torch.from_numpy(w / wide).clamp(-448, 448).to(torch.float8_e4m3fn)
    return codes, scale, codes.float().numpy() * wide


def config(**more):
    return {"model_type": "deepseek_v3", "torch_dtype": "bfloat16", "quantization_config": {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", **more}}


def others():
    return {NORM: torch.from_numpy(original(NORM)).bfloat16(), Q_BIAS: torch.from_numpy(original(Q_BIAS)).bfloat16()}


# In two shards; the scales are in the other one than their codes. Experts are fused, with the scale beside them.
parts, expected = transformers_blocks([Q, K, DOWN_3D], (16, 32))
store("fp8-block", {**others(), **parts}, config(weight_block_size=[16, 32]), expected, shards=lambda k: 2 if "scale" in k or "norm" in k else 1)

parts, expected = transformers_blocks([K], (16, 32), "ue8m0")
store("fp8-block-ue8m0", {**others(), **parts}, config(weight_block_size=[16, 32], scale_fmt="ue8m0"), expected)

# No block size: the whole tensor has one scale, and an empty tensor has one as well.
parts, expected = transformers_blocks([GATE], None)
empty = torch.from_numpy(original(EMPTY)).to(torch.float8_e4m3fn)
parts |= {EMPTY: empty, EMPTY + "_scale_inv": torch.ones(1, 1), GATE.replace("weight", "activation_scale"): torch.tensor(0.5)}
expected[EMPTY] = original(EMPTY)
store("fp8-tensor", {**others(), **parts}, config(activation_scheme="static"), expected)

tensors, expected = others(), {}
for name, dtype in ((UP, torch.float32), (DOWN, torch.bfloat16)):
    tensors[name], tensors[name + "_scale_inv"], expected[name] = ragged(name, (128, 128), dtype)
tensors[GATE], tensors[GATE + "_scale_inv"], expected[GATE] = ragged(GATE, (128, 128), torch.float32)
store("fp8-ragged", tensors, config(weight_block_size=[128, 128]), expected)

# DeepSeek-V4: scales are called .scale; the experts are E2M1, two in a byte, with a power of two for 32.
name = K
tensors, expected = others(), {}
codes, scale, _ = ragged(name, (16, 32), torch.float32)
powers = torch.exp2(torch.ceil(torch.log2(scale))).to(torch.float8_e8m0fnu)
wide = powers.float().numpy().repeat(16, 0).repeat(32, 1)
codes = torch.from_numpy(original(name) / wide).to(torch.float8_e4m3fn)
tensors[name], tensors[name.replace("weight", "scale")] = codes, powers
expected[name] = Fp8Dequantize(None)._dequantize_one(codes, powers, torch.float32)
lut = np.array(Fp8Dequantize._FP4_E2M1_LUT, "f4")
groups = original(EMBED).reshape(32, 2, 32)
power = torch.exp2(torch.ceil(torch.log2(torch.from_numpy(np.abs(groups).max(-1) / 6)))).to(torch.float8_e8m0fnu)
nearest = np.abs((groups / power.float().numpy()[..., None])[..., None] - lut).argmin(-1).reshape(32, 64).astype("u1")
tensors[EMBED] = torch.from_numpy((nearest[:, 0::2] | nearest[:, 1::2] << 4).view("i1").copy())
tensors[EMBED.replace("weight", "scale")] = power
expected[EMBED] = Fp8Dequantize(None)._dequantize_one(tensors[EMBED], power, torch.float32)
store("fp8-deepseek-v4", tensors, {**config(weight_block_size=[16, 32], scale_fmt="ue8m0"), "model_type": "deepseek_v4", "expert_dtype": "fp4"}, expected)

# Mistral's own files and those of FBGEMM: one scale for a tensor, one for a row.
tensors, expected = others(), {}
for name, ends in ((Q, "qscale_weight"), (K, "weight_scale")):
    w = torch.from_numpy(original(name))
    scale = (w.abs().max() / 448).bfloat16() if name == Q else (w.abs().amax(1, True) / 448)
    tensors[name] = (w / scale.float()).clamp(-448, 448).to(torch.float8_e4m3fn)
    tensors[name.replace("weight", ends)] = scale
    expected[name] = tensors[name].float() * scale.float()
store("fp8-scales", tensors, None, expected)
