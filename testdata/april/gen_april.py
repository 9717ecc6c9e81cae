#!/usr/bin/env python3
"""Writes the .april files of this folder, and beside each NAME.april a NAME.json that says
what a reader must find in it.

The networks are ONNX models made by the Python package onnx, but for those of wire.april,
whose tensors are put together byte by byte from the protobuf encoding and read back by
onnx. All values in the JSON come from onnx.numpy_helper.to_array. The container around
them is assembled with struct, field by field, after the format's specification and in the
order in which april-asr's export writes it. Nothing is shared with the Go package that is
tested against these files.

    python gen_april.py                   writes the files; the same bytes each time
    python gen_april.py --run TENSORMAP   runs what TENSORMAP dumps of the networks
                                          in onnxruntime, and compares the outputs with
                                          those of onnx's reference evaluator
"""

import hashlib
import json
import os
import struct
import subprocess
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

# ONNX type: name here, alignment of an element, and whether it has float32 values there.
DTYPES = {
    TensorProto.FLOAT: ("F32", 4, True), TensorProto.UINT8: ("U8", 1, True),
    TensorProto.INT8: ("I8", 1, True), TensorProto.UINT16: ("U16", 2, True),
    TensorProto.INT16: ("I16", 2, True), TensorProto.INT32: ("I32", 4, True),
    TensorProto.INT64: ("I64", 8, True), TensorProto.BOOL: ("BOOL", 1, True),
    TensorProto.FLOAT16: ("F16", 2, True), TensorProto.DOUBLE: ("F64", 8, True),
    TensorProto.UINT32: ("U32", 4, True), TensorProto.UINT64: ("U64", 8, True),
    TensorProto.COMPLEX64: ("C64", 4, False), TensorProto.COMPLEX128: ("C128", 8, False),
    TensorProto.BFLOAT16: ("BF16", 2, True),
    TensorProto.FLOAT8E4M3FN: ("F8_E4M3", 1, True),
    TensorProto.FLOAT8E4M3FNUZ: ("F8_E4M3FNUZ", 1, False),
    TensorProto.FLOAT8E5M2: ("F8_E5M2", 1, True),
    TensorProto.FLOAT8E5M2FNUZ: ("F8_E5M2FNUZ", 1, False),
    TensorProto.FLOAT8E8M0: ("F8_E8M0", 1, True),
}
ROLES = ["encoder", "decoder", "joiner"]

PARAMS = {
    "batch_size": 1, "segment_size": 9, "segment_step": 4, "mel_features": 8,
    "samplerate": 16000, "frame_shift_ms": 10, "frame_length_ms": 25, "round_pow2": 1,
    "mel_low": 20, "mel_high": 0, "snip_edges": 0,
}
TOKENS = ["<blk>", "<sos/eos>", "<unk>", " THE", "S", " A", "ED", " \u00e9t\u00e9", "\u65e5\u672c", "", "'", " Z"]


def sha256(b):
    return hashlib.sha256(b).hexdigest()


# --- the container -------------------------------------------------------------------


def params(tokens=TOKENS, blank=0, **changes):
    numbers = {**PARAMS, **changes}
    out = b"PARAMS\0\0" + b"".join(struct.pack("<i", v) for v in numbers.values())
    out += struct.pack("<ii", len(tokens), blank)
    for t in tokens:
        t = t.encode()
        out += struct.pack("<i", len(t)) + t
    meta = {**numbers, "token_count": len(tokens), "blank_token_id": blank, "tokens": tokens}
    return out, meta


