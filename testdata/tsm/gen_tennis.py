"""Writes tennis-*.tsm with TenniS's own Python package, and beside each what TenniS was
given and what its reader reads back. See README.md.

    python gen_tennis.py TENNIS/python

No line of this knows how a module is laid out: where a tensor's bytes are is seen from
the stream at the moment TenniS has written them.
"""

import io
import itertools
import os
import sys

import numpy

import describe

sys.path.insert(0, sys.argv[1])
import tensorstack as ts  # noqa: E402
from tensorstack import dtype as ts_dtype  # noqa: E402
from tensorstack import tensor as ts_tensor  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))

# Module.load collects nodes in a set, whose order follows the nodes' addresses: with
# numbers for hashes the files come out the same every time.
numbers = itertools.count()


def node_hash(node):
    if not hasattr(node, "_number"):
        node._number = next(numbers)
    return node._number


ts.Node.__hash__ = node_hash
ts.Node.__eq__ = lambda a, b: a is b


# Types without a NumPy type of their own enter through the tables with which TenniS
# converts NumPy's types and back.
def opaque(number, name, layout):
    t = numpy.dtype([(name, layout)])
    ts_dtype.convert_pairs.append((t, number))
    vars(ts_dtype)["__dtype_to_numpy_dtype"][number] = t
    return t


OPAQUE = {
    ts.CHAR16: opaque(ts.CHAR16, "char16", "<u2"),
    ts.CHAR32: opaque(ts.CHAR32, "char32", "<u4"),
    ts.UNKNOWN8: opaque(ts.UNKNOWN8, "unknown8", "u1"),
    ts.UNKNOWN16: opaque(ts.UNKNOWN16, "unknown16", "<u2"),
    ts.UNKNOWN32: opaque(ts.UNKNOWN32, "unknown32", "<u4"),
    ts.UNKNOWN64: opaque(ts.UNKNOWN64, "unknown64", "<u8"),
    ts.UNKNOWN128: opaque(ts.UNKNOWN128, "unknown128", "V16"),
    ts.COMPLEX32: opaque(ts.COMPLEX32, "complex32", "2<f2"),
}

# Every tensor that TenniS writes is noted with where its bytes end.
written = []
write_unpacked_tensor = ts_tensor.write_unpacked_tensor


def noting(stream, tensor):
    write_unpacked_tensor(stream=stream, tensor=tensor)
    if isinstance(tensor, ts_tensor.StringTensor):
        dtype, shape = ts.CHAR8, (len(tensor.tobytes()),)
    else:
        dtype, shape = ts_dtype.from_numpy(tensor.dtype), tensor.shape
    size = int(numpy.prod(shape, dtype=int)) * ts_dtype.dtype_bytes(dtype)
    written.append((dtype, shape, stream.tell() - size, size))


ts_tensor.write_unpacked_tensor = noting


def save(name, outputs, inputs=None):
    module = ts.Module()
    module.load(outputs)
    if inputs is not None:
        module.sort_inputs(inputs)
    stream = io.BytesIO()
    written.clear()
    ts.Module.Save(stream, module)
    data = stream.getvalue()
    stream.seek(0)
    back = ts.Module.Load(stream)
    assert stream.read() == b""
    describe_module(name, data, module._Module__nodes, back._Module__nodes, back)


SPECIAL = ("#name", "#op", "#shape", "#dtype")


def fields(value):
    value = ts_tensor.from_any(value)
    return list(value) if isinstance(value, ts_tensor.PackedTensor) else [value]


def describe_module(name, data, given, nodes, back):
    position = {node: i for i, node in enumerate(nodes)}
    params = [(n.name, [(k, len(fields(v))) for k, v in n.params.items() if k not in SPECIAL]) for n in given]
    called = describe.tensor_names(params)
    tensors, said, rest = [], [], iter(written)
    for before, node, names in zip(given, nodes, called):
        about = {"name": node.name, "op": node.op, "inputs": [position[x] for x in node.inputs]}
        if "#shape" in node.params:
            about["shape"] = [int(x) for x in node.params["#shape"]]
        if "#dtype" in node.params:
            about["dtype"] = describe.DTYPES[node.dtype][0]
        names = iter(names)
        for key, value in before.params.items():
            of_param = None if key in SPECIAL else next(names)
            read = fields(node.params[key])
            assert len(read) == len(fields(value))
            for k, field in enumerate(read):
                dtype, shape, offset, size = next(rest)
                assert field.tobytes() == data[offset:offset + size]
                if of_param is not None:
                    tensors.append(describe.tensor(of_param[k], dtype, shape, offset, data[offset:offset + size]))
            if of_param is not None:
                about.setdefault("params", {})[key] = of_param
        said.append(about)
    assert next(rest, None) is None
    metadata = {
        "inputs": [position[x] for x in back.inputs],
        "outputs": [position[x] for x in back.outputs],
        "nodes": said,
    }
    path = os.path.join(HERE, name + ".tsm")
    describe.save(path, data, metadata=metadata, tensors=tensors, verify="ok", findings=[])
    print(name, len(data), "bytes,", len(tensors), "tensors")


