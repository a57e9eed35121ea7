"""Objects of the kinds that ``crds/`` defines: good ones with what they become, and bad ones."""

from __future__ import annotations

import json
import pickle
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import yaml

from tests.paths import REPO

Object = dict[str, Any]

CRDS: Final = REPO / "crds"
STAMP: Final = "2026-01-01T00:00:00Z"


def definitions() -> dict[str, Object]:
    """Every definition by the name of its file, which is its own name; to be changed at will."""
    read: dict[str, Object] = pickle.loads(_read())
    return read


@cache
def _read() -> bytes:
    """All of them: to read them as YAML takes a second, and hundreds of tests ask for them."""
    files = sorted(CRDS.glob("*.yaml"))
    return pickle.dumps({file.stem: yaml.safe_load(file.read_text()) for file in files})


@dataclass(frozen=True, slots=True)
class Sample:
    """An object that says all its kind can.

    Attributes:
        crd: the name of its definition.
        spec: what is written.
        added: what the server adds to the spec, by dotted path.
        status: what our writers write.
        cells: what is printed of it, without name and age.
    """

    crd: str
    spec: Object
    added: Object
    status: Object
    cells: list[Any]

    def manifest(self, spec: Object | None = None, name: str = "sample") -> Object:
        """The object as a person writes it."""
        definition = definitions()[self.crd]["spec"]
        return {
            "apiVersion": f"{definition['group']}/{definition['versions'][0]['name']}",
            "kind": definition["names"]["kind"],
            "metadata": {"name": name},
            "spec": self.spec if spec is None else spec,
        }


_POD: Final = {
    "metadata": {"labels": {"app": "a"}},
    "spec": {"containers": [{"name": "main", "image": "pause", "env": [{"name": "A"}]}]},
}
_CONDITION: Final = {
    "type": "Scheduled",
    "status": "True",
    "observedGeneration": 1,
    "lastTransitionTime": STAMP,
    "reason": "Placed",
    "message": "5 of 5 placed",
}
_COMMUNITY: Final[dict[str, Any]] = {
    "spec": {
        "minMember": 5,
        "minResources": {"cpu": "5", "memory": "2048Mi", "nvidia.com/gpu": 5},
        "scheduleTimeoutSeconds": 600,
    },
    "added": {},
    "status": {
        "phase": "PreScheduling",
        "occupiedBy": "default/job",
        "scheduled": 3,
        "running": 2,
        "succeeded": 1,
        "failed": 1,
        "scheduleStartTime": STAMP,
        "reason": "NotEnoughMembers",
        "message": "3/5 members have arrived",
        "conditions": [_CONDITION],
    },
    "cells": [3, 5, "PreScheduling", "NotEnoughMembers", 2, "3/5 members have arrived"],
}
_COUNTS: Final = {
    "members": 6,
    "minMember": 5,
    "placed": 4,
    "bound": 3,
    "running": 2,
    "succeeded": 1,
    "failed": 0,
}
_TOPOLOGY: Final = {"mode": "soft", "highestTierAllowed": 2}
_POLICIES: Final = [
    {"event": "PodEvicted", "action": "RestartJob"},
    {"events": ["PodFailed", "PodPending"], "action": "AbortJob", "timeout": "1h30m"},
    {"exitCode": 3, "action": "TerminateJob"},
]

