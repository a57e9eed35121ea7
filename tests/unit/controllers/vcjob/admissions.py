"""Jobs that Volcano's webhook refuses or takes, by the scenarios of its own tests.

The validation of the controller judges them here, and in ``tests/controlplane`` the definitions
and policies that we ship, on the real API server.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

Object = dict[str, Any]

CONTAINER: Final[Object] = {"name": "c", "image": "img", "resources": {"requests": {"cpu": "1"}}}
ABORT: Final = "AbortJob"


@dataclass(frozen=True, slots=True)
class Admission:
    """A Job, and who refuses it.

    Attributes:
        spec: what differs from a sound spec of one task.
        task: what differs from its task.
        pod: what differs in the task's pods.
        refused: whether Volcano refuses it at admission, and so do we.
        left: whether our controller takes it nevertheless, where no policy is installed: because it
            can do something sensible, or because the API server refuses its pods.
    """

    refused: bool
    spec: Mapping[str, Any] = field(default_factory=dict)
    task: Mapping[str, Any] = field(default_factory=dict)
    pod: Mapping[str, Any] = field(default_factory=dict)
    name: str = "j"
    left: bool = False

    def manifest(self) -> Object:
        """The Job as somebody writes it."""
        pod = {"restartPolicy": "Never", "containers": [CONTAINER], **self.pod}
        task = {"name": "w", "replicas": 2, "template": {"spec": pod}, **self.task}
        return {
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "Job",
            "metadata": {"name": self.name, "namespace": "default"},
            "spec": {"tasks": [task], **self.spec},
        }


def _task(name: str, *after: str, **more: Any) -> Object:
    depends = {"dependsOn": {"name": list(after)}} if after else {}
    template = {"spec": {"restartPolicy": "Never", "containers": [CONTAINER]}}
    return {"name": name, "replicas": 1, "template": template, **depends, **more}


def _policies(*policies: Object) -> Object:
    return {"policies": [{"action": ABORT, **policy} for policy in policies]}


def _partitions(total: int, size: int, **more: int) -> Object:
    return {"partitionPolicy": {"totalPartitions": total, "partitionSize": size, **more}}


_BOTH_TIERS: Final = {"highestTierAllowed": 1, "highestTierName": "rack"}

JOBS: Final[dict[str, Admission]] = {
    "a sound job": Admission(False),
    "with policies of several events and codes": Admission(
        False,
        _policies({"event": "PodFailed"}, {"events": ["PodEvicted", "Unknown"]}, {"exitCode": 3}),
    ),
    "the same event for the job and for a task": Admission(
        False, _policies({"event": "PodFailed"}), _policies({"event": "PodFailed"})
    ),
    "an event twice in one policy": Admission(
        False, _policies({"event": "PodFailed", "events": ["PodFailed"]})
    ),
    "the event of an updated job": Admission(False, _policies({"event": "JobUpdated"})),
    "any event beside exit codes": Admission(False, _policies({"event": "*"}, {"exitCode": 3})),
    # --- tasks
    "no tasks": Admission(True, {"tasks": []}),
    "two tasks of one name": Admission(True, {"tasks": [_task("w"), _task("w")]}),
    "a task whose name is no label": Admission(True, task={"name": "Invalid_Name"}),
    "a negative number of pods": Admission(True, task={"replicas": -1}),
    "a negative minimum": Admission(True, {"minAvailable": -1}),
    "a negative minimum of a task": Admission(True, task={"minAvailable": -1}),
    "a minimum beyond the pods": Admission(True, {"minAvailable": 3}),
    "a task's minimum beyond its pods": Admission(True, task={"minAvailable": 3}),
    "a negative number of retries": Admission(True, {"maxRetry": -1}),
    "a negative time to live": Admission(True, {"ttlSecondsAfterFinished": -1}),
    # --- policies
    "an event in two policies": Admission(
        True, _policies({"event": "PodFailed"}, {"event": "PodFailed", "action": "RestartJob"})
    ),
    "an event in two policies of a task": Admission(
        True, task=_policies({"event": "PodFailed"}, {"events": ["PodEvicted", "PodFailed"]})
    ),
    "any event beside another": Admission(True, _policies({"event": "*"}, {"event": "PodFailed"})),
    "any event beside another in one policy": Admission(
        True, _policies({"events": ["*", "PodFailed"]})
    ),
    "any event beside another for a task": Admission(
        True, task=_policies({"event": "PodFailed"}, {"event": "*"})
    ),
    "any event twice": Admission(True, _policies({"event": "*"}, {"events": ["*"]})),
    "an exit code in two policies": Admission(True, _policies({"exitCode": 1}, {"exitCode": 1})),
    "an event and an exit code": Admission(True, _policies({"event": "PodFailed", "exitCode": 1})),
    "neither event nor exit code": Admission(True, _policies({})),
    "the exit code of success": Admission(True, _policies({"exitCode": 0})),
    "an unknown event": Admission(True, _policies({"event": "Bored"})),
    "an event of the controller's own": Admission(True, _policies({"event": "OutOfSync"})),
    "a running pod is no event": Admission(True, _policies({"event": "PodRunning"}), left=True),
    "an unknown action": Admission(True, _policies({"event": "PodFailed", "action": "Explode"})),
    "an action of the controller's own": Admission(
        True, _policies({"event": "PodFailed", "action": "EnqueueJob"})
    ),
    # --- plugins
    "the plugins we have": Admission(False, {"plugins": {"env": [], "svc": []}}),
    "an unknown plugin": Admission(True, {"plugins": {"big_plugin": []}}),
    "MPI without a master": Admission(True, {"plugins": {"mpi": ["--master=m"]}}),
    # --- volumes
    "a claim that exists": Admission(
        False, {"volumes": [{"mountPath": "/a", "volumeClaimName": "a"}]}
    ),
    "a claim to be made": Admission(
        False, {"volumes": [{"mountPath": "/a", "volumeClaim": {"accessModes": ["ReadWriteOnce"]}}]}
    ),
    "a volume without a path": Admission(
        True, {"volumes": [{"mountPath": "", "volumeClaimName": "a"}]}, left=True
    ),
    "two volumes of one path": Admission(
        True,
        {
            "volumes": [
                {"mountPath": "/a", "volumeClaimName": "a"},
                {"mountPath": "/a", "volumeClaimName": "b"},
            ]
        },
    ),
    "a volume without a claim": Admission(True, {"volumes": [{"mountPath": "/a"}]}, left=True),
    "a claim that exists and is to be made": Admission(
        True,
        {"volumes": [{"mountPath": "/a", "volumeClaimName": "a", "volumeClaim": {}}]},
        left=True,
    ),
    # --- names and templates
    "a long name that fits": Admission(False, name="j" * 59),
    "a name that is too long for its pods": Admission(True, name="j" * 60),
    "a name that is too long": Admission(True, name="j" * 64),
    "a container without an image": Admission(True, pod={"containers": [{"name": "c"}]}, left=True),
    "an init container without an image": Admission(
        True, pod={"initContainers": [{"name": "i"}]}, left=True
    ),
    "two containers of one name": Admission(
        True, pod={"containers": [CONTAINER, CONTAINER]}, left=True
    ),
    "an unknown restartPolicy": Admission(True, pod={"restartPolicy": "Sometimes"}, left=True),
    "privileged containers": Admission(
        False, pod={"containers": [{**CONTAINER, "securityContext": {"privileged": True}}]}
    ),
    # --- dependencies
    "a task after another": Admission(False, {"tasks": [_task("a"), _task("b", "a")]}),
    "tasks after each other": Admission(True, {"tasks": [_task("a", "b"), _task("b", "a")]}),
    "a task after itself": Admission(True, {"tasks": [_task("a", "a")]}),
    "a task after one that is not there": Admission(True, {"tasks": [_task("a", "z")]}),
    # --- parts and topology, which we do not use
    "parts that make up a task": Admission(False, task=_partitions(2, 1)),
    "parts that do not": Admission(True, task=_partitions(2, 2), left=True),
    "parts of no pods": Admission(True, task=_partitions(2, 0), left=True),
    "no parts": Admission(True, task=_partitions(0, 2), left=True),
    "least parts that are the minimum": Admission(
        False, task={**_partitions(2, 1, minPartitions=1), "minAvailable": 1}
    ),
    "least parts that are not the minimum": Admission(
        True, task={**_partitions(2, 1, minPartitions=2), "minAvailable": 1}, left=True
    ),
    "a tier by its name": Admission(False, {"networkTopology": {"highestTierName": "rack"}}),
    "a tier by name and number": Admission(True, {"networkTopology": _BOTH_TIERS}, left=True),
    "a part's tier by name and number": Admission(
        True,
        task={
            "partitionPolicy": {"totalPartitions": 2, "partitionSize": 1}
            | {"networkTopology": _BOTH_TIERS}
        },
        left=True,
    ),
    "whole cpus for a NUMA node": Admission(False, task={"topologyPolicy": "single-numa-node"}),
    "parts of cpus for a NUMA node": Admission(
        True,
        task={"topologyPolicy": "best-effort"},
        pod={
            "containers": [
                {"name": "c", "image": "img", "resources": {"requests": {"cpu": "500m"}}}
            ]
        },
        left=True,
    ),
}
