from __future__ import annotations

from typing import Any

import pytest

from arranger.api.gang_membership import claim_of
from arranger.controllers.gang.members import Counts, Member, member_of, muster
from arranger.gangs.gang import Standing
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
        {"tried": AT, "reason": "Unschedulable", "message": "0/1 nodes are available"},
    ),
    "a gated one has not been tried, whatever its condition says": (
        A_POD.with_status(phase="Pending", conditions=[_told("False", "SchedulingGated")]),
        {},
    ),
    "one with a node held for it": (A_POD.nominated_to("n1"), {"nominated": True}),
    "a bound one that does not run yet": (
        A_POD.on("n1").with_status(phase="Pending", conditions=[_told("True")]),
        {"standing": Standing.BOUND, "tried": AT},
    ),
    "a running one": (A_POD.on("n1"), {"standing": Standing.BOUND, "running": True}),
    "a bound one is not refused any more, and needs no nomination": (
        A_POD.on("n1").nominated_to("n1").with_status(phase="Pending", conditions=[REFUSED]),
        {"standing": Standing.BOUND, "tried": AT},
    ),
    "a succeeded one": (A_POD.in_phase("Succeeded"), {"standing": Standing.SUCCEEDED}),
    "a failed one": (A_POD.in_phase("Failed"), {"standing": Standing.FAILED}),
    "one with an owner": (A_POD.owned_by("Job", "j"), {"owners": ("default/j",)}),
}


@pytest.mark.parametrize(("pod", "expected"), MEMBERS.values(), ids=MEMBERS)
def test_what_a_pod_is_to_its_gang(pod: PodBuilder, expected: dict[str, Any]) -> None:
    assert _member(pod) == Member(**{"source": "scheduling.sigs.k8s.io", **expected})


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
    summed = muster(
        [
            Member("ps", Standing.BOUND, running=True, tried=LATER, owners=("a/z",)),
            Member("worker", Standing.BOUND, tried=AT),
            Member("worker", Standing.SUCCEEDED, owners=("a/b", "a/z")),
            Member("worker", Standing.FAILED),
            Member("worker", nominated=True, reason="Unschedulable", message="m"),
            Member("other"),
        ],
        minima={"ps": 1, "worker": 2, "chief": 1},
    )
    assert summed.total == Counts(members=6, placed=4, bound=3, running=1, succeeded=1, failed=1)
    assert summed.bundles == {
        "chief": Counts(),
        "other": Counts(members=1),
        "ps": Counts(members=1, placed=1, bound=1, running=1),
        "worker": Counts(members=4, placed=3, bound=2, succeeded=1, failed=1),
    }
    assert (summed.reason, summed.message) == ("Unschedulable", "m")
    assert summed.tried == AT
    assert summed.occupied_by == "a/b,a/z"
    assert summed.whole == 4
    assert not summed.complete, "nobody is chief"


def test_the_most_frequent_reason_wins_and_ties_do_not_flap() -> None:
    members = [Member(message=text) for text in ("b", "a", "c", "b", "a")]
    assert muster(members).message == muster(reversed(members)).message == "a"
    assert muster([*members, Member(message="c"), Member(message="c")]).message == "c"


def _member(pod: PodBuilder) -> Member:
    claim = claim_of(pod.build())
    assert claim is not None
    return member_of(pod.build(), claim)
