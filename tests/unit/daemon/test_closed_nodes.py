"""A node takes no pods while a pod on it is counted in no way, and is as before afterwards."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from msgspec import structs

from arranger.api.types.core import ContainerStatus, Pod, ResourceRequirements
from arranger.api.types.queue import Queue
from arranger.cluster.cluster import Cluster
from arranger.cluster.pod_info import PodInfo
from arranger.daemon.informers import Informers
from arranger.kube.watch.decoder import Decoder, UndecodableObject
from arranger.kube.watch.informer import Informer
from arranger.kube.watch.protobuf_decoder import decoder_of
from tests.binary_form import a_field, wrapped
from tests.builders import a_node, a_pod, a_pod_group
from tests.queueing import a_queue_manifest
from tests.unit.engine.harness import EngineHarness, placements, small_profile

NODE = a_node("n").offers(cpu=4)
ODD = a_pod("odd").needs(cpu=1).on("n")


class World:
    """One node; a pod called ``odd`` can be taken in by no book, unless ``mended``."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.mended = False
        taken_in = Cluster.observe_pod

        def observe(cluster: Cluster, pod: PodInfo) -> None:
            if pod.pod.metadata.name.startswith("odd") and not self.mended:
                raise RuntimeError("a fault of ours")
            taken_in(cluster, pod)

        monkeypatch.setattr(Cluster, "observe_pod", observe)
        self.harness = EngineHarness(small_profile())
        self._informers = Informers(self.harness.engine, lambda: self.harness.now, lambda: None)
        self.hear(NODE)
        self.harness.run()
        self.hear(ODD)

    def hear(self, *builders: object) -> None:
        """The watches show objects."""
        for builder in builders:
            obj = builder.build()  # type: ignore[attr-defined]
            self._informers._informers[type(obj)].applied(obj)

    def gone(self, *builders: object) -> None:
        """The watches show that objects are gone."""
        for builder in builders:
            obj = builder.build()  # type: ignore[attr-defined]
            self._informers._informers[type(obj)].deleted(obj)

    def informer(self, kind: type) -> Informer[Any]:
        """What the watch of a kind is heard by."""
        return self._informers._informers[kind]

    def wait(self, seconds: float = 400) -> None:
        """Time passes, with all that is to be done in it."""
        until = self.harness.now + seconds
        while (due := self.harness.engine.next_timer()) is not None and due <= until:
            self.harness.advance_to(due)
        self.harness.advance_to(until)

    def takes_pods(self) -> bool:
        """Whether the node takes one more."""
        self.hear(a_pod("new").needs(cpu=1))
        placed = "new" in dict(placements(self.harness.run()))
        self.gone(a_pod("new").needs(cpu=1))
        return placed

    def quarantined(self) -> dict[str, int]:
        return dict(self.harness.engine.barrier.quarantine.count())


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def test_it_takes_none_however_long_it_takes(world: World) -> None:
    assert not world.takes_pods()
    assert world.quarantined() == {"Node": 1, "Pod": 1}
    world.wait(10_000)
    assert not world.takes_pods()
    assert world.quarantined() == {"Node": 1, "Pod": 1}


def test_no_change_of_the_node_opens_it(world: World) -> None:
    world.hear(NODE.labelled(edited="yes"), NODE.with_status(phase="Running"))
    assert not world.takes_pods()
    world.gone(NODE)
    assert world.quarantined() == {"Pod": 1}
    world.hear(NODE)
    assert not world.takes_pods()


def test_a_change_of_the_pod_opens_it_only_if_the_pod_is_counted_then(world: World) -> None:
    world.hear(ODD.labelled(edited="yes"))
    assert not world.takes_pods()
    world.mended = True
    world.hear(ODD.labelled(edited="again"))
    world.wait(0)
    assert world.takes_pods()
    assert world.quarantined() == {}


def test_it_is_open_once_the_pod_is_counted_at_its_next_try(world: World) -> None:
    world.mended = True
    world.wait()
    assert world.takes_pods()
    assert world.quarantined() == {}
    node = world.harness.engine.cluster.table.node(0)
    assert node.status.allocatable == NODE.build().status.allocatable


@pytest.mark.parametrize("how", ["it is gone", "it has ended"])
def test_it_is_open_once_the_pod_takes_nothing_any_more(world: World, how: str) -> None:
    if how == "it is gone":
        world.gone(ODD)
    else:
        world.hear(ODD.in_phase("Succeeded"))
    world.wait(0)
    assert world.takes_pods()
    assert world.quarantined() == {}


def test_each_of_several_pods_keeps_it_closed(world: World) -> None:
    other = a_pod("odd-2").needs(cpu=1).on("n")
    world.hear(other)
    world.gone(ODD)
    world.wait(0)
    assert not world.takes_pods()
    world.gone(other)
    world.wait(0)
    assert world.takes_pods()


