"""Writes checkpoints with auto-round: every packing format, 2 to 8 bits, symmetric and not, and its float types.

    pip install numpy==2.4.6 safetensors==0.8.0 torch==2.15.0 transformers==5.23.0 accelerate datasets py-cpuinfo pydantic
    pip install --no-deps auto-round==0.16.1

AutoRound quantizes a Llama of one layer by rounding to nearest (iters=0) and exports it; model.safetensors is kept as it is
written, config.json without the versions of other packages. Beside it auto-round writes the same quantization
configuration as quantization_config.json, which is left out here.

Expected values are those of auto-round's own classes. Checkpoints of its method are loaded by transformers, which lets
auto-round choose the class for each layer: QuantLinear.forward hands the values to torch.matmul, the others have
dequant_weight_online. AWQ's are read by dequantize_gemm, GPTQ's and auto_round:auto_gptq's that are not symmetric by qlinear_torch_zp's QuantLinear,
which auto-round takes where no kernel of another package fits.
Where a class computes in float16 or bfloat16, scales are widened first; its own answer is this value rounded, which is checked.

8-bit checkpoints that are not symmetric need AR_ALLOW_W8_ASYM; auto-round says that few programs read them.
"""

import os

os.environ.update(AR_ALLOW_W8_ASYM="1", HF_HUB_OFFLINE="1")

import json
import pathlib
import shutil
import sys
import tempfile
import zlib

import torch
from auto_round import AutoRound
from auto_round.export.export_to_awq.utils import dequantize_gemm
from auto_round_extension.torch.qlinear_torch_zp import QuantLinear as QuantLinearZP
from common import folder, same, write_json
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

LAYER = "model.layers.0."
BITS = {"self_attn.q_proj": 2, "self_attn.k_proj": 3, "self_attn.v_proj": 4, "self_attn.o_proj": 5,
        "mlp.gate_proj": 6, "mlp.up_proj": 7, "mlp.down_proj": 8}


def tokenizer():
    t = Tokenizer(models.WordLevel({"<unk>": 0, "a": 1, "<s>": 2}, unk_token="<unk>"))
    t.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=t, unk_token="<unk>", bos_token="<s>", pad_token="<unk>")


def llama(hidden, intermediate, positive=True, largest=0):
    """Llama with weights from a seed: group 0 of row 0 has no negative value, of row 1 no positive one, of row 2 only zeros.
    Without positive every group has a negative value: at 5 to 7 bits auto-round stores a zero point of 0 less one as 31, 63 or 127.
    largest is the largest magnitude, if there is one."""
    config = LlamaConfig(hidden_size=hidden, intermediate_size=intermediate, num_hidden_layers=1, num_attention_heads=1,
                         num_key_value_heads=1, head_dim=32, vocab_size=8, max_position_embeddings=16, tie_word_embeddings=True)
    model = LlamaForCausalLM(config)
    for name, p in model.named_parameters():
        if p.ndim == 2:
            w = torch.randn(p.shape, generator=torch.Generator().manual_seed(zlib.crc32(name.encode()))) * 0.05
            w[1, :32], w[3] = -w[1, :32].abs(), w[3] * 20
            if positive:
                w[0, :32], w[2, :32] = w[0, :32].abs(), 0
            if largest:
                w = w.clamp(-largest, largest)
                w[3, 0] = largest
            p.data = w
    return model.to(torch.bfloat16)


def export(format, scheme, size, **kw):
    """Quantizes and exports, and returns the directory."""
    tokens = [torch.tensor([[1, 2, 3, 4, 5, 6, 7, i]]) for i in range(4)]  # for activations
    rounder = AutoRound(llama(*size), tokenizer(), scheme=scheme, iters=0, disable_opt_rtn=True, device_map="cpu",
                        enable_torch_compile=False, dataset=tokens, nsamples=4, seqlen=8, batch_size=2, **kw)
    out = tempfile.mkdtemp()
    if "BLOCK" in scheme:  # whose tuple quantize_and_save cannot put into a directory's name
        rounder.formats = format
        rounder.quantize()
        rounder.save_quantized(out, format=format)
    else:
        rounder.quantize_and_save(out, format=format)
    (config,) = pathlib.Path(out).rglob("config.json")
    return config.parent


