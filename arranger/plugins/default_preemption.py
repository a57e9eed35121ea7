"""DefaultPreemption: make room for a pod by evicting pods of lower priority (seed 001)."""

from __future__ import annotations

from itertools import islice

import numpy as np
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from arranger.cluster.pod_info import PodInfo
from arranger.framework.diagnosis import Diagnosis
from arranger.framework.interface import Eviction, Nomination
from arranger.framework.runtime.dry_run import WhatIf
from arranger.framework.runtime.profile import SpecPlugin
from arranger.framework.status import Code, CycleState, Status
from arranger.preemption.candidate_cache import Survey

NEVER = "preemption: not eligible due to preemptionPolicy=Never."
LEAVING = "preemption: not eligible due to a terminating pod on the nominated node."
UNHELPFUL = "Preemption is not helpful for scheduling"


class DefaultPreemptionArgs(BaseModel):
    """``victimSchedulers``: whose pods may be evicted; the daemon's default is its own profiles.

    ``minCandidateNodesPercentage`` and ``minCandidateNodesAbsolute`` bound upstream's sampling.
    Here all nodes are looked at where only room counts; they bound how many candidates are sought
    for pods that look at other pods, and how many extenders are asked about.
    """

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, populate_by_name=True)

    victim_schedulers: list[str] | None = None
    min_candidate_nodes_percentage: int = Field(default=10, ge=0, le=100)
    min_candidate_nodes_absolute: int = Field(default=100, ge=0)


class DefaultPreemption(SpecPlugin):
    """Evict the fewest and least important pods of one node, budgets permitting."""

    Args = DefaultPreemptionArgs
    wake_on = ()

    def __init__(self, args: DefaultPreemptionArgs | None = None) -> None:
        args = args or DefaultPreemptionArgs()
        self._schedulers = args.victim_schedulers
        self._percentage = args.min_candidate_nodes_percentage
        self._absolute = args.min_candidate_nodes_absolute

    def post_filter(
        self, state: CycleState, pod: PodInfo, what_if: WhatIf, diagnosis: Diagnosis
    ) -> Nomination | Status | None:
        """Nominate the node whose victims cost least, or say why there is none."""
        if why := self._not_eligible(pod, what_if, diagnosis):
            return Status(Code.UNSCHEDULABLE, (why,), self.name)
        table = what_if.cluster.table
        rows = diagnosis.resolvable_rows()
        if diagnosis.refusal is not None and diagnosis.refusal.code is Code.UNSCHEDULABLE:
            rows = np.flatnonzero(table.alive[: table.size])
        # As many as upstream would look for (``GetOffsetAndNumCandidates``).
        most = max(table.count * self._percentage // 100, self._absolute, 1)
        survey: Survey = state.setdefault(f"{self.name}/{pod.priority}", Survey())
        survey.look(what_if, rows, self.may_leave, most)
        best = survey.best()
        if best is None:
            return Nomination("", message=_no_candidate(table.count, survey))
        options: tuple[Eviction, ...] = ()
        if what_if.others_choose:
            options = tuple(
                Eviction(table.name(each.row), each.victims, each.violations)
                for each in islice(survey.candidates(), most)
            )
        return Nomination(table.name(best.row), best.victims, options=options)

    def may_leave(self, victim: PodInfo) -> bool:
        """Whether the pod is of a scheduler whose pods may be evicted."""
        return self._schedulers is None or victim.pod.spec.scheduler_name in self._schedulers

    def _not_eligible(self, pod: PodInfo, what_if: WhatIf, diagnosis: Diagnosis) -> str:
        """Whether the pod must not evict anybody, or not yet (``PodEligibleToPreemptOthers``)."""
        if pod.pod.spec.preemption_policy == "Never":
            return NEVER
        row = what_if.cluster.table.index.get(what_if.nominated)
        if row is None:
            return ""
        rejected = diagnosis.of_row(row) if diagnosis.refusal is None else None
        why = diagnosis.refusal if rejected is None else rejected.rejection
        if why is not None and why.code is Code.UNRESOLVABLE:
            return ""
        for other in what_if.cluster.table.pods[row].values():
            lower = what_if.may_take(pod, other) and self.may_leave(other)
            if lower and (other.uid in what_if.leaving or _is_leaving(other)):
                return LEAVING
        return ""


def _no_candidate(nodes: int, survey: Survey) -> str:
    counts, looked_at = survey.reasons()
    if nodes > looked_at:
        counts[UNHELPFUL] += nodes - looked_at
    texts = ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
    return f"preemption: 0/{nodes} nodes are available: {texts}."


def _is_leaving(pod: PodInfo) -> bool:
    """Whether a pod is ending because a scheduler evicted it."""
    return pod.pod.metadata.deletion_timestamp is not None and any(
        (c.type, c.status, c.reason) == ("DisruptionTarget", "True", "PreemptionByScheduler")
        for c in pod.pod.status.conditions
    )
