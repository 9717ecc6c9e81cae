#!/usr/bin/env python3
"""Writes the GGUF files of this folder, and beside each a JSON file that says what a reader
must find in it.

What the Python package gguf (by the authors of ggml) can write, its GGUFWriter writes, and
its GGUFReader and gguf.quants say what is in it. The rest (versions 1 and 2, what is odd,
what is damaged) is assembled here field by field from the tables of ggml's docs/gguf.md.
Nothing here shares code with the Go packages that are tested against it.

Run it in this folder; it writes the same bytes each time:

    pip install gguf==0.19.0 numpy==2.4.6
    python gen_gguf.py
"""

import hashlib
import json
import logging
import math
import os
import shutil
import struct
import subprocess
import sys

import numpy as np
import gguf
from gguf import GGMLQuantizationType as Q, GGUFValueType as V

logging.disable()  # GGUFWriter warns of what is meant here

# id, elements of a block, bytes of a block: the types that gguf 0.19.0 has not, or has with
# another size than ggml.
OWN_TYPES = {"Q8_1": (9, 32, 36), "Q2_0": (42, 64, 18)}

NATURAL = {"F16": 2, "BF16": 2, "I16": 2, "F32": 4, "I32": 4, "F64": 8, "I64": 8}  # alignment of numbers; blocks are bytes

MOST_HEX = 64  # values up to which f32_hex is written; f32_sha256 from there on


# --- descriptions

def sha(b):
    return hashlib.sha256(b).hexdigest()


def number(x, single=False):
    """x as JSON can hold it. A binary32 gets the shortest decimal that is it."""
    if isinstance(x, bool) or isinstance(x, int):
        return x
    if math.isnan(x):
        return "NaN"
    if math.isinf(x):
        return "Infinity" if x > 0 else "-Infinity"
    return float(str(np.float32(x))) if single else x


def type_info(dtype):
    if dtype in OWN_TYPES:
        return OWN_TYPES[dtype]
    q = Q[dtype]
    return (int(q), *gguf.GGML_QUANT_SIZES[q])


def bits(blocks, width):
    """The little-endian numbers of so many bits that rows of bytes hold."""
    per = 8 // width
    q = blocks[:, :, None] >> (np.arange(per, dtype=np.uint8) * width) & (2**width - 1)
    return q.reshape(len(blocks), -1).astype(np.float32)


def half(blocks, at=0):
    return blocks[:, at:at + 2].copy().view("<f2").astype(np.float32)


# What gguf.quants has not, after the formulas of ggml (ggml-quants.c): a scale d, and
#   Q8_1   a sum that is not used, then integers q: q d
#   Q8_K   integers q: q d, where d is a binary32
#   Q1_0   a bit an element: d or -d
#   Q2_0   two bits an element: (q - 1) d
OWN_VALUES = {
    "Q8_1": lambda b: half(b) * b[:, 4:].copy().view(np.int8).astype(np.float32),
    "Q8_K": lambda b: b[:, :4].copy().view("<f4") * b[:, 4:260].copy().view(np.int8).astype(np.float32),
    "Q1_0": lambda b: np.where(bits(b[:, 2:], 1) == 1, half(b), -half(b)),
    "Q2_0": lambda b: (bits(b[:, 2:], 2) - np.float32(1)) * half(b),
}


def floats(dtype, b):
    """The values of stored elements, as little-endian binary32."""
    plain = {"F32": "<f4", "F16": "<f2", "F64": "<f8", "I8": "<i1", "I16": "<i2", "I32": "<i4", "I64": "<i8"}
    with np.errstate(over="ignore", invalid="ignore"):
        if dtype in plain:
            v = np.frombuffer(b, plain[dtype]).astype("<f4")
        elif dtype in OWN_VALUES:
            v = OWN_VALUES[dtype](np.frombuffer(b, np.uint8).reshape(-1, type_info(dtype)[2]))
        else:
            rows = np.frombuffer(b, np.uint8).reshape(1, -1)
            v = gguf.quants.dequantize(rows, Q[dtype])
    return np.ascontiguousarray(v, "<f4").tobytes()


