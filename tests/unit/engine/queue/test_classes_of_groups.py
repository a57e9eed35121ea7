"""Pods of one class are judged by the queue of their own PodGroup, whoever came first.

What a class may do is worked out for its first pod, which may be gone, or in another gang, since.
"""

from __future__ import annotations

import msgspec
import pytest

from arranger.api.annotations import GANG_NAME, VOLCANO_GROUP
from arranger.api.effects import Effect
from arranger.api.types.pod_groups import VolcanoPodGroup
from arranger.plugins import default_profile
from arranger.quota.preemption.policy import QuotaConfig
from tests.builders import PodBuilder, a_node, a_pod, a_pod_group, a_queue
from tests.unit.engine.harness import EngineHarness, placements


class World:
    """A large node, a queue in which there is room and one of two CPUs."""

    def __init__(self, **groups: str) -> None:
        self.harness = EngineHarness(default_profile(), queues=QuotaConfig())
        self.harness.start()
        self.harness.observe(a_node("n").offers(cpu=1000), a_queue("open"), a_queue("default"))
        self.harness.observe(a_queue("small", capability={"cpu": 2}))
        for name, queue in groups.items():
            self.names(name, queue)

    def names(self, group: str, queue: str) -> None:
        """The queue that a PodGroup names from now on."""
        manifest = a_pod_group(group, minMember=1, queue=queue).manifest()
        found = msgspec.convert(manifest, VolcanoPodGroup)
        self.harness.engine.handlers.on_pod_group_updated(found, self.harness.now)

    def bound(self, *pods: PodBuilder) -> set[str]:
        """Those that are bound once these have come, and time has passed."""
        self.harness.observe(*pods)
        effects = list[Effect]()
        for later in (0.0, 60.0, 600.0):
            effects += self.harness.advance_to(self.harness.now + later)
        return {name for name, _ in placements(effects)}

    @property
    def used(self) -> int:
        """Thousandths of a CPU of the small queue."""
        ledger = self.harness.engine.ledger
        ledger.refresh(self.harness.engine.cluster)
        return ledger.queues["small"].used["cpu"]


def a_member(name: str, group: str, cpu: int = 2) -> PodBuilder:
    return a_pod(name).needs(cpu=cpu).annotated({VOLCANO_GROUP: group})


def test_the_first_pod_is_gone() -> None:
    world = World(g="small")
    assert world.bound(a_member("p0", "g")) == {"p0"}
    assert world.bound(a_member("p1", "g")) == set()
    world.harness.observe_deleted(a_member("p0", "g").on("n"))
    assert world.bound() == {"p1"}
    assert world.bound(a_member("p2", "g"), a_member("p3", "g")) == set()
    assert world.used == 2000


def test_the_first_pod_is_gone_and_there_is_room() -> None:
    world = World(g="open")
    world.harness.observe(a_queue("default", capability={"cpu": 0}))
    assert world.bound(a_member("p0", "g")) == {"p0"}
    world.harness.observe_deleted(a_member("p0", "g").on("n"))
    assert world.bound(a_member("p1", "g")) == {"p1"}


def test_the_first_pod_is_in_another_gang() -> None:
    world = World(g="small", h="small")
    assert world.bound(a_member("p0", "g")) == {"p0"}
    assert world.bound(a_member("w", "g")) == set()
    assert world.bound(a_member("p0", "h").on("n")) == set()
    world.names("h", "open")
    assert world.bound() == {"w"}
    assert world.bound(*(a_member(name, "g") for name in "xyz")) == set()
    assert world.used == 2000


@pytest.mark.parametrize("first", ["open", "small"])
def test_gangs_that_say_the_same_and_have_podgroups_of_different_queues(first: str) -> None:
    other = "small" if first == "open" else "open"
    world = World(a=first, b=other)

    def member(name: str, gang: str) -> PodBuilder:
        return a_pod(name).needs(cpu=2).annotated({GANG_NAME: gang})

    assert world.bound(member("a0", "a")) == {"a0"}
    assert world.bound(member("a1", "a")) == ({"a1"} if first == "open" else set())
    later = world.bound(member("b0", "b"), member("b1", "b"))
    assert len(later) == (1 if other == "small" else 2)
    assert world.used == 2000