class File:
    """An .april file that is being put together."""

    def __init__(self, name, networks, params=None, language="en-us", title="Fixture",
                 description="A model of no use", version=1, model=1, header_size=0,
                 order=("encoder", "decoder", "joiner", "params"), gap=b"", tail=b"",
                 extra_params=b"", count=None, move=None):
        self.name, self.networks = name, networks
        self.params, numbers = params or globals()["params"]()
        title, description = title.encode(), description.encode()
        self.metadata = {"language_tag": language, "name": title.decode(),
                         "description": description.decode(), "model": model, "params": numbers}
        head = language.encode().ljust(8, b"\0")
        head += struct.pack("<Q", len(title)) + title
        head += struct.pack("<Q", len(description)) + description
        self.at_model = 20 + len(head)
        head += struct.pack("<i", model)
        self.at_params = 20 + len(head)
        size = len(head) + 16 + 8 + 16 * len(networks)
        parts = {"params": self.params + extra_params, **dict(zip(ROLES, networks))}
        self.where, body = {}, b""
        for part in order:
            body += gap
            self.where[part] = (20 + size + len(body), len(parts[part]))
            body += parts[part]
        for part, entry in (move or {}).items():
            self.where[part] = entry
        self.header_end = 20 + size
        head += struct.pack("<QQ", *self.where["params"])
        self.at_count = 20 + len(head)
        head += struct.pack("<Q", len(networks) if count is None else count)
        self.at_networks = 20 + len(head)
        for role in ROLES[:len(networks)]:
            head += struct.pack("<QQ", *self.where[role])
        self.data = b"APRILMDL" + struct.pack("<IQ", version, size + header_size) + head + body + tail

    def save(self, verify="ok", findings=(), tensors=None):
        self.write({"version": "1", "metadata": self.metadata,
                    "tensors": self.tensors() if tensors is None else tensors,
                    "verify": verify, "findings": sorted(findings)})

    def refuse(self, field, offset):
        self.write({"error": {"field": field, "offset": offset}})

    def write(self, description):
        with open(self.name + ".april", "wb") as f:
            f.write(self.data)
        head = {"file": self.name + ".april", "format": "april", "size": len(self.data)}
        with open(self.name + ".json", "w", encoding="utf-8") as f:
            json.dump({**head, **description}, f, indent=1, ensure_ascii=False)
            f.write("\n")

    def tensors(self):
        out = [self.network_tensor(role) for role in ROLES]
        for role in ROLES:
            offset, size = self.where[role]
            try:
                model = onnx.load_from_string(self.data[offset:offset + size])
            except Exception:
                continue  # no ONNX
            for init in model.graph.initializer:
                out.append(self.initializer_tensor(role, init))
        return out

    def network_tensor(self, role):
        offset, size = self.where[role]
        raw = self.data[offset:offset + size]
        values = np.frombuffer(raw, "u1").astype("<f4").tobytes()
        return {"name": "networks/" + role, "dtype": "U8", "shape": [size], "offset": offset,
                "stored": size, "raw": size, "encoding": "raw", "zero_copy": True,
                "stored_sha256": sha256(raw), "raw_sha256": sha256(raw), "f32_sha256": sha256(values)}

    def message(self, role, init):
        """Where the TensorProto init is in the file."""
        offset, size = self.where[role]
        network = self.data[offset:offset + size]
        bytes_ = MESSAGES.get((role, init.name)) or init.SerializeToString(deterministic=True)
        assert network.count(bytes_) == 1, (role, init.name)
        return offset + network.index(bytes_), len(bytes_)

    def initializer_tensor(self, role, init):
        array = numpy_helper.to_array(init)
        raw = array.astype(array.dtype.newbyteorder("<")).tobytes()
        dtype, align, has_f32 = DTYPES[init.data_type]
        at, size = self.message(role, init)
        encoding = "protobuf"
        if init.HasField("raw_data") or not raw:
            encoding, size = "raw", len(raw)
            if init.HasField("raw_data"):
                at = self.raw_data(at, init.raw_data, role)
        tensor = {"name": f"{role}/{init.name}", "dtype": dtype, "shape": list(array.shape),
                  "offset": at, "stored": size, "raw": len(raw), "encoding": encoding,
                  "zero_copy": encoding == "raw" and at % align == 0,
                  "stored_sha256": sha256(self.data[at:at + size]), "raw_sha256": sha256(raw)}
        tensor["f32_hex"] = float32(array).hex() if has_f32 else None
        return tensor

    def raw_data(self, at, raw, role):
        """Where the field raw_data (9, bytes) of the TensorProto at at has its bytes."""
        mark = b"\x4a" + varint(len(raw))
        end = sum(self.where[role])
        return self.data.index(mark + raw, at, end) + len(mark)


