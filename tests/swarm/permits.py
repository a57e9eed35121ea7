"""A plugin of a world: some pods wait for a permit in vain, and get one the next time."""

from __future__ import annotations

import zlib

from arranger.cluster import PodInfo
from arranger.framework.cluster_event import ActionType, QueueingHint
from arranger.framework.interface import Plugin, Wait
from arranger.framework.status import CycleState, Status

#: Seconds for which a pod waits.
_WAITS = 3.0


class SlowPermit(Plugin):
    """Makes every third pod wait in vain once, as long as this scheduler lives."""

    queueing_hints = (QueueingHint(ActionType.ANY),)

    def __init__(self) -> None:
        self._refused: set[str] = set()

    def reserve(self, state: CycleState, pod: PodInfo, node: str) -> Status | None:
        """Nothing is kept; who reserves is told when that is undone."""
        return None

    def permit(self, state: CycleState, pod: PodInfo, node: str) -> Status | Wait | None:
        """Wait, unless the pod has done so before."""
        if pod.uid in self._refused or zlib.crc32(pod.pod.key.encode()) % 3:
            return None
        state[self.name] = pod.uid
        return Wait(_WAITS)

    def unreserve(self, state: CycleState, pod: PodInfo, node: str) -> None:
        """The pod has lost its node again: the next time it need not wait."""
        if state.get(self.name) == pod.uid:
            self._refused.add(pod.uid)
