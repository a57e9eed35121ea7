"""Room that is planned for gangs, so that other pods do not take it before they start.

A pod may be placed on a node of the plan if it ends before the gang starts, or fits beside it then.
Where nothing tells when a gang can start, its nodes are kept as a whole. Pods of a higher priority
need not heed the plan: they go first anyway.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, Protocol

import numpy as np

from arranger.backfill.history import RunTimeHistory
from arranger.backfill.planner import Claim
from arranger.backfill.run_times import RunTimes
from arranger.backfill.spare import SpareRoom, names_of
from arranger.backfill.timeline import Timeline
from arranger.cluster.columns import BoolArray, IntArray
from arranger.cluster.nodes.node_table import NodeTable
from arranger.cluster.pod_info import PodInfo
from arranger.engine.context.entity import QueuedPod
from arranger.engine.context.rejecters import KEPT_NODES
from arranger.engine.pod.schedule_result import RowMask
from arranger.framework.diagnosis import PluginRejection
from arranger.framework.filter_result import Rejection
from arranger.framework.status import Code

#: Kinds of pods for which it is remembered what is left to them.
_MAX_ANSWERS: Final = 256


class UnixClock(Protocol):
    """Tells the time."""

    @property
    def unix_now(self) -> float:
        """The present time, in seconds since 1970."""


class Limits(Protocol):
    """Knows how long pods may run."""

    def limit_of(self, pod: PodInfo) -> float | None:
        """How long a pod may run once it has started, in seconds; None if for ever."""

    def changes(self) -> int:
        """How often that has changed for pods that were not edited."""


@dataclass(frozen=True, slots=True, eq=False)
class PlannedGang:
    """What is planned for the entity ``key``, of ``priority``.

    Attributes:
        rank: its sort key in the queue; a group with a lower one is planned before it.
        title: the name of the group in messages to pods of its ``namespaces``.
        nodes: those that it is to start on.
        claim: the room it takes there, and when; None where nothing tells when it can start, and
            the nodes are kept as a whole.
    """

    key: str
    rank: tuple[object, ...]
    title: str
    namespaces: frozenset[str]
    priority: int
    nodes: frozenset[str]
    claim: Claim | None = None

    def is_alike(self, other: PlannedGang) -> bool:
        """Whether the same is kept by both, and from nobody fewer by the other."""
        if other.priority < self.priority:
            return False
        mine, its = self.claim, other.claim
        if mine is None or its is None:
            return mine is its and self.nodes == other.nodes
        return (
            (mine.start, mine.end, self.nodes) == (its.start, its.end, other.nodes)
            and np.array_equal(mine.rows, its.rows)
            and np.array_equal(mine.amounts, its.amounts)
        )

    def is_there(self, table: NodeTable) -> bool:
        """Whether its nodes are there still, and where they were."""
        if self.claim is None:
            return all(name in table.index for name in self.nodes)
        rows = self.claim.rows.tolist()
        return {table.name(row) for row in rows if table.alive[row]} == self.nodes

    def rejection_for(self, member: QueuedPod) -> PluginRejection:
        """Why another pod does not fit on these nodes."""
        known = member.pod.pod.metadata.namespace in self.namespaces
        reason = f"node(s) reserved for {self.title if known else 'a gang of another namespace'}"
        return PluginRejection(KEPT_NODES, Rejection((reason,), Code.UNRESOLVABLE))


@dataclass(slots=True, eq=False)
class PlannedRoom:
    """The plan in force.

    Attributes:
        plans: entity → what is planned for it, in the order of the queue.
    """

    timeline: Timeline
    _clock: UnixClock
    plans: Mapping[str, PlannedGang] = field(default_factory=dict, init=False)
    #: The namespaces of them all, those of which whole nodes are kept, and the lowest priority.
    _namespaces: frozenset[str] = field(default=frozenset(), init=False)
    _whole: list[PlannedGang] = field(default_factory=list, init=False)
    _lowest: int = field(default=0, init=False)
    _spare: SpareRoom | None = field(default=None, init=False)
    #: What was found for pods of a kind, and in which state of the spare room.
    _answers: dict[Hashable, list[RowMask]] = field(default_factory=dict, init=False)
    _answers_of: tuple[int, int] = field(default=(-1, -1), init=False)

    @staticmethod
    def empty(
        table: NodeTable,
        queue_of: Callable[[PodInfo], str],
        limits: Limits,
        clock: UnixClock,
    ) -> PlannedRoom:
        """Nothing is planned yet on these nodes."""
        times = RunTimes(RunTimeHistory(queue_of), limits.limit_of, limits.changes)
        return PlannedRoom(Timeline(table, times), clock)

    def keep(self, plans: Iterable[PlannedGang]) -> None:
        """Room is kept for these from now on, in place of others."""
        now, table = self._clock.unix_now, self.timeline.table
        self.plans = {plan.key: plan for plan in plans}
        claims = {key: plan.claim for key, plan in self.plans.items() if plan.claim is not None}
        self._whole = [plan for plan in self.plans.values() if plan.claim is None]
        self._namespaces = frozenset(n for plan in self.plans.values() for n in plan.namespaces)
        self._lowest = min((plan.priority for plan in self.plans.values()), default=0)
        self._spare, self._answers = None, {}
        if claims:
            names = names_of(table, claims.values())
            self.timeline.watch(names.keys(), now)
            self._spare = SpareRoom(self.timeline, claims, names)
            self._spare.start(now)

    @contextmanager
    def nothing_kept(self) -> Iterator[None]:
        """Meanwhile nothing is kept from anybody."""
        plans, self.plans = self.plans, {}
        try:
            yield
        finally:
            self.plans = plans

    def follow(self, most: float = math.inf) -> bool:
        """Bring all up to date, but for about so many pods; whether it is now."""
        now = self._clock.unix_now
        changed = self.timeline.refresh(now, most)
        if self._spare is not None:
            self._spare.follow(changed, now)
        return self.timeline.is_current

    def end_of(self, member: QueuedPod) -> float:
        """When a pod ends that starts now, as far as plans are concerned; infinite for never."""
        if self._spare is None:
            return math.inf
        return self.timeline.run_times.end_if_started(member.pod, self._clock.unix_now)

    def row_masks(self, member: QueuedPod, *, there: bool = False) -> Sequence[RowMask]:
        """What is left to a pod of all rows, by each plan that it would be in the way of.

        ``there``: it is on the row in question already, and counted.
        """
        if not self.plans:
            return []
        entity, pod = member.entity, member.pod
        own = "" if entity is None else entity.key
        unbound = frozenset[str]()
        if pod.priority > self._lowest:
            unbound = frozenset(k for k, plan in self.plans.items() if plan.priority < pod.priority)
        left = []
        if self._spare is not None:
            left = self._left_by_claims(self._spare, member, unbound, own, there)
        if not self._whole:
            return left
        whole = (plan for plan in self._whole if plan.key != own and plan.key not in unbound)
        masks = (
            RowMask(self._without(self._rows(plan)), plan.rejection_for(member)) for plan in whole
        )
        return [*masks, *left]

    def claims_before(self, member: QueuedPod, ends: float) -> Iterator[Mapping[int, IntArray]]:
        """Column → row → how much is planned for others that start before a pod ends."""
        own = "" if member.entity is None else member.entity.key
        for key, plan in self.plans.items():
            claim = plan.claim
            if claim is None or key == own or plan.priority < member.pod.priority:
                continue
            if claim.start < ends:
                amounts = np.zeros((len(claim.amounts), self.timeline.table.size), dtype=np.int64)
                amounts[:, claim.rows] = claim.amounts
                yield dict(enumerate(amounts))

    def _left_by_claims(
        self, spare: SpareRoom, member: QueuedPod, unbound: frozenset[str], own: str, there: bool
    ) -> list[RowMask]:
        """By each claim that a pod would be in the way of, the rows that are left to it."""
        pod = member.pod
        table, now = self.timeline.table, self._clock.unix_now
        spare.follow(self.timeline.refresh_watched(now), now)
        ends = self.timeline.run_times.end_if_started(pod, now)
        columns, amounts = pod.request_vector(table.resource_column)
        mine = spare.claims.get(own)
        own = "" if mine is None else own
        if mine is not None and mine.start <= now:
            # What is planned after it counts on that; to be a moment late is no reason to wait.
            ends = min(ends, mine.end)
        before = spare.starts_before(ends)
        told = pod.namespace if pod.namespace in self._namespaces else ""
        alike = tuple(columns), tuple(amounts), before, unbound, own, there, told
        state = spare.changes, table.size
        if state != self._answers_of or len(self._answers) >= _MAX_ANSWERS:
            self._answers, self._answers_of = {}, state
        answer = self._answers.get(alike)
        if answer is None:
            found = spare.rows_in_the_way(columns, amounts, ends, unbound, own, there=there)
            answer = [
                RowMask(self._without(rows), self.plans[key].rejection_for(member), rows)
                for key, rows in found.items()
                if rows.size
            ]
            self._answers[alike] = answer
        return answer

    def check_consistent(self) -> None:
        """Compare what is known of the future with the pods on the nodes.

        Raises:
            AssertionError: they disagree.
        """
        if not self.plans:
            return
        self.follow()
        if self._spare is not None:
            self._spare.check_consistent(self._clock.unix_now)
        self.timeline.check_consistent()

    def _rows(self, plan: PlannedGang) -> IntArray:
        return np.array(self.timeline.table.rows(plan.nodes), dtype=np.int64)

    def _without(self, rows: IntArray) -> BoolArray:
        left = np.ones(self.timeline.table.size, dtype=np.bool_)
        left[rows] = False
        return left
