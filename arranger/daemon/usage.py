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

    @property
    def key(self) -> ObjectKey:
        """Which one it is."""
        return ObjectKey(self.metadata.namespace, self.metadata.name, self.metadata.uid)

    @property
    def text(self) -> str:
        """The record; "" where nothing is recorded yet."""
        return self.data.get(USAGE_KEY, "")


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
    found, why = await read_usage(transport, usage_path(config))
    if found is None:
        log.warning("usage.not_kept", path=usage_path(config), reason=why)
        return
    engine.usage.restore(found.key, found.text, loop_time())


async def read_usage(
    transport: Transport, path: str, attempts: int = _ATTEMPTS
) -> tuple[UsageConfigMap | None, str]:
    """The ConfigMap, or None and why."""
    why = ""
    for attempt in range(attempts):
        if attempt:
            await asyncio.sleep(_RETRY)
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
    return None, why