def an_undecodable_pod(name: str, node: str) -> UndecodableObject:
    """A pod of a wrong shape, as it comes in a list."""
    pod = a_pod(name).on(node).manifest()
    pod["spec"]["tolerations"] = 5
    _, _, [bad] = Decoder(Pod).decode_page(json.dumps({"items": [pod]}).encode())
    return bad


@pytest.mark.parametrize("how", ["it is gone", "it can be decoded"])
def test_a_pod_that_was_never_read_closes_its_node_until(world: World, how: str) -> None:
    world.mended = True
    world.wait()
    assert world.takes_pods()
    pods = world.informer(Pod)
    pods.applied(an_undecodable_pod("bad", "n"))
    assert not world.takes_pods()
    world.wait(10_000)
    assert not world.takes_pods()
    if how == "it is gone":
        pods.deleted(an_undecodable_pod("bad", "n"))
    else:
        world.hear(a_pod("bad").on("n"))
    world.wait(0)
    assert world.takes_pods()
    assert world.quarantined() == {}


def test_of_a_pod_that_was_read_before_the_last_known_state_holds(world: World) -> None:
    world.mended = True
    world.wait()
    world.hear(a_pod("bad").on("n"))
    world.informer(Pod).applied(an_undecodable_pod("bad", "n"))
    assert world.takes_pods()


def test_the_node_of_a_pod_is_read_of_either_form_unless_it_has_ended() -> None:
    spec, running = a_field(10, "n"), a_field(3, a_field(1, "Running"))
    meta, wrong = a_field(1, a_field(1, "bad")), a_field(22, b"\xff")
    for status, node in ((running, "n"), (a_field(3, a_field(1, "Failed")), "")):
        body = wrapped(a_field(2, meta + a_field(2, spec + wrong) + status), "List")
        _, _, [bad] = decoder_of(Pod).decode_page(body)
        assert (bad.metadata.name, bad.node) == ("bad", node)
    assert an_undecodable_pod("bad", "n").node == "n"


def test_what_is_no_amount_is_none_and_closes_no_node(world: World) -> None:
    world.mended = True
    world.wait()
    world.hear(a_pod("wrong").needs(cpu="x", memory="1Gi").host_port(80).on("n"))
    assert world.takes_pods()
    on_node = world.harness.engine.cluster.pods_on("n")
    [info] = [each for each in on_node if each.key.endswith("wrong")]
    assert info.requests["memory"] == 1 << 30
    assert info.ports


@pytest.mark.parametrize("where", ["resources", "allocated_resources"])
def test_nor_does_what_a_status_reports_that_is_no_amount(world: World, where: str) -> None:
    world.mended = True
    world.wait()
    pod = a_pod("wrong").needs(cpu=1).on("n").build()
    amounts = {"resources": ResourceRequirements(requests={"cpu": "1"}), "allocated_resources": {}}
    wrong: dict[str, Any] = {"cpu": "x"}
    amounts[where] = ResourceRequirements(requests=wrong) if where == "resources" else wrong
    reported = ContainerStatus(name=pod.spec.containers[0].name, **amounts)  # type: ignore[arg-type]
    status = structs.replace(pod.status, container_statuses=[reported])
    world.informer(Pod).applied(structs.replace(pod, status=status))
    assert world.takes_pods()
    on_node = world.harness.engine.cluster.pods_on("n")
    [info] = [each for each in on_node if each.key.endswith("wrong")]
    assert info.requests["cpu"] == 1000


def test_so_it_is_with_each_node(world: World) -> None:
    nodes = [f"m{n}" for n in range(5)]
    world.hear(*(a_node(name).offers(cpu=4) for name in nodes))
    world.hear(*(a_pod(f"odd-{name}").needs(cpu=1).on(name) for name in nodes))
    assert not world.takes_pods()


def test_a_pod_that_was_never_read_closes_the_queue_that_its_pod_group_may_name(
    world: World,
) -> None:
    world.mended = True
    world.wait()
    queues = world.informer(Queue)
    for name in ("q", "r"):
        queues.applied(msgspec.convert(a_queue_manifest(name), Queue))
    group = a_pod_group("g", queue="q").build()
    world.informer(type(group)).applied(group)
    world.informer(Pod).applied(an_undecodable_pod("bad", "n"))
    ledger = world.harness.engine.ledger
    told = "one of its pods on nodes cannot be counted"
    assert [told in ledger.why_no_pods(name) for name in ("q", "r")] == [True, False]
    world.informer(Pod).deleted(an_undecodable_pod("bad", "n"))
    assert not ledger.why_no_pods("q")
