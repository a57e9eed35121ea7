"""What a TYJob lacks and what it has too much of, as writes. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final, Literal

from arranger.api.types.tyjob import Replica, TYJob, TYJobPod
from arranger.controllers.runtime.objects import Object
from arranger.controllers.runtime.trimming import shortened
from arranger.controllers.tyjob import manifests
from arranger.controllers.tyjob.observed_state import Attempt, ObservedState

#: How long a pod may take to go after its grace period. Then its node is taken for dead, because
#: its kubelet would have confirmed the deletion, and the pod is removed so that the next can come.
FORCE_DELETE_AFTER: Final = timedelta(seconds=60)


@dataclass(frozen=True, slots=True)
class Create:
    """Create an object; one of the job that is there already is as good.

    Attributes:
        make: makes its manifest, which is kept no longer than it takes to send it.
    """

    plural: Literal["pods", "services", "configmaps"]
    make: Callable[[], Object]

    @property
    def manifest(self) -> Object:
        """The object."""
        return self.make()


@dataclass(frozen=True, slots=True)
class DeleteReplicaPod:
    """Delete the pod of this uid.

    Attributes:
        force: without its kubelet's confirmation.
        version: only in this state of it, if given.
    """

    name: str
    uid: str
    force: bool = False
    version: str = ""


@dataclass(frozen=True, slots=True)
class Patch:
    """Merge a change into an object of the job, if it is there."""

    plural: Literal["pods", "services", "configmaps"]
    name: str
    change: Object


Write = Create | DeleteReplicaPod | Patch


class ReplicaPods:
    """How the pods of a job are to be, and how far those that there are differ."""

    def __init__(self, current: Attempt, scheduler: str) -> None:
        self._job = current.job
        self._scheduler = scheduler
        self._restarts = {current.leader_replica.pod: current.restarts, **current.worker_restarts}
        self._leader = current.leader
        self._gone = len(current.through - current.observed.pods.keys())
        self._next_port = manifests.master_port(current.job, None)
        self.port = manifests.master_port(current.job, current.leader)
        self._hashes: dict[str, manifests.SpecHash] = {}
        #: Set → what its pods have to say, and how that is kept of them.
        self._following: dict[str, tuple[Object, Object]] = {}

    def create(self, replica: Replica) -> Create:
        """Creates the pod of a replica."""
        leader = self._leader.metadata.uid if self._leader is not None else ""
        make = partial(
            manifests.pod,
            self._job,
            replica,
            spec_hash=self._spec_hash(replica),
            scheduler=self._scheduler,
            port=self._port_for(replica),
            leader=leader,
            restarts=self._restarts.get(replica.pod, 0),
            gone=self._gone,
        )
        return Create("pods", make)

    def outdated(self, pod: TYJobPod, replica: Replica) -> bool:
        """Whether a pod was made from another spec; what an earlier release made is not asked."""
        if pod.metadata.name != replica.pod:
            return True
        return pod.spec_hash not in ("", self._spec_hash(replica))

    def follow(self, pod: TYJobPod, replica: Replica) -> list[Write]:
        """Gives a pod the annotations that follow the job."""
        known, (desired, kept) = pod.metadata, self._followed(replica)
        change = {k: v for k, v in desired.items() if known.annotations.get(k) != kept[k]}
        if not change or pod.terminal or pod.deletion_deadline is not None:
            return []
        return [Patch("pods", known.name, {"metadata": {"uid": known.uid, "annotations": change}})]

    def _followed(self, replica: Replica) -> tuple[Object, Object]:
        """The annotations that the pods of a set have to have, and how they are kept of them."""
        found = self._following.get(replica.set_name)
        if found is None:
            desired: Object = dict(
                manifests.following_annotations(self._job, replica, gone=self._gone)
            )
            kept = {key: None if text is None else shortened(text) for key, text in desired.items()}
            found = self._following[replica.set_name] = desired, kept
        return found

    def _spec_hash(self, replica: Replica) -> str:
        known = self._hashes.get(replica.set_name)
        if known is None:
            known = self._hashes[replica.set_name] = manifests.SpecHash(
                self._job, replica, scheduler=self._scheduler, port=self._port_for(replica)
            )
        return known.of(replica.rank)

    def _port_for(self, replica: Replica) -> int:
        return self.port if replica.rank else self._next_port


def outdated_pods(current: Attempt, scheduler: str) -> list[str]:
    """The pods that keep their nodes though the spec has changed since they were made."""
    replicas, there = ReplicaPods(current, scheduler), current.observed.pods
    leader, leader_replica = current.leader, current.leader_replica
    led = [(leader, leader_replica)] if leader is not None else []
    known = led + [(there[r.pod], r) for r in current.job.replicas[1:] if r.pod in current.workers]
    return [
        pod.metadata.name
        for pod, replica in known
        if pod.node and pod.active and not pod.terminal and replicas.outdated(pod, replica)
    ]


def needed_writes(current: Attempt, scheduler: str) -> list[Write]:
    """What the job lacks and what it has too much of."""
    job, pods = current.job, current.observed.pods
    leader, leader_replica = current.leader, current.leader_replica
    replicas = ReplicaPods(current, scheduler)
    writes = _sync_service(job, current.observed, replicas.port)
    if leader is None:
        # With workers of the last attempt still there the leader would start without new ones.
        writes += _delete(pods.values())
        return writes if pods else [*writes, replicas.create(leader_replica)]
    if replicas.outdated(leader, leader_replica) and (
        not leader.node or leader.metadata.name != leader_replica.pod
    ):
        return [*writes, *_replace(leader)]
    writes += replicas.follow(leader, leader_replica)
    writes += _sync_leader_address(current, leader)
    for replica in job.replicas[1:]:
        known = pods.get(replica.pod)
        over = replica.pod in current.through or current.exceeded_restart_limit(replica.pod)
        if known is None:
            if not over:
                writes.append(replicas.create(replica))
        elif not (current.belongs_to_leader(known) and (known.active or over)):
            writes += _delete([known])
        elif not known.node and replicas.outdated(known, replica):
            writes += _replace(known)
        else:
            writes += replicas.follow(known, replica)
    wanted = {replica.pod for replica in job.replicas}
    return [*writes, *_delete(known for name, known in pods.items() if name not in wanted)]


def clean_up(job: TYJob, observed: ObservedState) -> list[Write]:
    """The pods that an ended job does not keep."""
    policy = job.clean_pod_policy
    if policy == "None":
        return []
    return _delete(pod for pod in observed.pods.values() if policy == "All" or not pod.terminal)


def force_delete_overdue(
    pods: Iterable[TYJobPod], now: datetime
) -> tuple[list[Write], float | None]:
    """Removes pods that should have gone by now; and seconds until the next of them is due.

    Not those that wait for whoever has put a finalizer there: deleting them again changes nothing.
    """
    writes: list[Write] = []
    waits: list[float] = []
    for pod in pods:
        if pod.deletion_deadline is not None and not pod.metadata.finalizers:
            wait = (pod.deletion_deadline + FORCE_DELETE_AFTER - now).total_seconds()
            if wait > 0:
                waits.append(wait)
            else:
                writes.append(DeleteReplicaPod(pod.metadata.name, pod.metadata.uid, force=True))
    return writes, min(waits, default=None)


def refused_lately(pods: Iterable[TYJobPod], now: datetime) -> dict[str, float]:
    """The uids of pods that were refused by their nodes and stay for a while; for how long."""
    found = ((pod.metadata.uid, pod.kept_until) for pod in pods)
    waits = {uid: (until - now).total_seconds() for uid, until in found if until is not None}
    return {uid: seconds for uid, seconds in waits.items() if seconds > 0}


def _sync_service(job: TYJob, observed: ObservedState, port: int) -> list[Write]:
    if observed.service is None:
        return [Create("services", partial(manifests.service, job, port))]
    if observed.service.ports == [port]:
        return []
    change = {"spec": {"ports": manifests.service_ports(port)}}
    return [Patch("services", observed.service.metadata.name, change)]


def _sync_leader_address(current: Attempt, leader: TYJobPod) -> list[Write]:
    known, desired = current.observed.addresses, {leader.metadata.uid: leader.status.pod_ip}
    if not leader.status.pod_ip or known == desired:
        return []
    if known is None:
        return [Create("configmaps", partial(manifests.leader_config_map, current.job, desired))]
    data: Mapping[str, Any] = {**dict.fromkeys(known), **desired}
    return [Patch("configmaps", manifests.leader_config_map_name(current.job), {"data": data})]


def _delete(pods: Iterable[TYJobPod]) -> list[Write]:
    going = (pod.metadata for pod in pods if pod.deletion_deadline is None)
    return [DeleteReplicaPod(metadata.name, metadata.uid) for metadata in going]


def _replace(pod: TYJobPod) -> list[Write]:
    """Deletes a pod that has no node; not if it has been given one meanwhile."""
    if pod.deletion_deadline is not None:
        return []
    metadata = pod.metadata
    return [DeleteReplicaPod(metadata.name, metadata.uid, version=metadata.resource_version)]
