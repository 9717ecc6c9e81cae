"""Writes BitNet checkpoints with transformers' own code: ternary codes of 2 bits, read by BitLinear, which divides by the scale, and by
AutoBitLinear, which multiplies. AutoBitLinear takes codes that are not packed too, in the type of the layer.

    pip install numpy==2.4.6 safetensors==0.8.0 torch==2.15.0 transformers==5.23.0

The codes are those that WeightQuant rounds to, packed by pack_weights (integrations/bitnet.py). Expected values are what unpack_weights reads in
float32, over or times the scale. That is held against what the layers compute for unit vectors, and against WeightQuant.
"""

import os

os.environ["TORCHDYNAMO_DISABLE"] = "1"  # run, not compiled

import torch
from common import K, NORM, Q, Q_BIAS, UP, original, same, store
from transformers.integrations.bitnet import AutoBitLinear, BitLinear, BitNetDeserialize, WeightQuant, pack_weights, unpack_weights
from transformers.utils.quantization_config import BitNetQuantConfig


def layer(kind, weight, codes, scale, dtype):
    """The layer as transformers fills it from a checkpoint."""
    rows, cols = weight.shape
    linear = kind(cols, rows, bias=False, dtype=dtype)
    parts = {"weight": codes, "weight_scale": scale}
    if kind is AutoBitLinear:
        parts |= BitNetDeserialize(None).convert({"weight": codes}, torch.nn.ModuleDict({"x": linear}), "x.weight")
    linear.load_state_dict(parts)
    return linear


def write(name, kind, dtype, weights, packed=True):
    tensors, expected = {NORM: torch.from_numpy(original(NORM)).to(dtype), Q_BIAS: torch.from_numpy(original(Q_BIAS)).to(dtype)}, {}
    for w in weights:
        weight = torch.from_numpy(original(w)).to(dtype)
        rounded = WeightQuant.apply(weight.float())
        mean = rounded.abs().max().reshape(1)
        scale = (1 / mean if kind is BitLinear else mean).to(dtype)
        codes = pack_weights(rounded.sign())
        stored = codes if packed else rounded.sign().to(dtype)
        tensors[w], tensors[w + "_scale"] = stored, scale
        q = unpack_weights(codes, torch.float32)
        same(q, rounded.sign(), name, w)
        expected[w] = q / scale.float() if kind is BitLinear else q * scale.float()
        got = layer(kind, weight, stored, scale.float(), torch.float32)(torch.eye(weight.shape[1]))
        torch.testing.assert_close(got.T, expected[w], rtol=1e-6, atol=0)
        torch.testing.assert_close(rounded, expected[w], rtol=torch.finfo(dtype).eps, atol=0)
    config = BitNetQuantConfig(linear_class=kind.__name__.lower(), quantization_mode="offline", modules_to_not_convert=["lm_head"])
    store(name, tensors, {"model_type": "llama", "torch_dtype": str(dtype).removeprefix("torch."), "quantization_config": config.to_dict()}, expected, within=1)


write("bitnet", BitLinear, torch.bfloat16, [Q, K, UP])
write("bitnet-auto", AutoBitLinear, torch.float16, [Q, UP])
write("bitnet-auto-unpacked", AutoBitLinear, torch.bfloat16, [Q, UP], packed=False)
