"""A pod that may evict members of gangs: a search in small steps finds the same, and ends."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from arranger.api.annotations import PREEMPTABLE
from arranger.api.effects import DeletePod
from arranger.engine.assembly.settings import EngineSettings
from arranger.engine.engine import Engine
from arranger.engine.pod import attempt_limits
from arranger.plugins import default_profile
from arranger.preemption import victims
from arranger.quota.preemption.policy import QuotaConfig
from tests.builders import PodBuilder, a_node, a_pod, a_queue
from tests.unit.engine.harness import EngineHarness, of_kind


def engine_of(rng: random.Random, *, queues: bool) -> tuple[Engine, PodBuilder]:
    """Nodes full of gangs and lone pods, and a pod that is more important than all of them."""
    quota = QuotaConfig(preempt_within_queue=not queues)
    engine = Engine(EngineSettings([default_profile()], quota_config=quota))
    handlers, nodes = engine.handlers, rng.randint(2, 12)
    if queues:
        for name in ("low", "other"):
            deserved = {"cpu": str(rng.randint(0, nodes * 4))}
            handlers.on_queue_updated(a_queue(name, deserved=deserved, reclaimable=True), 0.0)
        handlers.on_queue_updated(a_queue("high", deserved={"cpu": str(nodes * 4)}), 0.0)
    gangs = [f"g{n}" for n in range(rng.randint(1, 3))]
    of_gang = [rng.choice([*gangs, ""]) for _ in range(nodes * 4)]
    sizes, spare = Counter(of_gang), rng.choice((0, 1, 2, 5))
    for n in range(nodes):
        handlers.on_node_updated(a_node(f"n{n}").offers(cpu=4, pods=20).build(), 0.0)
    for n, gang in enumerate(of_gang):
        pod = a_pod(f"p{n}").needs(cpu=1).on(f"n{n // 4}").with_priority(rng.choice((0, 0, 1)))
        pod = pod.in_gang(gang, max(1, sizes[gang] - spare)) if gang else pod
        pod = pod.in_queue(rng.choice(("low", "other"))) if queues else pod
        handlers.on_pod_updated(pod.build(), 0.0)
    engine.run(0.0)
    taker = a_pod("taker").needs(cpu=rng.randint(1, 4)).with_priority(9)
    return engine, taker.in_queue("high") if queues else taker


def evicted(engine: Engine, taker: PodBuilder, *, in_steps: bool) -> tuple[list[str], int]:
    """Who is evicted for the pod, and after how many steps."""
    engine.handlers.on_pod_updated(taker.build(), 1.0)
    gone, steps = list[str](), 0
    while engine.ready:
        steps += 1
        assert steps < 200, "it never comes to an end"
        effects = engine.run(1.0, seconds=10.0) if in_steps else engine.run(1.0)
        gone += sorted(each.pod.name for each in effects if isinstance(each, DeletePod))
    engine.check_consistent()
    return gone, steps


@pytest.mark.parametrize("queues", [False, True], ids=["no queues", "queues"])
@pytest.mark.parametrize("seed", range(60))
def test_a_search_in_steps_finds_whom_a_search_at_once_finds(
    seed: int, queues: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once, _ = evicted(*engine_of(random.Random(seed), queues=queues), in_steps=False)
    monkeypatch.setattr(attempt_limits, "MAX_WORK", 400)
    assert evicted(*engine_of(random.Random(seed), queues=queues), in_steps=True)[0] == at_once


@pytest.mark.parametrize("spare", [0, 2])
def test_a_gang_as_a_whole_is_looked_at_once_not_for_each_of_its_nodes(
    spare: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ordered, by_importance = Counter[int](), victims.by_importance

    def counted(pods: list[object], *more: object) -> object:
        pods = list(pods)
        ordered[len(pods)] += 1
        return by_importance(pods, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(victims, "by_importance", counted)
    engine = Engine(EngineSettings([default_profile()]))
    for n in range(40):
        engine.handlers.on_node_updated(a_node(f"n{n}").offers(cpu=4, pods=20).build(), 0.0)
    for n in range(160):
        pod = a_pod(f"p{n}").needs(cpu=1).in_gang("g", 160 - spare).on(f"n{n // 4}")
        engine.handlers.on_pod_updated(pod.build(), 0.0)
    engine.run(0.0)
    gone, steps = evicted(engine, a_pod("t").needs(cpu=3).with_priority(9), in_steps=True)
    assert len(gone) == 160
    assert ordered[160] <= 2 * steps + 2
    assert steps < 20


def test_where_some_gangs_cannot_leave_another_on_the_node_does() -> None:
    """The least important pod has a partner that nobody evicts; the next are guaranteed."""
    harness = EngineHarness(default_profile())
    harness.observe(a_queue("default"), a_queue("kept", guarantee={"resource": {"cpu": 2}}))
    harness.observe(a_node("n").offers(cpu=5), a_node("m").offers(cpu=1))
    of = {g: [a_pod(f"{g}-{n}").needs(cpu=1).in_gang(g, 2) for n in (0, 1)] for g in "abc"}
    harness.observe(of["a"][0].on("n"), of["a"][1].on("m").annotated({PREEMPTABLE: "false"}))
    harness.observe(*(pod.with_priority(1).in_queue("kept").on("n") for pod in of["b"]))
    harness.observe(*(pod.with_priority(2).on("n") for pod in of["c"]))
    harness.observe(a_pod("taker").needs(cpu=1).with_priority(9))
    harness.run()
    assert {each.pod.name for each in of_kind(DeletePod, harness.effects)} == {"c-0", "c-1"}
