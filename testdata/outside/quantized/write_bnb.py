"""Writes bitsandbytes checkpoints with the package itself: NF4 and FP4, nested and not, and int8.

    pip install numpy==2.4.6 safetensors==0.8.0 torch==2.15.0 bitsandbytes==0.50.2

Params4bit and Int8Params quantize on the CPU; QuantState.as_dict(packed=True) names the parts, as transformers' save_pretrained
does. Expected values are what the package's portable code (backends/default/ops.py) computes in float32, and
int8_vectorwise_dequant. For the stored float16 or bfloat16 it rounds once more, which is checked here.

dequantize_4bit takes a kernel for the CPU, which must give the same. Where the CPU has AVX-512 that kernel of 0.50.2 begins a
block with every row whose length is a multiple of 16, though the quantizer's blocks run across rows: such rows are not held against it.
"""

import os

os.environ["TORCHDYNAMO_DISABLE"] = "1"  # run, not compiled

import bitsandbytes.functional as F
import torch
from bitsandbytes.backends.default.ops import _dequantize_4bit_compute
from bitsandbytes.backends.utils import _get_4bit_code
from common import DOWN, EMBED, GATE, K, NORM, Q, UP, V, original, same, store


def dequantize(codes, state, type, dtype):
    absmax = F.dequantize_blockwise(state.absmax, state.state2) + state.offset if state.nested else state.absmax
    value = _dequantize_4bit_compute(codes.reshape(-1), absmax, _get_4bit_code(type, codes.device), state.blocksize, state.shape, dtype)
    if state.shape[-1] % 16 or state.shape[-1] % state.blocksize == 0:
        state.dtype = dtype
        same(F.dequantize_4bit(codes, state), value)
    return value


def four(name, type, blocksize, nested, dtype, weights):
    tensors, expected = {NORM: torch.from_numpy(original(NORM)).to(dtype)}, {}
    for w in weights:
        codes, state = F.quantize_4bit(torch.from_numpy(original(w)).to(dtype), blocksize=blocksize, compress_statistics=nested, quant_type=type)
        tensors[w] = codes
        for k, v in state.as_dict(packed=True).items():
            tensors[f"{w}.{k}"] = v
        expected[w] = dequantize(codes, state, type, torch.float32)
        same(dequantize(codes, state, type, dtype), expected[w].to(dtype), name, w)
    config = {"model_type": "llama", "torch_dtype": str(dtype).removeprefix("torch."), "quantization_config": {
        "quant_method": "bitsandbytes", "load_in_4bit": True, "load_in_8bit": False, "bnb_4bit_quant_type": type,
        "bnb_4bit_use_double_quant": nested, "bnb_4bit_compute_dtype": "bfloat16", "bnb_4bit_quant_storage": "uint8"}}
    store(name, tensors, config, expected)


def int8(name, weights):
    tensors, expected = {NORM: torch.from_numpy(original(NORM)).half()}, {}
    for w in weights:
        codes, rows, _ = F.int8_vectorwise_quant(torch.from_numpy(original(w)).half())
        tensors[w] = codes
        tensors[w.removesuffix("weight") + "SCB"] = rows
        tensors[w.removesuffix("weight") + "weight_format"] = torch.tensor(0, dtype=torch.uint8)  # "row"
        expected[w] = F.int8_vectorwise_dequant(codes, rows)
    store(name, tensors, {"model_type": "llama", "torch_dtype": "float16", "quantization_config": {
        "quant_method": "bitsandbytes", "load_in_4bit": False, "load_in_8bit": True, "llm_int8_threshold": 6.0}}, expected)


four("bnb-nf4", "nf4", 64, False, torch.bfloat16, [Q, GATE, DOWN])  # 7 × 33: an odd number, blocks run across rows
four("bnb-nf4-nested", "nf4", 64, True, torch.bfloat16, [Q, UP])
four("bnb-nf4-nested-long", "nf4", 64, True, torch.bfloat16, [V])  # 265 blocks, whose scales have two scales of their own
four("bnb-fp4", "fp4", 128, False, torch.float16, [K, GATE])
four("bnb-fp4-nested", "fp4", 64, True, torch.float16, [EMBED])
int8("bnb-int8", [K, GATE, UP])