def describe_tensor(name, dtype, shape, offset, data):
    t = {"name": name, "dtype": dtype, "shape": [int(n) for n in shape], "offset": int(offset),
         "stored": len(data), "raw": len(data), "encoding": "raw", "zero_copy": offset % NATURAL.get(dtype, 1) == 0,
         "stored_sha256": sha(data), "raw_sha256": sha(data)}
    f = floats(dtype, data)
    if len(f) <= 4 * MOST_HEX:
        t["f32_hex"] = f.hex()
    else:
        t["f32_sha256"] = sha(f)
    return t


def read_back(path):
    """Metadata and tensors of a file as gguf's own reader sees them."""
    r = gguf.GGUFReader(path)
    metadata = {}
    for field in r.fields.values():
        if field.name.startswith("GGUF."):  # the header's fields
            continue
        single = field.types[-1] == V.FLOAT32
        v = field.contents()
        if isinstance(v, list):
            v = [x if isinstance(x, str) else number(x, single) for x in v]
        elif not isinstance(v, str):
            v = number(v, single)
        metadata[field.name] = v
    tensors = []
    for t in r.tensors:
        raw = bytes(r.data[t.data_offset:t.data_offset + t.n_bytes])
        tensors.append(describe_tensor(t.name, t.tensor_type.name, t.shape.tolist()[::-1], t.data_offset, raw))
    return metadata, tensors


def save(name, description):
    with open(name, "w", encoding="utf-8") as f:
        json.dump(description, f, indent=1, ensure_ascii=False)
        f.write("\n")


def description(path, version, metadata, tensors, findings=()):
    return {"file": path, "format": "gguf", "version": str(version), "size": os.path.getsize(path),
            "metadata": metadata, "tensors": tensors, "verify": "ok", "findings": list(findings)}