def dtypes():
    """A constant of every type that NumPy has, with its extremes."""
    x = ts.menu.param("x", shape=(-1, 2), dtype=ts.FLOAT32)
    consts = [x]
    for number in (ts.INT8, ts.UINT8, ts.INT16, ts.UINT16, ts.INT32, ts.UINT32, ts.INT64, ts.UINT64):
        limit = numpy.iinfo(ts_dtype.to_numpy(number))
        values = numpy.array([limit.min, limit.max, 1, 0, 100, limit.max - 1], limit.dtype).reshape(2, 3)
        consts.append(ts.menu.data(ts_dtype.dtype_str(number), values))
    for number in (ts.FLOAT16, ts.FLOAT32, ts.FLOAT64):
        limit = numpy.finfo(ts_dtype.to_numpy(number))
        values = numpy.array([limit.min, limit.max, limit.tiny, -0.0, numpy.inf, 1 / 3], limit.dtype)
        consts.append(ts.menu.data(ts_dtype.dtype_str(number), values.reshape(3, 1, 2)))
    consts.append(ts.menu.data("boolean", numpy.array([True, False, True])))
    consts.append(ts.menu.data("complex64", numpy.array([[1 - 2j], [0.5j]], numpy.complex64)))
    consts.append(ts.menu.data("complex128", numpy.array(1e300 + 2j, numpy.complex128)))
    consts.append(ts.menu.data("char8", "text of 張量"))
    consts.append(ts.menu.op("all", "_pack", consts[:]))
    save("tennis-dtypes", consts[-1:])


def packed():
    """Fields of many types in one param, scalars, and what is empty."""
    x = ts.menu.param("輸入")
    node = ts.menu.op("layer/0/op", "custom", [x, x])
    node.set("fields", ts_tensor.PackedTensor([
        numpy.arange(6, dtype=numpy.float32).reshape(1, 2, 3),
        ts_tensor.StringTensor("two"),
        numpy.array(3, numpy.int64),
        numpy.zeros((2, 0, 4), numpy.float64),
    ]))
    node.set("nothing", ts_tensor.PackedTensor([]))
    node.set("one", ts_tensor.PackedTensor([numpy.array([7], numpy.uint16)]))
    node.set("integer", 16)
    node.set("real", 3.4)
    node.set("flag", True, numpy.bool_)
    node.set("string", "")
    node.set("zero_size", numpy.zeros((0,), numpy.float32))
    node.set("name_of_exactly_31_bytes_here__", numpy.array([1, 2], numpy.int16))
    unnamed = ts.menu.op("", "relu", [node])
    unnamed.set("slope", 0.25, numpy.float32)
    save("tennis-packed", [unnamed, node])


def opaque_types():
    """Types of which TenniS says no more than their size."""
    consts = []
    for number, t in OPAQUE.items():
        memory = bytes((number * 31 + i * 7) % 256 for i in range(3 * t.itemsize))
        consts.append(ts.menu.data(ts_dtype.dtype_str(number), numpy.frombuffer(memory, t)))
    save("tennis-opaque", consts)


def graph():
    """A small network through TenniS's operators, with its fusion of convolution and batch
    normalization."""
    random = numpy.random.RandomState(20260101)

    def weights(*shape):
        return (random.randint(-64, 64, shape) / 64).astype(numpy.float32)

    x = ts.menu.param("image", shape=(-1, 3, 8, 8), dtype=ts.FLOAT32)
    y = ts.zoo.conv2d("conv1", x, weights(4, 3, 3, 3), padding=[(0, 0), (0, 0), (1, 1), (1, 1)])
    y = ts.zoo.batch_norm("bn1", y, weights(4), numpy.abs(weights(4)) + 1, 1, 1e-5)
    y = ts.zoo.batch_scale("scale1", y, weights(4), weights(4), 1)
    left = ts.zoo.relu("block/relu", y)
    right = ts.zoo.conv2d("block/conv", left, weights(4, 4, 1, 1))
    y = ts.zoo.add("block/add", left, right)
    y = ts.zoo.pooling2d("pool", y, ksize=[1, 1, 2, 2], stride=[1, 1, 2, 2])
    y = ts.zoo.flatten("flatten", y)
    y = ts.zoo.inner_prod("fc", y, weights(64, 5))
    y = ts.zoo.add_bias("fc/bias", y, weights(5))
    y = ts.zoo.softmax("prob", y, 1)
    save("tennis-graph", y, ["image"])


dtypes()
packed()
graph()
opaque_types()
