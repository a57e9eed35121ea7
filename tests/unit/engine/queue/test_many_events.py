"""Thousands of events beside hundreds of kinds that wait keep nobody from being tried for long.

Counted are questions whether an event may help, and who is bound.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from arranger.api.effects import Applied, Bind
from arranger.cluster.columns import IntArray
from arranger.cluster.nodes.node_table import NodeTable
from arranger.cluster.pod_info import PodInfo
from arranger.engine.queue import open_questions
from arranger.engine.queue.backoff import SchedulingQueueConfig
from arranger.engine.queue.hints import HelpQuestion
from arranger.engine.queue.open_questions import MOST_OPEN
from arranger.framework.runtime.evaluation import Evaluation
from arranger.plugins import default_profile
from tests.builders import PodBuilder, a_node, a_pod
from tests.unit.engine.harness import EngineHarness, of_kind

NODES, KINDS, EVENTS = 20, 60, 600


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A word for each question that is asked."""
    found, real = list[str](), HelpQuestion.may_help

    def may_help(question: HelpQuestion, *args: object) -> bool:
        found.append("asked")
        return real(question, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(HelpQuestion, "may_help", may_help)
    return found


def _large(n: int) -> PodBuilder:
    return a_pod(f"w-{n}").needs(cpu=45, memory=f"{n + 1}Mi")


def _near(n: int) -> PodBuilder:
    return a_pod(f"w-{n}").needs(cpu=1).near("kubernetes.io/hostname", {"app": f"a{n}"})


def _ends(harness: EngineHarness, n: int) -> None:
    harness.engine.handlers.on_pod_deleted(f"default/r-{n}", harness.now)


def _comes(harness: EngineHarness, n: int) -> None:
    harness.observe(a_pod(f"x-{n}").labelled(app="x").on(f"n{n % NODES}"))


def _is_relabelled(harness: EngineHarness, n: int) -> None:
    harness.observe(a_pod(f"r-{n}").needs(cpu=1).on(f"n{n % NODES}").labelled(app=f"b{n}"))


@pytest.mark.parametrize(
    ("waiting", "happens"),
    [(_large, _ends), (_near, _comes), (_near, _is_relabelled)],
    ids=["pods end", "pods come", "pods are relabelled"],
)
def test_who_comes_meanwhile_is_bound_soon(
    waiting: Callable[[int], PodBuilder],
    happens: Callable[[EngineHarness, int], None],
    asked: list[str],
) -> None:
    harness = EngineHarness(default_profile())
    harness.observe(*(a_node(f"n{n}").offers(cpu=50, pods=110) for n in range(NODES)))
    harness.observe(*(a_pod(f"r-{n}").needs(cpu=1).on(f"n{n % NODES}") for n in range(EVENTS)))
    harness.start()
    harness.observe(*(waiting(n) for n in range(KINDS)))
    harness.run()
    asked.clear()
    for n in range(EVENTS):
        happens(harness, n)
    harness.observe(a_pod("another").needs(cpu=1))
    bound = set[str]()
    for _ in range(8):  # asking takes some steps, and no more
        bound |= {bind.pod.name for bind in of_kind(Bind, harness.engine.run(harness.now))}
    assert "another" in bound
    assert len(asked) <= 2 * MOST_OPEN, "not each kind about each event"
    harness.engine.check_consistent()


def _bound(seed: int) -> dict[str, str]:
    """Who of many kinds gets a node as pods end and come, and which; whoever fits must."""
    rng = random.Random(seed)
    config = SchedulingQueueConfig(asked_with_event=rng.choice((0, 4)))
    harness = EngineHarness(default_profile(), queue_config=config)
    harness.observe(*(a_node(f"n{n}").offers(cpu=10, pods=50) for n in range(4)))
    running = {f"r-{n}": f"n{n % 4}" for n in range(40)}
    harness.observe(*(a_pod(name).needs(cpu=1).on(node) for name, node in running.items()))
    harness.start()
    waiting = [
        a_pod(f"w-{n}").needs(cpu=rng.randint(1, 6)).near("kubernetes.io/hostname", {"app": "x"})
        if rng.random() < 0.4
        else a_pod(f"w-{n}").needs(cpu=rng.randint(1, 6), memory=f"{n}Mi")
        for n in range(12)
    ]
    harness.observe(*waiting)
    harness.run()
    bound: dict[str, str] = {}
    for _ in range(12):
        for name in rng.sample(sorted(running), min(len(running), rng.randint(0, 6))):
            del running[name]
            harness.engine.handlers.on_pod_deleted(f"default/{name}", harness.now)
            if rng.random() < 0.3:
                running[f"{name}x"] = node = f"n{rng.randrange(4)}"
                harness.observe(a_pod(f"{name}x").labelled(app="x").on(node))
        while harness.engine.ready:
            for bind in of_kind(Bind, harness.engine.run(harness.now)):
                bound[bind.pod.name] = bind.node
                harness.engine.on_outcome(bind, Applied(), harness.now)
        harness.engine.check_consistent()
        left = [pod for pod in waiting if pod.build().metadata.name not in bound]
        for pod in left:
            member = harness.entity(pod.build().metadata.name).representative
            cluster = harness.engine.cluster
            found = Evaluation(member.profile, cluster, member.pod, scoring=False)
            assert not found.feasible.any(), f"{member.pod.key} fits, and was not tried"
    return bound


@pytest.mark.parametrize("most", [0, MOST_OPEN])
def test_nobody_who_fits_is_forgotten(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many events are asked about at once, or not at all."""
    monkeypatch.setattr(open_questions, "MOST_OPEN", most)
    assert sum(len(_bound(seed)) for seed in range(25)) > 50


def test_nodes_that_have_become_free_are_gone_through_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not once for each kind that waits; and whoever is too large for each of them is not tried."""
    looks, real = list[int](), NodeTable.replica_capacity

    def look(table: NodeTable, *pods: PodInfo, empty: bool = False) -> IntArray:
        looks.append(table.size)
        return real(table, *pods, empty=empty)

    monkeypatch.setattr(NodeTable, "replica_capacity", look)
    harness = EngineHarness(default_profile())
    harness.observe(*(a_node(f"n{n}").offers(cpu=8, memory="1Gi") for n in range(NODES)))
    harness.observe(*(a_node(f"m{n}").offers(cpu=2, memory="9Gi") for n in range(NODES)))
    names = [f"{kind}{n}" for kind in "nm" for n in range(NODES)]
    harness.observe(*(a_pod(f"r-{name}").needs(cpu=2).on(name) for name in names))
    harness.observe(*(a_pod(f"s-{name}").needs(memory="1Gi").on(name) for name in names))
    harness.start()
    neither = [a_pod(f"w-{n}").needs(cpu=4, memory=f"{2000 + n}Mi") for n in range(KINDS)]
    either = a_pod("either").needs(cpu=8)
    harness.observe(*neither, either)
    harness.run()
    before = {f"w-{n}": harness.entity(f"w-{n}").attempts for n in range(KINDS)}
    looks.clear()
    for name in names:
        harness.engine.handlers.on_pod_deleted(f"default/r-{name}", harness.now)
    effects = harness.run()
    assert [bind.pod.name for bind in of_kind(Bind, effects)] == ["either"]
    assert {name: harness.entity(name).attempts for name in before} == before
    assert len(looks) <= 2
