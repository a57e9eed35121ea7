from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import yaml

from arranger.api.settings.gang_settings import GangSettings, MatchPolicy, Mode, Topology
from arranger.controllers.gang.members import GangSummary, MemberSummary, summarize
from arranger.controllers.gang.status import (
    community_status,
    gang_status,
    native_status,
    phase_of,
    volcano_status,
)
from arranger.gangs.gang_object import gang_object_spec
from arranger.gangs.member_state import MemberState
from tests.paths import REPO

NOW = "2026-01-01T00:00:00Z"
EARLIER = "2025-12-31T00:00:00Z"
WHY = "gang default/g: 4/4 members have arrived, 2 placeable"


def a_gang(
    *,
    pending: int = 0,
    waiting: int = 0,
    held: int = 0,
    bound: int = 0,
    running: int = 0,
    succeeded: int = 0,
    failed: int = 0,
    leaving: int = 0,
    minimum: int = 4,
    **more: Any,
) -> GangSummary:
    """Members by how far they are; ``waiting`` ones have been told why, ``held`` ones too."""
    told = {"first_attempt_at": EARLIER, "reason": "Unschedulable", "message": WHY}
    members = [
        *[MemberSummary()] * pending,
        *[MemberSummary(**told)] * waiting,  # type: ignore[arg-type]
        *[MemberSummary(nominated=True, **told)] * held,  # type: ignore[arg-type]
        *[MemberSummary(state=MemberState.BOUND, first_attempt_at=EARLIER)] * bound,
        *[MemberSummary(state=MemberState.BOUND, running=True, first_attempt_at=EARLIER)] * running,
        *[MemberSummary(state=MemberState.BOUND, running=True, leaving=True)] * leaving,
        *[MemberSummary(state=MemberState.SUCCEEDED, first_attempt_at=EARLIER)] * succeeded,
        *[MemberSummary(state=MemberState.FAILED, first_attempt_at=EARLIER)] * failed,
    ]
    return summarize(members, minimum=minimum, **more)


# sentence: the gang, its phase before, its phase
PHASES: dict[str, tuple[GangSummary, str, str]] = {
    "no pods yet": (a_gang(), "", "Pending"),
    "too few have arrived": (a_gang(pending=3), "Pending", "Pending"),
    "too few have arrived, and they know it": (a_gang(waiting=3), "Pending", "Pending"),
    "all are there and nobody has looked": (a_gang(pending=4), "Pending", "PreScheduling"),
    "the scheduler has tried": (a_gang(waiting=4), "PreScheduling", "Scheduling"),
    "some are bound": (a_gang(waiting=2, bound=2), "Scheduling", "Scheduling"),
    "some are held": (a_gang(waiting=2, held=2), "Scheduling", "Scheduling"),
    "the minimum is bound": (a_gang(waiting=1, bound=4), "Scheduling", "Scheduled"),
    "not enough of the bound run": (a_gang(bound=2, running=2), "Scheduled", "Scheduled"),
    "the minimum runs": (a_gang(running=4), "Scheduled", "Running"),
    "more than the minimum": (a_gang(pending=3, running=5), "Scheduled", "Running"),
    "succeeded members count as running": (a_gang(running=2, succeeded=2), "Running", "Running"),
    "one of the minimum is gone": (a_gang(running=3), "Running", "Scheduling"),
    "all pods are gone": (a_gang(), "Running", "Pending"),
    "the minimum has succeeded": (a_gang(succeeded=4), "Running", "Finished"),
    "with failures on the way": (a_gang(succeeded=4, failed=2), "Running", "Finished"),
    "a surplus member failed": (a_gang(running=4, failed=1), "Running", "Running"),
    "one of the minimum failed": (a_gang(running=3, failed=1), "Running", "Failed"),
    "all failed": (a_gang(failed=4), "Running", "Failed"),
    "one failed before the others ran": (a_gang(bound=3, failed=1), "Scheduled", "Scheduling"),
    "another took the place of the failed one": (
        a_gang(running=3, failed=1, pending=1),
        "Failed",
        "Scheduling",
    ),
    "an end outlives the pods": (a_gang(), "Finished", "Finished"),
    "a bad end outlives the pods": (a_gang(), "Failed", "Failed"),
    "an end outlives pods that are too few": (a_gang(pending=3), "Finished", "Finished"),
    "an end is over when the gang comes back": (a_gang(pending=4), "Finished", "PreScheduling"),
    "nothing is asked: any pod will do": (a_gang(pending=1, minimum=0), "", "PreScheduling"),
    "nothing is asked and there is nothing": (a_gang(minimum=0), "", "Pending"),
    "nobody says what is asked": (a_gang(pending=1, minimum=0, defined=False), "", "Pending"),
    "every bundle must be complete": (
        a_gang(bound=4, minimum=0, minimums={"": 3, "ps": 1}),
        "",
        "Scheduling",
    ),
    "every bundle is complete": (a_gang(bound=4, minimum=0, minimums={"": 4}), "", "Scheduled"),
}


