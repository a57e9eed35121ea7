"""Which of some victims may leave together, chosen one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from arranger.cluster.pod_info import PodInfo
from arranger.framework.preemption import Departures, EvictionPolicy, Losses


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
    #: Counts those that were chosen, gang by gang.
    _departures: Departures = field(init=False)
    #: Gang groups that may not leave whole: nor may they when more has gone.
    _stay: set[str] = field(default_factory=set, init=False)
    #: Gang group → those of it that were chosen.
    _mates: dict[str, list[PodInfo]] = field(default_factory=dict, init=False)
    #: uids of all that leave with those that were chosen.
    _together: set[str] = field(default_factory=set, init=False)

    def __post_init__(self) -> None:
        self._departures = self._policy.departures()

    def add(self, pod: PodInfo) -> bool:
        """Add a pod and all that must leave with it, if they may; returns whether."""
        group = self._policy.group_of(pod)
        if group is None or pod.uid in self._together:
            return self._take(pod, (pod,))
        mates = self._mates.setdefault(group, [])
        if not self._departures.breaks_gang(pod):
            taken = self._take(pod, (pod,))
        elif group in self._stay:
            return False
        elif not (taken := self._take(pod, self._policy.expand_to_gang([*mates, pod]))):
            self._stay.add(group)
        if taken:
            self._departures.add(pod)
            mates.append(pod)
        return taken

    def _take(self, pod: PodInfo, together: Iterable[PodInfo]) -> bool:
        new = [each for each in together if each.uid not in self._together]
        if not self._may_all_leave(new):
            return False
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