def float32(array):
    """The values as float32, rounded once."""
    with np.errstate(over="ignore"):
        return array.astype("<f4").tobytes()


# --- networks ------------------------------------------------------------------------


def model(graph, opset=17):
    m = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    m.producer_name = "gen_april.py"
    return m.SerializeToString(deterministic=True)


def value(name, kind, shape):
    return helper.make_tensor_value_info(name, kind, shape)


def raw(name, array):
    return numpy_helper.from_array(array, name)


def typed(name, kind, shape, values):
    return helper.make_tensor(name, kind, shape, values)


def holder(initializers, sparse=()):
    """A network that does nothing but hold tensors."""
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])], "holder",
        [value("x", TensorProto.FLOAT, [1])], [value("y", TensorProto.FLOAT, [1])],
        initializers, sparse_initializer=list(sparse))
    return model(graph)


def encoder(rng):
    """An LSTM over nine frames of eight mel bands, four units wide."""
    nodes = [
        helper.make_node("Transpose", ["x"], ["xt"], perm=[1, 0, 2]),
        helper.make_node("LSTM", ["xt", "lstm.W", "lstm.R", "lstm.B", "", "h", "c"],
                         ["y", "next_h", "next_c"], name="lstm", hidden_size=4),
        helper.make_node("Gather", ["y", "last"], ["z"], axis=0),
        helper.make_node("Reshape", ["z", "flat"], ["u"]),
        helper.make_node("Gemm", ["u", "proj.weight", "proj.bias"], ["encoder_out"], transB=1),
    ]
    weights = [
        raw("lstm.W", rng.standard_normal((1, 16, 8)).astype("f4")),
        raw("lstm.R", rng.standard_normal((1, 16, 4)).astype("f4")),
        raw("lstm.B", rng.standard_normal((1, 32)).astype("f4")),
        raw("proj.weight", rng.standard_normal((6, 4)).astype("f4")),
        typed("proj.bias", TensorProto.FLOAT, [6], rng.standard_normal(6)),
        typed("last", TensorProto.INT64, [], [-1]),
        typed("flat", TensorProto.INT64, [2], [1, -1]),
    ]
    state = [value(n, TensorProto.FLOAT, [1, 1, 4]) for n in ("h", "c")]
    outs = [value(n, TensorProto.FLOAT, [1, 1, 4]) for n in ("next_h", "next_c")]
    return model(helper.make_graph(
        nodes, "encoder", [value("x", TensorProto.FLOAT, [1, 9, 8]), *state],
        [value("encoder_out", TensorProto.FLOAT, [1, 6]), *outs], weights))


