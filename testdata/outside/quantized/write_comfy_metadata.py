"""Writes checkpoints as ComfyUI's saving nodes and converters have them now: described in the file's metadata, not by tensors.

    pip install numpy==2.4.6 safetensors==0.8.0 torch==2.15.0
    pip install --no-deps comfy-kitchen==0.2.40

The layouts of comfy-kitchen, ComfyUI's own library, quantize, name the tensors (state_dict_tensors) and dequantize. In float32 their
dequantize computes the expected values. _quantization_metadata is JSON: under layers, what to do with each layer.

ComfyUI (comfy/sd.py, load_diffusion_model_state_dict) looks for each of these layers in the file as it is, takes the prefix from the names
of tensors, and looks again. The prefix is the one of model.diffusion_model., model.model. and net. that most tensors have, if more than
five do, otherwise model. So a layer's name may come with the prefix or without. scaled_fp8 marks older files, with
.scale_weight; ComfyUI looks for it with the prefix too, and two elements there say only how matrices are multiplied.
"""

import json

import torch
from comfy_kitchen.tensor import TensorCoreFP8Layout, TensorWiseINT8Layout
from common import DOWN, EMBED, K, NORM, Q, UP, Q_BIAS, original, store

PREFIX = "model.diffusion_model."
NAMES = {Q: PREFIX + "blocks.0.attn.q.weight", K: PREFIX + "blocks.0.attn.k.weight", UP: PREFIX + "blocks.0.mlp.0.weight",
         DOWN: PREFIX + "blocks.0.mlp.2.weight", EMBED: PREFIX + "embed.weight"}


def quantized(name, format):
    w = torch.from_numpy(original(name)).bfloat16()
    if format == "int8_tensorwise":
        layout = TensorWiseINT8Layout
        data, params = layout.quantize(w, is_weight=True, per_channel=name != K)
    else:
        layout = TensorCoreFP8Layout
        data, params = layout.quantize(w, dtype=getattr(torch, format))
    tensors = layout.state_dict_tensors(data, params)
    wide = type(params)(**{**vars(params), "orig_dtype": torch.float32})
    return {NAMES[name].removesuffix("weight") + "weight" + k: v for k, v in tensors.items()}, layout.dequantize(data, wide)


def write(folder, weights, prefix):
    """prefix is that of the layers in the metadata."""
    tensors = {PREFIX + "norm.weight": torch.from_numpy(original(NORM)).bfloat16(), PREFIX + "blocks.0.attn.q.bias": torch.from_numpy(original(Q_BIAS)).bfloat16()}
    expected, layers = {}, {}
    for name, format in weights.items():
        parts, expected[name] = quantized(name, format)
        tensors |= parts
        layers[prefix + NAMES[name].removeprefix(PREFIX).removesuffix(".weight")] = {"format": format}
    store(folder, tensors, None, expected, {"_quantization_metadata": json.dumps({"format_version": "1.0", "layers": layers})}, names=NAMES)


def older(folder, names, marker):
    tensors, expected = {PREFIX + "scaled_fp8": marker}, {}
    for name in names:
        parts, expected[name] = quantized(name, "float8_e4m3fn")
        stem = NAMES[name].removesuffix("weight")
        tensors |= {stem + "weight": parts[stem + "weight"], stem + "scale_weight": parts[stem + "weight_scale"].reshape(1)}
        tensors[stem + "scale_input"] = torch.ones(1)
    store(folder, tensors, None, expected, {}, names=NAMES)


FORMATS = {Q: "float8_e4m3fn", K: "int8_tensorwise", UP: "float8_e5m2", DOWN: "int8_tensorwise"}
write("comfy-metadata", FORMATS, PREFIX)
write("comfy-metadata-stripped", FORMATS, "")
older("comfy-scaled-fp8-prefix", [Q, K, UP], torch.zeros(2, dtype=torch.float8_e4m3fn))
