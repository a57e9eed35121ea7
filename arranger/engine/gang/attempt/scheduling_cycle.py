"""One attempt to place a gang group: all that it needs, or nothing.

Each member is tried once. In a Strict group the first required member that fits nowhere ends the
attempt, and the others give their nodes back at once. See ``docs/design/gang-scheduling.md``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from arranger.cluster.attempt_work import UnfinishedError
from arranger.cluster.cluster import Cluster
from arranger.cluster.pod_info import PodInfo
from arranger.engine.context.entity import QueuedEntity, QueuedPod
from arranger.engine.gang.attempt.group_attempt import GangScheduleResult, GroupAttempt
from arranger.engine.gang.placement.boards import SearchEffort
from arranger.engine.gang.placement.search import PlacementSearcher
from arranger.engine.gang.placement.topology import RowMasks, placement_order, topology_row_masks
from arranger.engine.gang.state.holds import GangHolds
from arranger.engine.gang.steps import EXPLAINING, PLACING, ROWS_PER_UNIT, Steps, at_once
from arranger.engine.pod.schedule_result import (
    CycleError,
    Infeasible,
    RowMask,
    Scheduled,
    ScheduleResult,
    Unschedulable,
)
from arranger.engine.pod.scheduling_cycle import SchedulingCycle
from arranger.engine.queue.nominator import Nominator
from arranger.framework.runtime.post_filter import run_pod_group_post_filter
from arranger.gangs.group import GangGroup

#: Members that are nominated to a node, and the node's name.
NominatedMembers = list[tuple[QueuedPod, str]]


@dataclass(frozen=True, slots=True)
class GangSchedulingCycle:
    """Places gang groups by placing their members one after the other."""

    _cluster: Cluster
    _cycle: SchedulingCycle
    _nominator: Nominator
    _holds: GangHolds
    _searcher: PlacementSearcher

    def steps(self, entity: QueuedEntity) -> Steps[GangScheduleResult]:
        """Place what the group needs and, beyond that, what fits.

        Members that are held have kept their nodes from earlier attempts. When the group
        stays incomplete, a Strict one keeps nothing of this attempt and a NonStrict one all of it.

        Between two steps those that it yields have to be on their nodes again.
        """
        group = entity.gang_group
        nominated = self.nominated_members(entity)
        in_domains, anywhere = SearchEffort(), SearchEffort()
        topology = group.topology
        required = topology is not None and topology.required
        best: GangScheduleResult | None = None
        best_domain: RowMask | None = None
        masks = yield from self.row_mask_steps(entity)
        rejected_by, blockers = masks.passed_over_by, dict[str, PodInfo]()
        for row_mask in masks:
            effort = anywhere if row_mask is None else in_domains
            result = yield from self.place_steps(entity, row_mask, effort=effort)
            if nominated and not (result.complete or result.error):
                result = yield from self._place_elsewhere(
                    entity, row_mask, result, nominated, effort
                )
            if result.complete and row_mask is not None and not required:
                result = yield from self._place_surplus(entity, result)
            if result.complete or result.error or row_mask is None:
                return self._finish(group, result, nominated)
            self.unreserve_all(result)
            self.renominate(nominated)
            rejected_by |= result.rejected_by
            blockers |= {pod.key: pod for pod in result.blockers}
            if best is None or result.placeable > best.placeable:
                best, best_domain = result, row_mask
        if best is None:
            return _no_domain(entity)
        if best_domain is not None and not group.is_strict:
            best = yield from self.place_steps(entity, best_domain, effort=in_domains)
            best = self._finish(group, best, nominated)
        # Room in any of the domains may help.
        best.rejected_by, best.blockers = rejected_by, tuple(blockers.values())
        return best

    def shortfall(self, entity: QueuedEntity) -> int:
        """How many members the group still needs, beside those that are held."""
        held = self.held_counts(entity)
        return sum(gang.shortfall(held[gang.name]) for gang in entity.gang_group.gangs)

    def held_counts(self, entity: QueuedEntity) -> dict[str, Counter[str]]:
        """Gang → bundle → how many members are held."""
        held = self._holds.members_of(entity)
        return entity.gang_group.count_by_bundle(member.uid for member in held)

    def row_masks(self, entity: QueuedEntity) -> RowMasks:
        """Where to try to place the group: domain by domain, or anywhere (None)."""
        with self._cluster.work.unlimited():
            return at_once(self.row_mask_steps(entity))

    def row_mask_steps(self, entity: QueuedEntity) -> Steps[RowMasks]:
        """As :meth:`row_masks`, in steps."""
        held = self._holds.members_of(entity)
        return topology_row_masks(self._cluster, self._cycle, entity, held)

    @contextmanager
    def dry_run(
        self, entity: QueuedEntity, nominated: NominatedMembers | None = None
    ) -> Iterator[None]:
        """Attempts inside are taken back by the caller; the members' nominations outlive them.

        ``nominated``: those that are nominated, where some of them are not in the books now.
        """
        nominated = self.nominated_members(entity) if nominated is None else nominated
        try:
            with self._cycle.dry_run():
                yield
        finally:
            self.renominate(nominated)

    def unreserve_all(self, result: GangScheduleResult) -> None:
        """Take back the nodes of all members that an attempt has placed."""
        members = [member for member, _ in result.placed]
        result.placed.clear()
        self._cycle.unreserve_all(members)

    def run_post_filter(self, member: QueuedPod, infeasible: Infeasible) -> None:
        """Let plugins undo what an earlier placement of a member has left."""
        state, diagnosis = infeasible.evaluation.state, infeasible.diagnosis
        run_pod_group_post_filter(member.profile, state, member.pod, diagnosis)

    # --- placing ---------------------------------------------------------------------------

    def place_steps(
        self,
        entity: QueuedEntity,
        row_mask: RowMask | None,
        *,
        surplus: bool = True,
        hopeful: bool = False,
        effort: SearchEffort,
        placed: Sequence[QueuedPod] = (),
    ) -> Steps[GangScheduleResult]:
        """Place what the group needs and, with ``surplus``, what else fits; all of it is kept.

        ``placed`` are members that have got their nodes in this attempt. Where one after the other
        does not do, as much ``effort`` is made to find another way. A ``hopeful`` attempt ends as
        soon as too few members are left to be tried: who else fits is not asked.
        """
        group = entity.gang_group
        held_uids = {member.uid for member in (*self._holds.members_of(entity), *placed)}
        waiting = (member for member in entity.ready() if member.uid not in held_uids)
        members = placement_order(waiting, group)
        attempt = GroupAttempt.of(group, held_uids, row_mask)
        attempt.hopeful = hopeful
        unplaced = yield from self._place_required(attempt, group, members)
        stuck = not (attempt.result.complete or attempt.result.error)
        if stuck and self._searcher.may_fit(group, members, held_uids, row_mask, effort):
            self.unreserve_all(attempt.result)
            attempt = GroupAttempt.of(group, held_uids, row_mask)
            found = self._searcher.search(group, members, held_uids, row_mask, effort)
            if found is None:
                unplaced = yield from self._place_required(attempt, group, members)
            else:
                unplaced = attempt.keep(found, members)
        result = attempt.result
        result.bounded = effort.bounded and not result.complete
        if result.complete and surplus and not result.error:
            surplus_steps = self._place_members(attempt, unplaced, group, required=False)
            yield from self._hidden_once(surplus_steps)
        failed = attempt.failed_classes.values()
        result.placeable = len(held_uids) + len(result.placed)
        result.rejected_by = frozenset[str]().union(*(plugins for _, plugins in failed))
        result.blockers = tuple(pod for pod, _ in failed)
        return result

    def _place_required(
        self, attempt: GroupAttempt, group: GangGroup, members: Sequence[QueuedPod]
    ) -> Steps[list[QueuedPod]]:
        """Place what the minimum needs, one after the other; returns the unplaced."""
        result, unplaced = attempt.result, list(members)
        while True:
            before = len(result.placed)
            steps = self._place_members(attempt, unplaced, group, required=True)
            unplaced = yield from self._hidden_once(steps)
            result.complete = not group.lacks_members(attempt.placed_counts)
            progress = len(result.placed) > before
            if result.complete or result.error or attempt.hopeless or not progress:
                return unplaced
            # Some were passed over until others had their minimum; and those that failed may have
            # affinity to members that were placed after them.
            attempt.failed_classes.clear()
            result.blocker, result.message = None, ""

    def _place_members(
        self,
        attempt: GroupAttempt,
        members: Sequence[QueuedPod],
        group: GangGroup,
        *,
        required: bool,
    ) -> Steps[list[QueuedPod]]:
        """Try members once, only those that the minimum needs or all; returns the unplaced."""
        unplaced, passed_over, work = list[QueuedPod](), list[QueuedPod](), self._cluster.work
        attempt.look_again(group)
        for n, member in enumerate(members):
            gang = attempt.gang_of[member.uid]
            bundle, failed = gang.memberships[member.uid].bundle, attempt.failed_classes
            if (failed and self._cycle.kind_of(member) in failed) or (
                required and not attempt.is_needed(gang.name, bundle)
            ):
                unplaced.append(member)
                passed_over.append(member)
                continue
            if work.is_spent:
                yield attempt.result.placed
                attempt.look_again(group)
            while (answer := self._place(member, attempt.row_mask)) is None:
                yield attempt.result.placed
                attempt.look_again(group)
            if isinstance(answer, Scheduled):
                attempt.result.placed.append((member, answer.held))
                attempt.count_placed(gang.name, bundle)
            elif isinstance(answer, CycleError):
                attempt.result.error, attempt.result.blocker = answer.message, member
                return [*unplaced, *members[n:]]
            else:
                self._nominator.show_hidden()
                attempt.fail(member, self._cycle.kind_of(member), answer)
                unplaced.append(member)
                if not (attempt.hopeful and _fits_nowhere_later(member, answer)):
                    passed_over.append(member)
                elif not attempt.may_be_complete(group, [*passed_over, *members[n + 1 :]]):
                    attempt.hopeless = True
                    return [*unplaced, *members[n + 1 :]]
        return unplaced

    def _hidden_once(self, steps: Steps[list[QueuedPod]]) -> Steps[list[QueuedPod]]:
        """Go on with what is hidden from a member hidden from others like it, in each step."""
        while True:
            self._nominator.keep_hidden()
            try:
                placed = next(steps)
            except StopIteration as end:
                unplaced: list[QueuedPod] = end.value
                return unplaced
            finally:
                self._nominator.show_all()
            yield placed

    def _place(
        self, member: QueuedPod, row_mask: RowMask | None
    ) -> ScheduleResult | Infeasible | None:
        """Place a member; None if what it takes to know where is to be looked at in more steps."""
        try:
            answer = self._cycle.place(member, row_mask)
        except UnfinishedError:
            return None
        if isinstance(answer, CycleError) and answer.asks_again and self._cluster.work.is_limited:
            return None
        found = isinstance(answer, Scheduled)
        refusing = EXPLAINING + self._cluster.table.size // ROWS_PER_UNIT
        self._cluster.work.count(PLACING if found else refusing)
        return answer

    def _place_surplus(
        self, entity: QueuedEntity, result: GangScheduleResult
    ) -> Steps[GangScheduleResult]:
        """Place members beyond the minimum anywhere, where the preferred domain is too small."""
        placed = [member for member, _ in result.placed]
        steps = self.place_steps(entity, None, effort=SearchEffort(0), placed=placed)
        while True:
            try:
                beyond = next(steps)
            except StopIteration as end:
                more: GangScheduleResult = end.value
                more.placed = [*result.placed, *more.placed]
                return more
            yield [*result.placed, *beyond]

    def _place_elsewhere(
        self,
        entity: QueuedEntity,
        row_mask: RowMask | None,
        first: GangScheduleResult,
        nominated: NominatedMembers,
        effort: SearchEffort,
    ) -> Steps[GangScheduleResult]:
        """Place the group as if no member were nominated; what came ``first`` if that fails, too.

        Where each fits on the node that it is nominated for they need not fit there together: what
        one gets there, as the volume of a claim, may keep the others off theirs.
        """
        self.unreserve_all(first)
        steps = self.place_steps(entity, row_mask, effort=effort)
        result = yield from self._without_nominations(nominated, steps)
        if result.complete or result.error:
            return result
        self.unreserve_all(result)
        self.renominate(nominated)
        if entity.gang_group.is_strict:
            return first  # nothing of it is kept
        return (yield from self.place_steps(entity, row_mask, effort=effort))

    def _without_nominations(
        self, nominated: NominatedMembers, steps: Steps[GangScheduleResult]
    ) -> Steps[GangScheduleResult]:
        """Go on with the members' nominations out of the books, also after another step."""
        while True:
            for member, _ in nominated:
                self._nominator.clear(member.uid)
            try:
                placed = next(steps)
            except StopIteration as end:
                result: GangScheduleResult = end.value
                return result
            yield placed

    def _finish(
        self, group: GangGroup, result: GangScheduleResult, nominated: NominatedMembers
    ) -> GangScheduleResult:
        if not result.complete:
            if result.error or group.is_strict:
                self.unreserve_all(result)
            self.renominate(nominated)
        return result

    def nominated_members(self, entity: QueuedEntity) -> NominatedMembers:
        """The group's members that are nominated, with their nodes."""
        nominator = self._nominator
        members = entity.members.values() if nominator else ()
        return [(m, nominator.node_of(m.uid)) for m in members if m.uid in nominator]

    def renominate(self, nominated: NominatedMembers) -> None:
        """Placing a pod clears its nomination; restore those of pods that are not placed now."""
        for member, node in nominated:
            if member.uid not in self._cluster:
                self._nominator.nominate(member, node)


def _fits_nowhere_later(member: QueuedPod, answer: Infeasible | Unschedulable) -> bool:
    """Whether a member that fits nowhere does so as well when more pods have got nodes: none of its
    filters may be content with those, and it shares no claim that others may have allocated."""
    uses, pod = member.pod.pod.spec.resource_claims, member.pod
    if pod.volumes or pod.pvc_keys or any(use.resource_claim_name for use in uses):
        return False
    if isinstance(answer, Unschedulable):
        return False
    return not answer.filters_about_others


def _no_domain(entity: QueuedEntity) -> GangScheduleResult:
    keys = {g.settings.topology.key for g in entity.gang_group.gangs if g.settings.topology}
    why = f"no node has the label {', '.join(keys)} that the gang's topology asks for"
    return GangScheduleResult(blocker=next(iter(entity.ready()), None), message=why)
