#!/usr/bin/env python3
"""Assembles APR1 files by hand, field by field, with struct and from the tables of the
".apr Model Format" page of whisper.apr alone, and from those of the containers that
aprender and later versions of whisper.apr wrote.

It shares no code with the Go package that is tested against what it writes. For each
NAME.apr there is a NAME.json that says what a reader must find in it. Run it in this
folder, with Python 3.9 or later, numpy (for float16) and lz4 (for LZ4 blocks).
"""

import base64
import hashlib
import json
import struct
import zlib

import lz4.block
import numpy as np

QUANTIZATIONS = ["f32", "f16", "int8"]
DTYPES = ["F32", "F16", "I8"]
NUMPY = ["<f4", "<f2", "<i1"]
MODELS = ["tiny", "tiny.en", "base", "base.en", "small", "small.en", "medium", "medium.en",
          "large", "large-v1", "large-v2", "large-v3", "large-v3-turbo"]
DIMS = ["n_vocab", "n_audio_ctx", "n_audio_state", "n_audio_head", "n_audio_layer",
        "n_text_ctx", "n_text_state", "n_text_head", "n_text_layer", "n_mels"]
TINY = [51865, 1500, 384, 6, 4, 448, 384, 6, 4, 80]


def sha(b):
    return hashlib.sha256(b).hexdigest()


def product(shape):
    n = 1
    for d in shape:
        n *= d
    return n


def text(b):
    """What JSON has of a string that may not be UTF-8: U+FFFD for each byte that is wrong."""
    out = ""
    while b:
        try:
            return out + b.decode()
        except UnicodeDecodeError as e:
            out += b[:e.start].decode() + "\ufffd"
            b = b[e.start + 1:]
    return out


def is_utf8(b):
    try:
        b.decode()
        return True
    except UnicodeDecodeError:
        return False


def blocks(raw):
    """raw as LZ4 blocks of 64 KiB, each behind its length."""
    out = b""
    for at in range(0, len(raw), 65536):
        block = lz4.block.compress(raw[at:at + 65536], store_size=False)
        out += struct.pack("<I", len(block)) + block
    return out


class Tensor:
    """A tensor as it will be in a file of quantization q."""

    def __init__(self, name, q, shape, values=None, raw=None, scale=None, lz4=False, shown=None, **entry):
        self.name = name if isinstance(name, bytes) else name.encode()
        self.shown = self.name.decode() if shown is None else shown
        self.q, self.shape, self.scale, self.lz4 = q, shape, scale, lz4
        self.raw = np.array(values, NUMPY[q]).tobytes() if raw is None else raw
        assert len(self.raw) == product(shape) * np.dtype(NUMPY[q]).itemsize, name
        self.stored = blocks(self.raw) if lz4 else self.raw
        self.entry = entry  # fields that stray: offset, size, n_elements, dims, n_dims, reserved

    def f32(self):
        x = np.frombuffer(self.raw, NUMPY[self.q])
        if self.q == 2:
            with np.errstate(over="ignore"):
                return (np.float32(self.scale) * x.astype("<f4")).astype("<f4").tobytes()
        return x.astype("<f4").tobytes()