@pytest.mark.parametrize(("gang", "before", "phase"), PHASES.values(), ids=PHASES)
def test_the_phase(gang: GangSummary, before: str, phase: str) -> None:
    assert phase_of(gang, before) == phase


@pytest.mark.parametrize(("gang", "before", "phase"), PHASES.values(), ids=PHASES)
def test_scheduler_plugins_knows_fewer_phases(gang: GangSummary, before: str, phase: str) -> None:
    coarse = {"PreScheduling": "Scheduling", "Scheduled": "Scheduling"}
    if phase == "Scheduling" and gang.total.members < gang.total_minimum:
        phase = "Pending"
    found = community_status(gang, before={"phase": coarse.get(before, before)}, coarse_phases=True)
    assert found["phase"] == coarse.get(phase, phase)


# sentence: the gang, its phase before, its phase
VOLCANO: dict[str, tuple[GangSummary, str, str]] = {
    "no pods yet": (a_gang(), "", "Inqueue"),
    "pods that nobody has looked at": (a_gang(pending=4), "Pending", "Pending"),
    "pods of one that was enqueued": (a_gang(pending=4), "Inqueue", "Inqueue"),
    "the scheduler has taken it up": (a_gang(waiting=4), "Pending", "Inqueue"),
    "the minimum is bound": (a_gang(bound=4), "Inqueue", "Running"),
    "the first run before the last are bound": (a_gang(running=2, pending=2), "Inqueue", "Inqueue"),
    "some run and the others find no place": (a_gang(running=2, waiting=2), "Inqueue", "Unknown"),
    "a running member was deleted": (a_gang(running=3), "Running", "Unknown"),
    "a running member was deleted, and the end was not seen": (
        a_gang(running=3),
        "Inqueue",
        "Unknown",
    ),
    "a new member takes its place": (a_gang(running=3, pending=1), "Unknown", "Unknown"),
    "a new member was there at once": (a_gang(running=3, pending=1), "Running", "Running"),
    "and finds no place": (a_gang(running=3, waiting=1), "Running", "Unknown"),
    "the new member has its node": (a_gang(running=3, bound=1), "Unknown", "Running"),
    "a running member failed": (a_gang(running=3, failed=1), "Running", "Unknown"),
    "one beyond the minimum failed": (a_gang(running=4, failed=1), "Running", "Running"),
    "one beyond the minimum was deleted": (a_gang(running=4), "Running", "Running"),
    "a bound member was deleted before any ran": (a_gang(bound=3), "Running", "Inqueue"),
    "a member is being deleted": (a_gang(running=3, leaving=1), "Running", "Running"),
    "all are being deleted": (a_gang(leaving=4), "Running", "Running"),
    "one is being deleted and another waits": (
        a_gang(running=2, leaving=1, pending=1),
        "Running",
        "Unknown",
    ),
    "one is being deleted, and that leaves too few": (
        a_gang(running=2, leaving=1),
        "Unknown",
        "Unknown",
    ),
    "the last running member was deleted": (a_gang(), "Unknown", "Inqueue"),
    "some have succeeded": (a_gang(running=1, succeeded=3), "Running", "Running"),
    "the last one failed": (a_gang(failed=1, succeeded=3), "Running", "Completed"),
    "all have succeeded": (a_gang(succeeded=4), "Running", "Completed"),
    "all have failed": (a_gang(failed=4), "Running", "Completed"),
    "failed ones have had a node": (a_gang(bound=3, failed=1), "Inqueue", "Running"),
    "completed outlives the pods": (a_gang(), "Completed", "Completed"),
    "pods evicted": (a_gang(), "Running", "Inqueue"),
    "a role has lost its only member": (
        a_gang(running=4, minimum=0, minimums={"": 3, "ps": 1}),
        "Running",
        "Unknown",
    ),
}


