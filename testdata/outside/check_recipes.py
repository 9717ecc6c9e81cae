#!/usr/bin/env python3
"""Holds what tensormap quantizes by recipe against llama.cpp's own llama_model_quantize.

    pip install numpy==2.4.6 gguf==0.19.0 cffi llama-cpp-py-sync==0.11739   # its libllama wants glibc 2.38
    python testdata/outside/check_recipes.py TENSORMAP   # make outside runs it

Models of many architectures, with small random matrices, are quantized by both, with and without an importance matrix, and split, merged,
quantized again and with types by name. Types, bytes and metadata must be the same. The exit status is 1 at a difference.
"""

import ctypes
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile

try:
    import gguf
    import numpy as np

    library = pathlib.Path(importlib.util.find_spec("llama_cpp_py_sync").origin).parent
    for name in ("ggml-base", "ggml-cpu", "ggml-rpc", "ggml", "llama"):
        llama = ctypes.CDLL(str(library / f"lib{name}.so.0"), mode=ctypes.RTLD_GLOBAL)
except (ImportError, AttributeError, OSError) as err:
    print(f"SKIPPED {sys.argv[0]}: {err}")
    sys.exit(0)


class Params(ctypes.Structure):  # llama.h, llama_model_quantize_params
    _fields_ = [(n, ctypes.c_int32) for n in ("nthread", "ftype", "output_type", "embedding_type")]
    _fields_ += [(n, ctypes.c_bool) for n in ("allow_requantize", "quantize_output", "only_copy", "pure", "keep_split", "dry_run")]
    _fields_ += [(n, ctypes.c_void_p) for n in ("imatrix", "kv_overrides", "types", "prune_layers")]
    _fields_ += [("max_buf_size", ctypes.c_size_t)]


class Weights(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("data", ctypes.c_void_p), ("size", ctypes.c_size_t)]


class Type(ctypes.Structure):
    _fields_ = [("pattern", ctypes.c_char_p), ("type", ctypes.c_int32)]


LOG_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
quiet = LOG_CALLBACK(lambda level, text, data: None)
llama.llama_log_set.argtypes = [LOG_CALLBACK, ctypes.c_void_p]
llama.llama_log_set(quiet, None)
llama.llama_model_quantize_default_params.restype = Params
llama.llama_model_quantize.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.POINTER(Params)]
llama.llama_model_quantize.restype = ctypes.c_uint32
llama.llama_backend_init()

FILE_TYPES = {  # llama.h, enum llama_ftype
    "f16": 1, "q4_0": 2, "q4_1": 3, "q8_0": 7, "q5_0": 8, "q5_1": 9, "q2_k": 10, "q3_k_s": 11, "q3_k_m": 12, "q3_k": 12, "q3_k_l": 13,
    "q4_k_s": 14, "q4_k_m": 15, "q4_k": 15, "q5_k_s": 16, "q5_k_m": 17, "q5_k": 17, "q6_k": 18, "q2_k_s": 21, "iq4_nl": 25, "iq4_xs": 30,
    "bf16": 32, "mxfp4_moe": 38,
}  # fmt: skip
FEW = ("f16", "q2_k", "q3_k_s", "q3_k_m", "q4_k_m", "q5_k_s", "iq4_xs", "mxfp4_moe")
random = np.random.default_rng(7)
compared = differences = 0


def quantize(source, out, recipe, importance=None, types=(), keep_split=False):
    p = llama.llama_model_quantize_default_params()
    p.nthread, p.ftype, p.allow_requantize, p.keep_split = 1, FILE_TYPES[recipe], True, keep_split
    weights = (Weights * (len(importance or ()) + 1))()
    for i, (name, x) in enumerate((importance or {}).items()):
        weights[i] = Weights(name.encode(), x.ctypes.data, x.size)
    patterns = (Type * (len(types) + 1))()
    for i, (pattern, t) in enumerate(types):
        patterns[i] = Type(pattern.encode(), t)
    p.imatrix = ctypes.cast(weights, ctypes.c_void_p) if importance else None
    p.types = ctypes.cast(patterns, ctypes.c_void_p) if types else None
    if llama.llama_model_quantize(os.fsencode(source), os.fsencode(out), ctypes.byref(p)):
        sys.exit(f"llama.cpp does not quantize {source} to {recipe}")


def tensormap(*args):
    env = {k: v for k, v in os.environ.items() if not k.startswith("LD_")}
    p = subprocess.run([sys.argv[1], *map(str, args)], capture_output=True, text=True, env=env)
    if p.returncode:
        sys.exit(f"{' '.join(map(str, args))}: {p.stderr}")


