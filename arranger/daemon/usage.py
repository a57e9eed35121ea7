"""Reads what queues have used, as whoever led before has recorded it."""

from __future__ import annotations

import asyncio
from typing import Final

import structlog
from msgspec import field

from arranger.api.effects import ObjectKey
from arranger.api.parsing.errors import ParseError
from arranger.api.parsing.objects import decode_object
from arranger.api.settings.usage_record import USAGE_KEY
from arranger.api.types.core import ObjectMeta, Struct
from arranger.daemon.config.schema import Config
from arranger.daemon.tasks import loop_time
from arranger.engine.engine import Engine
from arranger.kube.client.transport import Request, Transport, TransportError

log = structlog.get_logger(__name__)

#: Seconds between two attempts to read it; and how many there are before it is done without.
_RETRY: Final = 1.0
_ATTEMPTS: Final = 10


class UsageConfigMap(Struct):
    """The ConfigMap, as far as it is read."""

    metadata: ObjectMeta
    data: dict[str, str] = field(default_factory=dict)


def usage_path(config: Config) -> str:
    """Where it is: ``<name of the Lease>-usage``, beside the Lease."""
    election = config.leader_election
    namespace, name = election.resource_namespace, election.resource_name
    return f"/api/v1/namespaces/{namespace}/configmaps/{name}-usage"


async def restore_usage(engine: Engine, transport: Transport, config: Config) -> None:
    """Have an engine that has not run go on from the record, where use over time counts.

    Without the ConfigMap, or the right to read it, nothing is kept, and the log says so.
    """
    if config.queues.usage_half_life_seconds is None:
        return
    found, why = await _read(transport, usage_path(config))
    if found is None:
        log.warning("usage.not_kept", path=usage_path(config), reason=why)
        return
    meta = found.metadata
    key = ObjectKey(meta.namespace, meta.name, meta.uid)
    engine.usage.restore(key, found.data.get(USAGE_KEY, ""), loop_time())


async def _read(transport: Transport, path: str) -> tuple[UsageConfigMap | None, str]:
    """The ConfigMap, or None and why."""
    why = ""
    for _ in range(_ATTEMPTS):
        try:
            answer = await transport.send(Request("GET", path))
        except TransportError as error:
            why = str(error)
        else:
            if answer.status == 200:
                try:
                    return decode_object(answer.body, UsageConfigMap), ""
                except ParseError as error:
                    return None, str(error)
            why = f"HTTP {answer.status}"
            if answer.status < 500 and answer.status != 429:
                return None, why
        await asyncio.sleep(_RETRY)
    return None, why
