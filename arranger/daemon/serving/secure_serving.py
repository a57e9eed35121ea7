"""What the command line says about serving; names are those of kube-scheduler's flags."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import CollectorRegistry

from arranger.daemon.serving.certificate import CertificateError, ServingCertificate
from arranger.daemon.serving.health import Checks, ServerError, health_server
from arranger.daemon.serving.reviews import ALWAYS_ALLOWED, Reviews
from arranger.kube.client.transport import RequestTransport


@dataclass(frozen=True, slots=True)
class ServingOptions:
    """How ``/livez``, ``/readyz`` and ``/metrics`` are served.

    Attributes:
        bind_address, secure_port: where; None leaves it to the configuration.
        tls_cert_file, tls_private_key_file: PEM; without them a key is made at the start.
        client_ca_file: PEM; who shows a certificate of one of these authorities is whom it names.
        always_allow_paths: what is shown to everybody.
        token_ttl, allowed_ttl, denied_ttl: seconds for which reviews hold.
    """

    bind_address: str | None = None
    secure_port: int | None = None
    tls_cert_file: Path | None = None
    tls_private_key_file: Path | None = None
    client_ca_file: Path | None = None
    always_allow_paths: tuple[str, ...] = ALWAYS_ALLOWED
    token_ttl: float = 10.0
    allowed_ttl: float = 10.0
    denied_ttl: float = 10.0


@asynccontextmanager
async def secure_server(
    options: ServingOptions,
    transport: RequestTransport,
    *,
    host: str,
    port: int,
    checks: Checks,
    registry: CollectorRegistry,
    before_metrics: Callable[[], None] = lambda: None,
) -> AsyncIterator[int]:
    """The server of :mod:`~arranger.daemon.serving.health` as the command line wants it.

    Args:
        transport: to the API server that says who may see what.
        host, port: where, if the command line does not say.

    Raises:
        ServerError: the address or the certificate cannot be used.
    """
    try:
        certificate = ServingCertificate(
            options.tls_cert_file, options.tls_private_key_file, options.client_ca_file
        )
    except CertificateError as error:
        raise ServerError(str(error)) from error
    reviews = Reviews(
        transport,
        always_allowed=options.always_allow_paths,
        token_ttl=options.token_ttl,
        allowed_ttl=options.allowed_ttl,
        denied_ttl=options.denied_ttl,
    )
    async with health_server(
        host=host if options.bind_address is None else options.bind_address,
        port=port if options.secure_port is None else options.secure_port,
        checks=checks,
        certificate=certificate,
        guard=reviews,
        registry=registry,
        before_metrics=before_metrics,
    ) as bound:
        yield bound
