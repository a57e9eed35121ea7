"""One attempt to place a gang group: all that it needs, or nothing.

Each member is tried once. In a Strict group the first required member that fits nowhere ends the
attempt, and the others give their nodes back at once. See ``docs/design/gang-scheduling.md``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from arranger.cluster.cluster import Cluster
from arranger.cluster.pod_info import PodInfo
from arranger.engine.entity import GANG, QueuedEntity, QueuedPod
from arranger.engine.gang.holds import GangHolds
from arranger.engine.gang.placement.boards import Placements, SearchEffort
from arranger.engine.gang.placement.search import PlacementSearcher
from arranger.engine.gang.placement.topology import placement_order, topology_row_masks
from arranger.engine.pod.schedule_result import (
    CycleError,
    Infeasible,
    RowMask,
    Scheduled,
    Unschedulable,
)
from arranger.engine.pod.scheduling_cycle import SchedulingCycle
from arranger.engine.queue.nominator import Nominator
from arranger.framework.runtime.post_filter import run_pod_group_post_filter
from arranger.gangs.gang import Gang
from arranger.gangs.group import GangGroup

#: Where to try to place a group: the rows of a domain, or anywhere (None).
RowMasks = Iterable[RowMask | None]
#: Members that are nominated to a node, and the node's name.
NominatedMembers = list[tuple[QueuedPod, str]]


@dataclass(slots=True)
class GangScheduleResult:
    """What became of an attempt.

    Attributes:
        complete: whether the group has its minimum, with what it held before.
        placed: the members that have a node now.
        placeable: how many fit together, whether or not they have kept their nodes.
        blocker: the first required member that fits nowhere.
        message: why it does not fit, as for a pod on its own.
        error: what a plugin raised, "" when none did.
        rejected_by: the plugins whose events may change the result.
        blockers: one pod of each class that fits nowhere.
        events: (reason, text) of the plugins' events for the blocker.
        infeasible: the diagnosis of the blocker, if no node is feasible for it.
        bounded: whether there were too many ways to place the members to try them all.
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
    bounded: bool = False


@dataclass(slots=True)
class _Attempt:
    """An attempt under way.

    Attributes:
        placed_counts: gang → bundle → members placed, those held from earlier attempts included.
        failed_classes: equivalence key → one of its pods, and the plugins that rejected it.
        result: what is known so far.
    """

    gang_of: Mapping[str, Gang]
    placed_counts: dict[str, Counter[str]]
    row_mask: RowMask | None
    failed_classes: dict[Hashable, tuple[PodInfo, frozenset[str]]] = field(default_factory=dict)
    result: GangScheduleResult = field(default_factory=GangScheduleResult)

    @staticmethod
    def of(group: GangGroup, held: Iterable[str], row_mask: RowMask | None) -> _Attempt:
        """An attempt that begins; ``held`` are the uids of those that have nodes."""
        return _Attempt(group.gangs_by_uid(), group.count_by_bundle(held), row_mask)

    def keep(self, placed: Placements, members: Iterable[QueuedPod]) -> list[QueuedPod]:
        """These are placed, and the group is complete; returns the others of the members."""
        self.result = GangScheduleResult(complete=True, placed=placed)
        for member, _ in placed:
            gang = self.gang_of[member.uid]
            self.placed_counts[gang.name][gang.memberships[member.uid].bundle] += 1
        uids = {member.uid for member, _ in placed}
        return [member for member in members if member.uid not in uids]

    def fail(self, member: QueuedPod, answer: Infeasible | Unschedulable) -> None:
        """A member fits nowhere, and so do the others of its class."""
        if isinstance(answer, Unschedulable):
            message, rejected_by = answer.message, answer.rejected_by
        else:
            message = answer.diagnosis.message()
            rejected_by = answer.diagnosis.unschedulable_plugins() - {GANG}
            rejected_by |= answer.filters_about_others(member.profile)
        self.failed_classes[member.equivalence_key] = member.pod, rejected_by
        result = self.result
        if result.blocker is None:
            result.blocker, result.message = member, message
            if isinstance(answer, Infeasible):
                result.events = tuple(answer.diagnosis.plugin_events())
                result.infeasible = answer


