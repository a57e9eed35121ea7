"""Looks for the set of victims that costs least, of all sets that may leave together.

Depth first: each candidate is spared if there is enough room without its leaving, else it leaves,
with all that must leave with it. The first set found this way is what sparing the most important
first comes to. Then the other choice is tried wherever the result may still become cheaper, so that
the search ends with the best set, or with the best of those seen when its attempts are used up.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from arranger.cluster.disruption_budgets import DisruptionBudgets
from arranger.cluster.pod_info import PodInfo
from arranger.framework.preemption import EvictionPolicy
from arranger.preemption.disruption_budgets import split_by_pdb_violation
from arranger.preemption.importance import by_importance, oldest_checkpoint, start_time

T = TypeVar("T")

#: Candidates that are searched at most; each may be one level of recursion.
MAX_CANDIDATES: Final = 256
#: What a set of victims costs, least first: see :func:`cost_of`.
Cost = tuple[int, int, int, int, float, float]
#: More than any set costs.
IMPOSSIBLE: Final[Cost] = (sys.maxsize, 0, 0, 0, 0.0, 0.0)

#: Whether there is enough room if these pods leave.
Fits = Callable[[Sequence[PodInfo]], bool]
#: Asks whether there is enough room if the pods leave that it yields, and goes on from the answer.
Questions = Generator[Sequence[PodInfo], bool, T]
#: These pods and all that must leave with them; None where they may not leave together.
Company = Callable[[Sequence[PodInfo]], Sequence[PodInfo] | None]


@dataclass(frozen=True, slots=True)
class VictimSet:
    """Who leaves, the most important first; nobody where no set was found.

    Attributes:
        proven: whether all cheaper sets have been ruled out.
    """

    victims: tuple[PodInfo, ...] = ()
    cost: Cost = IMPOSSIBLE
    proven: bool = True

    @property
    def groups_broken(self) -> int:
        """How many gang groups break."""
        return self.cost[2]


def cost_of(victims: Iterable[PodInfo], policy: EvictionPolicy, budgets: DisruptionBudgets) -> Cost:
    """What it costs that these pods leave, least first.

    PodDisruptionBudgets broken, the importance of the most important, gang groups broken, pods, and
    the later the oldest of the most important has started, the better; of equal ones those who have
    all saved their state lately. Never less with more pods.
    """
    ordered = by_importance(victims, policy.importance)
    if not ordered:
        return 0, -(2**100), 0, 0, 0.0, 0.0
    violating = split_by_pdb_violation(ordered, budgets)[0] if budgets else ()
    return (
        len(violating),
        policy.importance(ordered[0]),
        policy.groups_broken(ordered),
        len(ordered),
        -start_time(ordered[0]),
        -oldest_checkpoint(ordered),
    )


class _AttemptsUsedUpError(Exception):
    """The search ends with what it has found."""


@dataclass(slots=True, eq=False)
class VictimSearch:
    """One search.

    Args:
        candidates: who may be evicted, those first that are to be spared first.
        alike: pods of equal keys may stand in for each other: the youngest of them leave.
        attempts: how often it may be asked whether there is enough room; asked about sets that need
            not be allowed to leave together as well.
        fewest: how many have to leave at least.
    """

    candidates: Sequence[PodInfo]
    policy: EvictionPolicy
    budgets: DisruptionBudgets
    company: Company
    alike: Callable[[PodInfo], Hashable]
    attempts: int
    fewest: int = 0
    _best: VictimSet = VictimSet()
    _keys: dict[str, Hashable] = field(default_factory=dict)
    #: uid → all that must leave if this one does.
    _alone: dict[str, frozenset[str]] = field(default_factory=dict)
    _ages: dict[str, int] = field(default_factory=dict)

    def run(self, fits: Fits) -> VictimSet:
        """The best set found, all at once."""
        questions = self.questions()
        try:
            asked = next(questions)
            while True:
                asked = questions.send(fits(asked))
        except StopIteration as end:
            found: VictimSet = end.value
            return found

    def questions(self) -> Questions[VictimSet]:
        """The best set found, by the answers to what it asks."""
        self._keys = {pod.uid: self.alike(pod) for pod in self.candidates}
        together = {pod.uid: self.company([pod]) for pod in self.candidates}
        self._alone = {
            uid: frozenset(pod.uid for pod in pods or ()) for uid, pods in together.items()
        }
        # Those that cannot leave because of others.
        stay = {uid for uid, uids in self._alone.items() if not uids or uids - self._keys.keys()}
        self.candidates = [pod for pod in self.candidates if pod.uid not in stay]
        if len(self.candidates) > MAX_CANDIDATES or not (yield self.candidates):
            return VictimSet()
        youngest_last = by_importance(self.candidates, self.policy.importance)
        self._ages = {pod.uid: number for number, pod in enumerate(youngest_last)}
        try:
            yield from self._visit(0, {}, {})
        except _AttemptsUsedUpError:
            return replace(self._best, proven=False)
        return self._best

    def _visit(
        self, number: int, leaving: dict[str, PodInfo], spared: dict[str, PodInfo]
    ) -> Questions[None]:
        """Decide about the candidates from ``number`` on; those decided about have enough room."""
        if not self._may_become_better(leaving):
            return
        decided = leaving.keys() | spared.keys()
        while number < len(self.candidates) and self.candidates[number].uid in decided:
            number += 1
        if number == len(self.candidates):
            victims = tuple(by_importance(leaving.values(), self.policy.importance))
            self._best = VictimSet(victims, cost_of(victims, self.policy, self.budgets))
            return
        pod = self.candidates[number]
        if not any(self._is_older(uid, pod.uid) for uid in leaving):
            more = self._with_those_that_stay(pod, leaving, spared)
            if more is not None and (yield from self._can_do_without(more)):
                yield from self._visit(number + 1, leaving, more)
        if not any(self._is_older(pod.uid, uid) for uid in spared):
            more = self._with_those_that_leave(pod, leaving, spared)
            if more is not None:
                yield from self._visit(number + 1, more, spared)

    def _may_become_better(self, leaving: dict[str, PodInfo]) -> bool:
        broken_budgets, top, broken, count, *rest = cost_of(
            leaving.values(), self.policy, self.budgets
        )
        least = (broken_budgets, top, broken, max(count, self.fewest), *rest)
        return least < self._best.cost

    def _is_older(self, uid: str, other: str) -> bool:
        """Whether the one could stand in for the other, and is older, so that it should stay."""
        return self._keys[uid] == self._keys[other] and self._ages[uid] < self._ages[other]

    def _can_do_without(self, spared: dict[str, PodInfo]) -> Questions[bool]:
        """Whether there is enough room if all but these leave."""
        if not self.attempts:
            raise _AttemptsUsedUpError
        self.attempts -= 1
        return (yield [pod for pod in self.candidates if pod.uid not in spared])

    def _with_those_that_stay(
        self, pod: PodInfo, leaving: dict[str, PodInfo], spared: dict[str, PodInfo]
    ) -> dict[str, PodInfo] | None:
        """Those that are spared when the pod is as well; None where one of them leaves."""
        staying = {**spared, pod.uid: pod}
        for each in self.candidates:
            if each.uid not in staying and not self._alone[each.uid].isdisjoint(staying):
                if each.uid in leaving:
                    return None
                staying[each.uid] = each
        return staying

    def _with_those_that_leave(
        self, pod: PodInfo, leaving: dict[str, PodInfo], spared: dict[str, PodInfo]
    ) -> dict[str, PodInfo] | None:
        """Those that leave when the pod does as well; None where that may not be."""
        together = self.company([*leaving.values(), pod])
        if together is None:
            return None
        if any(each.uid in spared or each.uid not in self._keys for each in together):
            return None
        return {each.uid: each for each in together}