def write(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


# --- splits

def describe_split(first, parts):
    """The whole model, beside its first part: every tensor says in which of the files it is."""
    files, tensors, metadata = [], [], None
    for i, part in enumerate(parts):
        md, ts = read_back(part)
        metadata = md if i == 0 else metadata
        files.append({"path": part, "size": os.path.getsize(part), "metadata": md})
        tensors += [{**t, "file": i} for t in ts]
    d = description(first, 3, metadata, tensors)
    d["sharded"] = True
    d["files"] = files
    save(first.replace(".gguf", ".json"), d)


def splits():
    rng = np.random.default_rng(1)

    def fill(w):
        w.add_name("a model in parts")
        w.add_block_count(2)
        for i in range(2):
            w.add_tensor(f"blk.{i}.attn_norm.weight", rng.standard_normal(6).astype(np.float32))
            w.add_tensor(f"blk.{i}.ffn_up.weight", gguf.quants.quantize(rng.standard_normal((3, 32)).astype(np.float32), Q.Q8_0), raw_dtype=Q.Q8_0)
        w.add_tensor("output.weight", rng.standard_normal((2, 5)).astype(np.float16))
        write(w)

    fill(gguf.GGUFWriter("split.gguf", "llama", split_max_tensors=2))
    describe_split("split-00001-of-00003.gguf", [f"split-0000{i}-of-00003.gguf" for i in (1, 2, 3)])
    # The first part holds the metadata alone, as gguf-split --no-tensor-first-split has it.
    fill(gguf.GGUFWriter("headfirst.gguf", "llama", split_max_tensors=9, small_first_shard=True))
    describe_split("headfirst-00001-of-00002.gguf", [f"headfirst-0000{i}-of-00002.gguf" for i in (1, 2)])



# --- what GGUFWriter writes

def written(name, fill, arch="test", findings=(), metadata={}, shapes={}, **options):
    """metadata and shapes are what GGUFReader does not tell: it flattens arrays of arrays."""
    path = name + ".gguf"
    w = gguf.GGUFWriter(path, arch, **options)
    fill(w)
    write(w)
    md, tensors = read_back(path)
    for t in tensors:
        t["shape"] = shapes.get(t["name"], t["shape"])
    save(name + ".json", description(path, 3, {**md, **metadata}, tensors, findings))


def sane_scales(blocks, q):
    """Random blocks with scales that are finite and of a size that models have."""
    at = {Q.Q2_K: (80, 82), Q.Q3_K: (108,), Q.Q4_K: (0, 2), Q.Q5_K: (0, 2), Q.Q6_K: (208,), Q.TQ1_0: (52,), Q.TQ2_0: (64,)}
    rng = np.random.default_rng(int(q))

    def d(dtype):
        return rng.uniform(-0.02, 0.02, len(blocks)).astype(dtype)

    if q == Q.Q8_K:  # a binary32
        blocks[:, :4] = d("<f4").view(np.uint8).reshape(-1, 4)
    elif q == Q.IQ1_M:  # in the upper nibbles of four 16-bit numbers: here its uppermost
        blocks[:, 55] = blocks[:, 55] & 0x0f | 0x20
    elif q == Q.NVFP4:  # four of 8 bits
        blocks[:, :4] &= 0x3f
    else:
        for i in at.get(q, (0,)):
            blocks[:, i:i + 2] = d("<f2").view(np.uint8).reshape(-1, 2)
    return blocks


def types(w):
    """A tensor of every type that gguf has: numbers, blocks that it quantizes, and of the others random blocks."""
    rng = np.random.default_rng(2)
    w.add_tensor("f32", np.array([[0, -0.0, 1.5], [np.inf, np.finfo(np.float32).smallest_subnormal, -np.pi]], np.float32))
    w.add_tensor("f16", np.array([[0, -2], [6e-8, np.inf], [65504, 0.1]], np.float16))
    w.add_tensor("bf16", gguf.quants.quantize(rng.standard_normal((2, 4)).astype(np.float32), Q.BF16), raw_dtype=Q.BF16)
    w.add_tensor("f64", np.array([1e300, -1 / 3, 5e-324, 0.1]))
    for bits in (8, 16, 32, 64):
        t = np.dtype(f"i{bits // 8}")
        w.add_tensor(f"i{bits}", np.array([np.iinfo(t).min, -1, 0, 16777217 % 2**(bits - 1), np.iinfo(t).max], t))
    for q, (elems, size) in gguf.GGML_QUANT_SIZES.items():
        if q.name in OWN_TYPES or elems == 1:
            continue
        try:
            data = gguf.quants.quantize(rng.standard_normal((2, 2 * elems)).astype(np.float32), q)
        except NotImplementedError:
            blocks = rng.integers(0, 256, (4, size), np.uint8)
            data = sane_scales(blocks, q).reshape(2, 2 * size)
        w.add_tensor(q.name.lower(), data, raw_dtype=q)


def blocks(w):
    """The types that gguf-convert-endian knows."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((2, 512)).astype(np.float32)
    w.add_tensor("f32", x)
    w.add_tensor("f16", x.astype(np.float16))
    w.add_tensor("bf16", gguf.quants.quantize(x, Q.BF16), raw_dtype=Q.BF16)
    for q in (Q.Q4_0, Q.Q8_0, Q.MXFP4):
        w.add_tensor(q.name.lower(), gguf.quants.quantize(x, q), raw_dtype=q)
    for q in (Q.Q4_K, Q.Q6_K):
        size = gguf.GGML_QUANT_SIZES[q][1]
        w.add_tensor(q.name.lower(), sane_scales(rng.integers(0, 256, (4, size), np.uint8), q).reshape(2, 2 * size), raw_dtype=q)


def values(w):
    """Every type of value, and arrays of each, at their limits."""
    ints = {V.UINT8: (0, 255), V.INT8: (-128, 127), V.UINT16: (0, 65535), V.INT16: (-32768, 32767), V.UINT32: (0, 2**32 - 1),
            V.INT32: (-2**31, 2**31 - 1), V.UINT64: (0, 2**64 - 1), V.INT64: (-2**63, 2**63 - 1)}
    for t, (least, most) in ints.items():
        w.add_key_value(f"{t.name.lower()}.least", least, t)
        w.add_key_value(f"{t.name.lower()}.most", most, t)
        w.add_key_value(f"{t.name.lower()}.array", [most, 1, least], V.ARRAY, t)
    for t in (V.FLOAT32, V.FLOAT64):
        for name, v in {"third": 1 / 3, "nan": math.nan, "inf": math.inf, "neginf": -math.inf, "zero": -0.0}.items():
            w.add_key_value(f"{t.name.lower()}.{name}", v, t)
        w.add_key_value(f"{t.name.lower()}.array", [0.1, -math.inf, 1e-40, math.nan, 12345678.0], V.ARRAY, t)
    w.add_bool("bool.true", True)
    w.add_bool("bool.false", False)
    w.add_key_value("bool.array", [True, False, True], V.ARRAY, V.BOOL)
    w.add_key_value("string.empty", "", V.STRING)
    w.add_string("string.text", "na\u00efve \u65e5\u672c\u8a9e \U0001f642 \"quoted\"\n\t\\")
    w.add_array("string.array", ["", "a", "\u0120the", "\u2581", "<0x0A>", ""])
    w.add_string("long", "x" * 300)


def shapes(w):
    rng = np.random.default_rng(3)
    for name, shape in {"scalar": (), "one": (1,), "vector": (7,), "matrix": (3, 5), "cube": (2, 3, 4), "four": (2, 3, 4, 5),
                        "ones": (1, 1, 1, 2), "empty": (0, 4)}.items():
        w.add_tensor(name, rng.standard_normal(shape).astype(np.float32).reshape(shape))
    w.add_tensor("blocks.four", gguf.quants.quantize(rng.standard_normal((2, 1, 2, 64)).astype(np.float32), Q.Q4_0), raw_dtype=Q.Q4_0)
    w.add_tensor("n" * 63, np.ones(2, np.float16))
    w.add_tensor("n\u00e4me", np.ones(3, np.float16))


def aligned(to):
    def fill(w):
        w.add_custom_alignment(to)
        w.add_tensor("a", np.arange(3, dtype=np.int8))
        w.add_tensor("b", np.arange(5, dtype=np.float64))
        w.add_tensor("c", np.arange(2, dtype=np.int16))
    return fill


LONG = "model.diffusion_model." + "transformer_blocks.0." * 4 + "weight"  # stable-diffusion.cpp has room for 127 bytes
ARRAYS = [[1, 2, 3], [4]], [["a", ""], ["b"]], [[[True], [False, True]]]
COMFY = {"conv.weight": [2, 3, 4, 5, 6], "odd.weight": [16, 4, 2, 4], "rows.weight": [2, 1, 32]}


def large(w):
    """What ggml refuses and others write: a long name, five dimensions, arrays of arrays."""
    for i, v in enumerate(ARRAYS):
        w.add_key_value(f"arrays.{i}", v, V.ARRAY)
    w.add_uint8("after", 7)
    w.add_tensor(LONG, np.arange(6, dtype=np.float32).reshape(2, 3))
    w.add_tensor("patch.weight", np.arange(2 * 3 * 1 * 2 * 2, dtype=np.float16).reshape(2, 3, 1, 2, 2))


def comfy(w):
    """Tensors whose shape stands in the metadata, as ComfyUI-GGUF's convert.py writes them. One has rows that are no whole blocks."""
    rng = np.random.default_rng(8)
    for name, shape in COMFY.items():
        w.add_array(f"comfy.gguf.orig_shape.{name}", shape)
    w.add_tensor("conv.weight", np.arange(720, dtype=np.float32).reshape(6, 120))
    w.add_tensor("odd.weight", gguf.quants.quantize(rng.standard_normal((2, 256)).astype(np.float32), Q.Q8_0), raw_dtype=Q.Q8_0)
    w.add_tensor("rows.weight", gguf.quants.quantize(rng.standard_normal((64,)).astype(np.float32), Q.Q8_0), raw_dtype=Q.Q8_0)
    w.add_tensor("other.weight", np.ones(2, np.float32))


def llama(w):
    """A language model in small, with all that a summary shows."""
    rng = np.random.default_rng(4)
    w.add_name("Tiny Llama")
    w.add_type("model")
    w.add_size_label("1K")
    w.add_license("mit")
    w.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0)
    w.add_quantization_version(2)
    w.add_context_length(4096)
    w.add_embedding_length(32)
    w.add_block_count(2)
    w.add_feed_forward_length(64)
    w.add_head_count(4)
    w.add_head_count_kv([2, 1])
    w.add_layer_norm_rms_eps(1e-5)
    w.add_rope_freq_base(500000.0)
    w.add_tokenizer_model("llama")
    w.add_token_list(["<unk>", "<s>", "</s>", "\u2581the", "\u2581of", "<0x0A>"])
    w.add_token_scores([0.0, 0.0, 0.0, -1.5, -2.25, 0.0])
    w.add_token_types([2, 3, 3, 1, 1, 6])
    w.add_bos_token_id(1)
    w.add_add_bos_token(True)
    w.add_chat_template("{% for m in messages %}{{ m.content }}{% endfor %}")
    w.add_tensor("token_embd.weight", gguf.quants.quantize(rng.standard_normal((6, 32)).astype(np.float32), Q.Q8_0), raw_dtype=Q.Q8_0)
    for i in range(2):
        w.add_tensor(f"blk.{i}.attn_norm.weight", np.ones(32, np.float32))
        w.add_tensor(f"blk.{i}.attn_q.weight", gguf.quants.quantize(rng.standard_normal((32, 32)).astype(np.float32), Q.Q8_0), raw_dtype=Q.Q8_0)
    w.add_tensor("output_norm.weight", np.ones(32, np.float32))


