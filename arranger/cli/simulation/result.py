"""What has become of the pods of an embedded cluster, for people and for scripts."""

from __future__ import annotations

from typing import Any

import msgspec

from arranger.embedded.server import EmbeddedCluster

Object = dict[str, Any]


class SimulationResult(msgspec.Struct, frozen=True, rename="camel"):
    """What a simulation ended with; every list is sorted, so that equal runs print alike.

    Attributes:
        without_pods: how many objects there are of each kind whose pods only a controller makes.
    """

    placements: list[Object]
    pending: list[Object]
    evictions: list[Object]
    stages: dict[str, str]
    without_pods: dict[str, int] = msgspec.field(name="notRun")
    events: list[Object]
    virtual_seconds: float


def collect_result(
    cluster: EmbeddedCluster, seconds: float, *, without_pods: dict[str, int] | None = None
) -> SimulationResult:
    """What has become of every pod after ``seconds``."""
    pods = cluster.objects("pods")
    events = cluster.objects("events", "events.k8s.io")
    evictions = [
        {"pod": _key(event["regarding"]), "note": event["note"]}
        for event in events
        if event["reason"] == "Preempted"
    ]
    return SimulationResult(
        placements=[
            {"pod": _key(pod["metadata"]), "node": node, "phase": pod["status"]["phase"]}
            for pod in pods
            if (node := pod["spec"].get("nodeName"))
        ],
        pending=[
            {"pod": _key(pod["metadata"]), "reason": _pending_reason(pod)}
            for pod in pods
            if not pod["spec"].get("nodeName")
        ],
        evictions=sorted(evictions, key=lambda eviction: str(eviction["pod"])),
        events=sorted(map(_event, events), key=lambda event: (event["object"], event["reason"])),
        stages=_tyjob_stages(cluster),
        without_pods=without_pods or {},
        virtual_seconds=seconds,
    )


def _key(named: Object) -> str:
    """``namespace/name`` of metadata or of a reference."""
    return f"{named.get('namespace', '')}/{named['name']}"


def _pending_reason(pod: Object) -> str:
    conditions = pod["status"].get("conditions") or [{}]
    return str(conditions[0].get("message", f"waits for {pod['spec']['schedulerName']}"))


def _event(event: Object) -> Object:
    return {
        "object": f"{event['regarding']['kind']} {_key(event['regarding'])}",
        "type": event["type"],
        "reason": event["reason"],
        "note": event["note"],
        "count": (event.get("series") or {"count": 1})["count"],
    }


def _tyjob_stages(cluster: EmbeddedCluster) -> dict[str, str]:
    """TYJob → its stage; what no controller has seen yet has none."""
    try:
        jobs = cluster.objects("tyjobs", "arranger.io")
    except KeyError:
        return {}
    return {
        _key(job["metadata"]): job["status"]["stage"]
        for job in jobs
        if (job.get("status") or {}).get("stage")
    }
