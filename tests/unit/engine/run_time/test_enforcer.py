"""Pods that have run for their maximum run time are ended: once, in time, and no others."""

from __future__ import annotations

import random
from datetime import UTC, datetime

import pytest

from arranger.api.effects import Ambiguous, Applied, DeletePod, Effect, PublishEvent, Refused
from arranger.api.types.pod_groups import VolcanoPodGroup
from arranger.api.types.queue import Queue
from arranger.plugins import default_profile
from tests.builders import PodBuilder, a_node, a_pod, a_pod_group, a_queue
from tests.unit.engine.harness import EngineHarness, event_notes, of_kind, small_profile

KEY = "arranger.io/max-run-time"


def an_engine(*objects: PodBuilder | Queue) -> EngineHarness:
    harness = EngineHarness(small_profile())
    harness.observe(a_node("n1"), *objects)
    harness.run()
    return harness


def started(name: str, note: str | None = None, *, at: float = 0, queue: str = "") -> PodBuilder:
    """A pod that runs on the node since then."""
    when = datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")
    pod = a_pod(name).on("n1").with_status(phase="Running", startTime=when)
    pod = pod if note is None else pod.annotated({KEY: note})
    return pod.in_queue(queue) if queue else pod


def queue(name: str, limit: str | None = None, **spec: str) -> Queue:
    found = a_queue(name, **spec)
    if limit is not None:
        found.metadata.annotations[KEY] = limit
    return found


def ended(effects: list[Effect]) -> list[str]:
    return [each.pod.name for each in of_kind(DeletePod, effects)]


ENDS: dict[str, tuple[list[PodBuilder | Queue], float | None]] = {
    "its own limit": ([started("p", "90s")], 90.0),
    "counted from when it has started": ([started("p", "90s", at=30)], 120.0),
    "no limit": ([started("p")], None),
    "a limit that cannot be read": ([started("p", "a day")], None),
    "its queue's": ([queue("q", "1m"), started("p", queue="q")], 60.0),
    "its queue's is smaller": ([queue("q", "1m"), started("p", "90s", queue="q")], 60.0),
    "its own is smaller": ([queue("q", "2m"), started("p", "90s", queue="q")], 90.0),
    "that of a queue above": (
        [queue("top", "1m"), queue("q", "2m", parent="top"), started("p", queue="q")],
        60.0,
    ),
    "that of the root": ([queue("root", "3m"), queue("q"), started("p", queue="q")], 180.0),
    "another queue's": ([queue("other", "1m"), queue("q"), started("p", queue="q")], None),
    "a queue's that cannot be read": ([queue("q", "1"), queue("r", "x"), started("p")], None),
    "that of the default queue": ([queue("default", "1m"), started("p")], 60.0),
    "its kubelet ends it before": (
        [started("p", "90s").with_spec(activeDeadlineSeconds=60)],
        None,
    ),
    "its kubelet would end it later": (
        [started("p", "90s").with_spec(activeDeadlineSeconds=100)],
        90.0,
    ),
    "it is another scheduler's": ([started("p", "90s").for_scheduler("other")], None),
    "its queue's, of another scheduler's": (
        [queue("q", "1m"), started("p", queue="q").for_scheduler("other")],
        None,
    ),
    "it has not started": ([a_pod("p").on("n1").annotated({KEY: "90s"})], None),
    "it is over already": ([started("p", "90s").in_phase("Succeeded")], None),
}


@pytest.mark.parametrize(("given", "expected"), ENDS.values(), ids=ENDS.keys())
def test_when_a_pod_is_ended(given: list[PodBuilder | Queue], expected: float | None) -> None:
    harness = an_engine(*given)
    if expected is None:
        assert ended(harness.advance_to(1e7)) == []
        return
    assert ended(harness.advance_to(expected - 0.5)) == []
    assert harness.engine.next_timer() == expected, "nothing but time wakes the engine"
    assert ended(harness.advance_to(expected)) == ["p"]
    assert ended(harness.advance_to(1e7)) == [], "once is enough"


