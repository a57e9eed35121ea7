"""What a Queue states, as numbers, and what is wrong with it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from arranger.api.types.queue import Queue
from arranger.quota.queue_spec import (
    QueueQuota,
    charges_for,
    path_or_default,
    read_queue,
    validate,
    why_no_pods_in,
)
from tests.builders import a_queue

# --- reading ------------------------------------------------------------------------------------

READ: dict[str, tuple[Queue, dict[str, Any]]] = {
    "a queue that says nothing has no limits": (a_queue("q"), {}),
    "limits are numbers, cpu in millicores": (
        a_queue("q", capability={"cpu": "2", "memory": "1Ki"}),
        {"capability": {"cpu": 2000, "memory": 1024}},
    ),
    "due is what it deserves or is guaranteed, whichever is more": (
        a_queue(
            "q",
            deserved={"cpu": 3, "memory": 5},
            guarantee={"resource": {"cpu": 1, "memory": 8, "pods": 2}},
        ),
        {
            "deserved": {"cpu": 3000, "memory": 5},
            "guarantee": {"cpu": 1000, "memory": 8, "pods": 2},
            "due": {"cpu": 3000, "memory": 8, "pods": 2},
        },
    ),
    "its place, weight, priority and whether it gives anything back": (
        a_queue("q", parent="team", weight=7, priority=9, reclaimable=False),
        {"parent": "team", "weight": 7, "priority": 9, "reclaimable": False},
    ),
    "the nodes that it may use, and those that it may not": (
        a_queue(
            "q",
            affinity={
                "nodeGroupAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": ["a"]},
                "nodeGroupAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": ["b"]},
            },
        ),
        {"node_groups": frozenset("a"), "excluded_node_groups": frozenset("b")},
    ),
    "cards": (a_queue("q", cards={"A100": 8}), {"card_quota": {"A100": 8}}),
    "no card at all": (a_queue("q", cards={}), {"card_quota": {}}),
    "a closed one": (a_queue("q", state="Closed"), {"is_open": False}),
    "one that is being closed": (a_queue("q", state="Closing"), {"is_open": False}),
}


@pytest.mark.parametrize(("queue", "said"), READ.values(), ids=READ.keys())
def test_what_a_queue_says(queue: Queue, said: dict[str, Any]) -> None:
    expected = QueueQuota("q")
    expected.rights = read_queue(a_queue("q")).rights
    for name, value in said.items():
        setattr(expected, name, value)
    assert read_queue(queue) == expected


def noted(**notes: str) -> Queue:
    queue = a_queue("q")
    queue.metadata.annotations.update(
        {f"volcano.sh/{name.replace('_', '.')}": text for name, text in notes.items()}
    )
    return queue


PROBLEMS: dict[str, tuple[Queue, str, dict[str, Any]]] = {
    "a capability that is no amount limits nothing": (
        a_queue("q", capability={"cpu": "many"}),
        "spec.capability: ",
        {"capability": {}},
    ),
    "what is deserved": (a_queue("q", deserved={"cpu": "many"}), "spec.deserved: ", {"due": {}}),
    "what is guaranteed": (
        a_queue("q", deserved={"cpu": 1}, guarantee={"resource": {"cpu": "many"}}),
        "spec.guarantee: ",
        {"guarantee": {}, "due": {"cpu": 1000}},
    ),
    "a quota of cards that cannot be read admits none": (
        noted(card_quota="["),
        "volcano.sh/card.quota: ",
        {"card_quota": {}},
    ),
    "an order that nobody keeps": (
        a_queue("q", dequeueStrategy="fifo"),
        "spec.dequeueStrategy: fifo: who cannot be placed holds up nobody",
        {},
    ),
    "devices that are not limited": (
        a_queue("q", dra={"gpu.nvidia.com": {"count": 1}}),
        "spec.dra: devices by DeviceClass are not limited",
        {},
    ),
    "a weight of nothing, as Volcano's definition lets pass": (
        a_queue("q", weight=0),
        "spec.weight: 0 is less than 1",
        {"weight": 1},
    ),
    "a weight of less than nothing": (
        a_queue("q", weight=-5),
        "spec.weight: -5 is less than 1",
        {"weight": 1},
    ),
    "services that nobody knows": (
        a_queue("q", serviceTypes=["training", "gaming"]),
        "spec.serviceTypes: gaming is unknown",
        {},
    ),
}


@pytest.mark.parametrize(("queue", "problem", "read"), PROBLEMS.values(), ids=PROBLEMS.keys())
def test_what_cannot_be_read_is_told_and_left_out(
    queue: Queue, problem: str, read: dict[str, Any]
) -> None:
    state = read_queue(queue)
    (told,) = state.problems
    assert told.startswith(problem)
    assert {name: getattr(state, name) for name in read} == read


@pytest.mark.parametrize(
    ("status", "is_open"), [("Open", True), ("", True), ("Closed", False), ("Closing", False)]
)
def test_where_the_wish_cannot_be_read_the_status_counts(status: str, is_open: bool) -> None:
    queue = a_queue("q", state=status)
    queue.metadata.annotations["arranger.io/queue-state"] = "Ajar"
    state = read_queue(queue)
    assert state.is_open is is_open
    assert [text.partition(": ")[0] for text in state.problems] == ["arranger.io/queue-state"]


@pytest.mark.parametrize(
    "queue",
    [a_queue("q", dequeueStrategy="traverse"), a_queue("q", dra={"class": {}})],
    ids=["the order that all keep", "devices of which nothing is said"],
)
def test_what_asks_for_nothing_else_is_no_problem(queue: Queue) -> None:
    assert read_queue(queue).problems == []


# --- what is wrong with one beside others -------------------------------------------------------


def known(*queues: Queue) -> dict[str, QueueQuota]:
    return {queue.name: read_queue(queue) for queue in queues}


WRONG: dict[str, tuple[tuple[Queue, ...], list[str]]] = {
    "all equal is well": (
        (
            a_queue(
                "q",
                guarantee={"resource": {"cpu": 2}},
                deserved={"cpu": 2},
                capability={"cpu": 2},
            ),
        ),
        [],
    ),
    "a guarantee above what it deserves, and above its capability": (
        (
            a_queue(
                "q",
                guarantee={"resource": {"cpu": 4, "memory": 1, "a": 2}},
                deserved={"cpu": 3, "memory": 1},
                capability={"cpu": 3, "a": 1},
            ),
        ),
        [
            "spec.guarantee is more than spec.deserved in cpu",
            "spec.guarantee is more than spec.capability in a, cpu",
        ],
    ),
    "what it deserves above its capability": (
        (a_queue("q", deserved={"cpu": 3}, capability={"cpu": 2}),),
        ["spec.deserved is more than spec.capability in cpu"],
    ),
    "a parent that is not there": (
        (a_queue("q", parent="team"),),
        ["spec.parent: there is no queue team"],
    ),
    "the root, and the default queue, need not be made": (
        (a_queue("q", parent="root"), a_queue("r", parent="default")),
        [],
    ),
    "its own parent": (
        (a_queue("q", parent="q"),),
        ["spec.parent: q is part of q"],
    ),
    "a circle": (
        (a_queue("q", parent="r"), a_queue("r", parent="s"), a_queue("s", parent="q")),
        ["spec.parent: q is part of r is part of s is part of q"],
    ),
}


@pytest.mark.parametrize(("queues", "wrong"), WRONG.values(), ids=WRONG.keys())
def test_what_is_wrong_though_it_can_be_read(queues: tuple[Queue, ...], wrong: list[str]) -> None:
    assert validate(known(*queues), "q") == wrong


# --- places in the tree -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("queues", "name", "path"),
    [
        pytest.param((), "default", ["default"], id="the default queue need not be made"),
        pytest.param((), "q", [], id="others must be"),
        pytest.param(
            (a_queue("q", parent="team"), a_queue("team"), a_queue("root")),
            "q",
            ["q", "team", "root"],
            id="all that are above, and the root",
        ),
    ],
)
def test_the_path(queues: tuple[Queue, ...], name: str, path: list[str]) -> None:
    assert [each.name for each in path_or_default(known(*queues), name)] == path


@pytest.mark.parametrize(
    ("queues", "name", "why"),
    [
        pytest.param((), "q", "", id="where there are none, any name will do"),
        pytest.param((a_queue("q"),), "q", "", id="one that is open"),
        pytest.param((a_queue("q", parent="q"),), "q", "", id="it is no part of itself"),
        pytest.param((a_queue("q"),), "r", "Queue <r> does not exist", id="one that is not there"),
        pytest.param(
            (a_queue("q"), a_queue("a", parent="q")),
            "q",
            "Queue <q> takes no pods: 1 other queue is part of it",
            id="one with a part",
        ),
        pytest.param(
            (a_queue("q"), a_queue("a", parent="q"), a_queue("b", parent="q")),
            "q",
            "Queue <q> takes no pods: 2 other queues are part of it",
            id="one with two",
        ),
        pytest.param(
            (a_queue("q", parent="team"), a_queue("team", state="Closed")),
            "q",
            "Queue <team> is not open",
            id="one below a closed one",
        ),
    ],
)
def test_why_a_queue_takes_no_pods(queues: tuple[Queue, ...], name: str, why: str) -> None:
    assert why_no_pods_in(known(*queues), name) == why


# --- charges and shares -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("requests", "cards", "charged"),
    [
        pytest.param({"cpu": 5, "pods": 1, "memory": 0}, {}, {"cpu": 5}, id="no slots, no zeros"),
        pytest.param(
            {"gpu": 2, "cpu": 1},
            {"gpu": "A100", "npu": "X"},
            {"gpu": 2, "cpu": 1, "A100": 2},
            id="a card beside its resource",
        ),
        pytest.param(
            {"gpu": 2, "mig": 3},
            {"gpu": "A100", "mig": "A100"},
            {"gpu": 2, "mig": 3, "A100": 5},
            id="one card by two resources",
        ),
    ],
)
def test_what_a_pod_is_charged(
    requests: dict[str, int], cards: dict[str, str], charged: dict[str, int]
) -> None:
    assert charges_for(requests, cards) == charged


@pytest.mark.parametrize(
    ("limits", "share"),
    [
        pytest.param({}, 0.5, id="of all there is"),
        pytest.param({"capability": {"cpu": 8}}, 0.25, id="of its capability"),
        pytest.param({"card_quota": {"A100": 2}}, 0.5, id="of its cards"),
        pytest.param(
            {"deserved": {"cpu": 1, "memory": 0}, "capability": {"cpu": 8}}, 2.0, id="due"
        ),
    ],
)
def test_the_dominant_share(limits: dict[str, Any], share: float) -> None:
    state = QueueQuota("q", **limits, used=Counter(cpu=2, A100=1, memory=5))
    assert state.dominant_share({"cpu": 4, "disk": 0}) == share


def test_who_is_due_nothing_has_no_share_of_it() -> None:
    assert QueueQuota("q", used=Counter(cpu=2)).dominant_share({}) == 0.0