def read(path):
    r = gguf.GGUFReader(path)
    fields = {k: (f.types, f.contents()) for k, f in r.fields.items() if not k.startswith("GGUF.")}
    return fields, {t.name: (t.tensor_type.name, t.shape.tolist(), t.data.tobytes()) for t in r.tensors}


def compare(ours, theirs, *what):
    global compared, differences
    compared += 1
    (fields, tensors), (want_fields, want) = read(ours), read(theirs)
    wrong = [f"{n} is {tensors.get(n, ['missing'])[0]}, theirs {want[n][0]}" for n in want if tensors.get(n) != want[n]]
    wrong += [f"{k} is {fields.get(k)}, theirs {want_fields.get(k)}" for k in {*fields, *want_fields} if fields.get(k) != want_fields.get(k)]
    if wrong or len(tensors) != len(want):
        differences += 1
        print("DIFFERENT:", *what, *wrong[:5], sep="\n    ")


def finish(w):
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def write_model(path, arch, layers, names, heads=32, kv=8, experts=0, keys=(), tied=False, columns=256):
    w = gguf.GGUFWriter(path, arch)
    w.add_context_length(128), w.add_embedding_length(columns), w.add_block_count(layers), w.add_feed_forward_length(512)
    w.add_layer_norm_rms_eps(1e-5), w.add_layer_norm_eps(1e-5), w.add_vocab_size(4)
    if heads:
        w.add_head_count(heads)
    if kv:
        w.add_head_count_kv(kv)
    if experts:
        w.add_expert_count(experts), w.add_expert_used_count(2)
    for key, *value in keys:
        w.add_key_value(f"{arch}.{key}", *value)
    shapes = {"token_embd.weight": (4, columns), "output_norm.weight": (columns,)} | ({} if tied else {"output.weight": (4, columns)})
    shapes |= {name.format(i): shape for i in range(layers) for name, shape in names}
    for name, shape in shapes.items():
        w.add_tensor(name, random.standard_normal(shape, dtype="f4"))
    finish(w)
    return {n: random.random(s[-1] * (s[0] if len(s) == 3 else 1), dtype="f4") + 0.01 for n, s in shapes.items() if len(s) > 1 and "blk." in n}


def write_importance(path, importance, shapes):
    w = gguf.GGUFWriter(path, "")
    w.kv_data[0].pop("general.architecture", None)
    w.add_type("imatrix"), w.add_array("imatrix.datasets", ["random"]), w.add_uint32("imatrix.chunk_count", 1), w.add_uint32("imatrix.chunk_size", 1)
    for name, x in importance.items():
        matrices = x.size // shapes[name][1][0]
        w.add_tensor(name + ".in_sum2", x.reshape(matrices, -1)), w.add_tensor(name + ".counts", np.ones((matrices, 1), "f4"))
    finish(w)


def layer(**shapes):
    return [(f"blk.{{}}.{name}.weight", shape) for name, shape in shapes.items()]


def with_biases(names):
    return names + [(name.replace("weight", "bias"), shape[:1]) for name, shape in names if len(shape) > 1]


