"""Hollow controllers and kubelets at work on an embedded cluster, and workloads for them."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Mapping, Sequence
from typing import Any

from arranger.embedded.kubelet import EXIT_CODE, RUN_SECONDS
from arranger.embedded.server import EmbeddedCluster
from arranger.embedded.virtual_time import virtual_now
from arranger.embedded.workloads.controllers import HollowControllers
from arranger.kube.client.transport import MERGE_PATCH, Request

Object = dict[str, Any]

VERSIONS: Mapping[str, tuple[str, str]] = {
    "Deployment": ("apps/v1", "/apis/apps/v1/namespaces/default/deployments"),
    "ReplicaSet": ("apps/v1", "/apis/apps/v1/namespaces/default/replicasets"),
    "StatefulSet": ("apps/v1", "/apis/apps/v1/namespaces/default/statefulsets"),
    "DaemonSet": ("apps/v1", "/apis/apps/v1/namespaces/default/daemonsets"),
    "ReplicationController": ("v1", "/api/v1/namespaces/default/replicationcontrollers"),
    "Job": ("batch/v1", "/apis/batch/v1/namespaces/default/jobs"),
}


def a_workload(
    kind: str,
    name: str = "w",
    *,
    runs: float | None = None,
    exits: int = 0,
    pod: Object | None = None,
    **spec: Any,
) -> Object:
    """A workload whose pods are bound to ``n1`` as they are made, and end as told.

    Args:
        pod: more of the pods' spec.
        spec: more of the workload's.
    """
    labels = {"app": name}
    selector = labels if kind == "ReplicationController" else {"matchLabels": labels}
    notes = {} if runs is None else {RUN_SECONDS: str(runs), EXIT_CODE: str(exits)}
    own: Object = {"containers": [{"name": "c", "image": "i"}], **(pod or {})}
    if kind != "DaemonSet":
        own.setdefault("nodeName", "n1")
    if kind == "Job":
        own.setdefault("restartPolicy", "Never")
    template = {"metadata": {"labels": labels, "annotations": notes}, "spec": own}
    given = {"template": template, **({} if kind == "Job" else {"selector": selector})}
    return {
        "apiVersion": VERSIONS[kind][0],
        "kind": kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": given | spec,
    }


class WorkloadHarness:
    """A cluster with hollow controllers and kubelets."""

    def __init__(self, *, schedules: bool = False) -> None:
        self.cluster = EmbeddedCluster(now=virtual_now, rng=random.Random(1))
        self.controllers = HollowControllers(self.cluster, now=virtual_now, schedules=schedules)

    def apply(self, *workloads: Object) -> None:
        for workload in workloads:
            self.cluster.create(workload)

    def edit(self, kind: str, name: str = "w", **spec: Any) -> None:
        self._request("PATCH", f"{VERSIONS[kind][1]}/{name}", {"spec": spec})

    def evict(self, name: str) -> None:
        """As a scheduler does: the condition that says so, then the deletion."""
        path = f"/api/v1/namespaces/default/pods/{name}"
        found = next(p for p in self.pods() if p["metadata"]["name"] == name)
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
        }
        others = found["status"].get("conditions") or []
        self._request("PATCH", f"{path}/status", {"status": {"conditions": [*others, condition]}})
        self._request("DELETE", path, {})

    def delete(self, kind: str, name: str = "w") -> None:
        self._request("DELETE", f"{VERSIONS[kind][1]}/{name}", {})

    def _request(self, method: str, path: str, body: Object) -> None:
        kind = MERGE_PATCH if method == "PATCH" else "application/json"
        answer = self.cluster.handle(Request(method, path, {}, json.dumps(body).encode(), kind))
        assert answer.status < 300, answer

    def pods(self) -> list[Object]:
        return self.cluster.objects("pods")

    def names(self, *phases: str) -> list[str]:
        """Names of the pods in these phases; of all without any."""
        return [
            pod["metadata"]["name"]
            for pod in self.pods()
            if not phases or pod["status"]["phase"] in phases
        ]

    def status(self, kind: str, name: str = "w") -> Object:
        plural = VERSIONS[kind][1].rpartition("/")[2]
        group = VERSIONS[kind][0].rpartition("/")[0]
        objects = self.cluster.objects(plural, group)
        (found,) = (obj for obj in objects if obj["metadata"]["name"] == name)
        return dict(found.get("status") or {})

    def ends(self, name: str = "w") -> Sequence[tuple[str, str]]:
        """(type, reason) of the conditions of a Job that say that it is over."""
        conditions = self.status("Job", name).get("conditions") or ()
        final = [c for c in conditions if c["type"] in ("Complete", "Failed")]
        return [(c["type"], c["reason"]) for c in final]

    async def after(self, seconds: float) -> WorkloadHarness:
        """Let virtual time pass."""
        await asyncio.sleep(seconds)
        return self