@pytest.mark.parametrize(("gang", "before", "phase"), VOLCANO.values(), ids=VOLCANO)
def test_volcanos_phase(gang: GangSummary, before: str, phase: str) -> None:
    assert volcano_status(gang, before={"phase": before}, now=NOW)["phase"] == phase


# sentence: the gang, what its condition says
UNKNOWN: dict[str, tuple[GangSummary, str]] = {
    "one is gone": (
        a_gang(running=3),
        "1/3 tasks in gang unschedulable: pod group is not ready, 3 Running, 4 minAvailable",
    ),
    "two have failed and one new one is there": (
        a_gang(running=2, failed=2, pending=1),
        "2/5 tasks in gang unschedulable: pod group is not ready, "
        "1 Pending, 2 Failed, 2 Running, 4 minAvailable",
    ),
    "the new one was told why": (a_gang(running=3, waiting=1), WHY),
}


@pytest.mark.parametrize(("gang", "message"), UNKNOWN.values(), ids=UNKNOWN)
def test_why_volcanos_phase_is_unknown(gang: GangSummary, message: str) -> None:
    scheduled = {"type": "Scheduled", "status": "True", "lastTransitionTime": EARLIER}
    before = {"phase": "Running", "conditions": [scheduled]}
    [condition] = volcano_status(gang, before=before, now=NOW)["conditions"]
    assert (condition["type"], condition["message"]) == ("Unschedulable", message)


def test_a_pod_group_that_is_not_admitted_is_pending_until_it_is() -> None:
    status = volcano_status(a_gang(), before={}, now=NOW, refusal="the queue is full")
    [condition] = status["conditions"]
    told = condition["type"], condition["reason"], condition["message"]
    assert (status["phase"], *told) == (
        "Pending",
        "Unschedulable",
        "NotAdmitted",
        "the queue is full",
    )
    status = volcano_status(a_gang(), before=status, now=NOW)
    assert (status["phase"], status["conditions"]) == ("Inqueue", None)


def test_what_has_pods_is_admitted_by_the_scheduler() -> None:
    status = volcano_status(a_gang(waiting=4), before={}, now=NOW, refusal="the queue is full")
    assert status["phase"] == "Inqueue"


def test_scheduler_plugins_calls_a_gang_pending_that_has_lost_a_member() -> None:
    for coarse, phase in ((True, "Pending"), (False, "Scheduling")):
        found = community_status(
            a_gang(running=3), before={"phase": "Running"}, coarse_phases=coarse
        )
        assert found["phase"] == phase


