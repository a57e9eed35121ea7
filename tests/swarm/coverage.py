"""What has been entered, and which features the next worlds should have because of it.

What counts is a pair: a phase of a pod after another one, or something that happens while pods of
the leader are in a phase. A pair that few worlds have entered is rare; the features of the worlds
that did are more likely to be on in the next ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from arranger.daemon.scheduler import Scheduler
from arranger.engine.context.entity import QueuedPod
from arranger.engine.context.phases import TRANSITIONS, Phase

Pair = tuple[str, str]

#: A pair that so few worlds in a hundred have entered is rare.
RARE = 10
#: By how much a feature gets likelier, at most, for the rare pairs that its worlds have entered.
BOOST = 2.0
#: Phases in which somebody waits for an answer, or for others: what happens then is of interest.
_UNDER_WAY = (Phase.RESERVED, Phase.WAITING, Phase.BINDING, Phase.UNKNOWN)
_LEGAL = sum(map(len, TRANSITIONS.values()))


class Coverage:
    """Counts the worlds that have entered each pair."""

    def __init__(self) -> None:
        self.worlds = 0
        self.entered: Counter[Pair] = Counter()
        self._features_of: dict[Pair, Counter[str]] = {}
        self._now: set[Pair] = set()

    @contextmanager
    def world(self, features: Iterable[str]) -> Iterator[None]:
        """What is entered meanwhile counts for a world with these features."""
        self._now = set()
        with _transitions_noted(self._now):
            yield
        self.worlds += 1
        for pair in self._now:
            self.entered[pair] += 1
            self._features_of.setdefault(pair, Counter()).update(features)

    def happens(self, what: str, scheduler: Scheduler | None) -> None:
        """Something happens while a scheduler leads, or while none does."""
        if scheduler is None:
            self._now.add((what, "no leader"))
            return
        phases = {member.phase for member in scheduler.engine.pods()}
        under_way = [phase for phase in _UNDER_WAY if phase in phases]
        for phase in under_way or (Phase.QUEUED,) if phases else ():
            self._now.add((what, phase.value))
        if not phases:
            self._now.add((what, "nothing waits"))

    def weights(self, shares: Mapping[str, float]) -> dict[str, float]:
        """Feature → how often it should be on in the next world."""
        most = self.worlds * RARE / 100
        rare = [pair for pair, times in self.entered.items() if times <= most]
        votes = dict.fromkeys(shares, 0.0)
        for pair in sorted(rare):
            for feature, share in shares.items():
                votes[feature] += self._features_of[pair][feature] / self.entered[pair] - share
        top = max(votes.values())
        if top <= 0:
            return dict(shares)
        return {
            name: min(0.95, share * (1 + (BOOST - 1) * max(0.0, votes[name] / top)))
            for name, share in shares.items()
        }

    def summary(self) -> list[str]:
        """What was entered, for people."""
        moves = sum(pair[0] in _NAMES for pair in self.entered)
        rarest = sorted(self.entered.items(), key=lambda each: (each[1], each[0]))[:8]
        shown = ", ".join(f"{a} → {b} ({times})" for (a, b), times in rarest)
        return [
            f"{moves} of {_LEGAL} transitions, {len(self.entered) - moves} pairs of an event and"
            f" a phase",
            f"rarest: {shown}",
        ]


_NAMES = {phase.value for phase in Phase}


@contextmanager
def _transitions_noted(pairs: set[Pair]) -> Iterator[None]:
    """Note each transition of any pod of any engine."""
    original = QueuedPod.transition

    def transition(self: QueuedPod, to: Phase) -> None:
        pairs.add((self.phase.value, to.value))
        original(self, to)

    QueuedPod.transition = transition  # type: ignore[method-assign]
    try:
        yield
    finally:
        QueuedPod.transition = original  # type: ignore[method-assign]
