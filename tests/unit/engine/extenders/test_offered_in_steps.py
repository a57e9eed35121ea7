"""Extenders choose among nodes as they are, however long it took to look at all of them."""

from __future__ import annotations

import pytest

from arranger.api.effects import QueryExtenderPreemption
from arranger.api.extenders import Extender
from arranger.engine.assembly.settings import EngineSettings
from arranger.engine.engine import Engine
from arranger.engine.pod import attempt_limits
from arranger.plugins import default_profile
from tests.builders import PodBuilder, a_node, a_pod

NODES = 60
ZONE = "topology.kubernetes.io/zone"
CHOOSES = Extender("http://chooses", preempt_verb="preempt")
#: It evicts for itself; nobody may be in a zone with one that it avoids.
TAKER = a_pod("p").needs(cpu=4).with_priority(9).apart(ZONE, {"app": "q"})


class World:
    """Full nodes in three zones, and a taker whose candidates are looked at in small steps."""

    def __init__(self) -> None:
        self.engine = Engine(EngineSettings([default_profile()], extenders=(CHOOSES,)))
        for n in range(NODES):
            node = a_node(f"n{n}").offers(cpu=4).in_zone(f"z{n % 3}")
            self.engine.handlers.on_node_updated(node.build(), 0.0)
            self.show(a_pod(f"low-{n}").needs(cpu=4).labelled(app="low").on(f"n{n}"))
        self.engine.run(0.0)
        self.show(TAKER)

    def show(self, pod: PodBuilder) -> None:
        self.engine.handlers.on_pod_updated(pod.build(), 1.0)

    def step(self) -> list[object]:
        effects: list[object] = [*self.engine.run(1.0, limit=1, seconds=1e9)]
        self.engine.check_consistent()
        return effects


@pytest.mark.parametrize("steps", [2, 5, 10])
def test_no_node_is_offered_that_would_not_do_any_more(
    steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempt_limits, "MAX_WORK", 1500)
    world = World()
    for _ in range(steps):
        assert world.step() == [], "it looks for candidates"
    world.show(a_pod("avoided").labelled(app="q").with_priority(99).on("n0"))
    while not (effects := world.step()):
        assert world.engine.ready, "it never comes to an end"
    (asked,) = (each for each in effects if isinstance(each, QueryExtenderPreemption))
    assert asked.victims
    assert {int(node[1:]) % 3 for node in asked.victims} <= {1, 2}