def matmul(layer):
    """What QuantLinear.forward multiplies by, [in, out]. With g_idx it takes no more columns than in, so that goes first."""
    if hasattr(layer, "g_idx"):
        assert torch.equal(layer.g_idx, torch.arange(layer.infeatures, dtype=torch.int32) // layer.group_size)
        del layer.g_idx
    seen, real = [], torch.matmul
    torch.matmul = lambda x, w: seen.append(w) or real(x, w)
    try:
        layer.forward(torch.eye(layer.infeatures))
    finally:
        torch.matmul = real
    return seen[0]


def widened(layer):
    """The values of a QuantLinear with float32 scales; with its float16 ones each is rounded."""
    half = matmul(layer)
    layer.scales = layer.scales.float()
    exact = matmul(layer)
    same(half, exact.half())
    return exact.t()


def read_loaded(directory):
    model = AutoModelForCausalLM.from_pretrained(directory, device_map="cpu")
    for name, layer in model.named_modules():
        if name.endswith("_proj"):
            if hasattr(layer, "qweight"):
                yield name, widened(layer)
            else:
                stored = layer.dequant_weight_online()
                layer.dtype = torch.float32
                exact = layer.dequant_weight_online()
                same(stored, exact.to(stored.dtype))
                yield name, exact


def layers(directory):
    tensors, parts = load_file(directory / "model.safetensors"), {}
    for name, t in tensors.items():
        stem, end = name.rsplit(".", 1)
        if stem.endswith("_proj"):
            parts.setdefault(stem, {})[end] = t
    return parts.items()


def read_awq(directory):
    config = json.loads((directory / "config.json").read_text())["quantization_config"]
    for name, t in layers(directory):
        bits = config.get("extra_config", {}).get(name, config)["bits"]
        group = t["qweight"].shape[0] // t["scales"].shape[0]
        exact = dequantize_gemm(t["qweight"], t["qzeros"], t["scales"].float(), bits, group)
        same(dequantize_gemm(t["qweight"], t["qzeros"], t["scales"], bits, group), exact.half())
        yield name, exact.t()


def read_gptq(directory):
    config = json.loads((directory / "config.json").read_text())["quantization_config"]
    for name, t in layers(directory):
        own = {**config.get("extra_config", {}), **config.get("dynamic", {})}
        bits = own.get(name, own.get("+:.*" + name.replace(".", "\\.") + ".*", config))["bits"]
        layer = QuantLinearZP(bits, config["group_size"], t["qweight"].shape[0] * 32 // bits, t["qweight"].shape[1], False, g_idx="g_idx" in t)
        layer.load_state_dict(t)
        yield name, widened(layer)


def read_fp8(directory):
    """pack_layer of export_to_fp8.py divides by the scale, of the tensor, the row, or a block."""
    for name, t in layers(directory):
        w = t["weight"].float()
        scale = t.get("weight_scale", t.get("weight_scale_inv"))
        if scale.numel() == w.shape[0]:
            scale = scale.unsqueeze(1)  # as dequant_weight_online of fp8_static.py, which rounds to bfloat16
        if scale.ndim == 2:
            for axis in (0, 1):
                scale = scale.repeat_interleave(-(-w.shape[axis] // scale.shape[axis]), axis)
            scale = scale[: w.shape[0], : w.shape[1]]
        yield name, w * scale.float()


def write(name, format, scheme, read=read_loaded, size=(64, 32), bits=(), layer=None, **kw):
    if bits:
        kw["layer_config"] = {LAYER + k: {"bits": b} for k, b in BITS.items() if b in bits} | (layer or {})
    torch.manual_seed(0)
    directory = export(format, scheme, size, **kw)
    d = folder(name)
    shutil.copy(directory / "model.safetensors", d)
    os.chmod(d / "model.safetensors", 0o644)
    config = json.loads((directory / "config.json").read_text())
    config = {k: config[k] for k in ("architectures", "model_type", "hidden_size", "dtype", "quantization", "quantization_config") if k in config}
    write_json(d / "config.json", config)
    expected = {k + ".weight": v.detach().float().contiguous() for k, v in read(directory)}
    assert len(expected) == len(BITS)
    plain = dict(llama(*size).float().named_parameters())
    for k, v in expected.items():
        n = k.removesuffix(".weight").removeprefix(LAYER)
        worst = ((v - plain[k]).abs().amax(1) / plain[k].abs().amax(1).clamp(min=1e-3)).max().item()
        limit = 1.1 / 2 ** ((BITS[n] if BITS[n] in bits else 4) - 1) if "FP" not in scheme else 0.25
        # Where zero points are stored less one, auto-round makes 1 of 0: a whole step for the row that has only positive values.
        assert worst <= limit * (1 + ("gptq-asym" in name)), (name, k, worst)
    save_file(expected, d / "expected.safetensors")
    print(name, round(worst, 3), json.dumps(config.get("quantization_config")))


ALL = (2, 3, 4, 5, 6, 7, 8)
CASES = {
    "autoround-sym": dict(format="auto_round", scheme="W4A16", bits=ALL, group_size=32),  # becomes auto_round:auto_gptq
    "autoround-asym": dict(format="auto_round", scheme="W4A16", bits=ALL, group_size=32, sym=False),
    "autoround-gptqmodel-sym": dict(format="auto_round:gptqmodel", scheme="W4A16", bits=ALL, group_size=32),
    "autoround-gptqmodel-asym": dict(format="auto_round:gptqmodel", scheme="W4A16", bits=ALL, group_size=32, sym=False,
                                     layer={LAYER + "mlp.up_proj": {"bits": 7, "sym": True}}),
    "autoround-gptq-asym": dict(format="auto_round:auto_gptq", scheme="W4A16", read=read_gptq, size=(64, 32, False), bits=ALL,
                                group_size=32, sym=False),
    "autoround-awq-sym": dict(format="auto_round:auto_awq", scheme="W4A16", read=read_awq, group_size=32),
    "autoround-awq-asym": dict(format="auto_round:auto_awq", scheme="W4A16", read=read_awq, bits=(5, 6, 7), group_size=32, sym=False),
    "autoround-as-gptq-sym": dict(format="auto_gptq", scheme="W4A16", read=read_gptq, bits=ALL, group_size=32),
    "autoround-as-gptq-asym": dict(format="auto_gptq", scheme="W4A16", read=read_gptq, bits=(2, 3, 4, 8), group_size=32, sym=False),
    "autoround-as-awq-sym": dict(format="auto_awq", scheme="W4A16", read=read_awq, size=(32, 64), group_size=32),
    "autoround-as-awq-asym": dict(format="auto_awq", scheme="W4A16", read=read_awq, size=(32, 64), group_size=32, sym=False),
    "autoround-mxint4": dict(format="auto_round", scheme="MXINT4", size=(32, 64)),
    "autoround-mxfp4": dict(format="auto_round", scheme="MXFP4", size=(32, 64)),
    "autoround-mxfp8": dict(format="auto_round", scheme="MXFP8", size=(32, 64)),
    # weight_global_scale is 2688 / 0.65625 = 4096: the order of the two products does not show.
    "autoround-nvfp4": dict(format="auto_round", scheme="NVFP4", size=(32, 64, True, 0.65625)),
    "autoround-nvfp4-e5m3": dict(format="auto_round", scheme="NVFP4_E5M3", size=(32, 64)),
    "autoround-fp8": dict(format="auto_round", scheme="FPW8A16", read=read_fp8, size=(32, 64)),
    "autoround-fp8-static": dict(format="auto_round", scheme="FP8_STATIC", read=read_fp8, size=(32, 64)),
    "autoround-fp8-block": dict(format="auto_round:fp8", scheme="FP8_BLOCK", read=read_fp8, size=(32, 64)),
    "autoround-as-fp8-block": dict(format="fp8", scheme="FP8_BLOCK", read=read_fp8, size=(32, 64)),
}

if __name__ == "__main__":
    for name in sys.argv[2:] or CASES:
        write(name, **CASES[name])
