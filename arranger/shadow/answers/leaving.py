"""Pods that were being deleted when a question was asked: they leave, and nobody evicts them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from arranger.api.listing import first_names
from arranger.api.timestamps import from_unix
from arranger.api.types.core import Pod

#: Finalizers that are named.
_NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class Leaving:
    """Pods on their way out, as they were before the forecast let them go.

    Attributes:
        pods: by ``namespace/name``.
        asked_at: when the forecast began.
    """

    pods: Mapping[str, Pod] = field(default_factory=dict)
    asked_at: datetime = datetime.min

    def text(self, pod: Pod) -> str:
        """What is said of one of them."""
        meta, deadline = pod.metadata, pod.metadata.deletion_timestamp
        ended = f"it has ended ({pod.status.phase}) and " if pod.terminal else "it "
        told = f"{ended}is being deleted"
        node = f" from node {pod.spec.node_name}" if pod.spec.node_name else ""
        if deadline is not None:
            late = deadline <= self.asked_at
            told += f", and {'should have gone' if late else 'has to be gone'}{node}"
            told += f" by {from_unix(deadline.timestamp()):%Y-%m-%d %H:%M:%S} UTC"
        if meta.finalizers:
            told += f"; it waits for finalizers: {first_names(meta.finalizers, _NAMED)}"
        return told

    def before(self, pod: Pod, node: str) -> list[str]:
        """Those that have to be gone from a node before a pod can go there.

        That is so where the scheduler, which was told of everything, did not place it at once.
        """
        placed_at = pod.status.start_time
        if placed_at is None or placed_at <= self.asked_at:
            return []
        there = (p for p in self.pods.values() if p.spec.node_name == node and not p.terminal)
        return sorted(each.key for each in there)
