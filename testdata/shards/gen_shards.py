"""Writes the fixtures of sharded models, and what is in them as JSON.

    pip install numpy safetensors huggingface_hub gguf
    python gen_shards.py

Three models of the same weights, each in four files and in one. SafeTensors files are
written by safetensors, split as huggingface_hub splits a state dict; GGUF files by gguf. APR2
files and manifests are put together here, from the tables of APR-FORMAT-002.
"""

import hashlib
import json
import os
import struct
import zlib

import gguf
import numpy as np
from huggingface_hub import split_state_dict_into_shards_factory
from safetensors.numpy import save_file

rng = np.random.default_rng(5)
HERE = os.path.dirname(os.path.abspath(__file__))


def weights():
    """Tensors of a small transformer, in the order of a state dict."""
    w = {"embed.weight": rng.standard_normal((32, 16)).astype("<f4")}
    for i in range(3):
        w[f"layers.{i}.attn.weight"] = rng.standard_normal((16, 16)).astype("<f2")
        w[f"layers.{i}.attn.bias"] = rng.standard_normal(16).astype("<f4")
        w[f"layers.{i}.mlp.weight"] = rng.integers(-128, 128, (8, 16)).astype("<i1")
        w[f"layers.{i}.steps"] = rng.integers(-2**40, 2**40, 3).astype("<i8")
    w["norm.weight"] = rng.standard_normal(16).astype("<f4")
    return w


WEIGHTS = weights()
DTYPES = {"float32": "F32", "float16": "F16", "int8": "I8", "int64": "I64"}
SHARDS = 4


def sha(b):
    return hashlib.sha256(b).hexdigest()


def plan():
    """The weights in four groups, as huggingface_hub makes them."""
    split = split_state_dict_into_shards_factory(
        WEIGHTS, get_storage_size=lambda t: t.nbytes, filename_pattern="model{suffix}.safetensors", max_shard_size=1150)
    assert len(split.filename_to_tensors) == SHARDS, split
    return split


def describe(name, array, offset, file=0, scale=None):
    b = array.tobytes()
    t = {"name": name, "dtype": DTYPES[str(array.dtype)], "shape": list(array.shape), "file": file, "offset": offset,
         "stored": len(b), "raw": len(b), "encoding": "raw",
         "zero_copy": offset % min(array.itemsize, 8) == 0, "stored_sha256": sha(b), "raw_sha256": sha(b)}
    values = array.astype("<f4")
    if scale is not None:
        t["scale"], t["zero_point"] = float(np.float32(scale[0])), scale[1]
        values = np.float32(scale[0]) * (array.astype(np.int64) - scale[1]).astype("<f4")
    t["f32_sha256"] = sha(values.astype("<f4").tobytes())
    return t


def save(folder, name, description):
    with open(os.path.join(folder, name + ".json"), "w", encoding="utf-8") as f:
        json.dump(description, f, indent=1)
        f.write("\n")


def size(folder, name):
    return os.path.getsize(os.path.join(folder, name))


def files(folder, names):
    return [{"path": n, "size": size(folder, n)} for n in names]


# SafeTensors


def safetensors_places(path):
    """Where each tensor is, by the header, in the header's order."""
    with open(path, "rb") as f:
        n, = struct.unpack("<Q", f.read(8))
        header = json.loads(f.read(n))
    header.pop("__metadata__", None)
    return [(name, 8 + n + t["data_offsets"][0]) for name, t in header.items()]


def make_safetensors():
    folder = os.path.join(HERE, "safetensors")
    os.chdir(folder)
    split = plan()
    for name, tensors in split.filename_to_tensors.items():
        save_file({t: WEIGHTS[t] for t in tensors}, name, metadata={"format": "pt"})
    index = {"metadata": {**split.metadata, "total_parameters": sum(w.size for w in WEIGHTS.values())},
             "weight_map": split.tensor_to_filename}
    with open("model.safetensors.index.json", "w") as f:
        json.dump(index, f, indent=2)
    save_file(WEIGHTS, "single.safetensors", metadata={"format": "pt"})
    for name in [*split.filename_to_tensors, "single.safetensors"]:
        os.chmod(name, 0o644)

    names = sorted(split.filename_to_tensors)
    tensors = [describe(t, WEIGHTS[t], at, i) for i, n in enumerate(names) for t, at in safetensors_places(n)]
    common = {"format": "safetensors", "version": "", "verify": "ok", "findings": []}
    save(folder, "model", {
        "file": "model.safetensors.index.json", **common, "sharded": True, "size": size(folder, "model.safetensors.index.json"),
        "files": files(folder, names + ["model.safetensors.index.json"]),
        "metadata": {"format": "pt", **index["metadata"]}, "tensors": tensors})
    save(folder, "single", {
        "file": "single.safetensors", **common, "size": size(folder, "single.safetensors"), "metadata": {"format": "pt"},
        "tensors": [describe(t, WEIGHTS[t], at) for t, at in safetensors_places("single.safetensors")]})


