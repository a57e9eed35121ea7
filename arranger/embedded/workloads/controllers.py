"""Hollow controllers: they stand for kube-controller-manager, as hollow kubelets for kubelets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from arranger.api.timestamps import micro_time
from arranger.embedded import Object
from arranger.embedded.errors import MALFORMED, ApiError
from arranger.embedded.server import EmbeddedCluster
from arranger.embedded.storage.store import Change
from arranger.embedded.workloads.claims import bound, chosen_volume, volume_for
from arranger.embedded.workloads.cron_job import follow_schedule, start_once
from arranger.embedded.workloads.daemon_set import reconcile_daemon_set
from arranger.embedded.workloads.deployment import reconcile_deployment
from arranger.embedded.workloads.job import reconcile_job
from arranger.embedded.workloads.job_tally import JobTally
from arranger.embedded.workloads.ownership import controllers_of, matches
from arranger.embedded.workloads.plan import (
    Plan,
    Restarts,
    Surroundings,
    has_ended,
    is_deleted,
    soonest,
)
from arranger.embedded.workloads.replicas import reconcile_replicas
from arranger.embedded.workloads.stateful_set import reconcile_stateful_set
from arranger.kube.client.transport import MERGE_PATCH, Request

Reconcile = Callable[[Object, Sequence[Object], Surroundings], Plan]

_JOBS: Final = "batch/jobs"
_DAEMON_SETS: Final = "apps/daemonsets"
_STATEFUL_SETS: Final = "apps/statefulsets"
_REPLICA_SETS: Final = "apps/replicasets"
_VOLUMES: Final = "/persistentvolumes"
_CLAIMS: Final = "/persistentvolumeclaims"
_CONTROLLERS: Final = "/replicationcontrollers"
_CRON_JOBS: Final = "batch/cronjobs"
_RECONCILERS: Final[Mapping[str, Reconcile]] = {
    "apps/deployments": reconcile_deployment,
    _REPLICA_SETS: reconcile_replicas,
    _CONTROLLERS: reconcile_replicas,
    _STATEFUL_SETS: reconcile_stateful_set,
    _DAEMON_SETS: reconcile_daemon_set,
    _CRON_JOBS: start_once,
}
#: Who takes in what nobody controls.
_ADOPTERS: Final[Mapping[str, Sequence[str]]] = {
    "/pods": (_REPLICA_SETS, _CONTROLLERS, _STATEFUL_SETS, _DAEMON_SETS),
    _REPLICA_SETS: ("apps/deployments",),
}
#: Metadata that decides who controls an object.
_CLAIMED_BY: Final = ("labels", "ownerReferences")
#: Kind → resource, of what plans change and delete.
_RESOURCES: Final[Mapping[str, str]] = {
    "Deployment": "apps/deployments",
    "ReplicaSet": _REPLICA_SETS,
    "Job": _JOBS,
    "Pod": "/pods",
    "PersistentVolumeClaim": _CLAIMS,
}
#: Kinds whose pods the hollow controllers make.
WORKLOAD_KINDS: Final = (
    *("Deployment", "ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet", "Job"),
    "CronJob",
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
        schedules: whether CronJobs are due when their schedules say; else once, and at once.
        provisions: whether claims get volumes.
    """

    def __init__(
        self,
        cluster: EmbeddedCluster,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        schedules: bool = False,
        provisions: bool = True,
    ) -> None:
        later = {_CRON_JOBS: follow_schedule} if schedules else {}
        self._reconcilers: Mapping[str, Reconcile] = {**_RECONCILERS, **later}
        self._cluster = cluster
        self._now = now
        self._provisions = provisions
        #: uids of workloads to look at; a dict for its order.
        self._due: dict[str, None] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._tallies: dict[str, JobTally] = {}
        self._restarts: dict[str, Restarts] = {}
        #: uid of a StatefulSet → its templates so far, by the name of their revision.
        self._revisions: dict[str, dict[str, Object]] = {}
        #: uids of workloads that have looked for orphans, and of those that are to look again.
        self._seen: set[str] = set()
        self._adopts: set[str] = set()
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
                    try:
                        self._reconcile(uid)
                    except MALFORMED as error:
                        self._tell_malformed(uid, error)
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
        if change.resource == _VOLUMES and change.type != "DELETED":
            self._enqueue((change.after["spec"].get("claimRef") or {}).get("uid", ""))
        owners = controllers_of(change.after)
        for owner in owners:
            with suppress(*MALFORMED):  # which is told when it is looked at
                self._count(owner["uid"], change)
            self._enqueue(owner["uid"])
        if not owners and change.resource in _ADOPTERS and change.type != "DELETED":
            self._on_orphan(change)

    def _on_orphan(self, change: Change) -> None:
        """Nothing controls an object; those whose selector matches it may take it in."""
        before, after = change.before, change.after
        if before and all(
            before["metadata"].get(field) == after["metadata"].get(field) for field in _CLAIMED_BY
        ):
            return
        for resource in _ADOPTERS[change.resource]:
            for workload in self._cluster.store.items(resource):
                alike = workload["metadata"]["namespace"] == after["metadata"]["namespace"]
                if alike and matches(workload, after):
                    uid = workload["metadata"]["uid"]
                    self._adopts.add(uid)
                    self._enqueue(uid)

    def _count(self, owner: str, change: Change) -> None:
        found = self._cluster.store.find_by_uid(owner)
        if change.resource != "/pods" or found is None:
            return
        if found[0] == _JOBS:
            tally = self._tallies.setdefault(owner, JobTally())
            gone = change.type == "DELETED"
            tally.on_pod_updated(found[1], change.after, self._now(), gone=gone)
        elif is_deleted(change.after) or not has_ended(change.after):
            return
        elif change.before is None or not has_ended(change.before):
            self._restarts.setdefault(owner, Restarts()).on_pod_ended(self._now())

    def _reconcile(self, uid: str) -> None:
        if (timer := self._timers.pop(uid, None)) is not None:
            timer.cancel()
        found = self._cluster.store.find_by_uid(uid)
        if found is None or found[1]["metadata"].get("deletionTimestamp"):
            for memory in (self._tallies, self._restarts, self._revisions):
                memory.pop(uid, None)
            self._seen.discard(uid)
            return
        resource, workload = found
        if resource == _CLAIMS:
            if self._provisions:
                self._provision(workload)
            return
        owned, around = self._owned_by(uid), self._surroundings(resource, workload)
        if resource == _JOBS:
            tally = self._tallies.setdefault(uid, JobTally())
            self._execute(uid, resource, workload, reconcile_job(workload, owned, around, tally))
        elif resource in _RECONCILERS:
            plan = self._reconcilers[resource](workload, owned, around)
            wait = self._restarts.setdefault(uid, Restarts()).wait(around.now)
            if wait is not None and any(each["kind"] == "Pod" for each in plan.create):
                plan = replace(plan, create=(), again_in=soonest(wait, plan.again_in))
            self._execute(uid, resource, workload, plan)

    def _owned_by(self, uid: str) -> list[Object]:
        return [
            obj
            for _, obj in self._cluster.store.owned_by(uid)
            if any(owner["uid"] == uid for owner in controllers_of(obj))
        ]

    def _surroundings(self, resource: str, workload: Object) -> Surroundings:
        store, meta = self._cluster.store, workload["metadata"]
        uid, claims = meta["uid"], {}
        if resource == _STATEFUL_SETS and workload["spec"].get("volumeClaimTemplates"):
            found = (c for c in store.items(_CLAIMS) if _namespace(c) == meta["namespace"])
            claims = {claim["metadata"]["name"]: claim for claim in found}
        return Surroundings(
            self._now(),
            store.items("/nodes") if resource == _DAEMON_SETS else (),
            self._orphans(resource, workload),
            self._owned_by,
            claims,
            self._revisions.setdefault(uid, {}) if resource == _STATEFUL_SETS else {},
        )

    def _orphans(self, resource: str, workload: Object) -> list[Object]:
        """What it may adopt; looked for when it is new, and when an orphan has come."""
        uid = workload["metadata"]["uid"]
        if uid in self._seen and uid not in self._adopts:
            return []
        self._seen.add(uid)
        self._adopts.discard(uid)
        kinds = [kind for kind, adopters in _ADOPTERS.items() if resource in adopters]
        return [
            obj
            for kind in kinds
            for obj in self._cluster.store.items(kind)
            if _namespace(obj) == _namespace(workload) and not controllers_of(obj)
        ]

    def _execute(self, uid: str, resource: str, workload: Object, plan: Plan) -> None:
        # The status first: a Job that is over says so before it deletes its pods, which then do not
        # count as failures.
        before = workload.get("status") or {}
        status = {key: value for key, value in plan.status.items() if before.get(key) != value}
        if status:
            self._patch(resource, workload, {"status": status}, "/status")
        for obj, change in plan.change:
            self._patch(_RESOURCES[obj["kind"]], obj, change)
        for obj in plan.create:
            self._create(workload, obj)
        for obj in plan.delete:
            options = {"preconditions": {"uid": obj["metadata"]["uid"]}}
            path = _path(_RESOURCES[obj["kind"]], obj["metadata"])
            self._cluster.handle(Request("DELETE", path, body=json.dumps(options).encode()))
        if plan.again_in is not None:
            loop = asyncio.get_running_loop()
            wait = max(plan.again_in, _REACTION_SECONDS)
            self._timers[uid] = loop.call_later(wait, self._on_timer, uid)

    def _provision(self, claim: Object) -> None:
        store = self._cluster.store
        volume = chosen_volume(claim, store.items(_VOLUMES))
        if volume is None:
            volume = volume_for(claim, store.items("storage.k8s.io/storageclasses"))
            if volume is not None:
                self._cluster.create(volume)
        if volume is not None:
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
                self._tell_failed_create(workload, error.message)

    def _tell_malformed(self, uid: str, error: Exception) -> None:
        """The embedded server does not look at all that a workload says, as the real one does."""
        found = self._cluster.store.find_by_uid(uid)
        why = f"it is malformed: {type(error).__name__}: {error}"
        if found is not None and (uid, why) not in self._told:
            self._told.add((uid, why))
            self._tell_failed_create(found[1], why)

    def _tell_failed_create(self, workload: Object, why: str) -> None:
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
                "note": why[:1024],
            }
        )


def _namespace(obj: Object) -> Any:
    return obj["metadata"]["namespace"]


def _path(resource: str, meta: Object) -> str:
    group, _, plural = resource.partition("/")
    root = f"/apis/{group}/v1" if group else "/api/v1"
    return f"{root}/namespaces/{meta['namespace']}/{plural}/{meta['name']}"
