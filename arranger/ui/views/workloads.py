"""Gangs, jobs and lone pods that wait: what is placed as one, and how far it is."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from arranger.api.types.core import Pod
from arranger.engine.context.entity import QueuedEntity
from arranger.engine.context.queue_state import QueueState
from arranger.gangs.gang import Gang
from arranger.gangs.member_state import MemberState
from arranger.gangs.messages import arrival_summary
from arranger.ui.views.observed import STATES, UNTRIED, Observed, state_of

_WITH_NODE: Final = (MemberState.BINDING, MemberState.BOUND, MemberState.SUCCEEDED)


@dataclass(frozen=True, slots=True)
class WorkloadRow:
    """One line of a list.

    Attributes:
        kind: ``gang``, ``pod``, or the kind of what controls the pods.
        name: ``namespace/name``.
        phase: in one word.
        placed, pods, minimum: members with a node, that there are, and that must run together.
        missing: how many members have not come yet.
        blocked_by: members that could not be placed last time.
        queue: that it waits in.
        reason: why it waits; "" of one that does not.
    """

    kind: str
    name: str
    phase: str
    placed: int
    pods: int
    minimum: int = 0
    missing: int = 0
    blocked_by: tuple[str, ...] = ()
    queue: str = ""
    reason: str = ""


def waiting_rows(
    observed: Observed, most: int, *, queue: str | None = None
) -> tuple[list[WorkloadRow], int]:
    """The first of what waits, in the order in which it is tried; and how much does.

    Args:
        queue: only what waits there.
    """
    waiting, ledger = observed.engine.queue, observed.engine.ledger
    found = [
        each
        for each in waiting.entities()
        if queue is None or ledger.queue_name(each.representative.pod) == queue
    ]
    shown = (each for each in found if observed.scope.sees_all(_name_of(each)))
    first = heapq.nsmallest(most, shown, key=waiting.sort_key)
    return [_entity_row(observed, each) for each in first], len(found)


def gang_rows(observed: Observed, text: str, most: int) -> tuple[list[WorkloadRow], int]:
    """The first of the gangs whose names hold a text, those that wait first; and how many do."""
    gangs = observed.engine.registry.gangs
    scope = observed.scope
    found = [gang for name, gang in gangs.items() if text in name and scope.sees(name)]
    first = heapq.nsmallest(
        most, found, key=lambda gang: (not gang.count(MemberState.PENDING), gang.name)
    )
    return [gang_row(observed, gang) for gang in first], len(found)


def job_rows(observed: Observed, text: str, most: int) -> tuple[list[WorkloadRow], int]:
    """The first of what controls pods, those with pods that wait first; and how many there are."""
    counts: dict[tuple[str, str], Counter[str]] = {}
    for pod in observed.pods():
        owner = pod.metadata.controller
        if owner is not None and text in (name := f"{pod.metadata.namespace}/{owner.name}"):
            counts.setdefault((owner.kind, name), Counter())[state_of(pod)] += 1
    rows = [_job_row(kind, name, states) for (kind, name), states in counts.items()]
    rows.sort(key=lambda row: (row.phase != "Waiting", row.kind, row.name))
    return rows[:most], len(rows)


def gang_row(observed: Observed, gang: Gang) -> WorkloadRow:
    """How far a gang is."""
    entity, scope = _entity_of(observed, gang), observed.scope
    placed = sum(gang.count(state) for state in _WITH_NODE)
    waits = gang.count(MemberState.PENDING)
    return WorkloadRow(
        "gang",
        gang.name,
        _phase(gang, placed, waits),
        placed,
        len(gang.memberships),
        gang.total_minimum,
        max(0, gang.total_minimum - len(gang.memberships)),
        () if entity is None else tuple(scope.of(pod.key for pod in entity.blockers)),
        observed.queue_of(next(iter(gang.memberships), "")),
        "" if entity is None else _reason(observed, entity),
    )


def members(observed: Observed, uids: Iterable[str]) -> list[Pod]:
    """The pods of these uids, those that wait first."""
    wanted = set(uids)
    found = [pod for pod in observed.pods() if pod.metadata.uid in wanted]
    return sorted(found, key=lambda pod: (STATES.index(state_of(pod)), pod.key))


def _phase(gang: Gang, placed: int, waits: int) -> str:
    if gang.blocked:
        return "TimedOut"
    if waits and placed < max(gang.total_minimum, 1):
        return "Waiting"
    if waits:
        return "Growing"
    ended = gang.count(MemberState.SUCCEEDED) + gang.count(MemberState.FAILED)
    return "Ended" if ended == len(gang.memberships) else "Running"


def _entity_of(observed: Observed, gang: Gang) -> QueuedEntity | None:
    for uid in gang.memberships:
        member = observed.members.get(uid)
        if member is not None and member.entity is not None:
            return member.entity
    return None


def _name_of(entity: QueuedEntity) -> str:
    return entity.representative.pod.key if entity.group is None else entity.group.name


def _entity_row(observed: Observed, entity: QueuedEntity) -> WorkloadRow:
    first = entity.representative
    group = entity.group
    gated = entity.state is QueueState.GATED
    placed = pods = minimum = missing = 0
    for gang in group.gangs if group is not None else ():
        placed += sum(gang.count(state) for state in _WITH_NODE)
        pods += len(gang.memberships)
        minimum += gang.total_minimum
        missing += max(0, gang.total_minimum - len(gang.memberships))
    return WorkloadRow(
        "pod" if group is None else "gang",
        _name_of(entity),
        "Gated" if gated else "Waiting",
        placed,
        pods or 1,
        minimum,
        missing,
        tuple(observed.scope.of(pod.key for pod in entity.blockers)),
        observed.queue_of(first.uid),
        _reason(observed, entity),
    )


def _reason(observed: Observed, entity: QueuedEntity) -> str:
    told = entity.reason or observed.reason_of(entity.representative.pod.pod)
    if entity.group is not None and told == UNTRIED:
        arrived = observed.engine.holds.arrived_counts(entity)
        return f"{told}: {arrival_summary(entity.group, arrived)}"
    return told


def _job_row(kind: str, name: str, states: Counter[str]) -> WorkloadRow:
    waits = states["Waiting"] + states["Gated"]
    live = states["Starting"] + states["Running"]
    phase = "Waiting" if waits else "Running" if live else "Ended"
    reason = f"{waits} of {states.total()} pods wait" if waits else ""
    return WorkloadRow(kind, name, phase, live, states.total(), reason=reason)
