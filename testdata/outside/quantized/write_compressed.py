"""Writes compressed-tensors checkpoints with the package itself: int, float, packed, NVFP4, MXFP4 and MXFP8.

    pip install numpy==2.4.6 safetensors==0.8.0 torch==2.15.0 transformers==5.23.0 compressed-tensors==0.20.0

A model of Linear layers goes the way that LLM Compressor takes: apply_quantization_config, scales and zero points by
calculate_qparams, ModelCompressor.compress_model, update_config. Expected values are what the compressors'
decompress computes, scales widened to float32 before; with the stored scales it rounds to their type on the way, which
is checked here where they are float16 or bfloat16.
"""

import torch
from common import DOWN, DOWN_3D, EMPTY, GATE, GATE_UP, K, NORM, Q, UP, folder, original, same, store, write_json
from compressed_tensors.compressors import BaseCompressor, ModelCompressor
from compressed_tensors.compressors.nvfp4.helpers import unpack_fp4_from_uint8
from compressed_tensors.quantization import QuantizationArgs, QuantizationConfig, QuantizationScheme, apply_quantization_config
from compressed_tensors.quantization.lifecycle.forward import dequantize
from compressed_tensors.quantization.utils import calculate_qparams, generate_gparam


def skeleton(names, dtype):
    """A model whose Linear layers have the names and weights of the original's."""
    root = torch.nn.Module()
    for name in names:
        *path, _ = name.split(".")
        m = root
        for p in path[:-1]:
            if p not in m._modules:
                m.add_module(p, torch.nn.Module())
            m = m._modules[p]
        w = torch.from_numpy(original(name)).to(dtype)
        linear = torch.nn.Linear(w.shape[1], w.shape[0], bias=False)
        linear.weight.data = w
        m.add_module(path[-1], linear)
    return root


