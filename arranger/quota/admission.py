"""Whether a PodGroup may enter its queue: its card request against the quota.

The check of Volcano's enqueue action: ``volcano.sh/card.request`` of the PodGroup, beside what the
queue uses and what other admitted PodGroups still wait for, within the quota times
``overCommitFactor``. See docs/design/queues.md.

It is asked at every attempt, and a PodGroup that comes later in the order of the queue takes
nothing from one that comes before. So who is admitted follows from what waits and runs now, and a
scheduler that starts admits the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from math import floor
from typing import Any, Final

from arranger.api import event_reasons
from arranger.api.annotations import CARD_REQUEST
from arranger.api.resource_requests import Amounts
from arranger.api.settings.queue_annotations import parse_cards
from arranger.api.types.pod_groups import AnyPodGroup
from arranger.quota.ledger import QuotaLedger
from arranger.quota.queue_spec import QueueQuota

#: Cards of which a request may be given any.
Cards = frozenset[str]

_NONE: Final = Counter[Cards]()
#: Of so many combinations of cards in a queue, and in a request, it is known how they share quotas:
#: tenants make them up.
_MAX_KINDS: Final = 4


@dataclass(frozen=True, slots=True)
class PodGroupEvent:
    """The reason and the text of an event about a PodGroup."""

    group: AnyPodGroup
    reason: str
    text: str


@dataclass(slots=True)
class _CardReservation:
    """Cards kept for an admitted PodGroup, at least until ``expires`` (in seconds).

    Attributes:
        rank: its place in the order of its queue, smallest first.
    """

    group: AnyPodGroup
    queue: str
    cards: Amounts
    rank: Any
    expires: float


def _nobody(_: str) -> Iterable[str]:
    return ()


class Admission:
    """Admits PodGroups, and keeps cards for those whose pods have not got them yet.

    Args:
        ledger: the queues and what they use.
        over_commit: how many times the quota may be admitted.
        timeout: seconds for which cards are kept for a PodGroup whose pods are not there.
        members_of: PodGroup → the uids of its pods; what these are charged is kept no more.
    """

    def __init__(
        self,
        ledger: QuotaLedger,
        over_commit: float,
        timeout: float,
        members_of: Callable[[str], Iterable[str]] = _nobody,
    ) -> None:
        self._ledger = ledger
        self._members_of = members_of
        self._over_commit = over_commit
        self._timeout = timeout
        #: PodGroup → what is kept for it, in the order in which the reservations end.
        self._reservations: dict[str, _CardReservation] = {}
        #: PodGroup → the text of its last event.
        self._last_event: dict[str, str] = {}
        self._events: list[PodGroupEvent] = []

    def admit(self, groups: Sequence[AnyPodGroup], rank: Callable[[], Any], now: float) -> str:
        """Admit PodGroups that are placed together, all or none; the reason if not, else "".

        ``rank`` works out their place in the order of the queue, smallest first. What was kept for
        them or for those behind them is kept no more where it does not fit any more.
        """
        if not self._ledger.active:
            return ""
        # Nothing is kept of a queue that a PodGroup may not use; its pods are told so.
        groups = [
            group
            for group in groups
            if CARD_REQUEST in group.metadata.annotations and self._ledger.queue_of_group(group)[1]
        ]
        if not groups:
            return ""
        place, asking = rank(), {}
        for group in groups:
            known = self._reservations.get(group.key)
            ends = now + self._timeout if known is None else known.expires
            cards, queue = self._requested_cards(group), self._ledger.queue_of_group(group)[0]
            asking[group.key] = _CardReservation(group, queue, cards, place, ends)
        shortages = self._shortages(self._reservations | asking)
        refused = next((key for key in asking if key in shortages), None)
        if refused is not None:
            for key in asking:
                self._reservations.pop(key, None)
            group, why = asking[refused].group, shortages[refused]
            self._record_event(group, event_reasons.INSUFFICIENT_SCALAR_QUOTA, why)
            return why
        self._reservations |= asking
        for key in shortages:
            del self._reservations[key]
        return ""

    def withdraw(self, name: str) -> bool:
        """Keep nothing for a PodGroup that was edited, until it is asked about again."""
        return self._reservations.pop(name, None) is not None

    def withdraw_unentitled(self) -> None:
        """Keep nothing for PodGroups in queues that they may not use any more."""
        for key, claim in list(self._reservations.items()):
            if not self._ledger.queue_of_group(claim.group)[1]:
                del self._reservations[key]

    def release(self, name: str) -> bool:
        """Keep no more cards for a PodGroup: its pods have theirs, or it was deleted.

        Returns whether it had been admitted.
        """
        self._last_event.pop(name, None)
        return self._reservations.pop(name, None) is not None

    def expire(self, now: float, complete: Callable[[str], bool]) -> bool:
        """End reservations whose pods have not arrived in time; returns whether any ended.

        ``complete`` says whether the pods of a PodGroup are there: then its reservation goes on.
        """
        expired = False
        while (ends := self.next_expiry()) is not None and ends <= now:
            name = next(iter(self._reservations))
            claim = self._reservations.pop(name)
            if complete(name):
                claim.expires = now + self._timeout
                self._reservations[name] = claim
                continue
            expired = True
            cards = ", ".join(f"{n} <{card}>" for card, n in claim.cards.items())
            text = (
                f"Queue <{claim.queue}> keeps no more {cards} for it: for {self._timeout:g}s its "
                "pods have not been there"
            )
            self._record_event(claim.group, event_reasons.CARD_REQUEST_TIMED_OUT, text)
        return expired

    def next_expiry(self) -> float | None:
        """When :meth:`expire` will have something to look at."""
        return next((claim.expires for claim in self._reservations.values()), None)

    def take_events(self) -> list[PodGroupEvent]:
        """The events since the last call."""
        news, self._events = self._events, []
        return news

    def _shortages(self, claims: dict[str, _CardReservation]) -> dict[str, str]:
        """Why some PodGroups do not fit beside those that come before them.

        First come those whose pods have cards already, whom others must not keep from the rest.
        """
        shortages: dict[str, str] = {}
        outstanding = {key: self._outstanding(claim) for key, claim in claims.items()}
        waiting: dict[str, Counter[Cards]] = {}

        def place(key: str) -> tuple[Any, ...]:
            claim = claims[key]
            quota = self._ledger.queue_quota(claim.queue)
            begun = outstanding[key] != claim.cards
            return not begun, -quota.priority if quota is not None else 0, claim.rank

        for key in sorted(claims, key=place):
            claim, cards = claims[key], outstanding[key]
            path = list(self._ledger.path_self_to_root(claim.queue))
            if cards == claim.cards:
                counts = [(quota, waiting.get(quota.name, _NONE)) for quota in path]
                why = next(filter(None, (self._shortage(cards, *each) for each in counts)), "")
                if why:
                    shortages[key] = why
                    continue
            for quota in path:
                if quota.card_quota is not None:
                    asked = _by_cards(cards, quota.card_quota)
                    waiting.setdefault(quota.name, Counter()).update(asked)
        return shortages

    def _shortage(self, cards: Amounts, queue: QueueQuota, waiting: Counter[Cards]) -> str:
        """Why a request does not fit beside others; "" if it does.

        Whoever asks for either of some cards uses the quotas of these only: they, and all others
        who ask for none but these, must fit into these together.
        """
        quota = queue.card_quota
        if quota is None:
            return ""
        asking = _Asking(queue, self._over_commit, waiting, _by_cards(cards, quota))
        for card in cards:
            own = _names(card).intersection(quota)
            for wide in asking.wider(own):
                total, limit = asking.total(own, wide), asking.limit(wide)
                if total > limit:
                    return (
                        f"Queue <{queue.name}> has insufficient <{card}> quota: requested "
                        f"<{cards[card] * 1000}>, total would be <{total * 1000}>, but capability "
                        f"is <{limit * 1000}>"
                    )
        return ""

    def _outstanding(self, claim: _CardReservation) -> Amounts:
        """What a PodGroup's pods are still to get of its cards."""
        charged: Counter[str] = Counter()
        for uid in self._members_of(claim.group.key):
            charge = self._ledger.charge_of(uid)
            charged.update({} if charge is None else charge.amounts)
        return {
            card: max(0, n - sum(charged[name] for name in _names(card)))
            for card, n in claim.cards.items()
        }

    def _requested_cards(self, group: AnyPodGroup) -> Amounts:
        try:
            return parse_cards(group.metadata.annotations[CARD_REQUEST])
        except ValueError as error:
            # Not refused: this check is an early one, and the pods are charged what they request.
            queue, _ = self._ledger.queue_of_group(group)
            text = f"Get request resource failed, Queue <{queue}>, error: <{CARD_REQUEST}: {error}>"
            self._record_event(group, event_reasons.GET_TASK_REQUEST_RESOURCE_FAILED, text)
            return {}

    def _record_event(self, group: AnyPodGroup, reason: str, text: str) -> None:
        if self._last_event.get(group.key) != text:
            self._last_event[group.key] = text
            self._events.append(PodGroupEvent(group, reason, text))


