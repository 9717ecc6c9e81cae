"""Writes compressed-tensors checkpoints with the release 0.12.2: columns in the order of importance, and words with unused bits.

    pip install numpy==2.4.6 safetensors==0.8.0 torch==2.15.0 transformers==5.23.0 compressed-tensors==0.12.2

Later releases write neither. PackedQuantizationCompressor and IntQuantizationCompressor compress a model's state. Scales and zero points are
a plain minimum and maximum of each group. Expected values are what decompress_weight computes out of float32 scales; with
zero points, which it does not read packed, dequantize with those that were packed. An index that was never set is −1
throughout, which dequantize takes for consecutive groups.
"""

import compressed_tensors
import torch
from common import DOWN, GATE, K, NORM, Q, UP, original, same, store
from compressed_tensors.compressors import IntQuantizationCompressor, PackedQuantizationCompressor
from compressed_tensors.quantization import QuantizationArgs, QuantizationConfig, QuantizationScheme
from compressed_tensors.quantization.lifecycle.forward import dequantize
from compressed_tensors.quantization.utils import calculate_qparams


def write(name, format, compressor, weights):
    """weights maps names to the arguments of quantization and whether the index was set."""
    state, schemes, points, tensors, expected = {}, {}, {}, {}, {}
    for i, (w, (args, ordered)) in enumerate(weights.items()):
        args = QuantizationArgs(type="int", strategy="group", **args)
        value = torch.from_numpy(original(w)).bfloat16()
        columns, size = value.shape[1], args.group_size
        order = torch.argsort(value.float().pow(2).sum(0), descending=True) if ordered else torch.arange(columns)
        index = torch.empty(columns, dtype=torch.int)
        index[order] = torch.arange(columns, dtype=torch.int) // size
        groups = value[:, order].unflatten(-1, (-1, size)).float()
        scale, zero = calculate_qparams(groups.amin(-1), groups.amax(-1), args)
        prefix = w.removesuffix("weight")
        state |= {w: value, w + "_scale": scale.bfloat16(), w + "_zero_point": zero.to(torch.int8)}
        if args.actorder:
            state[w + "_g_idx"] = index if ordered else torch.full_like(index, -1)
        schemes[prefix[:-1]] = QuantizationScheme(targets=[prefix[:-1]], weights=args)
        points[w] = zero.to(torch.int8)
    config = QuantizationConfig(config_groups={f"group_{i}": s for i, s in enumerate(schemes.values())}, format=format, ignore=["lm_head"])
    tensors = compressor.compress(state, schemes)
    for w in weights:
        args = schemes[w.removesuffix(".weight")].weights
        parts = {k.removeprefix(w.removesuffix("weight")): v for k, v in tensors.items() if k.startswith(w)}
        wide = parts | {"weight_scale": parts["weight_scale"].float()}
        if args.symmetric:
            expected[w] = compressor.decompress_weight(wide, args)
            same(compressor.decompress_weight(parts, args), expected[w].bfloat16(), name, w)
        else:
            unpacked = {k: v for k, v in wide.items() if k != "weight_zero_point"}
            same(compressor.decompress_weight(unpacked, args.model_copy(update={"symmetric": True})), dequantize(codes_of(unpacked, args), wide["weight_scale"], g_idx=wide.get("weight_g_idx")), name, w)
            expected[w] = dequantize(codes_of(unpacked, args), wide["weight_scale"], points[w], g_idx=wide.get("weight_g_idx"))
    tensors[NORM] = torch.from_numpy(original(NORM)).bfloat16()
    method = {k: v for k, v in config.model_dump(mode="json").items() if v is not None}
    store(name, tensors, {"model_type": "llama", "torch_dtype": "bfloat16", "quantization_config": {
        "quant_method": "compressed-tensors", "version": compressed_tensors.__version__, **method}}, expected)


def codes_of(parts, args):
    """The codes as the compressor unpacks them."""
    one = torch.ones_like(parts["weight_scale"])
    state = {k: v for k, v in parts.items() if k != "weight_g_idx"} | {"weight_scale": one}
    return PACKED.decompress_weight(state, args.model_copy(update={"symmetric": True})).to(torch.int8)


def group(bits, size, symmetric=True, actorder="group"):
    return dict(num_bits=bits, group_size=size, symmetric=symmetric, actorder=actorder)


PACKED = PackedQuantizationCompressor()
write("ct-pack-act-order", "pack-quantized", PACKED, {
    Q: (group(4, 32), True), K: (group(4, 32, False), True), DOWN: (group(8, 8), True), UP: (group(4, 8), False)})
write("ct-int-act-order", "int-quantized", IntQuantizationCompressor(), {K: (group(8, 32), True)})
write("ct-pack-words", "pack-quantized", PACKED, {
    Q: (group(3, 64, actorder=None), False), K: (group(6, 48, actorder=None), False), GATE: (group(5, 33, actorder=None), False)})
