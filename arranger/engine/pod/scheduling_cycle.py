"""One scheduling cycle: evaluate the nodes for a pod, and reserve the best."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial, reduce
from itertools import islice
from operator import and_

import numpy as np

from arranger.cluster.attempt_work import UnfinishedError
from arranger.cluster.columns import BoolArray, IntArray
from arranger.cluster.pod_info import PodInfo
from arranger.engine.context.engine_context import EngineContext
from arranger.engine.context.entity import QueuedPod
from arranger.engine.context.phases import Phase
from arranger.engine.pod.attempt_limits import NAMES_PER_UNIT, looks_at_pods, most_work
from arranger.engine.pod.extender_result import ExtenderResult, rows_to_clear
from arranger.engine.pod.kept_rows import KeptRows
from arranger.engine.pod.reserve_and_permit import (
    run_reserve_and_permit,
    unreserve,
    unreserve_all,
)
from arranger.engine.pod.schedule_result import (
    CycleError,
    Infeasible,
    RowMask,
    Scheduled,
    ScheduleResult,
    Unfinished,
    Unschedulable,
    cycle_error,
    or_unfinished,
    single_node_fit_error,
)
from arranger.engine.pod.second_filter_pass import filter_without_nominees
from arranger.engine.queue.nominator import Nominator
from arranger.framework.diagnosis import Diagnosis
from arranger.framework.preemption import EvictionPolicy
from arranger.framework.runtime.dry_run import DryRun
from arranger.framework.runtime.evaluation import Evaluation
from arranger.framework.runtime.evaluation_cache import MAX_KEPT, EvaluationCache
from arranger.framework.runtime.plugin_errors import PluginFailureError
from arranger.framework.runtime.post_filter import run_post_filter
from arranger.framework.runtime.profile import Profile
from arranger.framework.status import Code, CycleState, Status


def _intersection(masks: list[RowMask]) -> BoolArray | None:
    if len(masks) == 1:
        return masks[0].rows
    return reduce(and_, (mask.rows for mask in masks)) if masks else None


class SchedulingCycle:
    """Runs pods through the extension points up to Permit.

    Attributes:
        cluster: the nodes to choose from.
    """

    def __init__(
        self,
        context: EngineContext,
        nominator: Nominator,
        policy: EvictionPolicy,
        kept: KeptRows,
        evaluations: EvaluationCache,
    ) -> None:
        self.cluster = context.cluster
        self._clock, self._pods, self._tracer = context.clock, context.pods, context.tracer
        self._record_failure = context.record_failure
        self._extenders = context.extenders
        self._nominator = nominator
        self._policy, self._kept, self._is_leaving = policy, kept, context.is_leaving
        self._extender_results: Mapping[Hashable, ExtenderResult] = {}
        self._is_dry_run, self._evaluations = False, evaluations

    @property
    def now(self) -> float:
        """The engine's clock."""
        return self._clock.now

    def nodes_for(self, members: Sequence[QueuedPod]) -> tuple[str, ...]:
        """The nodes that any of some members of one class could be placed on now, if it were alone.

        Those count that others of its gang are nominated for; and if not the same nodes are kept
        from all of them, those that are kept from some. None when a plugin raises, as placing the
        pods will, too.

        Raises:
            UnfinishedError: it takes another step to know them.
        """
        member = max(members, key=lambda each: each.pod.priority)
        try:
            entity = member.entity
            mates = () if entity is None or not self._nominator else entity.members.values()
            with self._nominator.hide_for(member, self._policy, mates):
                if len(set(map(self.kind_of, members))) == 1:
                    rows = self._feasible_rows(member, None)
                else:
                    feasible = self.evaluate(member.profile, member.pod, member.signature).feasible
                    rows = np.flatnonzero(feasible)
        except Exception as error:
            if isinstance(error, UnfinishedError) or cycle_error(error).asks_again:
                raise UnfinishedError from error
            return ()
        self.cluster.work.count(len(rows) // NAMES_PER_UNIT)
        return tuple(map(self.cluster.table.name, rows.tolist()))

    def feasible_rows(self, member: QueuedPod, within: RowMask | None = None) -> IntArray:
        """The rows that the pod could be placed on now, of those ``within`` if given.

        Raises:
            Exception: whatever a plugin raises.
        """
        with self.hide_lower_nominees(member):
            return self._feasible_rows(member, within)

    def _feasible_rows(self, member: QueuedPod, within: RowMask | None) -> IntArray:
        evaluation = self.evaluate(member.profile, member.pod, member.signature)
        rows = _intersection(self.row_masks(member, within, evaluation))
        return np.flatnonzero(evaluation.feasible if rows is None else evaluation.feasible & rows)

    def extender_result_of(self, member: QueuedPod) -> ExtenderResult | None:
        """What extenders say of the pod's class; None where they have not been asked."""
        return self._extender_results.get(member.equivalence_key)

    @contextmanager
    def with_extender_results(self, results: Mapping[Hashable, ExtenderResult]) -> Iterator[None]:
        """Let extenders have their say about pods of these kinds inside."""
        self._extender_results = results
        try:
            yield
        finally:
            self._extender_results = {}

    @contextmanager
    def dry_run(self) -> Iterator[None]:
        """Placing pods inside is a dry run: rows that extenders were not asked about pass, too."""
        self._is_dry_run = True
        try:
            yield
        finally:
            self._is_dry_run = False

    # --- deciding --------------------------------------------------------------------------

    def decide(self, member: QueuedPod) -> ScheduleResult | Unfinished:
        """Place a lone pod on the best feasible node, or say why it cannot be placed.

        When :class:`Scheduled` is returned the node is assumed in the cluster and every Reserve
        plugin has agreed; otherwise nothing is held.
        """
        if member.signature is None:  # plugins alone keep what they have found out
            return or_unfinished(self._decide_at_once(member))
        work = self.cluster.work
        work.limit(most_work(member))
        try:
            return self._decide_at_once(member)
        except UnfinishedError:
            return Unfinished()
        finally:
            work.lift()

    def _decide_at_once(self, member: QueuedPod) -> ScheduleResult:
        if not self._nominator:
            return self._decide(member)
        # Also while victims are sought: who is only nominated is none, and takes nothing from it.
        with self.hide_lower_nominees(member):
            return self._decide(member)

    def hide_lower_nominees(self, member: QueuedPod) -> AbstractContextManager[None]:
        """Meanwhile nominated pods that step aside for a pod are not where they will be."""
        return self._nominator.hide_for(member, self._policy)

    def _decide(self, member: QueuedPod) -> ScheduleResult:
        decision = self._find_and_reserve(member, None)
        if not isinstance(decision, Infeasible):
            return decision
        try:
            with self._tracer.long_step("PostFilter"):
                return self._run_post_filter(member, decision)
        except PluginFailureError as failure:
            return self._failed(member, failure)

    def place(
        self, member: QueuedPod, within: RowMask | None = None
    ) -> ScheduleResult | Infeasible:
        """Place a pod on the best feasible node, of the rows ``within`` if given; no PostFilter is
        run: that is left to the caller, who may have more pods to place."""
        if not self._nominator:
            return self._find_and_reserve(member, within)
        with self.hide_lower_nominees(member):
            return self._find_and_reserve(member, within)

    def _find_and_reserve(
        self, member: QueuedPod, within: RowMask | None
    ) -> ScheduleResult | Infeasible:
        try:
            evaluation = self.evaluate(member.profile, member.pod, member.signature)
            self._tracer.step("Select")
            masks = self.row_masks(member, within, evaluation)
            extender_result = self.extender_result_of(member)
            row = self._select_node(member, evaluation, masks, extender_result)
            if extender_result is not None:
                nominated = self._nominator.node_of(member.uid)
                extender_result.note_refusal(member, nominated, self._clock.now)
            if row < 0:
                return Infeasible(evaluation, self.diagnose(evaluation, masks, extender_result))
        except UnfinishedError:
            raise
        except Exception as error:
            # Whichever vectorised plugin raised, the pod must not be lost, nor hold others up.
            return self._failed(member, error)
        try:
            return self._reserve(member, evaluation.state, self.cluster.table.name(row))
        except PluginFailureError as failure:
            return self._failed(member, failure)

    def _failed(self, member: QueuedPod, error: Exception) -> CycleError:
        if not (found := cycle_error(error)).asks_again:
            self._record_failure(member.pod.pod, error)
        return found

    def prepare(self, members: Sequence[QueuedPod]) -> bool:
        """Look at what may take long of the classes of some pods; whether that has been done.

        Of many classes all would have to be evaluated twice: they are not looked at here.
        """
        looking = [m for m in members if m.signature is not None and looks_at_pods(m.pod)]
        if not looking or self._extender_results or len(looking) > MAX_KEPT // 2:
            return True
        try:
            with self.cluster.work.at_most(most_work(looking[0])):
                for member in looking:
                    self.evaluate(member.profile, member.pod, member.signature)
        except UnfinishedError:
            return False
        except Exception:
            return True  # the attempt will tell
        return True

    def evaluate(self, profile: Profile, pod: PodInfo, sign: Hashable | None) -> Evaluation:
        """The evaluation of the pod's class, brought up to date."""
        if sign is None:
            return Evaluation(profile, self.cluster, pod, tracer=self._tracer)
        key = (profile.scheduler_name, sign)
        if (evaluation := self._evaluations.get(key, pod)) is None:
            evaluation = Evaluation(profile, self.cluster, pod, tracer=self._tracer)
            self._evaluations.add(key, evaluation)
            return evaluation
        try:
            evaluation.refresh()
        except Exception:
            # Half-refreshed answers must not be trusted by the next pod of the class.
            self._evaluations.discard(key)
            raise
        return evaluation

    def unreserve(self, member: QueuedPod) -> None:
        """Give the pod's reservation up, plugins first, in reverse order."""
        unreserve(self.cluster, member)

    def unreserve_all(self, members: Sequence[QueuedPod]) -> None:
        """The same of several pods, the last first; no time passes between them."""
        unreserve_all(self.cluster, members)

    def kind_of(self, member: QueuedPod) -> Hashable:
        """Pods of one kind and one group find the same nodes feasible, and open to them."""
        return self._kept.kind_of(member)

    def may_stay(self, members: Iterable[QueuedPod]) -> bool:
        """Whether pods that are on their nodes again may be there now, where what may have changed
        is no node and no pod there."""
        return self._kept.allow(members)

    # --- inside ----------------------------------------------------------------------------

    def _select_node(
        self,
        member: QueuedPod,
        evaluation: Evaluation,
        masks: list[RowMask],
        extender_result: ExtenderResult | None,
    ) -> int:
        """The best row; the one it is nominated for, if that is feasible now."""
        rows = _intersection(masks)
        if extender_result is not None:
            agreed = ~extender_result.refused if self._is_dry_run else extender_result.allowed
            rows = agreed if rows is None else rows & agreed
        nominated = self.cluster.table.index.get(self._nominator.node_of(member.uid))
        if nominated is not None and evaluation.pre_filter_status is None:
            allowed = rows is None or bool(rows[nominated])
            if allowed and evaluation.feasible[nominated]:
                return nominated
        if extender_result is not None and rows is not None and not self._is_dry_run:
            return extender_result.best(evaluation.feasible & rows, evaluation.total_scores)
        closed = masks[0].closed if len(masks) == 1 and extender_result is None else None
        return evaluation.best_row(rows, closed)

    def row_masks(
        self, member: QueuedPod, within: RowMask | None, evaluation: Evaluation
    ) -> list[RowMask]:
        """What leaves only some rows to choose from."""
        masks = [] if within is None else [within]
        second_pass = filter_without_nominees(self.cluster, self._nominator, member, evaluation)
        masks += [] if second_pass is None else [RowMask(*second_pass)]
        if self._is_dry_run:
            closed = rows_to_clear(self.cluster.table, member, self._clock.now)
            masks += [] if closed is None else [closed]
        return masks + self._kept.row_masks(member)

    def diagnose(
        self, evaluation: Evaluation, masks: list[RowMask], extender_result: ExtenderResult | None
    ) -> Diagnosis:
        """Why no row is left, those that are out of bounds included."""
        diagnosis = evaluation.diagnosis()
        closing = [m for m in masks if m.rejection.rejection.code is Code.UNRESOLVABLE]
        diagnosis.within = _intersection(closing)
        if diagnosis.pre_filter_status is None:
            alive = self.cluster.table.alive[: len(diagnosis.rejection_index)]
            for mask in masks:
                index, rejections = diagnosis.rejection_index, diagnosis.rejections
                outside = alive & (index < 0) & ~mask.rows
                index = np.where(outside, len(rejections), index)
                diagnosis.replace_index(index, [*rejections, mask.rejection])
            if extender_result is not None:
                extender_result.explain(diagnosis, alive & (diagnosis.rejection_index < 0))
        return diagnosis

    def _run_post_filter(self, member: QueuedPod, infeasible: Infeasible) -> Unschedulable:
        diagnosis = infeasible.diagnosis
        if (closed := rows_to_clear(self.cluster.table, member, self._clock.now)) is not None:
            diagnosis.restrict_to(closed.rows)
        about_others = infeasible.filters_about_others
        context = DryRun(
            member.profile,
            self.cluster,
            member.pod,
            infeasible.evaluation,
            nominated_node=self._nominator.node_of(member.uid),
            terminating_victims=self._nominator.terminating_victims,
            policy=self._policy,
            extenders_choose=any(e.chooses_victims(member.pod.pod) for e in self._extenders),
            # Where filters are monotone the answer is the same with these and without.
            nominated_pods=self._nominator.visible_pods() if about_others else (),
            waiting_alike=partial(self._count_waiting_alike, member),
            is_leaving=self._is_leaving,
        )
        with self.cluster.without_trace():
            answer = run_post_filter(context, diagnosis)
        # Unlike kube-scheduler, which says of every pod without claims that it has none to give up.
        unconcerned = infeasible.evaluation.unconcerned_plugins
        diagnosis.post_filter_message = answer.message(leave_out=unconcerned)
        rejected_by = diagnosis.unschedulable_plugins()
        if not answer.nominated_node:
            rejected_by |= about_others | answer.rejected_by
            rejected_by |= infeasible.filters_about_objects(member.profile)
        return Unschedulable(
            diagnosis.message(),
            rejected_by,
            answer.nominated_node,
            answer.victims,
            tuple(diagnosis.plugin_events()),
            answer.options,
        )

    def _count_waiting_alike(self, member: QueuedPod, most: int) -> int:
        """How many lone pods of a pod's kind wait for room, itself included."""
        key, kind = member.equivalence_key, self.kind_of(member)
        alike = (
            other
            for other in self._pods.values()
            if other.equivalence_key == key
            and other.phase is Phase.QUEUED
            and self.kind_of(other) == kind
            and (other is member or other.uid not in self._nominator)
        )
        return sum(1 for _ in islice(alike, most))

    def _reserve(self, member: QueuedPod, state: CycleState, node: str) -> ScheduleResult:
        self.cluster.assume_pod(member.pod, node)
        member.node = node
        # The class goes on using its state; what Reserve and Permit note is this pod's own.
        member.cycle_state = CycleState(state)
        try:
            answer = run_reserve_and_permit(member, self._tracer)
        except Exception:
            self.unreserve(member)
            raise
        if isinstance(answer, Status):
            self.unreserve(member)
            return Unschedulable(single_node_fit_error(answer), frozenset({answer.plugin}))
        return Scheduled(node, answer)
