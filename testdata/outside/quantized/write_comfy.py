"""Writes checkpoints as ComfyUI has them, with convert_to_quant: FP8 and int8 with a description of each layer, and the older names without.

    pip install numpy==2.4.6 safetensors==0.8.0 torch==2.15.0 tqdm prodigy-plus-schedule-free
    pip install --no-deps convert-to-quant==1.3.4

convert_to_fp8_scaled quantizes files, one for each way to share scales; their tensors are put into one. Expected values are what the layouts'
dequantize computes in float32 (convert_to_quant/comfy/quant_ops.py). The older names, .scale_weight and no description, are no longer written:
they are put in by hand, and convert_fp8_scaled_to_comfy_quant makes the file that it came from of it again.
"""

import contextlib
import io
import pathlib
import tempfile

import torch
from common import DOWN, K, NORM, Q, UP, original, store
from convert_to_quant.comfy.quant_ops import BlockWiseFP8Layout, BlockWiseINT8Layout, RowWiseFP8Layout, TensorCoreFP8Layout, TensorWiseINT8Layout
from convert_to_quant.formats.format_migration import convert_fp8_scaled_to_comfy_quant
from convert_to_quant.formats.fp8_conversion import convert_to_fp8_scaled
from safetensors.torch import load_file, save_file


def quantized(name, mode, **more):
    with tempfile.TemporaryDirectory() as tmp, contextlib.redirect_stdout(io.StringIO()):
        source, out = pathlib.Path(tmp, "in.safetensors"), pathlib.Path(tmp, "out.safetensors")
        save_file({name: torch.from_numpy(original(name)).bfloat16()}, source)
        convert_to_fp8_scaled(str(source), str(out), True, {}, 16, 0, no_learned_rounding=True, device="cpu", scaling_mode=mode, **more)
        return load_file(out)


def older(parts):
    """The same weight with its older names."""
    old = {k.replace("weight_scale", "scale_weight"): v for k, v in parts.items() if not k.endswith("comfy_quant")}
    old["scaled_fp8"] = torch.empty(0, dtype=torch.float8_e4m3fn)  # which marks such files
    with tempfile.TemporaryDirectory() as tmp, contextlib.redirect_stdout(io.StringIO()):
        a, b = pathlib.Path(tmp, "a.safetensors"), pathlib.Path(tmp, "b.safetensors")
        save_file(old, a)
        convert_fp8_scaled_to_comfy_quant(str(a), str(b))
        again = load_file(b)
    for k, v in parts.items():
        if not k.endswith("comfy_quant"):
            assert torch.equal(again[k].reshape(-1).view(torch.uint8), v.reshape(-1).view(torch.uint8)), k
    return old


def write(name, weights, described=True, **more):
    """weights maps names to the way their scales are shared, the layout and its parameters."""
    tensors, expected = {NORM: torch.from_numpy(original(NORM)).bfloat16()}, {}
    for w, (mode, layout, params) in weights.items():
        parts = quantized(w, mode, **more, **params)
        tensors |= parts if described else older(parts)
        (scale,) = [v for k, v in parts.items() if k.endswith((".weight_scale", ".scale_weight"))]
        kind = {"is_weight": True} if layout is BlockWiseINT8Layout else {}
        expected[w] = layout.dequantize(parts[w], scale, orig_dtype=torch.float32, **params, **kind)
    store(name, tensors, None, expected)


write("comfy-fp8", {Q: ("tensor", TensorCoreFP8Layout, {}), K: ("row", RowWiseFP8Layout, {}), DOWN: ("block", BlockWiseFP8Layout, {"block_size": 8})})
write("comfy-scaled-fp8", {Q: ("tensor", TensorCoreFP8Layout, {}), K: ("row", RowWiseFP8Layout, {})}, False)
write("comfy-int8", {Q: ("tensor", TensorWiseINT8Layout, {}), UP: ("row", TensorWiseINT8Layout, {}),
    DOWN: ("block", BlockWiseINT8Layout, {"block_size": 8})}, int8=True)
