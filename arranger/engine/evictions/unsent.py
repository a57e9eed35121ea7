"""The evictions of a plan that are still to be sent."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field

from arranger.cluster.pod_info import PodInfo
from arranger.engine.context.entity import QueuedPod


@dataclass(slots=True)
class Unsent:
    """Evictions of one plan that follow in later steps.

    Attributes:
        takers: uids of the pods that were nominated by the plan.
        victims: with the nodes that they have to leave, and the seconds that they are given.
    """

    member: QueuedPod
    group: str
    takers: Collection[str]
    victims: deque[tuple[PodInfo, str, float]] = field(default_factory=deque)
