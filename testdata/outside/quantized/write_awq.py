"""Writes AWQ checkpoints with AutoAWQ: the layouts gemm and gemv.

    pip install numpy==2.4.6 safetensors==0.8.0 torch==2.15.0 transformers==5.23.0 accelerate
    pip install --no-deps autoawq==0.2.9

AutoAWQ's WQLinear_GEMM and WQLinear_GEMV pack; scales and zero points are those of AwqQuantizer's pseudo_quantize_tensor.
Expected values of gemm are what AutoAWQ's dequantize_gemm computes out of float32 scales; with the stored
float16 scales it rounds each product to float16, which is checked here. AutoAWQ has no code that dequantizes gemv
apart from CUDA kernels: its codes, minus zero points, times scales, in NumPy.
"""

import numpy as np
import torch
from common import DOWN, EMBED, K, NORM, Q, Q_BIAS, module_of, original, same, store

gemm = module_of("awq", "awq.modules.linear.gemm").WQLinear_GEMM
gemv = module_of("awq", "awq.modules.linear.gemv").WQLinear_GEMV
dequantize_gemm = module_of("awq", "awq.utils.packing_utils").dequantize_gemm


def linear(name, bias=None):
    w = torch.from_numpy(original(name))
    m = torch.nn.Linear(w.shape[1], w.shape[0], bias=bias is not None)
    m.weight.data = w.clone()
    if bias:
        m.bias.data = torch.from_numpy(original(bias))
    return m


def quantize(w, group):
    """AwqQuantizer.pseudo_quantize_tensor (awq/quantize/quantizer.py, 0.2.9) with zero points and 4 bits."""
    out = w.shape[0]
    w = w.reshape(-1, group)
    high, low = w.amax(1, True), w.amin(1, True)
    scales = (high - low).clamp(min=1e-5) / 15
    zeros = (-torch.round(low / scales)).clamp(0, 15)
    w = (torch.clamp(torch.round(w / scales) + zeros, 0, 15) - zeros) * scales
    return w.reshape(out, -1), scales.view(out, -1).half(), zeros.view(out, -1)


def config(version, group):
    return {"model_type": "llama", "torch_dtype": "float16", "quantization_config": {
        "quant_method": "awq", "bits": 4, "group_size": group, "zero_point": True, "version": version, "modules_to_not_convert": None}}


def others():
    return {NORM: torch.from_numpy(original(NORM)).half()}


def write_gemm(folder, group, names):
    tensors, expected = others(), {}
    for name in names:
        m = linear(name, Q_BIAS if name == Q else None)
        g = m.in_features if group == -1 else group
        m.weight.data, scales, zeros = quantize(m.weight.data, g)
        packed = gemm.from_linear(m, 4, g, False, scales.t().contiguous(), zeros.t().contiguous())
        for k, v in packed.state_dict().items():
            tensors[name.removesuffix("weight") + k] = v
        exact = dequantize_gemm(packed.qweight, packed.qzeros, packed.scales.float(), 4, g).t()
        same(dequantize_gemm(packed.qweight, packed.qzeros, packed.scales, 4, g).t(), exact.half(), name)
        expected[name] = exact
    store(folder, tensors, config("gemm", group), expected)


def write_gemv(folder, group, names):
    tensors, expected = others(), {}
    for name in names:
        m = linear(name, Q_BIAS if name == Q else None)
        m.weight.data, scales, zeros = quantize(m.weight.data, group)
        packed = gemv.from_linear(m, 4, group, False, scales, zeros)
        for k, v in packed.state_dict().items():
            tensors[name.removesuffix("weight") + k] = v

        def nibbles(t):
            b = np.ascontiguousarray(t.numpy()).view(np.uint8)
            return np.stack([b & 15, b >> 4], -1).reshape(len(b), -1).astype(np.float32)

        groups = m.in_features // group
        s, z = packed.scales.float().numpy()[:, :groups], nibbles(packed.qzeros)[:, :groups]
        expected[name] = (nibbles(packed.qweight) - z.repeat(group, 1)) * s.repeat(group, 1)
    store(folder, tensors, config("gemv", group), expected)


write_gemm("awq-gemm", 32, [Q, K, EMBED])
write_gemm("awq-gemm-column", -1, [DOWN, K])  # one group, in 136 elements
write_gemv("awq-gemv", 32, [Q, K])  # 4 and 3 groups of words for 32