def ranges(w, args):
    """The lowest and highest value of what has one scale, shaped as compressed-tensors stores scales."""
    strategy = args.strategy
    if strategy == "tensor":
        return w.min().reshape(1), w.max().reshape(1)
    if strategy == "channel":
        return w.amin(-1, True), w.amax(-1, True)
    if strategy == "block":
        rows, cols = args.block_structure
        pad = torch.nn.functional.pad(w, (0, -w.shape[1] % cols, 0, -w.shape[0] % rows))
        blocks = pad.reshape(pad.shape[0] // rows, rows, pad.shape[1] // cols, cols)
        return blocks.amin((1, 3)), blocks.amax((1, 3))
    groups = w.unflatten(-1, (-1, args.group_size))
    return groups.amin(-1), groups.amax(-1)


def observe(module):
    args = module.quantization_scheme.weights
    w = module.weight.data
    low, high = ranges(w, args)
    factor = generate_gparam(w.min(), w.max()) if args.strategy == "tensor_group" else None
    scale, zero = calculate_qparams(low.float(), high.float(), args, global_scale=factor)
    state = {"weight_scale": scale.to(module.weight_scale.dtype)}
    if getattr(module, "weight_zero_point", None) is not None:
        state["weight_zero_point"] = zero.to(module.weight_zero_point.dtype)
    if factor is not None:
        state["weight_global_scale"] = factor
    for k, v in state.items():
        assert getattr(module, k).shape == v.shape, (k, getattr(module, k).shape, v.shape)
        getattr(module, k).data = v


def wide(state):
    return {k: v.float() if v.dtype in (torch.float16, torch.bfloat16) and k == "weight_scale" else v for k, v in state.items()}


def values(state, scheme):
    """decompress in float32. That of NVFP4 and MXFP4 works in bfloat16 and cannot be told to do otherwise: the calls in it, as float32."""
    compressor = BaseCompressor.get_value_from_registry(scheme.format if isinstance(scheme.format, str) else scheme.format.value)
    state = {k: v.detach() for k, v in state.items()}
    if "weight_packed" in state and state["weight_packed"].dtype == torch.uint8:
        rows, cols = state["weight_packed"].shape
        codes = unpack_fp4_from_uint8(state["weight_packed"], rows, cols * 2, dtype=torch.float32)
        scale = compressor._decompress_scale(state["weight_scale"], torch.float32)
        return dequantize(codes, scale, args=scheme.weights, dtype=torch.float32, global_scale=state.get("weight_global_scale"))
    exact = compressor.decompress(wide(state), scheme)["weight"]
    half = compressor.decompress(state, scheme)["weight"]
    if scheme.weights.symmetric or half.dtype == torch.float32:  # else the difference to the zero point is rounded too
        same(half, exact.to(half.dtype), scheme)
    return exact.float()


def write(folder_name, format, groups, dtype=torch.bfloat16, more=None, names={}):
    """groups maps names of weights to the arguments of their quantization."""
    schemes = {}
    for i, (name, args) in enumerate(groups.items()):
        fmt = args.pop("format", format)
        weights = QuantizationArgs(**args)
        schemes[f"group_{i}"] = QuantizationScheme(targets=[name.removesuffix(".weight")], weights=weights, format=fmt)
    config = QuantizationConfig(config_groups=schemes, format=format, ignore=["lm_head"])
    model = skeleton(groups, dtype)
    apply_quantization_config(model, config)
    for module in model.modules():
        if hasattr(module, "quantization_scheme"):
            observe(module)
    compressor = ModelCompressor.from_pretrained_model(model)
    compressor.compress_model(model)
    tensors = {k: v.detach() for k, v in model.state_dict().items()}
    expected = {}
    for name in groups:
        prefix = name.removesuffix("weight")
        module = model.get_submodule(prefix[:-1])
        state = {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
        expected[name] = values(state, module.quantization_scheme)
    tensors[NORM] = torch.from_numpy(original(NORM)).to(dtype)
    if more:
        more(tensors, expected)
    write_json(folder(folder_name) / "config.json", {"model_type": "llama", "torch_dtype": str(dtype).removeprefix("torch.")})
    store(folder_name, tensors, None, expected, names=names)
    compressor.update_config(str(folder(folder_name)))


def group(bits, size, symmetric=True, **more):
    return dict(num_bits=bits, type="int", strategy="group", group_size=size, symmetric=symmetric, **more)


def channel(bits, symmetric=True, **more):
    return dict(num_bits=bits, type="int", strategy="channel", symmetric=symmetric, **more)


def f8(strategy, **more):
    return dict(num_bits=8, type="float", strategy=strategy, symmetric=True, **more)


def experts(bits, size):
    """Experts of three dimensions. compress takes them; no module of the package does."""
    def add(tensors, expected):
        for name in (DOWN_3D,):
            args = QuantizationArgs(**group(bits, size))
            scheme = QuantizationScheme(targets=["Linear"], weights=args, format="pack-quantized")
            w = torch.from_numpy(original(name)).bfloat16()
            scale, _ = calculate_qparams(*(r.float() for r in ranges(w, args)), args)
            compressor = BaseCompressor.get_value_from_registry("pack-quantized")
            parts = [compressor.compress({"weight": m, "weight_scale": s}, scheme) for m, s in zip(w, scale.bfloat16())]
            state = {k: torch.stack([p[k] for p in parts]) for k in ("weight_packed", "weight_scale")}
            state["weight_shape"] = torch.tensor(w.shape)
            whole = compressor.compress({"weight": w, "weight_scale": state["weight_scale"]}, scheme)
            assert torch.equal(whole["weight_packed"], state["weight_packed"]) and torch.equal(whole["weight_shape"], state["weight_shape"])
            for k, v in state.items():
                tensors[f"{name}.{k}"] = v
            expected[name] = torch.stack([values(p, scheme) for p in parts])
    return add


write("ct-int", "int-quantized", {
    Q: channel(8), K: group(8, 32, False), GATE: channel(8, False), UP: dict(num_bits=8, type="int", strategy="tensor", symmetric=True)})
write("ct-float", "float-quantized", {
    Q: f8("channel"), K: f8("group", group_size=32), GATE: f8("tensor"), UP: f8("block", block_structure=[128, 128]),
    DOWN: f8("block", block_structure=[16, 32])})
write("ct-pack-4", "pack-quantized", {Q: group(4, 32), K: group(4, 32, False), GATE: channel(4), DOWN: group(4, 8, False)})
write("ct-pack-8", "pack-quantized", {K: group(8, 32), GATE: channel(8, False)})
write("ct-pack-odd", "pack-quantized", {
    Q: group(3, 64), K: group(5, 48, False), GATE: channel(6, False), UP: group(7, 24), DOWN: channel(2), }, torch.float16)
write("ct-nvfp4", "nvfp4-pack-quantized", {
    name: dict(num_bits=4, type="float", strategy="tensor_group", group_size=16, symmetric=True, scale_dtype=torch.float8_e4m3fn)
    for name in (K,)})
write("ct-mxfp4", "mxfp4-pack-quantized", {
    name: dict(num_bits=4, type="float", strategy="group", group_size=32, symmetric=True, scale_dtype=torch.uint8) for name in (K,)})
write("ct-mxfp8", "mxfp8-quantized", {
    name: dict(num_bits=8, type="float", strategy="group", group_size=32, symmetric=True, scale_dtype=torch.uint8) for name in (K,)})
write("ct-mixed", "mixed-precision", {Q: group(4, 32, format="pack-quantized"), K: f8("channel", format="float-quantized")}, more=experts(4, 32),
      names={DOWN_3D: DOWN_3D + ".weight"})
