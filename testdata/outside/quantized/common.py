"""What the writers of testdata/quantized share: the model that all of them quantize, and how a checkpoint is stored.

Every writer is a script beside this file. Its head names the packages that it needs.

    python WRITER.py [DIRECTORY]    # testdata/quantized by default

Every run writes the same bytes with the same versions. A checkpoint is a folder:

    model.safetensors, config.json      as the writer stores them; some in shards with an index
    expected.safetensors                 the values that the reference implementation reads out of them, as F32
"""

import importlib.machinery
import importlib.util
import json
import pathlib
import sys
import types
import zlib

import numpy as np
from safetensors.numpy import save_file as save_numpy

HERE = pathlib.Path(__file__).resolve().parent
QUANTIZED = HERE.parent.parent / "quantized"

# The model: a layer, experts, an embedding; sizes that are no multiples of groups and blocks.
SHAPES = {
    "model.embed_tokens.weight": (32, 64),
    "model.layers.0.input_layernorm.weight": (64,),
    "model.layers.0.self_attn.q_proj.weight": (32, 128),
    "model.layers.0.self_attn.q_proj.bias": (32,),
    "model.layers.0.self_attn.k_proj.weight": (32, 96),
    "model.layers.0.mlp.up_proj.weight": (132, 24),
    "model.layers.0.mlp.down_proj.weight": (32, 136),
    "model.layers.0.mlp.gate.weight": (7, 33),
    "model.layers.1.mlp.experts.gate_up_proj": (3, 32, 64),
    "model.layers.1.mlp.experts.down_proj": (3, 64, 32),
    "model.layers.1.mlp.empty.weight": (0, 64),
    "model.layers.1.self_attn.v_proj.weight": (130, 130),
}
EMBED, NORM, Q, Q_BIAS, K, UP, DOWN, GATE, GATE_UP, DOWN_3D, EMPTY, V = SHAPES


def original(name):
    """The values of a tensor of the model: normal, one row much larger, one column much smaller, some zeros."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    shape = SHAPES[name]
    w = (rng.standard_normal(shape) * 0.05).astype("<f4")
    if w.ndim > 1 and w.size:
        w[..., 1, :] *= 20
        w[..., :, 2] *= 0.01
        w[..., 3, :5] = 0
    return w


def directory():
    return pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else QUANTIZED


def folder(name):
    d = directory() / name
    d.mkdir(parents=True, exist_ok=True)
    return d


def write_json(path, value):
    path.write_text(json.dumps(value, indent=1) + "\n")


def store(name, tensors, config, expected, metadata=None, shards=None, configs=None, names={}, within=0.5):
    """Writes the checkpoint called name. tensors are torch tensors by name; shards maps names to numbers of shards.
    configs are other files beside the weights. within bounds the error of quantizing, over the largest value."""
    from safetensors.torch import save_file

    d = folder(name)
    tensors = {k: t.contiguous().clone() for k, t in tensors.items()}
    metadata = {"format": "pt"} if metadata is None else metadata
    if shards is None:
        save_file(tensors, d / "model.safetensors", metadata)
    else:
        n = max(shards(k) for k in tensors)
        weight_map = {k: f"model-{shards(k):05}-of-{n:05}.safetensors" for k in tensors}
        for file in sorted(set(weight_map.values())):
            save_file({k: t for k, t in tensors.items() if weight_map[k] == file}, d / file, metadata)
        total = sum(t.numel() * t.element_size() for t in tensors.values())
        write_json(d / "model.safetensors.index.json", {"metadata": {"total_size": total}, "weight_map": weight_map})
    for file, value in {**({"config.json": config} if config is not None else {}), **(configs or {})}.items():
        write_json(d / file, value)
    store_expected(name, expected, names, within)


def store_expected(name, expected, names={}, within=0.5):
    """names are those of the checkpoint where they are not the original's."""
    arrays = {}
    for k, v in expected.items():
        v = np.ascontiguousarray(v.detach().numpy() if hasattr(v, "detach") else v)
        assert v.dtype == np.float32 and v.shape == SHAPES[k], (name, k, v.dtype, v.shape)
        worst = np.abs(v - original(k)).max(initial=0)
        assert worst <= within * np.abs(original(k)).max(initial=0), (name, k, "is off by", worst)
        arrays[names.get(k, k)] = v
    save_numpy(arrays, folder(name) / "expected.safetensors")
    print(f"{name}: {len(arrays)} weights")


def same(a, b, *where):
    """Holds two arrays of values against each other, bit for bit but for the sign of a zero."""
    a, b = (np.asarray(x.detach().float().numpy() if hasattr(x, "detach") else x, "<f4") for x in (a, b))
    assert a.shape == b.shape and (a == b).all(), (*where, np.abs(a - b).max())


def module_of(package, name):
    """Imports a module of an installed package without running the __init__ of the packages that it is in. These
    want other versions of other packages, or a graphics card."""
    parts = name.split(".")
    (place,) = importlib.util.find_spec(package).submodule_search_locations if package not in sys.modules else sys.modules[package].__path__
    for i in range(1, len(parts)):
        parent = ".".join(parts[:i])
        if parent not in sys.modules:
            m = types.ModuleType(parent)
            m.__path__ = [str(pathlib.Path(place, *parts[1:i]))]
            m.__spec__ = importlib.machinery.ModuleSpec(parent, None, is_package=True)
            sys.modules[parent] = m
    return importlib.import_module(name)


if __name__ == "__main__":
    save_numpy({k: original(k) for k in SHAPES}, folder("original") / "model.safetensors", {"format": "pt"})
    write_json(folder("original") / "config.json", {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "torch_dtype": "float32"})
    print("original: the model")
