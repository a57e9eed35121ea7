"""Where the API server is and how we authenticate, without importing any client library.

``kubeconfig.py`` fills these in from a kubeconfig or from the pod's service account; tests and the
embedded cluster build them by hand.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import time
from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import Final

import structlog

log = structlog.get_logger(__name__)

#: Seconds after which a credential is read again: kubelet rotates a bound token well before its
#: end, and client-go uses the same minute.
MAX_CREDENTIAL_AGE: Final = 60.0
#: Seconds between two looks at the certificate files, and between two reloads after a 401.
RECHECK_INTERVAL: Final = 1.0


@dataclass(frozen=True, slots=True)
class Credential:
    """What one reading of the configuration gave: the header and the certificate files."""

    #: The whole value of the Authorization header; empty for none.
    authorization: str = ""
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    verify: bool = True

    @property
    def files(self) -> tuple[str, ...]:
        """The files whose change calls for a new TLS context."""
        return tuple(name for name in (self.ca_file, self.cert_file, self.key_file) if name)


CredentialLoader = Callable[[bool], Awaitable[Credential]]


@dataclass(eq=False)
class CredentialSource:
    """One credential, kept fresh: the header by age and on a 401, the certificates by file time.

    Args:
        credential: the present one.
        load: reads the credential again; its argument says that the server rejected the last one.
            ``None`` for one that never changes.
        now: the monotonic clock, seconds.
    """

    credential: Credential = field(default_factory=Credential)
    load: CredentialLoader | None = None
    _: KW_ONLY
    now: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._lock = asyncio.Lock()
        self._loaded_at = self.now()
        self._context: ssl.SSLContext | None = None
        self._fingerprint: tuple[tuple[str, int, int], ...] | None = None
        self._checked_at = float("-inf")

    async def authorization(self) -> str:
        """The Authorization header's value, at most :data:`MAX_CREDENTIAL_AGE` old; empty for none.

        A failing reload keeps the old value: it may well be good until the next try.
        """
        if self.load is not None and self.now() - self._loaded_at >= MAX_CREDENTIAL_AGE:
            async with self._lock:
                if self.now() - self._loaded_at >= MAX_CREDENTIAL_AGE:
                    await self._reload(rejected=False)
        return self.credential.authorization

    async def renew(self, rejected: str) -> bool:
        """After a 401 to ``rejected``: read again; whether there is another value to try."""
        if self.load is None:
            return False
        async with self._lock:
            unchanged = self.credential.authorization == rejected
            if unchanged and self.now() - self._loaded_at >= RECHECK_INTERVAL:
                await self._reload(rejected=True)
        return self.credential.authorization != rejected

    def ssl_context(self) -> ssl.SSLContext:
        """The TLS context of the files as they are now; the same object until one changes.

        Raises:
            OSError, ssl.SSLError: the files were never readable. Once a context exists, a failing
                reload keeps it, because a rotation writes certificate and key one after the other.
        """
        now = self.now()
        if self._context is None or now - self._checked_at >= RECHECK_INTERVAL:
            self._checked_at = now
            try:
                fingerprint = tuple(_file_fingerprint(name) for name in self.credential.files)
                if self._context is None or fingerprint != self._fingerprint:
                    self._context = _build_context(self.credential)
                    self._fingerprint = fingerprint
            except (OSError, ssl.SSLError) as error:
                if self._context is None:
                    raise
                log.warning("tls.reload_failed", error=str(error))
        return self._context

    async def _reload(self, *, rejected: bool) -> None:
        assert self.load is not None
        self._loaded_at = self.now()
        try:
            self.credential = await self.load(rejected)
        # Whatever the plugin or the file did wrong, the old credential may still be valid.
        except Exception as error:
            log.warning("credentials.reload_failed", error=str(error))


@dataclass(frozen=True, slots=True)
class ApiServerConfig:
    """One API server as one user sees it."""

    #: ``https://host:port`` with an optional path prefix, without a trailing slash.
    url: str
    credentials: CredentialSource = field(default_factory=CredentialSource)
    #: The namespace of the kubeconfig context or of our own pod.
    namespace: str = "default"
    #: The name to verify the server's certificate against, where it is not the host of ``url``.
    server_name: str | None = None
    proxy: str | None = None


def _file_fingerprint(name: str) -> tuple[str, int, int]:
    status = os.stat(name)
    # The inode too: a mounted Secret is swapped by symlink and may keep its time stamp.
    return name, status.st_mtime_ns, status.st_ino


def _build_context(credential: Credential) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=credential.ca_file)
    if not credential.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if credential.cert_file:
        context.load_cert_chain(credential.cert_file, credential.key_file)
    context.set_alpn_protocols(["http/1.1"])
    return context
