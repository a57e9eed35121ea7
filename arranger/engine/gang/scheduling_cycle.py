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
from arranger.engine.entity import GANG, Entity
from arranger.engine.pod.node_reservation import nodes_for
from arranger.engine.pod.schedule_result import Broken, Held, NoRoom, Placed, Unplaced, Within
from arranger.engine.pod.scheduling_cycle import Cycle
from arranger.engine.queued_pod import Member
from arranger.framework.diagnosis import Rejected
from arranger.framework.filter_result import Rejection
from arranger.framework.status import Code
from arranger.gangs.gang import Gang
from arranger.gangs.group import GangGroup

#: Members that have been promised a node, and which.
Promises = list[tuple[Member, str]]

OUTSIDE: Final = Rejected(
    GANG, Rejection(("node(s) outside the gang's topology domain",), Code.UNRESOLVABLE)
)


@dataclass(slots=True)
class GangDecision:
    """What became of an attempt.

    Attributes:
        complete: whether the group has its minimum, with what it held before.
        placed: the members that have a node now, and what their Permit plugins said.
        placeable: how many can have nodes together, whether or not they have kept them.
        blocker: the first required member that fits nowhere, and why.
        why: the text about it, as for a pod on its own.
        broken: what a plugin raised, "" when none did.
        rejected_by: the plugins whose events may change the answer.
        blockers: one pod of each class that fits nowhere.
        events: (reason, text) of further events for the blocker.
        stuck: what was found of the blocker's nodes, if it is they that it lacks.
    """

    complete: bool = False
    placed: list[tuple[Member, Held | None]] = field(default_factory=list)
    placeable: int = 0
    blocker: Member | None = None
    why: str = ""
    broken: str = ""
    rejected_by: frozenset[str] = frozenset()
    blockers: tuple[PodInfo, ...] = ()
    events: tuple[tuple[str, str], ...] = ()
    stuck: NoRoom | None = None


@dataclass(slots=True)
class _Attempt:
    """An attempt under way."""

    gang_of: Mapping[str, Gang]
    have: dict[str, Counter[str]]
    within: Within | None
    held: int
    placed: list[tuple[Member, Held | None]] = field(default_factory=list)
    #: Class → one of its pods, and the plugins that rejected it.
    failed: dict[Hashable, tuple[PodInfo, frozenset[str]]] = field(default_factory=dict)
    blocker: Member | None = None
    why: str = ""
    broken: str = ""
    events: tuple[tuple[str, str], ...] = ()
    stuck: NoRoom | None = None

    def decision(self, *, complete: bool) -> GangDecision:
        return GangDecision(
            complete=complete,
            placed=self.placed,
            placeable=self.held + len(self.placed),
            blocker=self.blocker,
            why=self.why,
            broken=self.broken,
            events=self.events,
            stuck=self.stuck,
            rejected_by=frozenset[str]().union(*(by for _, by in self.failed.values())),
            blockers=tuple(pod for pod, _ in self.failed.values()),
        )