def test_it_is_told_why() -> None:
    harness = an_engine(queue("q", "1m"), started("mine", "90s"), started("theirs", queue="q"))
    deletes = {d.pod.name: d for d in of_kind(DeletePod, harness.advance_to(100))}
    texts = {
        "mine": "has run for the maximum of 90s of its annotation",
        "theirs": "has run for the maximum of 60s of queue q",
    }
    for name, text in texts.items():
        condition = deletes[name].condition
        assert condition is not None
        assert (condition.type, condition.reason) == (
            "DisruptionTarget",
            "MaximumExecutionTimeExceeded",
        )
        assert condition.message == f"arranger: {text}"
        about = [e for e in of_kind(PublishEvent, harness.effects) if e.regarding.name == name]
        assert event_notes(about) == [("MaximumExecutionTimeExceeded", f"It {text}")]


def test_a_limit_may_be_edited_while_the_pod_runs() -> None:
    harness = an_engine(started("p", "90s"), started("q", "90s"), started("r", "90s"))
    harness.now = 80
    harness.observe(started("p", "200s"), started("q"), started("r", "81s"))
    assert ended(harness.advance_to(81)) == ["r"]
    assert ended(harness.advance_to(199)) == []
    assert ended(harness.advance_to(1000)) == ["p"]


def test_a_queues_limit_may_be_edited_while_pods_run() -> None:
    harness = an_engine(queue("q"), *(started(f"p{n}", queue="q", at=n) for n in range(3)))
    assert ended(harness.advance_to(500)) == []
    harness.observe(queue("q", "1000s"))
    assert ended(harness.advance_to(1000)) == ["p0"]
    harness.observe(queue("q", "2000s"))
    assert ended(harness.advance_to(1500)) == []
    harness.observe(queue("q"))
    assert ended(harness.advance_to(9000)) == []


def test_what_is_refused_is_tried_again_and_what_is_done_is_not() -> None:
    harness = an_engine(started("p", "90s"))
    [delete] = of_kind(DeletePod, harness.advance_to(90))
    harness.settle(delete, Ambiguous("no answer"))
    assert ended(harness.advance_to(200)) == []
    harness.settle(delete, Refused(500, "InternalError"))
    assert ended(harness.advance_to(209)) == []
    [again] = of_kind(DeletePod, harness.advance_to(210))
    harness.settle(again, Applied())
    assert ended(harness.advance_to(9000)) == []


def test_a_pod_that_leaves_already_is_not_ended() -> None:
    harness = an_engine(started("p", "90s"))
    harness.observe(started("p", "90s").deleting())
    assert ended(harness.advance_to(9000)) == []


def test_a_victim_is_not_ended_besides() -> None:
    harness = EngineHarness(default_profile())
    harness.observe(a_node("n1").offers(cpu=1), started("p", "90s").needs(cpu=1))
    harness.observe(a_pod("high").needs(cpu=1).with_priority(9))
    [delete] = of_kind(DeletePod, harness.run())
    assert ended(harness.advance_to(99)) == []
    harness.settle(delete, Refused(500, "InternalError"))
    assert ended(harness.advance_to(1000)).count("p") == 1


def test_whom_time_ends_is_no_victim_besides() -> None:
    harness = EngineHarness(default_profile())
    harness.observe(a_node("n1").offers(cpu=1), started("p", "90s").needs(cpu=1))
    harness.advance_to(90)
    harness.observe(a_pod("high").needs(cpu=1).with_priority(9))
    harness.run()
    assert ended(harness.effects) == ["p"]


def test_nothing_is_kept_of_pods_that_are_gone() -> None:
    harness = an_engine()
    for n in range(300):
        pod = started(f"p{n}", "100000h")
        harness.observe(pod)
        harness.observe_deleted(pod)
    enforcer = harness.engine._run_times
    assert len(enforcer._ends) == 0
    assert len(enforcer._ends._heap) <= 64