M, DOWN, U32, GGML = (2, 256), (2, 512), gguf.GGUFValueType.UINT32, gguf.GGMLQuantizationType
ATTENTION = layer(attn_norm=(256,), attn_q=M, attn_k=M, attn_v=M, attn_output=M)
DENSE = ATTENTION + layer(ffn_up=M, ffn_gate=M, ffn_down=DOWN)
FUSED = layer(attn_norm=(256,), attn_qkv=M, attn_output=M, ffn_up=M, ffn_down=DOWN)
EXPERTS = ATTENTION + layer(ffn_gate_inp=(4, 256), ffn_up_exps=(4, 2, 256), ffn_gate_exps=(4, 2, 256), ffn_down_exps=(4, 2, 512), ffn_down_shexp=M)
MAMBA = layer(ssm_in=M, ssm_conv1d=(256, 4), ssm_x=M, ssm_dt=(256, 32), ssm_out=M) + [("blk.{}.ssm_a", (256, 16)), ("blk.{}.ssm_d", (256,))]
SSM = [("ssm.conv_kernel", 4, U32), ("ssm.inner_size", 256, U32), ("ssm.state_size", 16, U32), ("ssm.time_step_rank", 16, U32)]
T5 = [(f"{side}.{name}", shape) for side in ("dec", "enc") for name, shape in DENSE] + [("enc.blk.{}.attn_rel_b.weight", M)]
MODELS = {
    "llama": dict(arch="llama", layers=32, names=DENSE),
    "tied": dict(arch="llama", layers=13, names=DENSE, tied=True, kv=32),
    "heads by layer": dict(arch="llama", layers=4, names=DENSE, kv=[8, 4, 8, 8]),
    "odd rows": dict(arch="llama", layers=10, names=layer(attn_q=M, attn_v=(2, 288), ffn_up=(2, 40), ffn_down=(2, 320)), columns=384),
    "mixtral": dict(arch="llama", layers=16, names=EXPERTS, experts=8),
    "qwen3moe": dict(arch="qwen3moe", layers=16, names=EXPERTS, experts=4, keys=[("expert_feed_forward_length", 512, U32)]),
    "falcon": dict(arch="falcon", layers=20, names=with_biases(FUSED), heads=71, kv=1),
    "gpt2": dict(arch="gpt2", layers=24, names=with_biases(FUSED), kv=0),
    "starcoder2": dict(arch="starcoder2", layers=16, names=with_biases(DENSE)),
    "bert": dict(arch="bert", layers=12, names=with_biases(DENSE), kv=0, tied=True, keys=[("attention.causal", False, gguf.GGUFValueType.BOOL)]),
    "mamba": dict(arch="mamba", layers=8, names=MAMBA, heads=0, kv=0, keys=SSM),
    "t5": dict(arch="t5", layers=12, names=T5, kv=32, keys=[("attention.relative_buckets_count", 32, U32)]),
    "llama of 65 billion": dict(arch="llama", layers=80, names=DENSE, heads=64, kv=0),
} | {f"{arch} of {n} layers": dict(arch=arch, layers=n, names=DENSE, heads=64) for arch, n in [("llama", 80), ("qwen2", 80), ("deci", 80), ("olmo", 80), ("jais2", 68), ("qwen3", 80)]}

with tempfile.TemporaryDirectory() as tmp:
    os.chdir(tmp)
    for model, how in MODELS.items():
        importance = write_model("m.gguf", **how)
        write_importance("i.gguf", importance, read("m.gguf")[1])
        for recipe in FILE_TYPES if model == "llama" else FEW:
            for weighed in (False, True) if recipe not in ("f16", "bf16") else (False,):
                if recipe == "q2_k_s" and not weighed:
                    continue  # llama.cpp wants it so
                quantize("m.gguf", "theirs.gguf", recipe, importance if weighed else None)
                tensormap("convert", "m.gguf", "ours.gguf", "--dtype", recipe, *(["--imatrix", "i.gguf"] if weighed else []))
                compare("ours.gguf", "theirs.gguf", model, recipe, "by importance" if weighed else "")
    write_model("m.gguf", **MODELS["starcoder2"])
    tensormap("split", "m.gguf", "s.gguf", "--shard-size", "100KB")
    first = min(pathlib.Path().glob("s-*.gguf"))
    quantize(first, "theirs.gguf", "q4_k_m")
    tensormap("convert", first, "ours.gguf", "--dtype", "q4_k_m")
    compare("ours.gguf", "theirs.gguf", "a split of ours")
    quantize(first, "kept", "q4_k_m", keep_split=True)
    tensormap("merge", min(pathlib.Path().glob("kept-*.gguf")), "ours.gguf")
    compare("ours.gguf", "theirs.gguf", "a split of theirs, merged")
    types = {"attn_v": GGML.Q8_0, "ffn_up": GGML.Q5_0, "output": GGML.Q4_0}
    quantize("m.gguf", "theirs.gguf", "q4_k_m", types=list(types.items()))
    tensormap("convert", "m.gguf", "ours.gguf", "--dtype", "q4_k_m", *(a for n, t in types.items() for a in ("--type", f"*{n}*={t.name}")))
    compare("ours.gguf", "theirs.gguf", "types by name")
    for was, becomes in (("q8_0", "q4_k_m"), ("q4_k_m", "q8_0"), ("q4_k_m", "f16"), ("f16", "q6_k"), ("bf16", "q5_k_m")):
        tensormap("convert", "m.gguf", "was.gguf", "--dtype", was)
        quantize("was.gguf", "theirs.gguf", becomes)
        tensormap("convert", "was.gguf", "ours.gguf", "--dtype", becomes)
        compare("ours.gguf", "theirs.gguf", was, "to", becomes)

print(f"{compared} files quantized as llama.cpp does, {differences} differences")
sys.exit(differences > 0)
