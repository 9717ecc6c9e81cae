"""Writes GPTQ checkpoints with GPTQModel and with AutoGPTQ: zero points of v1 and v2, 2, 3, 4 and 8 bits, act-order, planes, symmetric and not.

    pip install numpy==2.4.6 safetensors==0.8.0 torch==2.15.0 transformers==5.23.0
    pip install pypcre logbar device-smi tokenicer defuser pillow protobuf datasets threadpoolctl accelerate ninja
    BUILD_CUDA_EXT=0 pip install --no-deps --no-build-isolation gptqmodel==7.7.0
    pip install --no-deps torchao==0.18.0 auto-gptq==0.7.1

GPTQModel's TorchLinear.pack_original and AutoGPTQ's QuantLinear.pack pack; GPTQModel's convert_gptq_v2_to_v1_format_module takes one off the
zero points. Scales and zero points are a plain minimum and maximum of each group: how rounding is chosen does not show in the layout. Expected
values are what TorchLinear.dequantize_weight computes out of float32 scales; with the stored float16 ones each product is rounded, which is
checked here.

quantize_config.json is what GPTQModel's QuantizeConfig writes, and has the keys of AutoGPTQ's BaseQuantizeConfig (modeling/_base.py, which wants an
older transformers). Both put it beside the weights; older releases of AutoGPTQ put it into no other file. (Since 0.5 the
metadata of model.safetensors say gptq_bits, gptq_group_size, gptq_desc_act and gptq_is_marlin_format too, which is left out here.) gptq-sym-v2-zeros says v1 and symmetric, and has the zero points of v2, as a published checkpoint has
(vllm-project/vllm#38966). Its expected values are those of v2: symmetric weights have 2^(bits-1) as zero point, and vLLM 0.33.0, which reads
no qzeros of symmetric ones (auto_gptq.py, TYPE_MAP and zero_points=False), computes them too.
"""

import json
import os
import pathlib
import tempfile

os.environ.setdefault("GPTQ_TORCH_TRITON_DEQUANT", "0")

import torch
from common import DOWN, EMBED, GATE, K, NORM, Q, UP, module_of, original, same, store
from gptqmodel import QuantizeConfig
from gptqmodel.nn_modules.qlinear.torch import TorchLinear
from gptqmodel.quantization import FORMAT
from gptqmodel.utils.model import convert_gptq_v1_to_v2_format_module, convert_gptq_v2_to_v1_format_module

AutoGPTQ = module_of("auto_gptq", "auto_gptq.nn_modules.qlinear.qlinear_cuda").QuantLinear



