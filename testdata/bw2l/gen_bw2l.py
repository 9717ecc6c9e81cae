#!/usr/bin/env python3
"""Writes the BW2L fixtures of this folder, and beside each a JSON file with what is in it.

Every file is put together field by field from b2l.txt, the format's specification
(version 1: wav2letter's b2l branches, version 2: libw2l), with struct and numpy alone.
Run it in this folder; the same bytes come out each time.
"""

import base64
import hashlib
import json
import math
import struct

import numpy as np


def packer(code):
    return struct.Struct("<" + code).pack


U8, U64, I64, F32 = map(packer, "BQqf")


def raw(s):
    return s if isinstance(s, bytes) else s.encode("utf-8")


def str8(s):
    return U8(len(raw(s))) + raw(s)


def str64(s):
    return U64(len(raw(s))) + raw(s)


# Element type: the name in the file, tensormap's name, numpy's.
TYPES = {
    "fp64": ("F64", "<f8"), "fp32": ("F32", "<f4"), "fp16": ("F16", "<f2"),
    "i64": ("I64", "<i8"), "i32": ("I32", "<i4"), "i16": ("I16", "<i2"), "i8": ("I8", "|i1"),
}


class Array:
    """values, row-major, and the shape that a reader is to find; dims as the file has them."""

    def __init__(self, kind, values, dims=None):
        self.kind, self.values = kind, np.array(values, TYPES[kind][1])
        self.dims = dims
        self.shape = dims[::-1] if dims else [len(self.values)]

    def floats(self, scale, offset):
        """The float32 values: scale x (q - offset) where scale is given."""
        with np.errstate(over="ignore"):
            if scale is None or self.values.dtype.kind == "f":
                return self.values.astype("<f4")
            exact = [int(q) - offset for q in self.values]
            assert all(-2**63 <= d < 2**63 for d in exact)
            return np.array([np.float32(np.float64(np.float32(scale)) * np.float64(d)) for d in exact], "<f4")


class Layer:
    def __init__(self, arch, *params, scale=1.0, offset=0):
        self.arch, self.params, self.scale, self.offset = arch, params, scale, offset


class Section:
    def __init__(self, name, kind, content, desc=""):
        self.name, self.kind, self.content, self.desc = name, kind, content, desc


def text(s):
    """What metadata has of a text: a string, or base64 where it is not UTF-8."""
    try:
        return raw(s).decode("utf-8")
    except UnicodeDecodeError:
        return base64.b64encode(raw(s)).decode()


def number(f):
    """What metadata has of a float32: the shortest number that reads as it, or a string."""
    f = float(str(np.float32(f)))
    return f if math.isfinite(f) else str(f).replace("nan", "NaN").replace("inf", "Infinity")