# sentence: the gang, its reason, its message
REASONS: dict[str, tuple[GangSummary, str | None, str | None]] = {
    "the scheduler's words go first": (a_gang(waiting=4), "Unschedulable", WHY),
    "also while members are missing": (a_gang(waiting=1), "Unschedulable", WHY),
    "too few": (a_gang(pending=3), "NotEnoughMembers", "3/4 members have arrived"),
    "no PodGroup": (
        a_gang(pending=3, minimum=0, defined=False),
        "NotDefined",
        "nobody has said how many members must run: its PodGroup is not there",
    ),
    "waiting for the scheduler": (a_gang(pending=4), None, None),
    "a surplus member that waits is no reason": (a_gang(running=4, waiting=1), None, None),
    "failed": (a_gang(running=1, failed=3), "MembersFailed", "3/4 members have failed"),
    "no pods": (a_gang(), None, None),
}


@pytest.mark.parametrize(("gang", "reason", "message"), REASONS.values(), ids=REASONS)
def test_the_reason(gang: GangSummary, reason: str | None, message: str | None) -> None:
    status = gang_status(gang, before={})
    assert (status["reason"], status["message"]) == (reason, message)
    status = community_status(gang, before={}, coarse_phases=False)
    assert (status["reason"], status["message"]) == (reason, message)


def test_the_status_of_a_gang() -> None:
    members = [
        MemberSummary("ps", MemberState.BOUND, running=True),
        MemberSummary("worker", MemberState.BOUND),
        MemberSummary("worker", nominated=True, reason="Unschedulable", message=WHY),
    ]
    gang = summarize(members, minimums={"ps": 1, "worker": 2})
    zero = {"running": 0, "succeeded": 0, "failed": 0}
    assert gang_status(gang, before={}) == {
        "phase": "Scheduling",
        "bundles": [
            {**zero, "name": "ps", "minMember": 1, "members": 1, "placed": 1, "bound": 1}
            | {"running": 1},
            {**zero, "name": "worker", "minMember": 2, "members": 2, "placed": 2, "bound": 1},
        ],
        "members": 3,
        "minMember": 3,
        "placed": 3,
        "bound": 2,
        "running": 1,
        "succeeded": 0,
        "failed": 0,
        "reason": "Unschedulable",
        "message": WHY,
    }


def test_what_only_the_scheduler_knows_is_left_to_it() -> None:
    before = {"resourceSatisfied": True, "waitingSince": EARLIER, "schedulingCycle": 3}
    assert gang_status(a_gang(held=2, pending=2), before=before).keys().isdisjoint(before)


def test_the_status_of_a_pod_group() -> None:
    members = [
        MemberSummary(
            state=MemberState.BOUND, running=True, first_attempt_at=EARLIER, owners=("default/job",)
        ),
        MemberSummary(state=MemberState.SUCCEEDED, first_attempt_at=NOW),
        MemberSummary(state=MemberState.FAILED, first_attempt_at=NOW),
    ]
    status = community_status(summarize(members, minimum=2), before={}, coarse_phases=False)
    assert status == {
        "phase": "Running",
        "occupiedBy": "default/job",
        "scheduled": 2,
        "running": 1,
        "succeeded": 1,
        "failed": 1,
        "scheduleStartTime": EARLIER,
        "reason": None,
        "message": None,
    }


def test_a_pod_group_keeps_when_it_was_first_tried() -> None:
    before = {"scheduleStartTime": EARLIER}
    for gang in (a_gang(pending=4), a_gang()):
        status = community_status(gang, before=before, coarse_phases=False)
        assert status["scheduleStartTime"] == EARLIER


def test_a_report_that_was_written_late_tells_of_an_earlier_try() -> None:
    gang = summarize([MemberSummary(first_attempt_at=EARLIER)] * 2, minimum=2)
    for coarse in (False, True):
        status = community_status(gang, before={"scheduleStartTime": NOW}, coarse_phases=coarse)
        assert status["scheduleStartTime"] == EARLIER


def test_members_that_wait_for_others_are_no_try() -> None:
    status = community_status(a_gang(waiting=3), before={}, coarse_phases=False)
    assert status["scheduleStartTime"] is None


