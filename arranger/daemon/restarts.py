"""How often the core may begin anew within one process, and which objects it then leaves out."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Final

from arranger.api.quarantine import QuarantineKey

#: Restarts within so many seconds after which the process ends: the fault is of no object.
MAX_RESTARTS: Final = 5
PERIOD: Final = 600.0


@dataclass(slots=True, eq=False)
class Restarts:
    """Begins the core anew when what it holds cannot be right any more.

    A new process would do the same, after a pause, and would not know which objects to leave out.

    Attributes:
        left_out: the objects that brought an earlier core down, in the state in which they did.
        uncounted: see :class:`~arranger.engine.faults.held_room.HeldRoom`.
        count: how often it has begun anew.
    """

    left_out: dict[QuarantineKey, Hashable] = field(default_factory=dict, init=False)
    uncounted: set[QuarantineKey] = field(default_factory=set, init=False)
    count: int = field(default=0, init=False)
    _times: deque[float] = field(default_factory=deque, init=False)

    def may_restart(self, suspects: Mapping[QuarantineKey, Hashable], now: float) -> bool:
        """Whether to begin anew without the suspects; False when the process is to end."""
        self.left_out.update(suspects)
        while self._times and self._times[0] < now - PERIOD:
            self._times.popleft()
        self._times.append(now)
        self.count += 1
        return len(self._times) <= MAX_RESTARTS
