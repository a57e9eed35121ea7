"""What takes long is put off from one step to the next, and comes to the same in the end."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from arranger.api.effects import Bind, DeletePod
from arranger.cluster.attempt_work import AttemptWork, UnfinishedError
from arranger.cluster.nodes.selector_counts import SelectorCounts
from arranger.cluster.pod_info import PodInfo
from arranger.engine.assembly.settings import EngineSettings
from arranger.engine.engine import Engine
from arranger.engine.pod import attempt_limits
from arranger.plugins import default_profile
from tests.builders import PodBuilder, a_cluster, a_disruption_budget, a_node, a_pod

NODES = 80


def _is_web(pod: PodInfo) -> bool:
    return pod.pod.metadata.labels.get("app") == "web"


@pytest.mark.parametrize("seed", range(20))
def test_counts_in_pieces_are_those_that_are_counted_at_once(seed: int) -> None:
    rng = random.Random(seed)
    cluster, placed, work = a_cluster(*(a_node(f"n{n}") for n in range(NODES))), 0, AttemptWork()

    def place() -> None:
        nonlocal placed
        pod = a_pod(f"p{placed}").labelled(app=rng.choice(["web", "db"]))
        pod = pod.in_namespace(rng.choice("ab")).on(f"n{rng.randrange(NODES)}")
        cluster.observe_pod(pod.info())
        placed += 1

    for _ in range(1500):
        place()
    for namespaces in (None, frozenset("a")):
        counts = SelectorCounts(cluster.table, namespaces, _is_web, work)
        steps = 0
        while True:
            steps += 1
            assert steps < 100, "it never comes to an end"
            try:
                with work.at_most(200):
                    found = counts.by_row()
                break
            except UnfinishedError:
                place()
        assert steps > 3
        expected = SelectorCounts(cluster.table, namespaces, _is_web).by_row()
        assert found.tolist() == expected.tolist()


def test_few_changes_are_counted_however_little_may_be_spent() -> None:
    work = AttemptWork()
    cluster = a_cluster(*(a_node(f"n{n}") for n in range(NODES)), a_pod("p").on("n1"))
    counts = SelectorCounts(cluster.table, None, lambda _: True, work)
    counts.by_row()
    cluster.observe_pod(a_pod("q").on("n1").info())
    with work.at_most(0):
        assert counts.by_row()[1] == 2


class World:
    """A full cluster that is looked at in small steps."""

    def __init__(self) -> None:
        self.engine = Engine(EngineSettings([default_profile()]))
        for n in range(NODES):
            node = a_node(f"n{n}").offers(cpu=4, pods=20).in_zone(f"z{n % 3}")
            self.engine.handlers.on_node_updated(node.build(), 0.0)
        rng = random.Random(1)
        for n in range(8 * NODES):
            pod = a_pod(f"low-{n}").in_namespace(f"team-{n % 5}").labelled(app=f"a{n % 7}")
            pod = pod.needs(cpu="450m").with_priority(rng.randrange(5)).on(f"n{n % NODES}")
            self.engine.handlers.on_pod_updated(pod.build(), 0.0)
        self.engine.run(0.0)
        self.effects: list[object] = []

    def place(self, *pods: PodBuilder, between: Callable[[int], None] = lambda _: None) -> int:
        """How many steps it took until nothing was left to do; ``between`` is told after each."""
        for pod in pods:
            self.engine.handlers.on_pod_updated(pod.build(), 1.0)
        steps = 0
        while self.engine.ready:
            steps += 1
            assert steps < 500, "it never comes to an end"
            self.effects += self.engine.run(1.0, limit=1)
            self.engine.queue.check_consistent()
            between(steps)
        self.engine.check_consistent()
        return steps

    @property
    def decided(self) -> set[str]:
        """Who is bound where, and who is evicted."""
        bound = {f"{e.pod.name} to {e.node}" for e in self.effects if isinstance(e, Bind)}
        return bound | {f"not {e.pod.name}" for e in self.effects if isinstance(e, DeletePod)}


ZONE = "topology.kubernetes.io/zone"
CASES: dict[str, PodBuilder] = {
    "it counts the pods of all namespaces": a_pod("p").apart(
        "kubernetes.io/hostname", {"app": "a1"}, namespaceSelector={}
    ),
    "it looks for victims": a_pod("p").needs(cpu=2).with_priority(9),
    "it fits nowhere": a_pod("p").needs(cpu=2),
    "it is placed at once": a_pod("p"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_decision_in_steps_is_that_of_one(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pod = CASES[name]
    at_once = World()
    at_once.place(pod)
    monkeypatch.setattr(attempt_limits, "MAX_WORK", 100)
    in_steps = World()
    steps = in_steps.place(pod)
    assert in_steps.decided == at_once.decided
    assert (steps > 5) == (name != "it is placed at once")


def test_victims_for_a_pod_that_avoids_others_are_sought_in_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(attempt_limits, "MAX_WORK", 1000)
    world = World()
    for n in range(NODES - 1):  # where it cannot be, whoever leaves
        other = a_pod(f"keeps-off-{n}").labelled(app="other").with_priority(100).on(f"n{n}")
        world.engine.handlers.on_pod_updated(other.build(), 0.0)
    avoiding = (
        a_pod("p").needs(cpu=2).with_priority(9).apart("kubernetes.io/hostname", {"app": "other"})
    )
    assert world.place(avoiding) > 5
    victims = {text for text in world.decided if text.startswith("not ")}
    assert victims, "it is told that nobody may leave for it"
    on_last = {f"not low-{n}" for n in range(8 * NODES) if n % NODES == NODES - 1}
    assert victims <= on_last


def test_who_is_edited_or_deleted_between_two_steps_is_looked_at_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(attempt_limits, "MAX_WORK", 100)
    world = World()
    pod = CASES["it looks for victims"]
    world.engine.handlers.on_pod_updated(pod.build(), 1.0)
    world.engine.run(1.0, limit=1)
    world.place(pod.labelled(edited="yes"))
    assert any(text.startswith("not ") for text in world.decided)
    other = a_pod("q").needs(cpu="2100m").with_priority(9)
    world.engine.handlers.on_pod_updated(other.build(), 1.0)
    world.engine.run(1.0, limit=1)
    world.engine.handlers.on_pod_deleted("default/q", 1.0)
    world.place()
    assert "default/q" not in {member.pod.key for member in world.engine.pods()}


@pytest.mark.parametrize("step", [200, 20_000])
@pytest.mark.parametrize("why", ["protected by a budget", "more important"])
def test_who_looks_at_pods_evicts_the_cheapest_however_much_work_that_is(
    why: str, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempt_limits, "MAX_WORK", step)
    world, cheap = World(), f"n{NODES - 1}"
    for n in range(8 * NODES):
        kept = n % NODES != NODES - 1
        pod = a_pod(f"low-{n}").in_namespace(f"team-{n % 5}").needs(cpu="450m").on(f"n{n % NODES}")
        pod = pod.labelled(kept=str(kept)).with_priority(int(kept and why == "more important"))
        world.engine.handlers.on_pod_updated(pod.build(), 0.5)
    if why == "protected by a budget":
        for n in range(5):
            budget = a_disruption_budget({"matchLabels": {"kept": "True"}}, namespace=f"team-{n}")
            world.engine.handlers.on_disruption_budget_updated(budget, 0.5)
    alone = a_pod("p").needs(cpu=2).with_priority(9).labelled(app="p").near(ZONE, {"app": "p"})
    world.place(alone)
    victims = {text for text in world.decided if text.startswith("not ")}
    assert victims, "it evicts nobody"
    on_cheap = {f"not low-{n}" for n in range(8 * NODES) if f"n{n % NODES}" == cheap}
    assert victims <= on_cheap
