"""Which call is sent next: bindings, then what others wait for, then the rest.

Of one priority, namespaces take turns.

kube-scheduler: ``backend/api_dispatcher/call_queue.go``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from arranger.kube.fair_queue import FairQueue, anyone
from arranger.kube.writes.call import ApiCall, CallPriority

#: While calls of a higher priority wait, one in so many still is of a lower one, in turn.
LOWER_PRIORITY_SHARE: Final = 8


class CallQueue:
    """Calls that wait to be sent; of one priority and namespace, in the order they came in."""

    def __init__(self) -> None:
        self._queues: tuple[FairQueue[ApiCall], ...] = tuple(FairQueue() for _ in CallPriority)
        self._pops = 0

    def __len__(self) -> int:
        return sum(map(len, self._queues))

    def push(self, call: ApiCall) -> None:
        """Queue up behind the others of its priority and namespace."""
        self._queues[call.priority].push(call.namespace, call)

    def push_front(self, call: ApiCall) -> None:
        """Go before the others of its priority and namespace: it has waited already."""
        self._queues[call.priority].push_front(call.namespace, call)

    def waiting_of(self, namespace: str) -> int:
        """How many a namespace has."""
        return sum(queue.waiting_of(namespace) for queue in self._queues)

    def pop(self, may: Callable[[str], bool] = anyone) -> ApiCall | None:
        """Take the call that is to be sent now, of the namespaces that ``may`` send one."""
        waiting = [queue for queue in self._queues if queue]
        turn, remainder = divmod(self._pops + 1, LOWER_PRIORITY_SHARE)
        if len(waiting) > 1 and not remainder:
            lower = waiting.pop(1 + turn % (len(waiting) - 1))
            waiting.insert(0, lower)
        for queue in waiting:
            call = queue.pop_allowed(may)
            if call is not None:
                self._pops += 1
                return call
        return None

    def take_all(self) -> list[ApiCall]:
        """Take all, by priority."""
        return [call for queue in self._queues for call in queue.take_all()]