class Model:
    """One file of the containers binary and late. The options stray from a plain writer."""

    def __init__(self, tensors, q=0, model=0, dims=TINY, tokens=None, merges=(), mel=None, shape=None, order=None,
                 late=False, version=None, compressed=0, flags=0, n_tensors=None, quantization=None,
                 vocabulary_size=None, filterbank_size=None, counts=None, trailing=b"", crc_xor=0, reserved=bytes(16)):
        self.__dict__.update(locals())
        self.version = version if version is not None else 2 if late else 1

    def places(self):
        """Offset of each tensor from the start of the data."""
        at, places = 0, {}
        for i in self.order or range(len(self.tensors)):
            places[i] = at
            at += len(self.tensors[i].stored)
        return places, at

    def vocabulary(self):
        n = (len(self.tokens), len(self.merges)) if self.counts is None else self.counts
        b = struct.pack("<II", *n)
        for t in self.tokens:
            b += struct.pack("<H", len(t)) + t
        for pair in self.merges:
            for t in pair:
                b += struct.pack("<H", len(t)) + t
        return b

    def filterbank(self):
        return struct.pack("<II", *self.shape) + np.array(self.mel, "<f4").tobytes()

    def encode(self):
        n = len(self.tensors) if self.n_tensors is None else self.n_tensors
        q = self.q if self.quantization is None else self.quantization
        flags = self.flags | (self.tokens is not None) | (self.mel is not None) << 1
        out = b"APR\0" if self.late else b"APR1"
        out += struct.pack("<HBBBHB", self.version, self.model, q, self.compressed, n, flags)
        out += struct.pack("<10I", *self.dims)
        assert len(out) == 52
        if self.late:
            out += self.reserved
        self.index = len(out)
        places, end = self.places()
        for i, t in enumerate(self.tensors):
            e = {"offset": places[i], "size": len(t.stored), "n_elements": product(t.shape),
                 "dims": t.shape, "n_dims": len(t.shape), "reserved": bytes(7), **t.entry}
            entry = t.name.ljust(48, b"\0")
            entry += struct.pack("<QQQ", e["offset"], e["size"], e["n_elements"])
            entry += struct.pack("<4I", *(list(e["dims"]) + [0] * 4)[:4])
            entry += bytes([e["n_dims"]]) + e["reserved"]
            assert len(entry) == 96
            out += entry
        if q == 2:
            for t in self.tensors:
                out += struct.pack("<f", t.scale)
        self.data = len(out)
        data = bytearray(end)
        for i, t in enumerate(self.tensors):
            data[places[i]:places[i] + len(t.stored)] = t.stored
        out += data
        if self.tokens is not None:
            b = self.vocabulary()
            out += struct.pack("<I", len(b) if self.vocabulary_size is None else self.vocabulary_size) + b
        self.mel_at = len(out) + 12
        if self.mel is not None:
            b = self.filterbank()
            out += struct.pack("<I", len(b) if self.filterbank_size is None else self.filterbank_size) + b
        out += self.trailing
        return out + struct.pack("<I", zlib.crc32(out) ^ self.crc_xor)

    def metadata(self):
        md = {"version": self.version, "model_type": MODELS[self.model] if self.model < len(MODELS) else self.model,
              "quantization": QUANTIZATIONS[self.q], "compressed": self.compressed != 0, **dict(zip(DIMS, self.dims))}
        if self.tokens is not None:
            md["vocab"] = [text(t) for t in self.tokens]
            md["merges"] = [[text(a), text(b)] for a, b in self.merges]
            if not all(is_utf8(t) for t in list(self.tokens) + [t for pair in self.merges for t in pair]):
                md["vocab_bytes"] = base64.b64encode(self.vocabulary()).decode()
        if self.mel is not None:
            md["mel_filterbank"] = [jsonable(x) for x in np.array(self.mel, "<f4").tolist()]
            md["mel_filterbank_shape"] = self.shape
        return md

    def described(self):
        places, _ = self.places()
        out = []
        for i, t in enumerate(self.tensors):
            out.append(described(t.shown, DTYPES[self.q], t.shape, self.data + places[i], t.stored, t.raw, t.f32()))
            if t.lz4:
                out[-1].update(encoding="lz4", zero_copy=False)
            if self.q == 2:
                out[-1].update(scale=float(np.float32(t.scale)), zero_point=0)
        if self.mel is not None and all(t.shown != "mel_filterbank" for t in self.tensors):
            raw = np.array(self.mel, "<f4").tobytes()
            out.append(described("mel_filterbank", "F32", self.shape, self.mel_at, raw, raw, raw))
        return out


WIDTHS = {"F32": 4, "F16": 2, "I8": 1, "I64": 8}


