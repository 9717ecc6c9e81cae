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
import math
import os
import struct

import numpy as np
import gguf
from gguf import GGMLQuantizationType as Q, GGUFValueType as V

# The types whose values tensormap expands to float32; of the others it knows the size.
EXPANDED = {"F32", "F16", "BF16", "F64", "I8", "I16", "I32", "I64",
            "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q8_1", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K",
            "IQ4_NL", "IQ4_XS", "MXFP4"}

# id, elements of a block, bytes of a block: the types that gguf 0.19.0 has not, or has with
# another size than ggml.
OWN_TYPES = {"Q8_1": (9, 32, 36), "Q2_0": (42, 64, 18)}

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


def floats(dtype, b):
    """The values of stored elements, as little-endian binary32."""
    plain = {"F32": "<f4", "F16": "<f2", "F64": "<f8", "I8": "<i1", "I16": "<i2", "I32": "<i4", "I64": "<i8"}
    with np.errstate(over="ignore", invalid="ignore"):
        if dtype in plain:
            v = np.frombuffer(b, plain[dtype]).astype("<f4")
        elif dtype == "Q8_1":  # which gguf.quants has not: a scale, the sum (unused), 32 integers
            blocks = np.frombuffer(b, np.uint8).reshape(-1, 36)
            d = blocks[:, :2].copy().view("<f2").astype(np.float32)
            v = d * blocks[:, 4:].copy().view(np.int8).astype(np.float32)
        else:
            rows = np.frombuffer(b, np.uint8).reshape(1, -1)
            v = gguf.quants.dequantize(rows, Q[dtype])
    return np.ascontiguousarray(v, "<f4").tobytes()


def describe_tensor(name, dtype, shape, offset, data):
    t = {"name": name, "dtype": dtype, "shape": [int(n) for n in shape], "offset": int(offset),
         "stored": len(data), "raw": len(data), "encoding": "raw", "zero_copy": True,
         "stored_sha256": sha(data), "raw_sha256": sha(data)}
    if dtype not in EXPANDED:
        t["f32_hex"] = None
        return t
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


if __name__ == "__main__":
    splits()
