"""Assembles TSM modules by hand, byte by byte after the specification: what TenniS's
Python does not write, and what must be refused. See README.md.

    python gen_tsm.py
"""

import os
import struct

import numpy

import describe

HERE = os.path.dirname(os.path.abspath(__file__))
CODE = 0x19910929
SPECIAL = ("#name", "#op", "#shape", "#dtype", "#output_count")
INT32, FLOAT32, CHAR8 = 5, 10, 13


def i32(*values):
    return b"".join(struct.pack("<i", v) for v in values)


def indexes(values):
    return i32(len(values), *values)


class Tensor:
    """A tensor: its type's number, its shape and its bytes."""

    def __init__(self, dtype, shape, memory):
        self.dtype, self.shape, self.memory = dtype, shape, memory

    def head(self):
        return struct.pack("<B", self.dtype) + indexes(self.shape)


def text(s):
    s = s if isinstance(s, bytes) else s.encode()
    return Tensor(CHAR8, [len(s)], s)


def ints(*values):
    return Tensor(INT32, [len(values)], i32(*values))


def f32(*values):
    return Tensor(FLOAT32, [len(values)], struct.pack("<%df" % len(values), *values))


class Node:
    """params are pairs of a name and the fields of a packed tensor."""

    def __init__(self, name=None, op=None, inputs=(), params=(), special=()):
        self.inputs = list(inputs)
        self.name = name
        self.params = []
        if name is not None:
            self.params.append(("#name", [text(name)]))
        if op is not None:
            self.params.append(("#op", [text(op)]))
        self.params += special
        self.params += params

    def values(self):
        """The params that are tensors."""
        return [(n, fields) for n, fields in self.params if n not in SPECIAL]

    def about(self):
        """What the metadata says of the node, its params aside."""
        found = {n: fields[0] for n, fields in self.params if n in SPECIAL}
        said = {"name": self.name or "", "op": "", "inputs": self.inputs}
        if "#op" in found:
            said["op"] = found["#op"].memory.decode()
        if "#shape" in found:
            said["shape"] = [int(x) for x in numpy.frombuffer(found["#shape"].memory, "<i4")]
        if "#dtype" in found:
            said["dtype"] = describe.DTYPES[struct.unpack("<i", found["#dtype"].memory)[0]][0]
        if "#output_count" in found:
            said["output_count"] = struct.unpack("<i", found["#output_count"].memory)[0]
        return said


class Module:
    """Appends a module to data, and notes where every field of interest is."""

    def __init__(self, nodes, inputs=(), outputs=(), fake=0, reserved=bytes(120)):
        self.nodes, self.inputs, self.outputs = nodes, list(inputs), list(outputs)
        self.fake, self.reserved = fake, reserved
        self.at = {}
        self.memory = []  # (offset, tensor) of params that are tensors
        self.data = bytearray(i32(fake, CODE) + reserved)
        self.mark("inputs", indexes(self.inputs))
        self.mark("outputs", indexes(self.outputs))
        self.mark("graph", i32(len(nodes)))
        for i, node in enumerate(nodes):
            self.node(i, node)

    def mark(self, key, b):
        self.at[key] = len(self.data)
        self.data += b

    def node(self, i, node):
        self.mark(("bubble", i), i32(len(node.params)))
        for j, (name, fields) in enumerate(node.params):
            encoded = name if isinstance(name, bytes) else name.encode()
            self.mark(("name", i, j), i32(len(encoded)) + encoded)
            self.mark(("packed_tensor", i, j), i32(len(fields)))
            for k, tensor in enumerate(fields):
                self.mark(("tensor", i, j, k), tensor.head())
                if name not in SPECIAL:
                    self.memory.append((len(self.data), tensor))
                self.mark(("memory", i, j, k), tensor.memory)
        self.mark(("inputs", i), indexes(node.inputs))

    def save(self, name, findings=(), by_position=False, behind=b""):
        """The file is right, with these warnings."""
        called = list(describe.tensor_names(
            [(n.name or "", [(p, len(fields)) for p, fields in n.values()]) for n in self.nodes], by_position))
        metadata = {}
        if self.fake:
            metadata["fake"] = self.fake
        if any(self.reserved):
            import base64
            metadata["data"] = base64.b64encode(self.reserved).decode()
        metadata.update(inputs=self.inputs, outputs=self.outputs, nodes=[])
        for node, names in zip(self.nodes, called):
            said = node.about()
            if names:
                said["params"] = {p: of for (p, _), of in zip(node.values(), names)}
            metadata["nodes"].append(said)
        flat = [name for names in called for of in names for name in of]
        tensors = [describe.tensor(n, t.dtype, t.shape, at, t.memory) for n, (at, t) in zip(flat, self.memory, strict=True)]
        describe.save(path(name), bytes(self.data) + behind,
                      metadata=metadata, tensors=tensors, verify="ok", findings=list(findings))

    def refused(self, name, field, offset, data=None):
        """The file must not open, because of the field at offset."""
        describe.save(path(name), bytes(self.data if data is None else data), error={"field": field, "offset": offset})


