"""Queues take back what they deserve from those that have more (docs/design/queues.md)."""

from __future__ import annotations

from typing import Any

import pytest

from arranger.api.effects import DeletePod, PublishEvent
from arranger.plugins import default_profile
from arranger.quota.preemption.policy import QuotaConfig
from tests.builders import PodBuilder, a_node, a_pod, a_queue
from tests.unit.engine.harness import EngineHarness, of_kind, placements

HIGH, LOW = 1000, 0


def of(queue: str, name: str, cpu: int = 1, priority: int = LOW) -> PodBuilder:
    return a_pod(name).needs(cpu=cpu).in_queue(queue).with_priority(priority)


def several(queue: str, count: int, priority: int = LOW) -> list[PodBuilder]:
    return [of(queue, f"{queue}{n}", 1, priority) for n in range(count)]


def gang_of(queue: str, name: str, *cpus: int) -> list[PodBuilder]:
    return [of(queue, f"{name}-{n}", c).in_gang(name, len(cpus)) for n, c in enumerate(cpus)]


def deserving(name: str, cpu: int, **spec: Any) -> Any:
    return a_queue(name, deserved={"cpu": cpu}, **spec)


TWO = [deserving("a", 4), deserving("b", 4)]

#: On a node of 8 cpus that is full: queues, running, who comes, and how many of whom are evicted
#: (by the first letter).
TAKES: dict[str, tuple[list[Any], list[PodBuilder], list[PodBuilder], dict[str, int]]] = {
    "a queue below what it deserves from one above": (
        TWO,
        several("a", 8),
        [of("b", "p")],
        {"a": 1},
    ),
    "up to what it deserves": (TWO, several("a", 8), several("b", 6), {"a": 4}),
    "a pod that wants more than that takes nothing": (TWO, several("a", 8), [of("b", "p", 5)], {}),
    "priorities do not count between queues": (
        TWO,
        several("a", 8, HIGH),
        [of("b", "p")],
        {"a": 1},
    ),
    "nothing from a queue that has what it deserves": (
        [deserving("a", 8), deserving("b", 4)],
        several("a", 8),
        [of("b", "p")],
        {},
    ),
    "nor what it then had less than": (
        [deserving("a", 5), deserving("b", 8)],
        [of("a", "a0", 4), of("a", "a1", 4)],
        [of("b", "p")],
        {},
    ),
    "all from a queue that deserves nothing": (
        [a_queue("a"), deserving("b", 8)],
        several("a", 8),
        several("b", 8),
        {"a": 8},
    ),
    "and from the default queue, made or not": (
        [deserving("b", 8)],
        several("default", 8),
        [of("b", "p")],
        {"d": 1},
    ),
    "who deserves nothing takes nothing": (
        [deserving("a", 1), a_queue("b")],
        several("a", 8),
        [of("b", "p")],
        {},
    ),
    "nor who deserves other things": (
        [deserving("a", 1), a_queue("b", deserved={"memory": "8Gi"})],
        several("a", 8),
        [of("b", "p")],
        {},
    ),
    "what is guaranteed is deserved": (
        [deserving("a", 1), a_queue("b", guarantee={"resource": {"cpu": 2}})],
        several("a", 8),
        several("b", 3),
        {"a": 2},
    ),
    "never from a queue that is not reclaimable": (
        [deserving("a", 4, reclaimable=False), deserving("b", 4)],
        several("a", 8),
        [of("b", "p")],
        {},
    ),
    "never below what is guaranteed": (
        [a_queue("a", guarantee={"resource": {"cpu": 7}}), deserving("b", 4)],
        several("a", 8),
        several("b", 2),
        {"a": 1},
    ),
    "not beyond the taker's own capability": (
        [deserving("a", 4), deserving("b", 4, capability={"cpu": 1})],
        [*several("a", 7), of("b", "b9")],
        several("b", 1),
        {},
    ),
    "not who says that it may not be evicted": (
        TWO,
        [p.annotated({"volcano.sh/preemptable": "false"}) for p in several("a", 8)],
        [of("b", "p")],
        {},
    ),
    "not what the cluster needs": (
        TWO,
        [p.with_spec(priorityClassName="system-node-critical") for p in several("a", 8)],
        [of("b", "p")],
        {},
    ),
    "not who has a service type, nor for one": (
        TWO,
        [p.serving("training") for p in several("a", 8)],
        [of("b", "p"), of("b", "q").serving("training")],
        {},
    ),
    "a closed queue takes nothing": (
        [deserving("a", 4), deserving("b", 4, state="Closed")],
        several("a", 8),
        [of("b", "p")],
        {},
    ),
    "the queue of the lowest priority loses first": (
        [deserving("a", 1, priority=5), deserving("c", 1), deserving("b", 4)],
        [*several("a", 4), *several("c", 4)],
        [of("b", "p")],
        {"c": 1},
    ),
    "a gang gives what it has beyond its minimum": (
        TWO,
        [p.in_gang("g", 3) for p in several("a", 8)],
        several("b", 4),
        {"a": 4},
    ),
    "or nothing, if all of it were too much": (
        TWO,
        [p.in_gang("g", 8) for p in several("a", 8)],
        [of("b", "p")],
        {},
    ),
    "a gang takes for all its members": (
        TWO,
        several("a", 8),
        gang_of("b", "g", 2, 2),
        {"a": 4},
    ),
    "or not at all": (TWO, several("a", 8), gang_of("b", "g", 2, 2, 1), {}),
    "parts of one queue are compared with each other": (
        [a_queue("team"), deserving("a", 4, parent="team"), deserving("b", 4, parent="team")],
        several("a", 8),
        [of("b", "p")],
        {"a": 1},
    ),
    "a part takes from others only while its queue is below what that deserves": (
        [
            deserving("team", 4),
            deserving("a", 2, parent="team"),
            deserving("b", 2, parent="team"),
            deserving("c", 1),
        ],
        [*several("a", 4), *several("c", 4)],
        [of("b", "p")],
        {"a": 1},
    ),
    "nor from a part of a queue that has no more than it deserves": (
        [deserving("team", 8), a_queue("a", parent="team"), deserving("b", 4)],
        several("a", 8),
        [of("b", "p")],
        {},
    ),
    "a part that deserves nothing has its queue's": (
        [deserving("team", 4), a_queue("b", parent="team"), deserving("a", 4)],
        several("a", 8),
        [of("b", "p")],
        {"a": 1},
    ),
    "of several things it is enough to have more of one, as in Volcano": (
        [a_queue("a", deserved={"cpu": 1, "x.com/gpu": 8}), deserving("b", 4)],
        [p.needs({"x.com/gpu": 1}) for p in several("a", 8)],
        [of("b", "p").needs({"x.com/gpu": 1})],
        {"a": 1},
    ),
}


