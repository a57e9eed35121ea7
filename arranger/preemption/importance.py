"""Who goes first: the order of victims on a node, and of nodes by their victims."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from arranger.cluster.pod_info import PodInfo
from arranger.framework.runtime.dry_run import Weight, priority

#: What upstream adds to every priority so that more victims never count as less.
_OFFSET = 2**31


def started(pod: PodInfo) -> float:
    """When a pod started, in seconds since 1970; one that has not counts as the youngest."""
    at = pod.pod.status.start_time
    return at.timestamp() if at is not None else float("inf")


def in_order(victims: Iterable[PodInfo], weight: Weight = priority) -> list[PodInfo]:
    """The most important first: by weight, then by age."""
    return sorted(victims, key=lambda pod: (-weight(pod), started(pod)))


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node and who must leave it.

    Attributes:
        row: the node.
        victims: the most important first.
        violations: how many of them a disruption budget protects.
        weight: how important each is.
    """

    row: int
    victims: tuple[PodInfo, ...]
    violations: int
    weight: Weight = priority

    def cost(self) -> tuple[int, int, int, int, float]:
        """What it would cost, least first.

        Budget violations, the highest priority among the victims, the sum of priorities, the number
        of victims, and the later the oldest of the most important started, the better
        (``pickOneNodeForPreemption``).
        """
        weights = [self.weight(pod) for pod in self.victims]
        top = weights[0]
        pairs = zip(self.victims, weights, strict=True)
        oldest = min(started(pod) for pod, weight in pairs if weight == top)
        total = sum(weight + _OFFSET for weight in weights)
        return self.violations, top, total, len(self.victims), -oldest
