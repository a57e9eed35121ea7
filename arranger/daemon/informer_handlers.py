"""What the informers of the scheduler call: each hands an object on to the engine, with the time.

The way of a pod: ``Reflector._handle_event`` → ``Informer.applied`` →
:meth:`PodHandler.on_updated` → ``EventHandlers.on_pod_updated``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from arranger.api.types.core import Node, ObjectMeta, Pod, PodSpec, PodStatus
from arranger.api.types.workloads import Owner, Workload
from arranger.cluster.cluster import Cluster
from arranger.engine.context.entity import QueuedPod
from arranger.engine.faults.barrier import Barrier
from arranger.engine.handlers.do_all import do_all
from arranger.engine.handlers.event_handlers import EventHandlers
from arranger.engine.handlers.watched_kinds import WatchedKind
from arranger.engine.handlers.workload_handlers import WorkloadHandlers
from arranger.gangs.workloads.kinds import WorkloadKind
from arranger.kube.client.problems import Problem, ProblemKind, ProblemReporter
from arranger.kube.watch.decoder import UndecodableObject
from arranger.kube.watch.informer import Informer, ResourceEventHandler

T = TypeVar("T")
AnyTrimmed = TypeVar("AnyTrimmed", Owner, Workload)

#: Shared by all pods of which only the name is kept.
_NO_SPEC, _NO_STATUS = PodSpec(), PodStatus()


@dataclass(frozen=True, slots=True)
class PodHandler:
    """Hands pods on.

    Args:
        handlers: the engine's.
        barrier: the engine's; it knows what is left out.
        cluster: the engine's, to recognize pods that are bound no more.
        unbound: gives the engine's pods whose Binding has not been answered.
        now: the engine's clock, seconds.
    """

    handlers: EventHandlers
    barrier: Barrier
    cluster: Cluster
    unbound: Callable[[], Iterable[QueuedPod]]
    now: Callable[[], float]
    #: Uids of pods that were bound, by the answers to us, when the last full state was asked for.
    _bound: set[str] = field(default_factory=set, init=False)

    def on_listing(self) -> None:
        """The full state is asked for; it shows the Bindings that have been answered."""
        self._bound.clear()
        self._bound.update(self.cluster.assumed.difference(p.uid for p in self.unbound()))

    def on_updated(self, pod: Pod) -> None:
        """A pod was added or modified."""
        now = self.now()
        # At the start that waits for the PodGroups, which name the queues of pods.
        if self.handlers.started and self.barrier.is_left_out(self.barrier.pod_kind, pod, now):
            return
        uid, cluster = pod.metadata.uid, self.cluster
        unbound = not pod.spec.node_name and uid in cluster
        if unbound and (uid not in cluster.assumed or uid in self._bound):
            # Nothing unbinds a pod: the API server has been restored from a backup, so what it
            # shows is not an old state but the present one.
            self._bound.discard(uid)
            self.handlers.on_pod_deleted(pod.key, now)
        self.handlers.on_pod_updated(pod, now)

    def on_deleted(self, pod: Pod) -> None:
        """A pod is gone."""
        self.handlers.on_pod_deleted(pod.key, self.now())


@dataclass(frozen=True, slots=True)
class TimedHandler(Generic[T]):
    """Hands objects of one kind on, with the time.

    Args:
        barrier: the engine's; it knows what is left out.
        kind: of the objects.
        now: the engine's clock, seconds.
    """

    barrier: Barrier
    kind: WatchedKind[T]
    now: Callable[[], float]

    def on_updated(self, obj: T) -> None:
        """An object was added or modified."""
        now = self.now()
        if not self.barrier.is_left_out(self.kind, obj, now):
            self.kind.updated(obj, now)

    def on_deleted(self, obj: T) -> None:
        """An object is gone."""
        self.kind.deleted(obj, self.now())


class ObjectObserver(Protocol):
    """Hears of the objects of all kinds; it is not to raise."""

    def on_updated(self, of: type[Any] | str, obj: Any) -> None:
        """An object was added or modified."""

    def on_deleted(self, of: type[Any] | str, obj: Any) -> None:
        """An object is gone."""


@dataclass(frozen=True, slots=True)
class ObservedHandler(Generic[T]):
    """Has somebody else hear of objects, too.

    Args:
        of: their type, or the path of their kind.
        observer: hears of them first.
        handler: hears of them then.
    """

    of: type[Any] | str
    observer: ObjectObserver
    handler: ResourceEventHandler[T]

    def on_updated(self, obj: T) -> None:
        """An object was added or modified."""
        self.observer.on_updated(self.of, obj)
        self.handler.on_updated(obj)

    def on_deleted(self, obj: T) -> None:
        """An object is gone."""
        self.observer.on_deleted(self.of, obj)
        self.handler.on_deleted(obj)


@dataclass(frozen=True, slots=True)
class EngineFaults(Generic[T]):
    """Has the engine put right what an object of a kind has made its handlers raise.

    Args:
        barrier: the engine's.
        kind: of the objects.
        now: the engine's clock, seconds.
    """

    barrier: Barrier
    kind: WatchedKind[T]
    now: Callable[[], float]

    def on_update_fault(self, obj: T, before: T | None, error: Exception) -> None:
        """See :class:`~arranger.kube.watch.informer.FaultHandler`."""
        self.barrier.on_update_fault(self.kind, obj, before, error, self.now())

    def on_delete_fault(self, obj: T, error: Exception) -> None:
        """See :class:`~arranger.kube.watch.informer.FaultHandler`."""
        self.barrier.on_delete_fault(self.kind, obj, error, self.now())

    def on_undecodable(self, obj: UndecodableObject, *, known: bool) -> None:
        """See :class:`~arranger.kube.watch.informer.FaultHandler`."""
        self.barrier.on_undecodable(self.kind, obj, obj.error, obj.node, self.now(), known=known)

    def on_heard(self, obj: T) -> None:
        """See :class:`~arranger.kube.watch.informer.FaultHandler`."""
        self.barrier.on_heard(self.kind, obj)

    def on_gone(self, obj: T | UndecodableObject) -> None:
        """See :class:`~arranger.kube.watch.informer.FaultHandler`."""
        self.barrier.on_gone(self.kind, obj)


@dataclass(slots=True, eq=False)
class WorkloadSink:
    """Takes in the owners of one kind, and tells whether the server serves it.

    Args:
        kind: their kind.
        handlers: the engine's.
        informer: takes the owners in.
        now: the engine's clock, seconds.

    Attributes:
        forbidden: whether the right to read them is missing: others are not kept waiting for it.
    """

    kind: WorkloadKind
    handlers: WorkloadHandlers
    informer: Informer[Workload]
    now: Callable[[], float]
    forbidden: bool = field(default=False, init=False)

    @property
    def synced(self) -> bool:
        """Whether all has been read that may be read."""
        return self.informer.synced or self.forbidden

    def listing(self) -> None:
        """The full state is asked for."""
        self.informer.listing()

    def replaced(
        self,
        objects: list[Workload],
        resource_version: str,
        undecodable: Sequence[UndecodableObject] = (),
    ) -> None:
        """These are all owners there are; without a version the kind is not served."""
        if resource_version:
            self.handlers.on_served(self.kind, self.now(), served=True)
        self.informer.replaced(objects, resource_version, undecodable)

    def failed(self, problem: Problem) -> None:
        """The owners could not be read."""
        before, self.forbidden = self.forbidden, problem.kind is ProblemKind.FORBIDDEN
        if self.forbidden and not before:
            self.informer.notify()

    def absent(self) -> None:
        """The server has said that it does not serve the kind: pods wait for no owner of it."""
        self.handlers.on_served(self.kind, self.now(), served=False)
        self.informer.notify()

    def applied(self, obj: Workload | UndecodableObject) -> None:
        """An owner was added or modified."""
        self.informer.applied(obj)

    def deleted(self, obj: Workload | UndecodableObject) -> None:
        """An owner was deleted."""
        self.informer.deleted(obj)


@dataclass(frozen=True, slots=True)
class WorkloadProblems:
    """Tells a sink, too, that its owners cannot be read."""

    sink: WorkloadSink
    reporter: ProblemReporter

    def failed(self, source: str, problem: Problem) -> None:
        """See :class:`~arranger.kube.client.problems.ProblemReporter`."""
        self.reporter.failed(source, problem)
        self.sink.failed(problem)

    def succeeded(self, source: str) -> None:
        """See :class:`~arranger.kube.client.problems.ProblemReporter`."""
        self.reporter.succeeded(source)

    def absent(self, source: str) -> None:
        """See :class:`~arranger.kube.client.problems.ProblemReporter`."""
        self.reporter.absent(source)


def both(
    first: Callable[[Any, float], None], second: Callable[[Any, float], None]
) -> Callable[[Any, float], None]:
    """Two handlers of one kind of event, called one after the other whatever the first raises."""

    def call(obj: Any, now: float) -> None:
        do_all(partial(first, obj, now), partial(second, obj, now))

    return call


def creation_time(obj: Node | Pod) -> datetime:
    """When the object was created: after a restart, the pod that waited longest is still first."""
    return obj.metadata.creation_timestamp or datetime.min.replace(tzinfo=UTC)


def trim_ended_pod(pod: Pod) -> Pod:
    """What an informer keeps of a pod: of one that has ended, which the engine does not keep
    either, nothing but its name."""
    if not pod.terminal:
        return pod
    meta = pod.metadata
    name = ObjectMeta(name=meta.name, namespace=meta.namespace, uid=meta.uid)
    return Pod(name, _NO_SPEC, _NO_STATUS)


def trim_owner(owner: AnyTrimmed) -> AnyTrimmed:
    """What an informer keeps of an owner: its name."""
    meta = owner.metadata
    return type(owner)(ObjectMeta(name=meta.name, namespace=meta.namespace, uid=meta.uid))