class GangCycle:
    """Places gang groups by placing their members one after the other."""

    def __init__(self, cluster: Cluster, cycle: Cycle) -> None:
        self._cluster = cluster
        self._cycle = cycle

    def decide(self, entity: Entity, held: Sequence[Member]) -> GangDecision:
        """Place what the group needs and, beyond that, what fits.

        ``held`` are the members that have kept their nodes from earlier attempts. When the group
        stays incomplete, a Strict one holds nothing of this attempt and a NonStrict one all of it.
        """
        group = entity.gang_group
        promised = self._promises(entity)
        topology = topology_of(group)
        required = topology is not None and topology.required
        best: GangDecision | None = None
        roomiest: Within | None = None
        for within in self.scopes(entity, held):
            decision = self.attempt(entity, held, within)
            if decision.complete and within is not None and not required:
                decision = self._add_elsewhere(entity, held, decision)
            if decision.complete or decision.broken:
                return self._settled(group, decision, promised)
            if within is None:
                # Without bounds at last, or from the beginning.
                return self._settled(group, decision, promised)
            self.give_back(decision)
            self._promise_again(promised)
            if best is None or decision.placeable > best.placeable:
                best, roomiest = decision, within
        if roomiest is not None and not group.strict:
            return self._settled(group, self.attempt(entity, held, roomiest), promised)
        return best or self._no_domain(entity)

    def scopes(self, entity: Entity, held: Sequence[Member]) -> Iterable[Within | None]:
        """Where to try to place the group: domain by domain, or anywhere (None)."""
        group = entity.gang_group
        topology = topology_of(group)
        if topology is not None:
            members = _in_order(entity.ready(), group)
            for rows in self._domains(topology, group, members, held):
                yield Within(rows, OUTSIDE)
        if topology is None or not topology.required:
            yield None

    def _add_elsewhere(
        self, entity: Entity, held: Sequence[Member], decision: GangDecision
    ) -> GangDecision:
        """Members beyond the minimum, for which the preferred domain is too small."""
        placed = [member for member, _ in decision.placed]
        more = self.attempt(entity, [*held, *placed], None)
        more.placed = [*decision.placed, *more.placed]
        return more

    @contextmanager
    def on_paper(self, entity: Entity) -> Iterator[None]:
        """Attempts inside are given back, and what the members are promised stays promised."""
        promised = self._promises(entity)
        with self._cycle.on_paper():
            yield
        self._promise_again(promised)

    def _settled(
        self, group: GangGroup, decision: GangDecision, promised: Promises
    ) -> GangDecision:
        if not decision.complete and (decision.broken or group.strict):
            self.give_back(decision)
            self._promise_again(promised)
        return decision

    def _promises(self, entity: Entity) -> Promises:
        nominations = self._cycle.nominations
        members = entity.members.values() if nominations else ()
        return [(m, nominations.node_of(m.uid)) for m in members if m.uid in nominations]

    def _promise_again(self, promised: Promises) -> None:
        """A promise ends when its pod gets a node; those of pods that gave it back live on."""
        for member, node in promised:
            if member.uid not in self._cluster:
                self._cycle.nominations.promise(member, node)

    def give_back(self, decision: GangDecision) -> None:
        """Take the nodes of all that an attempt has placed."""
        while decision.placed:
            member, _ = decision.placed.pop()
            self._cycle.unreserve(member)

    def room_for(self, entity: Entity, held: Sequence[Member]) -> frozenset[str]:
        """The nodes to keep for what the group needs; none where it would not fit were they empty.

        A group that its queue's quota keeps out, or that the cluster is too small for, would keep
        all others from nodes that it cannot use.
        """
        group = entity.gang_group
        gang_of = group.gang_of()
        have = group.tally(member.uid for member in held)
        classes: dict[Hashable, list[Member]] = {}
        for member in _in_order(entity.ready(), group):
            gang = gang_of[member.uid]
            bundle = gang.claims[member.uid].bundle
            if gang.needs(bundle, have[gang.name]):
                have[gang.name][bundle] += 1
                classes.setdefault(_kind(member), []).append(member)
        evaluated = [
            (self._cycle.evaluate(m[0].profile, m[0].pod, m[0].sign), m[0], len(m))
            for m in classes.values()
        ]
        for within in self.scopes(entity, held):
            rows = None if within is None else within.rows
            nodes = nodes_for(self._cluster, evaluated, rows)
            if nodes and self._would_fit(entity, held, within, nodes):
                return nodes
        return frozenset()

    def _would_fit(
        self,
        entity: Entity,
        held: Sequence[Member],
        within: Within | None,
        emptied: Iterable[str],
    ) -> bool:
        """Whether the group would be complete if others were gone from these nodes."""
        table = self._cluster.table
        stay = {uid for gang in entity.gang_group.gangs for uid in gang.claims}
        there = [pod for row in table.rows(emptied) for pod in table.pods[row].values()]
        promised = self._cycle.nominations
        others = [pod for pod in there if pod.uid not in stay and pod.uid not in promised]
        with self.on_paper(entity), self._cluster.without(others):
            decision = self.attempt(entity, held, within, surplus=False)
            self.give_back(decision)
        return decision.complete

    # --- placing ---------------------------------------------------------------------------

    def attempt(
        self,
        entity: Entity,
        held: Sequence[Member],
        within: Within | None,
        *,
        surplus: bool = True,
    ) -> GangDecision:
        """Place what the group needs and, with ``surplus``, what else fits; all of it is kept."""
        group = entity.gang_group
        taken = {member.uid for member in held}
        members = _in_order((m for m in entity.ready() if m.uid not in taken), group)
        have = group.tally(member.uid for member in held)
        attempt = _Attempt(group.gang_of(), have, within, len(held))
        todo = list(members)
        while True:
            before = len(attempt.placed)
            todo = self._round(attempt, todo, required=True)
            complete = not group.is_short(attempt.have)
            progress = len(attempt.placed) > before
            if complete or attempt.broken or not (progress and any(m.pod.terms for m in todo)):
                break
            attempt.failed.clear()  # those placed may be what the others wanted to be near
            attempt.blocker, attempt.why = None, ""
        if complete and surplus and not attempt.broken:
            self._round(attempt, todo, required=False)
        return attempt.decision(complete=complete)

    def _round(
        self, attempt: _Attempt, members: Sequence[Member], *, required: bool
    ) -> list[Member]:
        """Try members once, those only that the minimum needs or all; returns the unplaced."""
        left: list[Member] = []
        for n, member in enumerate(members):
            gang = attempt.gang_of[member.uid]
            bundle, have = gang.claims[member.uid].bundle, attempt.have[gang.name]
            kind = _kind(member)
            if kind in attempt.failed or (required and not gang.needs(bundle, have)):
                left.append(member)
                continue
            answer = self._cycle.place(member, attempt.within)
            if isinstance(answer, Placed):
                attempt.placed.append((member, answer.held))
                have[bundle] += 1
            elif isinstance(answer, Broken):
                attempt.broken, attempt.blocker = answer.message, member
                return [*left, *members[n:]]
            else:
                why, attempt.failed[kind] = self._explain(member, answer)
                left.append(member)
                if attempt.blocker is None:
                    attempt.blocker, attempt.why = member, why
                    if isinstance(answer, NoRoom):
                        attempt.events = tuple(answer.diagnosis.events())
                        attempt.stuck = answer
        return left

    def _explain(
        self, member: Member, answer: NoRoom | Unplaced
    ) -> tuple[str, tuple[PodInfo, frozenset[str]]]:
        if isinstance(answer, Unplaced):
            return answer.message, (member.pod, answer.rejected_by)
        diagnosis = answer.diagnosis
        return diagnosis.message(), (member.pod, diagnosis.plugins() - {GANG})

    # --- topology --------------------------------------------------------------------------

    def _domains(
        self,
        topology: Topology,
        group: GangGroup,
        members: Sequence[Member],
        held: Sequence[Member],
    ) -> Iterable[BoolArray]:
        """The domains that may hold the group, the tightest first."""
        table = self._cluster.table
        column = table.label_column(topology.key)[: table.size]
        placed = [m.uid for m in held]
        placed += [uid for gang in group.gangs for uid in gang.claims if not gang.leaves(uid)]
        at = [self._cluster.node_of(uid) for uid in placed]
        known = [int(column[table.index[node]]) for node in at if node in table.index]
        values = Counter(value for value in sorted(known) if value != ABSENT)
        if values:
            # Where most of them are, the others must go.
            return [column == values.most_common(1)[0][0]]
        slots = self._slots(members)
        there = table.alive[: table.size] & (column != ABSENT)
        room = np.bincount(column[there], weights=slots[there], minlength=1)
        need = sum(gang.shortfall({}) for gang in group.gangs)
        fitting = [value for value in np.unique(column[there]).tolist() if room[value] >= need]
        order = sorted(fitting, key=lambda value: (room[value], value))
        if not order:
            # None is large enough; the roomiest shows best what is missing.
            order = sorted(np.unique(column[there]).tolist(), key=lambda value: -room[value])[:1]
        return [column == value for value in order]

    def _slots(self, members: Sequence[Member]) -> IntArray:
        """Row → at most how many of the members fit, by the class with the least demand."""
        table = self._cluster.table
        best = np.zeros(table.size, dtype=np.int64)
        seen: set[Hashable] = set()
        for member in members:
            kind = _kind(member)
            if kind in seen:
                continue
            seen.add(kind)
            try:
                evaluation = self._cycle.evaluate(member.profile, member.pod, member.sign)
            except Exception:
                continue  # trying to place it will fail the same way, and tell its owner
            slots = np.where(evaluation.feasible, table.slots(member.pod), 0)
            np.maximum(best, slots, out=best)
        return best

    def _no_domain(self, entity: Entity) -> GangDecision:
        keys = {g.settings.topology.key for g in entity.gang_group.gangs if g.settings.topology}
        why = f"no node has the label {', '.join(keys)} that the gang's topology asks for"
        return GangDecision(blocker=next(iter(entity.ready()), None), why=why)


def _kind(member: Member) -> Hashable:
    """Members of one kind are judged alike."""
    return member.sign if member.sign is not None else member.uid


def topology_of(group: GangGroup) -> Topology | None:
    """The domain that a group asks to stay inside."""
    return next((g.settings.topology for g in group.gangs if g.settings.topology), None)


def _in_order(members: Iterable[Member], group: GangGroup) -> list[Member]:
    """The more important first, then the larger, which find a place less easily.

    Else gang by gang, as they came: the same at every attempt.
    """
    members = list(members)
    place = {uid: n for n, gang in enumerate(group.gangs) for uid in gang.claims}
    pods = {_kind(member): member.pod for member in members}
    most: dict[str, int] = {}
    for pod in pods.values():
        for name, amount in pod.requests.items():
            most[name] = max(most.get(name, 0), amount)
    size = {
        kind: sum(amount / most[name] for name, amount in pod.requests.items() if amount)
        for kind, pod in pods.items()
    }
    return sorted(members, key=lambda m: (-m.pod.priority, -size[_kind(m)], place[m.uid]))
