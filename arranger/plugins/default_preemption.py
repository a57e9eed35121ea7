"""DefaultPreemption: make room by evicting pods of lower priority (docs/design/preemption.md)."""

from __future__ import annotations

from itertools import islice

import numpy as np
from pydantic import Field, model_validator

from arranger.cluster.pod_info import PodInfo
from arranger.framework import Code, CycleState, Diagnosis, PreemptionContext, Status
from arranger.framework.interface import PostFilterResult, PreemptionCandidate, SpecOnlyPlugin
from arranger.plugins.helpers.args import ArgsSection
from arranger.preemption.candidate_cache import CandidateCache

NEVER = "preemption: not eligible due to preemptionPolicy=Never."
TERMINATING = "preemption: not eligible due to a terminating pod on the nominated node."
UNHELPFUL = "Preemption is not helpful for scheduling"


class DefaultPreemptionArgs(ArgsSection):
    """``victimSchedulers``: whose pods may be evicted; the daemon's default is its own profiles.

    ``minCandidateNodesPercentage`` and ``minCandidateNodesAbsolute`` bound upstream's sampling.
    Here all nodes are looked at where only resources count; the two bound how many candidates are
    sought for pods that depend on other pods, and how many are sent to extenders.
    """

    victim_schedulers: list[str] | None = None
    min_candidate_nodes_percentage: int = Field(default=10, ge=0, le=100)
    min_candidate_nodes_absolute: int = Field(default=100, ge=0)

    @model_validator(mode="after")
    def _some(self) -> DefaultPreemptionArgs:
        if not self.min_candidate_nodes_percentage and not self.min_candidate_nodes_absolute:
            raise ValueError(
                "minCandidateNodesPercentage and minCandidateNodesAbsolute cannot both be 0"
            )
        return self


class DefaultPreemption(SpecOnlyPlugin):
    """Evict the fewest and least important pods of one node, budgets permitting."""

    Args = DefaultPreemptionArgs
    evicts = True
    queueing_hints = ()

    def __init__(self, args: DefaultPreemptionArgs | None = None) -> None:
        args = args or DefaultPreemptionArgs()
        self._schedulers = args.victim_schedulers
        self._percentage = args.min_candidate_nodes_percentage
        self._absolute = args.min_candidate_nodes_absolute

    def post_filter(
        self, state: CycleState, pod: PodInfo, context: PreemptionContext, diagnosis: Diagnosis
    ) -> PostFilterResult | Status | None:
        """Nominate the node whose victims cost least, or say why there is none."""
        if why := self._not_eligible(pod, context, diagnosis):
            return Status(Code.UNSCHEDULABLE, (why,), self.name)
        table = context.cluster.table
        rows = diagnosis.resolvable()
        whole = diagnosis.pre_filter_status
        if whole is not None and whole.code is Code.UNSCHEDULABLE:
            alive, within = table.alive[: table.size], diagnosis.within
            rows = alive if within is None else alive & within
        elif not len(rows):
            rows = np.zeros(table.size, dtype=np.bool_)
        # As many as upstream would look for (``GetOffsetAndNumCandidates``).
        most = max(table.count * self._percentage // 100, self._absolute, 1)
        cache: CandidateCache = state.setdefault(f"{self.name}/{pod.priority}", CandidateCache())
        cache.update(context, rows, self.is_preemptable, most)
        best = cache.best() if context.extenders_choose else cache.best_for_several(context)
        if best is None:
            why = _no_candidate(table.count, cache)
            return PostFilterResult("", message=why, rejected_by=cache.rejecters)
        options: tuple[PreemptionCandidate, ...] = ()
        if context.extenders_choose:
            options = tuple(
                PreemptionCandidate(table.name(each.row), each.victims, each.pdb_violations)
                for each in islice(cache.candidates(), most)
            )
        return PostFilterResult(table.name(best.row), best.evicted, candidates=options)

    def is_preemptable(self, victim: PodInfo) -> bool:
        """Whether the pod is of a scheduler whose pods may be evicted."""
        return self._schedulers is None or victim.pod.spec.scheduler_name in self._schedulers

    def _not_eligible(self, pod: PodInfo, context: PreemptionContext, diagnosis: Diagnosis) -> str:
        """Why the pod must not evict anybody, or not yet; "" if it may.

        Upstream: ``PodEligibleToPreemptOthers``.
        """
        if pod.pod.spec.preemption_policy == "Never":
            return NEVER
        row = context.cluster.table.index.get(context.nominated_node)
        if row is None:
            return ""
        rejected = diagnosis.first_rejection(row) if diagnosis.pre_filter_status is None else None
        why = diagnosis.pre_filter_status if rejected is None else rejected.rejection
        outside = diagnosis.within is not None and not diagnosis.within[row]
        if outside or (why is not None and why.code is Code.UNRESOLVABLE):
            return ""
        for other in context.cluster.table.pods[row].values():
            lower = context.policy.can_preempt(pod, other) and self.is_preemptable(other)
            if lower and (
                other.uid in context.terminating_victims or _is_terminating(other, context)
            ):
                return TERMINATING
        return TERMINATING if _quota_is_made(pod, context) else ""


def _quota_is_made(pod: PodInfo, context: PreemptionContext) -> bool:
    """Whether only those that are being evicted keep the pod's queue from having it there."""
    policy, node = context.policy, context.nominated_node
    now, later = policy.quota, policy.quota_after_evictions
    if now is None or later is None:
        return False
    return (
        min(now.remaining(pod, node).values(), default=0) < 0
        and min(later.remaining(pod, node).values(), default=0) >= 0
    )


def _no_candidate(nodes: int, cache: CandidateCache) -> str:
    counts, looked_at = cache.reasons()
    if nodes > looked_at:
        counts[UNHELPFUL] += nodes - looked_at
    texts = ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
    return f"preemption: 0/{nodes} nodes are available: {texts}."


def _is_terminating(pod: PodInfo, context: PreemptionContext) -> bool:
    return context.is_leaving(pod.pod) and any(
        (c.type, c.status, c.reason) == ("DisruptionTarget", "True", "PreemptionByScheduler")
        for c in pod.pod.status.conditions
    )
