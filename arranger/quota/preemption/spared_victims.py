"""What a policy asks about pods that nobody evicts."""

from __future__ import annotations

from typing import Final, Protocol

from arranger.cluster.pod_info import PodInfo


class SparedVictims(Protocol):
    """Knows pods that nobody evicts, whatever is said of them; as it stands there are none."""

    @property
    def version(self) -> int:
        """Another number whenever they may be others."""
        return 0

    def __bool__(self) -> bool:
        """Whether there may be any."""
        return False

    def spares(self, pod: PodInfo) -> bool:
        """Whether nobody evicts a pod."""
        return False


class _NobodySpared(SparedVictims):
    """Everybody is judged by what is said of him."""


NOBODY_SPARED: Final[SparedVictims] = _NobodySpared()
