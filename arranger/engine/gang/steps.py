"""Work on a gang group that goes on in several steps, and what its parts cost."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Final, TypeVar

from arranger.engine.context.entity import QueuedPod
from arranger.engine.pod.schedule_result import PermitWait

T = TypeVar("T")

#: Units of :mod:`~arranger.cluster.attempt_work` for a member that gets a node.
PLACING: Final = 100
#: Units to tell why a member gets none, however few the nodes are.
EXPLAINING: Final = 300
#: Rows that are judged for a class of pods in one unit.
ROWS_PER_UNIT: Final = 10

#: Work that yields wherever it may be left: the members that have got nodes so far and their
#: Permit plugins' answers, in this order.
Steps = Generator[Sequence[tuple[QueuedPod, PermitWait | None]], None, T]


def at_once(steps: Generator[object, None, T]) -> T:
    """All steps, one after the other."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
