"""The status of Gangs and of the PodGroups of every dialect, worked out from counts.

Pure. A status is a dict of the fields to be written; ``None`` means that one must not be there,
and a field that is not named stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from arranger.controllers.gang.members import GangSummary, MemberCounts
from arranger.controllers.runtime.objects import Object, with_condition

PENDING: Final = "Pending"
PRE_SCHEDULING: Final = "PreScheduling"
SCHEDULING: Final = "Scheduling"
SCHEDULED: Final = "Scheduled"
RUNNING: Final = "Running"
FINISHED: Final = "Finished"
FAILED: Final = "Failed"
INQUEUE: Final = "Inqueue"
UNKNOWN: Final = "Unknown"
COMPLETED: Final = "Completed"

#: Reason of a PodGroup without pods that is Pending.
NOT_ADMITTED: Final = "NotAdmitted"

#: Phases that stay when the pods are cleaned up.
_TERMINAL_PHASES: Final = frozenset({FINISHED, FAILED, COMPLETED})
#: scheduler-plugins has fewer phases: Scheduling stands for all between Pending and Running.
_COMMUNITY_PHASES: Final = {PRE_SCHEDULING: SCHEDULING, SCHEDULED: SCHEDULING}
#: The counts of a Gang's status.
_SHOWN: Final = ("members", "placed", "bound", "running", "succeeded", "failed")
#: What scheduling.k8s.io called its condition before v1alpha3.
_EARLY_NATIVE_VERSIONS: Final = frozenset({"v1alpha1", "v1alpha2"})


def phase_of(gang: GangSummary, before: str = "") -> str:
    """The phase of a gang; the phases are Koordinator's.

    Koordinator steps from phase to phase; here the pods alone decide, so that a restart or a missed
    event cannot leave a gang in the wrong one. Two rules are kept: a terminal phase stays until
    enough members are alive again, as when a Job replaces one that failed; and a gang is Failed
    only when those that have not failed are too few.
    """
    if _has_ended(gang, before):
        return before
    if gang.reaches_minimum(lambda c: c.succeeded):
        return FINISHED
    too_few = gang.total.failed and not gang.reaches_minimum(lambda c: c.alive)
    if too_few and gang.reaches_minimum(lambda c: c.started + c.failed):
        return FAILED
    if not gang.total.bound and (gang.total.members < gang.total_minimum or not gang.defined):
        return PENDING
    if not gang.complete:
        return SCHEDULING if gang.first_attempt_at or gang.total.bound else PRE_SCHEDULING
    return RUNNING if gang.reaches_minimum(lambda c: c.started) else SCHEDULED


def _with_removed(
    gang: GangSummary, counts: MemberCounts, before: Mapping[str, Any]
) -> MemberCounts:
    """Counts of a gang, or of a bundle of it, of which ``before`` is the status as it is.

    Once a gang has ended, who has succeeded or failed stays counted when the pods are removed.
    Everything else is of the pods that are there.
    """
    if not _has_ended(gang, before.get("phase", "")):
        return counts
    succeeded = max(0, before.get("succeeded", 0) - counts.succeeded)
    return replace(
        counts,
        placed=counts.placed + succeeded,
        bound=counts.bound + succeeded,
        succeeded=counts.succeeded + succeeded,
        failed=max(counts.failed, before.get("failed", 0)),
    )


def _has_ended(gang: GangSummary, before: str) -> bool:
    return before in _TERMINAL_PHASES and not gang.reaches_minimum(lambda c: c.alive)


def gang_status(
    gang: GangSummary,
    *,
    before: Mapping[str, Any],
) -> Object:
    """``status`` of a Gang, but for what only the scheduler knows, and writes itself.

    Args:
        before: its status as it is; an end outlives the pods.
    """
    phase = phase_of(gang, before.get("phase", ""))
    total = _with_removed(gang, gang.total, before)
    names = gang.bundles or {"": MemberCounts()}
    known = {b["name"]: {**b, "phase": before.get("phase")} for b in before.get("bundles") or ()}
    bundles = {name: _with_removed(gang, c, known.get(name, {})) for name, c in names.items()}
    minimums = gang.minimums or {"": gang.minimum}
    return {
        "phase": phase,
        "bundles": [
            {"name": name, **_shown(counts), "minMember": minimums.get(name, 0)}
            for name, counts in bundles.items()
        ],
        **_shown(total),
        "minMember": max(gang.minimum, sum(gang.minimums.values())),
        **_reason_and_message(gang, phase, removed=total != gang.total),
    }


def community_status(
    gang: GangSummary, *, before: Mapping[str, Any], coarse_phases: bool
) -> Object:
    """``status`` of a community PodGroup; ``coarse_phases`` for the phases of scheduler-plugins.

    Terminal phases are the same in both, and ``before`` is only asked for those.
    """
    phase = phase_of(gang, before.get("phase", ""))
    if coarse_phases and phase == SCHEDULING and gang.total.members < gang.total_minimum:
        phase = PENDING
    total = _with_removed(gang, gang.total, before)
    tried = "" if phase in (PENDING, PRE_SCHEDULING) else gang.first_attempt_at
    # Pods may be gone, and the report of an earlier try may be written late: the earliest counts.
    known = [str(time) for time in (before.get("scheduleStartTime"), tried) if time]
    return {
        "phase": _COMMUNITY_PHASES.get(phase, phase) if coarse_phases else phase,
        "occupiedBy": gang.occupied_by or None,
        "scheduled": total.bound,
        "running": total.running,
        "succeeded": total.succeeded,
        "failed": total.failed,
        "scheduleStartTime": min(known, default=None),
        **_reason_and_message(gang, phase, removed=total != gang.total),
    }


def volcano_status(
    gang: GangSummary, *, before: Mapping[str, Any], now: str, refusal: str = ""
) -> Object:
    """``status`` of Volcano's PodGroup, by the rules of its scheduler's session.

    Args:
        refusal: why it is not admitted, if it has no pods; "" if it is.
    """
    phase = _volcano_phase(gang, before.get("phase", ""))
    refusal = "" if gang.total.members or phase != INQUEUE else refusal
    if refusal:
        phase = PENDING
    total = _with_removed(gang, gang.total, before)
    conditions = list(before.get("conditions") or ())
    condition, over = None, {"Scheduled", "Unschedulable"}
    if phase in (RUNNING, COMPLETED):
        condition = ("Scheduled", "True", "tasks in gang are ready to be scheduled", "")
    elif gang.message:
        condition = ("Unschedulable", "True", "NotEnoughResources", gang.message)
    elif refusal:
        condition = ("Unschedulable", "True", NOT_ADMITTED, refusal)
    elif phase == UNKNOWN:
        condition = ("Unschedulable", "True", "NotEnoughResources", _unready(gang))
    if condition is not None:
        conditions = with_condition(conditions, condition, now)
        over.discard(condition[0])
    return {
        "phase": phase,
        "running": total.kept_running,
        "succeeded": total.succeeded,
        "failed": total.failed,
        "conditions": [c for c in conditions if c.get("type") not in over] or None,
    }


def native_status(
    gang: GangSummary, *, before: Mapping[str, Any], version: str, now: str
) -> Object:
    """``status`` of a PodGroup of scheduling.k8s.io: one condition, which is final once True."""
    early = version in _EARLY_NATIVE_VERSIONS
    kind = "PodGroupScheduled" if early else "PodGroupInitiallyScheduled"
    conditions = list(before.get("conditions") or ())
    final = any(c.get("type") == kind and c.get("status") == "True" for c in conditions)
    if not final and gang.complete:
        conditions = with_condition(conditions, (kind, "True", "Scheduled", ""), now)
    elif not final and gang.message:
        conditions = with_condition(conditions, (kind, "False", "Unschedulable", gang.message), now)
    return {"conditions": conditions or None}


def _volcano_phase(gang: GangSummary, before: str) -> str:
    """The phase as Volcano's ``getPodGroupPhase`` has it.

    Who failed has had a node and counts with those that have one, and who is being deleted keeps
    it to the end. Differences: an end outlives the pods, a role that lacks members is not made up
    for by another, and an empty gang is not Completed.

    A gang without pods is Inqueue, unless it is not admitted, because operators make the pods only
    then; and it stays so.
    """
    if _has_ended(gang, before):
        return before
    if gang.total.kept_running and not (gang.defined and gang.reaches_minimum(lambda c: c.kept)):
        if _is_unschedulable(gang):
            return UNKNOWN
        if gang.total.waiting and before in (RUNNING, UNKNOWN):
            return before  # until the scheduler has tried who came in the place of another
    if gang.defined and gang.reaches_minimum(lambda c: c.has_had_node):
        return COMPLETED if gang.total.bound == gang.total.succeeded else RUNNING
    tried = gang.first_attempt_at or not gang.total.members
    return INQUEUE if tried or before == INQUEUE else PENDING


def _is_unschedulable(gang: GangSummary) -> bool:
    """Whether a gang with too few members on nodes has no hope but in others: some are missing, or
    wait and were told why. Members that are still being deleted are not missing yet."""
    if gang.total.waiting:
        lacking = not gang.defined or not gang.reaches_minimum(lambda c: c.kept + c.waiting)
        return lacking or bool(gang.message)
    return not (gang.total.leaving and gang.reaches_minimum(lambda c: c.has_had_node))


def _unready(gang: GangSummary) -> str:
    """Why a gang is Unknown of which nobody waits, or nobody was tried yet; Volcano's words."""
    total = gang.total
    numbers = {
        "Failed": total.failed,
        "Pending": total.waiting,
        "Releasing": total.leaving,
        "Running": total.kept_running,
        "Succeeded": total.succeeded,
    }
    found = [f"{n} {name}" for name, n in numbers.items() if n]
    text = ", ".join(sorted([*found, f"{gang.total_minimum} minAvailable"]))
    roles = ((gang.bundles.get(role, MemberCounts()).kept, n) for role, n in gang.minimums.items())
    lack = max(gang.total_minimum - total.kept, sum(max(0, n - kept) for kept, n in roles))
    return f"{lack}/{total.members} tasks in gang unschedulable: pod group is not ready, {text}"


def _shown(counts: MemberCounts) -> Object:
    """The counts that a Gang shows."""
    return {name: getattr(counts, name) for name in _SHOWN}


def _reason_and_message(gang: GangSummary, phase: str, *, removed: bool) -> Object:
    """The fields that say why a gang is in its phase; what was said of removed pods stays."""
    if removed:
        return {}
    reason, message = _why(gang, phase)
    return {"reason": reason or None, "message": message or None}


def _why(gang: GangSummary, phase: str) -> tuple[str, str]:
    """Reason and message of a phase; those of the scheduler come first."""
    if phase == FAILED:
        counts = gang.total
        return "MembersFailed", f"{counts.failed}/{counts.members} members have failed"
    if phase not in (PENDING, PRE_SCHEDULING, SCHEDULING):
        return "", ""
    if gang.reason or gang.message:
        return gang.reason, gang.message
    if not gang.total.members:
        return "", ""
    if not gang.defined:
        return "NotDefined", "nobody has said how many members must run: its PodGroup is not there"
    if phase == PENDING:
        return "NotEnoughMembers", f"{gang.total.members}/{gang.total_minimum} members have arrived"
    return "", ""
