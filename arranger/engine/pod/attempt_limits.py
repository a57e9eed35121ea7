"""What an attempt may spend on work that can be put off to its next step."""

from __future__ import annotations

from typing import Final

from arranger.cluster.affinity_terms import NO_TERMS
from arranger.cluster.pod_info import PodInfo
from arranger.engine.context.entity import QueuedPod

#: Units of one step: some 20 milliseconds.
MAX_WORK: Final = 20_000
#: Nodes by name that an extender is told of, or tells of, in one unit.
NAMES_PER_UNIT: Final = 2
#: After so many steps there are twice as many units, for what is looked at may change as fast.
_MANY_STEPS: Final = 512


def most_work(member: QueuedPod) -> int:
    """What the next step of an attempt to place a pod may spend."""
    entity = member.entity
    return MAX_WORK if entity is None else work_of_step(entity.slices)


def work_of_step(taken: int) -> int:
    """What the step may spend that follows so many others."""
    return MAX_WORK << min(taken // _MANY_STEPS, 10)


def looks_at_pods(pod: PodInfo) -> bool:
    """Whether a pod asks where others are."""
    return pod.affinity_terms is not NO_TERMS or bool(pod.pod.spec.topology_spread_constraints)
