"""What a controller sees of the TYJob ``default/job``, put together in a word or two."""

from __future__ import annotations

from typing import Any

import msgspec

from arranger.api.types.tyjob import TYJob, TYJobPod, parse_tyjob
from arranger.controllers.tyjob import manifests
from arranger.controllers.tyjob.observed_state import ObservedState
from tests.tyjobs import a_tyjob

Object = dict[str, Any]

LEADER, FIRST, SECOND = "job-learner-0", "job-actor-0", "job-actor-1"
#: The leader's uid: that of its pod, which is made the first time.
LEADER_UID = f"uid-{LEADER}-0"


def a_job(status: Object | None = None, **words: Any) -> TYJob:
    """The job, with a leader and two workers of which one must run."""
    body = a_tyjob(**words)
    body["metadata"] |= {"uid": "uid-job", "resourceVersion": "1"}
    return parse_tyjob({**body, "status": status or {}})


def observed_pod(
    job: TYJob, name: str, *, leader: str = LEADER_UID, restarts: int = 0, **more: Any
) -> TYJobPod:
    """A pod of the job as the server shows it.

    Args:
        more: ``node``, ``phase``, ``ready``, ``ip``, ``leaving`` (RFC 3339), ``conditions``,
            ``containers`` (statuses), ``reason``, ``notes`` (annotations).
    """
    place = next(place for place in job.replicas if place.pod == name)
    made = manifests.pod(job, place, scheduler="arranger", leader=leader, restarts=restarts)
    made["metadata"] |= {"uid": f"uid-{name}-{restarts}", "resourceVersion": "1"}
    made["metadata"]["annotations"] |= more.get("notes", {})
    if "leaving" in more:
        made["metadata"]["deletionTimestamp"] = more["leaving"]
    conditions = list(more.get("conditions", ()))
    if more.get("ready"):
        conditions.append({"type": "Ready", "status": "True"})
    node = more.get("node", "n1" if more.get("phase") or more.get("ready") else "")
    status = {
        "phase": more.get("phase") or ("Running" if more.get("ready") else "Pending"),
        "podIP": more.get("ip", "10.0.0.1" if more.get("ready") else ""),
        "reason": more.get("reason", ""),
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
    return ObservedState({pod.metadata.name: pod for pod in pods}, **{"service": True, **more})