def decoder(rng):
    """An embedding of two tokens of context, as float16, and a projection."""
    nodes = [
        helper.make_node("Gather", ["embedding", "context"], ["e"]),
        helper.make_node("Cast", ["e"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Flatten", ["f"], ["g"]),
        helper.make_node("MatMul", ["g", "proj"], ["decoder_out"]),
    ]
    weights = [
        raw("embedding", rng.standard_normal((12, 3)).astype("f2")),
        raw("proj", rng.standard_normal((6, 6)).astype("f4")),
    ]
    return model(helper.make_graph(
        nodes, "decoder", [value("context", TensorProto.INT64, [1, 2])],
        [value("decoder_out", TensorProto.FLOAT, [1, 6])], weights))


def joiner(rng):
    nodes = [
        helper.make_node("Add", ["encoder_out", "decoder_out"], ["s"]),
        helper.make_node("Tanh", ["s"], ["t"]),
        helper.make_node("Gemm", ["t", "output.weight", "output.bias"], ["logits"]),
    ]
    weights = [
        raw("output.weight", rng.standard_normal((6, 12)).astype("f4")),
        raw("output.bias", rng.standard_normal(12).astype("f4")),
    ]
    return model(helper.make_graph(
        nodes, "joiner", [value(n, TensorProto.FLOAT, [1, 6]) for n in ("encoder_out", "decoder_out")],
        [value("logits", TensorProto.FLOAT, [1, 12])], weights))


def streaming():
    rng = np.random.default_rng(4)
    return [encoder(rng), decoder(rng), joiner(rng)]


def extremes(kind):
    """Six values of an ONNX type, as an array of two by three."""
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    if kind == TensorProto.BOOL:
        return np.array([[True, False, True], [False, False, True]])
    if dtype.kind in "iu":
        i = np.iinfo(dtype)
        return np.array([[i.min, i.max, 0], [1, i.max // 3, i.min // 3]], dtype)
    if dtype.kind == "c":
        return np.array([[1 + 2j, -0.5j, np.inf], [complex(np.nan, 1), 1e30, -1]], dtype)
    if dtype.itemsize == 1:  # all float8 types: by their bits
        return np.array([[0x00, 0x38, 0x7e], [0x80, 0xc1, 0x01]], "u1").view(dtype)
    tiny = 2.0 ** -24 if dtype.itemsize == 2 else 1e-40
    return np.array([[1.5, -0.0, np.inf], [np.nan, tiny, -3.1415926535897931]], "f8").astype(dtype)


def as_raw(kind):
    array = extremes(kind)
    return helper.make_tensor(name_of(kind), kind, array.shape, array, raw=True)


def as_numbers(kind):
    """The same values in the type's own field. make_tensor would round float8."""
    array = extremes(kind)
    t = TensorProto(name=name_of(kind), data_type=kind, dims=array.shape)
    field = helper.tensor_dtype_to_field(kind)
    flat = array.flatten()
    if field == "int32_data" and array.dtype.kind not in "iu":
        flat = flat.view("u%d" % array.dtype.itemsize)
    elif array.dtype.kind == "c":
        flat = flat.view("f%d" % (array.dtype.itemsize // 2))
    getattr(t, field).extend(flat.tolist())
    return t


def name_of(kind):
    return TensorProto.DataType.Name(kind).lower()


def dtypes():
    shapes = [
        raw("scalar", np.array(2.5, "f4")),
        typed("scalar typed", TensorProto.INT32, [], [-7]),
        raw("empty", np.zeros((0, 3), "f4")),
        typed("empty typed", TensorProto.INT64, [2, 0], []),
        raw("rank 8", np.arange(8, dtype="i2").reshape(1, 2, 1, 2, 1, 2, 1, 1)),
        raw("\u00e9\u65e5/\u2581name.with:all", np.array([1, 2], "u1")),
        typed("varints", TensorProto.INT64, [7], [0, 127, 128, -1, 2**62, 300, -2**63]),
        typed("many", TensorProto.INT32, [3000], [(-3) ** (i % 19) for i in range(3000)]),
    ]
    return [holder([as_raw(k) for k in DTYPES]), holder([as_numbers(k) for k in DTYPES]), holder(shapes)]


# --- protobuf by hand ----------------------------------------------------------------

# TensorProtos that onnx would write differently from how they are in a file.
MESSAGES = {}


def varint(v, longer=0):
    """v as a varint, with that many more bytes than it needs."""
    v &= 2**64 - 1
    out = b""
    while v > 127:
        out += bytes([v & 127 | 128])
        v >>= 7
    if longer == 0:
        return out + bytes([v])
    return out + bytes([v | 128]) + b"\x80" * (longer - 1) + b"\0"


def number(field, v, longer=0):
    return varint(field << 3) + varint(v, longer)


def record(field, b):
    return varint(field << 3 | 2) + varint(len(b)) + b


def f32(field, v):
    return varint(field << 3 | 5) + struct.pack("<f", v)


def f64(field, v):
    return varint(field << 3 | 1) + struct.pack("<d", v)


def group(field, b):
    return varint(field << 3 | 3) + b + varint(field << 3 | 4)


def floats(*v):
    return struct.pack("<%df" % len(v), *v)


def by_hand():
    """Tensors in all the ways that protobuf allows and no usual writer writes them."""
    name = lambda s: record(8, s.encode())
    unknown = number(99, 5) + record(536870911, b"?") + group(40, number(1, 7) + group(41, f32(2, 1))) + f64(98, 1)
    return {
        "unpacked floats": number(1, 3) + number(2, 1) + f32(4, 1) + f32(4, -2.5) + f32(4, 3e38) + name("unpacked floats"),
        "unpacked ints": number(1, 2) + number(2, 6) + number(5, -5) + number(5, 2**31 - 1) + name("unpacked ints"),
        "unpacked int64": number(1, 2) + number(2, 7) + number(7, -2**63) + number(7, 12) + name("unpacked int64"),
        "unpacked uint64": number(1, 1) + number(2, 13) + number(11, 2**64 - 1) + name("unpacked uint64"),
        "unpacked doubles": number(1, 2) + number(2, 11) + f64(10, 1e-300) + f64(10, 2) + name("unpacked doubles"),
        "mixed": number(1, 5) + number(2, 1) + record(4, floats(1, 2)) + f32(4, 3) + record(4, b"")
                 + record(4, floats(4, 5)) + name("mixed"),
        "split": number(2, 3) + name("split") + record(5, varint(1) + varint(-2)) + number(1, 4)
                 + record(5, varint(3) + varint(-128)),
        "packed dims": record(1, varint(2) + varint(1)) + record(1, varint(2)) + number(2, 2) + name("packed dims")
                       + record(9, bytes([9, 8, 7, 6])),
        "backwards": record(9, floats(7, 8)) + name("backwards") + number(2, 1) + number(1, 2),
        "unknown": unknown + number(1, 1) + unknown + number(2, 1) + record(12, b"A comment \xe2\x82\xac")
                   + record(9, floats(0.5)) + unknown + name("unknown") + record(16, record(1, b"k") + record(2, b"v")),
        "long varints": number(1, 2, 7) + number(2, 5, 9) + record(5, varint(-300) + varint(17, 9)) + name("long varints"),
        "five bytes": number(1, 1) + number(2, 6) + record(5, b"\xff\xff\xff\xff\x0f") + name("five bytes"),
        "in place": number(1, 2) + number(2, 1) + name("in place") + number(14, 0) + record(9, floats(1, 2)),
        "a half": number(1, 2) + number(2, 10) + record(5, varint(0x3c00) + varint(0xfbff)) + name("a half"),
        "brain": number(1, 2) + number(2, 16) + record(5, varint(0x3f80) + varint(0xff7f)) + name("brain"),
    }


def network_by_hand(role, tensors, more=b""):
    for name, message in tensors.items():
        MESSAGES[role, name] = message
    graph = record(2, b"by hand")
    for i, message in enumerate(tensors.values()):
        graph += record(1, record(2, b"y") + record(4, b"Identity")) if i == 3 else b""
        graph += record(5, message)
    graph += number(77, 1) + group(78, record(5, b"no initializer"))
    return number(1, 8) + record(7, graph + more) + record(8, record(1, b"") + number(2, 17)) + record(20, b"")


def subgraph():
    """A graph with an If, whose branches have initializers, which are not the graph's own."""
    branches = [
        helper.make_graph([helper.make_node("Identity", ["inner"], ["out"])], n, [],
                          [value("out", TensorProto.FLOAT, [1])], [raw("inner", np.array([v], "f4"))])
        for n, v in (("then", 1.0), ("else", 2.0))]
    nodes = [
        helper.make_node("Constant", [], ["constant"], value=raw("constant", np.array([9], "f4"))),
        helper.make_node("If", ["cond"], ["z"], then_branch=branches[0], else_branch=branches[1]),
        helper.make_node("Add", ["z", "outer"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "outer", [value("cond", TensorProto.BOOL, [1])],
                              [value("y", TensorProto.FLOAT, [1])], [raw("outer", np.array([4], "f4"))])
    return model(graph)


def sparse():
    values = raw("sparse", np.array([1, 2], "f4"))
    indices = raw("", np.array([1, 5], "i8"))
    return helper.make_sparse_tensor(values, indices, [3, 3])


# --- files ---------------------------------------------------------------------------


def one(t):
    """Networks of which the encoder holds the tensor t alone."""
    good = holder([raw("a", np.array([1], "f4"))])
    return [holder([t]), good, good]


def initializer_at(f, t):
    return f.message("encoder", t)[0]


def refused():
    good = raw("a", np.array([1], "f4"))

    def bad(name, field, t):
        f = File(name, one(t))
        f.refuse(field, initializer_at(f, t))

    external = TensorProto(name="a", data_type=1, dims=[1], data_location=TensorProto.EXTERNAL)
    external.external_data.add(key="location", value="weights.bin")
    bad("external", "external_data", external)
    bad("string", "data_type", typed("a", TensorProto.STRING, [2], ["x", "y"]))
    bad("int4", "data_type", typed("a", TensorProto.INT4, [2], [1, -1]))
    bad("nodata", "raw_data", TensorProto(name="a", data_type=1, dims=[2]))
    bad("noname", "name", raw("", np.array([1], "f4")))

    f = File("twice", [holder([good, raw("a", np.array([2], "f4"))]), *one(good)[1:]])
    second = raw("a", np.array([2], "f4"))
    f.refuse("name", initializer_at(f, second))

    f = File("version", one(good), version=2)
    f.refuse("version", 8)
    f = File("model", one(good), model=2)
    f.refuse("model", f.at_model)
    f = File("count", one(good)[:2], order=("encoder", "decoder", "params"))
    f.refuse("network_count", f.at_count)
    f = File("overlap", one(good))
    start, size = f.where["encoder"]
    f = File("overlap", one(good), move={"decoder": (start + size - 1, size)})
    f.refuse("networks", start + size - 1)
    f = File("outside", one(good))
    end = len(f.data)
    f = File("outside", one(good), move={"joiner": (end - 3, 4)})
    f.refuse("networks", f.at_networks + 32)


def main():
    networks = streaming()
    File("streaming", networks, title="Streaming", description="Random weights: it recognises noise").save()
    File("dtypes", dtypes(), language="", title="", description="").save()
    File("wire", [network_by_hand("encoder", by_hand()), subgraph(), networks[2]],
         title="Wire \u2581", description="Line one\nline two").save()

    odd = File("odd", [holder([raw("a", np.array([1, 2], "i4"))]),
                       holder([raw("b", np.array([3], "i8"))], [sparse()]), networks[2]],
               language="de-CH-19", order=("joiner", "params", "decoder", "encoder"), gap=b"\0" * 5,
               tail=b"tail", extra_params=b"left", header_size=3,
               params=params(TOKENS[:4], 2, mel_high=7600, snip_edges=-1, round_pow2=0, segment_step=9))
    odd.save(findings=["header_size", "params", "params", "sparse_initializer", "trailing"] + ["padding"] * 4)

    # The identifier of an ORT flatbuffer, which onnxruntime runs as well; and nothing at all.
    opaque = File("opaque", [b"\x20\0\0\0ORTM" + bytes(range(40)), networks[1], b""])
    opaque.save(verify="fail", findings=["network", "network"])
    refused()


# --- running what is dumped ----------------------------------------------------------


def run(tensormap):
    import onnxruntime
    from onnx.reference import ReferenceEvaluator

    rng = np.random.default_rng(5)
    for role in ROLES:
        dumped = subprocess.run([tensormap, "dump", "streaming.april", "networks/" + role, "--as", "raw"],
                                check=True, stdout=subprocess.PIPE).stdout
        onnx.checker.check_model(onnx.load_from_string(dumped), full_check=True)
        session = onnxruntime.InferenceSession(dumped, providers=["CPUExecutionProvider"])
        feeds = {}
        for i in session.get_inputs():
            feeds[i.name] = (rng.integers(0, 12, i.shape) if "int64" in i.type
                             else rng.standard_normal(i.shape).astype("f4"))
        got = session.run(None, feeds)
        want = ReferenceEvaluator(onnx.load_from_string(dict(zip(ROLES, streaming()))[role])).run(None, feeds)
        for g, w, out in zip(got, want, session.get_outputs()):
            np.testing.assert_allclose(g, w, rtol=1e-5, atol=1e-6)
            print(role, out.name, g.shape, g.ravel()[:3])


if __name__ == "__main__":
    os.chdir(os.path.dirname(os.path.abspath(__file__)))
    if len(sys.argv) == 3 and sys.argv[1] == "--run":
        run(os.path.abspath(sys.argv[2]))
    else:
        main()
