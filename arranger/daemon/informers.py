"""What the scheduler reads: each kind, where it is, and where in the engine it goes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any, Final

from arranger.api.types import pod_groups, storage
from arranger.api.types.core import Namespace, Node, Pod
from arranger.api.types.disruption_budgets import PodDisruptionBudget
from arranger.api.types.queue import Queue
from arranger.api.types.reservation import Reservation
from arranger.api.types.resource_claims import DeviceClass, ResourceClaim, ResourceSlice
from arranger.api.types.workloads import (
    Owner,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
    Workload,
)
from arranger.cluster.object_store import STORED_KINDS
from arranger.daemon.informer_handlers import (
    EngineFaults,
    ObjectObserver,
    ObservedHandler,
    PodHandler,
    TimedHandler,
    WorkloadProblems,
    WorkloadSink,
    both,
    creation_time,
    trim_ended_pod,
    trim_owner,
)
from arranger.engine.engine import Engine
from arranger.engine.handlers.watched_kinds import WatchedKind
from arranger.gangs.workloads.kinds import WorkloadKind
from arranger.kube.client.metrics import MetricsRecorder
from arranger.kube.client.problems import ProblemReporter, resource_name
from arranger.kube.client.transport import Transport
from arranger.kube.watch.decoder import Decoder
from arranger.kube.watch.informer import Informer
from arranger.kube.watch.protobuf_decoder import decoder_of
from arranger.kube.watch.raw_objects import RawObjectDecoder, RawObjectStore
from arranger.kube.watch.reflector import Reflector
from arranger.kube.watch.trimming import trim

#: A kind that the server does not serve counts as having no objects until it does.
COLLECTION_PATHS: Final[dict[type[Any], str]] = {
    Node: "/api/v1/nodes",
    Pod: "/api/v1/pods",
    Namespace: "/api/v1/namespaces",
    Service: "/api/v1/services",
    ReplicationController: "/api/v1/replicationcontrollers",
    ReplicaSet: "/apis/apps/v1/replicasets",
    StatefulSet: "/apis/apps/v1/statefulsets",
    storage.PersistentVolume: "/api/v1/persistentvolumes",
    storage.PersistentVolumeClaim: "/api/v1/persistentvolumeclaims",
    storage.StorageClass: "/apis/storage.k8s.io/v1/storageclasses",
    storage.CSINode: "/apis/storage.k8s.io/v1/csinodes",
    storage.CSIDriver: "/apis/storage.k8s.io/v1/csidrivers",
    storage.VolumeAttachment: "/apis/storage.k8s.io/v1/volumeattachments",
    storage.CSIStorageCapacity: "/apis/storage.k8s.io/v1/csistoragecapacities",
    ResourceClaim: "/apis/resource.k8s.io/v1/resourceclaims",
    ResourceSlice: "/apis/resource.k8s.io/v1/resourceslices",
    DeviceClass: "/apis/resource.k8s.io/v1/deviceclasses",
    pod_groups.SigsPodGroup: "/apis/scheduling.sigs.k8s.io/v1alpha1/podgroups",
    pod_groups.CommunityPodGroup: "/apis/scheduling.x-k8s.io/v1alpha1/podgroups",
    pod_groups.VolcanoPodGroup: "/apis/scheduling.volcano.sh/v1beta1/podgroups",
    pod_groups.NativePodGroup: "/apis/scheduling.k8s.io/v1beta1/podgroups",
    PodDisruptionBudget: "/apis/policy/v1/poddisruptionbudgets",
    Queue: "/apis/scheduling.volcano.sh/v1beta1/queues",
    pod_groups.GangObject: "/apis/arranger.io/v1alpha1/gangs",
    Reservation: "/apis/arranger.io/v1alpha1/reservations",
}
#: The other versions of an API that has changed its version: the first that is served is read.
#: Kubernetes 1.36 serves PodGroups as v1alpha2, 1.37 as the others.
OTHER_VERSIONS: Final[dict[type[Any], tuple[str, ...]]] = {
    pod_groups.NativePodGroup: tuple(
        f"/apis/scheduling.k8s.io/{version}/podgroups"
        for version in pod_groups.NativePodGroup.other_versions
    )
}
#: Kinds that are read as a whole, and own pods.
STORED_OWNERS: Final[tuple[type[Any], ...]] = (
    ReplicaSet,
    StatefulSet,
    ReplicationController,
)
assert set(STORED_KINDS.values()) <= COLLECTION_PATHS.keys(), "a kind without a path"


#: Resources that pods are owned by, of which metadata alone is read → kind.
_KINDS: Final = {
    "deployments": "Deployment",
    "daemonsets": "DaemonSet",
    "jobs": "Job",
    "cronjobs": "CronJob",
    "tyjobs": "TYJob",
}


class Informers:
    """The informers of one engine, one for each kind.

    Args:
        engine: whose event handlers are called.
        now: the engine's clock, seconds.
        wake: called after each change: the engine may have something to do.
        owner_resources: resources of which only the metadata is read, as in the configuration.
        observer: hears of each object before the engine, by its type, or by the path of its kind
            where several kinds are of one type.
    """

    def __init__(
        self,
        engine: Engine,
        now: Callable[[], float],
        wake: Callable[[], None],
        owner_resources: Iterable[str] = (),
        observer: ObjectObserver | None = None,
    ) -> None:
        kinds, owners, barrier = engine.handlers.kinds, engine.owner_handlers, engine.barrier

        def observed(of: type[Any] | str, handler: Any) -> Any:
            return handler if observer is None else ObservedHandler(of, observer, handler)

        def informer(of: type[Any] | str, kind: WatchedKind[Any], **options: Any) -> Informer[Any]:
            handler = observed(of, TimedHandler(barrier, kind, now))
            faults = EngineFaults(barrier, kind, now)
            return Informer(handler, faults=faults, notify=wake, **options)

        pods = PodHandler(engine.handlers, barrier, engine.cluster, engine.pods, now)
        self._informers: dict[type[Any], Informer[Any]] = {
            **{kind: informer(kind, kinds[kind]) for kind in kinds},
            Node: informer(Node, kinds[Node], sort_by=creation_time),
            Pod: Informer(
                observed(Pod, pods),
                sort_by=creation_time,
                transform=trim_ended_pod,
                faults=EngineFaults(barrier, kinds[Pod], now),
                notify=wake,
                on_listing=pods.on_listing,
            ),
        }
        for kind in STORED_OWNERS:
            self._informers[kind] = informer(
                kind,
                replace(
                    kinds[kind],
                    updated=both(kinds[kind].updated, owners.on_updated),
                    deleted=both(kinds[kind].deleted, owners.on_deleted),
                    owns_pods=True,
                ),
            )
        owner_paths = {f"/apis/{resource}" for resource in owner_resources}
        workloads = engine.workload_handlers

        def sink_of(kind: WorkloadKind) -> WorkloadSink:
            updated: Callable[[Any, float], None] = partial(workloads.on_updated, kind)
            deleted: Callable[[Any, float], None] = partial(workloads.on_deleted, kind)
            if owner_paths.intersection(kind.paths):
                # Read once, and heard by both.
                updated = both(owners.on_updated, updated)
                deleted = both(owners.on_deleted, deleted)
            group_version, _ = _split_path(kind.paths[0])
            watched: WatchedKind[Workload] = WatchedKind(
                group_version, kind.kind, updated, deleted, owns_pods=True
            )
            taking_in = informer(kind.paths[0], watched, transform=trim_owner)
            return WorkloadSink(kind, workloads, taking_in, now)

        self._workloads = [sink_of(kind) for kind in workloads.kinds]
        self._all_read = False
        owner_paths -= {path for kind in workloads.kinds for path in kind.paths}
        #: By path.
        self._owners: dict[str, Informer[Owner]] = {
            path: informer(
                path,
                WatchedKind(
                    *owner_kind(path), owners.on_updated, owners.on_deleted, owns_pods=True
                ),
                transform=trim_owner,
            )
            for path in sorted(owner_paths)
        }

    @property
    def synced(self) -> bool:
        """Whether the whole state has been read."""
        if not self._all_read:
            informers = (*self._informers.values(), *self._owners.values())
            if not all(i.synced for i in informers) or not all(s.synced for s in self._workloads):
                return False
            # What may not be read now may be read later, and is waited for then.
            self._all_read = all(sink.informer.synced for sink in self._workloads)
        return True

    @property
    def unread(self) -> list[str]:
        """The resources that have not been read yet."""
        read: list[tuple[str, Informer[Any] | WorkloadSink]] = [
            *((path, self._informers[kind]) for kind, path in COLLECTION_PATHS.items()),
            *self._owners.items(),
            *((sink.kind.paths[0], sink) for sink in self._workloads),
        ]
        return [resource_name(path) for path, each in read if not each.synced]

    def reflectors(
        self,
        transport: Transport,
        *,
        rng: random.Random,
        metrics: MetricsRecorder,
        problems: ProblemReporter,
    ) -> list[Reflector[Any]]:
        """A reflector for each kind."""
        make = partial(Reflector[Any], transport, rng=rng, metrics=metrics, problems=problems)
        return [
            *(
                make(
                    path,
                    decoder_of(kind, trim),
                    self._informers[kind],
                    other_paths=OTHER_VERSIONS.get(kind, ()),
                )
                for kind, path in COLLECTION_PATHS.items()
            ),
            *(
                make(path, Decoder(Owner, trim), informer, metadata_only=True)
                for path, informer in self._owners.items()
            ),
            *(
                make(
                    sink.kind.paths[0],
                    Decoder(Workload, trim),
                    sink,
                    other_paths=sink.kind.paths[1:],
                    metadata_only=sink.kind.metadata_only,
                    on_absent=sink.absent,
                    problems=WorkloadProblems(sink, problems),
                )
                for sink in self._workloads
            ),
        ]


def owner_kind(path: str) -> tuple[str, str]:
    """API version and kind of the objects at a path, for Events about them.

    Who reads metadata alone is not told the kind; by another resource's name nobody finds them.
    """
    group_version, plural = _split_path(path)
    return group_version, _KINDS.get(plural, plural)


def _split_path(path: str) -> tuple[str, str]:
    """``apps/v1`` and ``deployments`` of ``/apis/apps/v1/deployments``."""
    group_version, _, plural = path.removeprefix("/apis/").rpartition("/")
    return group_version, plural


def raw_node_reflector(
    transport: Transport, nodes: RawObjectStore, **options: Any
) -> Reflector[Any]:
    """Reads the nodes as JSON, as extenders want them; ``options`` are the reflector's."""
    return Reflector(transport, COLLECTION_PATHS[Node], RawObjectDecoder(), nodes, **options)
