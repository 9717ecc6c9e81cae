"""Writes the fixtures of this folder: a model, keys, and bundles by Python's model_signing.

    python make_bundles.py            with model-signing 1.1.1, pyOpenSSL, cryptography, safetensors, numpy
    python make_bundles.py --hashes   the same and blake3: bundles with BLAKE2b and BLAKE3 only
    python make_bundles.py --old      with model-signing 1.0.1: old.sig, which holds the key itself

The private keys are thrown away.
"""

import base64
import datetime
import hashlib
import json
import pathlib
import sys
import tempfile

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from model_signing import hashing, signing

HERE = pathlib.Path(__file__).parent
MODEL = HERE / "model"
CURVES = {"p256": ec.SECP256R1(), "p384": ec.SECP384R1(), "p521": ec.SECP521R1()}


def write_model():
    import numpy
    from safetensors.numpy import save_file

    (MODEL / "a").mkdir(parents=True, exist_ok=True)
    (MODEL / "sub" / "deep").mkdir(parents=True, exist_ok=True)
    tensors = {"t%d" % i: numpy.arange(i * 100, i * 100 + 5000, dtype=numpy.float32) for i in range(8)}
    save_file(tensors, MODEL / "model.safetensors")
    (MODEL / "a" / "b").write_bytes(b"a/b sorts before a.b by parts\n")
    (MODEL / "a.b").write_bytes(b"a.b sorts before a/b by code points\n")
    (MODEL / "empty").write_bytes(b"")
    (MODEL / "sub" / "deep" / "\u6a21\u578b (1).bin").write_bytes(bytes(range(256)))


def private(key):
    f = tempfile.NamedTemporaryFile(suffix=".pem", delete=False)
    f.write(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
    f.close()
    return pathlib.Path(f.name)


def public(key, name):
    (HERE / (name + ".pub.pem")).write_bytes(
        key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )


def certificate(name, key, issuer, issuer_key, is_ca):
    now = datetime.datetime(2024, 1, 1)
    usage = dict.fromkeys(
        "digital_signature content_commitment key_encipherment data_encipherment key_agreement key_cert_sign crl_sign encipher_only decipher_only".split(), False
    )
    usage["key_cert_sign" if is_ca else "digital_signature"] = True
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now.replace(year=2124))
        .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
        .add_extension(x509.KeyUsage(**usage), critical=True)
        .sign(issuer_key, hashes.SHA256())
    )


def pem(c):
    return c.public_bytes(serialization.Encoding.PEM)


def main():
    if "--old" in sys.argv:
        key = ec.generate_private_key(CURVES["p384"])
        public(key, "old")
        from model_signing._signing import sign_ec_key, signing as payloads

        # Not by Config, which wants to reach Sigstore first.
        payload = payloads.Payload(hashing.Config().hash(MODEL))
        sign_ec_key.Signer(private(key)).sign(payload).write(HERE / "old.sig")
        return
    if "--hashes" in sys.argv:
        for algorithm in ("blake2", "blake3"):
            key = ec.generate_private_key(CURVES["p256"])
            public(key, algorithm)
            signing.Config().set_hashing_config(hashing.Config().use_file_serialization(hashing_algorithm=algorithm)).use_elliptic_key_signer(
                private_key=private(key)
            ).sign(MODEL, HERE / (algorithm + ".sig"))
        return
    write_model()
    for name, curve in CURVES.items():
        key = ec.generate_private_key(curve)
        public(key, name)
        signing.Config().use_elliptic_key_signer(private_key=private(key)).sign(MODEL, HERE / (name + ".sig"))
    key = ec.generate_private_key(CURVES["p256"])
    public(key, "shards")
    signing.Config().set_hashing_config(hashing.Config().use_shard_serialization(hashing_algorithm="sha256", shard_size=65536)).use_elliptic_key_signer(
        private_key=private(key)
    ).sign(MODEL, HERE / "shards.sig")
    # One as the specification has it, which the reference client neither writes nor reads.
    b = json.loads((HERE / "shards.sig").read_text())
    statement = json.loads(base64.b64decode(b["dsseEnvelope"]["payload"]))
    statement["predicate"]["serialization"]["shard_size"] = 65536
    for r in statement["predicate"]["resources"]:
        r["algorithm"] = "sha256"
    payload = json.dumps(statement).encode()
    kind = b["dsseEnvelope"]["payloadType"]
    message = b"DSSEv1 %d %s %d %s" % (len(kind), kind.encode(), len(payload), payload)
    b["dsseEnvelope"]["payload"] = base64.b64encode(payload).decode()
    b["dsseEnvelope"]["signatures"][0]["sig"] = base64.b64encode(key.sign(message, ec.ECDSA(hashes.SHA256()))).decode()
    (HERE / "shards-spec.sig").write_text(json.dumps(b))
    # By certificate, with one between the signer's and the root.
    root_key, middle_key, leaf_key = (ec.generate_private_key(CURVES["p256"]) for _ in range(3))
    root = certificate("root", root_key, "root", root_key, True)
    middle = certificate("middle", middle_key, "root", root_key, True)
    leaf = certificate("signer", leaf_key, "middle", middle_key, False)
    (HERE / "root.pem").write_bytes(pem(root))
    with tempfile.TemporaryDirectory() as d:
        d = pathlib.Path(d)
        (d / "leaf.pem").write_bytes(pem(leaf))
        (d / "middle.pem").write_bytes(pem(middle))
        signing.Config().use_certificate_signer(
            private_key=private(leaf_key), signing_certificate=d / "leaf.pem", certificate_chain=[d / "middle.pem"]
        ).sign(MODEL, HERE / "certificate.sig")
    # One file, which the reference client calls ".".
    key = ec.generate_private_key(CURVES["p256"])
    public(key, "file")
    signing.Config().use_elliptic_key_signer(private_key=private(key)).sign(MODEL / "model.safetensors", HERE / "file.sig")


main()