class File:
    """A file in the making: bytes so far, and the description that grows with them."""

    def __init__(self, version, name=""):
        self.version, self.name = version, name
        self.out = b"BW2L" + U8(version) + str8(name)
        self.tensors, self.marks = [], {}

    def mark(self, what):
        """Remembers where a field is, for the errors that damaged files must give."""
        self.marks[what] = len(self.out)

    def put(self, *parts):
        self.out += b"".join(parts)

    def array(self, a, name, scale=None, offset=0):
        self.mark("type of " + name)
        self.put(str8(a.kind))
        self.mark("array_len of " + name)
        self.put(U64(len(a.values)))
        if self.version == 2:
            self.mark("ndim of " + name)
            self.put(U8(len(a.dims or [])))
            self.mark("dims of " + name)
            self.put(*map(U64, a.dims or []))
        data = a.values.tobytes()
        align = a.values.dtype.itemsize
        t = {"name": name, "dtype": TYPES[a.kind][0], "shape": a.shape, "offset": len(self.out),
             "stored": len(data), "raw": len(data), "encoding": "raw", "zero_copy": len(self.out) % align == 0}
        if scale is not None and a.values.dtype.kind == "i":
            t |= {"scale": number(scale), "zero_point": offset}
        sha = hashlib.sha256(data).hexdigest()
        t |= {"stored_sha256": sha, "raw_sha256": sha, "f32_hex": a.floats(scale, offset).tobytes().hex()}
        self.tensors.append(t)
        self.put(data)

    def layers(self, s):
        self.mark("layer_count of " + s.name)
        self.put(U64(len(s.content)))
        for i, l in enumerate(s.content):
            self.put(str64(l.arch))
            if self.version == 1:
                self.mark(f"scale of {s.name}.{i}")
                self.put(F32(l.scale), I64(l.offset))
            self.mark(f"param_count of {s.name}.{i}")
            self.put(U64(len(l.params)))
            for j, a in enumerate(l.params):
                self.array(a, f"{s.name}.{i}.{j}", l.scale if self.version == 1 else None, l.offset)

    def section(self, s):
        self.mark("name of " + text(s.name))
        self.put(str8(s.name), str8(s.kind), str64(s.desc))
        self.mark("data_length of " + text(s.name))
        at = len(self.out)
        self.put(U64(0))
        if s.kind == "array":
            self.array(s.content, s.name)
        elif s.kind == "layers":
            self.layers(s)
        elif s.kind == "keyval":
            self.put(*(str8(k) + str64(v) for k, v in s.content))
        else:
            self.put(raw(s.content))
        self.out = self.out[:at] + U64(len(self.out) - at - 8) + self.out[at + 8:]

    def sections(self, *sections):
        self.mark("section_count")
        self.put(U64(len(sections)))
        for s in sections:
            self.section(s)
        self.content = sections
        return self

    def metadata(self):
        md = {"name": text(self.name)}
        if described := {s.name: text(s.desc) for s in self.content if s.desc}:
            md["descriptions"] = described
        for s in self.content:
            to = md
            if s.name in ("name", "descriptions", "sections"):
                to = md.setdefault("sections", {})
            if s.kind != "array":
                to[s.name] = self.value(s)
        return md

    def value(self, s):
        if s.kind == "utf8":
            return text(s.content)
        if s.kind == "keyval":
            return {text(k): text(v) for k, v in s.content}
        if s.kind == "layers":
            return [self.layer(l) for l in s.content]
        return base64.b64encode(raw(s.content)).decode()

    def layer(self, l):
        scaled = {"scale": number(l.scale), "offset": l.offset} if self.version == 1 else {}
        return {"arch": text(l.arch)} | scaled | {"param_count": len(l.params)}

    def save(self, name, findings=()):
        self.write(name, {"version": str(self.version), "metadata": self.metadata(), "tensors": self.tensors,
                          "verify": "ok", "findings": list(findings)})

    def refused(self, name, field, mark, patch=None):
        """Saves a file that is an error at the mark, where the bytes of patch may take the place of others."""
        at = self.marks[mark]
        if patch is not None:
            self.out = self.out[:at] + patch + self.out[at + len(patch):]
        self.write(name, {"error": {"field": field, "offset": at}})

    def write(self, name, says):
        with open(name + ".b2l", "wb") as f:
            f.write(self.out)
        with open(name + ".json", "w") as f:
            json.dump({"file": name + ".b2l", "format": "bw2l", "size": len(self.out)} | says, f, indent=1, ensure_ascii=False)
            f.write("\n")


rng = np.random.default_rng(2020)


def weights(kind, *dims):
    """An array of random numbers; dims are innermost first, as the file has them."""
    n = math.prod(dims)
    if kind[0] == "i":
        info = np.iinfo(TYPES[kind][1])
        return Array(kind, rng.integers(info.min, info.max, n, TYPES[kind][1][1:], endpoint=True), list(dims))
    return Array(kind, rng.standard_normal(n).astype(TYPES[kind][1]), list(dims))


def flat(a):
    """The same array as version 1 has it, without dims."""
    return Array(a.kind, a.values)


ARCH = "V -1 1 NFEAT 0\nC2 1 4 3 1 2 1 -1 -1\nR\nDO 0.0\nRO 2 0 3 1\nL 8 NLABEL\n"
TOKENS = "|\n'\na\nb\nć\n"


