"""What is written on queues, by what is in them."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from arranger.api.types.pod_groups import VolcanoPodGroup
from arranger.controllers.queue.cache import QueueCache
from arranger.controllers.queue.entries import ObservedQueue
from arranger.controllers.queue.status import closed_by_parent, queue_status
from tests.builders import NodeBuilder, PodBuilder, a_node, a_pod
from tests.queueing import CARD, GPU, a_queue_manifest, gpu_node, inference, training

NOW, LATER = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
STATE = "arranger.io/queue-state"
_versions = itertools.count(1)


def a_queue(
    name: str,
    status: Mapping[str, Any] | None = None,
    notes: Mapping[str, str] | None = None,
    **more: Any,
) -> ObservedQueue:
    manifest = a_queue_manifest(name, notes=notes, **more)
    manifest["metadata"] |= {"uid": f"uid-{name}", "resourceVersion": str(next(_versions))}
    return msgspec.convert({**manifest, "status": dict(status or {})}, ObservedQueue)


def a_group(name: str, queue: str, phase: str = "") -> VolcanoPodGroup:
    manifest = {"metadata": {"name": name, "namespace": "default"}, "spec": {"queue": queue}}
    return msgspec.convert({**manifest, "status": {"phase": phase}}, VolcanoPodGroup)


def of_group(pod: PodBuilder, group: str) -> PodBuilder:
    return pod.annotated({"scheduling.k8s.io/group-name": group})


def a_book(*objects: ObservedQueue | NodeBuilder | PodBuilder | VolcanoPodGroup) -> QueueCache:
    book = QueueCache()
    for obj in objects:
        if isinstance(obj, ObservedQueue):
            book.on_queue_updated(obj)
        elif isinstance(obj, NodeBuilder):
            book.on_node_updated(obj.build())
        elif isinstance(obj, VolcanoPodGroup):
            book.on_pod_group_updated(obj)
        else:
            book.on_pod_updated(obj.build())
    return book


def status(book: QueueCache, name: str = "training", now: str = NOW) -> dict[str, Any]:
    return queue_status(book, name, now)


# --- use -----------------------------------------------------------------------------------------


def test_of_resources_that_pods_alone_name_the_first_are_shown() -> None:
    """A status has room for all, whatever pods of tenants name."""
    names = {f"x.com/{n:04d}": 1 for n in range(1000)}
    book = a_book(
        a_queue("training", capability={"x.com/0999": 5}),
        *(a_pod(f"p{n}").in_queue("training").needs(names).on("n") for n in range(2)),
        a_pod("q").in_queue("training").needs(cpu=1).on("n"),
    )
    shown = status(book)["allocated"]
    assert len(shown) == 256
    assert (shown["cpu"], shown["x.com/0999"], shown["x.com/0000"]) == ("1", "2", "2")


#: What there is, and what is shown of the use of ``training``.
USE: dict[str, tuple[list[Any], dict[str, str | None]]] = {
    "an empty queue without limits": (
        [a_queue("training")],
        {"cpu": "0/-", "memory": "0/-", "cards": None},
    ),
    "cards, used and not": (
        [a_queue("training", cards={CARD: 8, "H100": 2}), gpu_node(), training("t", 3).on("n")],
        {"cpu": "100m/-", "memory": "0/-", "cards": f"H100: 0/2, {CARD}: 3/8"},
    ),
    "cards that the quota does not name": (
        [a_queue("training", cards={}), gpu_node(), training("t", 3).on("n")],
        {"cpu": "100m/-", "memory": "0/-", "cards": f"{CARD}: 3/0"},
    ),
    "cards of a queue that does not count them": (
        [a_queue("training"), gpu_node(), training("t", 3).on("n")],
        {"cpu": "100m/-", "memory": "0/-", "cards": f"{CARD}: 3/-"},
    ),
    "against the capability": (
        [
            a_queue("training", capability={"cpu": 4, "memory": "4Gi"}),
            a_pod("p").in_queue("training").needs(cpu="1500m", memory="1536Mi").on("n"),
        ],
        {"cpu": "1500m/4", "memory": "1536Mi/4Gi", "cards": None},
    ),
    "what waits and what has ended uses nothing": (
        [
            a_queue("training"),
            a_pod("a").in_queue("training").needs(cpu=1),
            a_pod("b").in_queue("training").needs(cpu=1).on("n").in_phase("Succeeded"),
        ],
        {"cpu": "0/-", "memory": "0/-", "cards": None},
    ),
    "other schedulers' pods use room too": (
        [
            a_queue("training"),
            a_pod("p").in_queue("training").needs(cpu=1).for_scheduler("x").on("n"),
        ],
        {"cpu": "1/-", "memory": "0/-", "cards": None},
    ),
    "a parent uses what its children use": (
        [
            a_queue("training"),
            a_queue("a", parent="training"),
            a_queue("b", parent="a"),
            a_pod("p").in_queue("a").needs(cpu=1).on("n"),
            a_pod("q").in_queue("b").needs(cpu=2).on("n"),
        ],
        {"cpu": "3/-", "memory": "0/-", "cards": None},
    ),
    "pods are in the queue of their PodGroup": (
        [
            of_group(a_pod("p").needs(cpu=1), "g").on("n"),
            a_group("g", "training"),
            a_queue("training"),
        ],
        {"cpu": "1/-", "memory": "0/-", "cards": None},
    ),
    "unless they name another themselves": (
        [
            of_group(a_pod("p").in_queue("other").needs(cpu=1), "g").on("n"),
            a_group("g", "training"),
            a_queue("training"),
        ],
        {"cpu": "0/-", "memory": "0/-", "cards": None},
    ),
    "a node that comes after its pods": (
        [a_queue("training", cards={CARD: 8}), training("t", 3).on("n"), gpu_node()],
        {"cpu": "100m/-", "memory": "0/-", "cards": f"{CARD}: 3/8"},
    ),
    "a node that changes its cards": (
        [
            a_queue("training", cards={CARD: 8}),
            gpu_node(card="old"),
            training("t", 3).on("n"),
            gpu_node(),
        ],
        {"cpu": "100m/-", "memory": "0/-", "cards": f"{CARD}: 3/8"},
    ),
    "a node none of whose cards are healthy any more": (
        [
            a_queue("training", cards={CARD: 8}),
            gpu_node(),
            training("t", 3).on("n"),
            gpu_node(count=0),
        ],
        {"cpu": "100m/-", "memory": "0/-", "cards": f"{CARD}: 3/8"},
    ),
    "a request that cannot be read": (
        [a_queue("training"), a_pod("p").in_queue("training").needs(cpu="lots").on("n")],
        {"cpu": "0/-", "memory": "0/-", "cards": None},
    ),
}


@pytest.mark.parametrize("case", USE.values(), ids=USE.keys())
def test_use(case: tuple[list[Any], dict[str, str | None]]) -> None:
    objects, expected = case
    assert status(a_book(*objects))["usage"] == expected


def test_allocated_and_cards_in_numbers() -> None:
    book = a_book(a_queue("training", cards={CARD: 8}), gpu_node(), training("t", 3).on("n"))
    found = status(book)
    assert found["allocated"] == {"cpu": "100m", GPU: "3"}
    assert found["cards"] == {CARD: {"allocated": 3, "quota": 8}}


# --- counts --------------------------------------------------------------------------------------

COUNTS: dict[str, tuple[list[Any], dict[str, int]]] = {
    "PodGroups by their phase": (
        [
            a_group("a", "training", "Running"),
            a_group("b", "training", "Inqueue"),
            a_group("c", "training"),
            a_group("d", "training", "Unknown"),
            a_group("e", "training", "Completed"),
            a_group("f", "other", "Running"),
        ],
        {"pending": 1, "running": 1, "inqueue": 1, "unknown": 1, "completed": 1},
    ),
    "pods of a PodGroup are not counted again": (
        [a_group("g", "training", "Running"), of_group(a_pod("p"), "g").on("n")],
        {"running": 1},
    ),
    "lone pods, each for itself": (
        [
            training("a"),
            training("b").on("n"),
            training("c").on("n"),
            training("d").on("n").in_phase("Failed"),
        ],
        {"pending": 1, "running": 2, "completed": 1},
    ),
    "another dialect's gang as one": (
        [training(f"g-{n}").in_gang("g", 3) for n in range(3)],
        {"pending": 1},
    ),
    "which runs when part of it does": (
        [training("g-0").in_gang("g", 1).on("n"), training("g-1").in_gang("g", 1)],
        {"running": 1},
    ),
    "not other schedulers' pods": ([training("a").for_scheduler("x").on("n")], {}),
}


@pytest.mark.parametrize("case", COUNTS.values(), ids=COUNTS.keys())
def test_counts(case: tuple[list[Any], dict[str, int]]) -> None:
    objects, expected = case
    found = status(a_book(a_queue("training"), *objects))
    phases = ("pending", "running", "inqueue", "unknown", "completed")
    assert {phase: found[phase] for phase in phases if found[phase]} == expected


def test_whatever_the_order_the_sums_are_the_same_and_in_the_end_nothing_is_left() -> None:
    queues = [a_queue("training", cards={CARD: 8}), a_queue("inference"), a_queue("default")]
    groups = [a_group("g", "training", "Running"), a_group("h", "inference")]
    pods = [
        *(of_group(a_pod(f"g-{n}").needs({GPU: 1}), "g").on("n") for n in range(3)),
        *(of_group(a_pod(f"h-{n}").needs({GPU: 1}), "h") for n in range(3)),
        training("t", 2).on("n"),
        inference("i", 1).on("n"),
        a_pod("d").needs(cpu=1).on("m"),
    ]
    objects = [*queues, *groups, *pods, gpu_node(), a_node("m")]
    expected = [status(a_book(*objects), queue.name) for queue in queues]
    rng = random.Random(4)
    for _ in range(30):
        rng.shuffle(objects)
        book = a_book(*objects)
        assert [status(book, queue.name) for queue in queues] == expected
        events = [
            *((book.on_pod_deleted, pod.manifest()["metadata"]["uid"]) for pod in pods),
            *((book.on_pod_group_deleted, group.key) for group in groups),
            (book.on_node_deleted, "n"),
        ]
        rng.shuffle(events)
        for gone, name in events:
            gone(name)
        for queue in queues:
            empty = status(book, queue.name)
            assert not empty["allocated"]
            assert not any(empty[phase] for phase in ("pending", "running", "inqueue"))


def test_only_the_queues_concerned_are_looked_at() -> None:
    book = a_book(a_queue("team"), a_queue("training", parent="team"), a_queue("other"))
    assert book.on_pod_updated(training("t").build()) == {"training", "team"}
    assert book.on_pod_updated(training("t").labelled({"new": "label"}).build()) == set()
    assert book.on_pod_updated(training("t").on("n").build()) == {"training", "team"}
    assert book.on_node_updated(gpu_node().build()) == {"training", "team"}
    assert book.on_node_updated(gpu_node().holding("img", 5).build()) == set()
    assert book.on_pod_group_updated(a_group("g", "other")) == {"other"}
    assert book.on_pod_group_updated(a_group("g", "other")) == set()
    assert book.on_pod_group_updated(a_group("g", "other", "Running")) == {"other"}
    assert book.on_queue_updated(a_queue("other", {"state": "Open"})) == {"other"}
    assert book.on_queue_updated(a_queue("other", parent="team")) == {"team", "training", "other"}


def test_an_older_state_of_a_queue_is_passed_over() -> None:
    old, new = a_queue("q", weight=1), a_queue("q", weight=2)
    book = a_book(new, old)
    assert book.states["q"].weight == 2


# --- open and closed -----------------------------------------------------------------------------

CLOSE = {STATE: "Closed"}

STATES: dict[str, tuple[list[Any], str]] = {
    "a new queue is open": ([a_queue("training")], "Open"),
    "to be closed while a pod runs": (
        [a_queue("training", {"state": "Open"}, notes=CLOSE), training("t").on("n")],
        "Closing",
    ),
    "while a PodGroup has not ended": (
        [a_queue("training", {"state": "Open"}, notes=CLOSE), a_group("g", "training")],
        "Closing",
    ),
    "while a child has work": (
        [
            a_queue("training", {"state": "Open"}, notes=CLOSE),
            a_queue("a", parent="training"),
            a_pod("p").in_queue("a").on("n"),
        ],
        "Closing",
    ),
    "when all has ended": (
        [
            a_queue("training", {"state": "Closing"}, notes=CLOSE),
            a_group("g", "training", "Completed"),
            training("t").on("n").in_phase("Succeeded"),
        ],
        "Closed",
    ),
    "a closed queue stays closed when more comes": (
        [a_queue("training", {"state": "Closed"}, notes=CLOSE), training("t")],
        "Closed",
    ),
    "opened again": (
        [a_queue("training", {"state": "Closed"}, notes={STATE: "Open"})],
        "Open",
    ),
    "closed by others": ([a_queue("training", {"state": "Closed"})], "Closed"),
    "closing by others": (
        [a_queue("training", {"state": "Closing"}), training("t").on("n")],
        "Closing",
    ),
    "a word that cannot be read changes nothing": (
        [a_queue("training", {"state": "Open"}, notes={STATE: "closed please"})],
        "Open",
    ),
}


@pytest.mark.parametrize("case", STATES.values(), ids=STATES.keys())
def test_state(case: tuple[list[Any], str]) -> None:
    objects, expected = case
    assert status(a_book(*objects))["state"] == expected


# --- what is wrong -------------------------------------------------------------------------------

WRONG: dict[str, tuple[list[ObservedQueue], str]] = {
    "nothing": ([a_queue("training", guarantee={"resource": {"cpu": 1}}, deserved={"cpu": 2})], ""),
    "a quota that cannot be read": (
        [a_queue("training", notes={"volcano.sh/card.quota": "lots"})],
        "volcano.sh/card.quota: 'lots' is not JSON",
    ),
    "a quantity that cannot be read": (
        [a_queue("training", deserved={"cpu": "many"})],
        "spec.deserved: 'many' is not a quantity: expected a number, with a suffix such as m or Ki",
    ),
    "a state that cannot be read": (
        [a_queue("training", notes={STATE: "shut"})],
        "arranger.io/queue-state: 'shut' is neither Open nor Closed",
    ),
    "more deserved than may be had": (
        [a_queue("training", deserved={"cpu": 3, "memory": 1}, capability={"cpu": 2})],
        "spec.deserved is more than spec.capability in cpu",
    ),
    "more guaranteed than deserved": (
        [a_queue("training", guarantee={"resource": {GPU: 3}}, deserved={GPU: 2})],
        f"spec.guarantee is more than spec.deserved in {GPU}",
    ),
    "more guaranteed than may be had": (
        [a_queue("training", guarantee={"resource": {"cpu": 3}}, capability={"cpu": 2})],
        "spec.guarantee is more than spec.capability in cpu",
    ),
    "a parent that is not there": (
        [a_queue("training", parent="team")],
        "spec.parent: there is no queue team",
    ),
    "a queue that is its own parent": (
        [a_queue("training", parent="training")],
        "spec.parent: training is part of training",
    ),
    "a circle": (
        [
            a_queue("training", parent="a"),
            a_queue("a", parent="b"),
            a_queue("b", parent="training"),
        ],
        "spec.parent: training is part of a is part of b is part of training",
    ),
    "a circle further up is not its own": (
        [a_queue("training", parent="a"), a_queue("a", parent="a")],
        "",
    ),
}


@pytest.mark.parametrize("case", WRONG.values(), ids=WRONG.keys())
def test_condition(case: tuple[list[ObservedQueue], str]) -> None:
    queues, expected = case
    (condition,) = status(a_book(*queues))["conditions"]
    assert (condition["status"], condition["message"]) == (
        "False" if expected else "True",
        expected,
    )


def test_a_condition_keeps_its_time_and_others_theirs() -> None:
    theirs = {"type": "Theirs", "status": "True"}
    first = status(a_book(a_queue("training", {"conditions": [theirs]})))
    again = status(a_book(a_queue("training", first)), now=LATER)
    assert again["conditions"] == first["conditions"]
    assert first["conditions"][0] == theirs
    worse = status(a_book(a_queue("training", first, parent="x")), now=LATER)
    assert worse["conditions"][1]["lastTransitionTime"] == LATER


def test_a_queue_above_is_looked_at_again_when_work_below_it_ends() -> None:
    child = a_queue("child", parent="training")
    book = a_book(a_queue("training"), child, a_group("g", "child", "Running"))
    assert book.on_pod_group_updated(a_group("g", "child", "Completed")) == {"child", "training"}
    assert book.on_pod_group_deleted("default/g") == {"child", "training"}


def test_a_pod_that_says_it_is_of_another_gang_is_counted_with_that() -> None:
    pods = [training(name).labelled({"scheduling.x-k8s.io/pod-group": "a"}) for name in "pq"]
    book = a_book(a_queue("training"), *pods)
    assert status(book)["pending"] == 1
    book.on_pod_updated(pods[0].labelled({"scheduling.x-k8s.io/pod-group": "b"}).build())
    assert status(book)["pending"] == 2


# --- in a tree -----------------------------------------------------------------------------------

BY_PARENT = "volcano.sh/closed-by-parent"
TEAM_CLOSED = a_queue("team", notes={STATE: "Closed"})

#: Queues, and the state of ``training`` with what its mark is changed to ("" for nothing).
IN_A_TREE: dict[str, tuple[list[ObservedQueue], str, str]] = {
    "its parent is open": ([a_queue("team"), a_queue("training", parent="team")], "Open", ""),
    "its parent is closed": ([TEAM_CLOSED, a_queue("training", parent="team")], "Closed", "true"),
    "one above its parent is closed": (
        [
            *(a_queue("top", {"state": "Closed"}), a_queue("team", parent="top")),
            a_queue("training", parent="team"),
        ],
        "Closed",
        "true",
    ),
    "it was closed with its parent": (
        [TEAM_CLOSED, a_queue("training", {"state": "Closed"}, {BY_PARENT: "true"}, parent="team")],
        "Closed",
        "",
    ),
    "its parent is open again": (
        [a_queue("team"), a_queue("training", {"state": "Closed"}, {BY_PARENT: "true"})],
        "Open",
        "false",
    ),
    "it was closed before its parent": (
        [TEAM_CLOSED, a_queue("training", {"state": "Closed"}, parent="team")],
        "Closed",
        "",
    ),
    "and stays so": ([a_queue("team"), a_queue("training", {"state": "Closed"})], "Closed", ""),
    "its owner wants it open": (
        [TEAM_CLOSED, a_queue("training", notes={STATE: "Open"}, parent="team")],
        "Closed",
        "true",
    ),
    "its owner closes it as well": (
        [TEAM_CLOSED, a_queue("training", notes={STATE: "Closed"}, parent="team")],
        "Closed",
        "",
    ),
    "the root cannot be closed": (
        [a_queue("root", {"state": "Closed"}), a_queue("training")],
        "Open",
        "",
    ),
    "queues in a circle": (
        [a_queue("team", parent="training"), a_queue("training", parent="team")],
        "Open",
        "",
    ),
}


@pytest.mark.parametrize(("queues", "state", "mark"), IN_A_TREE.values(), ids=IN_A_TREE)
def test_a_queue_is_closed_with_the_one_that_it_is_part_of(
    queues: list[ObservedQueue], state: str, mark: str
) -> None:
    book = a_book(*queues)
    assert status(book)["state"] == state
    assert closed_by_parent(book, "training") == mark


def test_it_is_closing_while_it_has_work() -> None:
    pod = training("p").on("n")
    book = a_book(TEAM_CLOSED, a_queue("training", parent="team"), gpu_node(), pod)
    assert status(book)["state"] == "Closing"
    assert status(book, "team")["state"] == "Closing"