def vocabulary(w):
    """No tensors, and more strings than a reader looks at one by one."""
    rng = np.random.default_rng(5)
    tokens = ["".join(chr(c) for c in rng.integers(97, 123, n)) for n in rng.integers(1, 12, 6000)]
    w.add_token_list(tokens)


# --- what is assembled by hand

class Hand:
    """A file field by field. at tells where each field was put: ("kv", 1, "value_type")."""

    def __init__(self, version=3, align=32):
        self.version, self.align = version, align
        self.kvs, self.tensors = [], []

    def n(self, v):  # a count or a length
        return struct.pack("<I" if self.version == 1 else "<Q", v)

    def str(self, s):
        b = s if isinstance(s, bytes) else s.encode()
        return self.n(len(b)) + b

    def value(self, t, v, elem=None):
        if t == V.STRING:
            return self.str(v)
        if t == V.ARRAY:
            return struct.pack("<I", elem) + self.n(len(v)) + b"".join(self.value(elem, x) for x in v)
        return struct.pack("<" + {V.UINT8: "B", V.INT8: "b", V.UINT16: "H", V.INT16: "h", V.UINT32: "I", V.INT32: "i", V.FLOAT32: "f",
                                  V.BOOL: "?", V.UINT64: "Q", V.INT64: "q", V.FLOAT64: "d"}[t], v)

    def kv(self, key, t, v, elem=None, raw=None):
        """raw replaces the value's bytes."""
        self.kvs.append((key, t, self.value(t, v, elem) if raw is None else raw, v))
        return self

    def tensor(self, name, dtype, shape, data, offset=None, id=None, dims=None):
        """offset, id and dims replace what would be right."""
        self.tensors.append((name, dtype, shape, data, offset, type_info(dtype)[0] if id is None else id, dims))
        return self

    def build(self, counts=None, pad=True, behind=b""):
        out, self.at = bytearray(), {}

        def put(b, *name):
            self.at[name] = len(out)
            out.extend(b)

        put(b"GGUF", "magic")
        put(struct.pack("<I", self.version), "version")
        tensors, kvs = counts or (len(self.tensors), len(self.kvs))
        put(self.n(tensors), "tensor_count")
        put(self.n(kvs), "metadata_kv_count")
        for i, (key, t, value, _) in enumerate(self.kvs):
            put(self.str(key), "kv", i, "key")
            put(struct.pack("<I", t), "kv", i, "value_type")
            put(value, "kv", i, "value")
        offset, data = 0, bytearray()
        self.placed = []
        for i, (name, dtype, shape, b, forced, id, dims) in enumerate(self.tensors):
            offset = len(data) if forced is None else forced
            put(self.str(name), "tensor", i, "name")
            dims = list(shape)[::-1] if dims is None else dims
            put(struct.pack("<I", len(dims)), "tensor", i, "n_dimensions")
            put(b"".join(self.n(d) for d in dims), "tensor", i, "dimensions")
            put(struct.pack("<I", id), "tensor", i, "type")
            put(struct.pack("<Q", offset), "tensor", i, "offset")
            if offset < 1 << 20:
                data.extend(bytes(max(0, offset + len(b) - len(data))))
                data[offset:offset + len(b)] = b
            if pad or i + 1 < len(self.tensors):
                data.extend(bytes(-len(data) % self.align))
            self.placed.append(offset)
        if self.tensors:
            out.extend(bytes(-len(out) % self.align))
        self.data = len(out)
        return bytes(out + data + behind)

    def describe(self, path, findings=()):
        def shown(t, v):
            if isinstance(v, list):
                return [shown(t, x) for x in v]
            return v if isinstance(v, str) else number(v, t == V.FLOAT32)
        metadata = {key: shown(t, v) for key, t, _, v in self.kvs}
        tensors = [describe_tensor(name, dtype, shape, self.data + at, b)
                   for (name, dtype, shape, b, *_), at in zip(self.tensors, self.placed)]
        return description(path, self.version, metadata, tensors, findings)


