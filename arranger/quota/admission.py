"""Whether a PodGroup is let in: the cards it will want, against its queue's quota (seed 004).

The check of Volcano's enqueue action: ``volcano.sh/card.request`` of the PodGroup, beside what the
queue uses and what others that were let in still wait for, within the quota times
``overCommitFactor``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from arranger.api.types.pod_groups import AnyPodGroup, VolcanoPodGroup
from arranger.api.types.queue import CARD_REQUEST, DEFAULT_QUEUE, Amounts, read_cards
from arranger.quota.ledger import QueueLedger


@dataclass(frozen=True, slots=True)
class Word:
    """What the owner of a PodGroup is to be told: an event's reason and text."""

    group: AnyPodGroup
    reason: str
    text: str


@dataclass(slots=True)
class _Claim:
    """Cards kept for a PodGroup that has been let into a queue, at least until ``ends``."""

    group: AnyPodGroup
    queue: str
    cards: Amounts
    ends: float


class Admission:
    """Lets PodGroups in, and remembers those that wait for their cards.

    Args:
        timeout: seconds for which cards are kept for a PodGroup whose pods are not there.
    """

    def __init__(self, ledger: QueueLedger, over_commit: float, timeout: float) -> None:
        self._ledger = ledger
        self._over_commit = over_commit
        self._timeout = timeout
        #: PodGroup → what is kept for it, in the order in which the claims end.
        self._inside: dict[str, _Claim] = {}
        #: PodGroup → what was said of it last.
        self._said: dict[str, str] = {}
        self._news: list[Word] = []

    def refusal(self, groups: Sequence[AnyPodGroup], now: float) -> str:
        """Why PodGroups that are placed together are not let in; "" if they are."""
        if not self._ledger.active:
            return ""
        asking = [
            group
            for group in groups
            if CARD_REQUEST in group.metadata.annotations and group.name not in self._inside
        ]
        ends = now + self._timeout
        new = {
            group.name: _Claim(group, _queue(group), self._cards(group), ends) for group in asking
        }
        for group in asking:
            if why := self._short(new[group.name], new):
                self._tell(group, "InsufficientScalarQuota", why)
                return why
        self._inside |= new
        return ""

    def placed(self, name: str) -> bool:
        """The PodGroup has its cards, or is gone: they count by its pods from now on.

        Returns whether it had been let in.
        """
        self._said.pop(name, None)
        return self._inside.pop(name, None) is not None

    def expire(self, now: float, complete: Callable[[str], bool]) -> bool:
        """Give back what is kept for PodGroups whose pods have not come for long; whether any.

        ``complete`` says of which they are there: these keep it.
        """
        expired = False
        while (ends := self.next_end()) is not None and ends <= now:
            name = next(iter(self._inside))
            claim = self._inside.pop(name)
            if complete(name):
                claim.ends = now + self._timeout
                self._inside[name] = claim
                continue
            expired = True
            cards = ", ".join(f"{n} <{card}>" for card, n in claim.cards.items())
            text = (
                f"Queue <{claim.queue}> keeps no more {cards} for it: for {self._timeout:g}s its "
                "pods have not been there"
            )
            self._tell(claim.group, "CardRequestTimedOut", text)
        return expired

    def next_end(self) -> float | None:
        """When :meth:`expire` will have something to look at."""
        return next((claim.ends for claim in self._inside.values()), None)

    def news(self) -> list[Word]:
        """What is to be told since the last call."""
        news, self._news = self._news, []
        return news

    def _short(self, claim: _Claim, together: dict[str, _Claim]) -> str:
        for state in self._ledger.chain(claim.queue):
            if state.quota is None:
                continue
            waiting: Counter[str] = Counter()
            for other in [*self._inside.values(), *together.values()]:
                if any(each is state for each in self._ledger.chain(other.queue)):
                    waiting.update(other.cards)
            for card, n in claim.cards.items():
                # Of several cards that would do, any may be had.
                names = [part.strip() for part in card.split("|")]
                limit = sum(int(state.quota.get(name, 0) * self._over_commit) for name in names)
                total = sum(state.used[name] for name in names) + waiting[card]
                if total > limit:
                    return (
                        f"Queue <{state.name}> has insufficient <{card}> quota: requested "
                        f"<{n * 1000}>, total would be <{total * 1000}>, but capability is "
                        f"<{limit * 1000}>"
                    )
        return ""

    def _cards(self, group: AnyPodGroup) -> Amounts:
        try:
            return read_cards(group.metadata.annotations[CARD_REQUEST])
        except ValueError as error:
            # A check beforehand only: the pods are charged what they ask for.
            queue = _queue(group)
            text = f"Get request resource failed, Queue <{queue}>, error: <{CARD_REQUEST}: {error}>"
            self._tell(group, "GetTaskRequestResourceFailed", text)
            return {}

    def _tell(self, group: AnyPodGroup, reason: str, text: str) -> None:
        if self._said.get(group.name) != text:
            self._said[group.name] = text
            self._news.append(Word(group, reason, text))


def _queue(group: AnyPodGroup) -> str:
    return (
        group.spec.queue or DEFAULT_QUEUE if isinstance(group, VolcanoPodGroup) else DEFAULT_QUEUE
    )