def ranges(w, bits, size, sym, act_order):
    """Scales and zero points [out, groups] and the group of each column."""
    columns = w.shape[1]
    order = torch.arange(columns)
    if act_order:  # as by importance: a fixed shuffle
        order = torch.randperm(columns, generator=torch.Generator().manual_seed(columns))
    rank = torch.empty_like(order)
    rank[order] = torch.arange(columns)
    g_idx = (rank // size).int()
    scales, zeros = [], []
    for g in range(-(-columns // size)):
        of = w[:, g_idx == g]
        low, high = of.amin(1).clamp(max=0), of.amax(1).clamp(min=0)
        if sym:
            high = torch.maximum(high, -low)
            low = -high
        scale = ((high - low).clamp(min=1e-5) / (2**bits - 1)).half().float()
        scales.append(scale)
        # No zero point is 0: v1 would store it as -1, where readers differ.
        zeros.append(torch.full_like(scale, 2 ** (bits - 1)) if sym else torch.round(-low / scale).clamp(1, 2**bits - 1))
    return torch.stack(scales, 1), torch.stack(zeros, 1), g_idx


def layer(name, bits, size, sym, act_order, format):
    w = torch.from_numpy(original(name))
    linear = torch.nn.Linear(w.shape[1], w.shape[0], bias=False)
    linear.weight.data = w.clone()
    size = w.shape[1] if size == -1 else size
    scales, zeros, g_idx = ranges(w, bits, size, sym, act_order)
    kw = dict(bits=bits, group_size=size, sym=sym, desc_act=act_order, in_features=w.shape[1], out_features=w.shape[0])
    packed = TorchLinear(**kw, bias=False, format=format)
    packed.pack_original(linear, scales.clone(), zeros.clone(), g_idx.clone())
    packed.qzero_format(2)
    packed.post_init()
    return linear, scales, zeros, g_idx, packed


def values(packed):
    half = packed.dequantize_weight().t()
    scales, packed.scales = packed.scales, packed.scales.float()
    exact = packed.dequantize_weight().t()
    packed.scales = scales
    same(half, exact.half())
    return exact


def write(folder, bits, size, sym, act_order, format, names, dynamic=None, writer="gptqmodel", said=None, apart=False):
    """said is the format that the configuration claims, if it is another. With apart only quantize_config.json has the configuration."""
    tensors, expected = {NORM: torch.from_numpy(original(NORM)).half()}, {}
    for name in names:
        own = next((d for path, d in (dynamic or {}).items() if path in name), {})
        b, s = own.get("bits", bits), own.get("group_size", size)
        linear, scales, zeros, g_idx, packed = layer(name, b, s, sym, act_order, format)
        expected[name] = values(packed)
        state = {k: getattr(packed, k).clone() for k in ("qweight", "qzeros", "scales", "g_idx")}
        if writer == "autogptq":
            linear.weight.data = expected[name].clone()  # which is what GPTQ hands to pack, and pack does not clamp
            other = AutoGPTQ(b, s, linear.in_features, linear.out_features, False)
            other.pack(linear, scales.clone(), zeros.clone(), g_idx.clone())
            assert torch.equal(other.qweight, state["qweight"])
            state = {k: v.half() if k == "scales" else v for k, v in other.state_dict().items()}
        elif format == FORMAT.GPTQ:
            convert_gptq_v2_to_v1_format_module(packed, QuantizeConfig(bits=b, group_size=linear.in_features if s == -1 else s))
            state["qzeros"] = packed.qzeros.clone()
            convert_gptq_v1_to_v2_format_module(packed, b, torch.int32)
            same(values(packed), expected[name])
        for k, v in state.items():
            tensors[name.removesuffix("weight") + k] = v
    quantization = {"quant_method": "gptq", "bits": bits, "group_size": size, "sym": sym, "desc_act": act_order, "lm_head": False,
                    "pack_dtype": "int32", "meta": {"quantizer": ["gptqmodel:7.7.0"]}, "checkpoint_format": said or format}
    if writer == "autogptq":
        quantization = {"quant_method": "gptq", "bits": bits, "group_size": size, "sym": sym, "desc_act": act_order,
                        "static_groups": False, "damp_percent": 0.1, "true_sequential": True, "model_name_or_path": None}
    if dynamic:
        quantization["dynamic"] = {f"+:.*{path}.*": d for path, d in dynamic.items()}
    config = {"model_type": "llama", "torch_dtype": "float16"}
    if not apart:
        return store(folder, tensors, {**config, "quantization_config": quantization}, expected)
    if writer == "autogptq":
        quantization = {"bits": bits, "group_size": size, "damp_percent": 0.01, "desc_act": act_order, "static_groups": False, "sym": sym, "true_sequential": True,
                        "model_name_or_path": None, "model_file_base_name": None, "is_marlin_format": False, "quant_method": "gptq"}
    else:
        with tempfile.TemporaryDirectory() as tmp:
            QuantizeConfig(bits=bits, group_size=size, sym=sym, desc_act=act_order, format=format).save_pretrained(tmp)
            quantization = json.loads(pathlib.Path(tmp, "quantize_config.json").read_text())
        quantization["meta"] = {k: v for k, v in quantization["meta"].items() if isinstance(v, (int, float))}
    store(folder, tensors, config, expected, configs={"quantize_config.json": quantization})


write("gptq-4bit", 4, 32, False, False, FORMAT.GPTQ, [K, GATE, DOWN], {"down_proj": {"bits": 8, "group_size": 64}})
write("gptq-3bit-act-order", 3, 32, False, True, FORMAT.GPTQ, [K])
write("gptq-2bit-v2", 2, 16, False, False, FORMAT.GPTQ_V2, [EMBED])
write("gptq-8bit-v2-act-order", 8, 64, False, True, FORMAT.GPTQ_V2, [K])
write("gptq-3bit-v2-column", 3, -1, False, False, FORMAT.GPTQ_V2, [EMBED])
write("gptq-planes", 3, 32, False, False, FORMAT.GPTQ_P, [EMBED])
write("autogptq-4bit", 4, 32, True, True, FORMAT.GPTQ, [Q], writer="autogptq")
write("gptq-sym", 4, 32, True, False, FORMAT.GPTQ, [Q, K], {"k_proj": {"bits": 8, "group_size": 32}})
write("gptq-sym-v2-zeros", 4, 32, True, False, FORMAT.GPTQ_V2, [Q, K], {"k_proj": {"bits": 8, "group_size": 32}}, said=FORMAT.GPTQ)
write("autogptq-quantize-config", 4, 32, False, False, FORMAT.GPTQ, [Q, K], writer="autogptq", apart=True)
write("gptq-v2-quantize-config", 4, 32, False, False, FORMAT.GPTQ_V2, [Q, K], apart=True)
