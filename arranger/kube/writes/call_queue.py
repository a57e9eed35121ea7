"""Which call is sent next: bindings, then what others wait for, then the rest.

kube-scheduler: ``backend/api_dispatcher/call_queue.go``.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from arranger.kube.writes.call import ApiCall, CallPriority

#: While calls of a higher priority wait, one in so many still is of a lower one, in turn.
LOWER_PRIORITY_SHARE: Final = 8


class CallQueue:
    """Calls that wait to be sent; of one priority, in the order in which they came."""

    def __init__(self) -> None:
        self._queues: tuple[deque[ApiCall], ...] = tuple(deque() for _ in CallPriority)
        self._pops = 0

    def __len__(self) -> int:
        return sum(map(len, self._queues))

    def push(self, call: ApiCall) -> None:
        """Queue up behind the others of its priority."""
        self._queues[call.priority].append(call)

    def push_front(self, call: ApiCall) -> None:
        """Go before the others of its priority: it has waited already."""
        self._queues[call.priority].appendleft(call)

    def pop(self) -> ApiCall | None:
        """Take the call that is to be sent now, if there is any."""
        waiting = [queue for queue in self._queues if queue]
        if not waiting:
            return None
        self._pops += 1
        turn, remainder = divmod(self._pops, LOWER_PRIORITY_SHARE)
        if len(waiting) > 1 and not remainder:
            return waiting[1 + turn % (len(waiting) - 1)].popleft()
        return waiting[0].popleft()

    def take_all(self) -> list[ApiCall]:
        """Take all, by priority."""
        calls = [call for queue in self._queues for call in queue]
        for queue in self._queues:
            queue.clear()
        return calls
