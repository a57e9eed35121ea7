"""All checks of ``arranger doctor``, in the order in which they are told."""

from __future__ import annotations

from datetime import datetime

from arranger.cli.doctor import server_checks
from arranger.cli.doctor.finding import CheckContext, Finding
from arranger.cli.doctor.object_checks import objects
from arranger.daemon.config.schema import Config
from arranger.kube.client.transport import Transport
from arranger.shadow.inputs.listing import UnreadableError, list_objects
from arranger.shadow.shadow import Shadow

_CHECKS = (
    server_checks.server,
    server_checks.definitions,
    server_checks.rights,
    server_checks.lease,
    server_checks.webhooks,
    server_checks.quarantine,
)


async def examine(transport: Transport, config: Config, *, now: datetime) -> list[Finding]:
    """Look at a cluster, with the rights of whoever asks.

    Raises:
        TransportError: there was no answer.
        ConfigError: the configured plugins cannot be used.
    """
    try:
        shadow = Shadow.of(await list_objects(transport, config), config)
    except UnreadableError:
        shadow = None
    context = CheckContext(transport, config, shadow, now)
    found = [each for check in _CHECKS async for each in check(context)]
    return [*found, *objects(context)]