def counted(names: set[str]) -> dict[str, int]:
    return {letter: sum(n[0] == letter for n in names) for letter in sorted({n[0] for n in names})}


def evicted(effects: Any) -> set[str]:
    return {delete.pod.name for delete in of_kind(DeletePod, effects)}


def bound(effects: Any) -> set[str]:
    return {name for name, _ in placements(effects)}


def full_node(harness: EngineHarness, *queues: Any, running: list[PodBuilder]) -> None:
    harness.observe(a_node("n").offers({"x.com/gpu": 8}, cpu=8), *queues)
    harness.observe(*(pod.on("n") for pod in running))


@pytest.mark.parametrize(("queues", "running", "come", "expected"), TAKES.values(), ids=TAKES)
def test_who_takes_from_whom(
    queues: list[Any],
    running: list[PodBuilder],
    come: list[PodBuilder],
    expected: dict[str, int],
    harness: EngineHarness,
) -> None:
    full_node(harness, *queues, running=running)
    harness.observe(*come)
    gone = evicted(harness.run()) | evicted(harness.advance_to(30))
    assert counted(gone) == expected
    harness.engine.check_consistent()


def test_the_taker_gets_the_room_and_what_was_evicted_does_not_take_it_back(
    harness: EngineHarness,
) -> None:
    running = several("a", 8, HIGH)
    full_node(harness, *TWO, running=running)
    harness.observe(*several("b", 4))
    effects = harness.run()
    gone = evicted(effects)
    told = {e.reason: e.note for e in of_kind(PublishEvent, effects)}
    assert "of queue b" in told["Preempted"]
    for pod in running:
        if pod.info().pod.metadata.name in gone:
            harness.observe_deleted(pod)
    harness.observe(*(of("a", f"again{n}", 1, HIGH) for n in range(4)))
    harness.settle_all(harness.effects)
    for now in (20, 400, 800, 1200):
        harness.settle_all(harness.advance_to(now))
    assert evicted(harness.effects) == gone
    assert bound(harness.effects) == {"b0", "b1", "b2", "b3"}


def test_a_pod_is_woken_when_its_queue_has_less_and_when_another_has_more(
    harness: EngineHarness,
) -> None:
    full_node(
        harness,
        *(deserving("a", 4), deserving("b", 2)),
        running=[of("a", "big", 4), *several("a", 1)],
    )
    own = [of("b", f"own{n}") for n in range(2)]
    harness.observe(a_node("m").offers(cpu=2), *(pod.on("m") for pod in own))
    harness.observe(*(of("default", f"d{n}").on("n") for n in range(3)))
    harness.observe(a_queue("default", reclaimable=False), of("b", "p").selects(disk="ssd"))
    harness.observe(a_node("n").labelled({"disk": "ssd"}).offers(cpu=8))
    assert evicted(harness.run()) == set(), "it has what it deserves"
    attempts = harness.entity("p").attempts
    harness.observe_deleted(own[0])
    assert evicted(harness.run()) | evicted(harness.advance_to(30)) == {"a0"}
    assert attempts == 1