@pytest.mark.parametrize("phase", ["Finished", "Failed", "Completed"])
def test_what_was_counted_in_the_end_stays_when_the_pods_are_cleaned_up(phase: str) -> None:
    before = {"phase": phase, "running": 0, "succeeded": 3, "failed": 1}
    gang = a_gang(succeeded=2)
    for status in (
        community_status(gang, before=before, coarse_phases=False),
        volcano_status(gang, before=before, now=NOW),
        gang_status(gang, before=before),
    ):
        assert (status["phase"], status["succeeded"], status["failed"]) == (phase, 3, 1)
        assert "message" not in status, "what was said of the removed stays"


def test_after_the_end_nothing_is_said_to_run_that_is_gone() -> None:
    before = {"phase": "Failed", "running": 2, "succeeded": 1, "failed": 1}
    status = community_status(a_gang(), before=before, coarse_phases=False)
    assert (status["running"], status["succeeded"], status["failed"]) == (0, 1, 1)
    assert status["scheduled"] == 1, "the one that has succeeded"


def test_conditions_of_volcano_say_what_is_so_now() -> None:
    ran = volcano_status(a_gang(running=4), before={}, now=NOW)
    assert [c["type"] for c in ran["conditions"]] == ["Scheduled"]
    assert volcano_status(a_gang(), before=ran, now=NOW)["conditions"] is None


def test_after_a_bad_end_the_members_that_are_left_are_still_counted() -> None:
    before = {"phase": "Failed", "running": 2, "succeeded": 0, "failed": 2}
    status = community_status(a_gang(running=1, failed=3), before=before, coarse_phases=False)
    assert (status["phase"], status["running"], status["failed"]) == ("Failed", 1, 3)


# --- conditions ------------------------------------------------------------------------------

FOREIGN = {"type": "DisruptionTarget", "status": "True", "lastTransitionTime": EARLIER}


def _native(status: str, reason: str, message: str, at: str, kind: str) -> dict[str, str]:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": at,
    }


LATE = "PodGroupInitiallyScheduled"
# sentence: the gang, the version, the conditions before, and after
NATIVE: dict[str, tuple[GangSummary, str, list[Any], list[Any] | None]] = {
    "nothing to say yet": (a_gang(pending=4), "v1beta1", [], None),
    "refused": (
        a_gang(waiting=4),
        "v1beta1",
        [FOREIGN],
        [FOREIGN, _native("False", "Unschedulable", WHY, NOW, LATE)],
    ),
    "refused again, for another reason": (
        a_gang(waiting=4),
        "v1beta1",
        [_native("False", "Unschedulable", "other", EARLIER, LATE), FOREIGN],
        [_native("False", "Unschedulable", WHY, EARLIER, LATE), FOREIGN],
    ),
    "scheduled": (
        a_gang(bound=4),
        "v1beta1",
        [_native("False", "Unschedulable", WHY, EARLIER, LATE)],
        [_native("True", "Scheduled", "", NOW, LATE)],
    ),
    "once scheduled, always scheduled": (
        a_gang(waiting=4),
        "v1beta1",
        [_native("True", "Scheduled", "", EARLIER, LATE)],
        [_native("True", "Scheduled", "", EARLIER, LATE)],
    ),
    "by its name of 1.36": (
        a_gang(bound=4),
        "v1alpha2",
        [],
        [_native("True", "Scheduled", "", NOW, "PodGroupScheduled")],
    ),
}


@pytest.mark.parametrize(("gang", "version", "before", "after"), NATIVE.values(), ids=NATIVE)
def test_the_native_condition(
    gang: GangSummary, version: str, before: list[Any], after: list[Any] | None
) -> None:
    status = native_status(gang, before={"conditions": before}, version=version, now=NOW)
    assert status == {"conditions": after}


def test_volcanos_conditions_turn_with_the_gang() -> None:
    waits = volcano_status(a_gang(waiting=4), before={}, now=EARLIER)
    (refused,) = waits["conditions"]
    assert (refused["type"], refused["status"]) == ("Unschedulable", "True")
    assert (refused["reason"], refused["message"]) == ("NotEnoughResources", WHY)
    (ready,) = volcano_status(a_gang(bound=4), before=waits, now=NOW)["conditions"]
    assert (ready["type"], ready["status"], ready["lastTransitionTime"]) == (
        "Scheduled",
        "True",
        NOW,
    )


