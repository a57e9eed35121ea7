"""A health server on a free port, and how to ask it."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import lru_cache

import aiohttp
from prometheus_client import CollectorRegistry

from arranger.daemon.serving.certificate import ServingCertificate
from arranger.daemon.serving.health import Checks, health_server
from arranger.daemon.serving.reviews import Refusal, User


@dataclass
class Doorkeeper:
    """A guard that refuses what it is told to refuse, and notes what it was asked."""

    refused: dict[str, Refusal] = field(default_factory=dict)
    asked: list[tuple[str, str, str]] = field(default_factory=list)
    certified: list[User | None] = field(default_factory=list)

    async def refusal(
        self, verb: str, path: str, authorization: str, network: str, certified: User | None
    ) -> Refusal | None:
        self.asked.append((verb, path, authorization))
        self.certified.append(certified)
        return self.refused.get(path)


@lru_cache(maxsize=1)
def own_certificate() -> ServingCertificate:
    return ServingCertificate()


def trusting_all() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


@asynccontextmanager
async def serving(
    checks: Checks | None = None,
    *,
    guard: Doorkeeper | None = None,
    registry: CollectorRegistry | None = None,
    host: str = "127.0.0.1",
    certificate: ServingCertificate | None = None,
    before_metrics: Callable[[], None] = lambda: None,
) -> AsyncIterator[int]:
    async with health_server(
        host=host,
        port=0,
        checks=checks or {},
        certificate=certificate or own_certificate(),
        guard=guard or Doorkeeper(),
        registry=registry,
        before_metrics=before_metrics,
    ) as port:
        yield port


async def ask(
    port: int,
    path: str,
    *,
    method: str = "GET",
    headers: dict[str, str] | None = None,
    host: str = "127.0.0.1",
    data: bytes | None = None,
    seconds: float = 20.0,
    tls: ssl.SSLContext | None = None,
) -> tuple[int, str]:
    async with (
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=seconds)) as session,
        session.request(
            method,
            f"https://{host}:{port}{path}",
            ssl=tls or trusting_all(),
            headers=headers,
            data=data,
        ) as answer,
    ):
        return answer.status, await answer.text()
