"""The transport over HTTP, on aiohttp: for reads and watches; writes may use the pool instead."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import lru_cache
from typing import Any, Final

import aiohttp

from arranger import __version__
from arranger.api.parsing.errors import ParseError
from arranger.kube.client.credentials import ApiServerConfig, CredentialSource
from arranger.kube.client.frames import splitter_of
from arranger.kube.client.problems import Problem, ProblemKind
from arranger.kube.client.transport import (
    RefusedConnectionError,
    Request,
    Response,
    Stream,
    TransportError,
    refused_path,
)

USER_AGENT: Final = f"arranger/{__version__}"
#: Objects may be 1.5 MB, and each watch event is one frame.
READ_BUFFER_BYTES: Final = 2 << 20
#: Seconds to connect, TLS included, before the server counts as out of reach.
CONNECT_TIMEOUT: Final = 5.0


class HttpStream:
    """An open watch over HTTP."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.status = response.status
        self.headers: Mapping[str, str] = _headers(response)

    async def frames(self) -> AsyncIterator[bytes]:
        """See :class:`~arranger.kube.client.transport.Stream`."""
        splitter = splitter_of(self.headers.get("content-type", ""))
        try:
            async for chunk in self._response.content.iter_any():
                for frame in splitter.feed(chunk):
                    yield frame
        except (aiohttp.ClientError, OSError, ParseError) as error:
            raise transport_error(error) from error

    async def body(self) -> bytes:
        """Read all that is left."""
        try:
            return await self._response.read()
        except (aiohttp.ClientError, OSError) as error:
            raise transport_error(error) from error


class HttpTransport:
    """A :class:`~arranger.kube.client.transport.Transport` over aiohttp.

    The TLS context goes with each request, so a rotated certificate takes effect with the next
    connection while open watches live on.
    """

    def __init__(self, config: ApiServerConfig) -> None:
        self._config = config
        self._session: aiohttp.ClientSession | None = None

    async def send(self, request: Request) -> Response:
        """See :class:`~arranger.kube.client.transport.Transport`; a 401 is tried once more with a
        renewed credential where there is one."""
        if (refused := refused_path(request.path)) is not None:
            return refused
        headers = {"Accept": request.accept}
        if request.has_content:
            headers["Content-Type"] = request.content_type
        credentials = self._config.credentials
        for last in (False, True):
            authorization = await self._authorize(headers)
            try:
                async with self._get_session().request(
                    request.method,
                    self._config.url + request.path,
                    params=request.query,
                    data=request.body if request.has_content else None,
                    headers=headers,
                    timeout=_timeout(request.timeout),
                    **self._connection_options(),
                ) as response:
                    answer = Response(response.status, await response.read(), _headers(response))
            except (aiohttp.ClientError, OSError) as error:
                raise transport_error(error) from error
            # A 401 was not acted upon, so sending the same again is safe.
            if last or answer.status != 401 or not await credentials.renew(authorization):
                break
        return answer

    @asynccontextmanager
    async def stream(self, request: Request, *, inactivity: float = 70.0) -> AsyncIterator[Stream]:
        """See :class:`~arranger.kube.client.transport.Transport`; never compressed."""
        headers = {"Accept": request.accept, "Accept-Encoding": "identity"}
        authorization = await self._authorize(headers)
        limits = aiohttp.ClientTimeout(
            total=None, sock_connect=min(CONNECT_TIMEOUT, request.timeout), sock_read=inactivity
        )
        try:
            async with asyncio.timeout(request.timeout):
                response = await self._get_session().get(
                    self._config.url + request.path,
                    params=request.query,
                    headers=headers,
                    timeout=limits,
                    **self._connection_options(),
                )
        except (aiohttp.ClientError, OSError) as error:
            raise transport_error(error) from error
        try:
            if response.status == 401:
                await self._config.credentials.renew(authorization)
            yield HttpStream(response)
        finally:
            # A watch does not end by itself, so its connection cannot be reused.
            response.close()

    async def close(self) -> None:
        """Close every connection; idempotent."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _get_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=60.0),
                read_bufsize=READ_BUFFER_BYTES,
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"User-Agent": USER_AGENT},
            )
        return self._session

    async def _authorize(self, headers: dict[str, str]) -> str:
        value = await self._config.credentials.authorization()
        if value:
            headers["Authorization"] = value
        return value

    def _connection_options(self) -> dict[str, Any]:
        config, options = self._config, {"allow_redirects": False}
        if config.url.startswith("https:"):
            options |= tls_options(config.credentials, config.server_name)
        return {**options, "proxy": config.proxy} if config.proxy else options


@lru_cache(maxsize=64)
def _timeout(seconds: float) -> aiohttp.ClientTimeout:
    # Shorter than the total, so that a connection never made is known as such.
    return aiohttp.ClientTimeout(total=seconds, sock_connect=min(CONNECT_TIMEOUT, 0.9 * seconds))


def _headers(response: aiohttp.ClientResponse) -> dict[str, str]:
    return {name.lower(): value for name, value in response.headers.items()}


def tls_options(credentials: CredentialSource, server_name: str | None) -> dict[str, Any]:
    """The arguments of an aiohttp request that say how to speak TLS.

    Raises:
        RefusedConnectionError: the files cannot be read.
    """
    try:
        context = credentials.ssl_context()
    except OSError as error:
        what = f"the TLS certificates cannot be read: {error}"
        raise RefusedConnectionError(what, Problem(ProblemKind.UNTRUSTED, what)) from error
    return {"ssl": context, **({"server_hostname": server_name} if server_name else {})}


def transport_error(error: Exception) -> TransportError:
    """Tell "never connected" from "may have been sent"."""
    if isinstance(error, aiohttp.ClientConnectorError):
        return connection_error(error.host, error.port, error.os_error)
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        what = "connecting to the API server takes too long"
        return RefusedConnectionError(what, Problem(ProblemKind.UNREACHABLE, what))
    return TransportError(str(error) or type(error).__name__)


def connection_error(host: str, port: int | None, error: Exception) -> RefusedConnectionError:
    """Why no connection came about."""
    address = f"{host}:{port}" if port else host
    match error:
        case ssl.SSLCertVerificationError():
            kind = ProblemKind.UNTRUSTED
            what = f"the certificate of {address} is not trusted: {error.verify_message}"
        case ssl.SSLError() | ssl.CertificateError():
            kind = ProblemKind.UNTRUSTED
            reason = (error.reason or str(error)).replace("_", " ").lower()
            what = f"no TLS connection to {address}: {reason}"
        case socket.gaierror():
            kind, what = ProblemKind.UNRESOLVED, f"the host name {host} cannot be resolved"
        case ConnectionRefusedError():
            kind, what = ProblemKind.UNREACHABLE, f"{address} refuses connections"
        case TimeoutError():
            kind, what = ProblemKind.UNREACHABLE, f"{address} does not answer"
        case OSError() if error.errno:
            kind = ProblemKind.UNREACHABLE
            what = f"no connection to {address}: {os.strerror(error.errno).lower()}"
        case _ if f"[Errno {errno.ECONNREFUSED}]" in str(error):
            # The name has several addresses, and each of them refused.
            kind, what = ProblemKind.UNREACHABLE, f"{address} refuses connections"
        case _:
            kind, what = ProblemKind.UNREACHABLE, f"no connection to {address}: {error}"
    return RefusedConnectionError(what, Problem(kind, what))
