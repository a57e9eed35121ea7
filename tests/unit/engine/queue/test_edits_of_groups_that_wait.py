"""Members that wait are looked at again when their PodGroup says something else."""

from __future__ import annotations

import msgspec
import pytest

from arranger.api.annotations import CARD_NAME, VOLCANO_GROUP
from arranger.api.effects import Effect
from arranger.api.types.core import Namespace
from arranger.api.types.pod_groups import VolcanoPodGroup
from arranger.plugins import default_profile
from arranger.quota.preemption.policy import QuotaConfig
from tests.builders import a_node, a_pod, a_pod_group, a_queue
from tests.queueing import CARD, GPU, gpu_node
from tests.unit.engine.harness import EngineHarness, placements
from tests.unit.engine.reservations.test_reservations import reserved

MEMBER = a_pod().needs(cpu=2).annotated({VOLCANO_GROUP: "g"})


def bound(*effects: list[Effect]) -> set[str]:
    return {name for some in effects for name, _ in placements(some)}


class World:
    """A node, queues of which one is full, and a Namespace or none."""

    def __init__(self, *, known: bool) -> None:
        self.harness = EngineHarness(default_profile(), queues=QuotaConfig())
        if known:
            namespace = msgspec.convert({"metadata": {"name": "default"}}, Namespace)
            self.harness.engine.handlers.on_object_updated(namespace, 0.0)
        self.harness.start()
        self.harness.observe(
            gpu_node(),
            a_node("other").offers(cpu=1000),
            a_queue("open"),
            a_queue("full", capability={"cpu": 1}),
            a_queue("default", cards={CARD: 8}),
        )

    def group(self, queue: str, card: str = "") -> None:
        """What the PodGroup says from now on."""
        manifest = a_pod_group("g", minMember=1, queue=queue).manifest()
        manifest["metadata"]["annotations"] = {CARD_NAME: card} if card else {}
        group = msgspec.convert(manifest, VolcanoPodGroup)
        self.harness.engine.handlers.on_pod_group_updated(group, self.harness.now)


@pytest.mark.parametrize("known", [True, False])
def test_another_queue(known: bool) -> None:
    world = World(known=known)
    world.group("full")
    world.harness.observe(MEMBER)
    assert bound(world.harness.run(), world.harness.advance_to(100.0)) == set()
    world.group("open")
    assert bound(world.harness.run(), world.harness.advance_to(700.0)) == {"p"}


@pytest.mark.parametrize("known", [True, False])
def test_another_card(known: bool) -> None:
    world = World(known=known)
    world.group("default", "NVIDIA-OTHER")
    world.harness.observe(a_pod().needs({GPU: 1}).annotated({VOLCANO_GROUP: "g"}))
    assert bound(world.harness.run(), world.harness.advance_to(100.0)) == set()
    world.group("default", CARD)
    assert bound(world.harness.run(), world.harness.advance_to(700.0)) == {"p"}


@pytest.mark.parametrize("known", [True, False])
def test_a_queue_in_which_there_is_no_room_any_more(known: bool) -> None:
    world = World(known=known)
    for node in ("other", gpu_node().build().metadata.name):
        world.harness.engine.handlers.on_object_updated(reserved(f"r-{node}", 0, 500, node), 0.0)
    world.group("open")
    world.harness.observe(MEMBER)
    assert bound(world.harness.run(), world.harness.advance_to(100.0)) == set()
    world.group("full")
    later = world.harness.run(), world.harness.advance_to(300.0), world.harness.advance_to(700.0)
    assert bound(*later) == set()
