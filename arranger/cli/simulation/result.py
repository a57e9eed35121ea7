"""What has become of the pods of an embedded cluster, for people and for scripts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from arranger.embedded.server import EmbeddedCluster

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class SimulationResult:
    """What a simulation ended with; every list is sorted, so that equal runs print alike.

    Attributes:
        without_pods: how many objects there are of each kind whose pods only a controller makes.
    """

    placements: list[Object]
    pending: list[Object]
    evictions: list[Object]
    events: list[Object]
    stages: dict[str, str]
    without_pods: dict[str, int]
    virtual_seconds: float

    def as_json(self) -> Object:
        """The form that scripts read."""
        return {
            "placements": self.placements,
            "pending": self.pending,
            "evictions": self.evictions,
            "stages": self.stages,
            "notRun": self.without_pods,
            "events": self.events,
            "virtualSeconds": self.virtual_seconds,
        }


def collect_result(
    cluster: EmbeddedCluster, seconds: float, *, without_pods: dict[str, int] | None = None
) -> SimulationResult:
    """What has become of every pod after ``seconds``."""
    pods = cluster.objects("pods")
    events = cluster.objects("events", "events.k8s.io")
    evictions = [
        {
            "pod": f"{e['regarding'].get('namespace', '')}/{e['regarding']['name']}",
            "note": e["note"],
        }
        for e in events
        if e["reason"] == "Preempted"
    ]
    return SimulationResult(
        placements=[
            {"pod": _key(pod), "node": node, "phase": pod["status"]["phase"]}
            for pod in pods
            if (node := pod["spec"].get("nodeName"))
        ],
        pending=[
            {"pod": _key(pod), "reason": _pending_reason(pod)}
            for pod in pods
            if not pod["spec"].get("nodeName")
        ],
        evictions=sorted(evictions, key=lambda eviction: str(eviction["pod"])),
        events=sorted(map(_event, events), key=lambda event: (event["object"], event["reason"])),
        stages=_tyjob_stages(cluster),
        without_pods=without_pods or {},
        virtual_seconds=seconds,
    )


def _key(obj: Object) -> str:
    return f"{obj['metadata']['namespace']}/{obj['metadata']['name']}"


def _pending_reason(pod: Object) -> str:
    conditions = pod["status"].get("conditions") or [{}]
    return str(conditions[0].get("message", f"waits for {pod['spec']['schedulerName']}"))


def _event(event: Object) -> Object:
    about = event["regarding"]
    return {
        "object": f"{about['kind']} {about.get('namespace', '')}/{about['name']}",
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
        _key(job): job["status"]["stage"] for job in jobs if (job.get("status") or {}).get("stage")
    }
