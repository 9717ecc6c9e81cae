"""Writes a.safetensors, b.safetensors and expected.json: what NumPy and hashlib say of them.

Run in this folder: python3 gen_survey.py (NumPy 2; nothing of tensormap is used).
"""

import hashlib
import json
import struct

import numpy as np

np.seterr(invalid="ignore")  # of signalling NaNs, on their way to float64

rng = np.random.default_rng(20260)
NAMES = {"f4": "F32", "f2": "F16", "f8": "F64", "i1": "I8", "i2": "I16", "i4": "I32", "i8": "I64",
         "u1": "U8", "u2": "U16", "u4": "U32", "u8": "U64", "b1": "BOOL"}


def bf16(bits):
    return (np.asarray(bits, "<u2").astype("<u4") << 16).view("<f4")


def e4m3(bits):
    """OFP8 E4M3: sign, 4 bits of exponent with bias 7, 3 of mantissa; all ones is NaN."""
    out = []
    for b in map(int, bits):
        s, e, m = (-1.0 if b >> 7 else 1.0), b >> 3 & 15, b & 7
        v = np.nan if b & 127 == 127 else m / 8 * 2.0**-6 if e == 0 else (1 + m / 8) * 2.0 ** (e - 7)
        out.append(s * v)
    return np.array(out, "<f4")


