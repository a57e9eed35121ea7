"""Which pods that could be evicted count for more than what they request, to members of a gang.

Filters of most gangs compare sums. Those that look at pods, as anti-affinity does, look at few: at
what their selectors match. All others need not be taken away to know what would be without them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Final

from arranger.cluster.attempt_work import AttemptWork
from arranger.cluster.pod_info import PodInfo
from arranger.engine.context.entity import QueuedPod
from arranger.framework.interface import Plugin
from arranger.framework.runtime.evaluation import Evaluation
from arranger.framework.status import CycleState

#: Units to ask one plugin about one pod, on behalf of one class of members.
_ASKING: Final = 2
#: Pods that are asked about between two rests.
_SLICE: Final = 500
#: Plugins, times classes of members, that are asked about each pod.
MAX_ASKED: Final = 8


@dataclass(slots=True, eq=False)
class VictimLooks:
    """Asks the plugins about each pod once.

    Attributes:
        only_sums: the classes of members for which the sums on a node decide alone, where a pod
            comes back to it that nobody looks at.
    """

    only_sums: set[Hashable] = field(default_factory=set)
    #: Who is asked: a plugin, what it keeps for a class of members, and one of these.
    _asked: list[tuple[Plugin, CycleState, PodInfo]] = field(default_factory=list)
    _known: dict[PodInfo, bool] = field(default_factory=dict)

    def add_class(self, member: QueuedPod, evaluation: Evaluation) -> bool:
        """Members of this class are to be placed; whether it can be told what they look at."""
        profile, filters = member.profile, evaluation.pod_dependent_filters
        looking = filters - profile.resource_filters
        if looking and evaluation.pre_filter_status is not None:
            return False
        state = CycleState(evaluation.state)
        self._asked += [(profile.by_name[name], state, member.pod) for name in sorted(looking)]
        if filters - looking <= profile.node_resource_filters:
            self.only_sums.add(member.equivalence_key)
        return len(self._asked) <= MAX_ASKED

    def find_out(self, pods: Iterable[PodInfo], work: AttemptWork) -> Generator[None, None, None]:
        """Ask about these, in steps; yields wherever it may be left."""
        if not self._asked:
            return
        unknown = [pod for pod in pods if pod not in self._known]
        for start in range(0, len(unknown), _SLICE):
            work.count(_SLICE * _ASKING * len(self._asked))
            if work.is_spent:
                yield
            for pod in unknown[start : start + _SLICE]:
                self.at(pod)

    def at(self, pod: PodInfo) -> bool:
        """Whether some filter may look at it."""
        asked = self._asked
        if not asked:
            return False
        if (known := self._known.get(pod)) is None:
            known = any(plugin.looks_at(state, member, pod) for plugin, state, member in asked)
            self._known[pod] = known
        return known


def looks_of(
    members: Iterable[QueuedPod],
    evaluate: Callable[[QueuedPod], Evaluation],
    work: AttemptWork,
    units: int,
) -> Generator[None, None, VictimLooks | None]:
    """What members look at, one of each class; None if that is not known, or too much.

    ``units`` are counted for each.
    """
    looks = VictimLooks()
    for member in members:
        if work.is_spent:
            yield
        with work.uninterrupted():
            evaluation = evaluate(member)
        work.count(units)
        if not looks.add_class(member, evaluation):
            return None
    return looks