# --- spec ------------------------------------------------------------------------------------

SPECS: dict[str, tuple[GangSettings, dict[str, Any]]] = {
    "nothing said": (
        GangSettings(),
        {
            "mode": "Strict",
            "matchPolicy": "once-satisfied",
            "waitTimeSeconds": 600,
            "group": None,
            "bundles": [{"name": "", "minMember": 0}],
            "topology": None,
            "source": None,
        },
    ),
    "everything said": (
        GangSettings(
            minimum=5,
            mode=Mode.NON_STRICT,
            wait_time=90.5,
            groups=("b/two", "a/one"),
            match_policy=MatchPolicy.WAITING_AND_RUNNING,
            topology=Topology("zone", required=True),
            bundle_minimums=(("worker", 4), ("ps", 1)),
        ),
        {
            "mode": "NonStrict",
            "matchPolicy": "waiting-and-running",
            "waitTimeSeconds": 91,
            "group": ["a/one", "b/two"],
            "bundles": [{"name": "ps", "minMember": 1}, {"name": "worker", "minMember": 4}],
            "topology": {"key": "zone", "required": True},
            "source": None,
        },
    ),
}


@pytest.mark.parametrize(("settings", "spec"), SPECS.values(), ids=SPECS)
def test_the_spec_mirrors_the_settings(settings: GangSettings, spec: dict[str, Any]) -> None:
    assert gang_object_spec(settings, sources=[], wait_time=600.0) == spec


def test_the_wait_time_of_the_configuration_shows_where_a_gang_asks_for_none() -> None:
    spec = gang_object_spec(GangSettings(), sources=["b", "", "a"], wait_time=90.5)
    assert (spec["waitTimeSeconds"], spec["source"]) == (91, "a")


# --- when it starts ------------------------------------------------------------------------------

STARTS = f"{WHY}. It starts by 14:20 UTC (known ends), after default/other-0."
WITH_COLUMN = {
    "podgroups.scheduling.sigs.k8s.io": lambda gang: community_status(
        gang, before={}, coarse_phases=False
    ),
    "podgroups.scheduling.x-k8s.io": lambda gang: community_status(
        gang, before={}, coarse_phases=True
    ),
    "podgroups.scheduling.volcano.sh": lambda gang: volcano_status(gang, before={}, now=NOW),
}


def that_waits() -> GangSummary:
    told = MemberSummary(first_attempt_at=EARLIER, reason="Unschedulable", message=STARTS)
    return summarize([told] * 4, minimum=4)


@pytest.mark.parametrize(("kind", "status_of"), WITH_COLUMN.items(), ids=WITH_COLUMN.keys())
def test_the_wide_table_of_podgroups_says_when_a_gang_starts(
    kind: str, status_of: Callable[[GangSummary], dict[str, Any]]
) -> None:
    definition = yaml.safe_load((REPO / "crds" / f"{kind}.yaml").read_text())
    (columns,) = [v["additionalPrinterColumns"] for v in definition["spec"]["versions"]]
    (path,) = [column["jsonPath"] for column in columns if column["name"] == "Message"]
    status = status_of(that_waits())
    if path == ".status.message":
        assert status["message"] == STARTS
    else:
        assert path == '.status.conditions[?(@.type=="Unschedulable")].message'
        assert [c["message"] for c in status["conditions"]] == [STARTS]


@pytest.mark.parametrize("version", ["v1alpha1", "v1beta1"])
def test_the_condition_of_a_native_podgroup_says_when_a_gang_starts(version: str) -> None:
    status = native_status(that_waits(), before={}, version=version, now=NOW)
    assert [c["message"] for c in status["conditions"]] == [STARTS]
