"""What a controller sees of the TYJob ``default/job``, put together in a word or two."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from arranger.api.annotations import SPEC_HASH
from arranger.api.types.core import ObjectMeta
from arranger.api.types.tyjob import (
    Replica,
    TYJob,
    TYJobPod,
    parse_tyjob,
)
from arranger.controllers.tyjob import manifests
from arranger.controllers.tyjob.leader_objects import LeaderService, LeaderServiceSpec, ServicePort
from arranger.controllers.tyjob.observed_state import ObservedState, Refusal
from tests.tyjobs import a_tyjob

Object = dict[str, Any]

LEADER, FIRST, SECOND = "job-learner-0", "job-actor-0", "job-actor-1"
NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
#: The leader's uid: that of its pod, which is made the first time.
LEADER_UID = f"uid-{LEADER}-0"


#: The Service of a job whose leader names no port.
SERVICE = LeaderService(
    ObjectMeta(name="job"), LeaderServiceSpec([ServicePort(manifests.MASTER_PORT)])
)


def refused(why: str, generation: int = 0) -> Refusal:
    """What the server has refused."""
    return Refusal(why, generation)


def a_replica_pod(job: TYJob, replica: Replica, *, leader: str = "", restarts: int = 0) -> Object:
    """A pod as it would be created."""
    port = manifests.master_port(job, None)
    return manifests.pod(
        job, replica, scheduler="arranger", port=port, leader=leader, restarts=restarts
    )


def a_job(status: Object | None = None, *, generation: int = 0, **words: Any) -> TYJob:
    """The job, with a leader and two workers of which one must run."""
    body = a_tyjob(**words)
    body["metadata"] |= {"uid": "uid-job", "resourceVersion": "1", "generation": generation}
    return parse_tyjob({**body, "status": status or {}})


def observed_pod(
    job: TYJob, name: str, *, leader: str = LEADER_UID, restarts: int = 0, **more: Any
) -> TYJobPod:
    """A pod of the job as the server shows it.

    Args:
        more: ``node``, ``phase``, ``ready``, ``ip``, ``leaving`` (RFC 3339), ``grace``
            (seconds), ``conditions``, ``containers`` (statuses), ``reason``, ``message``, ``made``
            (RFC 3339), ``notes`` (annotations), ``labels``, ``nominated``, ``hash``,
            ``finalizers``.
    """
    place = next(place for place in job.replicas if place.pod == name)
    made = a_replica_pod(job, place, leader=leader, restarts=restarts)
    made["metadata"] |= {"uid": f"uid-{name}-{restarts}", "resourceVersion": "1"}
    made["metadata"]["annotations"] |= more.get("notes", {})
    if "hash" in more:
        made["metadata"]["annotations"][SPEC_HASH] = more["hash"]
    if "made" in more:
        made["metadata"]["creationTimestamp"] = more["made"]
    if "leaving" in more:
        made["metadata"]["deletionTimestamp"] = more["leaving"]
        made["metadata"]["deletionGracePeriodSeconds"] = more.get("grace", 0)
    made["metadata"]["finalizers"] = more.get("finalizers", [])
    conditions = list(more.get("conditions", ()))
    if more.get("ready"):
        conditions.append({"type": "Ready", "status": "True"})
    labels = made["metadata"]["labels"]
    labels |= more.get("labels", {})
    node = more.get("node", "n1" if more.get("phase") or more.get("ready") else "")
    status = {
        "phase": more.get("phase") or ("Running" if more.get("ready") else "Pending"),
        "nominatedNodeName": more.get("nominated", ""),
        "podIP": more.get("ip", "10.0.0.1" if more.get("ready") else ""),
        "reason": more.get("reason", ""),
        "message": more.get("message", ""),
        "conditions": conditions,
        "containerStatuses": more.get("containers", []),
    }
    return msgspec.convert(
        {"metadata": made["metadata"], "spec": {"nodeName": node}, "status": status},
        TYJobPod,
        strict=False,
    )


def observed_state(*pods: TYJobPod, **more: Any) -> ObservedState:
    """Pods and what goes with them: by default the Service, and no ConfigMap."""
    return ObservedState({pod.metadata.name: pod for pod in pods}, **{"service": SERVICE, **more})
