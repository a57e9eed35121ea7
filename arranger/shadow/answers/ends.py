"""When pods that run will have to end, where somebody says how long they may."""

from __future__ import annotations

from collections.abc import Iterable

from arranger.api.timestamps import from_unix
from arranger.api.types.core import Pod
from arranger.engine.engine import Engine


def ends_by(engine: Engine, pods: Iterable[Pod]) -> str:
    """When the last of these pods ends at the latest, for people; "" where one may run for ever."""
    last: float | None = None
    for pod in pods:
        placed = engine.cluster.pod(pod.metadata.uid)
        end = engine.limits.end_of(placed) if placed is not None else None
        if end is None:
            return ""
        last = end if last is None else max(last, end)
    return "" if last is None else f"{from_unix(last):%Y-%m-%d %H:%M:%S} UTC"
