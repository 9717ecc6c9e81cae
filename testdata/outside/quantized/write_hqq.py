"""Writes HQQ checkpoints with the package itself: 8, 4, 3, 2 and 1 bit, along both axes.

    pip install numpy==2.4.6 safetensors==0.8.0 torch==2.15.0 termcolor; pip install --no-deps hqq==0.2.8.post1

HQQLinear quantizes on the CPU and its state_dict, with encoded_state_dict as transformers saves it, is the checkpoint. Expected values are
what Quantizer.dequantize computes in float32.
"""

import torch
from common import DOWN, EMBED, K, NORM, Q, UP, original, same, store
from hqq.core.quantize import BaseQuantizeConfig, HQQLinear, Quantizer


def write(name, weights, dtype):
    tensors, expected = {NORM: torch.from_numpy(original(NORM)).to(dtype)}, {}
    first = None
    for w, (bits, size, axis) in weights.items():
        value = torch.from_numpy(original(w))
        linear = torch.nn.Linear(value.shape[1], value.shape[0], bias=False)
        linear.weight.data = value.clone()
        config = BaseQuantizeConfig(nbits=bits, group_size=size, axis=axis)
        first = first or config
        layer = HQQLinear(linear, config, compute_dtype=dtype, device="cpu", del_orig=False)
        layer.encoded_state_dict = True
        for k, v in layer.state_dict().items():
            tensors[w.removesuffix("weight") + k] = v.data if isinstance(v, torch.nn.Parameter) else v
        wide = {k: v.float() if isinstance(v, torch.Tensor) and v.is_floating_point() else v for k, v in layer.meta.items()}
        wide["compute_dtype"] = torch.float32
        expected[w] = Quantizer.dequantize(layer.W_q.data, wide)
    config = {"model_type": "llama", "torch_dtype": str(dtype).removeprefix("torch."), "quantization_config": {
        "quant_method": "hqq", "quant_config": first, "skip_modules": ["lm_head"]}}
    store(name, tensors, config, expected)


write("hqq-4bit", {Q: (4, 64, 1), K: (4, 32, 0), UP: (8, 24, 1)}, torch.bfloat16)
write("hqq-odd", {EMBED: (3, 64, 0), DOWN: (2, 32, 1), K: (1, 16, 0)}, torch.float16)
