from __future__ import annotations

import asyncio
import os
import shutil
import socket
import ssl
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from arranger.daemon.serving.certificate import LIFETIME, CertificateError, ServingCertificate
from arranger.daemon.serving.health import ServerError
from arranger.daemon.serving.secure_serving import ServingOptions, secure_server
from tests.unit.daemon.serving.servers import serving, trusting_all

Pair = tuple[Path, Path]


class Clock:
    seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


async def served(port: int) -> x509.Certificate:
    """The certificate that a server shows."""
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting_all())
    shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.transport.abort()
    return x509.load_der_x509_certificate(shown)


async def test_without_files_we_sign_for_ourselves() -> None:
    async with serving(certificate=ServingCertificate()) as port:
        shown = await served(port)
    shown.verify_directly_issued_by(shown)
    now = datetime.now(UTC)
    assert shown.not_valid_before_utc < now < shown.not_valid_after_utc <= now + LIFETIME
    names = shown.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert {"localhost", socket.gethostname()} >= set(names.get_values_for_type(x509.DNSName))
    assert [str(each) for each in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1", "::1"]
    use = shown.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(use) == [ExtendedKeyUsageOID.SERVER_AUTH]


def test_our_own_key_is_another_for_each_process_and_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    one, other = ServingCertificate(), ServingCertificate()
    assert one.context() is one.context()
    assert one.context() is not other.context()
    # Where files in memory are not to be had, too.
    monkeypatch.delattr(os, "memfd_create", raising=False)
    assert ServingCertificate().context() is not one.context()
    assert list(tmp_path.iterdir()) == []


def test_our_own_is_renewed_long_before_it_ends() -> None:
    clock = Clock()
    certificate = ServingCertificate(now=clock)
    first = certificate.context()
    clock.seconds += LIFETIME.total_seconds() / 2 - 1
    assert certificate.context() is first
    clock.seconds += 1
    assert certificate.context() is not first


async def test_files_are_read_again_when_they_change(
    throwaway_certificate: Pair, another_certificate: Pair
) -> None:
    clock = Clock()
    certificate = ServingCertificate(*throwaway_certificate, now=clock)
    async with serving(certificate=certificate) as port:
        first = await served(port)
        for new, old in zip(another_certificate, throwaway_certificate, strict=True):
            os.replace(shutil.copy(new, old.with_suffix(".new")), old)
        assert await served(port) == first, "looked at again too early"
        clock.seconds += 1
        second = await served(port)
    assert second == x509.load_pem_x509_certificate(another_certificate[0].read_bytes())
    assert second != first


async def test_half_a_rotation_is_waited_out(
    throwaway_certificate: Pair, another_certificate: Pair
) -> None:
    clock = Clock()
    certificate = ServingCertificate(*throwaway_certificate, now=clock)
    first = certificate.context()
    for spoil in ("cert of another key", "no certificate at all", "nothing"):
        file = throwaway_certificate[0]
        if spoil == "nothing":
            file.unlink()
        else:
            file.write_bytes(
                another_certificate[0].read_bytes() if "key" in spoil else spoil.encode()
            )
        clock.seconds += 1
        assert certificate.context() is first, spoil
    shutil.copy(another_certificate[0], throwaway_certificate[0])
    shutil.copy(another_certificate[1], throwaway_certificate[1])
    clock.seconds += 1
    assert certificate.context() is not first


def test_old_versions_of_tls_are_not_spoken() -> None:
    assert ServingCertificate().context().minimum_version >= ssl.TLSVersion.TLSv1_2


def wrong(folder: Path, pair: Pair, spoiled: str) -> tuple[Path | None, Path | None]:
    certificate, key = pair
    other = folder / "other"
    match spoiled:
        case "no key":
            return certificate, None
        case "no certificate":
            return None, key
        case "a key that is not there":
            return certificate, other
        case _:
            other.write_text("hello")
            return (other, key) if spoiled == "no PEM" else (certificate, other)


WRONG = {
    "no key": "give both --tls-cert-file and --tls-private-key-file",
    "no certificate": "give both --tls-cert-file and --tls-private-key-file",
    "a key that is not there": "No such file or directory",
    "no PEM": "PEM",
    "a key that is none": "PEM",
}


@pytest.mark.parametrize("spoiled", WRONG)
async def test_what_cannot_be_used_is_named_at_the_start(
    spoiled: str, throwaway_certificate: Pair, tmp_path: Path
) -> None:
    files = wrong(tmp_path, throwaway_certificate, spoiled)
    with pytest.raises(CertificateError, match=WRONG[spoiled]):
        ServingCertificate(*files)
    options = ServingOptions(tls_cert_file=files[0], tls_private_key_file=files[1])
    server = secure_server(
        options,
        None,  # type: ignore[arg-type]  # nobody is asked
        host="127.0.0.1",
        port=0,
        checks={},
        registry=None,  # type: ignore[arg-type]
    )
    with pytest.raises(ServerError, match=WRONG[spoiled]):
        await server.__aenter__()
