"""Who goes first: the order of victims on a node, and of nodes by their victims."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from arranger.cluster.pod_info import PodInfo

#: What upstream adds to every priority so that more victims never count as less.
_OFFSET = 2**31


def started(pod: PodInfo) -> float:
    """When a pod started, in seconds since 1970; one that has not counts as the youngest."""
    at = pod.pod.status.start_time
    return at.timestamp() if at is not None else float("inf")


def importance(pod: PodInfo) -> tuple[int, float]:
    """Sorts the most important first: by priority, then by age."""
    return -pod.priority, started(pod)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node and who must leave it.

    Attributes:
        row: the node.
        victims: the most important first.
        violations: how many of them a disruption budget protects.
    """

    row: int
    victims: tuple[PodInfo, ...]
    violations: int

    def cost(self) -> tuple[int, int, int, int, float]:
        """What it would cost, least first.

        Budget violations, the highest priority among the victims, the sum of priorities, the number
        of victims, and the later the oldest of the most important started, the better
        (``pickOneNodeForPreemption``).
        """
        top = self.victims[0].priority
        oldest = min(started(pod) for pod in self.victims if pod.priority == top)
        total = sum(pod.priority + _OFFSET for pod in self.victims)
        return self.violations, top, total, len(self.victims), -oldest


def cheapest(candidates: Iterable[Candidate]) -> Candidate | None:
    """The candidate of the least cost, the lowest row of equals."""
    return min(candidates, key=lambda c: (*c.cost(), c.row), default=None)


def in_order(victims: Iterable[PodInfo]) -> Sequence[PodInfo]:
    """The most important first."""
    return sorted(victims, key=importance)