def described(name, dtype, shape, offset, stored, raw, f32):
    return {"name": name, "dtype": dtype, "shape": shape, "offset": offset, "stored": len(stored), "raw": len(raw),
            "encoding": "raw", "zero_copy": offset % WIDTHS[dtype] == 0, "stored_sha256": sha(stored), "raw_sha256": sha(raw),
            **({"f32_hex": f32.hex()} if len(f32) < 1024 else {"f32_sha256": sha(f32)})}


def jsonable(x):
    return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(repr(x), x)


class Container:
    """One file of the container JSON. entries are (name, dtype, shape, offset, bytes)."""

    def __init__(self, metadata, entries, data, index=None, n_tensors=None, trailing=b"", crc_xor=0):
        self.__dict__.update(locals())

    def encode(self):
        index = self.index
        if index is None:
            index = json.dumps([{"name": n, "dtype": d, "shape": s, "offset": o, "size": len(b)}
                                for n, d, s, o, b in self.entries], ensure_ascii=False).encode()
        out = b"APR1" + struct.pack("<I", len(self.metadata)) + self.metadata
        out += struct.pack("<I", len(self.entries) if self.n_tensors is None else self.n_tensors)
        self.index_at = len(out) + 4
        out += struct.pack("<I", len(index)) + index
        self.data_at = len(out)
        data = bytearray(self.data)
        for _, _, _, o, b in self.entries:
            data[o:o + len(b)] = b
        out += data + self.trailing
        return bytes(out) + struct.pack("<I", zlib.crc32(out) ^ self.crc_xor)

    def described(self):
        np_types = {"F32": "<f4", "F16": "<f2", "I8": "<i1", "I64": "<i8"}
        return [described(n, d, s, self.data_at + o, b, b, np.frombuffer(b, np_types[d]).astype("<f4").tobytes())
                for n, d, s, o, b in self.entries]


def values(n, seed, q=0):
    """n values without a short period, of both signs."""
    x = [(i * i * 7 + i * 13 + seed * 29) % 251 - 125 for i in range(n)]
    return x if q == 2 else [v / 64 for v in x]


def few(q=0):
    scales = [0.1, 1e-3, 2.5]
    return [Tensor(name, q, shape, values(product(shape), i, q), scale=scales[i])
            for i, (name, shape) in enumerate([("encoder.conv1.weight", [2, 3, 2]), ("encoder.conv1.bias", [3]), ("a", [1])])]


def f32s():
    inf, nan = float("inf"), float("nan")
    return [
        Tensor("four", 0, [1, 2, 3, 1], [0.0, -0.0, 1.5, -3.4028234663852886e38, 1e-45, inf]),
        Tensor("scalar", 0, [], [-2.5]),
        Tensor("empty", 0, [0, 7], []),
        Tensor("größe/重み", 0, [2], [nan, 1.0], reserved=b"reserve"),
        Tensor("", 0, [1], [42.0]),
        Tensor("n" * 47, 0, [1], [7.0]),
        Tensor("unused dims", 0, [2], [1.0, 2.0], dims=[2, 9, 9, 9]),
    ]


def f16s():
    bits = [0, 0x8000, 1, 0x03ff, 0x0400, 0x3c00, 0x7bff, 0x7c00, 0xfc00, 0x7e01]
    return [Tensor("bits", 1, [2, 5], raw=struct.pack("<10H", *bits)), Tensor("x", 1, [3], [1 / 3, -65504, 6e-8])]


def int8s():
    return [
        Tensor("all", 2, [16, 16], raw=bytes(range(256)), scale=0.007843137718737125),
        Tensor("negative", 2, [3], [-127, 0, 127], scale=-1.5),
        Tensor("tiny", 2, [2], [1, -128], scale=1e-45),
        Tensor("zero", 2, [2], [5, -5], scale=0.0),
        Tensor("huge", 2, [2], [100, 1], scale=3e38),
    ]


TEXT = [b"<|endoftext|>", b"", "é".encode(), "\u0120world".encode(), b"a\0b", b"a", b"a"]
BYTES = [b"plain", b"\x80", b"\xe3\x81", "あ".encode(), b"\xff\xfea\xc3", b"\xed\xa0\x80"]

