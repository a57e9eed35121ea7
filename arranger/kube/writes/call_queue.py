"""Who is sent next: bindings, then what others wait for, then what tells people why they wait."""

from __future__ import annotations

from collections import deque
from enum import IntEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from arranger.kube.writes.call import Job

#: While the more urgent wait, one in so many still goes to the others in turn.
OTHERS_SHARE: Final = 8


class Urgency(IntEnum):
    """How soon a write is sent, the smallest first.

    A pod that gets its node at once need not be told first that it waits: the longer such a patch
    waits behind the deletes, the more of them are void before they are sent.
    """

    BINDING = 0
    #: Evictions, and what is written of volumes and claims before a binding.
    NEEDED = 1
    REST = 2


class Lines:
    """Jobs that wait to be sent, in the order they came among those of one urgency."""

    def __init__(self) -> None:
        self._lines: tuple[deque[Job], ...] = tuple(deque() for _ in Urgency)
        self._turn = 0

    def __len__(self) -> int:
        return sum(map(len, self._lines))

    def join(self, job: Job) -> None:
        """Queue up behind the others."""
        self._lines[job.urgency].append(job)

    def join_in_front(self, job: Job) -> None:
        """Go before the others: it has waited already, and others may depend on it."""
        self._lines[job.urgency].appendleft(job)

    def next(self) -> Job | None:
        """Take the job that is to be sent now, if there is any."""
        waiting = [line for line in self._lines if line]
        if not waiting:
            return None
        self._turn += 1
        turn, is_theirs = divmod(self._turn, OTHERS_SHARE)
        if len(waiting) > 1 and not is_theirs:
            return waiting[1 + turn % (len(waiting) - 1)].popleft()
        return waiting[0].popleft()

    def clear(self) -> list[Job]:
        """Take all."""
        jobs = [job for line in self._lines for job in line]
        for line in self._lines:
            line.clear()
        return jobs
