"""Candidates of which all victims may leave together, as far as queues have a say."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Final, Protocol

from arranger.cluster import PodInfo
from arranger.cluster.attempt_work import AttemptWork, UnfinishedError
from arranger.framework.preemption import EvictionPolicy, Losses
from arranger.preemption.allowed_together import allowed_together
from arranger.preemption.importance import Candidate
from arranger.preemption.victims import Reasons

#: Units of work for each victim, to ask whether all may leave, and to look for others.
_ASKING: Final = 4
_LOOKING: Final = 8


class VictimsOfNodes(Protocol):
    """What is asked of :class:`~arranger.preemption.victims.VictimSelector`."""

    losses: Losses

    def preemptible(self, row: int) -> list[PodInfo]:
        """The pods on a node that may go, the most important first."""

    def likeness(self, row: int, pods: Sequence[PodInfo]) -> Hashable | None:
        """Equal for nodes of which the same may be said; None where that is not known."""

    def select_victims(self, row: int, preemptible: Sequence[PodInfo]) -> Candidate | Reasons:
        """Who of them must go, or why evicting them does not help."""


class AllowedCandidates:
    """Tells of a node's victims whether they may leave together, and who else might.

    Answers are good for one attempt: they depend on what queues use and lose. Where a step ends
    before all is known they are kept for the next, if queues then lose as much.
    """

    _selector: VictimsOfNodes
    _policy: EvictionPolicy
    #: What may be spent; None where all is told at once.
    _work: AttemptWork | None
    #: Nodes that were looked at in this step, and that are looked at in any case: the more the more
    #: often what was found out had to be forgotten.
    _looked: int
    _least: int

    def __init__(self) -> None:
        self._answers: dict[int, Candidate | None] = {}
        #: What nodes have in common on which there is no hope (:meth:`VictimSelector.likeness`).
        self._hopeless: set[Hashable] = set()
        #: What queues lost when the last step ended before all was known.
        self._state: Hashable = None
        self._is_unfinished = False
        #: Victims that several candidates have → whether they may leave together.
        self._shared: dict[int, tuple[Sequence[PodInfo], bool]] = {}

    def begin(
        self,
        selector: VictimsOfNodes,
        policy: EvictionPolicy,
        work: AttemptWork,
        gangs: Iterable[int],
    ) -> None:
        """An attempt begins, or goes on; ``gangs``: rows where gangs have a say, to ask anew."""
        self._selector, self._policy, self._work = selector, policy, work
        if self._is_unfinished and selector.losses.state == self._state:
            forgotten = self._answers.keys() & set(gangs)
            for row in forgotten:
                self.forget(row)
            self._least = max(self._least, 2 * len(forgotten))
        else:
            self._least = 2 * max(len(self._answers), self._least) if self._is_unfinished else 1
            self.forget_all()
        self._is_unfinished, self._looked = False, 0
        self._shared.clear()

    def finish(self) -> None:
        """All that is asked about from now on in this attempt is told at once."""
        self._work = None

    def forget(self, row: int) -> None:
        """A node has changed."""
        self._answers.pop(row, None)

    def ask_again(self, row: int) -> None:
        """A node was looked at again, and is asked about whatever has been spent."""
        self.forget(row)
        self._looked -= 1

    def forget_all(self) -> None:
        """All nodes may have changed."""
        self._answers.clear()
        self._hopeless.clear()

    def of(self, found: Candidate) -> Candidate | None:
        """The candidate, if its victims may leave together; else the cheapest of its node of whom
        that is true.

        Raises:
            UnfinishedError: nothing is left to spend on it.
        """
        row, work = found.row, self._work
        if row in self._answers:
            return self._answers[row]
        if work is not None:
            if work.is_spent and self._looked >= self._least:
                self._state, self._is_unfinished = self._selector.losses.state, True
                raise UnfinishedError
            if id(found.victims) not in self._shared:
                work.count(_ASKING * len(found.victims))
        self._looked += 1
        may = self._may_leave(found)
        answer = self._answers[row] = found if may else self._look_for_others(row)
        return answer

    def _may_leave(self, found: Candidate) -> bool:
        """Asked once of pods that leave together for whatever node: a gang as a whole."""
        known = self._shared.get(id(found.victims))
        if known is None:
            may = self._selector.losses.may_add(found.victims)
            known = self._shared[id(found.victims)] = found.victims, may
        return known[1]

    def _look_for_others(self, row: int) -> Candidate | None:
        selector = self._selector
        pods = selector.preemptible(row)
        if self._work is not None:
            self._work.count(_LOOKING * len(pods))
        like = selector.likeness(row, pods)
        if like is not None and like in self._hopeless:
            return None
        may = allowed_together(pods, self._policy, selector.losses)
        found = selector.select_victims(row, may)
        if isinstance(found, Candidate) and selector.losses.may_add(found.victims):
            return found
        self._hopeless.add(like)
        return None
