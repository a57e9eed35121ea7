"""The placement policies that can be compared: as profiles, and as annotations of the pods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from arranger.api.annotations import PLACEMENT
from arranger.framework.runtime.profile import PluginWeight, Profile
from arranger.plugins import DEFAULT_PLUGINS
from arranger.plugins.default_preemption import DefaultPreemption
from arranger.plugins.helpers.args import ResourceSpec
from arranger.plugins.helpers.resource_scoring import ScoringStrategy
from arranger.plugins.resources.node_resources_fit import NodeResourcesFit, NodeResourcesFitArgs
from arranger.replay.objects import GPU, SCHEDULER

Strategy = Literal["LeastAllocated", "MostAllocated"]
#: GPUs count like CPU and memory, as they do for the placement policies.
_SCORED_RESOURCES: Final = tuple(ResourceSpec(name=name) for name in ("cpu", "memory", GPU))


@dataclass(frozen=True, slots=True)
class Policy:
    """How NodeResourcesFit scores, and what the pods ask for by annotation."""

    strategy: Strategy = "LeastAllocated"
    placement: str = ""

    def profile(self) -> Profile:
        """The default profile with this strategy, and without preemption.

        Pods of a trace have no priorities, so there is nobody to evict, and looking for victims
        among thousands of pods whenever one finds no node would take most of a replay's time.
        """
        args = NodeResourcesFitArgs(
            scoring_strategy=ScoringStrategy(type=self.strategy, resources=_SCORED_RESOURCES)
        )
        plugins = [
            PluginWeight(NodeResourcesFit(args) if kind is NodeResourcesFit else kind(), weight)
            for kind, weight in DEFAULT_PLUGINS
            if kind is not DefaultPreemption
        ]
        return Profile(SCHEDULER, plugins)

    def annotations(self) -> dict[str, str]:
        """What every pod carries."""
        return {PLACEMENT: self.placement} if self.placement else {}


#: By name. The policies of jobs are not here, because a trace has no jobs.
POLICIES: Final[Mapping[str, Policy]] = {
    "LeastAllocated": Policy("LeastAllocated"),
    "MostAllocated": Policy("MostAllocated"),
    "BinPack": Policy(placement="BinPack"),
    "MinFragment": Policy(placement="MinFragment"),
}