class T:
    """A tensor: its type's name, its shape, its bytes, its values (None: has none)."""

    def __init__(self, values, dtype=None, raw=None):
        self.values = values
        self.dtype = dtype or NAMES[values.dtype.str[1:]]
        self.raw = values.tobytes() if raw is None else raw
        self.shape = [len(raw) // 8] if values is None else list(values.shape)


def f32(*v):
    return T(np.array(v, "<f4"))


def model_a():
    odd = rng.normal(0, 1, 5100).astype("<f4")
    odd[[3, 4095, 4096, 5099]] = np.nan
    odd[[5, 6]] = np.inf
    odd[5000] = -np.inf
    odd[[7, 8]] = [0.0, -0.0]
    nan_bits = np.array([0x7FC00000, 0x7F800001, 0xFFC12345, 0x3F800000], "<u4").view("<f4")
    sparse = rng.normal(0, 1, (70, 71)).astype("<f4")
    sparse[rng.random((70, 71)) < 0.7] = 0
    half_bits = rng.integers(0, 1 << 16, 5000).astype("<u2")
    brain_bits = rng.integers(0, 1 << 16, 4097).astype("<u2")
    small = np.arange(256, dtype="u1")
    return {
        "normal": T(rng.normal(0.01, 0.02, (100, 51)).astype("<f4")),
        "offset": T((1e6 + rng.normal(0, 1, 4200)).astype("<f4")),
        "cancel": T(1e9 + np.tile(np.array([4.0, 7.0, 13.0, 16.0]), 1100)),
        "odd": T(odd),
        "nans": T(nan_bits),
        "allnan": T(np.full(3, np.nan, "<f4")),
        "constant": T(np.full((2, 5), 0.1, "<f4")),
        "scalar": T(np.array(-2.5, "<f4")),
        "empty": T(np.zeros((0, 3), "<f4")),
        "zeros": T(np.array([0.0, -0.0, 0.0], "<f4")),
        "edges": T(np.arange(0, 17).astype("<f4").repeat(3)),
        "subnormal": T((rng.integers(-400, 400, 999).astype("<f4") * np.float32(1.4e-45)).astype("<f4")),
        "extreme": f32(-3.4028235e38, 3.4028235e38, 1e-45, -1e-45),
        "sparse": T(sparse),
        "half": T(half_bits.view("<f2")),
        "brain": T(bf16(brain_bits), "BF16", brain_bits.tobytes()),
        "eight": T(e4m3(small), "F8_E4M3", small.tobytes()),
        "i8": T(np.arange(-128, 128).astype("<i1")),
        "u8": T(small.reshape(16, 16)),
        "bool": T(rng.random(33) < 0.4),
        "i16": T(rng.integers(-32768, 32768, 500).astype("<i2")),
        "u16": T(rng.integers(0, 65536, 500).astype("<u2")),
        "i32": T(rng.integers(-2**31, 2**31, 4100).astype("<i4")),
        "u32": T(np.array([0, 1, 2**24 + 1, 2**32 - 1], "<u4")),
        "ids": T(np.arange(512, dtype="<i8").reshape(1, 512)),
        "i64": T(np.array([2**53, -2**53, 2**40 + 1, 0], "<i8")),
        "u64": T(np.array([2**63, 2**24, 3], "<u8")),
        "f64": T(np.array([1e300, -1e-300, np.nan, np.inf, 0.1])),
        "f64exact": T(np.array([0.5, -0.25, 2.0**100, np.nan])),
        "c64": T(None, "C64", bytes(range(8))),
    }


def model_b(a):
    """a with other values here and there, in other types, in another order."""
    b = dict(reversed(a.items()))
    noisy = a["normal"].values + rng.normal(0, 1e-3, (100, 51)).astype("<f4")
    b["normal"] = T(noisy.astype("<f4"))
    b["sparse"] = T(a["sparse"].values.astype("<f2"))
    moved = a["odd"].values.copy()
    moved[3] = 1.0  # was NaN
    moved[4095] = np.uint32(0xFFC00001).view("<f4")  # NaN still
    moved[5] = -np.inf
    moved[100] += 1
    b["odd"] = T(moved)
    b["zeros"] = T(-a["zeros"].values)
    b["scalar"] = T(a["scalar"].values.reshape(1, 1))
    b["edges"] = T(a["edges"].values.reshape(3, 17))
    b["u8"] = T(a["u8"].values.astype("<f4"))
    b["cancel"] = T(a["cancel"].values + np.tile([0, 0, 1e-6, 0, 0], 880))
    b["ids"] = T(a["ids"].values[0] + np.eye(1, 512, 300, dtype="<i8")[0])
    b["f64"] = T(np.array([1e300, -1e-300, np.nan, -np.inf, 0.1]))
    b["i8"] = T(a["u8"].values.reshape(256).view("<i1"))
    b["allnan"] = T(np.array([np.nan, 1, np.nan], "<f4"))
    b["constant"] = T(np.zeros((2, 5), "<f4"))
    b["c64"] = T(None, "C64", bytes(8))
    del b["extreme"]
    b["new"] = f32(1, 2)
    return b


def write(path, model):
    header, data = {}, b""
    for name, t in model.items():
        header[name] = {"dtype": t.dtype, "shape": t.shape, "data_offsets": [len(data), len(data) + len(t.raw)]}
        data += t.raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def number(x):
    """Of infinities and NaN, JSON has only strings."""
    x = float(x)
    return x if np.isfinite(x) else {np.inf: "Infinity", -np.inf: "-Infinity"}.get(x, "NaN")


def stats(t):
    if t.values is None:
        return None
    v = t.values.astype("f8").ravel()
    f = v[np.isfinite(v)]
    out = {"finite": len(f), "zeros": int((f == 0).sum()), "nan": int(np.isnan(v).sum()),
           "pos_inf": int((v == np.inf).sum()), "neg_inf": int((v == -np.inf).sum())}
    if len(f):
        exact = f.astype(np.longdouble)
        std = exact.std() if exact.var() < np.finfo("f8").max else np.inf  # float64 has no such squares
        out |= {"min": f.min(), "max": f.max(), "mean": float(exact.mean()), "std": number(std)}
        out["histogram"] = [len(f)] if f.min() == f.max() else np.histogram(f, 16)[0].tolist()
    return out


def digests(t):
    out = {"stored": hashlib.sha256(t.raw).hexdigest(), "values": None}
    if t.values is None:
        return out
    with np.errstate(over="ignore"):
        v = t.values.astype("<f4")
    wide = t.values.dtype.itemsize >= 4 and t.values.dtype != np.dtype("<f4")
    nan = v != v
    if wide and t.values.dtype.kind in "iu":
        exact = all(np.isfinite(x) and int(x) == int(y) for x, y in zip(v.ravel(), t.values.ravel()))
    else:
        exact = bool(((v.astype("f8") == t.values) | nan).all())
    if exact:
        v[nan] = np.float32(np.nan)
        out["values"] = hashlib.sha256(v.tobytes()).hexdigest()
    return out


def total(model, what):
    """As the documentation of survey.ValuesDigest and StoredDigest says."""
    text = b""
    for name in sorted(model, key=str.encode):
        t, d = model[name], digests(model[name])
        shape = [n for n in t.shape if n != 1] if what == "values" else t.shape
        valued = what == "values" and d["values"]
        digest, kind = (d["values"], "values") if valued else (d["stored"], t.dtype)
        text += f"{digest} {kind} [{','.join(map(str, shape))}] {len(name.encode())}:{name}\n".encode()
    return hashlib.sha256(text).hexdigest()


def distance(a, b):
    if a is None or b is None:
        return {"only": "B" if a is None else "A"}
    squeeze = lambda t: [n for n in t.shape if n != 1]
    if squeeze(a) != squeeze(b):
        return {"shape": False}
    same = a.dtype == b.dtype and a.raw == b.raw
    if same or a.values is None:
        return {"shape": True, "same": same}
    x, y = (t.values.astype("f8").ravel() for t in (a, b))
    equal = (x == y) | (np.isnan(x) & np.isnan(y))
    both = np.isfinite(x) & np.isfinite(y)
    lost = ~equal & ~both
    with np.errstate(invalid="ignore", divide="ignore"):
        d = np.where(both, np.abs(x - y), 0)
        rel = np.where(d > 0, d / np.maximum(np.abs(x), np.abs(y)), 0)
    fx, fy = x[both].astype(np.longdouble), y[both].astype(np.longdouble)
    if max(np.square(fx).max(initial=0), np.square(fy).max(initial=0)) > np.finfo("f8").max:
        fx = fx * 0  # float64 has no such squares: no cosine
    norm = np.sqrt((fx * fx).sum()) * np.sqrt((fy * fy).sum())
    return {"shape": True, "same": False, "differing": int((~equal).sum()),
            "unmatched": int(lost.sum()), "unmatched_at": int(lost.argmax()),
            "max_abs": d.max(), "max_abs_at": int(d.argmax()), "max_rel": rel.max(), "max_rel_at": int(rel.argmax()),
            "rmse": number(np.sqrt((d[both].astype(np.longdouble) ** 2).mean())) if len(fx) else 0,
            "cosine": 1 if equal.all() else number((fx * fy).sum() / norm) if norm else "NaN"}


a = model_a()
b = model_b(a)
write("a.safetensors", a)
write("b.safetensors", b)
with open("expected.json", "w") as f:
    json.dump({
        "stats": {n: stats(t) for n, t in a.items()},
        "digests": {n: digests(t) for n, t in a.items()},
        "total_values": total(a, "values"), "total_stored": total(a, "stored"),
        "pairs": {n: distance(a.get(n), b.get(n)) for n in list(a) + [n for n in b if n not in a]},
    }, f, indent=1)
    f.write("\n")
