"""For which gangs that have waited too long nodes are kept from others, and for which not."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from arranger.api.effects import DeletePod, Effect
from arranger.api.types.queue import Queue
from arranger.engine.gang.state.policy import GangPolicy
from arranger.plugins import default_profile
from tests.builders import NodeBuilder, PodBuilder, a_node, a_pod, a_queue
from tests.unit.engine.harness import EngineHarness, of_kind, placements

Object = NodeBuilder | PodBuilder | Queue


def gang(name: str, size: int) -> list[PodBuilder]:
    """Pods ``name-0`` … of one CPU each that only run together."""
    return [a_pod(f"{name}-{n}").needs(cpu=1).in_gang(name, size) for n in range(size)]


def nodes(*cpus: int) -> list[NodeBuilder]:
    return [a_node(f"n{n}").offers(cpu=cpu) for n, cpu in enumerate(cpus)]


def bound(effects: Sequence[Effect]) -> set[str]:
    return {name for name, _ in placements(effects)}


#: What there is, with the gang that starves, and who comes after it.
IN_VAIN: dict[str, list[Object]] = {
    "the cluster is too small for it": [*nodes(2, 2), *gang("big", 5)],
    "its queue may not have as much": [
        *nodes(2, 2),
        a_queue("small", capability={"cpu": 3}),
        a_queue("default"),
        *(pod.in_queue("small") for pod in gang("big", 4)),
    ],
    "its queue has too much elsewhere": [
        *nodes(2, 2, 2),
        a_queue("small", capability={"cpu": 4}),
        *(a_pod(f"old-{n}").needs(cpu=1).in_queue("small").on("n0") for n in range(2)),
        *(pod.in_queue("small") for pod in gang("big", 3)),
    ],
    "no zone is large enough": [
        a_node("n0").in_zone("a").offers(cpu=2),
        a_node("n1").in_zone("b").offers(cpu=2),
        *(
            pod.annotated({"arranger.io/topology": "required=topology.kubernetes.io/zone"})
            for pod in gang("big", 3)
        ),
    ],
}


@pytest.mark.parametrize("there", IN_VAIN.values(), ids=IN_VAIN.keys())
def test_no_nodes_are_kept_for_a_gang_that_could_not_use_them(
    there: list[Object], harness: EngineHarness
) -> None:
    harness.observe(*there)
    assert bound(harness.run()) == set()
    for minute in range(1, 30):
        harness.advance_to(minute * 60.0)
    harness.observe(*(a_pod(f"small-{n}").needs(cpu=1) for n in range(4)))
    assert bound(harness.run()) == {f"small-{n}" for n in range(4)}


def test_nodes_are_kept_for_a_gang_of_unlike_members_that_share_them(
    harness: EngineHarness,
) -> None:
    harness.observe(
        *nodes(4),
        a_pod("old").needs(cpu=2).on("n0"),
        a_pod("leader").needs(cpu=2).in_gang("big", 3),
    )
    harness.observe(*(a_pod(f"worker-{n}").needs(cpu=1).in_gang("big", 3) for n in range(2)))
    harness.run()
    harness.advance_to(1000)
    harness.observe(a_pod("small").needs(cpu=1))
    assert bound(harness.run()) == set()
    harness.observe_deleted(a_pod("old"))
    assert bound(harness.run()) == {"leader", "worker-0", "worker-1"}


def test_nodes_are_kept_once_a_gang_has_waited_so_long_though_nothing_happens() -> None:
    harness = EngineHarness(default_profile(), gangs=GangPolicy(starvation_after=40))
    harness.observe(*nodes(4), *(a_pod(f"old-{n}").needs(cpu=2).on("n0") for n in range(2)))
    harness.observe(*gang("big", 4))
    harness.run()
    harness.advance_to(39)
    harness.advance_to(41)
    harness.observe(a_pod("small").needs(cpu=1))
    assert bound(harness.run()) == set()
    harness.observe_deleted(a_pod("old-0"))
    assert bound(harness.run()) == set(), "what is freed is kept for the gang"


def test_nobody_is_evicted_from_nodes_that_the_taker_must_not_have(
    harness: EngineHarness,
) -> None:
    harness.observe(*nodes(2), *(a_pod(f"low-{n}").needs(cpu=1).on("n0") for n in range(2)))
    never = (pod.with_priority(5).with_spec(preemptionPolicy="Never") for pod in gang("big", 2))
    harness.observe(*never)
    harness.run()
    harness.advance_to(1000)
    harness.observe(a_pod("equal").needs(cpu=1).with_priority(5))
    assert of_kind(DeletePod, harness.run()) == []
    harness.observe(a_pod("above").needs(cpu=1).with_priority(6))
    assert len(of_kind(DeletePod, harness.run())) == 1
