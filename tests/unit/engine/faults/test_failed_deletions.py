"""What a set-aside object keeps ends with it, though its deletion raises for a while."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import pytest

from arranger.api.types.core import Namespace, Node, ObjectMeta
from arranger.api.types.pod_groups import SigsPodGroup
from arranger.api.types.reservation import Reservation
from arranger.daemon.informer_handlers import EngineFaults, TimedHandler
from arranger.engine.engine import Engine
from arranger.engine.handlers.watched_kinds import WatchedKind
from arranger.kube.watch.decoder import PartialMetadata, PartialObjectMetadata
from arranger.kube.watch.informer import Informer
from tests.builders import a_node, a_pod, a_pod_group
from tests.builders.workloads import replicas
from tests.unit.engine.faults.test_deleted_objects import World
from tests.unit.engine.reservations.test_reservations import reserved


@dataclass
class Odd:
    """Objects of a kind, whose handlers raise as long as they are to.

    Args:
        deletions: how many are to raise.
    """

    world: World
    kind: WatchedKind[Any]
    deletions: int
    updates: bool = True
    gone: list[str] = field(default_factory=list)

    def informer(self) -> Informer[Any]:
        kind = replace(self.kind, updated=self.updated, deleted=self.deleted)
        barrier, clock = self.world.engine.barrier, self.world.clock
        handler = TimedHandler(barrier, kind, clock)
        return Informer(handler, faults=EngineFaults(barrier, kind, clock))

    def updated(self, obj: Any, now: float) -> None:
        if self.updates:
            raise RuntimeError("odd")
        self.kind.updated(obj, now)

    def deleted(self, obj: Any, now: float) -> None:
        # What stands in for an object is deleted, too, while it is being set aside.
        if not self.updates and self.deletions:
            self.deletions -= 1
            raise RuntimeError("odd")
        self.gone.append(obj.metadata.uid)
        self.kind.deleted(obj, now)


def _kind(of: type[Any]) -> Callable[[Engine], WatchedKind[Any]]:
    return lambda engine: engine.handlers.kinds[of]


def _workload_kind(engine: Engine) -> WatchedKind[Any]:
    return WatchedKind(
        "kubeflow.org/v1", "PyTorchJob", lambda *_: None, lambda *_: None, owns_pods=True
    )


OBJECTS: dict[str, tuple[Callable[[Engine], WatchedKind[Any]], Any]] = {
    "a PodGroup": (_kind(SigsPodGroup), a_pod_group("g", least=2, queue="q").build()),
    "an owner": (_workload_kind, replicas("PyTorchJob", "net", Worker=1).build()),
    "a Reservation": (_kind(Reservation), reserved("r", 50, 5000, "n")),
    "a namespace": (_kind(Namespace), Namespace(ObjectMeta(name="team", uid="uid-team"))),
    "a pod": (lambda engine: engine.barrier.pod_kind, a_pod("odd").needs(cpu=1).on("n").build()),
}


def set_aside(name: str, deletions: int) -> tuple[World, Odd, Informer[Any], Any]:
    """An object that keeps something, and whose deletion is going to raise."""
    world = World()
    kind_of, obj = OBJECTS[name]
    odd = Odd(world, kind_of(world.engine), deletions)
    informer = odd.informer()
    if name == "a pod":
        close_node_for(world, obj)
    else:
        informer.applied(obj)
    assert world.kept()
    odd.updates = False
    odd.gone.clear()
    return world, odd, informer, obj


def close_node_for(world: World, pod: Any) -> None:
    """No book can take the pod in, so that its node is closed."""
    world.engine.handlers.start(world.now)
    with pytest.MonkeyPatch.context() as patch:

        def observe_pod(*_: Any) -> None:
            raise RuntimeError("odd")

        patch.setattr("arranger.cluster.cluster.Cluster.observe_pod", observe_pod)
        world.pods.applied(pod)
    assert world.engine.barrier._held.closes("Node", "n")


def made_again(obj: Any) -> Any:
    meta = msgspec.structs.replace(obj.metadata, uid="uid-of-the-newer")
    return msgspec.structs.replace(obj, metadata=meta)


@pytest.mark.parametrize("name", OBJECTS)
@pytest.mark.parametrize("deletions", [0, 1, 2, 4])
def test_nothing_is_kept_for_an_object_once_its_deletion_is_done(name: str, deletions: int) -> None:
    world, odd, informer, obj = set_aside(name, deletions)
    informer.deleted(obj)
    world.let_time_pass()
    assert odd.gone
    assert not world.kept()
    assert not world.known()
    assert not world.engine.barrier.quarantine


@pytest.mark.parametrize("name", OBJECTS)
def test_nothing_is_kept_for_an_object_once_there_is_another_of_its_name(name: str) -> None:
    world, odd, informer, obj = set_aside(name, 3)
    informer.deleted(obj)
    informer.applied(made_again(obj))
    world.let_time_pass()
    assert "uid-of-the-newer" not in odd.gone
    assert not world.kept()
    assert not world.engine.barrier.quarantine


@pytest.mark.parametrize("again", [1, 2, 5])
def test_a_node_that_is_made_again_and_is_closed_is_not_deleted_in_place_of_the_other(
    again: int,
) -> None:
    world = World()
    world.engine.handlers.start(0.0)
    barrier, metadata = world.engine.barrier, PartialMetadata("odd", "default", "uid-odd")
    undecodable = PartialObjectMetadata(metadata)
    barrier.on_undecodable(barrier.pod_kind, undecodable, "odd", "n", 0.0, known=False)
    odd = Odd(world, world.engine.handlers.kinds[Node], again + 1, updates=False)
    informer, node = odd.informer(), a_node("n").build()
    informer.applied(node)
    informer.deleted(node)
    informer.applied(made_again(node))
    for world.now in (1, 5, 60, 400):
        world.engine.run(world.now)
    assert barrier._held.closes("Node", "n")
    assert "n" in world.engine.cluster.table.index
    assert not odd.gone


@pytest.mark.parametrize("name", ["a PodGroup", "a namespace", "a Reservation"])
def test_a_deletion_is_tried_again_though_the_object_was_being_watched(name: str) -> None:
    world, odd, informer, obj = set_aside(name, 0)
    informer.applied(obj)
    world.let_time_pass()
    barrier = world.engine.barrier
    key = odd.kind.kind, obj.metadata.namespace, obj.metadata.name
    barrier._trials._watched[key] = world.now + 2  # it counts again, and has been accused
    odd.deletions = 5
    informer.deleted(obj)
    start = world.now
    for seconds in (1, 3, 7, 15, 60, 400):
        world.now = start + seconds
        world.engine.run(world.now)
    assert odd.gone
    assert not barrier.quarantine
