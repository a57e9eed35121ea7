"""Would a pod fit, if others were gone? What PostFilter plugins may ask."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cached_property

from arranger.cluster.cluster import Cluster
from arranger.cluster.pod_info import PodInfo
from arranger.framework.evaluation import Evaluation
from arranger.framework.profile import Profile

#: Pods → these, and those that must leave with them.
Company = Callable[[Sequence[PodInfo]], Sequence[PodInfo]]


class WhatIf:
    """Questions about one pod that fits nowhere.

    Attributes:
        cluster: as it is; think pods away with :meth:`Cluster.without`.
        pod: the pod.
        evaluation: what is known about its class, as things are.
        nominated: the node it has been promised, "" for none.
        leaving: uids of pods that are being evicted already.
        company: for pods that leave together, these and all that must then leave with them.
    """

    def __init__(
        self,
        profile: Profile,
        cluster: Cluster,
        pod: PodInfo,
        evaluation: Evaluation,
        *,
        nominated: str = "",
        leaving: Collection[str] = (),
        company: Company = tuple,
    ) -> None:
        self.profile = profile
        self.cluster = cluster
        self.pod = pod
        self.evaluation = evaluation
        self.nominated = nominated
        self.leaving = leaving
        self.company = company

    @cached_property
    def _thought(self) -> Evaluation:
        return Evaluation(self.profile, self.cluster, self.pod, scoring=False)

    def fits(self, row: int) -> bool:
        """Whether the pod passes all filters on a node, as the cluster is thought to be."""
        thought = self._thought
        thought.refresh()
        return thought.refusal is None and bool(thought.feasible[row])

    def why(self, row: int) -> tuple[str, ...]:
        """The reasons of the first filter that rejects it, as the cluster is thought to be."""
        thought = self._thought
        thought.refresh()
        if thought.refusal is not None:
            return thought.refusal.reasons
        rejected = thought.diagnosis().of_row(row)
        return () if rejected is None else rejected.rejection.reasons
