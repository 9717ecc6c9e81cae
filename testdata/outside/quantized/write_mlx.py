"""Writes MLX checkpoints with MLX itself: affine with all widths, and the modes mxfp4, mxfp8 and nvfp4.

    pip install numpy==2.4.6 safetensors==0.8.0 ml_dtypes==0.6.0 "mlx[cpu]==0.32.4"
    pip install --no-deps mlx-lm==0.32.2

mlx.nn.quantize quantizes, mx.save_safetensors writes, and the configuration has the keys that mlx-lm's save_config writes.
Expected values are what mx.dequantize computes out of float32 scales and biases. Stored with bfloat16 it
rounds the product and the sum to bfloat16. Both are checked here:
neither fuses the two.

Experts with a scale of scales are what mlx-lm's SwitchLinear.to_quantized makes (models/switch_layers.py). mx.dequantize gives the values of each
expert: E2M1 · (E4M3 · (global_scale / 2688)), each product rounded to float32, which is checked.
"""

import ml_dtypes
import mlx.core as mx
import mlx.nn as nn
import numpy as np
from common import DOWN_3D, EMBED, GATE_UP, K, NORM, Q, UP, folder, module_of, original, same, store_expected, write_json


def write(name, weights, default, dtype):
    """weights maps names to the parameters of their quantization, None for those that stay."""
    tensors, expected, per_path = {NORM: mx.array(original(NORM)).astype(dtype)}, {}, {}
    for w, params in weights.items():
        path = w.removesuffix(".weight")
        a = mx.array(original(w)).astype(dtype)
        if params is None:
            per_path[path] = False
            tensors[w] = a
            continue
        module = nn.Embedding(*a.shape) if w == EMBED else nn.Linear(a.shape[1], a.shape[0], bias=False)
        module.weight = a
        module = module.to_quantized(**params)
        for k, v in module.parameters().items():
            tensors[f"{path}.{k}"] = v
        if params != default:
            per_path[path] = params
        mode = params.get("mode", "affine")
        kw = dict(group_size=params["group_size"], bits=params["bits"], mode=mode)
        if mode == "affine":
            values = mx.dequantize(module.weight, module.scales.astype(mx.float32), module.biases.astype(mx.float32), **kw)
            half = mx.dequantize(module.weight, module.scales, module.biases, **kw).astype(mx.float32)
            product = mx.dequantize(module.weight, module.scales.astype(mx.float32), mx.zeros(module.biases.shape), **kw)
            size = params["group_size"]
            twice = product.astype(dtype) + mx.repeat(module.biases, size, 1)
            same(np.array(half), np.array(twice.astype(mx.float32)), w)
            one = np.array(product) + np.array(mx.repeat(module.biases, size, 1).astype(mx.float32))
            same(np.array(values), one, w)
        else:
            values = mx.dequantize(module.weight, module.scales, dtype=mx.float32, **kw)
            same(np.array(mx.dequantize(module.weight, module.scales, dtype=mx.bfloat16, **kw).astype(mx.float32)),
                 np.array(values.astype(mx.bfloat16).astype(mx.float32)), w)
        expected[w] = np.array(values)
    mx.save_safetensors(str(folder(name) / "model.safetensors"), tensors, {"format": "mlx"})
    quantization = {**default, **per_path}
    write_json(folder(name) / "config.json", {"model_type": "llama", "quantization": quantization, "quantization_config": quantization})
    store_expected(name, expected)


def affine(bits, size):
    return {"group_size": size, "bits": bits, "mode": "affine"}


write("mlx-4bit", {EMBED: affine(4, 64), Q: affine(4, 64), UP: None}, affine(4, 64), mx.bfloat16)
write("mlx-mixed", {EMBED: affine(8, 64), Q: affine(3, 128), K: affine(5, 32)}, affine(3, 128), mx.float16)
write("mlx-2-6", {EMBED: affine(6, 32), K: affine(2, 32)}, affine(2, 32), mx.float32)
write("mlx-fp", {
    Q: {"group_size": 32, "bits": 4, "mode": "mxfp4"}, K: {"group_size": 32, "bits": 8, "mode": "mxfp8"},
    EMBED: {"group_size": 16, "bits": 4, "mode": "nvfp4"}}, {"group_size": 32, "bits": 4, "mode": "mxfp4"}, mx.bfloat16)


def experts(name, weights):
    """weights maps originals to names of experts, and whether each has a scale of scales."""
    SwitchLinear = module_of("mlx_lm", "mlx_lm.models.switch_layers").SwitchLinear
    tensors, expected, per_path = {NORM: mx.array(original(NORM)).astype(mx.bfloat16)}, {}, {}
    for w, (path, scaled) in weights.items():
        a = mx.array(original(w)).astype(mx.bfloat16)
        linear = SwitchLinear(a.shape[2], a.shape[1], a.shape[0], bias=False)
        linear.weight = a
        q = linear.to_quantized(group_size=16, bits=4, mode="nvfp4", global_scale=scaled)
        tensors |= {f"{path}.{k}": v for k, v in q.parameters().items() if v is not None}
        if scaled:
            per_path[path] = {"group_size": 16, "bits": 4, "mode": "nvfp4", "global_scale": True}
        kw = dict(group_size=16, bits=4, mode="nvfp4", dtype=mx.float32)
        expected[w] = np.stack([np.array(mx.dequantize(q.weight[e], q.scales[e], **kw, **({"global_scale": q.global_scale[e]} if scaled else {})))
                                for e in range(a.shape[0])])
        if scaled:
            scales = np.array(q.scales).view(ml_dtypes.float8_e4m3fn).astype("<f4") * (np.array(q.global_scale) / np.float32(2688)).reshape(-1, 1, 1)
            b = np.array(q.weight).view(np.uint8)
            codes = np.stack([b & 15, b >> 4], -1).reshape(a.shape)
            same(expected[w], E2M1[codes] * scales.repeat(16, 2), w)
    default = {"group_size": 16, "bits": 4, "mode": "nvfp4"}
    mx.save_safetensors(str(folder(name) / "model.safetensors"), tensors, {"format": "mlx"})
    write_json(folder(name) / "config.json", {"model_type": "qwen3_moe", "quantization": {**default, **per_path}, "quantization_config": {**default, **per_path}})
    store_expected(name, expected, {w: path + ".weight" for w, (path, _) in weights.items()})


E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], "<f4")
experts("mlx-nvfp4-experts", {GATE_UP: ("model.layers.1.mlp.switch_mlp.up_proj", True), DOWN_3D: ("model.layers.1.mlp.switch_mlp.down_proj", True)})