def _names(card: str) -> Cards:
    """The cards that a request names: `A100|H100` asks for either, and their quotas are added."""
    return frozenset(part.strip() for part in card.split("|"))


def _by_cards(cards: Amounts, quota: Amounts) -> Counter[Cards]:
    """How many are asked for by which of the cards that a quota has they may be."""
    asked = Counter[Cards]()
    for card, n in cards.items():
        asked[_names(card).intersection(quota)] += n
    return asked


class _Asking:
    """One request beside what others wait for, in one queue."""

    def __init__(
        self, queue: QueueQuota, over_commit: float, waiting: Counter[Cards], mine: Counter[Cards]
    ) -> None:
        assert queue.card_quota is not None, "without a quota everything fits"
        self._used, self._waiting, self._mine = queue.used, waiting, mine
        self._limits = {name: floor(n * over_commit) for name, n in queue.card_quota.items()}
        first = (*islice(waiting, _MAX_KINDS), *islice(mine, _MAX_KINDS))
        self._known = [each for each in dict.fromkeys(first) if each]
        self._seen: set[Cards] = set()

    def limit(self, cards: Cards) -> int:
        """How many of any of these may be let in."""
        return sum(self._limits[name] for name in cards)

    def total(self, own: Cards, wide: Cards) -> int:
        """How many of these would be used or let in that can be no others.

        What is used of one card beyond its quota, or waits for it in vain, takes nothing of others.
        """
        alone = own == wide and len(own) == 1
        used = (self._used[n] if alone else min(self._used[n], self._limits[n]) for n in wide)
        others = (
            min(self._count(each), self._left(each))
            for each in self._known
            if each != own and each <= wide
        )
        return sum(used) + self._count(own) + sum(others)

    def wider(self, own: Cards) -> Iterator[Cards]:
        """The cards of a request, and the same with those of one other that may use some of them,
        and with those of all that it may push aside; nothing if they were asked about before."""
        if own in self._seen:
            return
        self._seen.add(own)
        yield own
        if len(self._seen) > _MAX_KINDS:
            return
        others = [each for each in self._known if not each <= own]
        for each in others:
            if not own.isdisjoint(each):
                yield own | each
        grown = own
        while more := [each for each in others if not grown.isdisjoint(each) and not each <= grown]:
            grown = grown.union(*more)
        if grown != own:
            yield grown

    def _count(self, cards: Cards) -> int:
        return self._waiting[cards] + self._mine[cards]

    def _left(self, cards: Cards) -> int:
        return sum(max(0, self._limits[name] - self._used[name]) for name in cards)
