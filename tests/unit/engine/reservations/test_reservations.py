"""Reservations: who is placed on their nodes, who is not, and who is woken when."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from arranger.api.effects import (
    Bind,
    Outcome,
    PatchObject,
    PatchPodStatus,
    PublishEvent,
    Refused,
)
from arranger.api.types.core import Namespace
from arranger.api.types.reservation import Reservation, ReservationStatus
from arranger.engine.reservations.book import MAX_RESERVATIONS
from tests.builders import PodBuilder, a_node, a_pod, a_queue
from tests.unit.engine.harness import EngineHarness, of_kind, small_profile

LIMIT, ASKED = "arranger.io/max-run-time", "arranger.io/reservation"


def when(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")


def reserved(
    name: str, start: float, end: float, *nodes: str, made: float = 0, **spec: Any
) -> Reservation:
    """Nodes reserved in a window; for nobody, unless ``users`` are given."""
    stated = {
        "nodes": {"names": list(nodes)},
        "window": {"start": when(start), "end": when(end)},
        "drainBefore": "100s",
        "maintenance": "users" not in spec,
        **spec,
    }
    metadata = {"name": name, "creationTimestamp": when(made)}
    return msgspec.convert({"metadata": metadata, "spec": stated}, Reservation)


class World:
    """An engine with nodes of one cpu."""

    def __init__(self, *nodes: str) -> None:
        self.harness = EngineHarness(small_profile())
        self.harness.observe(*(a_node(name).offers(cpu=1) for name in nodes))

    def show(self, *stored: Any) -> None:
        for each in stored:
            self.harness.engine.handlers.on_object_updated(each, self.harness.now)
        self.harness.engine.check_consistent()

    def drop(self, stored: Any) -> None:
        self.harness.engine.handlers.on_object_deleted(stored, self.harness.now)
        self.harness.engine.check_consistent()

    def at(self, now: float) -> dict[str, str]:
        """Who is bound by now, to what, since the last look."""
        effects = self.harness.advance_to(now)
        return {bind.pod.name: bind.node for bind in of_kind(Bind, effects)}

    def message(self, name: str) -> str:
        patches = of_kind(PatchPodStatus, self.harness.effects)
        texts = [p.condition.message for p in patches if p.pod.name == name and p.condition]
        return texts[-1] if texts else ""


def pod(name: str = "p", limit: str | None = None, asks: str | None = None) -> PodBuilder:
    made = a_pod(name).needs(cpu=1)
    notes = {LIMIT: limit, ASKED: asks}
    return made.annotated({key: value for key, value in notes.items() if value is not None})


#: What is reserved, the pod, and when it is placed on the only node; None for never.
PLACED: dict[str, tuple[list[Reservation], PodBuilder, float | None]] = {
    "no reservation": ([], pod(), 0),
    "one of another node": ([reserved("r", 0, 500, "other")], pod(), 0),
    "one that holds": ([reserved("r", 0, 500, "n")], pod(), 500),
    "one that has ended": ([reserved("r", -100, -1, "n")], pod(), 0),
    "a long time to come": ([reserved("r", 200, 500, "n")], pod(), 0),
    "soon, and it may run for ever": ([reserved("r", 99, 500, "n")], pod(), 500),
    "soon, and it has ended before": ([reserved("r", 99, 500, "n")], pod(limit="99s"), 0),
    "soon, and it has not ended before": ([reserved("r", 99, 500, "n")], pod(limit="100s"), 500),
    "next year, and it has not ended before": (
        [reserved("r", 3e7, 3e7 + 10, "n")],
        pod(limit="9999h"),
        3e7 + 10,
    ),
    "its deadline is soon enough": (
        [reserved("r", 99, 500, "n")],
        pod().with_spec(activeDeadlineSeconds=60),
        0,
    ),
    "two after each other": (
        [reserved("r", 0, 500, "n"), reserved("s", 500, 700, "n")],
        pod(),
        700,
    ),
    "two at once": ([reserved("r", 0, 500, "n"), reserved("s", 100, 300, "n")], pod(), 500),
    "a window between two, long enough": (
        [reserved("r", 0, 100, "n"), reserved("s", 300, 700, "n")],
        pod(limit="200s"),
        100,
    ),
    "a window between two, too short": (
        [reserved("r", 0, 100, "n"), reserved("s", 300, 700, "n")],
        pod(limit="201s"),
        700,
    ),
    "an invalid one": ([reserved("r", 500, 0, "n")], pod(), 0),
    "its queue's": ([reserved("r", 0, 500, "n", users={"queues": ["q"]})], pod().in_queue("q"), 0),
    "another queue's": (
        [reserved("r", 0, 500, "n", users={"queues": ["q"]})],
        pod().in_queue("other"),
        500,
    ),
    "its namespace's": (
        [reserved("r", 0, 500, "n", users={"namespaceSelector": {"matchLabels": {"team": "a"}}})],
        pod(),
        0,
    ),
    "another namespace's": (
        [reserved("r", 0, 500, "n", users={"namespaceSelector": {"matchLabels": {"team": "b"}}})],
        pod(),
        500,
    ),
    "it asks for one that holds": (
        [reserved("r", 0, 500, "n", users={"namespaceSelector": {}})],
        pod(asks="r"),
        0,
    ),
    "it asks for one that is to come": (
        [reserved("r", 300, 500, "n", users={"namespaceSelector": {}})],
        pod(asks="r"),
        300,
    ),
    "it asks for one of another node": (
        [reserved("r", 0, 500, "other", users={"namespaceSelector": {}})],
        pod(asks="r"),
        None,
    ),
    "it asks for one that has ended": (
        [reserved("r", -9, -1, "n", users={"namespaceSelector": {}})],
        pod(asks="r"),
        None,
    ),
    "it asks for one that it may not use": ([reserved("r", 0, 500, "n")], pod(asks="r"), None),
    "it asks for one that does not exist": ([], pod(asks="r"), None),
}


@pytest.mark.parametrize(("stated", "who", "expected"), PLACED.values(), ids=PLACED.keys())
def test_when_a_pod_is_placed(
    stated: list[Reservation], who: PodBuilder, expected: float | None
) -> None:
    world = World("n")
    world.harness.observe(a_queue("q"), a_queue("other"))
    namespace = {"metadata": {"name": "default", "labels": {"team": "a"}}}
    world.show(msgspec.convert(namespace, Namespace), *stated)
    world.harness.observe(who)
    edges = {edge for each in PLACED for edge in (0.0, 100.0, 300.0, 500.0, 700.0, 3e7 + 10)}
    found = next((at for at in sorted(edges) if world.at(at)), None)
    assert found == expected, world.message("p")


def test_nothing_but_time_wakes_who_waits() -> None:
    world = World("n")
    world.show(reserved("r", 50, 300, "n"))
    world.harness.observe(pod())
    assert world.at(0) == {}
    bound: dict[str, str] = {}
    while world.harness.now < 300 and not bound:
        timer = world.harness.engine.next_timer()
        assert timer is not None
        bound = world.at(timer)
    assert (bound, world.harness.now) == ({"p": "n"}, 300)


def test_who_waits_is_told_until_when() -> None:
    world = World("n")
    world.show(reserved("r", 0, 300, "n"))
    world.harness.observe(pod(), pod("q", asks="none"), pod("s", asks="r"))
    world.at(0)
    assert "node(s) reserved by Reservation r until 1970-01-01T00:05:00Z" in world.message("p")
    assert "Reservation 'none', which the pod asks for, does not exist" in world.message("q")
    assert "the pod may not use Reservation r" in world.message("s")


def test_edits_and_deletions_count_at_once() -> None:
    world = World("n")
    window = reserved("r", 0, 1000, "n")
    world.show(window)
    world.harness.observe(pod())
    assert world.at(1) == {}
    world.show(reserved("r", 0, 1000, "other"))
    assert world.at(2) == {"p": "n"}

    world = World("n")
    world.show(window)
    world.harness.observe(pod())
    assert world.at(1) == {}
    world.drop(window)
    assert world.at(2) == {"p": "n"}


def test_a_reservation_for_tomorrow_is_moved_to_now() -> None:
    world = World("n", "m")
    users = {"queues": ["q"]}
    world.harness.observe(a_queue("q"), a_queue("other"))
    world.show(reserved("r", 86400, 90000, "n", users=users))
    world.harness.observe(pod("mine", asks="r").in_queue("q"))
    assert world.at(10) == {}
    world.show(reserved("r", 0, 90000, "n", users=users))
    world.harness.observe(pod("theirs").in_queue("other"))
    assert world.at(11) == {"mine": "n", "theirs": "m"}


def test_a_node_that_comes_wakes_who_was_kept_off_all_others() -> None:
    world = World("n")
    world.show(reserved("r", 0, 1000, "n"))
    world.harness.observe(pod())
    assert world.at(1) == {}
    world.harness.observe(a_node("m").offers(cpu=1))
    assert world.at(2) == {"p": "m"}


def test_pods_of_one_class_with_other_limits_are_tried_for_themselves() -> None:
    world = World("n")
    world.show(reserved("r", 0, 50, "n"), reserved("s", 100, 900, "n"))
    world.harness.observe(pod("long", "500s"), pod("longer", "600s"), pod("short", "50s"))
    assert world.at(1) == {}
    assert world.at(50) == {"short": "n"}


def test_the_oldest_nodes_of_a_selector_are_reserved() -> None:
    world = World()
    for name, made in (("a", 30), ("b", 10), ("c", 20)):
        node = a_node(name).offers(cpu=1)
        manifest = node.manifest()
        manifest["metadata"]["creationTimestamp"] = when(made)
        world.harness.observe(type(node)(manifest))
    world.show(reserved("r", 0, 500, nodes={"selector": {}, "count": 2}))
    world.harness.observe(pod("p"), pod("q"))
    assert list(world.at(1).values()) == ["a"]


@pytest.mark.parametrize("operator", ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Odd"])
def test_selectors_of_nodes_match_as_label_selectors_do(operator: str) -> None:
    expression = {"key": "x", "operator": operator}
    if operator.endswith("In"):
        expression["values"] = ["1"]  # type: ignore[assignment]
    world = World("absent")
    world.harness.observe(*(a_node(n).offers(cpu=1).labelled({"x": n}) for n in ("1", "2")))
    world.show(reserved("r", 0, 50, nodes={"selector": {"matchExpressions": [expression]}}))
    world.harness.observe(*(pod(f"p{n}") for n in range(3)))
    kept = {"In": {"1"}, "NotIn": {"2", "absent"}, "Exists": {"1", "2"}, "DoesNotExist": {"absent"}}
    assert set(world.at(1).values()) == {"absent", "1", "2"} - kept.get(operator, set())


def test_of_too_many_the_oldest_count() -> None:
    world = World("n")
    many = [reserved(f"r{n}", 0, 500, "n", made=n) for n in range(MAX_RESERVATIONS)]
    world.show(*many, reserved("late", 0, 900, "n", made=9999))
    world.harness.observe(pod())
    assert world.at(499) == {}
    assert world.at(500) == {"p": "n"}


def test_its_status_says_how_it_stands_and_is_written_until_it_shows() -> None:
    world = World("n")
    world.show(reserved("r", 50, 300, "n", "m"), reserved("x", 9, 0, "n"))

    def written(now: float) -> dict[str, tuple[str, int, str | None]]:
        effects = of_kind(PatchObject, world.harness.advance_to(now))
        found = {}
        for each in effects:
            status = each.change["status"]
            told = status["phase"], status["nodes"], status["end"]
            found[each.path.removeprefix("/apis/arranger.io/v1alpha1/reservations/")] = told
        return found

    pending = ("Pending", 1, when(300))
    invalid = ("Invalid", 0, None)
    assert written(1) == {"r/status": pending, "x/status": invalid}
    assert written(2) == {}
    assert written(31) == {"r/status": pending, "x/status": invalid}, "it is not shown"
    stated = reserved("r", 50, 300, "n", "m")
    shown = {"phase": "Pending", "nodes": 1, "start": when(50), "end": when(300)}
    stated.status = msgspec.convert(shown, ReservationStatus)
    world.show(stated)
    world.drop(reserved("x", 9, 0, "n"))
    assert written(49) == {}
    assert written(50) == {"r/status": ("Active", 1, when(300))}
    assert written(300) == {"r/status": ("Ended", 1, None)}
    world.drop(stated)
    assert written(9999) == {}


def test_an_invalid_one_is_told_once() -> None:
    world = World("n")
    wrong = reserved("r", 500, 0, "n")
    for now in (1, 2, 3):
        world.show(wrong)
        world.harness.observe(a_node(f"m{now}").offers(cpu=1))
        world.at(now)
    told = [e for e in of_kind(PublishEvent, world.harness.effects) if e.regarding.name == "r"]
    assert [(e.reason, e.note) for e in told] == [
        ("InvalidReservation", "Ignored: window: it must last a second at least")
    ]


@pytest.mark.parametrize("seed", range(24))
def test_random_worlds_obey_a_plain_model(seed: int) -> None:
    """Reservations come, go and are edited while pods come and end. Each pod is bound only where
    no window concerns it; and one that waits has no free node that none concerns."""
    rng = random.Random(seed)
    nodes = [f"n{n}" for n in range(4)]
    world = World(*nodes)
    world.harness.observe(*(a_queue(name) for name in "abc"))
    stated: dict[str, Reservation] = {}
    waiting: dict[str, PodBuilder] = {}
    placed: dict[str, tuple[PodBuilder, str]] = {}
    limits: dict[str, tuple[int | None, str]] = {}

    def concerned(name: str, node: str, now: float) -> bool:
        lasts, queue = limits[name]
        for each in stated.values():
            start, end = (
                datetime.fromisoformat(text).timestamp()
                for text in (each.spec.window.start, each.spec.window.end)
            )
            if node not in each.spec.nodes.names or queue in each.spec.users.queues or now >= end:
                continue
            if now + (100 if lasts is None else lasts) > start:
                return True
        return False

    now = 0.0
    for step in range(40):
        now += rng.choice([0, 1, 7, 30, 100])
        world.harness.now = now
        if rng.random() < 0.4:
            start = now + rng.choice([-50, 0, 20, 150, 400])
            users = {"users": {"queues": ["a"]}} if rng.random() < 0.5 else {}
            chosen = rng.sample(nodes, rng.randint(1, 4))
            each = reserved(f"r{rng.randrange(4)}", start, start + 120, *chosen, **users)
            stated[each.metadata.name] = each
            world.show(each)
        elif stated and rng.random() < 0.3:
            world.drop(stated.pop(rng.choice(sorted(stated))))
        if rng.random() < 0.7:
            name, lasts = f"p{step}", rng.choice([None, 10, 60, 300])
            queue = rng.choice("ab")
            limits[name] = lasts, queue
            waiting[name] = pod(name, f"{lasts}s" if lasts else None).in_queue(queue)
            world.harness.observe(waiting[name])
        if placed and rng.random() < 0.5:
            gone, _ = placed.pop(rng.choice(sorted(placed)))
            world.harness.observe_deleted(gone)
        for name, node in world.at(now).items():
            assert not concerned(name, node, now), (name, node, now)
            placed[name] = waiting.pop(name), node
        free = set(nodes) - {node for _, node in placed.values()}
        held = {(name, node) for name in waiting for node in free if not concerned(name, node, now)}
        assert not held, (held, now)


def test_a_status_that_the_server_refuses_is_told_once_and_tried_more_rarely() -> None:
    world = World("n")
    world.show(reserved("r", 500, 90_000, "n"))
    tries: list[float] = []
    told: list[str] = []

    def play(until: float, outcome: Outcome) -> None:
        while world.harness.now < until:
            effects = world.harness.advance_to(world.harness.now + 10)
            for write in of_kind(PatchObject, effects):
                tries.append(world.harness.now)
                effects += world.harness.settle(write, outcome)
            told.extend(
                e.note for e in of_kind(PublishEvent, effects) if e.reason == "FailedStatus"
            )

    play(400, Refused(403, "Forbidden", "no right"))
    assert told == ["Its status cannot be written: no right"]
    assert 2 <= len(tries) <= 6, "each time after twice as long"
    play(4000, Refused(403, "Forbidden", "quite another text"))
    assert len(told) == 2, "it says something new"
    play(20_000, Refused(0, "DeadlineExceeded"))
    assert len(told) == 2, "that is no refusal"
    assert tries[-1] - tries[-2] <= 600, "and it goes on"