@pytest.mark.parametrize("seed", range(40))
def test_random_stories_end_as_a_plain_function_says(seed: int) -> None:
    """Pods come, go and are edited, queues are edited, the process restarts; each pod is ended at
    the first look at which its limit is over, and not before."""
    rng = random.Random(seed)
    limits: dict[str, int | None] = {"root": None, "a": None, "b": None}
    pods: dict[str, tuple[int, int | None, str]] = {}  # since, own limit, queue
    gone: set[str] = set()
    harness = an_engine(*map(queue, limits))

    def choose() -> int | None:
        return rng.choice([None, rng.randint(1, 300)])

    def shown(name: str) -> PodBuilder:
        since, own, of = pods[name]
        return started(name, f"{own}s" if own else None, at=since, queue=of)

    def restart() -> EngineHarness:
        fresh = EngineHarness(small_profile())
        fresh.now = harness.now
        queues = (queue(name, f"{n}s" if n else None) for name, n in limits.items())
        fresh.observe(a_node("n1"), *queues, *map(shown, pods))
        return fresh

    for step in range(150):
        harness.now += rng.choice([0, 1, 5, 40])
        now = int(harness.now)
        match rng.randrange(6):
            case 0 | 1:
                pods[f"p{step}"] = now, choose(), rng.choice("ab")
                harness.observe(shown(f"p{step}"))
            case 2 if pods:
                name = rng.choice(sorted(pods))
                pods[name] = pods[name][0], choose(), rng.choice("ab")
                harness.observe(shown(name))
            case 3:
                name = rng.choice(sorted(limits))
                limits[name] = choose()
                harness.observe(queue(name, f"{limits[name]}s" if limits[name] else None))
            case 4 if pods:
                name = rng.choice(sorted(pods))
                harness.observe_deleted(shown(name))
                del pods[name]
            case 5:
                harness = restart()
        expected = {
            name
            for name, (since, own, of) in pods.items()
            if since + min(own or 1e9, limits["root"] or 1e9, limits[of] or 1e9) <= now
        }
        found = ended(harness.run())
        assert sorted(found) == sorted(expected), f"step {step}"
        gone |= expected
        for name in expected:
            harness.observe_deleted(shown(name))
            del pods[name]
    assert len(gone) > 5


#: The queue that its PodGroup names and from when on; the first once it runs (None: it comes
#: later), → when the pod is ended.
MOVES: dict[str, tuple[list[tuple[float, str]], float | None]] = {
    "its PodGroup is of the queue from the start": ([(0, "short")], 100),
    "its PodGroup comes later": ([(10, "short")], 100),
    "its PodGroup moves there": ([(0, "free"), (10, "short")], 100),
    "it moves there when the time is over": ([(0, "free"), (130, "short")], 130),
    "it moves away in time": ([(0, "short"), (99, "free")], None),
    "it is elsewhere just when the time is over": (
        [(0, "short"), (99, "free"), (101, "short")],
        101,
    ),
}


@pytest.mark.parametrize("name", MOVES)
def test_the_limit_of_a_queue_follows_the_pod_group(name: str) -> None:
    moves, expected = MOVES[name]
    harness = an_engine(queue("short", "100s"), queue("free"))
    pod = started("p").annotated({"scheduling.k8s.io/group-name": "g"})
    at: float | None = None
    harness.observe(pod)
    for since, of_queue in [*moves, (400.0, "")]:
        while harness.now < since and at is None:
            due = harness.engine.next_timer()
            effects = harness.advance_to(min(since, due or since))
            at = harness.now if ended(effects) else None
        if of_queue and at is None:
            group = a_pod_group("g", least=1, queue=of_queue).build(VolcanoPodGroup)
            harness.engine.handlers.on_pod_group_updated(group, harness.now)
            at = harness.now if ended(harness.run()) else None
    assert at == expected


def test_pods_whose_group_is_edited_often_are_looked_at_once_a_step() -> None:
    harness = an_engine(queue("short", "100s"), queue("free"))
    pods = [started(f"p{n}").annotated({"scheduling.k8s.io/group-name": "g"}) for n in range(9)]
    harness.observe(*pods)
    enforcer = harness.engine._run_times
    for n in range(20):
        group = a_pod_group("g", least=1, queue="short" if n % 2 else "free").build(VolcanoPodGroup)
        harness.engine.handlers.on_pod_group_updated(group, harness.now)
        harness.engine.ledger.refresh(harness.engine.cluster)
        enforcer._follow_queues()
    assert len(enforcer._unseen) == len(pods)
