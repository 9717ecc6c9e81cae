#!/usr/bin/env python3
"""Turns what gen_libw2l (the program's path is the argument) prints into the fixtures' JSON files."""

import base64
import hashlib
import json
import os
import subprocess
import sys

import numpy as np

TYPES = {"fp64": ("F64", "<f8"), "fp32": ("F32", "<f4"), "i64": ("I64", "<i8"), "i32": ("I32", "<i4"), "i16": ("I16", "<i2"), "i8": ("I8", "|i1")}


def tensor(line, scale):
    dtype, code = TYPES[line["type"]]
    data = bytes.fromhex(line["data"])
    values = np.frombuffer(data, code)
    assert len(values) == line["len"]
    t = {"name": line["array"], "dtype": dtype, "shape": line["dims"][::-1] or [line["len"]], "offset": line["offset"],
         "stored": len(data), "raw": len(data), "encoding": "raw", "zero_copy": line["offset"] % values.dtype.itemsize == 0}
    if scale and dtype[0] == "I":
        t |= {"scale": scale[0], "zero_point": scale[1]}
        values = (scale[0] * (values.astype(object) - scale[1])).astype("<f8") if len(values) else values
    sha = hashlib.sha256(data).hexdigest()
    with np.errstate(over="ignore"):
        return t | {"stored_sha256": sha, "raw_sha256": sha, "f32_hex": values.astype("<f4").tobytes().hex()}


def describe(lines):
    head = lines[0]
    md, tensors, scale = {"name": head["name"]}, [], None
    for line in lines[1:]:
        if "desc" in line:
            md.setdefault("descriptions", {})[line["desc"]] = line["value"]
        elif "utf8" in line:
            md[line["utf8"]] = line["value"]
        elif "keyval" in line:
            md.setdefault(line["keyval"], {})[line["key"]] = line["value"]
        elif "data" in line and "array" not in line:
            md[line["data"]] = base64.b64encode(line["value"].encode("latin1")).decode()
        elif "layer" in line:
            scale = (line["scale"], line["offset"]) if head["version"] == 1 else None
            scaled = {"scale": scale[0], "offset": scale[1]} if scale else {}
            md.setdefault("layers", []).append({"arch": line["layer"]} | scaled | {"param_count": line["params"]})
        else:
            tensors.append(tensor(line, scale if line["array"].startswith("layers.") else None))
    return {"file": head["file"], "format": "bw2l", "version": str(head["version"]), "size": os.path.getsize(head["file"]),
            "metadata": md, "tensors": tensors, "verify": "ok", "findings": []}


lines = [json.loads(line) for line in subprocess.check_output([sys.argv[1]], text=True).splitlines()]
starts = [i for i, line in enumerate(lines) if "file" in line]
for start, end in zip(starts, starts[1:] + [len(lines)]):
    described = describe(lines[start:end])
    with open(described["file"].replace(".b2l", ".json"), "w") as f:
        json.dump(described, f, indent=1)
        f.write("\n")