SAMPLES: Final[dict[str, Sample]] = {
    "the community's PodGroup as Koordinator reads it": Sample(
        "podgroups.scheduling.sigs.k8s.io", **_COMMUNITY
    ),
    "the community's PodGroup": Sample("podgroups.scheduling.x-k8s.io", **_COMMUNITY),
    "a reservation": Sample(
        "reservations.arranger.io",
        spec={
            "nodes": {"selector": {"matchLabels": {"zone": "z1"}}, "count": 3},
            "window": {
                "start": STAMP,
                "duration": "2h",
                "recurrence": {"days": ["Monday", "Friday"]},
            },
            "users": {"queues": ["research"]},
        },
        added={
            "maintenance": False,
            "evict": False,
            "drainBefore": "1h",
            "window.recurrence.timeZone": "UTC",
        },
        status={"phase": "Active", "nodes": 3, "start": STAMP, "end": STAMP, "message": "none"},
        cells=["Active", 3, STAMP, STAMP, False, "none"],
    ),
    "a reservation of cards": Sample(
        "reservations.arranger.io",
        spec={
            "nodes": {"cards": {"A100": 16}, "resources": {"cpu": "500m", "memory": 7}},
            "window": {"start": STAMP, "duration": "2h"},
            "maintenance": True,
            "evict": True,
        },
        added={"drainBefore": "1h"},
        status={"phase": "Pending", "message": "its nodes offer 8 of 16 A100"},
        cells=["Pending", None, None, None, True, "its nodes offer 8 of 16 A100"],
    ),
    "a reservation of parts of nodes": Sample(
        "reservations.arranger.io",
        spec={
            "nodes": {"names": ["n"], "perNode": {"nvidia.com/gpu": 4, "memory": "1Gi"}},
            "window": {"start": STAMP, "duration": "2h"},
            "users": {"gangs": ["here/gang"]},
        },
        added={"maintenance": False, "evict": False, "drainBefore": "1h"},
        status={"phase": "Pending", "nodes": 1},
        cells=["Pending", 1, None, None, False, None],
    ),
    "a gang with bundles": Sample(
        "gangs.arranger.io",
        spec={
            "group": ["here/gang", "there/other.gang"],
            "bundles": [{"name": "", "minMember": 1}, {"name": "worker", "minMember": 4}],
            "topology": {"key": "topology.kubernetes.io/zone"},
            "source": "gang.koordinater.io",
        },
        added={
            "mode": "Strict",
            "matchPolicy": "once-satisfied",
            "topology.required": False,
        },
        status={
            **_COUNTS,
            "phase": "Scheduling",
            "bundles": [{"name": "", **_COUNTS}, {"name": "worker", **_COUNTS}],
            "resourceSatisfied": False,
            "schedulingCycle": 7,
            "waitingSince": STAMP,
            "plannedStart": STAMP,
            "startBasis": "KnownEnds",
            "reason": "Waiting",
            "message": "4/5 members placed",
            "conditions": [_CONDITION],
        },
        cells=[
            *(4, 5, "Scheduling", "Waiting", 6, 2, 7),
            *(STAMP, "KnownEnds", "gang.koordinater.io", "4/5 members placed"),
        ],
    ),
    "Volcano's PodGroup": Sample(
        "podgroups.scheduling.volcano.sh",
        spec={
            "minMember": 2,
            "minTaskMember": {"master": 1, "worker": 1},
            "priorityClassName": "pc-high",
            "minResources": {"cpu": 2, "memory": "4Gi"},
            "networkTopology": {"highestTierName": "rack"},
            "subGroupPolicy": [
                {
                    "name": "parts",
                    "networkTopology": _TOPOLOGY,
                    "labelSelector": {
                        "matchLabels": {"a": "b"},
                        "matchExpressions": [{"key": "c", "operator": "In", "values": ["d"]}],
                    },
                    "matchLabelKeys": ["part"],
                }
            ],
        },
        added={
            "queue": "default",
            "networkTopology.mode": "hard",
            "subGroupPolicy.0.subGroupSize": 1,
            "subGroupPolicy.0.minSubGroups": 0,
        },
        status={
            "phase": "Inqueue",
            "running": 1,
            "succeeded": 0,
            "failed": 0,
            "conditions": [
                {
                    "type": "Unschedulable",
                    "status": "True",
                    "transitionID": "7",
                    "lastTransitionTime": STAMP,
                    "reason": "NotEnoughResources",
                    "message": "1/2 tasks in gang unschedulable",
                }
            ],
        },
        cells=["Inqueue", 2, 1, "default", "pc-high", "1/2 tasks in gang unschedulable"],
    ),
    "a queue": Sample(
        "queues.scheduling.volcano.sh",
        spec={
            "capability": {"cpu": 4, "memory": "4Gi"},
            "deserved": {"cpu": "2500m"},
            "guarantee": {"resource": {"cpu": "1"}},
            "parent": "root",
            "namespaceSelector": {
                "matchLabels": {"team": "ml"},
                "matchExpressions": [{"key": "tier", "operator": "In", "values": ["a", "b"]}],
            },
            "serviceTypes": ["training"],
            "maxPriority": 1000,
            "type": "plain",
            "affinity": {
                "nodeGroupAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": ["a"]},
                "nodeGroupAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": ["b"]},
            },
            "extendClusters": [{"name": "far", "weight": 1, "capacity": {"cpu": "1e3"}}],
            "dra": {"capability": {"gpu": {"count": 8, "capacity": {"memory": "80Gi"}}}},
        },
        added={"weight": 1, "priority": 0, "reclaimable": True, "dequeueStrategy": "traverse"},
        status={
            "state": "Open",
            "allocated": {"cpu": "2", "memory": "1Gi"},
            "unknown": 0,
            "pending": 3,
            "running": 2,
            "inqueue": 1,
            "completed": 4,
            "reservation": {"nodes": ["n"], "resource": {"cpu": "1"}},
            "cards": {"NVIDIA-GeForce-RTX-4090": {"allocated": 6, "quota": 8}},
            "usage": {"cpu": "2/4", "memory": "1Gi/4Gi", "cards": "NVIDIA-GeForce-RTX-4090 6/8"},
            "conditions": [_CONDITION],
        },
        cells=[
            1,
            0,
            "Open",
            "2/4",
            "1Gi/4Gi",
            "NVIDIA-GeForce-RTX-4090 6/8",
            3,
            2,
            True,
            "root",
        ],
    ),
    "Volcano's job": Sample(
        "jobs.batch.volcano.sh",
        spec={
            "schedulerName": "arranger",
            "minAvailable": 2,
            "minSuccess": 1,
            "tasks": [
                {
                    "name": "worker",
                    "minAvailable": 1,
                    "template": _POD,
                    "policies": _POLICIES,
                    "topologyPolicy": "best-effort",
                    "dependsOn": {"name": ["master"], "iteration": "any"},
                    "partitionPolicy": {
                        "totalPartitions": 1,
                        "partitionSize": 1,
                        "networkTopology": _TOPOLOGY,
                    },
                },
                {"name": "master", "replicas": 1, "template": _POD},
            ],
            "policies": _POLICIES,
            "plugins": {"env": [], "svc": ["--publish-not-ready-addresses"]},
            "volumes": [
                {"mountPath": "/a", "volumeClaimName": "a"},
                {"mountPath": "/b", "volumeClaim": {"accessModes": ["ReadWriteOnce"]}},
            ],
            "priorityClassName": "pc-low",
            "ttlSecondsAfterFinished": 0,
            "runningEstimate": "1.5h",
            "networkTopology": _TOPOLOGY,
        },
        added={
            "queue": "default",
            "maxRetry": 3,
            "tasks.0.replicas": 1,
            "tasks.0.maxRetry": 3,
            "tasks.0.partitionPolicy.minPartitions": 0,
            "tasks.1.maxRetry": 3,
        },
        status={
            "state": {
                "phase": "Running",
                "reason": "EnoughPods",
                "message": "2 of 2 run",
                "lastTransitionTime": STAMP,
            },
            "minAvailable": 2,
            "pending": 0,
            "running": 2,
            "succeeded": 1,
            "failed": 4,
            "terminating": 0,
            "unknown": 0,
            "taskStatusCount": {"worker": {"phase": {"Running": 2}}},
            "version": 3,
            "retryCount": 1,
            "runningDuration": "12.5s",
            "controlledResources": {"plugin-svc": "svc"},
            "conditions": [{"status": "Pending", "lastTransitionTime": STAMP}],
        },
        cells=["Running", 2, 2, "EnoughPods", "default", 1, 4, 1, "2 of 2 run"],
    ),
    "a TYJob that says little": Sample(
        "tyjobs.arranger.io",
        spec={
            "leader": {"name": "learner", "template": _POD},
            "workerSets": [{"name": "actor", "template": _POD}],
        },
        added={
            "restartLimit": 3,
            "cleanPodPolicy": "All",
            "terminating": False,
            "minWorkersNum": 1,
            "priority": 5,
            "queue": "default",
            "schedulerPolicy": {"basicPolicy": ["Gang", "BinPack"]},
            "workerSets.0.counts": 1,
        },
        status={
            "stage": "Rescheduling",
            "scheduleState": "ScheduledPartly",
            "restarts": 2,
            "workerRestarts": {"job-actor-0": 1},
            "leaderAddress": "10.0.0.1",
            "totalWorkers": 4,
            "readyWorkers": 3,
            "allocations": [{"pod": "job-learner-0", "node": "n"}],
            "startTime": STAMP,
            "completionTime": STAMP,
            "reason": "NodeLost",
            "message": "node n is gone",
            "conditions": [_CONDITION],
        },
        cells=[
            "Rescheduling",
            "ScheduledPartly",
            3,
            4,
            2,
            "NodeLost",
            "10.0.0.1",
            5,
            "default",
            "node n is gone",
        ],
    ),
    "a TYJob that says all": Sample(
        "tyjobs.arranger.io",
        spec={
            "restartLimit": 0,
            "volumes": [{"name": "data", "emptyDir": {"medium": "Memory"}}],
            "leader": {"name": "learner", "template": _POD},
            "workerSets": [
                {"name": "fast", "template": _POD, "counts": 3},
                {"name": "slow", "template": _POD, "counts": 2},
            ],
            "cleanPodPolicy": "None",
            "terminating": True,
            "minWorkersNum": 4,
            "priority": 10,
            "queue": "training",
            "schedulingTimeoutSeconds": 300,
            "schedulerPolicy": {"jobQueuePolicy": "DRF", "basicPolicy": "MinFragment"},
        },
        added={},
        status={"stage": "Failed", "scheduleState": "ScheduledFailed"},
        cells=["Failed", "ScheduledFailed", None, None, None, None, None, 10, "training", None],
    ),
}


def expected_spec(sample: Sample) -> Object:
    """The spec as the server keeps it: what is written, and the defaults."""
    return changed(sample.spec, sample.added)


def changed(spec: Object, changes: Object) -> Object:
    """A copy with other values at dotted paths; ``...`` takes a field away."""
    # Not deepcopy: it would keep what parts of the samples share.
    copy: Object = json.loads(json.dumps(spec))
    for path, value in changes.items():
        at: Any = copy
        *parents, last = path.split(".")
        for part in parents:
            at = at[int(part)] if isinstance(at, list) else at[part]
        if value is ...:
            del at[last]
        else:
            at[last] = value
    return copy