def by_hand(name, h, findings=(), **options):
    path = name + ".gguf"
    with open(path, "wb") as f:
        f.write(h.build(**options))
    d = h.describe(path, findings)
    if h.version in (2, 3) and not any(t[1] in OWN_TYPES for t in h.tensors) and "empty" not in name:
        assert read_back(path) == (d["metadata"], d["tensors"]), name  # gguf reads it so too
    save(name + ".json", d)


def f32(*v):
    return np.array(v, "<f4").tobytes()


def old(version):
    rng = np.random.default_rng(6)
    q = gguf.quants.quantize(rng.standard_normal((2, 32)).astype(np.float32), Q.Q4_0).tobytes()
    h = Hand(version)
    h.kv("general.architecture", V.STRING, "llama").kv("general.alignment", V.UINT32, 32)
    h.kv("tokens", V.ARRAY, ["a", "bc", "def"], V.STRING).kv("scores", V.ARRAY, [0.5, -1.0, 2.0], V.FLOAT32)
    h.kv("flag", V.BOOL, True).kv("number", V.INT16, -2)
    if version > 1:  # which brought these
        h.kv("large", V.UINT64, 2**63).kv("precise", V.FLOAT64, 0.1)
    return h.tensor("a", "F32", (2, 3), f32(1, 2, 3, 4, 5, 6)).tensor("b", "Q4_0", (2, 32), q).tensor("c", "F16", (3,), bytes(6))