FILES = {
    "f32": Model(f32s(), model=1, dims=list(range(101, 111))),
    "f16": Model(f16s(), 1, model=200, dims=[2**32 - 1] * 10, tokens=TEXT, merges=[(b"a", b"b"), (b" ", b" x")]),
    "int8": Model(int8s(), 2, model=11, tokens=BYTES, merges=[(b"\xe3", b"\x81\x82")], mel=values(6, 3), shape=[2, 3]),
    "merges": Model(few(), tokens=[b"a"], merges=[(b"\xe3\x81", b"\x82"), (b"", b"")]),
    "novocab": Model(few(), tokens=[]),
    "filterbank": Model(few(), model=12, mel=[float("nan"), 0.5, float("inf"), -0.0, 1 / 3, 2.0], shape=[3, 2]),
    "nofilterbank": Model(few(), mel=[], shape=[0, 201]),
    "shuffled": Model(few(), order=[2, 0, 1]),
    "compressed": Model([
        Tensor("raw", 0, [3], values(3, 1)),
        Tensor("zeros", 0, [35000], [0.0] * 35000, lz4=True),
        Tensor("pattern", 0, [2, 600], values(1200, 2), lz4=True),
        Tensor("empty", 0, [0], []),
    ], compressed=1),
    "compressed_int8": Model([
        Tensor("q", 2, [64, 40], values(2560, 4, 2), scale=0.25, lz4=True),
        Tensor("raw", 2, [5], values(5, 5, 2), scale=4.0),
    ], 2, compressed=1),
    "taken": Model([Tensor("mel_filterbank", 0, [2], [1.0, 2.0])], mel=values(6, 3), shape=[2, 3]),
    "late": Model(few(), late=True, tokens=TEXT, mel=values(6, 3), shape=[2, 3]),
    "late_f16": Model(f16s(), 1, late=True),
    "flags": Model(few(), flags=0xfc),
    "json": Container(' {"n_mels": 80, "vocab": ["a", "é"], "x": {"y": [1, 1.5, null]}} '.encode()[1:], [
        ("f32", "F32", [2, 2], 12, struct.pack("<4f", 1, -2, 0.5, 1e-45)),
        ("größe", "F16", [3], 0, struct.pack("<3e", 1, -2, 65504)),
        ("i8", "I8", [6], 6, struct.pack("<6b", -128, -1, 0, 1, 127, 2)),
    ], 28),
}

# Files that are read, and of which verify has something to say.
ODD = {
    "cut": (Model([Tensor(b"n" * 45 + b"\xe3\x81", 0, [1], [1.0], shown="n" * 45 + "\ufffd"),
                   Tensor(b"short \xc3", 0, [1], [2.0], shown="short \ufffd")]), "ok", ["name", "name"]),
    "trailing": (Model(few(), tokens=TEXT, trailing=b"behind"), "ok", ["padding"]),
    "badcrc": (Model(few(), crc_xor=1), "fail", ["crc32"]),
    "json_gap": (Container(b'{"a":1}', [("x", "F32", [1], 4, b"abcd"), ("y", "F32", [0], 9, b"")], 9),
                 "ok", ["padding", "padding"]),
    "json_badcrc": (Container(b"{}", [("x", "F32", [1], 0, b"abcd")], 4, crc_xor=256), "fail", ["crc32"]),
}

