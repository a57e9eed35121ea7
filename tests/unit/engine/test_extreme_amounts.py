"""Whatever amounts an API server takes: what is bound fits by plain sums, and what fits is bound.

The judge adds Python's integers, which have no end, and knows nothing of columns.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import numpy as np
import pytest
from hypothesis import Phase, event, given, settings
from hypothesis import strategies as st

from arranger.api.effects import Bind
from arranger.api.types.pod_groups import VolcanoPodGroup
from arranger.api.types.resource_claims import ResourceClaim
from arranger.plugins import default_profile
from tests.builders import NodeBuilder, PodBuilder, a_cluster, a_node, a_pod, a_pod_group, a_queue
from tests.unit.engine.harness import EngineHarness, of_kind, placements

#: ``ARRANGER_WORLDS=10000`` tries more.
EXAMPLES: Final = int(os.environ.get("ARRANGER_WORLDS", "200"))
PHASES: Final = (Phase.generate, Phase.shrink)
FOO: Final = "example.com/foo"
NAMES: Final = ("cpu", "memory", "ephemeral-storage", FOO)
#: Up to this amount pods are placed; no larger one fits anywhere, whatever a node says.
LARGEST: Final = 2**52 - 1
_MAX: Final = 2**63 - 1
#: Text → what it is in whole units.
AMOUNTS: Final = {
    "0": 0,
    "1": 1,
    "2": 2,
    "7": 7,
    "1Gi": 2**30,
    "4Ti": 2**42,
    "4398046511103": 2**42 - 1,
    "3Pi": 3 * 2**50,
    "4503599627370495": 2**52 - 1,
    "4Pi": 2**52,
    "9E": 9 * 10**18,
    "9223372036854775807": _MAX,
    "10e999999": _MAX,
    "1e1000000": _MAX,
    "9" * 500: _MAX,
}
SMALL: Final = ("0", "1", "2", "7", "1Gi")
#: As an API server takes and stores them: whole where the resource must be whole.
AMOUNT: Final = st.one_of(st.sampled_from(SMALL), st.sampled_from(sorted(AMOUNTS)))
RESOURCES: Final = st.dictionaries(st.sampled_from(NAMES), AMOUNT, max_size=3)


def units(name: str, text: str) -> int:
    return AMOUNTS[text] * (1000 if name == "cpu" else 1)


def asked(pod: dict[str, Any]) -> Counter[str]:
    """What a pod occupies, by kube-scheduler's formula, in numbers without end."""
    containers: Counter[str] = Counter()
    sidecars: Counter[str] = Counter()
    peak: Counter[str] = Counter()
    spec = pod["spec"]

    def requests(container: dict[str, Any]) -> Counter[str]:
        stated = container.get("resources", {}).get("requests", {})
        return Counter({name: units(name, text) for name, text in stated.items()})

    for container in spec["containers"]:
        containers += requests(container)
    for container in spec.get("initContainers", ()):
        if container.get("restartPolicy") == "Always":
            sidecars += requests(container)
            peak |= sidecars
        else:
            peak |= requests(container) + sidecars
    overhead = Counter({n: units(n, text) for n, text in spec.get("overhead", {}).items()})
    return ((containers + sidecars) | peak) + overhead + Counter(pods=1)


@st.composite
def pods(draw: st.DrawFn, name: str) -> PodBuilder:
    pod = a_pod(name).needs(draw(RESOURCES))
    for form in draw(st.lists(st.sampled_from(("container", "init", "sidecar")), max_size=2)):
        pod = getattr(pod, form)(**draw(RESOURCES))
    if draw(st.booleans()):
        pod = pod.with_overhead(**draw(RESOURCES))
    return pod.in_queue("q") if draw(st.booleans()) else pod


@st.composite
def nodes(draw: st.DrawFn, name: str) -> NodeBuilder:
    slots = draw(st.sampled_from(("1", "7", "9E", "1e1000000")))
    return a_node(name).offers({**dict.fromkeys(NAMES, "0"), **draw(RESOURCES), "pods": slots})


@dataclass(slots=True)
class World:
    """What there is, in numbers without end."""

    offers: dict[str, Counter[str]]
    limits: Counter[str]
    placed: dict[str, tuple[str, PodBuilder]] = field(default_factory=dict)

    def used(self, node: str) -> Counter[str]:
        on_it = [asked(pod.manifest()) for where, pod in self.placed.values() if where == node]
        return sum(on_it, Counter())

    def used_of_queue(self) -> Counter[str]:
        of_it = [pod.manifest() for _, pod in self.placed.values()]
        return sum((asked(pod) for pod in of_it if in_queue(pod)), Counter())

    def has_room(self, pod: PodBuilder, node: str, largest: int = _MAX) -> bool:
        """Whether there is room for what a pod asks for, whatever others ask for beside it."""
        wanted, used, offered = asked(pod.manifest()), self.used(node), self.offers[node]
        return all(used[name] + n <= min(offered[name], largest) for name, n in wanted.items())

    def within_limits(self, pod: PodBuilder, *, strictly: bool) -> bool:
        """Whether its queue may use as much; ``strictly``: even if it asks for none of it."""
        if not in_queue(pod.manifest()):
            return True
        wanted, used = asked(pod.manifest()), self.used_of_queue()
        limits = [(name, n) for name, n in self.limits.items() if strictly or wanted[name]]
        return all(used[name] + wanted[name] <= n for name, n in limits)


def in_queue(pod: dict[str, Any]) -> bool:
    return "annotations" in pod["metadata"]


