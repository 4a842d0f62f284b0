"""Makes a certificate authority and with it a certificate for 127.0.0.1, both of a day. Usage: python certificate.py FOLDER

FOLDER then holds ca.pem, which a client has to trust, and cert.pem and key.pem for the gateway.
"""

import datetime
import ipaddress
import sys
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID


def named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def certificate(subject: str, key: ec.EllipticCurvePrivateKey, issuer: str, issuer_key: ec.EllipticCurvePrivateKey, authority: bool) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.timezone.utc)
    hour, day = datetime.timedelta(hours=1), datetime.timedelta(days=1)
    return (
        x509.CertificateBuilder().subject_name(named(subject)).issuer_name(named(issuer)).public_key(key.public_key())
        .serial_number(x509.random_serial_number()).not_valid_before(now - hour).not_valid_after(now + day)
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False))


def usage(**allowed: bool) -> x509.KeyUsage:
    kinds = ("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "key_cert_sign", "crl_sign", "encipher_only", "decipher_only")
    return x509.KeyUsage(**{kind: allowed.get(kind, False) for kind in kinds})


folder = Path(sys.argv[1])
ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
authority = certificate("interop authority", ca_key, "interop authority", ca_key, True).add_extension(
    usage(key_cert_sign=True, crl_sign=True), critical=True)
names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("localhost")])
server = (
    certificate("127.0.0.1", key, "interop authority", ca_key, False).add_extension(usage(digital_signature=True), critical=True)
    .add_extension(names, critical=False)
    .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False))
pem = serialization.Encoding.PEM
(folder / "ca.pem").write_bytes(authority.sign(ca_key, hashes.SHA256()).public_bytes(pem))
(folder / "cert.pem").write_bytes(server.sign(ca_key, hashes.SHA256()).public_bytes(pem))
(folder / "key.pem").write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
