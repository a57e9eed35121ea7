"""Where the API server is, and how we prove who we are: without importing any client library.

``kube/auth.py`` fills these in from a kubeconfig or from the pod's service account; tests and the
embedded cluster build them by hand.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

import structlog

log = structlog.get_logger(__name__)

#: Seconds after which a credential is read again: kubelet rotates a bound token well before its
#: end, and client-go uses the same minute.
MAX_AGE: Final = 60.0
#: Seconds between two looks at the certificate files, and between two reloads after a 401.
RECHECK: Final = 1.0


@dataclass(frozen=True, slots=True)
class Identity:
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


Load = Callable[[bool], Awaitable[Identity]]


class Credentials:
    """One identity, kept fresh: the header by age and on a 401, the certificates by file time.

    Args:
        identity: what is known now.
        load: reads the identity again; its argument says that the server rejected the last one.
            ``None`` for an identity that never changes.
        now: the monotonic clock, seconds.
    """

    def __init__(
        self,
        identity: Identity | None = None,
        load: Load | None = None,
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._identity = identity or Identity()
        self._load = load
        self._now = now
        self._lock = asyncio.Lock()
        self._loaded = now()
        self._context: ssl.SSLContext | None = None
        self._stamp: tuple[tuple[str, int, int], ...] | None = None
        self._stamped = float("-inf")

    async def authorization(self) -> str:
        """The Authorization header's value, at most :data:`MAX_AGE` old; empty for none.

        A failing reload keeps the old value: it may well be good until the next try.
        """
        if self._load is not None and self._now() - self._loaded >= MAX_AGE:
            async with self._lock:
                if self._now() - self._loaded >= MAX_AGE:
                    await self._reload(rejected=False)
        return self._identity.authorization

    async def renew(self, rejected: str) -> bool:
        """After a 401 to ``rejected``: read again; whether there is another value to try."""
        if self._load is None:
            return False
        async with self._lock:
            unchanged = self._identity.authorization == rejected
            if unchanged and self._now() - self._loaded >= RECHECK:
                await self._reload(rejected=True)
        return self._identity.authorization != rejected

    def ssl_context(self) -> ssl.SSLContext:
        """The TLS context of the files as they are now; the same object until one changes.

        Raises:
            OSError, ssl.SSLError: the files were never readable. Once a context exists, a failing
                reload keeps it, because a rotation writes certificate and key one after the other.
        """
        now = self._now()
        if self._context is None or now - self._stamped >= RECHECK:
            self._stamped = now
            try:
                stamp = tuple(_stamp(name) for name in self._identity.files)
                if self._context is None or stamp != self._stamp:
                    self._context = _build_context(self._identity)
                    self._stamp = stamp
            except (OSError, ssl.SSLError) as error:
                if self._context is None:
                    raise
                log.warning("tls.reload_failed", error=str(error))
        return self._context

    async def _reload(self, *, rejected: bool) -> None:
        assert self._load is not None
        self._loaded = self._now()
        try:
            self._identity = await self._load(rejected)
        # Whatever a plugin or a file did wrong, the old credential is the best we have.
        except Exception as error:
            log.warning("credentials.reload_failed", error=str(error))


@dataclass(frozen=True, slots=True)
class Access:
    """One API server as one user sees it."""

    #: ``https://host:port`` with an optional path prefix, without a trailing slash.
    url: str
    credentials: Credentials = field(default_factory=Credentials)
    #: The namespace of the kubeconfig context or of our own pod.
    namespace: str = "default"
    #: The name to verify the server's certificate against, where it is not the host of ``url``.
    server_name: str | None = None
    proxy: str | None = None


def _stamp(name: str) -> tuple[str, int, int]:
    status = os.stat(name)
    # The inode too: a mounted Secret is swapped by symlink and may keep its time stamp.
    return name, status.st_mtime_ns, status.st_ino


def _build_context(identity: Identity) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=identity.ca_file)
    if not identity.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if identity.cert_file:
        context.load_cert_chain(identity.cert_file, identity.key_file)
    context.set_alpn_protocols(["http/1.1"])
    return context
