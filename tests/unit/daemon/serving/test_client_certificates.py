"""Who is let in by a certificate: whom it names, if one of the given authorities has signed it."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

from arranger.daemon.serving.certificate import CertificateError, ServingCertificate
from arranger.daemon.serving.reviews import User, certified_user
from tests.unit.daemon.serving.servers import Doorkeeper, ask, serving, trusting_all

CLIENT, SERVER = ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH


class Authority:
    """Signs certificates of clients."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._name = folder / name, name
        self._folder.mkdir()
        self._key = ec.generate_private_key(ec.SECP256R1())
        subject = _name((NameOID.COMMON_NAME, name))
        builder = _builder(subject, self._key).issuer_name(subject)
        basic = x509.BasicConstraints(ca=True, path_length=None)
        signed = builder.add_extension(basic, critical=True).sign(self._key, hashes.SHA256())
        self._subject = subject
        self.file = self._folder / "ca.pem"
        self.file.write_bytes(signed.public_bytes(serialization.Encoding.PEM))

    def client(
        self,
        *subject: tuple[ObjectIdentifier, str],
        use: ObjectIdentifier = CLIENT,
        days: int = 1,
    ) -> ssl.SSLContext:
        """The context of a client that shows a certificate."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_name(*subject), key, days).issuer_name(self._subject)
        builder = builder.add_extension(x509.ExtendedKeyUsage([use]), critical=False)
        signed = builder.sign(self._key, hashes.SHA256())
        pem, file = serialization.Encoding.PEM, self._folder / "client.pem"
        plain = serialization.NoEncryption()
        private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
        file.write_bytes(private + signed.public_bytes(pem))
        context = trusting_all()
        context.load_cert_chain(file)
        return context


def _name(*parts: tuple[ObjectIdentifier, str]) -> x509.Name:
    return x509.Name([x509.NameAttribute(kind, value) for kind, value in parts])


def _builder(
    subject: x509.Name, key: ec.EllipticCurvePrivateKey, days: int = 1
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=3))
        .not_valid_after(now + timedelta(days=days))
    )


PROMETHEUS = (
    (NameOID.COMMON_NAME, "prometheus"),
    (NameOID.ORGANIZATION_NAME, "monitoring"),
    (NameOID.ORGANIZATION_NAME, "readers"),
)
KNOWN = User("prometheus", groups=("monitoring", "readers", "system:authenticated"))


async def test_who_shows_a_certificate_is_whom_it_names(tmp_path: Path) -> None:
    ours, guard = Authority(tmp_path, "ours"), Doorkeeper()
    certificate = ServingCertificate(client_ca_file=ours.file)
    nameless = ours.client((NameOID.ORGANIZATION_NAME, "monitoring"))
    async with serving(certificate=certificate, guard=guard) as port:
        for tls in (ours.client(*PROMETHEUS), trusting_all(), nameless):
            assert (await ask(port, "/livez", tls=tls))[0] == 200
    assert guard.certified == [KNOWN, None, None]


async def test_without_an_authority_no_certificate_is_believed(tmp_path: Path) -> None:
    guard = Doorkeeper()
    async with serving(guard=guard) as port:
        tls = Authority(tmp_path, "ours").client(*PROMETHEUS)
        assert (await ask(port, "/livez", tls=tls))[0] == 200
    assert guard.certified == [None]


async def test_what_does_not_hold_is_refused(tmp_path: Path) -> None:
    ours, others = Authority(tmp_path, "ours"), Authority(tmp_path, "others")
    guard = Doorkeeper()
    shown = {
        "of another authority": others.client(*PROMETHEUS),
        "a server's": ours.client(*PROMETHEUS, use=SERVER),
        "expired": ours.client(*PROMETHEUS, days=-1),
    }
    async with serving(certificate=ServingCertificate(client_ca_file=ours.file), guard=guard) as p:
        for tls in shown.values():
            with pytest.raises(aiohttp.ClientError):
                await ask(p, "/livez", tls=tls)
    assert guard.certified == []


async def test_another_authority_is_believed_once_the_file_has_changed(tmp_path: Path) -> None:
    ours, others = Authority(tmp_path, "ours"), Authority(tmp_path, "others")
    seconds = [0.0]
    certificate = ServingCertificate(client_ca_file=ours.file, now=lambda: seconds[0])
    guard = Doorkeeper()
    async with serving(certificate=certificate, guard=guard) as port:
        others.file.replace(ours.file)
        seconds[0] = 2.0
        assert (await ask(port, "/livez", tls=others.client(*PROMETHEUS)))[0] == 200
    assert guard.certified == [KNOWN]


def test_a_file_without_an_authority_is_named(tmp_path: Path) -> None:
    for content in (None, "hello"):
        file = tmp_path / "ca.pem"
        if content is not None:
            file.write_text(content)
        with pytest.raises(CertificateError, match=r"ca\.pem"):
            ServingCertificate(client_ca_file=file)


def test_no_certificate_is_nobody() -> None:
    assert certified_user(None) is None
    assert certified_user({}) is None
