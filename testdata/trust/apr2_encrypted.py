"""Reads and writes encrypted APR2 files as docs/trust.md describes, with Python's `cryptography` alone.

    python apr2_encrypted.py make DIR                        writes the fixtures
    python apr2_encrypted.py read FILE [--key K | --passphrase P]
                                                             checks a file, or a manifest and its shards, and prints
                                                             the SHA-256 of each tensor's elements
"""

import argparse
import base64
import hashlib
import json
import os
import pathlib
import struct
import zlib

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

LZ4_BLOCK = 65536


def unique(pairs):
    keys = [k for k, _ in pairs]
    assert len(keys) == len(set(keys)), "a key twice"
    return dict(pairs)


def parse(text):
    return json.loads(text, object_pairs_hook=unique)


def b64(text, size):
    raw = base64.b64decode(text, validate=True)
    assert len(raw) == size and base64.b64encode(raw).decode() == text
    return raw


def blank(text, *values):
    """Replaces values, which being random occur once."""
    for value in values:
        quoted = b'"' + value.encode() + b'"'
        assert text.count(quoted) == 1
        text = text.replace(quoted, b'"' + b"A" * len(value) + b'"')
    return text


def cipher(e, key, passphrase):
    assert e["algorithm"] == "AES-256-GCM"
    if e["kdf"] == "Argon2id":
        a = e["argon2"]
        key = Argon2id(salt=b64(a["salt"], 16), length=32, iterations=a["time"], lanes=a["threads"], memory_cost=a["memory_kib"]).derive(passphrase)
    else:
        assert e["kdf"] == "HKDF-SHA256" and "argon2" not in e
    return AESGCM(HKDF(algorithm=hashes.SHA256(), length=32, salt=b64(e["salt"], 32), info=b"APR2-ENCRYPTED-v1").derive(key))


def nonce(ordinal, block):
    return struct.pack(">IQ", ordinal, block)


def tag(aead, head):
    return aead.encrypt(nonce(0, 1 << 63), b"", hashlib.sha256(head).digest())


def blanked(text, md):
    return blank(text, md["encryption"]["check"], *([md["signature"]["value"]] if "signature" in md else []))


def entries(index):
    count, _ = struct.unpack("<II", index[:8])
    at, seen = 8, []
    for _ in range(count):
        start = at
        n = struct.unpack("<H", index[at : at + 2])[0]
        name = index[at + 2 : at + 2 + n].decode()
        dtype, rank = index[at + 2 + n : at + 4 + n]
        at += 4 + n
        dims = struct.unpack("<%dQ" % rank, index[at : at + 8 * rank])
        at += 8 * rank
        identity = index[start:at]
        seen.append((name, dims, identity) + struct.unpack("<QQQ", index[at : at + 24]))
        at += 28
    assert at == len(index)
    return seen


def unlz4(content, size):
    out = b""
    while content:
        n = struct.unpack("<I", content[:4])[0]
        block, content = content[4 : 4 + n], content[4 + n :]
        want, got, i = min(LZ4_BLOCK, size - len(out)), bytearray(), 0
        while i < len(block):
            token = block[i]
            i += 1
            literals = token >> 4
            if literals == 15:
                while True:
                    literals += block[i]
                    i += 1
                    if block[i - 1] != 255:
                        break
            got += block[i : i + literals]
            i += literals
            if i == len(block):
                break
            back = block[i] | block[i + 1] << 8
            i += 2
            length = token & 15
            if length == 15:
                while True:
                    length += block[i]
                    i += 1
                    if block[i - 1] != 255:
                        break
            for _ in range(length + 4):
                got.append(got[-back])
        assert len(got) == want
        out += bytes(got)
    assert len(out) == size
    return out