def path(name):
    return os.path.join(HERE, name + ".tsm")


def pattern(n, seed):
    return bytes((seed * 37 + i * 11) % 256 for i in range(n))


SIZES = {
    0: 0, 1: 1, 2: 1, 3: 2, 4: 2, 5: 4, 6: 4, 7: 8, 8: 8, 9: 2, 10: 4, 11: 8, 13: 1, 14: 2, 15: 4,
    16: 1, 17: 2, 18: 4, 19: 8, 20: 16, 21: 1, 22: 4, 23: 8, 24: 16, **{25 + q: 1 for q in range(8)},
}


def types():
    """Every type of the table as a scalar without dimensions, in two dimensions, and empty."""
    nodes = []
    for number, size in SIZES.items():
        seed = number + 1
        memory = bytes([1, 0, 0, 1, 1, 0]) if number == 21 else pattern(6 * size, seed)
        if number == 11:  # beyond and at the edge of binary32, ties to even, and not a number
            memory = struct.pack("<6d", 1e39, -1e39, 1 + 2**-24, 1 + 3 * 2**-24, 1e-46, float("nan"))
        name = describe.DTYPES[number][0]
        nodes.append(Node(name, "<const>", params=[
            ("value", [Tensor(number, [2, 3], memory)]),
            ("scalar", [Tensor(number, [], memory[:size])]),
            ("empty", [Tensor(number, [4, 0, 2], b"")]),
        ]))
    nodes.append(Node("rank", "<const>", params=[("value", [Tensor(2, [1, 2, 1, 2, 1, 1, 3, 1], pattern(12, 5))])]))
    last = len(nodes)
    nodes.append(Node("all", "_pack", range(last)))
    Module(nodes, [], [last], fake=-7, reserved=b"\xaa" + bytes(7) + bytes.fromhex("02022020") + pattern(108, 3)).save("types")


def names():
    """Names that say nothing, or too much, and what the specification would not have."""
    v = [("value", [f32(1)])]
    nodes = [
        Node("twice", "<const>", params=v),                    # 0: also the name of 4
        Node("", "<const>", params=v),                         # 1: empty
        Node("1", "<const>", params=v),                        # 2: the index of 1
        Node("3", "<const>", params=v),                        # 3: its own index
        Node("twice", "<const>", params=v),                    # 4
        Node("99", "<const>", params=v),                       # 5: a number, but no index
        Node("01", "<const>", params=v),                       # 6: not how an index is written
        Node("a/b/c", "<const>", params=v),                    # 7: slashes
        Node("節點 é", "<const>", params=[("參數", [f32(2)]), ("", [f32(3)])]),  # 8
        Node(None, None, params=v),                            # 9: no name, no operator
        Node("long", "<const>", params=[("x" * 32, [f32(4)]), ("y" * 4096, [f32(5)]), ("z" * 31, [f32(6)])]),
        Node("old", "add", [0, 1, 1], special=[("#output_count", [ints(1)])]),
        Node("two", "split", [11], special=[("#output_count", [ints(2)])]),
        Node("late", None, [12], params=[("first", [f32(7)]), ("#op", [text("relu")]), ("#unknown", [f32(8)])]),
        Node("in", "<param>", special=[("#shape", [ints(-1, 0, 2147483647)]), ("#dtype", [Tensor(INT32, [], i32(10))])]),
        Node("scalar", "<param>", special=[("#shape", [ints()]), ("#dtype", [ints(0)])]),
        Node("16", "<const>", params=[("p", [f32(9), f32(), f32(10, 11)]), ("none", [])]),  # its own index, and fields
    ]
    Module(nodes, [14, 15], [13, 16]).save("names", ["#name", "#op", "#output_count", "name"])


def positions():
    """Two tensors that would have the same name: all are called by position."""
    Module([
        Node("a", "<const>", params=[("b", [f32(1), f32(2)]), ("c", [f32(3)])]),
        Node("a/b", "<const>", special=[("#shape", [ints(1)])], params=[("1", [f32(4)])]),
        Node("other", "<const>", params=[("none", []), ("value", [f32(5)])]),
    ], [], [2]).save("positions", by_position=True)
    Module([  # and within a node
        Node("n", "<const>", params=[("p/1", [f32(1)]), ("p", [f32(2), f32(3)])]),
    ]).save("positions-in-node", by_position=True)
    Module([  # and names that would be many times as long as the file
        Node("n" * 200, "<const>", params=[("p" * 300, [Tensor(0, [], b"")] * 20)]),
    ]).save("positions-long", ["name"], by_position=True)