def model(version):
    """What an exporter writes of a small network with an ASG criterion, with all common sections."""
    arrays = [weights("fp32", 3, 1, 1, 4), weights("fp32", 4), weights("fp32", 5, 8), weights("fp32", 5)]
    transitions = weights("fp32", 5, 5)
    if version == 1:
        arrays, transitions = [flat(a) for a in arrays], flat(transitions)
    return File(version, "tiny-conv").sections(
        Section("flags", "keyval", [("arch", "arch.txt"), ("criterion", "asg"), ("lr", "0.4"), ("tag", "")], "training flags"),
        Section("config", "keyval", [("name", "tiny conv"), ("description", "example model"), ("quantization", ""),
                                     ("criterion", "asg"), ("feature", "mfsc")]),
        Section("arch", "utf8", ARCH, "wav2letter arch file"),
        Section("tokens", "utf8", TOKENS),
        Section("layers", "layers", [
            Layer("V -1 1 NFEAT 0"), Layer("C2 1 4 3 1 2 1 -1 -1", *arrays[:2]), Layer("R"), Layer("DO 0.0"),
            Layer("RO 2 0 3 1"), Layer("L 8 NLABEL", *arrays[2:])]),
        Section("transitions", "array", transitions, "ASG transition matrix"),
        Section("spm", "data", bytes(range(256)), "sentencepiece"),
    )


EXTREMES = {
    "fp64": [0.0, -0.0, 1 / 3, 1e300, -1e300, 5e-324, 1e-40, math.inf, -math.inf, math.nan, 1 + 2**-24, 1 + 3 * 2**-24],
    "fp32": [0.0, -0.0, 1.5, 3.4028234663852886e38, 1e-45, math.inf, -math.inf, math.nan],
    "fp16": [0.0, -0.0, 1.5, 65504.0, 6e-8, math.inf, -math.inf, math.nan],
    "i64": [-2**63, 2**63 - 1, 0, -1, 2**24 + 1, 2**24 + 3, 2**53 + 1, 2**62 + 2**38 + 1],
    "i32": [-2**31, 2**31 - 1, 0, -1, 2**24 + 1, 2**24 + 3],
    "i16": [-2**15, 2**15 - 1, 0, -1], "i8": [-128, 127, 0, -1, 1],
}


