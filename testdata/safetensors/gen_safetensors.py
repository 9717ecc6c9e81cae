"""Writes the SafeTensors files of this folder with Hugging Face's own library, and
beside each what that library, json and numpy read from it.

    python gen_safetensors.py MODEL

MODEL is the model.safetensors of all-MiniLM-L6-v2 (see README.md). Needs the packages
safetensors and numpy. Every run writes the same bytes.
"""

import hashlib
import json
import sys

import numpy as np
import safetensors
from safetensors import TensorSpec, serialize
from safetensors.numpy import load, save

RAW = [  # dtypes that numpy lacks: name in the library, bits
    ("bfloat16", 16),
    ("float8_e4m3fn", 8),
    ("float8_e4m3fnuz", 8),
    ("float8_e5m2", 8),
    ("float8_e5m2fnuz", 8),
    ("float8_e8m0fnu", 8),
    ("float4_e2m1fn_x2", 4),
]

NUMPY = [
    "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
    "float16", "float32", "float64", "complex64",
]


def arrays():
    rng = np.random.default_rng(20240229)
    out = {}
    for name in NUMPY:
        a = rng.integers(0, 2 if name == "bool" else 100, size=(2, 3))
        out[name] = a.astype(name)
    for name in ("int8", "int16", "int32", "int64"):
        i = np.iinfo(name)
        out[f"{name}.extremes"] = np.array([i.min, -1, 0, i.max], dtype=name)
    for name in ("float16", "float32", "float64"):
        i = np.finfo(name)
        out[f"{name}.extremes"] = np.array(
            [i.min, -0.0, i.smallest_subnormal, i.max, np.inf, -np.inf, np.nan], dtype=name
        )
    out["scalar"] = np.array(3.25, dtype="float32")
    out["one"] = np.array([1.5], dtype="float64")
    out["empty"] = np.zeros((0,), dtype="float32")
    out["empty.inner"] = np.zeros((4, 0, 3), dtype="int16")
    out["rank8"] = np.arange(256, dtype="uint8").reshape((2,) * 8)
    return out


def write_dtypes():
    keep = {k: (str(a.dtype), a.shape, np.ascontiguousarray(a)) for k, a in arrays().items()}
    for name, bits in RAW:
        raw = np.arange(12 * bits // 8, dtype="uint8") * 37 + 1
        keep[name] = (name, (3, 2) if bits == 4 else (3, 4), raw)
    specs = {
        k: TensorSpec(dtype=d, shape=list(s), data_ptr=a.ctypes.data, data_len=a.nbytes)
        for k, (d, s, a) in keep.items()
    }
    return serialize(specs, None)


def write_names():
    names = [
        "plain.weight", "größe", "重み", "вес", "🙂", "e\u0301", "\ufeffbom", "\uffff", "\U0010ffff",
        'a "quoted" name', "back\\slash", "slash/slash", "tab\there", "line\nbreak", "bell\a", "\x7f",
        " spaces ", "", "{", "}", "dtype", "shape", "data_offsets", "__metadata", "null", "a,b:c",
    ]
    tensors = {n: np.array([i, len(n.encode())], dtype="int32") for i, n in enumerate(names)}
    return sorted_metadata(tensors, {"größe": "25 µm", "json": '{"a": [1, "\\n"]}', "empty": "", "": "empty key"})


def write_slice(model):
    with open(model, "rb") as f:
        tensors = load(f.read())
    words = "embeddings.word_embeddings.weight"
    names = [
        "embeddings.LayerNorm.bias",
        "embeddings.LayerNorm.weight",
        "embeddings.token_type_embeddings.weight",
        "encoder.layer.0.attention.output.dense.bias",
        "embeddings.position_ids",
    ]
    kept = {n: tensors[n] for n in names}
    kept[words] = np.ascontiguousarray(tensors[words][1996:2060])
    return sorted_metadata(kept, {
        "format": "pt",
        "license": "apache-2.0",
        "slice": f"{words}: rows 1996 to 2059 (from the word 'the'); the others whole",
        "source": "sentence-transformers/all-MiniLM-L6-v2",
    })


def sorted_metadata(tensors, metadata):
    """The library writes metadata in random order; insist on one."""
    while True:
        b = save(tensors, metadata)
        if list(header(b)["__metadata__"]) == sorted(metadata):
            return b


def header(b):
    n = int.from_bytes(b[:8], "little")
    return json.loads(b[8 : 8 + n])


def expected(b):
    start = 8 + int.from_bytes(b[:8], "little")
    head = header(b)
    metadata = head.pop("__metadata__", None)
    read = dict(safetensors.deserialize(b))
    out = []
    for name, t in head.items():
        data = bytes(read[name]["data"])
        assert read[name]["dtype"] == t["dtype"] and read[name]["shape"] == t["shape"]
        out.append({
            "name": name,
            "dtype": t["dtype"],
            "shape": t["shape"],
            "offset": start + t["data_offsets"][0],
            "bytes": len(data),
            "sha256": hashlib.sha256(data).hexdigest(),
            "first": first(t["dtype"], data),
        })
    return {"size": len(b), "metadata": metadata, "tensors": out}


def first(dtype, data):
    """The first values, as Python writes them; nothing for types that numpy lacks."""
    kinds = {"BOOL": "?", "C64": "c8", **{f"{k}{n * 8}": f"<{k.lower()}{n}" for k in "FIU" for n in (1, 2, 4, 8)}}
    kinds.pop("F8", None)
    if dtype not in kinds:
        return None
    return [repr(v) for v in np.frombuffer(data, dtype=kinds[dtype])[:4].tolist()]


def main(model):
    for name, b in {
        "dtypes": write_dtypes(),
        "names": write_names(),
        "empty": save({}),
        "minilm-slice": write_slice(model),
    }.items():
        b = bytes(b)
        with open(f"{name}.safetensors", "wb") as f:
            f.write(b)
        with open(f"{name}.json", "w", encoding="utf-8") as f:
            json.dump(expected(b), f, indent=1, ensure_ascii=True)
            f.write("\n")
        print(name, len(b), "bytes")
    print("safetensors", safetensors.__version__, "numpy", np.__version__, "python", sys.version.split()[0])


if __name__ == "__main__":
    main(sys.argv[1])
