"""Extenders over HTTP, on aiohttp."""

from __future__ import annotations

import ssl
from typing import Any, Final

import aiohttp

from arranger.api.extenders import Extender, ExtenderTls
from arranger.kube.http import USER_AGENT
from arranger.kube.transport import RefusedConnectionError, TransportError

#: Connections to one extender.
PER_HOST: Final = 16


class HttpExtenders:
    """Calls extenders; TLS files are read at the first call."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None
        self._contexts: dict[ExtenderTls, ssl.SSLContext] = {}

    async def post(self, extender: Extender, verb: str, body: bytes) -> tuple[int, bytes]:
        """See :class:`~arranger.kube.extenders.ExtenderPort`."""
        limits = aiohttp.ClientTimeout(total=extender.timeout, sock_connect=0.9 * extender.timeout)
        try:
            async with self._open().post(
                f"{extender.url.rstrip('/')}/{verb}",
                data=body,
                timeout=limits,
                **self._tls(extender.tls),
            ) as response:
                return response.status, await response.read()
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise RefusedConnectionError(str(error)) from error
        except (aiohttp.ClientError, OSError) as error:
            raise TransportError(str(error) or type(error).__name__) from error

    async def close(self) -> None:
        """Close every connection; idempotent."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, limit_per_host=PER_HOST),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"User-Agent": USER_AGENT, "Content-Type": "application/json"},
            )
        return self._session

    def _tls(self, tls: ExtenderTls | None) -> dict[str, Any]:
        if tls is None:
            return {}
        context = self._contexts.get(tls)
        if context is None:
            try:
                context = self._contexts[tls] = _context(tls)
            except OSError as error:
                raise RefusedConnectionError(f"TLS set-up: {error}") from error
        options: dict[str, Any] = {"ssl": context}
        if tls.server_name:
            options["server_hostname"] = tls.server_name
        return options


def _context(tls: ExtenderTls) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=tls.ca_file or None)
    if tls.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if tls.cert_file:
        context.load_cert_chain(tls.cert_file, tls.key_file or None)
    return context
