from __future__ import annotations

from typing import Any

import pytest

from arranger.api.settings.gang_membership import gang_membership
from arranger.controllers.gang.members import (
    MemberCounts,
    MemberSummary,
    summarize,
    summarize_member,
)
from arranger.gangs.member_state import MemberState
from tests.builders import PodBuilder, a_pod

AT = "2026-01-01T00:00:00Z"
LATER = "2026-01-01T00:00:05Z"
A_POD = a_pod().labelled({"pod-group.scheduling.sigs.k8s.io": "g"})


def _told(status: str, reason: str = "", message: str = "") -> dict[str, Any]:
    return {
        "type": "PodScheduled",
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": AT,
    }


REFUSED = _told("False", "Unschedulable", "0/1 nodes are available")
MEMBERS: dict[str, tuple[PodBuilder, dict[str, Any]]] = {
    "a pod that nobody has looked at": (A_POD, {}),
    "one that the scheduler has refused says why": (
        A_POD.with_status(phase="Pending", conditions=[REFUSED]),
        {"first_attempt_at": AT, "reason": "Unschedulable", "message": "0/1 nodes are available"},
    ),
    "a gated one has not been tried, whatever its condition says": (
        A_POD.with_status(phase="Pending", conditions=[_told("False", "SchedulingGated")]),
        {},
    ),
    "one with a node held for it": (A_POD.nominated_to("n1"), {"nominated": True}),
    "a bound one that does not run yet": (
        A_POD.on("n1").with_status(phase="Pending", conditions=[_told("True")]),
        {"state": MemberState.BOUND, "first_attempt_at": AT},
    ),
    "a running one": (A_POD.on("n1"), {"state": MemberState.BOUND, "running": True}),
    "a bound one is not refused any more, and needs no nomination": (
        A_POD.on("n1").nominated_to("n1").with_status(phase="Pending", conditions=[REFUSED]),
        {"state": MemberState.BOUND, "first_attempt_at": AT},
    ),
    "a succeeded one": (A_POD.in_phase("Succeeded"), {"state": MemberState.SUCCEEDED}),
    "a failed one": (A_POD.in_phase("Failed"), {"state": MemberState.FAILED}),
    "one with an owner": (A_POD.owned_by("Job", "j"), {"owners": ("default/j",)}),
}


@pytest.mark.parametrize(("pod", "expected"), MEMBERS.values(), ids=MEMBERS)
def test_what_a_pod_is_to_its_gang(pod: PodBuilder, expected: dict[str, Any]) -> None:
    assert _member(pod) == MemberSummary(**{"source": "scheduling.sigs.k8s.io", **expected})


SOURCES = {
    "scheduling.sigs.k8s.io": A_POD,
    "scheduling.x-k8s.io": a_pod().labelled({"scheduling.x-k8s.io/pod-group": "g"}),
    "scheduling.volcano.sh": a_pod().annotated({"scheduling.k8s.io/group-name": "g"}),
    "scheduling.k8s.io": a_pod().with_spec(schedulingGroup={"podGroupName": "g"}),
    "gang.scheduling.koordinator.sh": a_pod().annotated(
        {"gang.scheduling.koordinator.sh/name": "g"}
    ),
    "gang.koordinater.io": a_pod().annotated({"gang.koordinater.io/name": "g"}),
    "pod-group.scheduling.sigs.k8s.io": a_pod().annotated(
        {"pod-group.scheduling.sigs.k8s.io/name": "g"}
    ),
}


@pytest.mark.parametrize(("source", "pod"), SOURCES.items(), ids=SOURCES)
def test_the_dialect_is_named(source: str, pod: PodBuilder) -> None:
    assert _member(pod).source == source


def test_the_sums() -> None:
    summed = summarize(
        [
            MemberSummary(
                "ps", MemberState.BOUND, running=True, first_attempt_at=LATER, owners=("a/z",)
            ),
            MemberSummary("worker", MemberState.BOUND, first_attempt_at=AT),
            MemberSummary("worker", MemberState.SUCCEEDED, owners=("a/b", "a/z")),
            MemberSummary("worker", MemberState.FAILED),
            MemberSummary("worker", nominated=True, reason="Unschedulable", message="m"),
            MemberSummary("other"),
        ],
        minimums={"ps": 1, "worker": 2, "chief": 1},
    )
    assert summed.total == MemberCounts(
        members=6,
        placed=4,
        bound=3,
        running=1,
        succeeded=1,
        failed=1,
        waiting=2,
        kept=3,
        kept_running=1,
    )
    assert summed.bundles == {
        "chief": MemberCounts(),
        "other": MemberCounts(members=1, waiting=1),
        "ps": MemberCounts(members=1, placed=1, bound=1, running=1, kept=1, kept_running=1),
        "worker": MemberCounts(
            members=4, placed=3, bound=2, succeeded=1, failed=1, waiting=1, kept=2
        ),
    }
    assert (summed.reason, summed.message) == ("Unschedulable", "m")
    assert summed.first_attempt_at == AT
    assert summed.occupied_by == "a/b,a/z"
    assert summed.total_minimum == 4
    assert not summed.complete, "nobody is chief"


def test_members_that_are_being_deleted_keep_nothing() -> None:
    leaving = {"leaving": True}
    counts = summarize(
        [
            MemberSummary(**leaving),
            MemberSummary(),
            MemberSummary(state=MemberState.BOUND, running=True, **leaving),
            MemberSummary(state=MemberState.BOUND, running=True),
            MemberSummary(state=MemberState.SUCCEEDED),
        ]
    ).total
    assert (counts.waiting, counts.bound, counts.kept, counts.kept_running) == (1, 3, 2, 1)


def test_the_most_frequent_reason_wins_and_ties_do_not_flap() -> None:
    members = [MemberSummary(message=text) for text in ("b", "a", "c", "b", "a")]
    assert summarize(members).message == summarize(reversed(members)).message == "a"
    assert (
        summarize([*members, MemberSummary(message="c"), MemberSummary(message="c")]).message == "c"
    )


def _member(pod: PodBuilder) -> MemberSummary:
    claim = gang_membership(pod.build())
    assert claim is not None
    return summarize_member(pod.build(), claim)
