"""What the status of Gangs, PodGroups, Queues and Jobs must say, given the pods and the objects.

Plain functions of what the API server has, written from the guides and the definitions in
``crds/``; they read nothing of the controllers' code or memory. What only the past can tell (that
a gang has ended, which pods of a job have succeeded) is taken from the status itself.
"""

from __future__ import annotations

from arranger.embedded.server import EmbeddedCluster
from tests.simulation.harnesses.status_judge.gangs import gang_faults
from tests.simulation.harnesses.status_judge.jobs import job_faults
from tests.simulation.harnesses.status_judge.queues import queue_faults

__all__ = ["status_faults"]


def status_faults(
    cluster: EmbeddedCluster, *, served: frozenset[str] = frozenset(), queues: bool = True
) -> list[str]:
    """What is untrue in any status; empty where all is true.

    Args:
        served: API groups whose PodGroups controllers look after.
        queues: whether there are controllers of Queues.
    """
    faults = [*gang_faults(cluster, served), *job_faults(cluster)]
    return [*faults, *(queue_faults(cluster) if queues else ())]