def test_or_when_another_has_more(harness: EngineHarness) -> None:
    full_node(harness, deserving("a", 8), deserving("b", 4), running=several("a", 8))
    harness.observe(a_node("n").labelled({"disk": "ssd"}).offers(cpu=8))
    harness.observe(of("b", "p").selects(disk="ssd"))
    assert evicted(harness.run()) == set()
    harness.observe(a_node("m").offers(cpu=1), of("a", "more"))
    harness.settle_all(harness.run())
    assert bound(harness.effects) == {"more"}
    harness.advance_to(30)
    assert counted(evicted(harness.effects)) == {"a": 1}


def test_edits_of_what_queues_deserve_count_at_once(harness: EngineHarness) -> None:
    full_node(harness, deserving("a", 8), deserving("b", 4), running=several("a", 8))
    harness.observe(of("b", "p"))
    assert evicted(harness.run()) == set()
    harness.observe(deserving("a", 4))
    assert len(evicted(harness.advance_to(30))) == 1


def test_inside_a_queue_the_important_take_although_it_has_no_more_than_it_is_guaranteed(
    harness: EngineHarness,
) -> None:
    full_node(
        harness,
        a_queue("a", guarantee={"resource": {"cpu": 4}}),
        a_queue("b", reclaimable=False),
        running=[*several("a", 4), *several("b", 4)],
    )
    harness.observe(of("a", "important", 1, HIGH))
    assert counted(evicted(harness.run())) == {"a": 1}


OWNERS = {"ReplicaSet": "inference", "Job": "training"}


@pytest.mark.parametrize(("mine", "theirs"), [("Job", "Job"), ("ReplicaSet", "ReplicaSet")])
def test_a_service_type_that_only_follows_from_the_owner_is_no_obstacle(
    mine: str, theirs: str
) -> None:
    harness = EngineHarness(default_profile(), queues=QuotaConfig(service_type_by_owner=OWNERS))
    harness.start()
    full_node(harness, *TWO, running=[p.owned_by(theirs, "o") for p in several("a", 8)])
    harness.observe(*(pod.owned_by(mine, "p") for pod in several("b", 6)))
    assert counted(evicted(harness.run()) | evicted(harness.advance_to(30))) == {"a": 4}


def test_nor_does_what_queues_deserve_keep_inference_from_less_important_training() -> None:
    harness = EngineHarness(default_profile(), queues=QuotaConfig(service_type_by_owner=OWNERS))
    harness.start()
    full_node(
        harness,
        *(deserving("a", 8), a_queue("b")),
        running=[p.owned_by("Job", "o") for p in several("a", 8)],
    )
    harness.observe(of("b", "p", 1, HIGH).owned_by("ReplicaSet", "r"))
    assert counted(evicted(harness.run())) == {"a": 1}


def test_nobody_is_evicted_soon_after_a_start() -> None:
    harness = EngineHarness(default_profile(), queues=QuotaConfig(reclaim_min_runtime=60))
    harness.start()
    started = [pod.with_status(startTime="1970-01-01T00:00:00Z") for pod in several("a", 8)]
    full_node(harness, *TWO, running=started)
    harness.observe(of("b", "p"))
    assert evicted(harness.run()) == set()
    assert len(evicted(harness.advance_to(61))) == 1


@pytest.mark.parametrize("launcher", ["launcher", "zlauncher"])
def test_a_gang_of_several_kinds_hears_of_a_queue_that_has_more_than_it_deserves(
    launcher: str,
) -> None:
    harness = EngineHarness(default_profile(), queues=QuotaConfig())
    harness.observe(*(a_node(f"n{n}").offers({"gpu.com/a": 4}, cpu=64) for n in (1, 2)))
    deserved = ({"name": each, "deserved": {"gpu.com/a": 2}} for each in "ab")
    harness.observe(*(a_queue(**each) for each in deserved), a_queue("c", reclaimable=False))
    card = a_pod("worker").needs({"gpu.com/a": 2}, cpu=1)
    b1, b2 = (a_pod(f"b{n}").needs({"gpu.com/a": 2}).in_queue("b").on(f"n{n}") for n in (1, 2))
    harness.observe(b1, a_pod("c1").needs({"gpu.com/a": 2}).in_queue("c").on("n1"))
    members = card.selects({"kubernetes.io/hostname": "n1"}), a_pod(launcher).needs(cpu=1)
    harness.observe(*(pod.in_queue("a").in_gang("g", 2) for pod in members))
    harness.run()
    harness.advance_to(20)
    harness.observe(b2)
    evicted = of_kind(DeletePod, harness.run() + harness.advance_to(21))
    assert [effect.pod.name for effect in evicted] == ["b1"]
