"""What has become of the pods of an embedded cluster, for people and for scripts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from arranger.embedded.server import EmbeddedCluster

Object = dict[str, Any]


@dataclass(slots=True)
class SimulationResult:
    """What a simulation ended with; every list is sorted, so that equal runs print alike.

    Attributes:
        without_pods: how many objects there are of each kind whose pods only a controller makes.
    """

    placements: list[Object] = field(default_factory=list)
    pending: list[Object] = field(default_factory=list)
    evictions: list[Object] = field(default_factory=list)
    events: list[Object] = field(default_factory=list)
    stages: dict[str, str] = field(default_factory=dict)
    without_pods: dict[str, int] = field(default_factory=dict)
    virtual_seconds: float = 0.0

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


def collect_result(cluster: EmbeddedCluster, seconds: float) -> SimulationResult:
    """What has become of every pod after ``seconds``."""
    outcome = SimulationResult(virtual_seconds=seconds)
    for pod in cluster.objects("pods"):
        name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        if node := pod["spec"].get("nodeName"):
            phase = pod["status"]["phase"]
            outcome.placements.append({"pod": name, "node": node, "phase": phase})
        else:
            conditions = pod["status"].get("conditions") or [{}]
            why = conditions[0].get("message", f"waits for {pod['spec']['schedulerName']}")
            outcome.pending.append({"pod": name, "reason": why})
    for event in cluster.objects("events", "events.k8s.io"):
        about = event["regarding"]
        outcome.events.append(
            {
                "object": f"{about['kind']} {about.get('namespace', '')}/{about['name']}",
                "type": event["type"],
                "reason": event["reason"],
                "note": event["note"],
                "count": (event.get("series") or {"count": 1})["count"],
            }
        )
        if event["reason"] == "Preempted":
            evicted = f"{about.get('namespace', '')}/{about['name']}"
            outcome.evictions.append({"pod": evicted, "note": event["note"]})
    outcome.stages = _tyjob_stages(cluster)
    outcome.evictions.sort(key=lambda eviction: str(eviction["pod"]))
    outcome.events.sort(key=lambda event: (event["object"], event["reason"]))
    return outcome


def _tyjob_stages(cluster: EmbeddedCluster) -> dict[str, str]:
    """TYJob → its stage; what no controller has seen yet has none."""
    try:
        jobs = cluster.objects("tyjobs", "arranger.io")
    except KeyError:
        return {}
    return {
        f"{job['metadata']['namespace']}/{job['metadata']['name']}": job["status"]["stage"]
        for job in jobs
        if (job.get("status") or {}).get("stage")
    }
