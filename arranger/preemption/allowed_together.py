"""Which of some victims may leave together, chosen one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from arranger.cluster.pod_info import PodInfo
from arranger.framework.preemption import EvictionPolicy, Losses


@dataclass(slots=True, eq=False)
class AllowedTogether:
    """Victims that may leave together, to which others are added.

    Args:
        losses: what queues lose already; it is added to.
        may_leave: whether a pod may be evicted as far as it alone is concerned.
        is_leaving: whether it leaves anyhow, so that it need not be evicted.

    Attributes:
        chosen: those that were added, without those that must leave with them.
    """

    _policy: EvictionPolicy
    _losses: Losses
    _may_leave: Callable[[PodInfo], bool] = lambda _: True
    _is_leaving: Callable[[PodInfo], bool] = lambda _: False
    chosen: list[PodInfo] = field(default_factory=list, init=False)
    #: Gang group → those of it that were chosen.
    _mates: dict[str, list[PodInfo]] = field(default_factory=dict, init=False)
    #: uids of all that leave with those that were chosen.
    _together: set[str] = field(default_factory=set, init=False)

    def mates_of(self, pod: PodInfo) -> int:
        """How many of a pod's gang group were chosen, each of which :meth:`add` looks at."""
        group = self._policy.group_of(pod)
        return 0 if group is None else len(self._mates.get(group, ()))

    def add(self, pod: PodInfo) -> bool:
        """Add a pod and all that must leave with it, if they may; returns whether."""
        group = self._policy.group_of(pod)
        together: Sequence[PodInfo] = (pod,)
        mates: list[PodInfo] = []
        if group is not None and pod.uid not in self._together:
            mates = self._mates.setdefault(group, [])
            together = self._policy.expand_to_gang([*mates, pod])
        new = [each for each in together if each.uid not in self._together]
        if not self._may_all_leave(new):
            return False
        mates.append(pod)
        self._together.update(each.uid for each in new)
        self.chosen.append(pod)
        return True

    def _may_all_leave(self, pods: Iterable[PodInfo]) -> bool:
        evicted = list[PodInfo]()
        for pod in pods:
            if not self._may_leave(pod):
                return False
            if not self._is_leaving(pod):
                evicted.append(pod)
        return not evicted or self._losses.add(evicted)


def allowed_together(
    pods: Sequence[PodInfo], policy: EvictionPolicy, losses: Losses
) -> list[PodInfo]:
    """As many of the pods as may be evicted together, tried from the last one on."""
    if not pods or losses.may_add(policy.expand_to_gang(pods)):
        return list(pods)
    allowed = AllowedTogether(policy, losses.copy())
    for pod in reversed(pods):
        allowed.add(pod)
    return allowed.chosen[::-1]
