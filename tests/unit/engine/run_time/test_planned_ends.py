"""Which ends of pods a planned start counts on, and that it is planned anew when they move."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from arranger.api.annotations import MAX_RUN_TIME
from arranger.api.types.queue import Queue
from arranger.plugins import default_profile
from tests.builders import PodBuilder, a_node, a_queue
from tests.unit.engine.gang.test_planned_starts import gang, policy, running, starts, waiting
from tests.unit.engine.harness import EngineHarness

KNOWN = "KnownEnds"


def two_nodes(**more: float) -> EngineHarness:
    harness = EngineHarness(default_profile(), gangs=policy(**more))
    harness.observe(*(a_node(f"n{n}").offers(cpu=4) for n in range(2)))
    return harness


def limited(name: str, limit: str | None) -> Queue:
    queue = a_queue(name)
    if limit is not None:
        queue.metadata.annotations[MAX_RUN_TIME] = limit
    return queue


def full(name: str, node: str, note: str = "") -> PodBuilder:
    pod = running(name, node, 4, None)
    return pod.annotated({MAX_RUN_TIME: note}) if note else pod


def theirs(pod: PodBuilder) -> PodBuilder:
    return pod.for_scheduler("default-scheduler")


PROMISES: dict[str, tuple[list[Queue | PodBuilder], dict[str, tuple[float, str]]]] = {
    "our pod has the annotation": ([full("a", "n0", "100s")], {"big": (100.0, KNOWN)}),
    "our pod is of a queue with a limit": (
        [limited("default", "300s"), full("a", "n0")],
        {"big": (300.0, KNOWN)},
    ),
    "nobody ends another scheduler's pod for its annotation": (
        [theirs(full("a", "n0", "100s"))],
        {},
    ),
    "nor for the limit of a queue": (
        [limited("default", "300s"), theirs(full("a", "n0"))],
        {},
    ),
    "its kubelet ends it by its deadline": (
        [theirs(running("a", "n0", 4, 200).annotated({MAX_RUN_TIME: "100s"}))],
        {"big": (200.0, KNOWN)},
    ),
}


@pytest.mark.parametrize("name", PROMISES)
def test_a_start_is_promised_by_ends_that_somebody_sees_to(name: str) -> None:
    given, expected = PROMISES[name]
    harness = two_nodes()
    harness.observe(*given, theirs(running("c", "n1", 4, None)))
    harness.observe(*gang("big", 2))
    waiting(harness)
    assert starts(harness) == expected
    harness.engine.check_consistent()


def with_condition(pod: PodBuilder, kind: str, status: str) -> PodBuilder:
    return pod.with_status(conditions=[{"type": kind, "status": status}])


ENDINGS: dict[str, tuple[Callable[[PodBuilder], PodBuilder], bool]] = {
    "it ended by itself": (lambda pod: pod, True),
    "it was being deleted": (lambda pod: pod.deleting(), False),
    "it was evicted": (lambda pod: with_condition(pod, "DisruptionTarget", "True"), False),
    "an eviction of it was taken back": (
        lambda pod: with_condition(pod, "DisruptionTarget", "False"),
        True,
    ),
    "it had notice to leave": (
        lambda pod: with_condition(pod, "arranger.io/EvictionNotice", "True"),
        False,
    ),
}


@pytest.mark.parametrize("seen_running", [True, False])
@pytest.mark.parametrize("name", ENDINGS)
def test_run_times_are_learnt_from_pods_that_ended_by_themselves(
    name: str, seen_running: bool
) -> None:
    ended, counts = ENDINGS[name]
    harness = two_nodes()
    harness.now = 100.0
    old = running("web-0", "n0", 1, None, start=50.0)
    if seen_running:
        harness.observe(old)
        harness.run()
    finished = {"name": "c", "state": {"terminated": {"finishedAt": "1970-01-01T00:01:40Z"}}}
    harness.observe(ended(old.with_status(phase="Failed", containerStatuses=[finished])))
    harness.run()
    harness.observe_deleted(old)
    harness.observe(running("web-7", "n0", 4, None, start=99.0), running("c", "n1", 4, None))
    harness.observe(*gang("big", 2))
    waiting(harness)
    assert starts(harness) == ({"big": (149.0, "Estimate")} if counts else {})
    harness.engine.check_consistent()


@pytest.mark.parametrize(
    ("notes", "expected"),
    [
        (["50s", None], 900.0),
        ([None, "50s"], 900.0),
        (["50s", "300s"], 400.0),
        (["300s", "50s"], 400.0),
    ],
)
def test_a_gang_has_its_nodes_as_long_as_its_last_member(
    notes: list[str | None], expected: float
) -> None:
    harness = two_nodes(planned_gangs=2)
    harness.observe(running("a", "n0", 4, 100), running("c", "n1", 4, 900))
    first = gang("first", 2, cpu=2)
    first = [
        pod if note is None else pod.annotated({MAX_RUN_TIME: note})
        for pod, note in zip(first, notes, strict=True)
    ]
    harness.observe(*first)
    harness.run()
    harness.observe(*gang("second", 2, cpu=2))
    waiting(harness)
    assert starts(harness) == {"first": (100.0, KNOWN), "second": (expected, KNOWN)}
    harness.engine.check_consistent()


#: What is edited, and when the gang starts then: the pod has a limit of 300 s, its queue of 400 s.
EDITS: dict[str, tuple[list[Queue | PodBuilder], float]] = {
    "its limit is raised": ([full("a", "n0", "380s")], 380.0),
    "its limit is raised by a few seconds only, which is late enough": (
        [full("a", "n0", "350s")],
        300.0,
    ),
    "its limit is lowered": ([full("a", "n0", "100s")], 100.0),
    "its limit is taken away": ([full("a", "n0")], 400.0),
    "the limit of its queue is less now": ([limited("default", "150s")], 150.0),
    "the limit of its queue and its own are raised": (
        [full("a", "n0", "1h"), limited("default", "600s")],
        600.0,
    ),
    "its queue has no limit any more": (
        [full("a", "n0", "1h"), limited("default", None)],
        3600.0,
    ),
}


@pytest.mark.parametrize("name", EDITS)
def test_a_start_is_planned_anew_when_what_runs_ends_at_another_time(name: str) -> None:
    edits, expected = EDITS[name]
    harness = two_nodes()
    harness.observe(limited("default", "400s"))
    harness.observe(full("a", "n0", "300s"), theirs(running("c", "n1", 4, None)))
    harness.observe(*gang("big", 2))
    waiting(harness)
    assert starts(harness) == {"big": (300.0, KNOWN)}
    for edit in edits:
        harness.observe(edit)
        harness.run()
    for _ in range(3):
        harness.advance_to(harness.now + 2)
    assert starts(harness) == {"big": (expected, KNOWN)}
    harness.engine.check_consistent()
