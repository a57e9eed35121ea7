"""Extenders over HTTP, on aiohttp."""

from __future__ import annotations

from typing import Any, Final

import aiohttp

from arranger.api.extenders import Extender, ExtenderTls
from arranger.kube.client.aiohttp_transport import USER_AGENT
from arranger.kube.client.credentials import Credentials, Identity
from arranger.kube.client.transport import RefusedConnectionError, TransportError

#: Connections to one extender.
PER_HOST: Final = 16


class HttpExtenders:
    """Calls extenders; TLS files are read at the first call, and again when they have changed."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None
        self._trust: dict[ExtenderTls, Credentials] = {}

    async def post(self, extender: Extender, verb: str, body: bytes) -> tuple[int, bytes]:
        """See :class:`~arranger.kube.extenders.client.ExtenderPort`."""
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
        trust = self._trust.get(tls)
        if trust is None:
            trust = self._trust[tls] = Credentials(
                Identity(
                    ca_file=tls.ca_file or None,
                    cert_file=tls.cert_file or None,
                    key_file=tls.key_file or None,
                    verify=not tls.insecure,
                )
            )
        try:
            options: dict[str, Any] = {"ssl": trust.ssl_context()}
        except OSError as error:
            raise RefusedConnectionError(f"TLS set-up: {error}") from error
        if tls.server_name:
            options["server_hostname"] = tls.server_name
        return options
