"""Hollow controllers: they stand for kube-controller-manager, as hollow kubelets for kubelets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from arranger.api.timestamps import micro_time
from arranger.embedded import Object
from arranger.embedded.errors import ApiError
from arranger.embedded.server import EmbeddedCluster
from arranger.embedded.storage.store import Change
from arranger.embedded.workloads.claims import bound, volume_for
from arranger.embedded.workloads.daemon_set import reconcile_daemon_set
from arranger.embedded.workloads.job import JobTally, reconcile_job
from arranger.embedded.workloads.plan import Plan, Restarts, Surroundings, has_ended
from arranger.embedded.workloads.replicas import reconcile_deployment, reconcile_replicas
from arranger.embedded.workloads.stateful_set import reconcile_stateful_set
from arranger.kube.client.transport import MERGE_PATCH, Request

Reconcile = Callable[[Object, Sequence[Object], Surroundings], Plan]

_JOBS: Final = "batch/jobs"
_DAEMON_SETS: Final = "apps/daemonsets"
_CLAIMS: Final = "/persistentvolumeclaims"
_RECONCILERS: Final[Mapping[str, Reconcile]] = {
    "apps/deployments": reconcile_deployment,
    "apps/replicasets": reconcile_replicas,
    "/replicationcontrollers": reconcile_replicas,
    "apps/statefulsets": reconcile_stateful_set,
    _DAEMON_SETS: reconcile_daemon_set,
}
#: Kinds whose pods the hollow controllers make.
WORKLOAD_KINDS: Final = (
    *("Deployment", "ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet", "Job"),
)
#: Seconds from a change until it is looked at. Pods that end as soon as they start are so replaced
#: at later and later times, and not for ever at the same.
_REACTION_SECONDS: Final = 0.1


class HollowControllers:
    """Makes the pods of Deployments, StatefulSets, DaemonSets, Jobs and their like.

    Claims get volumes. A pod that has ended though its workload never does is made again after a
    back-off, as its kubelet would start its containers again.

    Args:
        cluster: where they are.
        now: the calendar clock.
    """

    def __init__(
        self, cluster: EmbeddedCluster, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._cluster = cluster
        self._now = now
        #: uids of workloads to look at; a dict for its order.
        self._due: dict[str, None] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._tallies: dict[str, JobTally] = {}
        self._restarts: dict[str, Restarts] = {}
        self._wake = asyncio.Event()
        #: (uid, why) of the pods that could not be made; told once.
        self._told: set[tuple[str, str]] = set()

    @property
    def idle(self) -> bool:
        """Whether nothing is to be done, now or later, unless something changes."""
        return not self._due and not self._timers

    async def run(self) -> None:
        """Work until cancelled."""
        for resource in (*_RECONCILERS, _JOBS, _CLAIMS):
            for workload in self._cluster.store.items(resource):
                self._enqueue(workload["metadata"]["uid"])
        silence = self._cluster.store.subscribe(self._on_change)
        try:
            while True:
                await self._wake.wait()
                await asyncio.sleep(_REACTION_SECONDS)
                self._wake.clear()
                due, self._due = list(self._due), {}
                for uid in due:
                    self._reconcile(uid)
        finally:
            silence()
            for timer in self._timers.values():
                timer.cancel()

    def _enqueue(self, uid: str) -> None:
        self._due[uid] = None
        self._wake.set()

    def _on_change(self, change: Change) -> None:
        meta = change.after["metadata"]
        if change.resource in _RECONCILERS or change.resource in (_JOBS, _CLAIMS):
            self._enqueue(meta["uid"])
        if change.resource == "/nodes":
            for workload in self._cluster.store.items(_DAEMON_SETS):
                self._enqueue(workload["metadata"]["uid"])
        for owner in meta.get("ownerReferences") or ():
            if owner.get("controller"):
                self._count(owner["uid"], change)
                self._enqueue(owner["uid"])

    def _count(self, owner: str, change: Change) -> None:
        found = self._cluster.store.find_by_uid(owner)
        if change.resource != "/pods" or found is None:
            return
        if found[0] == _JOBS:
            tally = self._tallies.setdefault(owner, JobTally())
            gone = change.type == "DELETED"
            tally.on_pod_updated(found[1], change.after, self._now(), gone=gone)
        elif has_ended(change.after) and not (change.before and has_ended(change.before)):
            self._restarts.setdefault(owner, Restarts()).on_pod_ended(self._now())

    def _reconcile(self, uid: str) -> None:
        if (timer := self._timers.pop(uid, None)) is not None:
            timer.cancel()
        found = self._cluster.store.find_by_uid(uid)
        if found is None or found[1]["metadata"].get("deletionTimestamp"):
            self._tallies.pop(uid, None)
            self._restarts.pop(uid, None)
            return
        resource, workload = found
        if resource == _CLAIMS:
            self._provision(workload)
            return
        owned = [
            obj
            for _, obj in self._cluster.store.owned_by(uid)
            if any(
                o["uid"] == uid and o.get("controller") for o in obj["metadata"]["ownerReferences"]
            )
        ]
        around = Surroundings(self._now(), self._cluster.store.items("/nodes"))
        if resource == _JOBS:
            tally = self._tallies.setdefault(uid, JobTally())
            self._execute(uid, resource, workload, reconcile_job(workload, owned, around, tally))
        elif resource in _RECONCILERS:
            plan = _RECONCILERS[resource](workload, owned, around)
            wait = self._restarts.setdefault(uid, Restarts()).wait(around.now)
            if plan.create and wait is not None:
                plan = replace(plan, create=(), again_in=wait)
            self._execute(uid, resource, workload, plan)

    def _execute(self, uid: str, resource: str, workload: Object, plan: Plan) -> None:
        # The status first: a Job that is over says so before it deletes its pods, which then do not
        # count as failures.
        before = workload.get("status") or {}
        if plan.status and {**before, **plan.status} != before:
            self._patch(resource, workload, {"status": dict(plan.status)}, "/status")
        for obj in plan.create:
            self._create(workload, obj)
        for pod in plan.delete:
            options = {"preconditions": {"uid": pod["metadata"]["uid"]}}
            path = _path("/pods", pod["metadata"])
            self._cluster.handle(Request("DELETE", path, body=json.dumps(options).encode()))
        for replica_set, replicas in plan.scale:
            self._patch("apps/replicasets", replica_set, {"spec": {"replicas": replicas}})
        if plan.again_in is not None:
            loop = asyncio.get_running_loop()
            wait = max(plan.again_in, _REACTION_SECONDS)
            self._timers[uid] = loop.call_later(wait, self._on_timer, uid)

    def _provision(self, claim: Object) -> None:
        volume = volume_for(claim, self._cluster.store.items("storage.k8s.io/storageclasses"))
        if volume is not None:
            self._cluster.create(volume)
            change, status = bound(volume)
            self._patch(_CLAIMS, claim, change)
            self._patch(_CLAIMS, claim, status, "/status")

    def _on_timer(self, uid: str) -> None:
        self._timers.pop(uid, None)
        self._enqueue(uid)

    def _patch(self, resource: str, obj: Object, change: Any, sub: str = "") -> None:
        path = _path(resource, obj["metadata"]) + sub
        body = json.dumps(change).encode()
        self._cluster.handle(Request("PATCH", path, body=body, content_type=MERGE_PATCH))

    def _create(self, workload: Object, obj: Object) -> None:
        try:
            self._cluster.create(obj)
        except ApiError as error:
            told = workload["metadata"]["uid"], error.message
            left_over = obj["kind"] == "PersistentVolumeClaim" and error.reason == "AlreadyExists"
            if told not in self._told and not left_over:
                self._told.add(told)
                self._tell_failed_create(workload, error)

    def _tell_failed_create(self, workload: Object, error: ApiError) -> None:
        meta = workload["metadata"]
        head = {"apiVersion": workload["apiVersion"], "kind": workload["kind"]}
        identity = {key: meta[key] for key in ("namespace", "name", "uid")}
        self._cluster.create(
            {
                "apiVersion": "events.k8s.io/v1",
                "kind": "Event",
                "metadata": {
                    "name": f"{meta['name']}.{len(self._told)}",
                    "namespace": meta["namespace"],
                },
                "eventTime": micro_time(self._now()),
                "reportingController": "hollow-controllers",
                "reportingInstance": "hollow-controllers",
                "action": "Create",
                "reason": "FailedCreate",
                "type": "Warning",
                "regarding": {**head, **identity},
                "note": error.message[:1024],
            }
        )


def _path(resource: str, meta: Object) -> str:
    group, _, plural = resource.partition("/")
    root = f"/apis/{group}/v1" if group else "/api/v1"
    return f"{root}/namespaces/{meta['namespace']}/{plural}/{meta['name']}"
