"""The judge of statuses objects to each field that is changed, in worlds at rest where all is true.

The fields are read from the definitions, so that none is forgotten.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from arranger.embedded.server import EmbeddedCluster
from arranger.embedded.virtual_time import virtual_now
from tests.simulation.harnesses.simulation import VIRTUAL_TIME
from tests.simulation.harnesses.status_judge import SCHEDULER, status_faults
from tests.simulation.harnesses.status_judge.gangs import gang_faults
from tests.simulation.jobs.worlds import World as JobWorld
from tests.simulation.statuses.mutations import StatusKind, status_kinds
from tests.simulation.tyjobs.worlds import World as TYJobWorld

pytestmark = VIRTUAL_TIME

Object = dict[str, Any]

#: Who writes the status of a kind.
WRITERS: Final = {
    "gangs": {"gang", SCHEDULER},
    "podgroups": {"gang"},
    "queues": {"queue"},
    "jobs": {"vcjob"},
    "tyjobs": {"tyjob"},
}
#: Kinds that are not in these worlds: where their status is judged.
ELSEWHERE: Final = {"reservations": "tests/unit/engine/reservations"}
#: Objects of a kind whose status is changed, in each world.
OBJECTS: Final = 5

#: Fields that the judge does not read, and why.
UNREAD: Final = {
    "gangs.arranger.io .schedulingCycle": "tries leave no other trace, and it is minutes old",
    "gangs.arranger.io .plannedStart": "tests/unit/engine/gang/test_planned_starts.py judges plans",
    "gangs.arranger.io .startBasis": "as plannedStart",
}
_END = "what was counted at the end stays when pods are removed, and no pod says how many"
_BEFORE = "it says why something happened to pods that are gone"
#: Fields of which some wrong values could be right, by what is there, and what else decides.
PARTLY: Final = {
    "gangs.arranger.io .bundles[].failed": _END,
    "gangs.arranger.io .bundles[].succeeded": _END,
    "gangs.arranger.io .failed": _END,
    "gangs.arranger.io .succeeded": _END,
    "gangs.arranger.io .message": _END,
    "gangs.arranger.io .reason": _END,
    "gangs.arranger.io .phase": "one end is like another once the pods are gone",
    "gangs.arranger.io .resourceSatisfied": "a gang of which some have nodes: had all of them?",
    "gangs.arranger.io .waitingSince": "a gang of which some have nodes may have begun to wait",
    "jobs.batch.volcano.sh .conditions[].lastTransitionTime": "a phase of the past",
    "jobs.batch.volcano.sh .conditions[].status": "a phase of the past",
    "jobs.batch.volcano.sh .controlledResources{}": "pods that were seen and are gone",
    "jobs.batch.volcano.sh .failed": _END,
    "jobs.batch.volcano.sh .succeeded": _END,
    "jobs.batch.volcano.sh .retryCount": "whether a restart was anybody's fault",
    "jobs.batch.volcano.sh .state.message": _BEFORE,
    "jobs.batch.volcano.sh .state.phase": "a phase of the past",
    "jobs.batch.volcano.sh .state.reason": _BEFORE,
    "jobs.batch.volcano.sh .version": "restarts while it restarts leave no other trace",
    "queues.scheduling.volcano.sh .state": "without the annotation a person may have closed it",
    "tyjobs.arranger.io .conditions[].message": _BEFORE,
    "tyjobs.arranger.io .conditions[].reason": _BEFORE,
    "tyjobs.arranger.io .conditions[].status": "of a job that has ended: what was so at the end",
    "tyjobs.arranger.io .message": _BEFORE,
    "tyjobs.arranger.io .reason": _BEFORE,
    "tyjobs.arranger.io .restarts": "of a job that has ended, or whose leader is gone",
    "tyjobs.arranger.io .scheduleState": "of a job that has ended: what was so at the end",
    "tyjobs.arranger.io .stage": "starting or pending again, where some have nodes",
    "tyjobs.arranger.io .startTime": "some time of the past",
    "tyjobs.arranger.io .totalWorkers": "of a job that has ended: what was asked for at the end",
    "tyjobs.arranger.io .succeededWorkers{}": "of workers that are gone",
    "tyjobs.arranger.io .workerRestarts{}": "of workers that are gone",
} | {
    f"podgroups.{group} .{name}": why
    for group in ("scheduling.sigs.k8s.io", "scheduling.x-k8s.io", "scheduling.volcano.sh")
    for name, why in {
        "failed": _END,
        "succeeded": _END,
        "message": _END,
        "reason": _END,
        "phase": "one end is like another once the pods are gone",
        "scheduleStartTime": "the first try, of a pod that may be gone",
    }.items()
}


@dataclass(slots=True)
class Verdicts:
    """Field → how many wrong values were tried, and how many were noticed."""

    tried: Counter[str] = field(default_factory=Counter)
    noticed: Counter[str] = field(default_factory=Counter)

    def judge(self, kind: StatusKind, server: Frozen) -> None:
        """Change every field of some objects of a kind, one by one."""
        writers = WRITERS[kind.plural]
        assert not status_faults(server, server.now, writers)
        for obj in server.objects(kind.plural, kind.group)[-OBJECTS:]:
            true = obj.get("status") or {}
            for name, obj["status"] in kind.mutations(true):
                self.tried[f"{kind} {name}"] += 1
                self.noticed[f"{kind} {name}"] += bool(status_faults(server, server.now, writers))
            obj["status"] = true


@dataclass(slots=True)
class Frozen:
    """What a server had at one moment, of which one status may be exchanged."""

    server: EmbeddedCluster
    now: datetime
    copies: dict[tuple[str, str], list[Object]] = field(default_factory=dict)

    def objects(self, plural: str, group: str = "") -> list[Object]:
        """See the server's."""
        if (plural, group) not in self.copies:
            self.copies[plural, group] = self.server.objects(plural, group)
        return self.copies[plural, group]


async def test_every_field_is_judged() -> None:
    verdicts = Verdicts()
    kinds = [kind for kind in status_kinds() if kind.plural not in ELSEWHERE]
    for world in (JobWorld(0), JobWorld(1), *map(TYJobWorld, range(5))):
        await world.live()
        server = Frozen(world.sim.cluster, virtual_now())
        for kind in kinds:
            if (kind.plural == "tyjobs") == isinstance(world, TYJobWorld):
                verdicts.judge(kind, server)
    fields = {f"{kind} {name}" for kind in kinds for name in kind.fields()}
    assert fields == verdicts.tried.keys(), "fields that no object of these worlds has"
    assert {name for name in fields if not verdicts.noticed[name]} == UNREAD.keys()
    missed = {name for name in fields if verdicts.noticed[name] < verdicts.tried[name]}
    assert missed - UNREAD.keys() <= PARTLY.keys()


@dataclass(slots=True)
class _OnlyAGang:
    """A server that has one Gang, and nothing else."""

    metadata: Object

    def objects(self, plural: str, group: str = "") -> list[Object]:
        """See the server's."""
        return [{"metadata": self.metadata}] if (plural, group) == ("gangs", "arranger.io") else []


def test_a_gang_without_pods_is_right_only_where_a_finalizer_keeps_it() -> None:
    served = frozenset({"gangs.arranger.io"})
    left = {"namespace": "default", "name": "left", "finalizers": ["example.com/keep"]}
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert [*gang_faults(_OnlyAGang(left), served, now)]
    kept = {**left, "deletionTimestamp": "2026-01-01T00:00:00Z"}
    assert not [*gang_faults(_OnlyAGang(kept), served, now)]