def good():
    model(1).save("v1")
    model(2).save("v2")
    File(1).sections().save("nothing")

    floats, ints = ["fp64", "fp32", "fp16"], ["i64", "i32", "i16", "i8"]
    sections = [Section("all " + k, "array", Array(k, EXTREMES[k])) for k in floats + ints]
    near = {k: Array(k, np.array(EXTREMES[k]) // 2) for k in ints}  # room for q - offset
    File(1, "seven types").sections(*sections, Section("layers", "layers", [
        Layer("floats", *(Array(k, EXTREMES[k]) for k in floats), scale=math.nan, offset=7),
        Layer("inf", Array("fp16", [1.5]), scale=-math.inf, offset=-1),
        Layer("zero", Array("fp64", []), scale=0.0),
        Layer("plain", *(Array(k, EXTREMES[k]) for k in ints)),
        Layer("usual", *near.values(), scale=0.0125, offset=-3),
        Layer("negative", *near.values(), scale=-0.1, offset=130),
        Layer("subnormal", *near.values(), scale=1e-45, offset=1),
        Layer("huge", *near.values(), scale=3e38, offset=5),
        Layer("far", *near.values(), scale=1.5, offset=2**24 + 1),
        Layer("farther", *near.values(), scale=0.7, offset=-2**61 - 12345),
        Layer("mixed", Array("i8", [1, 2, 3]), Array("fp32", [1, 2, 3]), Array("i8", []), scale=2.0, offset=1),
    ])).save("types1")

    File(2, "seven types").sections(
        *sections,
        Section("rank 4", "array", weights("fp32", 2, 3, 4, 5)),
        Section("rank 9", "array", weights("i8", 1, 2, 1, 3, 1, 1, 2, 1, 1)),
        Section("no elements", "array", Array("i16", [], [3, 0, 2**62])),
        Section("layers", "layers", [Layer(k, *(weights(k, 3, *[2] * r) for r in range(3)), Array(k, EXTREMES[k]))
                                     for k in floats + ints]),
    ).save("types2")

    for version in (1, 2):
        File(version, "empties").sections(
            Section("arch", "utf8", ""), Section("flags", "keyval", []), Section("spm", "data", b""),
            Section("transitions", "array", Array("fp32", [])), Section("layers", "layers", []),
            Section("more", "layers", [Layer(""), Layer("", Array("i8", []), Array("fp64", []))]), Section("", "", b""),
        ).save(f"empties{version}", ["type"])

    File(2, "größer").sections(
        Section("name", "utf8", "not the model's"), Section("descriptions", "data", b"\0\1"),
        Section("sections", "keyval", [("a", "b")], "of itself"),
        Section("flags", "keyval", [("", "no key"), ("\0", "one NUL"), ("twice", "first"), ("once", "1"), ("twice", "last"),
                                    ("latin1", b"\xe9"), ("ключ", "значение")]),
        Section("future", "sparse-array", b"\1\2\3", b"\xff"),
        Section("tail", "layers", [Layer("L 1 1", Array("fp32", [1, 2]))]),
        Section("head.0", "array", Array("fp32", [3])),
        Section("head", "layers", [Layer(b"\xfe"), Layer("x" * 300, Array("i32", [4], [1]))]),
        Section("Übergänge", "array", Array("i64", [5, 6], [2, 1])),
    ).save("odd", ["desc", "type"])

    f = model(2)
    f.put(b"left over")
    f.save("trailing", ["trailing"])


def damaged():
    i8, f32 = Array("i8", [1, 2]), Array("fp32", [1, 2, 3, 4, 5, 6], [3, 2])
    layers = lambda *l, **kw: Section("layers", "layers", [*l], **kw)
    array = Section("a", "array", f32)
    blank = lambda name: Section(name, "utf8", "")

    f = File(3)
    f.marks["version"] = 4
    f.sections().refused("version3", "version", "version")
    File(1).sections(blank("x"), blank("y"), Section("x", "data", b"")).refused("samename", "name", "name of x")
    File(1).sections(blank("latin1")).refused("badname", "name", "name of latin1", b"\x06l\xe9tin1")
    File(1).sections(blank("nul")).refused("nulname", "name", "name of nul", b"\x03n\0l")
    File(2).sections(blank("x")).refused("sectioncount", "section_count", "section_count", U64(2**40))
    File(2).sections(blank("x")).refused("toolong", "data_length", "data_length of x", U64(1))
    File(2).sections(array, blank("x")).refused("bytesleft", "data_length", "data_length of a", U64(54 + 1))
    File(2).sections(array).refused("nosuchtype", "type", "type of a", str8("bf16"))
    File(1).sections(layers(Layer("", i8))).refused("arraylen", "array_len", "array_len of layers.0.0", U64(2**61))
    File(2).sections(array).refused("product", "dims", "dims of a", U64(4))
    File(2).sections(array).refused("overflow", "dims", "dims of a", U64(2**63) + U64(2**63))
    File(2).sections(array).refused("rank255", "ndim", "ndim of a", U8(255))
    File(2).sections(layers(Layer("", i8))).refused("layercount", "layer_count", "layer_count of layers", U64(2**64 - 1))
    File(2).sections(layers(Layer("", i8))).refused("paramcount", "param_count", "param_count of layers.0", U64(3))
    File(1).sections(layers(Layer("", i8, scale=0.0))).refused("zeroscale", "scale", "scale of layers.0")
    File(1).sections(layers(Layer(""), Layer("", f32, i8, scale=math.inf))).refused("infscale", "scale", "scale of layers.1")
    File(1).sections(layers(Layer("", Array("i8", []), scale=math.nan))).refused("emptyscale", "scale", "scale of layers.0")


if __name__ == "__main__":
    good()
    damaged()
