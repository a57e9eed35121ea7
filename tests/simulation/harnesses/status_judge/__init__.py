"""What every status must say, given the pods and the objects.

Plain functions of what the API server has, written from the guides and the definitions in
``crds/``; they read nothing of the controllers' code or memory. What only the past can tell (that
a gang has ended, which pods of a job have succeeded) is taken from the status itself.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from datetime import datetime

from tests.simulation.harnesses.status_judge.fields import Object, Server
from tests.simulation.harnesses.status_judge.gangs import gang_faults, scheduler_faults
from tests.simulation.harnesses.status_judge.jobs import job_faults
from tests.simulation.harnesses.status_judge.queues import queue_faults
from tests.simulation.harnesses.status_judge.tyjobs import tyjob_faults

__all__ = ["CONTROLLERS", "SCHEDULER", "status_faults"]

SCHEDULER = "scheduler"
#: Who writes a status, but for the scheduler.
CONTROLLERS = frozenset({"gang", "queue", "vcjob", "tyjob"})


def status_faults(cluster: Server, now: datetime, writers: Set[str] = CONTROLLERS) -> list[str]:
    """What is untrue in any status that somebody looks after; empty where all is true.

    Args:
        writers: of :data:`CONTROLLERS` and :data:`SCHEDULER`, who is at work.
    """
    cluster = _ServedOnly(cluster)
    definitions = cluster.objects("customresourcedefinitions", "apiextensions.k8s.io")
    served = frozenset(definition["metadata"]["name"] for definition in definitions)
    faults: list[str] = []
    if "gang" in writers:
        faults += gang_faults(cluster, served, now)
    if SCHEDULER in writers and "gangs.arranger.io" in served:
        faults += scheduler_faults(cluster, now, lasting="gang" in writers)
    if "vcjob" in writers and "jobs.batch.volcano.sh" in served:
        faults += job_faults(cluster, now)
    if "queue" in writers and "queues.scheduling.volcano.sh" in served:
        faults += queue_faults(cluster, now)
    if "tyjob" in writers and "tyjobs.arranger.io" in served:
        faults += tyjob_faults(cluster, now)
    return faults


@dataclass(frozen=True, slots=True)
class _ServedOnly:
    """A server that has no objects of what it does not serve."""

    server: Server

    def objects(self, plural: str, group: str = "") -> list[Object]:
        try:
            return self.server.objects(plural, group)
        except KeyError:
            return []