def offered(node: NodeBuilder) -> Counter[str]:
    stated = node.manifest()["status"]["allocatable"]
    return Counter({name: units(name, text) for name, text in stated.items()})


@settings(max_examples=EXAMPLES, deadline=None, derandomize=True, phases=PHASES)
@given(st.data())
def test_what_is_bound_fits_and_what_fits_is_bound(data: st.DataObject) -> None:
    members = [data.draw(nodes(f"n{n}")) for n in range(data.draw(st.integers(1, 3)))]
    # A limit of nothing shuts a queue that uses some: that is another story.
    limits = {name: text for name, text in data.draw(RESOURCES).items() if text != "0"}
    queue = a_queue("q", capability=limits, deserved=data.draw(RESOURCES))
    world = World(
        {node.manifest()["metadata"]["name"]: offered(node) for node in members},
        Counter({name: units(name, text) for name, text in limits.items()}),
    )
    harness = EngineHarness(default_profile())
    harness.observe(*members, queue, a_queue("default"))
    for n in range(data.draw(st.integers(0, 4))):
        where, pod = data.draw(st.sampled_from(sorted(world.offers))), data.draw(pods(f"b{n}"))
        harness.observe(pod.on(where))
        world.placed[f"b{n}"] = where, pod
    waiting = {f"p{n}": data.draw(pods(f"p{n}")) for n in range(data.draw(st.integers(1, 4)))}
    harness.observe(*waiting.values())
    for leaving in [None, *sorted(world.placed)]:
        if leaving is not None:
            harness.observe_deleted(world.placed.pop(leaving)[1])
        harness.now += 1000.0  # beyond any back-off
        for bind in of_kind(Bind, harness.run()):
            pod = waiting.pop(bind.pod.name)
            assert world.has_room(pod, bind.node), "there is no such room"
            assert world.within_limits(pod, strictly=False), "it is too much for its queue"
            world.placed[bind.pod.name] = bind.node, pod
            harness.settle(bind)
            harness.observe(pod.on(bind.node))
        for pod in waiting.values():
            if not world.within_limits(pod, strictly=True):
                continue
            room = [node for node in world.offers if world.has_room(pod, node, LARGEST)]
            assert not room, f"{asked(pod.manifest())} fits on {room}: {world}"
    event(f"bound: {len(world.placed)}")


LARGE: Final = ("9E", "4Pi", "3Pi", "1e1000000")


@pytest.mark.parametrize("amount", LARGE)
@pytest.mark.parametrize("count", [3, 1024, 2048, 4096])
def test_pods_without_measure_on_many_nodes_promise_nothing(amount: str, count: int) -> None:
    """Three nodes of four are full, and 1.2 times the cluster may be promised."""
    harness = EngineHarness(default_profile())
    harness.observe(*(a_node(f"n{n}").offers(cpu=4, memory="256Gi") for n in range(4)))
    for n in range(count):
        pod = a_pod(f"g-{n}").needs(memory=amount).on(f"n{n % 3}")
        harness.engine.handlers.on_pod_updated(pod.build(), 0.0)
    group = a_pod_group("g", least=1, minResources={"memory": "500Gi"})
    harness.engine.handlers.on_pod_group_updated(group.build(VolcanoPodGroup), 0.0)
    harness.observe(a_pod("p").annotated({"scheduling.k8s.io/group-name": "g"}).needs(memory="1Gi"))
    assert placements(harness.run()) == []


@pytest.mark.parametrize("amount", [*LARGE, "1"])
def test_nodes_without_measure_are_no_reason_to_call_a_gang_too_large(amount: str) -> None:
    harness = EngineHarness(default_profile())
    for n in range(3000):
        node = a_node(f"n{n}").offers(cpu=4, memory=amount, pods=amount)
        harness.engine.handlers.on_node_updated(node.build(), 0.0)
    members = [a_pod(f"p{n}").in_gang("g", 2) for n in range(2)]
    harness.observe(*members)
    assert len(placements(harness.run())) == 2


@pytest.mark.parametrize("number", [100, 2**31 - 1, 2**63 - 1])
def test_claims_for_more_devices_than_there_are_get_none(number: int) -> None:
    request = {"name": "r", "exactly": {"deviceClassName": "c", "count": number}}
    claim = msgspec.convert(
        {
            "metadata": {"name": "c", "namespace": "default", "uid": "c"},
            "spec": {"devices": {"requests": [request]}},
        },
        ResourceClaim,
    )
    harness = EngineHarness(default_profile())
    harness.observe(a_node("n"))
    harness.engine.handlers.on_object_updated(claim, 0.0)
    pod = a_pod("p").with_spec(resourceClaims=[{"name": "c", "resourceClaimName": "c"}])
    harness.observe(pod, a_pod("tenant"))
    assert placements(harness.run()) == [("tenant", "n")]


@pytest.mark.parametrize("size", [-1, 2**31, 2**62, 2**63 - 1])
def test_an_image_without_measure_is_worth_no_more_than_a_large_one(size: int) -> None:
    harness = EngineHarness(default_profile())
    harness.observe(a_node("a").holding("img:latest", size).holding("other:latest", size))
    harness.observe(a_node("b").holding("img:latest", 2**31))
    with np.errstate(all="raise"):
        harness.observe(a_pod("p").running("img", "other"), a_pod("q").running("img"))
        assert len(placements(harness.run())) == 2


def test_slots_for_pods_on_all_nodes_can_be_counted() -> None:
    table = a_cluster(*(a_node(f"n{n}").offers(pods="9E") for n in range(3000))).table
    assert int(table.replica_capacity(a_pod("p").info()).sum()) > 0