def odd():
    """Files that can be read and are not as ggml would write them."""
    one, two = f32(1, 2), f32(3, 4, 5)
    newer = Hand()
    for name, (_, elems, size) in OWN_TYPES.items():
        blocks = np.random.default_rng(7).integers(0, 256, (4, size), np.uint8)
        blocks[:, :2] = np.array([0.5, -0.25, 1, 0.001], "<f2").view(np.uint8).reshape(4, 2)
        newer.tensor(name.lower(), name, (2, 2 * elems), blocks.tobytes())
    by_hand("newer", newer)
    by_hand("unpadded", Hand().kv("general.architecture", V.STRING, "x").tensor("a", "F32", (2,), one).tensor("b", "F32", (3,), two), pad=False)
    by_hand("emptyarrays", Hand().kv("strings", V.ARRAY, [], V.STRING).kv("numbers", V.ARRAY, [], V.INT32).kv("last", V.UINT8, 7))
    by_hand("nothing", Hand())
    by_hand("gap", Hand().tensor("a", "F32", (2,), one).tensor("b", "F32", (3,), two, offset=96), ["offset", "padding"])
    by_hand("reversed", Hand().tensor("b", "F32", (3,), two, offset=32).tensor("a", "F32", (2,), one, offset=0), ["offset"])
    by_hand("trailing", Hand().tensor("a", "F32", (2,), one), ["tensor_data"], behind=b"more")
    by_hand("longname", Hand().tensor("n" * 64, "F32", (2,), one), ["name"])
    by_hand("unicodekey", Hand().kv("cl\u00e9", V.BOOL, False).tensor("a", "F32", (2,), one), ["key"])


