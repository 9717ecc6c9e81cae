"""Signs and verifies APR2 files as docs/trust.md describes, with Python's `cryptography` alone.

    python apr2_signed.py make DIR               writes the fixtures signed.apr and signed.pub.pem
    python apr2_signed.py verify FILE PUB.pem    verifies a signed file, or a manifest and its shards
"""

import base64
import hashlib
import json
import pathlib
import struct
import sys
import zlib

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

CHUNK = 65536


def unique(pairs):
    keys = [k for k, _ in pairs]
    assert len(keys) == len(set(keys)), "a key twice"
    return dict(pairs)


def parse(text):
    return json.loads(text, object_pairs_hook=unique)


def blank(text, value):
    """Replaces the value, which base64 keeps from occurring elsewhere but by intent."""
    quoted = b'"' + value.encode() + b'"'
    assert text.count(quoted) == 1
    return text.replace(quoted, b'"' + b"A" * len(value) + b'"')


def pem(key):
    return key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def verify_file(b, public):
    magic, major, minor, flags, mo, ms, io, size, do = struct.unpack("<4sHHIIIIII", b[:32])
    assert (magic, major, mo) == (b"APR2", 2, 32) and minor >= 1 and flags & 32 and io == 32 + ms
    assert 0 <= do - io - size < 64 and not any(b[io + size : do])
    s = parse(b[32 : 32 + ms])["signature"]
    assert s["algorithm"] == "Ed25519" and base64.b64decode(s["public_key"], validate=True) == public.public_bytes_raw()
    head, data = b[:do], b[do:-16]
    message = b"APR2-SIGNED-v1\0" + head[:32] + blank(head[32 : 32 + ms], s["value"]) + head[32 + ms :]
    public.verify(base64.b64decode(s["value"], validate=True), message)
    n = s["chunk_size"]
    sums = b"".join(hashlib.sha256(data[i : i + n]).digest() for i in range(0, len(data), n))
    assert sums == base64.b64decode(s["digests"], validate=True), "data"
    assert struct.unpack("<I4sQ", b[-16:]) == (zlib.crc32(b[:-16]), b"2RPA", len(b)), "footer"


def verify(path, public):
    b = path.read_bytes()
    if b[:4] == b"APR2":
        return verify_file(b, public)
    m = parse(b)
    s = m["signature"]
    public.verify(base64.b64decode(s["value"], validate=True), b"APR2-MANIFEST-v1\0" + blank(b, s["value"]))
    for shard in m["shards"]:
        c = (path.parent / shard["file"]).read_bytes()
        do = struct.unpack("<I", c[28:32])[0]
        assert hashlib.sha256(c[:do]).hexdigest() == shard["head_sha256"], "head of " + shard["file"]
        verify_file(c, public)


def make(folder):
    key = Ed25519PrivateKey.generate()
    tensors = {"a": (0, [300, 100]), "b": (0, [7]), "c": (7, [70000]), "empty": (0, [0, 4])}
    index, data = struct.pack("<II", len(tensors), 0), b""
    for i, (name, (dtype, dims)) in enumerate(tensors.items()):
        count = 1
        for d in dims:
            count *= d
        content = bytes((i * 37 + j * 11) & 127 for j in range(count * (4 if dtype == 0 else 1)))
        data += bytes(-len(data) % 64)
        index += struct.pack("<H", len(name)) + name.encode() + bytes([dtype, len(dims)]) + struct.pack("<%dQ" % len(dims), *dims)
        index += struct.pack("<QQQI", len(data), len(content), 0, 0)
        data += content
    sums = b"".join(hashlib.sha256(data[i : i + CHUNK]).digest() for i in range(0, len(data), CHUNK))
    s = {"algorithm": "Ed25519", "value": "A" * 88, "chunk_size": CHUNK, "unknown": [1], "digests": base64.b64encode(sums).decode(),
         "public_key": base64.b64encode(key.public_key().public_bytes_raw()).decode()}
    md = json.dumps({"apr_version": "2.0.0", "signature": s, "model_type": "none", "architecture": {}}, indent=1).encode()
    data_offset = -(-(32 + len(md) + len(index)) // 64) * 64
    head = struct.pack("<4sHHIIIIII", b"APR2", 2, 1, 2 | 32, 32, len(md), 32 + len(md), len(index), data_offset) + md + index
    head += bytes(data_offset - len(head))
    sig = base64.b64encode(key.sign(b"APR2-SIGNED-v1\0" + head))
    b = head.replace(b'"' + b"A" * 88 + b'"', b'"' + sig + b'"') + data
    b += struct.pack("<I4sQ", zlib.crc32(b), b"2RPA", len(b) + 16)
    (folder / "signed.apr").write_bytes(b)
    (folder / "signed.pub.pem").write_bytes(pem(key.public_key()))
    verify(folder / "signed.apr", key.public_key())


if sys.argv[1] == "make":
    make(pathlib.Path(sys.argv[2]))
else:
    verify(pathlib.Path(sys.argv[2]), serialization.load_pem_public_key(pathlib.Path(sys.argv[3]).read_bytes()))
    print("ok")
