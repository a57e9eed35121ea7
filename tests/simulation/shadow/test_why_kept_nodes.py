"""Nodes that are kept for others, and what is too large for all of them: why, and what helps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from arranger.api.annotations import MAX_RUN_TIME, RESERVATION
from arranger.daemon.config.schema import Config
from arranger.shadow import Shadow
from arranger.shadow.answers.suggestions import Suggester
from arranger.shadow.answers.why import Answer
from arranger.shadow.forecasts.forecast import Driver
from tests.builders import Manifest, PodBuilder, a_pod, a_pod_group
from tests.queueing import a_queue_manifest
from tests.simulation.shadow.asking import NOW, Given, busy, manifests, node, why


def reserved(start: str, end: str, name: str = "r", **spec: Any) -> Manifest:
    """A Reservation of node n1, of maintenance unless ``users`` are given."""
    if "users" not in spec:
        spec["maintenance"] = True
    return {
        "apiVersion": "arranger.io/v1alpha1",
        "kind": "Reservation",
        "metadata": {"name": name},
        "spec": {"nodes": {"names": ["n1"]}, "window": {"start": start, "end": end}, **spec},
    }


#: It is the midnight at which 2 January begins.
HOLDS = reserved("2026-01-01T00:00:00Z", "2026-01-03T00:00:00Z")
COMES = reserved("2026-01-02T00:30:00Z", "2026-01-02T08:00:00Z")
FOR_Q = reserved("2026-01-01T00:00:00Z", "2026-01-03T00:00:00Z", users={"queues": ["q"]})
PART = reserved("2026-01-01T00:00:00Z", "2026-01-03T00:00:00Z", users={"queues": ["q"]})
PART["spec"]["nodes"]["perNode"] = {"cpu": 2}
NEW = a_pod("new").needs(cpu=2)
WANTS = a_pod("new").needs(cpu=2).annotated({RESERVATION: "r"})
UNTIL = "reserved by Reservation r until 2026-01-03T00:00:00Z"

#: What it is about, the cluster, what the nodes say, and what is suggested.
KEPT: dict[str, tuple[Sequence[Given], str, str]] = {
    "a window that holds": (
        [node(), NEW, HOLDS],
        UNTIL,
        "when Reservation r ends, at 2026-01-03T00:00:00Z, or with the pod among its users",
    ),
    "a window that comes": (
        [node(), NEW, COMES],
        "reserved by Reservation r from 2026-01-02T00:30:00Z",
        f"the annotation {MAX_RUN_TIME}: 29m",
    ),
    "a gang before a window": (
        [node(), COMES, a_pod_group("g").with_spec(minMember=2)]
        + [a_pod(name).needs(cpu=1).in_pod_group("g") for name in ("new", "other")],
        "reserved by Reservation r from",
        f"the annotation {MAX_RUN_TIME}: 19m",
    ),
    "a Reservation that the pod asks for and that is not there": (
        [node(), WANTS],
        "Reservation 'r', which the pod asks for, does not exist",
        f"without the annotation {RESERVATION}",
    ),
    "a Reservation of others that the pod asks for": (
        [node(), node("n2"), WANTS, HOLDS],
        "the pod may not use Reservation r",
        f"without the annotation {RESERVATION}",
    ),
    "a part of a node": (
        [node(), NEW.needs(cpu=3), PART],
        f"reserved in part by Reservation r until {UNTIL.split()[-1]}",
        "when Reservation r ends, at 2026-01-03T00:00:00Z, or with the pod among its users",
    ),
    "a part of a node, and the rest is taken": (
        [node(), busy("old", 2), NEW, PART],
        f"reserved in part by Reservation r until {UNTIL.split()[-1]}",
        "when pod default/old ends",
    ),
    "a full node beside one that is reserved": (
        [node(), node("n2"), busy("old", 4, on="n2"), NEW, HOLDS],
        UNTIL,
        "when pod default/old ends",
    ),
}


@pytest.mark.parametrize("case", KEPT)
def test_nodes_that_are_kept_say_for_what_and_what_helps(case: str) -> None:
    given, reason, helps = KEPT[case]
    (answer,) = why("new", *given)
    assert answer.state == "Waiting"
    assert [text for text, _ in answer.node_reasons if reason in text], answer.node_reasons
    assert sum(count for _, count in answer.node_reasons) == _nodes(given)
    assert "fit" not in dict(answer.node_reasons)
    assert "nodes are not kept for others any more" in answer.wakes
    suggested = {each.change: each for each in answer.suggestions}
    assert helps in suggested, list(suggested)
    assert set(suggested[helps].nodes) == set(answer.pods)


def _nodes(given: Sequence[Given]) -> int:
    return sum(each["kind"] == "Node" for each in manifests(given))


@pytest.mark.parametrize(
    "given",
    [
        [node(), NEW, reserved("2025-12-01T00:00:00Z", "2026-01-01T00:00:00Z")],
        [node(), NEW.annotated({MAX_RUN_TIME: "10m"}), COMES],
        [node(), a_queue_manifest("q"), NEW.in_queue("q"), FOR_Q],
    ],
    ids=["a window that has ended", "a pod that ends before", "one of its users"],
)
def test_what_no_reservation_keeps_away_is_placeable(given: Sequence[Given]) -> None:
    (answer,) = why("new", *given)
    assert (answer.state, answer.node_reasons) == ("Placeable", [])


def test_a_node_that_is_kept_is_not_near_because_others_would_leave_it() -> None:
    """Room there would be no help, so nobody is told that it is what is missing."""
    (answer,) = why("new", node(), busy("old", 4), NEW, HOLDS)
    assert not [
        each for each in answer.suggestions if "ends" in each.change and "old" in each.change
    ]
    assert answer.nearest == []


def timed(name: str, started: str, limit: str = "1h") -> PodBuilder:
    """A pod that fills node n1 and has a maximum run time."""
    pod = busy(name, 4).annotated({MAX_RUN_TIME: limit})
    return pod.with_status(startTime=started, phase="Running")


def test_nobody_is_placed_now_because_another_one_ends_in_some_minutes() -> None:
    given = [node(), timed("old", "2026-01-01T23:05:00Z"), NEW]
    (answer,) = why("new", *given)
    assert answer.state == "Waiting"
    ends = "when pod default/old ends, at the latest at 2026-01-02 00:05:00 UTC"
    assert ends in [each.change for each in answer.suggestions]
    (answer,) = why("old", *given)
    assert (answer.state, answer.evicted) == ("Running", [])


def test_who_has_run_too_long_already_leaves_for_who_waits() -> None:
    (answer,) = why("new", node(), timed("old", "2026-01-01T22:00:00Z"), NEW)
    assert (answer.state, answer.nodes) == ("Placeable", {"default/new": "n1"})


def untried(*given: Given) -> tuple[Answer, list[str]]:
    """The answer about a pod, and the changes that are named where there is no time to try any."""
    shadow = Shadow.from_manifests(manifests(given), Config(), calendar=lambda: NOW)
    driver = Driver(shadow.engine, shadow.objects, Config(), NOW)
    told = driver.settle()
    (entity,) = told.engine.queue.entities()
    _, others = Suggester(driver, told, 0.0).suggest(entity, entity.representative)
    (answer,) = why("new", *given)
    return answer, others


def gang(cpu: int, least: int) -> list[Given]:
    names = ["new", *(f"m{n}" for n in range(1, least))]
    members = [a_pod(name).needs(cpu=cpu).in_pod_group("g") for name in names]
    return [a_pod_group("g").with_spec(minMember=least), *members]


CORDONED = node("n2").with_spec(unschedulable=True)


def test_what_can_never_be_placed_is_told_no_change_that_cannot_help() -> None:
    """One that is larger than every node, even an empty one: neither ends nor such nodes help."""
    for given in ([a_pod("new").needs(cpu=9)], gang(9, 2)):
        answer, others = untried(node(), busy("old", 3), CORDONED, *given)
        assert answer.never.endswith(" asks for cpu 9, and the largest node has cpu 4")
        named = [*others, *(each.change for each in answer.suggestions)]
        assert named
        assert all(" more on node " in change for change in named), named


def test_a_gang_larger_than_all_nodes_is_told_of_more_room_alone() -> None:
    answer, others = untried(node(), busy("old", 3), *gang(3, 2))
    assert answer.never.startswith("all nodes together have room for 1 of the 2")
    named = [*others, *(each.change for each in answer.suggestions)]
    assert "1 more node like n1" in named
    assert not [change for change in named if "ends" in change], named


def test_a_gang_beyond_its_queue_is_told_of_the_queue_alone() -> None:
    limit = a_queue_manifest("q", capability={"cpu": "3"})
    members = [a_pod(n).needs(cpu=2).in_pod_group("g").in_queue("q") for n in ("new", "other")]
    group = a_pod_group("g").with_spec(minMember=2)
    answer, others = untried(node(cpu=16), busy("old", 3), limit, group, *members)
    assert answer.never == "2 pods of gang default/g ask for cpu 4, and queue q may use cpu 3"
    assert [each.change for each in answer.suggestions] == ["queue q with capability cpu 4"]
    assert not [change for change in others if "ends" in change], others


def test_what_may_fit_later_is_not_said_to_fit_never() -> None:
    (answer,) = why("new", node(), busy("old", 4), NEW)
    assert answer.never == ""
