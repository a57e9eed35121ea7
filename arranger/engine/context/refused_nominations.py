"""Nodes on which others were evicted for a pod in vain, as extenders refused it there afterwards.

An extender that has no say about victims may refuse a node that was cleared at its pod's cost. Who
comes then takes the room, and would be evicted for the same pod again, without end; kube-scheduler
does that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

#: Seconds for which nobody is evicted there for the pod after the first time; twice as many after
#: each further one, up to the second figure.
FIRST_WAIT: Final = 60.0
MAX_WAIT: Final = 3600.0


@dataclass(slots=True, eq=False)
class RefusedNominations:
    """Of one pod."""

    #: Node → how often, and until when nobody is evicted there.
    _nodes: dict[str, tuple[int, float]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self._nodes)

    def note(self, node: str, now: float) -> None:
        """Extenders have refused the pod the node that it was nominated for.

        Said again while nobody is evicted there anyway, it changes nothing.
        """
        if node in self.closed(now):
            return
        times = self._nodes.get(node, (0, now))[0]
        wait = min(FIRST_WAIT * 2.0 ** min(times, 16), MAX_WAIT)
        self._nodes[node] = times + 1, now + wait

    def next_end(self, after: float) -> float:
        """When somebody may be evicted for it again on one more node; infinity for never."""
        return min((until for _, until in self._nodes.values() if until > after), default=math.inf)

    def closed(self, now: float) -> list[str]:
        """The nodes on which nobody is evicted for the pod now."""
        return [node for node, (_, until) in self._nodes.items() if now < until]