# APR2

IDS = {"F32": 0, "F16": 1, "I8": 3, "I64": 6}
BASE = {"apr_version": "2.0.0", "model_type": "test", "architecture": {"n_layer": 3}}
MODEL_SCALES = {"layers.0.mlp.weight": (0.125, 0), "layers.2.mlp.weight": (0.5, -3)}
SHARD_SCALES = {"layers.1.mlp.weight": (0.0625, 7)}  # in the metadata of its own shard
SCALES = {**MODEL_SCALES, **SHARD_SCALES}


def quantization(scales):
    q = {"method": "I8", "scales": {n: s for n, (s, _) in scales.items()}}
    zeros = {n: z for n, (_, z) in scales.items() if z}
    return {**q, "zero_points": zeros} if zeros else q


def apr2(tensors, metadata):
    """A file as the draft draws it: header, metadata, index, data at multiples of 64, footer."""
    meta = json.dumps(metadata).encode()
    places, at = {}, 0
    for name in tensors:
        places[name] = at
        at = -(-(at + WEIGHTS[name].nbytes) // 64) * 64
    index = struct.pack("<II", len(tensors), 0)
    for name in tensors:
        w = WEIGHTS[name]
        index += struct.pack("<H", len(name)) + name.encode() + struct.pack("<BB", IDS[DTYPES[str(w.dtype)]], w.ndim)
        index += struct.pack(f"<{w.ndim}Q", *w.shape) + struct.pack("<QQQI", places[name], w.nbytes, 0, 0)
    data_at = -(-(32 + len(meta) + len(index)) // 64) * 64
    out = bytearray(data_at + at)
    out[:32] = b"APR2" + struct.pack("<HHIIIIII", 2, 0, 2, 32, len(meta), 32 + len(meta), len(index), data_at)
    out[32:32 + len(meta) + len(index)] = meta + index
    for name, place in places.items():
        b = WEIGHTS[name].tobytes()
        out[data_at + place:data_at + place + len(b)] = b
    out += struct.pack("<I", zlib.crc32(out)) + b"2RPA" + struct.pack("<Q", len(out) + 16)
    return bytes(out), [(name, data_at + places[name]) for name in tensors]


def make_apr2():
    folder = os.path.join(HERE, "apr2")
    os.chdir(folder)
    groups = list(plan().filename_to_tensors.values())
    names = [f"model-{i + 1:05d}-of-{SHARDS:05d}.apr" for i in range(SHARDS)]
    shards, tensors, shard_map = [], [], {}
    for i, (name, group) in enumerate(zip(names, groups)):
        own = {n: s for n, s in SHARD_SCALES.items() if n in group}
        data, places = apr2(group, {**BASE, **({"quantization": quantization(own)} if own else {})})
        with open(name, "wb") as f:
            f.write(data)
        shards.append({"file": name, "size": len(data), "crc32": f"{zlib.crc32(data[:-16]):08x}", "sha256": sha(data)})
        tensors += [describe(t, WEIGHTS[t], at, i, SCALES.get(t)) for t, at in places]
        shard_map.update({t: i for t in group})
    manifest = {"apr_version": "2.0.0", "sharded": True, "shard_count": SHARDS, "shards": shards, "tensor_shard_map": shard_map,
                "metadata": {**BASE, "quantization": quantization(MODEL_SCALES)}}

    def write(stem, verify="ok", findings=(), without=(), **change):
        """A manifest; change replaces keys of the plain one, by functions of them."""
        m = {k: change[k](json.loads(json.dumps(v))) if k in change else v for k, v in manifest.items() if k not in without}
        text = json.dumps(m, indent=1).encode()
        with open(stem + ".apr", "wb") as f:
            f.write(text)
        d = {"file": stem + ".apr", "size": len(text)}
        if verify == "refused":
            return text, {**d, "format": "manifest"}
        save(folder, stem, {
            **d, "format": "apr2", "version": "2.0", "sharded": True, "files": files(folder, names + [stem + ".apr"]),
            "metadata": m.get("metadata", BASE),
            "tensors": [t if t["name"] not in MODEL_SCALES or "metadata" in m else plain(t) for t in tensors],
            "verify": verify, "findings": list(findings)})

    def plain(t):
        return describe(t["name"], WEIGHTS[t["name"]], t["offset"], t["file"])

    def refused(stem, field, at, **change):
        """A manifest that must be refused because of what stands at at, a piece of its text."""
        text, d = write(stem, "refused", **change)
        before, marked = at
        assert text.count(before) == 1, (stem, before)
        save(folder, stem, {**d, "error": {"field": field, "offset": text.index(before) + len(before) - len(marked)}})

    def whole_crc(name):
        """The CRC32 of a file and of its own CRC32 in it: that of any such file of its size."""
        with open(name, "rb") as f:
            data = f.read()
        residue = zlib.crc32(struct.pack("<I", zlib.crc32(b"anything")), zlib.crc32(b"anything"))
        assert zlib.crc32(data) == zlib.crc32(b"2RPA" + struct.pack("<Q", len(data)), residue)
        return f"{zlib.crc32(data):08x}"

    def with_shard(i, **keys):
        return {"shards": lambda s: s[:i] + [{**s[i], **keys}] + s[i + 1:]}

    first = groups[0][0]
    write("model")
    write("nometadata", without=["metadata"])
    write("unmapped", findings=["tensor_shard_map"], tensor_shard_map=lambda m: {k: v for k, v in m.items() if k != first})
    refused("badcrc", "shards.crc32", (b'"crc32": "00000000"', b'"00000000"'), **with_shard(2, crc32="00000000"))
    write("badsha", "fail", ["shards.sha256"], **with_shard(2, sha256=sha(b"another shard")))
    write("oddcrc", "fail", ["shards.crc32"], **with_shard(1, crc32="..."))
    write("oddsha", "fail", ["shards.sha256"], **with_shard(1, sha256="..."))
    write("wholecrc", findings=["shards.crc32"], shards=lambda s: [{**x, "crc32": whole_crc(x["file"])} for x in s])
    write("nocrc", findings=["shards.crc32", "sharded"], without=["sharded"],
          shards=lambda s: [{k: v for k, v in x.items() if k not in ("crc32", "sha256")} for x in s])
    refused("missing", "shards.file", (b'"file": "nowhere.apr"', b'"nowhere.apr"'), **with_shard(3, file="nowhere.apr"))
    refused("outside", "shards.file", (b'"file": "../model.apr"', b'"../model.apr"'), **with_shard(1, file="../model.apr"))
    refused("size", "shards.size", (b'"size": 12345,', b'12345,'), **with_shard(1, size=12345))
    refused("count", "shard_count", (b'"shard_count": 5', b'5'), shard_count=lambda _: 5)
    refused("moved", "tensor_shard_map", (f'"{first}": 1,'.encode(), b'1,'), tensor_shard_map=lambda m: {**m, first: 1})
    refused("absent", "tensor_shard_map", (b'"nothing": 2', b'2'), tensor_shard_map=lambda m: {**m, "nothing": 2})
    refused("itself", "shards.file", (b'"file": "itself.apr"', b'"itself.apr"'),
            **with_shard(0, file="itself.apr", size=len(write("itself", "refused", **with_shard(0, file="itself.apr", size=1234))[0])))

    data, places = apr2(list(WEIGHTS), {**BASE, "quantization": quantization(SCALES)})
    with open("single.apr", "wb") as f:
        f.write(data)
    save(folder, "single", {
        "file": "single.apr", "format": "apr2", "version": "2.0", "size": len(data),
        "metadata": {**BASE, "quantization": quantization(SCALES)},
        "tensors": [describe(t, WEIGHTS[t], at, 0, SCALES.get(t)) for t, at in places], "verify": "ok", "findings": []})


# GGUF


def write_gguf(path, **options):
    w = gguf.GGUFWriter(path, "llama", **options)
    w.add_name("a model in parts")
    for name, array in WEIGHTS.items():
        w.add_tensor(name, array)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def read_gguf(path, file=0):
    """Metadata and tensors as gguf's own reader has them."""
    r = gguf.GGUFReader(path)
    metadata = {}
    for f in r.fields.values():
        if not f.name.startswith("GGUF."):
            v = f.contents()
            metadata[f.name] = v if isinstance(v, str) else int(v)
    tensors = []
    for t in r.tensors:
        assert bytes(t.data.tobytes()) == WEIGHTS[t.name].tobytes(), t.name
        tensors.append(describe(t.name, WEIGHTS[t.name], int(t.data_offset), file))
    return metadata, tensors


def make_gguf():
    folder = os.path.join(HERE, "gguf")
    os.chdir(folder)
    write_gguf("model.gguf", split_max_tensors=4)
    write_gguf("single.gguf")
    names = [f"model-{i + 1:05d}-of-{SHARDS:05d}.gguf" for i in range(SHARDS)]
    assert sorted(n for n in os.listdir() if n.startswith("model-") and n.endswith("gguf")) == names
    parts = [read_gguf(n, i) for i, n in enumerate(names)]
    common = {"format": "gguf", "version": "3", "verify": "ok", "findings": []}
    for n in (names[0], names[2]):  # any one opens all
        save(folder, n.removesuffix(".gguf"), {
            "file": n, **common, "sharded": True, "size": size(folder, n), "files": files(folder, names),
            "metadata": parts[0][0], "tensors": [t for _, tensors in parts for t in tensors]})
    metadata, tensors = read_gguf("single.gguf")
    save(folder, "single", {"file": "single.gguf", **common, "size": size(folder, "single.gguf"), "metadata": metadata, "tensors": tensors})


for make in make_safetensors, make_apr2, make_gguf:
    make()
