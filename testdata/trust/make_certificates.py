"""Writes the folder certificates: bundles about model/a by Python's model_signing, whose certificates are for many things.

    python make_certificates.py    with model-signing 1.1.1, pyOpenSSL 26.4 (OpenSSL 4.0.3), cryptography 50.0.2

It prints who takes each for one that signs models: model_signing, and OpenSSL for the purpose of signing code.
OpenSSL asks for an extended key usage, and does not look at that of a certificate authority. The private keys
are thrown away.
"""

import datetime
import pathlib
import tempfile

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID as EKU
from cryptography.x509.oid import NameOID
from model_signing import signing, verifying
from OpenSSL import crypto
from OpenSSL._util import lib

HERE = pathlib.Path(__file__).parent
OUT = HERE / "certificates"
MODEL = HERE / "model" / "a"
KEY_USAGES = "digital_signature content_commitment key_encipherment data_encipherment key_agreement key_cert_sign crl_sign encipher_only decipher_only".split()
CODE_SIGN = 10  # X509_PURPOSE_CODE_SIGN of OpenSSL 3.2 and later
OTHER = x509.ObjectIdentifier("1.3.6.1.4.1.55555.1")

# name: key usage of the signer's certificate, its extended one, that of the authority between, that of the root
CASES = {
    "code": (["digital_signature"], [EKU.CODE_SIGNING], [EKU.CODE_SIGNING], None),
    "plain": (["digital_signature"], None, None, None),
    "code-and-server": (["digital_signature", "key_encipherment"], [EKU.SERVER_AUTH, EKU.CODE_SIGNING], None, None),
    "authority-any": (["digital_signature"], [EKU.CODE_SIGNING], [EKU.ANY_EXTENDED_KEY_USAGE], None),
    "server": (["digital_signature"], [EKU.SERVER_AUTH], None, None),
    "client": (["digital_signature"], [EKU.CLIENT_AUTH], None, None),
    "ocsp": (["digital_signature"], [EKU.OCSP_SIGNING], None, None),
    "email": (["digital_signature"], [EKU.EMAIL_PROTECTION], None, None),
    "time": (["digital_signature"], [EKU.TIME_STAMPING], None, None),
    "other": (["digital_signature"], [OTHER], None, None),
    "any": (["digital_signature"], [EKU.ANY_EXTENDED_KEY_USAGE], None, None),
    "encipherment": (["key_encipherment"], None, None, None),
    "agreement": (["key_agreement"], [EKU.CODE_SIGNING], None, None),
    "no-key-usage": (None, [EKU.CODE_SIGNING], None, None),
    "nothing": (None, None, None, None),
    "authority-server": (["digital_signature"], [EKU.CODE_SIGNING], [EKU.SERVER_AUTH], None),
    "authority-other": (["digital_signature"], None, [OTHER], None),
    "root-server": (["digital_signature"], [EKU.CODE_SIGNING], None, [EKU.SERVER_AUTH]),
}


def pem(c):
    return c.public_bytes(serialization.Encoding.PEM)


def name(common):
    return x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Acme, Inc."), x509.NameAttribute(NameOID.COMMON_NAME, common)])


def certificate(common, key, issuer, issuer_key, usage, extended, is_ca=False):
    now = datetime.datetime(2024, 1, 1)
    b = x509.CertificateBuilder().subject_name(name(common)).issuer_name(name(issuer)).public_key(key.public_key())
    b = b.serial_number(x509.random_serial_number()).not_valid_before(now).not_valid_after(now.replace(year=2124))
    b = b.add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
    if usage is not None:
        b = b.add_extension(x509.KeyUsage(**{u: u in usage for u in KEY_USAGES}), critical=True)
    if extended is not None:
        b = b.add_extension(x509.ExtendedKeyUsage(extended), critical=False)
    if not is_ca:
        names = [x509.RFC822Name("models@acme.example"), x509.DNSName("models.acme.example"), x509.UniformResourceIdentifier("https://acme.example/models")]
        b = b.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return b.sign(issuer_key, hashes.SHA256())


def openssl(leaf, middle, root):
    store = crypto.X509Store()
    store.add_cert(crypto.X509.from_cryptography(root))
    assert lib.X509_STORE_set_purpose(store._store, CODE_SIGN) == 1
    try:
        crypto.X509StoreContext(store, crypto.X509.from_cryptography(leaf), [crypto.X509.from_cryptography(middle)]).verify_certificate()
        return "yes"
    except crypto.X509StoreContextError as e:
        return f"no: {e}"


def python(bundle, root):
    try:
        verifying.Config().use_certificate_verifier(certificate_chain=[root]).verify(MODEL, bundle)
        return "yes"
    except Exception as e:
        return f"no: {e}"


def main():
    OUT.mkdir(exist_ok=True)
    roots = {}
    with tempfile.TemporaryDirectory() as d:
        d = pathlib.Path(d)
        for case, (usage, extended, between, above) in CASES.items():
            common = "root" if above is None else "root of " + case
            if common not in roots:
                key = ec.generate_private_key(ec.SECP256R1())
                roots[common] = key, certificate(common, key, common, key, ["key_cert_sign"], above, True)
            root_key, root = roots[common]
            middle_key, leaf_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
            middle = certificate("authority", middle_key, common, root_key, ["key_cert_sign"], between, True)
            leaf = certificate("signer", leaf_key, "authority", middle_key, usage, extended)
            (d / "leaf.pem").write_bytes(pem(leaf))
            (d / "middle.pem").write_bytes(pem(middle))
            (d / "root.pem").write_bytes(pem(root))
            (d / "key.pem").write_bytes(
                leaf_key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
            )
            bundle = OUT / (case + ".sig")
            signing.Config().use_certificate_signer(
                private_key=d / "key.pem", signing_certificate=d / "leaf.pem", certificate_chain=[d / "middle.pem"]
            ).sign(MODEL, bundle)
            print(f"{case:17} model_signing: {python(bundle, d / 'root.pem'):4}  OpenSSL: {openssl(leaf, middle, root)}")
    (OUT / "roots.pem").write_bytes(b"".join(pem(root) for _, root in roots.values()))


main()
