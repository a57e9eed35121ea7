"""Extenders over HTTP, on aiohttp."""

from __future__ import annotations

from typing import Any, Final

import aiohttp

from arranger.api.extenders import Extender, ExtenderTls
from arranger.kube.client.aiohttp_transport import USER_AGENT, tls_options, transport_error
from arranger.kube.client.credentials import Credential, CredentialSource
from arranger.kube.client.transport import TransportError

#: To one extender.
MAX_CONNECTIONS: Final = 16
#: Bytes of an answer, beyond twice what was sent: it is about the same nodes and pods.
MAX_ANSWER: Final = 16 * 1024 * 1024


class HttpExtenderTransport:
    """Calls extenders; TLS files are read at the first call, and again when they have changed."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None
        self._credentials: dict[ExtenderTls, CredentialSource] = {}

    async def post(self, extender: Extender, verb: str, body: bytes) -> tuple[int, bytes]:
        """See :class:`~arranger.kube.extenders.caller.ExtenderTransport`."""
        limits = aiohttp.ClientTimeout(total=extender.timeout, sock_connect=0.9 * extender.timeout)
        try:
            async with self._get_session().post(
                f"{extender.url.rstrip('/')}/{verb}",
                data=body,
                timeout=limits,
                **self._tls_options(extender.tls),
            ) as response:
                return response.status, await _read(response, MAX_ANSWER + 2 * len(body))
        except (aiohttp.ClientError, OSError) as error:
            raise transport_error(error) from error

    async def close(self) -> None:
        """Close every connection; idempotent."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _get_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, limit_per_host=MAX_CONNECTIONS),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"User-Agent": USER_AGENT, "Content-Type": "application/json"},
            )
        return self._session

    def _tls_options(self, tls: ExtenderTls | None) -> dict[str, Any]:
        if tls is None:
            return {}
        credentials = self._credentials.get(tls)
        if credentials is None:
            files = (tls.ca_file or None, tls.cert_file or None, tls.key_file or None)
            credentials = CredentialSource(Credential("", *files, verify=not tls.insecure))
            self._credentials[tls] = credentials
        return tls_options(credentials, tls.server_name)


async def _read(response: aiohttp.ClientResponse, most: int) -> bytes:
    """The body; raises TransportError if it has more bytes than that."""
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > most:
            raise TransportError(f"the answer has more than {most} bytes")
    return bytes(body)
