"""How many nodes may be kept for gangs that starve, and for how long: others must go on.

Nodes are kept for so long at a stretch, for whichever gangs, unless one of these starts. Then
nothing is kept for as long as they were, so that who was kept off can go on; and the namespaces of
that gang wait longer, twice as long each time.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field
from typing import Final

from arranger.engine.gang.state.policy import GangPolicy

#: Seconds that a namespace waits at most after nodes were kept for its gangs in vain.
MAX_PENALTY: Final = 86_400.0
#: Seconds for which nothing is kept at least after that: who was kept off may have to wait for the
#: end of a back-off first.
MIN_PAUSE: Final = 30.0


@dataclass(slots=True, eq=False)
class ReservationBudget:
    """What is left to gangs that starve."""

    _policy: GangPolicy
    #: Since when nodes have been kept without any gang having started; None while none are.
    _since: float | None = field(default=None, init=False)
    _paused_until: float = field(default=float("-inf"), init=False)
    #: Namespace → how often in vain, and until when nothing is kept for its gangs.
    _in_vain: dict[str, tuple[int, float]] = field(default_factory=dict, init=False)

    def max_nodes(self, nodes: int) -> int:
        """How many of so many nodes may be kept."""
        return max(1, nodes * self._policy.reservation_max_nodes_percent // 100)

    def allowed_at(self, namespaces: Set[str]) -> float:
        """From when on nodes may be kept for a gang of these namespaces."""
        penalties = (self._in_vain[name][1] for name in namespaces if name in self._in_vain)
        return max([self._paused_until, *penalties])

    def allows(self, namespaces: Set[str], now: float) -> bool:
        """Whether they may now."""
        return now >= self.allowed_at(namespaces)

    def begin(self, now: float) -> None:
        """Nodes are kept from now on, if none were."""
        if self._since is None:
            self._since = now

    def ends_at(self) -> float | None:
        """When the nodes that are kept are given back; None if there are none."""
        return None if self._since is None else self._since + self._policy.reservation_seconds

    def on_started(self, namespaces: Set[str]) -> None:
        """The gang that nodes were kept for has got its place."""
        self._since = None
        for name in namespaces:
            self._in_vain.pop(name, None)

    def on_ended_in_vain(self, namespaces: Set[str], now: float) -> None:
        """The nodes are given back, and the gang that they were kept for has not started."""
        if self._since is None:
            return
        kept, self._since = now - self._since, None
        lasts = max(MIN_PAUSE, min(self._policy.reservation_seconds, kept))
        self._paused_until = now + lasts
        for name in [
            name for name, (_, until) in self._in_vain.items() if until + MAX_PENALTY < now
        ]:
            del self._in_vain[name]
        for name in namespaces:
            times = self._in_vain.get(name, (0, now))[0] + 1
            penalty = min(MAX_PENALTY, lasts * 2.0 ** min(times, 32))
            self._in_vain[name] = times, now + penalty
