"""Writes figures.json: percentiles, largest distance in sigma, kurtosis and histogram by sigma of the tensors in
a.safetensors, and errors against those in b.safetensors, as NumPy computes them in float64.

Run in this folder: python3 gen_figures.py (NumPy 2; nothing of tensormap is used).
"""

import json
import struct

import numpy as np

np.seterr(invalid="ignore")  # of signalling NaNs, on their way to float64

TYPES = {"F32": "<f4", "F16": "<f2", "F64": "<f8", "I8": "<i1", "U8": "<u1", "BOOL": "<u1", "I16": "<i2", "U16": "<u2",
         "I32": "<i4", "U32": "<u4", "I64": "<i8", "U64": "<u8"}


def read(path):
    with open(path, "rb") as f:
        n, = struct.unpack("<Q", f.read(8))
        head, data = json.loads(f.read(n)), f.read()
    out = {}
    for name, t in head.items():
        if name == "__metadata__":
            continue
        raw = data[slice(*t["data_offsets"])]
        if t["dtype"] == "BF16":
            v = (np.frombuffer(raw, "<u2").astype("<u4") << 16).view("<f4")
        elif t["dtype"] in TYPES:
            v = np.frombuffer(raw, TYPES[t["dtype"]])
        else:
            continue
        out[name] = v.astype("f8"), t["dtype"]
    return out


def figures(v):
    at = np.flatnonzero(np.isfinite(v))
    x = v[at]
    if len(x) == 0 or np.abs(x).max() > 1e150:  # squares that are no float64s
        return None
    f = {"percentiles": list(np.percentile(x, [0.1, 1, 50, 99, 99.9]))}
    mean, std = x.mean(), x.std()
    if x.min() < x.max():
        d = np.abs(x - mean)
        f["max_sigma"], f["max_sigma_at"] = d.max() / std, int(at[d.argmax()])
        f["kurtosis"] = ((x - mean) ** 4).mean() / std**4 - 3
        edges = 2 * np.sinh(np.linspace(-1, 1, 90) * np.arcsinh(128))
        edges[0], edges[-1] = -np.inf, np.inf
        f["by_sigma"] = [int(n) for n in np.histogram((x - mean) / std, edges)[0]]
    return f


def errors(a, b):
    ok = np.isfinite(a) & np.isfinite(b)
    a, b = a[ok], b[ok]
    if len(a) == 0 or np.abs(a).max() > 1e150 or (a == b).all():
        return None
    aa, bb, dd = (a * a).sum(), (b * b).sum(), ((a - b) ** 2).sum()
    with np.errstate(divide="ignore", invalid="ignore"):
        e = {"db": 10 * np.log10(aa / dd), "relative_rms": np.sqrt(dd / aa), "cosine": (a * b).sum() / np.sqrt(aa * bb)}
    return {k: float(x) if np.isfinite(x) else None for k, x in e.items()}


a, b = read("a.safetensors"), read("b.safetensors")
out = {"stats": {}, "pairs": {}}
for name, (v, dtype) in a.items():
    if f := figures(v):
        out["stats"][name] = f
    if name in b and len(b[name][0]) == len(v) and (e := errors(v, b[name][0])):
        out["pairs"][name] = e
with open("figures.json", "w") as f:
    f.write("{\n" + ",\n".join(
        f' "{part}": {{\n' + ",\n".join(f'  "{k}": {json.dumps(x)}' for k, x in out[part].items()) + "\n }" for part in out) + "\n}\n")
