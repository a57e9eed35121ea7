"""How many nodes may be kept for gangs that starve, and for how long: others must go on.

Nodes are kept for so long at a stretch, for whichever gangs. Then nothing is kept for as long as
they were, so that who was kept off can go on; and the namespaces of these gangs wait longer, twice
as long each time. A gang that starts counts no more: the stretch is as old as the first of the
others for which nodes are, or were, kept in vain, and over if there is none for which they are.
"""

from __future__ import annotations

import math
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
    #: Gang that has not started → since when nodes are kept for it.
    _kept_since: dict[str, float] = field(default_factory=dict, init=False)
    #: The same of the first for which nodes were kept in this stretch, and are not any more.
    _first_in_vain: float = field(default=math.inf, init=False)
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

    def keep(self, gangs: Set[str], now: float) -> None:
        """Nodes are kept for these gangs from now on, and for no others."""
        for gang in self._kept_since.keys() - gangs:
            self._first_in_vain = min(self._first_in_vain, self._kept_since.pop(gang))
        for gang in gangs:
            self._kept_since.setdefault(gang, now)

    def ends_at(self) -> float | None:
        """When the nodes that are kept are given back; None if there are none."""
        since = self._since()
        return None if since is None else since + self._policy.reservation_seconds

    def on_started(self, gang: str, namespaces: Set[str], of_others: Set[str]) -> None:
        """A gang that nodes were kept for has got its place.

        Its namespaces wait no longer, those apart in which nodes are kept for others (``of_others``
        are the namespaces of these).
        """
        self._kept_since.pop(gang, None)
        if not self._kept_since:
            self._first_in_vain = math.inf
        for name in namespaces - of_others:
            self._in_vain.pop(name, None)

    def on_ended_in_vain(self, namespaces: Set[str], now: float) -> None:
        """All nodes are given back, and no gang that they were kept for has started."""
        if (since := self._since()) is None:
            return
        kept = now - since
        self._kept_since.clear()
        self._first_in_vain = math.inf
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

    def _since(self) -> float | None:
        """Since when nodes are kept; None while none are."""
        if not self._kept_since:
            return None
        return min(self._first_in_vain, *self._kept_since.values())
