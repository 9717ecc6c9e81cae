"""What stands beside a fixture of this folder, as JSON. The two generators use this; it
knows nothing of how a TSM module is laid out, only what its tensors are and where the
generator has put them.
"""

import hashlib
import json
import os

import numpy

# dtype by its number in the file: its name in inspect, the alignment of a typed view, and
# the NumPy type of its values where they are real numbers.
DTYPES = {
    0: ("VOID", 1, None),
    1: ("I8", 1, "<i1"),
    2: ("U8", 1, "<u1"),
    3: ("I16", 2, "<i2"),
    4: ("U16", 2, "<u2"),
    5: ("I32", 4, "<i4"),
    6: ("U32", 4, "<u4"),
    7: ("I64", 8, "<i8"),
    8: ("U64", 8, "<u8"),
    9: ("F16", 2, "<f2"),
    10: ("F32", 4, "<f4"),
    11: ("F64", 8, "<f8"),
    13: ("CHAR8", 1, None),
    14: ("CHAR16", 2, None),
    15: ("CHAR32", 4, None),
    16: ("UNKNOWN8", 1, None),
    17: ("UNKNOWN16", 2, None),
    18: ("UNKNOWN32", 4, None),
    19: ("UNKNOWN64", 8, None),
    20: ("UNKNOWN128", 8, None),
    21: ("BOOL", 1, "<u1"),
    22: ("C32", 2, None),
    23: ("C64", 4, None),
    24: ("C128", 8, None),
    **{25 + q: ("FIXED_Q%d" % q, 1, None) for q in range(8)},
}


def float32_hex(dtype, shape, memory):
    """The values as binary32, integers and doubles rounded once, or None. Whatever its type,
    a tensor without elements has all of its values."""
    if 0 in shape:
        return ""
    numbers = DTYPES[dtype][2]
    if numbers is None:
        return None
    with numpy.errstate(over="ignore"):
        return numpy.frombuffer(memory, numbers).astype("<f4").tobytes().hex()


def tensor(name, dtype, shape, offset, memory):
    digest = hashlib.sha256(memory).hexdigest()
    return {
        "name": name,
        "dtype": DTYPES[dtype][0],
        "shape": list(shape),
        "offset": offset,
        "stored": len(memory),
        "raw": len(memory),
        "encoding": "raw",
        "zero_copy": offset % DTYPES[dtype][1] == 0,
        "stored_sha256": digest,
        "raw_sha256": digest,
        "f32_hex": float32_hex(dtype, shape, memory),
    }


def tensor_names(nodes, by_position=False):
    """nodes: (name, [(param, number of fields)]). The names of all tensors in the order of
    the file, one list for every param."""
    names = [name for name, params in nodes if any(fields for _, fields in params)]
    indexes = {str(i): i for i in range(len(nodes))}
    for i, (name, params) in enumerate(nodes):
        usable = name != "" and names.count(name) == 1 and indexes.get(name, i) == i
        prefix = name if usable and not by_position else str(i)
        called = []
        for j, (param, fields) in enumerate(params):
            base = "%s/%s" % (prefix, j if by_position else param)
            called.append([base] if fields == 1 else ["%s/%d" % (base, k) for k in range(fields)])
        yield called


def save(path, data, **says):
    """Writes the file and what the generator says about it."""
    with open(path, "wb") as f:
        f.write(data)
    about = {"file": os.path.basename(path), "format": "tsm"}
    if "error" not in says:
        about["version"] = ""
    about["size"] = len(data)
    about.update(says)
    with open(os.path.splitext(path)[0] + ".json", "w") as f:
        json.dump(about, f, indent=1, ensure_ascii=False)
        f.write("\n")
