"""What becomes of a preemption when extenders have had their say about the victims.

Time has passed since they were asked, and their answer is not ours: nobody is evicted who may not
be evicted now, where that makes no room, or for a pod that needs no room by now.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from typing import Final

import numpy as np

from arranger.api.effects import NodeVictims
from arranger.api.types.core import Pod
from arranger.cluster.attempt_work import UnfinishedError
from arranger.cluster.columns import BoolArray
from arranger.cluster.pod_info import PodInfo
from arranger.engine.context.entity import QueuedPod
from arranger.engine.extenders.calls import ExtenderCall
from arranger.engine.pod.attempt_limits import most_work
from arranger.engine.pod.extender_result import rows_to_clear
from arranger.engine.pod.schedule_result import Unfinished, Unschedulable, cycle_error
from arranger.engine.pod.scheduling_cycle import SchedulingCycle
from arranger.engine.queue.nominator import Nominator
from arranger.framework.preemption import EvictionPolicy
from arranger.framework.runtime.dry_run import DryRun
from arranger.framework.runtime.evaluation import Evaluation
from arranger.framework.runtime.plugin_errors import PluginFailureError
from arranger.framework.status import Code
from arranger.preemption.importance import Candidate, by_importance
from arranger.preemption.victims import breaks_own_gang

NO_CANDIDATE = "no candidate node for preemption"
#: Units of work to take a victim away in memory and to put it back, and to look at a named one.
_VICTIM: Final = 10


def without_victims(unschedulable: Unschedulable, why: str) -> Unschedulable:
    """Nobody is evicted, for that reason, and nothing changes about a nomination."""
    message = f"{unschedulable.message} preemption: {why}"
    return replace(unschedulable, message=message, nominated_node=None, victims=(), options=())


@dataclass(frozen=True, slots=True)
class AgreedVictims:
    """Chooses among the candidates for preemption that extenders have agreed to.

    Args:
        is_leaving: whether a pod is being deleted.
    """

    _cycle: SchedulingCycle
    _nominator: Nominator
    _policy: EvictionPolicy
    _is_leaving: Callable[[Pod], bool]

    def select(
        self, member: QueuedPod, unschedulable: Unschedulable, call: ExtenderCall
    ) -> Unschedulable | Unfinished | None:
        """The cheapest candidate that lets the pod fit now, or none.

        None where nobody need be evicted, or a plugin fails: the pod is to be tried anew. What
        takes long goes on in another step, with those nodes in the answer that are left.
        """
        work = self._cycle.cluster.work
        try:
            with (
                self._cycle.with_extender_results(call.answers),
                self._cycle.hide_lower_nominees(member),
                work.at_most(most_work(member)),
            ):
                return self._select(member, unschedulable, call)
        except UnfinishedError:
            return Unfinished()
        except PluginFailureError as failure:
            return Unfinished() if cycle_error(failure).asks_again else None

    def _select(
        self, member: QueuedPod, unschedulable: Unschedulable, call: ExtenderCall
    ) -> Unschedulable | None:
        evaluation = self._cycle.evaluate(member.profile, member.pod, member.signature)
        rows = self._rows(member, evaluation)
        if rows is None:
            return None
        self._rank(member, call)
        cluster, table = self._cycle.cluster, self._cycle.cluster.table
        dry_run = self._dry_run(member, evaluation)
        while call.ranked:
            _, node, agreed = heappop(call.ranked)
            row = table.index.get(node, -1)
            found = self._candidate(member, node, agreed) if row >= 0 and rows[row] else None
            if found is not None and self._makes_room(dry_run, found, call.proposed[node]):
                victims = found.evicted
                return replace(unschedulable, nominated_node=node, victims=victims, options=())
            if call.ranked:
                cluster.work.check()
        return replace(without_victims(unschedulable, NO_CANDIDATE), nominated_node="")

    def _rank(self, member: QueuedPod, call: ExtenderCall) -> None:
        """Put the answer in order: who is cheapest is looked at first, as things are then."""
        table, unranked = self._cycle.cluster.table, call.victims
        while unranked:
            node, agreed = unranked.popitem()
            if node not in call.proposed:
                continue
            if (candidate := self._candidate(member, node, agreed)) is not None:
                rank = (*candidate.cost(), table.index[node])
                heappush(call.ranked, (rank, node, agreed))
            if unranked:
                self._cycle.cluster.work.check()

    def _rows(self, member: QueuedPod, evaluation: Evaluation) -> BoolArray | None:
        """The rows that may be cleared for the pod; None where it may have one as things are."""
        cycle, table = self._cycle, self._cycle.cluster.table
        masks = cycle.row_masks(member, None, evaluation)
        if evaluation.pre_filter_status is None:
            feasible = evaluation.feasible.copy()
            for mask in masks:
                feasible &= mask.rows
            if (told := cycle.extender_result_of(member)) is not None:
                feasible &= ~told.refused
            if feasible.any():
                return None
        rows = np.ones(table.size, dtype=np.bool_)
        for mask in masks:
            if mask.rejection.rejection.code is Code.UNRESOLVABLE:
                rows &= mask.rows
        if (closed := rows_to_clear(table, member, cycle.now)) is not None:
            rows &= closed.rows
        return rows

    def _candidate(self, member: QueuedPod, node: str, agreed: NodeVictims) -> Candidate | None:
        """What extenders agreed to, unless it is out of date or we do not agree."""
        policy, cluster, plugin = self._policy, self._cycle.cluster, member.profile.evicting_plugin
        cluster.work.count(_VICTIM * len(agreed.uids))
        if plugin is None or any(cluster.node_of(uid) != node for uid in agreed.uids):
            return None
        named = [pod for uid in dict.fromkeys(agreed.uids) if (pod := cluster.pod(uid)) is not None]
        if breaks_own_gang(policy, member.pod, named):
            return None
        victims = by_importance(policy.expand_to_gang(named), policy.importance)
        may_go = (policy.can_preempt(member.pod, v) and plugin.is_preemptable(v) for v in victims)
        if not victims or not policy.losses((member.pod,)).may_add(victims) or not all(may_go):
            return None
        return Candidate(
            cluster.table.index[node],
            tuple(victims),
            agreed.violations,
            policy.importance,
            frozenset(pod.uid for pod in victims if self._leaves(pod)),
        )

    def _dry_run(self, member: QueuedPod, evaluation: Evaluation) -> DryRun:
        about_others = evaluation.filters_about_others
        return DryRun(
            member.profile,
            self._cycle.cluster,
            member.pod,
            evaluation,
            self._policy,
            nominated_pods=self._nominator.visible_pods() if about_others else (),
        )

    def _makes_room(self, dry_run: DryRun, candidate: Candidate, proposed: NodeVictims) -> bool:
        """Whether the pod fits when they are gone, and who of them we have proposed has to go.

        Extenders may name more than have to. But where what we have proposed is too much by now, it
        is out of date.
        """
        if not self._fits_without(dry_run, candidate.row, candidate.victims):
            return False
        victims = candidate.victims
        if not dry_run.resource_only or {pod.uid for pod in victims} != {*proposed.uids}:
            return True
        return not any(
            self._fits_without(dry_run, candidate.row, [v for v in victims if v is not pod])
            for pod in candidate.evicted
            if not self._policy.in_gang(pod)
        )

    def _fits_without(self, dry_run: DryRun, row: int, victims: Sequence[PodInfo]) -> bool:
        cluster = self._cycle.cluster
        cluster.work.count(_VICTIM * len(victims))
        with cluster.simulate_without(victims):
            return dry_run.fits(row)

    def _leaves(self, pod: PodInfo) -> bool:
        leaving = self._nominator.terminating_victims
        return pod.uid in leaving or self._is_leaving(pod.pod)
