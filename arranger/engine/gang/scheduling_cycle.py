"""One attempt to place a gang group: all that it needs, or nothing (seed 000).

This is the seed's schedule cycle as one step: each member is tried once a cycle, and in Strict mode
the first required member that fits nowhere makes the cycle invalid, so that the others give their
nodes back at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from arranger.api.gang_membership import Topology
from arranger.cluster.cluster import Cluster
from arranger.cluster.columns import ABSENT, BoolArray, IntArray
from arranger.cluster.pod_info import PodInfo
from arranger.engine.entity import GANG, QueuedEntity, QueuedPod
from arranger.engine.pod.node_reservation import select_nodes
from arranger.engine.pod.schedule_result import (
    CycleError,
    Infeasible,
    PermitWait,
    RowMask,
    Scheduled,
    Unschedulable,
)
from arranger.engine.pod.scheduling_cycle import SchedulingCycle
from arranger.engine.queue.nominator import Nominator
from arranger.framework.diagnosis import PluginRejection
from arranger.framework.filter_result import Rejection
from arranger.framework.status import Code
from arranger.gangs.gang import Gang
from arranger.gangs.group import GangGroup

#: Members that have been promised a node, and which.
NominatedMembers = list[tuple[QueuedPod, str]]

#: Members that have got a node, and what their Permit plugins said.
Placements = list[tuple[QueuedPod, PermitWait | None]]

OUTSIDE_DOMAIN: Final = PluginRejection(
    GANG, Rejection(("node(s) outside the gang's topology domain",), Code.UNRESOLVABLE)
)


@dataclass(slots=True)
class GangScheduleResult:
    """What became of an attempt.

    Attributes:
        complete: whether the group has its minimum, with what it held before.
        placed: the members that have a node now, and what their Permit plugins said.
        placeable: how many can have nodes together, whether or not they have kept them.
        blocker: the first required member that fits nowhere, and why.
        message: the text about it, as for a pod on its own.
        error: what a plugin raised, "" when none did.
        rejected_by: the plugins whose events may change the answer.
        blockers: one pod of each class that fits nowhere.
        events: (reason, text) of further events for the blocker.
        infeasible: what was found of the blocker's nodes, if it is they that it lacks.
    """

    complete: bool = False
    placed: Placements = field(default_factory=list)
    placeable: int = 0
    blocker: QueuedPod | None = None
    message: str = ""
    error: str = ""
    rejected_by: frozenset[str] = frozenset()
    blockers: tuple[PodInfo, ...] = ()
    events: tuple[tuple[str, str], ...] = ()
    infeasible: Infeasible | None = None


@dataclass(slots=True)
class _Attempt:
    """An attempt under way."""

    gang_of: Mapping[str, Gang]
    placed_counts: dict[str, Counter[str]]
    row_mask: RowMask | None
    held: int
    placed: Placements = field(default_factory=list)
    #: Class → one of its pods, and the plugins that rejected it.
    failed_classes: dict[Hashable, tuple[PodInfo, frozenset[str]]] = field(default_factory=dict)
    blocker: QueuedPod | None = None
    message: str = ""
    error: str = ""
    events: tuple[tuple[str, str], ...] = ()
    infeasible: Infeasible | None = None

    def result(self, *, complete: bool) -> GangScheduleResult:
        return GangScheduleResult(
            complete=complete,
            placed=self.placed,
            placeable=self.held + len(self.placed),
            blocker=self.blocker,
            message=self.message,
            error=self.error,
            events=self.events,
            infeasible=self.infeasible,
            rejected_by=frozenset[str]().union(*(by for _, by in self.failed_classes.values())),
            blockers=tuple(pod for pod, _ in self.failed_classes.values()),
        )


class GangSchedulingCycle:
    """Places gang groups by placing their members one after the other."""

    def __init__(self, cluster: Cluster, cycle: SchedulingCycle, nominator: Nominator) -> None:
        self._cluster = cluster
        self._cycle = cycle
        self._nominator = nominator

    def schedule(self, entity: QueuedEntity, held: Sequence[QueuedPod]) -> GangScheduleResult:
        """Place what the group needs and, beyond that, what fits.

        ``held`` are the members that have kept their nodes from earlier attempts. When the group
        stays incomplete, a Strict one holds nothing of this attempt and a NonStrict one all of it.
        """
        group = entity.gang_group
        nominated = self._nominated_members(entity)
        topology = topology_constraint(group)
        required = topology is not None and topology.required
        best: GangScheduleResult | None = None
        best_domain: RowMask | None = None
        for row_mask in self.topology_domains(entity, held):
            decision = self.attempt(entity, held, row_mask)
            if decision.complete and row_mask is not None and not required:
                decision = self._place_surplus(entity, held, decision)
            if decision.complete or decision.error:
                return self._finish(group, decision, nominated)
            if row_mask is None:
                # Without bounds at last, or from the beginning.
                return self._finish(group, decision, nominated)
            self.unreserve_all(decision)
            self._renominate(nominated)
            if best is None or decision.placeable > best.placeable:
                best, best_domain = decision, row_mask
        if best_domain is not None and not group.is_strict:
            return self._finish(group, self.attempt(entity, held, best_domain), nominated)
        return best or self._no_domain(entity)

    def topology_domains(
        self, entity: QueuedEntity, held: Sequence[QueuedPod]
    ) -> Iterable[RowMask | None]:
        """Where to try to place the group: domain by domain, or anywhere (None)."""
        group = entity.gang_group
        topology = topology_constraint(group)
        if topology is not None:
            members = _placement_order(entity.ready(), group)
            for rows in self._candidate_domains(topology, group, members, held):
                yield RowMask(rows, OUTSIDE_DOMAIN)
        if topology is None or not topology.required:
            yield None

    def _place_surplus(
        self, entity: QueuedEntity, held: Sequence[QueuedPod], decision: GangScheduleResult
    ) -> GangScheduleResult:
        """Members beyond the minimum, for which the preferred domain is too small."""
        placed = [member for member, _ in decision.placed]
        more = self.attempt(entity, [*held, *placed], None)
        more.placed = [*decision.placed, *more.placed]
        return more

    @contextmanager
    def dry_run(self, entity: QueuedEntity) -> Iterator[None]:
        """Attempts inside are given back, and what the members are promised stays promised."""
        promised = self._nominated_members(entity)
        with self._cycle.dry_run():
            yield
        self._renominate(promised)

    def _finish(
        self, group: GangGroup, decision: GangScheduleResult, promised: NominatedMembers
    ) -> GangScheduleResult:
        if not decision.complete and (decision.error or group.is_strict):
            self.unreserve_all(decision)
            self._renominate(promised)
        return decision

    def _nominated_members(self, entity: QueuedEntity) -> NominatedMembers:
        nominations = self._nominator
        members = entity.members.values() if nominations else ()
        return [(m, nominations.node_of(m.uid)) for m in members if m.uid in nominations]

    def _renominate(self, promised: NominatedMembers) -> None:
        """A promise ends when its pod gets a node; those of pods that gave it back live on."""
        for member, node in promised:
            if member.uid not in self._cluster:
                self._nominator.nominate(member, node)

    def run_post_filter(self, member: QueuedPod, infeasible: Infeasible) -> None:
        """Let plugins undo what an earlier placement of a member has left."""
        self._cycle.run_pod_group_post_filter(member, infeasible)

    def unreserve_all(self, decision: GangScheduleResult) -> None:
        """Take the nodes of all that an attempt has placed."""
        while decision.placed:
            member, _ = decision.placed.pop()
            self._cycle.unreserve(member)

    def nodes_needed(self, entity: QueuedEntity, held: Sequence[QueuedPod]) -> frozenset[str]:
        """The nodes to keep for what the group needs; none where it would not fit were they empty.

        A group that its queue's quota keeps out, or that the cluster is too small for, would keep
        all others from nodes that it cannot use.
        """
        group = entity.gang_group
        gang_of = group.gangs_by_uid()
        have = group.count_by_bundle(member.uid for member in held)
        classes: dict[Hashable, list[QueuedPod]] = {}
        for member in _placement_order(entity.ready(), group):
            gang = gang_of[member.uid]
            bundle = gang.memberships[member.uid].bundle
            if gang.advances_minimum(bundle, have[gang.name]):
                have[gang.name][bundle] += 1
                classes.setdefault(_equivalence_key(member), []).append(member)
        evaluated = [
            (self._cycle.evaluate(m[0].profile, m[0].pod, m[0].signature), m[0], len(m))
            for m in classes.values()
        ]
        for within in self.topology_domains(entity, held):
            rows = None if within is None else within.rows
            nodes = select_nodes(self._cluster, evaluated, rows)
            if nodes and self._fits_when_emptied(entity, held, within, nodes):
                return nodes
        return frozenset()

    def _fits_when_emptied(
        self,
        entity: QueuedEntity,
        held: Sequence[QueuedPod],
        row_mask: RowMask | None,
        emptied: Iterable[str],
    ) -> bool:
        """Whether the group would be complete if others were gone from these nodes."""
        table = self._cluster.table
        stay = {uid for gang in entity.gang_group.gangs for uid in gang.memberships}
        there = [pod for row in table.rows(emptied) for pod in table.pods[row].values()]
        promised = self._nominator
        others = [pod for pod in there if pod.uid not in stay and pod.uid not in promised]
        with self.dry_run(entity), self._cluster.simulate_without(others):
            decision = self.attempt(entity, held, row_mask, surplus=False)
            self.unreserve_all(decision)
        return decision.complete

    # --- placing ---------------------------------------------------------------------------

    def attempt(
        self,
        entity: QueuedEntity,
        held: Sequence[QueuedPod],
        row_mask: RowMask | None,
        *,
        surplus: bool = True,
    ) -> GangScheduleResult:
        """Place what the group needs and, with ``surplus``, what else fits; all of it is kept."""
        group = entity.gang_group
        taken = {member.uid for member in held}
        members = _placement_order((m for m in entity.ready() if m.uid not in taken), group)
        have = group.count_by_bundle(member.uid for member in held)
        attempt = _Attempt(group.gangs_by_uid(), have, row_mask, len(held))
        todo = list(members)
        while True:
            before = len(attempt.placed)
            todo = self._place_members(attempt, todo, required=True)
            complete = not group.lacks_members(attempt.placed_counts)
            progress = len(attempt.placed) > before
            if (
                complete
                or attempt.error
                or not (progress and any(m.pod.affinity_terms for m in todo))
            ):
                break
            attempt.failed_classes.clear()  # those placed may be what the others wanted to be near
            attempt.blocker, attempt.message = None, ""
        if complete and surplus and not attempt.error:
            self._place_members(attempt, todo, required=False)
        return attempt.result(complete=complete)

    def _place_members(
        self, attempt: _Attempt, members: Sequence[QueuedPod], *, required: bool
    ) -> list[QueuedPod]:
        """Try members once, those only that the minimum needs or all; returns the unplaced."""
        left: list[QueuedPod] = []
        for n, member in enumerate(members):
            gang = attempt.gang_of[member.uid]
            bundle, have = gang.memberships[member.uid].bundle, attempt.placed_counts[gang.name]
            kind = _equivalence_key(member)
            if kind in attempt.failed_classes or (
                required and not gang.advances_minimum(bundle, have)
            ):
                left.append(member)
                continue
            answer = self._cycle.place(member, attempt.row_mask)
            if isinstance(answer, Scheduled):
                attempt.placed.append((member, answer.held))
                have[bundle] += 1
            elif isinstance(answer, CycleError):
                attempt.error, attempt.blocker = answer.message, member
                return [*left, *members[n:]]
            else:
                why, attempt.failed_classes[kind] = self._explain(member, answer)
                left.append(member)
                if attempt.blocker is None:
                    attempt.blocker, attempt.message = member, why
                    if isinstance(answer, Infeasible):
                        attempt.events = tuple(answer.diagnosis.plugin_events())
                        attempt.infeasible = answer
        return left

    def _explain(
        self, member: QueuedPod, answer: Infeasible | Unschedulable
    ) -> tuple[str, tuple[PodInfo, frozenset[str]]]:
        if isinstance(answer, Unschedulable):
            return answer.message, (member.pod, answer.rejected_by)
        diagnosis = answer.diagnosis
        return diagnosis.message(), (member.pod, diagnosis.unschedulable_plugins() - {GANG})

    # --- topology --------------------------------------------------------------------------

    def _candidate_domains(
        self,
        topology: Topology,
        group: GangGroup,
        members: Sequence[QueuedPod],
        held: Sequence[QueuedPod],
    ) -> Iterable[BoolArray]:
        """The domains that may hold the group, the tightest first."""
        table = self._cluster.table
        column = table.label_column(topology.key)[: table.size]
        placed = [m.uid for m in held]
        placed += [
            uid for gang in group.gangs for uid in gang.memberships if not gang.is_terminating(uid)
        ]
        at = [self._cluster.node_of(uid) for uid in placed]
        known = [int(column[table.index[node]]) for node in at if node in table.index]
        values = Counter(value for value in sorted(known) if value != ABSENT)
        if values:
            # Where most of them are, the others must go.
            return [column == values.most_common(1)[0][0]]
        slots = self._replica_capacity(members)
        there = table.alive[: table.size] & (column != ABSENT)
        capacity = np.bincount(column[there], weights=slots[there], minlength=1)
        need = sum(gang.shortfall({}) for gang in group.gangs)
        fitting = [value for value in np.unique(column[there]).tolist() if capacity[value] >= need]
        order = sorted(fitting, key=lambda value: (capacity[value], value))
        if not order:
            # None is large enough; the roomiest shows best what is missing.
            order = sorted(np.unique(column[there]).tolist(), key=lambda value: -capacity[value])[
                :1
            ]
        return [column == value for value in order]

    def _replica_capacity(self, members: Sequence[QueuedPod]) -> IntArray:
        """Row → at most how many of the members fit, by the class with the least demand."""
        table = self._cluster.table
        best = np.zeros(table.size, dtype=np.int64)
        seen: set[Hashable] = set()
        for member in members:
            kind = _equivalence_key(member)
            if kind in seen:
                continue
            seen.add(kind)
            try:
                evaluation = self._cycle.evaluate(member.profile, member.pod, member.signature)
            except Exception:
                continue  # trying to place it will fail the same way, and tell its owner
            slots = np.where(evaluation.feasible, table.replica_capacity(member.pod), 0)
            np.maximum(best, slots, out=best)
        return best

    def _no_domain(self, entity: QueuedEntity) -> GangScheduleResult:
        keys = {g.settings.topology.key for g in entity.gang_group.gangs if g.settings.topology}
        why = f"no node has the label {', '.join(keys)} that the gang's topology asks for"
        return GangScheduleResult(blocker=next(iter(entity.ready()), None), message=why)


def _equivalence_key(member: QueuedPod) -> Hashable:
    """Members of one kind are judged alike."""
    return member.signature if member.signature is not None else member.uid


def topology_constraint(group: GangGroup) -> Topology | None:
    """The domain that a group asks to stay inside."""
    return next((g.settings.topology for g in group.gangs if g.settings.topology), None)


def _placement_order(members: Iterable[QueuedPod], group: GangGroup) -> list[QueuedPod]:
    """The more important first, then the larger, which find a place less easily.

    Else gang by gang, as they came: the same at every attempt.
    """
    members = list(members)
    place = {uid: n for n, gang in enumerate(group.gangs) for uid in gang.memberships}
    pods = {_equivalence_key(member): member.pod for member in members}
    most: dict[str, int] = {}
    for pod in pods.values():
        for name, amount in pod.requests.items():
            most[name] = max(most.get(name, 0), amount)
    size = {
        kind: sum(amount / most[name] for name, amount in pod.requests.items() if amount)
        for kind, pod in pods.items()
    }
    return sorted(
        members, key=lambda m: (-m.pod.priority, -size[_equivalence_key(m)], place[m.uid])
    )
