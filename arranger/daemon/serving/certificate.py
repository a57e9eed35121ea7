"""The certificate we serve with: given in files and read again when they change, or our own."""

from __future__ import annotations

import os
import socket
import ssl
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Final

import structlog

log = structlog.get_logger(__name__)

#: Seconds between two looks at the files.
RECHECK_INTERVAL: Final = 1.0
#: How long a certificate that we sign ourselves is valid, and after which time there is another.
LIFETIME: Final = timedelta(days=365)
_RENEW_AFTER_SECONDS: Final = LIFETIME.total_seconds() / 2
#: Clocks of those who look at it may be behind ours.
_CLOCK_SKEW: Final = timedelta(hours=1)


class CertificateError(Exception):
    """The certificate cannot be used; the message says which file and why."""


@dataclass(eq=False)
class ServingCertificate:
    """The TLS context to serve with, kept up to date.

    Args:
        cert_file, key_file: PEM; without them we make a key and sign for it ourselves.
        client_ca_file: PEM; who shows a certificate must have it from one of these authorities.
        now: the monotonic clock, seconds.

    Raises:
        CertificateError: the files cannot be used as they are now.
    """

    cert_file: Path | None = None
    key_file: Path | None = None
    client_ca_file: Path | None = None
    _: KW_ONLY
    now: Callable[[], float] = time.monotonic
    _context: ssl.SSLContext = field(init=False)
    _fingerprint: object = field(init=False)
    _checked_at: float = field(init=False)
    _made_at: float = field(init=False)

    def __post_init__(self) -> None:
        if (self.cert_file is None) != (self.key_file is None):
            raise CertificateError("give both --tls-cert-file and --tls-private-key-file")
        self._load()

    def context(self) -> ssl.SSLContext:
        """The context of the files as they are; the same object until they change.

        A pair that cannot be used is not: a rotation writes one after the other.
        """
        now = self.now()
        if self.cert_file is None and now - self._made_at >= _RENEW_AFTER_SECONDS:
            self._load()
        elif self._files() and now - self._checked_at >= RECHECK_INTERVAL:
            self._checked_at = now
            try:
                if self._look() != self._fingerprint:
                    self._load()
            except (CertificateError, OSError) as error:
                log.warning("tls.reload_failed", error=str(error))
        return self._context

    def _load(self) -> None:
        self._checked_at = self._made_at = self.now()
        try:
            # What is written meanwhile is seen by the next look.
            fingerprint = self._look()
            if self.cert_file is None or self.key_file is None:
                with _as_file(_self_signed()) as pem:
                    context = _context(pem, pem, self.client_ca_file)
            else:
                context = _context(self.cert_file, self.key_file, self.client_ca_file)
        except OSError as error:
            reason = error.strerror if error.filename else str(error)
            name = error.filename or ", ".join(map(str, self._files()))
            raise CertificateError(f"{name}: {reason}") from error
        self._context, self._fingerprint = context, fingerprint

    def _files(self) -> list[Path]:
        given = (self.cert_file, self.key_file, self.client_ca_file)
        return [file for file in given if file is not None]

    def _look(self) -> object:
        """What differs when a file is another one."""
        files = [os.stat(file) for file in self._files()]
        # The inode too: a mounted Secret is swapped by symlink and may keep its time stamp.
        return [(file.st_mtime_ns, file.st_ino, file.st_size) for file in files]


def _context(cert_file: Path, key_file: Path, client_ca_file: Path | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    # A key with a passphrase is an error; nobody is there to be asked for it.
    context.load_cert_chain(cert_file, key_file, password=_no_password)
    if client_ca_file is not None:
        context.load_verify_locations(client_ca_file)
        context.verify_mode = ssl.CERT_OPTIONAL  # who shows none has a token, or is anonymous
    return context


def _no_password() -> str:
    return ""


def _self_signed() -> bytes:
    """A new key and a certificate for it, both PEM."""
    # Half a megabyte of code that only those need who give no certificate.
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    host = socket.gethostname()
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"arranger@{host}"[:64])])
    now = datetime.now(UTC)
    names: list[x509.GeneralName] = [x509.DNSName("localhost")]
    if host.isascii() and host != "localhost":
        names.append(x509.DNSName(host))
    names += [x509.IPAddress(ip_address(each)) for each in ("127.0.0.1", "::1")]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + LIFETIME)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return private + certificate.public_bytes(pem)


@contextmanager
def _as_file(content: bytes) -> Iterator[Path]:
    """A file that nobody else reads: in memory where the system has that, as our image's own file
    system is read-only."""
    if hasattr(os, "memfd_create"):
        with open(os.memfd_create("serving-certificate"), "wb") as file:
            file.write(content)
            file.flush()
            yield Path(f"/proc/self/fd/{file.fileno()}")
    else:
        with tempfile.NamedTemporaryFile() as named:
            named.write(content)
            named.flush()
            yield Path(named.name)