def read_file(b, key, passphrase):
    magic, major, minor, flags, mo, ms, io, size, do = struct.unpack("<4sHHIIIIII", b[:32])
    assert (magic, major, mo) == (b"APR2", 2, 32) and minor >= 1 and flags & 16 and io == 32 + ms
    assert 0 <= do - io - size < 64 and not any(b[io + size : do])
    md = parse(b[32 : 32 + ms])
    e = md["encryption"]
    aead = cipher(e, key, passphrase)
    head = b[:32] + blanked(b[32 : 32 + ms], md) + b[32 + ms : do]
    assert tag(aead, head) == b64(e["check"], 16), "check"
    assert struct.unpack("<I4sQ", b[-16:]) == (zlib.crc32(b[:-16]), b"2RPA", len(b)), "footer"
    each = e["block_size"] + 16
    for ordinal, (name, dims, identity, offset, stored, raw) in enumerate(entries(b[io : io + size])):
        cut = b[do + offset : do + offset + stored]
        content = b"".join(aead.decrypt(nonce(ordinal, i), cut[i * each : (i + 1) * each], identity) for i in range(-(-stored // each)))
        yield name, unlz4(content, raw) if raw else content


def read(path, key, passphrase):
    b = path.read_bytes()
    if b[:4] == b"APR2":
        yield from read_file(b, key, passphrase)
        return
    m = parse(b)
    assert tag(cipher(m["encryption"], key, passphrase), blanked(b, m)) == b64(m["encryption"]["check"], 16), "check"
    for shard in m["shards"]:
        c = (path.parent / shard["file"]).read_bytes()
        do = struct.unpack("<I", c[28:32])[0]
        assert hashlib.sha256(c[:do]).hexdigest() == shard["head_sha256"], "head of " + shard["file"]
        yield from read_file(c, key, passphrase)


def literals(raw):
    """LZ4 blocks of literals and, where all bytes are equal, of one long match."""
    out = b""
    for i in range(0, len(raw), LZ4_BLOCK):
        part = raw[i : i + LZ4_BLOCK]
        if len(set(part)) == 1 and len(part) > 20:
            n = len(part) - 1 - 5 - 4 - 15
            block = bytes([0x1F]) + part[:1] + b"\x01\x00" + b"\xff" * (n // 255) + bytes([n % 255]) + bytes([0x50]) + part[:5]
        else:
            n = len(part) - 15
            assert n >= 0
            block = b"\xf0" + b"\xff" * (n // 255) + bytes([n % 255]) + part
        out += struct.pack("<I", len(block)) + block
    return out


def write(path, tensors, e, aead, signer=None, block=4096):
    index, data = struct.pack("<II", len(tensors), 0), b""
    for ordinal, (name, dtype, dims, raw, packed) in enumerate(tensors):
        identity = struct.pack("<H", len(name.encode())) + name.encode() + bytes([dtype, len(dims)]) + struct.pack("<%dQ" % len(dims), *dims)
        content = literals(raw) if packed else raw
        stored = b"".join(aead.encrypt(nonce(ordinal, i // block), content[i : i + block], identity) for i in range(0, len(content), block))
        data += bytes(-len(data) % 64)
        index += identity + struct.pack("<QQQI", len(data), len(stored), len(raw) if packed else 0, 0)
        data += stored
    md = {"apr_version": "2.0.0", "model_type": "none", "architecture": {}, "encryption": dict(e, block_size=block, check="C" * 24, unknown={"a": [1]})}
    flags = 2 | 16 | (1 if any(t[4] for t in tensors) else 0)
    if signer:
        sums = b"".join(hashlib.sha256(data[i : i + 65536]).digest() for i in range(0, len(data), 65536))
        md["signature"] = {"algorithm": "Ed25519", "public_key": base64.b64encode(signer.public_key().public_bytes_raw()).decode(),
                           "chunk_size": 65536, "digests": base64.b64encode(sums).decode(), "value": "V" * 88}
        flags |= 32
    text = json.dumps(md, indent=2).encode()
    do = -(-(32 + len(text) + len(index)) // 64) * 64
    head = struct.pack("<4sHHIIIIII", b"APR2", 2, 1, flags, 32, len(text), 32 + len(text), len(index), do)
    head += text + index
    head += bytes(do - len(head))

    def blanks(h):
        return h.replace(b'"' + b"C" * 24 + b'"', b'"' + b"A" * 24 + b'"').replace(b'"' + b"V" * 88 + b'"', b'"' + b"A" * 88 + b'"')

    check = base64.b64encode(tag(aead, blanks(head)))
    head = head.replace(b'"' + b"C" * 24 + b'"', b'"' + check + b'"')
    if signer:
        sig = base64.b64encode(signer.sign(b"APR2-SIGNED-v1\0" + head.replace(b'"' + b"V" * 88 + b'"', b'"' + b"A" * 88 + b'"')))
        head = head.replace(b'"' + b"V" * 88 + b'"', b'"' + sig + b'"')
    b = head + data
    path.write_bytes(b + struct.pack("<I4sQ", zlib.crc32(b), b"2RPA", len(b) + 16))


def make(folder):
    key, passphrase = bytes(range(32)), "открой".encode()
    counted = b"".join(struct.pack("<f", (i * 37 % 512) / 8) for i in range(60 * 50))
    tensors = [("a", 0, [60, 50], counted, False), ("b.ü", 0, [7], counted[:28], False), ("empty", 0, [0, 4], b"", False),
               ("exact", 7, [8192], bytes(i * 11 & 255 for i in range(8192)), False),
               ("packed", 7, [300, 400], bytes(65536) + bytes(i * i >> 3 & 255 for i in range(300 * 400 - 65536)), True)]
    e = {"algorithm": "AES-256-GCM", "salt": base64.b64encode(os.urandom(32)).decode(), "kdf": "HKDF-SHA256", "key_id": "test/1"}
    signer = Ed25519PrivateKey.generate()
    write(folder / "encrypted.apr", tensors, e, cipher(e, key, None), signer)
    (folder / "encrypted.pub.pem").write_bytes(signer.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo))
    (folder / "encrypted.key").write_text(key.hex() + "\n")
    e = {"algorithm": "AES-256-GCM", "salt": base64.b64encode(os.urandom(32)).decode(), "kdf": "Argon2id",
         "argon2": {"time": 2, "memory_kib": 64, "threads": 2, "salt": base64.b64encode(os.urandom(16)).decode()}}
    write(folder / "passphrase.apr", tensors[:3], e, cipher(e, None, passphrase))
    for name, k, p, n in [("encrypted.apr", key, None, 5), ("passphrase.apr", None, passphrase, 3)]:
        assert [c for _, c in read(folder / name, k, p)] == [t[3] for t in tensors[:n]]


parser = argparse.ArgumentParser()
parser.add_argument("verb", choices=["make", "read"])
parser.add_argument("path", type=pathlib.Path)
parser.add_argument("--key", type=bytes.fromhex)
parser.add_argument("--passphrase", type=str.encode)
args = parser.parse_args()
if args.verb == "make":
    make(args.path)
else:
    for name, content in read(args.path, args.key, args.passphrase):
        print(hashlib.sha256(content).hexdigest(), " " + name, sep=" ")