def refused(name, b, field, offset):
    path = name + ".gguf"
    with open(path, "wb") as f:
        f.write(b)
    save(name + ".json", {"file": path, "format": "gguf", "size": len(b), "error": {"field": field, "offset": offset}})


def refused_at(name, h, *where, field=None, plus=0, **options):
    b = h.build(**options)
    refused("bad-" + name, b, field or where[-1], h.at[where] + plus)


def damaged():
    one = f32(1, 2)

    def plain():
        return Hand().tensor("a", "F32", (2,), one)

    def kv(*args, **raw):
        return Hand().kv("first", V.BOOL, True).kv(*args, **raw).tensor("a", "F32", (2,), one)

    u64 = lambda *v: struct.pack(f"<{len(v)}Q", *v)
    u32 = lambda *v: struct.pack(f"<{len(v)}I", *v)

    refused_at("version", Hand(4), "version")
    refused("bad-short", b"GGUF", "version", 4)  # CVE-2024-39720
    refused_at("tensorcount", plain(), "tensor_count", counts=(2**64 - 1, 0))
    refused_at("kvcount", plain(), "metadata_kv_count", counts=(1, 2**64 - 1))
    # 49 bytes: a header, and one key whose array claims 2^63 strings.
    b = b"GGUF" + u32(3) + u64(0, 1, 1) + b"k" + u32(V.ARRAY, V.STRING) + u64(2**63)
    assert len(b) == 49
    refused("bad-49bytes", b, "value", 41)
    refused_at("keylength", kv(b"", V.BOOL, True), "kv", 1, "key")
    refused_at("nulkey", kv("a\0b", V.BOOL, True), "kv", 1, "key")
    refused_at("duplicatekey", kv("first", V.BOOL, False), "kv", 1, "key")
    refused_at("valuetype", kv("k", 13, None, raw=b"\0" * 8), "kv", 1, "value_type")
    refused_at("nested", kv("k", V.ARRAY, None, raw=u32(V.ARRAY) + u64(1) + u32(V.UINT8) + u64(2**63) + b"\1"), "kv", 1, "value", plus=16)
    refused_at("deep", kv("k", V.ARRAY, None, raw=(u32(V.ARRAY) + u64(1)) * 64 + u32(V.UINT8) + u64(0)), "kv", 1, "value", plus=12 * 63)
    refused_at("elementtype", kv("k", V.ARRAY, None, raw=u32(99) + u64(1) + b"\1"), "kv", 1, "value")
    refused_at("arraylength", kv("k", V.ARRAY, None, raw=u32(V.UINT64) + u64(2**61 + 1)), "kv", 1, "value", plus=4)
    refused_at("stringlength", kv("k", V.STRING, None, raw=u64(2**64 - 8)), "kv", 1, "value")
    refused_at("stringinarray", kv("k", V.ARRAY, None, raw=u32(V.STRING) + u64(2, 1) + b"x" + u64(2**63)), "kv", 1, "value", plus=21)
    for name, v in {"alignment0": 0, "alignment24": 24}.items():  # CVE-2025-0317: 0
        refused_at(name, kv("general.alignment", V.UINT32, v), "kv", 1, "value", field="general.alignment")
    refused_at("alignmenttype", kv("general.alignment", V.UINT64, 32), "kv", 1, "value_type", field="general.alignment")
    refused_at("splitno", kv("split.no", V.UINT16, 2).kv("split.count", V.UINT16, 2).kv("split.tensors.count", V.INT32, 1),
               "kv", 1, "value", field="split.no")
    refused_at("namelength", Hand().tensor("n" * 65536, "F32", (2,), one), "tensor", 0, "name")
    refused_at("duplicatename", plain().tensor("a", "F32", (2,), one), "tensor", 1, "name")
    refused_at("rank", Hand().tensor("a", "F32", (2,), one, dims=[2] + [1] * 64), "tensor", 0, "n_dimensions")
    refused_at("dimensions", Hand().tensor("a", "F32", (2,), one, dims=[2**33, 2**33]), "tensor", 0, "dimensions")
    refused_at("negative", Hand().tensor("a", "F32", (2,), one, dims=[2**64 - 1, 0]), "tensor", 0, "dimensions")
    refused_at("block", Hand().tensor("a", "Q4_0", (33,), one), "tensor", 0, "dimensions")
    for id in (4, 5, 31, 32, 33, 36, 37, 38, 43):
        refused_at(f"type{id}", Hand().tensor("a", "F32", (2,), one, id=id), "tensor", 0, "type")
    refused_at("misaligned", plain().tensor("b", "F32", (2,), one, offset=40), "tensor", 1, "offset")
    refused_at("offset", plain().tensor("b", "F32", (2,), one, offset=2**64 - 32), "tensor", 1, "offset")
    refused_at("pastend", plain().tensor("b", "F32", (64,), one), "tensor", 1, "name", field="offset")
    h = plain().tensor("b", "F32", (2,), one, offset=0)
    b = h.build()
    refused("bad-overlap", b, "offset", h.data)


def big(name):
    """Turns a copy of a file into a big-endian one, with the package's own gguf-convert-endian."""
    shutil.copy(f"{name}.gguf", f"big-{name}.gguf")
    subprocess.run([sys.executable, "-m", "gguf.scripts.gguf_convert_endian", f"big-{name}.gguf", "big"],
                   input=b"YES\n", check=True, capture_output=True)


if __name__ == "__main__":
    splits()
    written("types", types)
    written("values", values)
    written("shapes", shapes)
    for to in (1, 2, 4, 8, 256, 4096, 8192):
        written(f"align{to}", aligned(to), findings=[] if 8 <= to <= 4096 else ["general.alignment"])
    written("large", large, findings=["value"] * len(ARRAYS) + ["name", "n_dimensions"],
            metadata={f"arrays.{i}": v for i, v in enumerate(ARRAYS)})
    written("comfy", comfy, findings=["dimensions"], shapes={name: shape for name, shape in COMFY.items() if name != "odd.weight"})
    written("llama", llama, arch="llama")
    written("vocabulary", vocabulary)
    written("blocks", blocks)
    for name in ("values", "llama", "blocks"):
        big(name)
    for version in (1, 2, 3):
        by_hand(f"v{version}", old(version))
    odd()
    damaged()
