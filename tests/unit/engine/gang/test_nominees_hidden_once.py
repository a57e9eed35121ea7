"""What is hidden from a member of a gang stays hidden from those who may preempt the same.

Counted are pods that leave their nodes; and every decision is that of an engine that hides them
for each member anew.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from arranger.api.effects import Applied, Bind
from arranger.api.types.queue import Queue
from arranger.cluster.attempt_work import AttemptWork
from arranger.engine.gang.attempt.attempts import STEP_UNITS
from arranger.engine.queue.nominator import HIDING, Nominator
from arranger.plugins import default_profile
from tests.builders import NodeBuilder, PodBuilder, a_node, a_pod, a_queue
from tests.unit.engine.harness import EngineHarness, of_kind

NODES, NOMINATED, SIZE = 20, 200, 40


@pytest.fixture
def moved(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many nominated pods have been hidden, one number each time; no pod's own nomination."""
    counts, real = list[int](), Nominator._hide

    def hide(self: Nominator, pods: dict[str, Any]) -> None:
        if len(pods) > 1:
            counts.append(len(pods))
        real(self, pods)

    monkeypatch.setattr(Nominator, "_hide", hide)
    return counts


def nominees(queue: str = "") -> list[PodBuilder]:
    pods = [
        a_pod(f"t-{n}").host_port(9000 + n // NODES).with_priority(1).nominated_to(f"n{n % NODES}")
        for n in range(NOMINATED)
    ]
    return [pod.in_queue(queue) for pod in pods] if queue else pods


def a_gang(name: str = "g", size: int = SIZE) -> list[PodBuilder]:
    return [
        a_pod(f"{name}-{n}").needs(cpu=1).with_priority(5).in_gang(name, size) for n in range(size)
    ]


def an_engine(pods: Sequence[PodBuilder | NodeBuilder | Queue]) -> EngineHarness:
    harness = EngineHarness(default_profile())
    nodes = [a_node(f"n{n}").offers(cpu=4, pods=110) for n in range(NODES)]
    for obj in (*nodes, *pods):
        tell(harness, obj)
    harness.start()
    return harness


def tell(harness: EngineHarness, obj: PodBuilder | NodeBuilder | Queue) -> None:
    handlers = harness.engine.handlers
    if isinstance(obj, NodeBuilder):
        handlers.on_node_updated(obj.build(), harness.now)
    elif isinstance(obj, Queue):
        handlers.on_queue_updated(obj, harness.now)
    else:
        handlers.on_pod_updated(obj.build(), harness.now)


def run(harness: EngineHarness) -> list[tuple[str, str]]:
    """What is bound until nothing is left to do, and to which nodes."""
    found = list[tuple[str, str]]()
    while harness.engine.ready:
        for bind in of_kind(Bind, harness.engine.run(harness.now)):
            found.append((bind.pod.name, bind.node))
            harness.engine.on_outcome(bind, Applied(), harness.now)
    harness.engine.check_consistent()
    return found


def run_until_bound(harness: EngineHarness) -> int:
    """Runs step by step until the gang is bound; how many steps that takes. In between all nominees
    are on their nodes."""
    steps = bound = 0
    while bound < SIZE:
        binds = of_kind(Bind, harness.engine.run(harness.now, limit=1, seconds=1e9))
        bound, steps = bound + len(binds), steps + 1
        assert all(bind.pod.name.startswith("g-") for bind in binds)
        assert len(harness.engine._nominator.visible_pods()) == NOMINATED
        harness.engine.check_consistent()
    return steps


def test_members_alike_have_nominees_hidden_once_a_step(moved: list[int]) -> None:
    harness = an_engine(nominees())
    for pod in a_gang():
        tell(harness, pod)
    moved.clear()
    assert run_until_bound(harness) <= 4
    assert 1 <= len(moved) <= 4, moved


def test_members_for_whom_others_are_hidden_each_time_share_no_step(
    moved: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hiding is work: the second time within a step is counted, and what is left is put off."""
    monkeypatch.setattr(
        "arranger.quota.preemption.policy.QueuePreemptionPolicy.lasting_preemptor_class",
        lambda policy, pod: None,
    )
    counted, real = list[int](), AttemptWork.count

    def count(work: AttemptWork, units: int) -> None:
        counted.append(units)
        real(work, units)

    monkeypatch.setattr(AttemptWork, "count", count)
    harness = an_engine(nominees())
    for pod in a_gang():
        tell(harness, pod)
    moved.clear()
    steps = run_until_bound(harness)
    assert len(moved) >= SIZE
    assert counted.count(HIDING * NOMINATED) >= SIZE - steps, "all but the first of each step"
    assert steps >= SIZE * HIDING * NOMINATED // STEP_UNITS


def test_between_two_steps_all_nominees_are_on_their_nodes(
    moved: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("arranger.engine.gang.steps.PLACING", 10**6)
    monkeypatch.setattr("arranger.engine.gang.attempt.scheduling_cycle.PLACING", 10**6)
    harness = an_engine(nominees())
    for pod in a_gang():
        tell(harness, pod)
    moved.clear()
    steps = run_until_bound(harness)
    assert steps >= SIZE // 2
    assert len(moved) <= steps + 1


# --- the same is decided -------------------------------------------------------------------------


def hide_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it was: hidden for each member, and nothing of it is counted."""
    monkeypatch.setattr(Nominator, "keep_hidden", lambda nominator: None)

    def hide(nominator: Nominator, pods: dict[str, Any]) -> None:
        for uid in pods:
            nominator._cluster.remove_pod(uid)

    def show(nominator: Nominator, pods: dict[str, Any]) -> None:
        for uid, pod in pods.items():
            if uid in nominator._cluster:
                nominator._forget(uid)
            else:
                nominator._cluster.assume_pod(pod.pod, nominator._nodes[uid])

    monkeypatch.setattr(Nominator, "_hide", hide)
    monkeypatch.setattr(Nominator, "_show", show)


def a_world(seed: int) -> tuple[list[Any], list[list[PodBuilder]]]:
    """What is there, and the gangs and pods that come, all of some priority and queue."""
    rng = random.Random(seed)
    names = ("a", "b") if seed % 2 else ()
    deserved = {"cpu": 6} if seed % 4 == 3 else None
    queues: list[Any] = [
        a_queue(name, **({"deserved": deserved} if deserved else {})) for name in names
    ]
    if names:
        queues.append(a_queue("default"))

    def some(pod: PodBuilder, priority: int, queue: str) -> PodBuilder:
        pod = pod.with_priority(priority)
        return pod.in_queue(queue) if queue else pod

    def a_priority() -> int:
        return rng.choice((1, 3, 5))

    def name_of_queue() -> str:
        return rng.choice(names) if names else ""

    there, nodes = [*queues], rng.randint(2, 5)
    there += [a_node(f"m{n}").offers(cpu=rng.randint(2, 6), pods=20) for n in range(nodes)]
    for n in range(rng.randint(4, 14)):
        pod = a_pod(f"t-{n}").nominated_to(f"m{rng.randrange(nodes)}")
        pod = pod.needs(cpu=1) if rng.random() < 0.6 else pod.host_port(9000 + n % 3)
        there.append(some(pod, a_priority(), name_of_queue()))
    waves = []
    for wave in range(rng.randint(2, 4)):
        size, queue, pods = rng.randint(1, 6), name_of_queue(), list[PodBuilder]()
        for n in range(size):
            pod = a_pod(f"g{wave}-{n}").needs(cpu=rng.choice((1, 1, 2)))
            if rng.random() < 0.2:
                pod = pod.host_port(9000)
            if rng.random() < 0.3:
                pod = pod.nominated_to(f"m{rng.randrange(nodes)}")
            pod = pod.in_gang(f"g{wave}", rng.randint(1, size)) if size > 1 else pod
            pods.append(some(pod, a_priority(), queue))
        waves.append(pods)
    return there, waves


def decisions(seed: int) -> list[Any]:
    there, waves = a_world(seed)
    harness = EngineHarness(default_profile())
    for obj in there:
        tell(harness, obj)
    harness.start()
    found: list[Any] = [run(harness)]
    for pods in waves:
        for pod in pods:
            tell(harness, pod)
        found.append(run(harness))
        nominator = harness.engine._nominator
        found.append(sorted(nominator._nodes.items()))
        found.append(sorted(nominator.terminating_victims))
        harness.now += 30.0
    return found


@pytest.mark.parametrize("seed", range(40))
def test_the_same_is_decided_as_if_they_were_hidden_for_each_member_anew(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = decisions(seed)
    hide_anew(monkeypatch)
    assert kept == decisions(seed)
