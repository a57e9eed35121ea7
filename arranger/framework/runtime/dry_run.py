"""Whether a pod would fit if others were gone: what PostFilter plugins are given to ask."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from arranger.api.types.core import Pod
from arranger.cluster import Cluster, PodInfo
from arranger.framework.preemption import EvictionPolicy, PriorityPolicy
from arranger.framework.runtime.evaluation import Evaluation
from arranger.framework.runtime.profile import Profile

#: Units of work to ask the filters about a node.
_LOOK = 300


def _is_being_deleted(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is not None


@dataclass
class DryRun:
    """Runs the filters for one pod; see :class:`~arranger.framework.preemption.PreemptionContext`.

    Attributes:
        evaluation: what is known about the pod's class, as things are.
        nominated_pods: pods that are only nominated, without which the pod must fit, too.
        waiting_alike: counts, up to a number, the pods of its class that wait, itself included;
            without it there are no others.
        rejecters: the plugins that have rejected nodes although others had left them.
        is_leaving: whether a pod is being deleted, and ends as soon as if it was evicted now.
    """

    profile: Profile
    cluster: Cluster
    pod: PodInfo
    evaluation: Evaluation
    policy: EvictionPolicy = field(default_factory=PriorityPolicy)
    nominated_node: str = ""
    terminating_victims: Collection[str] = ()
    extenders_choose: bool = False
    nominated_pods: Sequence[PodInfo] = ()
    waiting_alike: Callable[[int], int] | None = None
    is_leaving: Callable[[Pod], bool] = _is_being_deleted
    rejecters: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        resources = self.profile.resource_filters
        self.resource_only = self.evaluation.pod_dependent_filters <= resources
        self.fits_when_empty = self.evaluation.fits_when_empty

    @cached_property
    def _simulated(self) -> Evaluation:
        return Evaluation(self.profile, self.cluster, self.pod, scoring=False)

    @cached_property
    def _without_nominees(self) -> Evaluation:
        """As :attr:`_simulated`, refreshed only while the nominated pods are taken away."""
        return Evaluation(self.profile, self.cluster, self.pod, scoring=False)

    def count_waiting_alike(self, most: int) -> int:
        """How many pods of its class and priority wait for room, itself included."""
        return 1 if self.waiting_alike is None else self.waiting_alike(most)

    def fits(self, row: int) -> bool:
        """Whether the pod passes all filters on a node, as the cluster is in memory now."""
        self.cluster.work.count(_LOOK)
        if not _passes(self._simulated, row):
            return False
        if not self.nominated_pods:
            return True
        with self.cluster.simulate_without(self.nominated_pods):
            return _passes(self._without_nominees, row)

    def reasons(self, row: int) -> tuple[str, ...]:
        """The reasons of the first filter that rejects it, as the cluster is in memory now."""
        if not self.nominated_pods or not _passes(self._simulated, row):
            return self._reasons(self._simulated, row)
        with self.cluster.simulate_without(self.nominated_pods):
            return self._reasons(self._without_nominees, row)

    def _reasons(self, evaluation: Evaluation, row: int) -> tuple[str, ...]:
        evaluation.refresh()
        if (whole := evaluation.pre_filter_status) is not None:
            self.rejecters.add(whole.plugin)
            return whole.reasons
        rejected = evaluation.diagnosis().first_rejection(row)
        if rejected is None:
            return ()
        self.rejecters.add(rejected.plugin)
        return rejected.rejection.reasons


def _passes(evaluation: Evaluation, row: int) -> bool:
    evaluation.refresh()
    return evaluation.pre_filter_status is None and bool(evaluation.feasible[row])
