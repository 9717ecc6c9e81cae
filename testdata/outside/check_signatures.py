"""Holds tensormap's signatures against Python's model_signing and openssl, both ways.

    python check_signatures.py PATH-TO-TENSORMAP

Needs model-signing 1.1.1, pyOpenSSL and cryptography (pip), and openssl.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

try:
    from model_signing import signing, verifying
except ImportError as err:
    print(f"SKIPPED {sys.argv[0]}: {err}")
    sys.exit(0)

TENSORMAP = sys.argv[1]
CURVES = {"p256": "prime256v1", "p384": "secp384r1", "p521": "secp521r1"}


def run(*args, ok=True):
    p = subprocess.run([str(a) for a in args], capture_output=True, text=True)
    if (p.returncode == 0) != ok:
        sys.exit("%s: status %d\n%s%s" % (args, p.returncode, p.stdout, p.stderr))
    return p


def make_model(d):
    for name, content in {
        "a/b": b"1", "a.b": b"2", "a/b.c": b"3", "empty": b"", "deep/er/\u6a21\u578b \u00fc.bin": bytes(range(256)),
        ".hidden/x": b"4", "big.bin": os.urandom(9_000_001), "spaces (1) & more": b"5", "sub/empty": b"",
    }.items():
        (d / name).parent.mkdir(parents=True, exist_ok=True)
        (d / name).write_bytes(content)


def check(curve, tmp):
    model, key, pub = tmp / "model", tmp / "k.pem", tmp / "k.pub.pem"
    make_model(model)
    run(TENSORMAP, "keygen", "--type", curve, "-o", key)
    run("openssl", "pkey", "-in", key, "-check", "-noout")
    assert run("openssl", "pkey", "-in", key, "-pubout").stdout == pub.read_text(), "openssl derives another public key"
    # Ours, verified by Python, also after each change.
    for sig in (tmp / "ours.sig", model / "model.sig"):
        run(TENSORMAP, "sign", model, "--key", key, "-o", sig)
        verifying.Config().use_elliptic_key_verifier(public_key=pub).verify(model, sig)
        for name, change in (("big.bin", lambda b: b[:-1] + bytes([b[-1] ^ 1])), ("empty", lambda b: b"x"), ("a.b", lambda b: b + b"x")):
            before = (model / name).read_bytes()
            (model / name).write_bytes(change(before))
            try:
                verifying.Config().use_elliptic_key_verifier(public_key=pub).verify(model, sig)
            except ValueError:
                pass
            else:
                sys.exit("Python lets a changed %s pass" % name)
            (model / name).write_bytes(before)
        sig.unlink()
    # Python's, with a key of openssl's, verified by us.
    run("openssl", "ecparam", "-name", CURVES[curve], "-genkey", "-noout", "-out", tmp / "o.pem")
    run("openssl", "pkey", "-in", tmp / "o.pem", "-pubout", "-out", tmp / "o.pub.pem")
    sig = tmp / "theirs.sig"
    signing.Config().use_elliptic_key_signer(private_key=tmp / "o.pem").sign(model, sig)
    verify = lambda ok, *more: run(TENSORMAP, "verify", model, "--signature", sig, "--key", tmp / "o.pub.pem", *more, ok=ok)
    # The directory holds no model: only the signature's part can pass.
    assert "no model in it" in verify(False).stderr
    (model / "a.b").write_bytes(b"x")
    assert "a.b" in verify(False).stderr
    (model / "a.b").write_bytes(b"2")
    (model / "extra").write_bytes(b"x")
    assert "extra" in verify(False).stderr
    assert "no model in it" in verify(False, "--ignore-unsigned-files").stderr
    (model / "extra").unlink()
    # Links: refused by both, followed by both if asked.
    (model / "link").symlink_to("a.b")
    run(TENSORMAP, "sign", model, "--key", key, "-o", sig, ok=False)
    run(TENSORMAP, "sign", model, "--key", key, "-o", sig, "--allow-symlinks")
    from model_signing import hashing
    verifying.Config().use_elliptic_key_verifier(public_key=pub).set_hashing_config(hashing.Config().set_allow_symlinks(True)).verify(model, sig)


def check_apr2(tmp):
    """Signed APR2 files of ours, in one file, compressed and in shards, by a script that shares no code."""
    here = pathlib.Path(__file__).parent.parent
    script, key = here / "trust" / "apr2_signed.py", tmp / "e.pem"
    run(TENSORMAP, "keygen", "--type", "ed25519", "-o", key)
    run("openssl", "pkey", "-in", key, "-check", "-noout")
    model = here / "trust" / "model" / "model.safetensors"
    for name, flags in {"plain": [], "small": ["--compress"], "shards": ["--shard-size", "60KB"], "both": ["--compress", "--shard-size", "60KB"]}.items():
        out = tmp / (name + ".apr")
        run(TENSORMAP, "convert", model, out, "--sign", key, *flags)
        run(sys.executable, script, "verify", out, tmp / "e.pub.pem")
        run(TENSORMAP, "verify", out, "--key", tmp / "e.pub.pem")
    run(sys.executable, script, "make", tmp)
    run(TENSORMAP, "verify", tmp / "signed.apr", "--key", tmp / "signed.pub.pem")
    print("signed APR2: ok")


def check_encrypted(tmp):
    """Encrypted APR2 files of ours, and of the script that shares no code, which lists the digests of their tensors."""
    here = pathlib.Path(__file__).parent.parent
    script, sign, key, phrase = here / "trust" / "apr2_encrypted.py", tmp / "e.pem", tmp / "k.key", tmp / "phrase"
    for path, text in (key, bytes(range(32)).hex() + "\n"), (phrase, "открой\r\n"):
        path.write_text(text, newline="")
        path.chmod(0o600)
    run(TENSORMAP, "keygen", "--type", "ed25519", "-o", sign)
    model = here / "trust" / "model" / "model.safetensors"

    def digests(*command):
        out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        return sorted(line for line in out.splitlines() if not line.endswith("(model)"))

    want = digests(TENSORMAP, "hash", "--stored", model)
    secrets = {"key": (["--encrypt", key], ["--decrypt", key], ["--key", key.read_text().strip()]),
               "phrase": (["--passphrase-file", phrase], ["--passphrase-file", phrase], ["--passphrase", "открой"])}
    for secret, (seal, opens, python) in secrets.items():
        for name, flags in {"plain": [], "small": ["--compress"], "signed": ["--sign", sign], "shards": ["--shard-size", "60KB", "--sign", sign, "--compress"]}.items():
            out = tmp / (secret + name + ".apr")
            run(TENSORMAP, "convert", model, out, *seal, *flags)
            run(TENSORMAP, "verify", out, *opens)
            assert digests(sys.executable, script, "read", out, *python) == want, out
    run(sys.executable, script, "make", tmp)
    for name, (_, opens, python) in {"encrypted.apr": secrets["key"], "passphrase.apr": secrets["phrase"]}.items():
        assert digests(TENSORMAP, "hash", "--stored", tmp / name, *opens) == digests(sys.executable, script, "read", tmp / name, *python), name
    print("encrypted APR2: ok")


with tempfile.TemporaryDirectory() as d:
    check_apr2(pathlib.Path(d))
with tempfile.TemporaryDirectory() as d:
    check_encrypted(pathlib.Path(d))
for curve in CURVES:
    with tempfile.TemporaryDirectory() as d:
        check(curve, pathlib.Path(d))
    print("signatures %s: ok" % curve)