@dataclass(frozen=True, slots=True)
class GangSchedulingCycle:
    """Places gang groups by placing their members one after the other."""

    _cluster: Cluster
    _cycle: SchedulingCycle
    _nominator: Nominator
    _holds: GangHolds
    _searcher: PlacementSearcher

    def schedule(self, entity: QueuedEntity) -> GangScheduleResult:
        """Place what the group needs and, beyond that, what fits.

        Members that are held have kept their nodes from earlier attempts. When the group
        stays incomplete, a Strict one keeps nothing of this attempt and a NonStrict one all of it.
        """
        group = entity.gang_group
        nominated = self._nominated_members(entity)
        in_domains, anywhere = SearchEffort(), SearchEffort()
        topology = group.topology
        required = topology is not None and topology.required
        best: GangScheduleResult | None = None
        best_domain: RowMask | None = None
        for row_mask in self.row_masks(entity):
            effort = anywhere if row_mask is None else in_domains
            result = self.place_group(entity, row_mask, effort=effort)
            if result.complete and row_mask is not None and not required:
                result = self._place_surplus(entity, result)
            if result.complete or result.error or row_mask is None:
                return self._finish(group, result, nominated)
            self.unreserve_all(result)
            self._renominate(nominated)
            if best is None or result.placeable > best.placeable:
                best, best_domain = result, row_mask
        if best_domain is not None and not group.is_strict:
            return self._finish(
                group, self.place_group(entity, best_domain, effort=in_domains), nominated
            )
        return best or _no_domain(entity)

    def shortfall(self, entity: QueuedEntity) -> int:
        """How many members the group still needs, beside those that are held."""
        group = entity.gang_group
        held = group.count_by_bundle(m.uid for m in self._holds.members_of(entity))
        return sum(gang.shortfall(held[gang.name]) for gang in group.gangs)

    def row_masks(self, entity: QueuedEntity) -> RowMasks:
        """Where to try to place the group: domain by domain, or anywhere (None)."""
        held = self._holds.members_of(entity)
        return topology_row_masks(self._cluster, self._cycle, entity, held)

    @contextmanager
    def dry_run(self, entity: QueuedEntity) -> Iterator[None]:
        """Attempts inside are taken back by the caller; the members' nominations outlive them."""
        nominated = self._nominated_members(entity)
        with self._cycle.dry_run():
            yield
        self._renominate(nominated)

    def unreserve_all(self, result: GangScheduleResult) -> None:
        """Take back the nodes of all members that an attempt has placed."""
        while result.placed:
            member, _ = result.placed.pop()
            self._cycle.unreserve(member)

    def run_post_filter(self, member: QueuedPod, infeasible: Infeasible) -> None:
        """Let plugins undo what an earlier placement of a member has left."""
        state, diagnosis = infeasible.evaluation.state, infeasible.diagnosis
        run_pod_group_post_filter(member.profile, state, member.pod, diagnosis)

    # --- placing ---------------------------------------------------------------------------

    def place_group(
        self,
        entity: QueuedEntity,
        row_mask: RowMask | None,
        *,
        surplus: bool = True,
        effort: SearchEffort,
        placed: Sequence[QueuedPod] = (),
    ) -> GangScheduleResult:
        """Place what the group needs and, with ``surplus``, what else fits; all of it is kept.

        ``placed`` are members that have got their nodes in this attempt. Where one after the other
        does not do, as much ``effort`` is made to find another way.
        """
        group = entity.gang_group
        held_uids = {member.uid for member in (*self._holds.members_of(entity), *placed)}
        waiting = (member for member in entity.ready() if member.uid not in held_uids)
        members = placement_order(waiting, group)
        attempt = _Attempt.of(group, held_uids, row_mask)
        unplaced = self._place_required(attempt, group, members)
        stuck = not (attempt.result.complete or attempt.result.error)
        if stuck and self._searcher.may_fit(group, members, held_uids, row_mask, effort):
            self.unreserve_all(attempt.result)
            attempt = _Attempt.of(group, held_uids, row_mask)
            found = self._searcher.search(group, members, held_uids, row_mask, effort)
            if found is None:
                unplaced = self._place_required(attempt, group, members)
            else:
                unplaced = attempt.keep(found, members)
        result = attempt.result
        result.bounded = effort.bounded and not result.complete
        if result.complete and surplus and not result.error:
            self._place_members(attempt, unplaced, required=False)
        failed = attempt.failed_classes.values()
        result.placeable = len(held_uids) + len(result.placed)
        result.rejected_by = frozenset[str]().union(*(plugins for _, plugins in failed))
        result.blockers = tuple(pod for pod, _ in failed)
        return result

    def _place_required(
        self, attempt: _Attempt, group: GangGroup, members: Sequence[QueuedPod]
    ) -> list[QueuedPod]:
        """Place what the minimum needs, one after the other; returns the unplaced."""
        result, unplaced = attempt.result, list(members)
        while True:
            before = len(result.placed)
            unplaced = self._place_members(attempt, unplaced, required=True)
            result.complete = not group.lacks_members(attempt.placed_counts)
            progress = len(result.placed) > before
            if result.complete or result.error or not progress:
                return unplaced
            # Some were passed over until others had their minimum; and those that failed may have
            # affinity to members that were placed after them.
            attempt.failed_classes.clear()
            result.blocker, result.message = None, ""

    def _place_members(
        self, attempt: _Attempt, members: Sequence[QueuedPod], *, required: bool
    ) -> list[QueuedPod]:
        """Try members once, only those that the minimum needs or all; returns the unplaced."""
        unplaced: list[QueuedPod] = []
        for n, member in enumerate(members):
            gang = attempt.gang_of[member.uid]
            bundle, counts = gang.memberships[member.uid].bundle, attempt.placed_counts[gang.name]
            if member.equivalence_key in attempt.failed_classes or (
                required and not gang.advances_minimum(bundle, counts)
            ):
                unplaced.append(member)
                continue
            answer = self._cycle.place(member, attempt.row_mask)
            if isinstance(answer, Scheduled):
                attempt.result.placed.append((member, answer.held))
                counts[bundle] += 1
            elif isinstance(answer, CycleError):
                attempt.result.error, attempt.result.blocker = answer.message, member
                return [*unplaced, *members[n:]]
            else:
                attempt.fail(member, answer)
                unplaced.append(member)
        return unplaced

    def _place_surplus(
        self, entity: QueuedEntity, result: GangScheduleResult
    ) -> GangScheduleResult:
        """Place members beyond the minimum anywhere, where the preferred domain is too small."""
        placed = [member for member, _ in result.placed]
        more = self.place_group(entity, None, effort=SearchEffort(0), placed=placed)
        more.placed = [*result.placed, *more.placed]
        return more

    def _finish(
        self, group: GangGroup, result: GangScheduleResult, nominated: NominatedMembers
    ) -> GangScheduleResult:
        if not result.complete and (result.error or group.is_strict):
            self.unreserve_all(result)
            self._renominate(nominated)
        return result

    def _nominated_members(self, entity: QueuedEntity) -> NominatedMembers:
        nominator = self._nominator
        members = entity.members.values() if nominator else ()
        return [(m, nominator.node_of(m.uid)) for m in members if m.uid in nominator]

    def _renominate(self, nominated: NominatedMembers) -> None:
        """Placing a pod clears its nomination; restore those of pods that are not placed now."""
        for member, node in nominated:
            if member.uid not in self._cluster:
                self._nominator.nominate(member, node)


def _no_domain(entity: QueuedEntity) -> GangScheduleResult:
    keys = {g.settings.topology.key for g in entity.gang_group.gangs if g.settings.topology}
    why = f"no node has the label {', '.join(keys)} that the gang's topology asks for"
    return GangScheduleResult(blocker=next(iter(entity.ready()), None), message=why)
