"""What queues have used over time, where that counts: as the scheduler has recorded it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from arranger.api.parsing.errors import ParseError
from arranger.api.parsing.objects import convert_object
from arranger.daemon.config.schema import Config
from arranger.daemon.usage import UsageConfigMap, read_usage, usage_path
from arranger.kube.client.transport import Transport


async def recorded_usage(transport: Transport, config: Config) -> tuple[UsageConfigMap | None, str]:
    """The record, and a line where it counts and cannot be read; then the order may be another."""
    if config.queues.usage_half_life_seconds is None:
        return None, ""
    path = usage_path(config)
    found, why = await read_usage(transport, path, attempts=1)
    return found, "" if found is not None else _not_counted(path, why)


def usage_in(
    manifests: Iterable[Mapping[str, Any]], config: Config
) -> tuple[UsageConfigMap | None, str]:
    """The same of objects that were read from files."""
    if config.queues.usage_half_life_seconds is None:
        return None, ""
    path = usage_path(config)
    for each in manifests:
        meta = each["metadata"]
        if each["kind"] == "ConfigMap" and path == (
            f"/api/v1/namespaces/{meta.get('namespace')}/configmaps/{meta.get('name')}"
        ):
            try:
                return convert_object(each, UsageConfigMap), ""
            except ParseError as error:
                return None, _not_counted(path, str(error))
    return None, _not_counted(path, "it is not in the files")


def _not_counted(path: str, why: str) -> str:
    return f"{path}: {why}: what queues have used does not count for their turns here"
