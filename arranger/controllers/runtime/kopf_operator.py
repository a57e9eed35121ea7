"""How kopf runs: with our credentials, for ever, and heard through our log."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, Final

import aiohttp
import kopf

from arranger import __version__
from arranger.kube.client.aiohttp_transport import READ_BUFFER_BYTES, transport_error
from arranger.kube.client.credentials import ApiServerConfig
from arranger.kube.client.problems import ProblemReporter, problem_of_answer, resource_name
from arranger.kube.client.status import parse_status

#: Seconds between two logins after the server has rejected what we have.
LOGIN_RETRY: Final = 10.0
#: kopf's loggers of requests and logins: it tells of every single failure, with URLs and reprs.
_TOLD_BY_US: Final = (
    "kopf.activities",
    "kopf._core.engines.activities",
    "kopf._core.reactor.observation",
    "kopf._cogs.clients",
)


class _UntilItWorks:
    """kopf's delays between tries, without the last one after which it would end the process."""

    def __iter__(self) -> Iterator[float]:
        return itertools.chain((1, 1, 2, 3, 5, 8, 13), itertools.repeat(20.0))


def operator_settings() -> kopf.OperatorSettings:
    """kopf's settings: no events, and no request is ever given up."""
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.watching.reconnect_backoff = 1.0
    settings.networking.error_backoffs = _UntilItWorks()
    settings.process.ultimate_exiting_timeout = None
    return settings


def quiet_kopf() -> None:
    """Have kopf's log leave out what a :class:`ProblemReporter` tells, and every event as news."""
    logging.getLogger("kopf.objects").setLevel(logging.WARNING)
    for name in _TOLD_BY_US:
        logging.getLogger(name).setLevel(logging.CRITICAL)


def register_login(
    registry: kopf.OperatorRegistry, config: ApiServerConfig, problems: ProblemReporter
) -> None:
    """Let kopf in with our credentials; it asks again when the server has rejected them."""
    given: list[str] = []

    @kopf.on.login(registry=registry)
    async def login(**_: Any) -> kopf.AiohttpSession:
        credentials = config.credentials
        if given and not await credentials.renew(given[-1]):
            # Nothing newer is there: perhaps the server thinks otherwise in a while.
            await asyncio.sleep(LOGIN_RETRY)
        authorization = await credentials.authorization()
        given[:] = [authorization]
        headers = {"User-Agent": f"arranger-controllers/{__version__}"}
        if authorization:
            headers["Authorization"] = authorization
        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=credentials.ssl_context()),
            headers=headers,
            proxy=config.proxy,
            read_bufsize=READ_BUFFER_BYTES,
            trace_configs=[_trace(problems)],
        )
        return kopf.AiohttpSession(
            aiohttp_session=session, server=config.url, default_namespace=config.namespace
        )


def _trace(problems: ProblemReporter) -> aiohttp.TraceConfig:
    """Tells how each of kopf's requests ended."""

    async def on_end(
        _: aiohttp.ClientSession, __: SimpleNamespace, end: aiohttp.TraceRequestEndParams
    ) -> None:
        name, status = _source(end.url.path), end.response.status
        if status == 404:
            problems.absent(name)
        elif status >= 400:
            # aiohttp keeps what was read, so that kopf can read it again.
            message = parse_status(await end.response.read(), status).message
            problems.failed(name, problem_of_answer(status, message, name))
        else:
            problems.succeeded(name)

    async def on_exception(
        _: aiohttp.ClientSession, __: SimpleNamespace, end: aiohttp.TraceRequestExceptionParams
    ) -> None:
        # kopf closes the session when the server has rejected its credentials.
        ours = "is closed" in str(end.exception)
        if isinstance(end.exception, (aiohttp.ClientError, OSError)) and not ours:
            name = _source(end.url.path)
            problems.failed(name, transport_error(end.exception).problem)

    trace = aiohttp.TraceConfig()
    trace.on_request_end.append(on_end)
    trace.on_request_exception.append(on_exception)
    return trace


def _source(path: str) -> str:
    """A resource, or all of discovery: kopf looks through it when a definition comes or goes."""
    name = resource_name(path)
    return "discovery" if name == path else name