# Files that must be refused, with the field and the offset that the error is about.
entry = 52
REFUSED = {
    "bad_version": (Model(few(), version=3), "version", 4),
    "bad_late_version": (Model(few(), late=True, version=2, reserved=b"{}" + bytes(14)), "reserved", 52),
    "bad_quantization": (Model(few(), quantization=3), "quantization", 7),
    "bad_compressed": (Model(few(), compressed=2), "compressed", 8),
    "bad_no_tensors": (Model([], tokens=TEXT), "n_tensors", 9),
    "bad_count": (Model(few(), n_tensors=5), "n_tensors", 9),
    "bad_name": (Model([Tensor(b"a\xffb", 0, [1], [1.0], shown="")]), "name", entry),
    "bad_name_end": (Model([Tensor("n" * 48, 0, [1], [1.0])]), "name", entry),
    "bad_offset": (Model([Tensor("a", 0, [1], [1.0], offset=2**63)]), "offset", entry + 48),
    "bad_overlap": (Model([Tensor("a", 0, [2], [1.0, 2.0]), Tensor("b", 0, [2], [1.0, 2.0], offset=4)]), "offset", 248),
    "bad_size": (Model([Tensor("a", 0, [1], [1.0], size=2**64 - 4)]), "size", entry + 56),
    "bad_size_raw": (Model([Tensor("a", 0, [2], [1.0, 1.0], size=4)]), "offset", entry),
    "bad_elements": (Model([Tensor("a", 0, [2], [1.0, 1.0], n_elements=3)]), "n_elements", entry + 64),
    "bad_five_dims": (Model([Tensor("a", 0, [2, 1, 1, 1, 2], values(4, 1), n_dims=4)]), "n_elements", entry + 64),
    "bad_dims": (Model([Tensor("a", 0, [2], [1.0, 1.0], n_dims=5)]), "n_dims", entry + 88),
    "bad_twice": (Model(few() + few()[:1]), "name", entry + 3 * 96),
    "bad_scale": (Model([Tensor("a", 2, [1], [1], scale=1.0), Tensor("b", 2, [1], [1], scale=float("nan"))], 2),
                  "scale", entry + 2 * 96 + 4),
    "bad_lz4": (Model([Tensor("a", 0, [1000], [0.0] * 1000, size=15)], compressed=1), "size", entry + 56),
    "bad_vocabulary_size": (Model(few(), tokens=[b"a"], vocabulary_size=12), "vocabulary_size", entry + 3 * 96 + 64),
    "bad_tokens": (Model(few(), tokens=[b"a"], counts=(2**32 - 1, 0)), "n_tokens", entry + 3 * 96 + 68),
    "bad_filterbank_size": (Model(few(), mel=[1.0, 2.0], shape=[1, 3]), "filterbank_size", entry + 3 * 96 + 64),
    "bad_filterbank": (Model(few(), mel=[], shape=[2**31, 2**31]), "filterbank_size", entry + 3 * 96 + 64),
    "bad_json_index": (Container(b"{}", [], 0, index=b"[1]"), "index", 19),
    "bad_json_two": (Container(b"{}", [], 0, index=b'[],"x":[]'), "index", 20),
    "bad_json_count": (Container(b"{}", [("x", "F32", [1], 0, b"abcd")], 4, n_tensors=2), "n_tensors", 10),
    "bad_json_dtype": (Container(b"{}", [("x", "F33", [1], 0, b"abcd")], 4), "dtype", 42),
    "bad_json_negative": (Container(b"{}", [], 4, n_tensors=1, index=(
        b'[{"name":"x","dtype":"F32","shape":[-1],"offset":0,"size":4}]')), "shape", 54),
}


def save(name, data, about):
    with open(name + ".apr", "wb") as f:
        f.write(data)
    with open(name + ".json", "w", encoding="utf-8") as f:
        json.dump({"file": name + ".apr", "format": "apr1", "size": len(data), **about}, f, indent=1, ensure_ascii=False)
        f.write("\n")


def describe(m, verify, findings):
    if isinstance(m, Container):
        version, metadata = "json", json.loads(m.metadata)
    else:
        version, metadata = str(m.version), m.metadata()
    return {"version": version, "metadata": metadata, "tensors": m.described(), "verify": verify, "findings": findings}


for name, m in FILES.items():
    save(name, m.encode(), describe(m, "ok", []))
for name, (m, verify, findings) in ODD.items():
    save(name, m.encode(), describe(m, verify, findings))
for name, (m, field, offset) in REFUSED.items():
    save(name, m.encode(), {"error": {"field": field, "offset": offset}})
