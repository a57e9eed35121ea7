"""What queues have used over time, where that counts: as the scheduler has recorded it."""

from __future__ import annotations

from arranger.daemon.config.schema import Config
from arranger.daemon.usage import UsageConfigMap, read_usage, usage_path
from arranger.kube.client.transport import Transport


async def recorded_usage(transport: Transport, config: Config) -> tuple[UsageConfigMap | None, str]:
    """The record, and a line where it counts and cannot be read; then the order may be another."""
    if config.queues.usage_half_life_seconds is None:
        return None, ""
    path = usage_path(config)
    found, why = await read_usage(transport, path, attempts=1)
    line = f"{path}: {why}: what queues have used does not count for their turns here"
    return found, "" if found is not None else line
