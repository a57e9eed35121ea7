"""Who is sent next: bindings, then what others wait for, then what tells people why they wait."""

from __future__ import annotations

from collections import deque
from enum import IntEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from arranger.kube.writes.call import ApiCall

#: While the more urgent wait, one in so many still goes to the others in turn.
LOWER_PRIORITY_SHARE: Final = 8


class CallPriority(IntEnum):
    """How soon a write is sent, the smallest first.

    A pod that gets its node at once need not be told first that it waits: the longer such a patch
    waits behind the deletes, the more of them are void before they are sent.
    """

    BINDING = 0
    #: Evictions, and what is written of volumes and claims before a binding.
    BLOCKING = 1
    NORMAL = 2


class CallQueue:
    """Jobs that wait to be sent, in the order they came among those of one urgency."""

    def __init__(self) -> None:
        self._queues: tuple[deque[ApiCall], ...] = tuple(deque() for _ in CallPriority)
        self._pops = 0

    def __len__(self) -> int:
        return sum(map(len, self._queues))

    def push(self, call: ApiCall) -> None:
        """Queue up behind the others."""
        self._queues[call.priority].append(call)

    def push_front(self, call: ApiCall) -> None:
        """Go before the others: it has waited already, and others may depend on it."""
        self._queues[call.priority].appendleft(call)

    def pop(self) -> ApiCall | None:
        """Take the job that is to be sent now, if there is any."""
        waiting = [line for line in self._queues if line]
        if not waiting:
            return None
        self._pops += 1
        turn, remainder = divmod(self._pops, LOWER_PRIORITY_SHARE)
        if len(waiting) > 1 and not remainder:
            return waiting[1 + turn % (len(waiting) - 1)].popleft()
        return waiting[0].popleft()

    def take_all(self) -> list[ApiCall]:
        """Take all."""
        calls = [job for line in self._queues for job in line]
        for line in self._queues:
            line.clear()
        return calls
