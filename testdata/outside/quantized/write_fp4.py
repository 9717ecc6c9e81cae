"""Writes MXFP4 as gpt-oss has it, and NVFP4 and FP8 as ModelOpt exports them, for TensorRT-LLM too, with ModelOpt's tensors.

    pip install numpy==2.4.6 safetensors==0.8.0 torch==2.15.0 transformers==5.23.0 pulp scipy rich omegaconf
    pip install --no-deps nvidia-modelopt==0.47.0

MXFP4QTensor, NVFP4QTensor and FP8QTensor quantize; names and shapes are those of the exported checkpoints. Expected values are what
transformers' convert_moe_packed_tensors (integrations/mxfp4.py) computes in float32, and ModelOpt's dequantize.
"""

import torch
from common import DOWN, DOWN_3D, EMBED, GATE, GATE_UP, K, NORM, Q, UP, original, same, store
from modelopt.torch.export.quant_utils import to_quantized_weight
from modelopt.torch.quantization.qtensor.fp8_tensor import FP8QTensor
from modelopt.torch.quantization.qtensor.mxfp4_tensor import MXFP4QTensor
from modelopt.torch.quantization.qtensor.nvfp4_tensor import NVFP4QTensor
from transformers.integrations.mxfp4 import convert_moe_packed_tensors


def others():
    return {NORM: torch.from_numpy(original(NORM)).bfloat16()}


def gpt_oss():
    tensors, expected = others(), {}
    for name in (GATE_UP,):
        w = torch.from_numpy(original(name))
        q, scales = MXFP4QTensor.quantize(w, 32)
        experts, rows, cols = w.shape
        blocks = q._quantized_data.reshape(experts, rows, cols // 32, 16)
        scales = scales.reshape(experts, rows, cols // 32)
        tensors[name + "_blocks"], tensors[name + "_scales"] = blocks, scales
        tensors[name + "_bias"] = torch.zeros(experts, rows, dtype=torch.bfloat16)
        expected[name] = convert_moe_packed_tensors(blocks, scales, dtype=torch.float32).transpose(1, 2)
        same(convert_moe_packed_tensors(blocks, scales).transpose(1, 2), expected[name].bfloat16(), name)
        same(q.dequantize(torch.float32, scale=scales, block_sizes={-1: 32}), expected[name], name)
    store("gpt-oss", tensors, {"model_type": "gpt_oss", "quantization_config": {
        "quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "model.embed_tokens", "lm_head"]}}, expected)


def nvfp4():
    tensors, expected = others(), {}
    for name in (K,):
        q, scale, scale_2 = NVFP4QTensor.quantize(torch.from_numpy(original(name)), 16)
        tensors[name], tensors[name + "_scale"], tensors[name + "_scale_2"] = q._quantized_data, scale, scale_2
        tensors[name.replace("weight", "input_scale")] = torch.tensor(0.25)
        expected[name] = q.dequantize(torch.float32, scale=scale, double_scale=scale_2, block_sizes={-1: 16})
    of = {"quant_algo": "NVFP4", "kv_cache_quant_algo": None, "group_size": 16, "exclude_modules": ["lm_head"]}
    hf = {"producer": {"name": "modelopt", "version": "0.47.0"}, "quantization": of}
    store("modelopt-nvfp4", tensors, {"model_type": "llama", "torch_dtype": "bfloat16"}, expected, configs={"hf_quant_config.json": hf})


def fp8():
    """One scale for a tensor; for rows; FP8_PB_WO, whose scale has ones between. They are mixed, as a table says."""
    tensors, expected, layers = others(), {}, {}
    for name, algo, blocks, axis in ((Q, "FP8", None, None), (K, "FP8_PER_CHANNEL_PER_TOKEN", None, 0), (UP, "FP8_PB_WO", {-1: 128, -2: 128}, None)):
        w = torch.from_numpy(original(name))
        q, scale = FP8QTensor.quantize(w, axis=axis, block_sizes=blocks)
        expected[name] = q.dequantize(torch.float32, scale=scale, block_sizes=blocks)
        stored = scale.reshape((scale.shape[0], 1, scale.shape[1], 1) if blocks else () if axis is None else (-1,))
        tensors[name], tensors[name + "_scale"] = q._quantized_data, stored
        layers[name.removesuffix(".weight")] = {"quant_algo": algo}
    hf = {"producer": {"name": "modelopt", "version": "0.47.0"}, "quantization": {"quant_algo": "MIXED_PRECISION", "quantized_layers": layers}}
    store("modelopt-fp8", tensors, {"model_type": "llama", "torch_dtype": "bfloat16"}, expected, configs={"hf_quant_config.json": hf})


def tensorrt():
    """FP8 with the names of TensorRT-LLM's checkpoints (LinearConfig in modelopt/torch/export/model_config.py): the factor divides
    before the cast, so codes times factor are the weight."""
    tensors, expected = others(), {}
    w = torch.from_numpy(original(Q))
    factor = (w.abs().max() / 448).reshape(1)
    tensors[Q] = to_quantized_weight(w, factor, "fp8")
    tensors[Q.replace("weight", "weights_scaling_factor")] = factor
    tensors[Q.replace("weight", "activation_scaling_factor")] = torch.tensor([0.5])
    expected[Q] = tensors[Q].float() * factor
    store("trtllm-fp8", tensors, {"architecture": "LlamaForCausalLM", "dtype": "bfloat16", "quantization": {"quant_algo": "FP8"}}, expected)


gpt_oss()
nvfp4()
fp8()
tensorrt()