def edges():
    Module([]).save("empty")
    Module([Node("x", "<param>")], [0], [0]).save("trailing", ["trailing"], behind=b"more")
    # A chain whose nodes stand in no order, and which branches, but has no cycle.
    order = [i * 7 % 40 for i in range(40)]
    reads = {a: [b] for a, b in zip(order, order[1:])}
    reads[order[0]] += [order[20], order[39], order[1]]
    Module([Node("c%d" % i, "add", reads.get(i, [])) for i in range(40)], [], [0, 0]).save("unsorted")


def bad_values():
    one = Node("n", "<const>", params=[("value", [f32(1, 2)])])
    good = Module([one], [0], [0])

    def patched(offset, b):
        data = bytearray(good.data)
        data[offset:offset + len(b)] = b
        return data

    head = good.at["tensor", 0, 2, 0]
    for name, field, offset, b in [
        ("bad-ptr", "dtype", head, b"\x0c"),
        ("bad-dtype", "dtype", head, b"\x21"),
        ("bad-dims", "dims", head + 1, i32(-1)),
        ("bad-rank", "dims", head + 1, i32(2**31 - 1)),
        ("bad-dim", "shape", head + 5, i32(-2)),
        ("bad-memory", "memory", head + 9, None),
        ("bad-fields", "packed_tensor", good.at["packed_tensor", 0, 2], i32(2**31 - 1)),
        ("bad-params", "bubble", good.at["bubble", 0], i32(2**31 - 1)),
        ("bad-param-count", "bubble", good.at["bubble", 0], i32(-1)),
        ("bad-nodes", "graph", good.at["graph"], i32(2**31 - 1)),
        ("bad-input", "inputs", good.at["inputs"] + 4, i32(1)),
        ("bad-output", "outputs", good.at["outputs"] + 4, i32(-1)),
    ]:
        data = good.data[:-9] if b is None else patched(offset, b)
        good.refused(name, field, offset, data)
    huge = Module([Node("n", "<const>", params=[("value", [Tensor(10, [2**31 - 1] * 4, b"")])])])
    huge.refused("bad-size", "shape", huge.at["tensor", 0, 2, 0] + 5)
    long = Module([Node("n", "<const>", params=[("p" * 4097, [f32(1)])])])
    long.refused("bad-long-name", "name", long.at["name", 0, 2])
    latin = Module([Node("n", "<const>", params=[(b"caf\xe9", [f32(1)])])])
    latin.refused("bad-utf8", "name", latin.at["name", 0, 2])


def bad_nodes():
    def refused(name, field, key, nodes, more=0):
        m = Module(nodes)
        m.refused(name, field, m.at[key] + more)

    v = ("value", [f32(1)])
    refused("bad-duplicate", "name", ("name", 0, 4), [Node("n", "<const>", params=[v, ("other", []), v])])
    refused("bad-duplicate-name", "name", ("name", 0, 1), [Node("n", None, params=[("#name", [text("m")])])])
    refused("bad-two-names", "packed_tensor", ("packed_tensor", 0, 0), [Node(params=[("#name", [text("a"), text("b")])])])
    refused("bad-name-type", "#name", ("tensor", 0, 0, 0), [Node(params=[("#name", [Tensor(1, [1], b"a")])])])
    refused("bad-name-shape", "#name", ("tensor", 0, 0, 0), [Node(params=[("#name", [Tensor(CHAR8, [1, 1], b"a")])])])
    refused("bad-name-nul", "#name", ("memory", 0, 0, 0), [Node("a\0b", "relu")])
    refused("bad-shape", "#shape", ("memory", 0, 1, 0), [Node("n", special=[("#shape", [ints(3, -2)])])], 4)
    refused("bad-node-dtype", "#dtype", ("memory", 0, 1, 0), [Node("n", special=[("#dtype", [ints(12)])])])
    refused("bad-node-dtypes", "#dtype", ("tensor", 0, 1, 0), [Node("n", special=[("#dtype", [ints(10, 10)])])])
    refused("bad-node-input", "inputs", ("inputs", 1), [Node("n", "<param>"), Node("m", "relu", [0, 2])], 8)
    refused("bad-cycle-1", "inputs", ("inputs", 0), [Node("itself", "add", [0])], 4)
    refused("bad-cycle-2", "inputs", ("inputs", 1), [Node("a", "add", [1]), Node("b", "add", [0])], 4)
    refused("bad-cycle-3", "inputs", ("inputs", 3),
            [Node("start", "<param>"), Node("a", "add", [0, 2]), Node("b", "add", [0, 3]), Node("c", "add", [0, 1])], 8)


types()
names()
positions()
edges()
bad_values()
bad_nodes()
