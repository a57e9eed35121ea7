"""Whether a PodGroup may enter its queue: its card request against the quota.

The check of Volcano's enqueue action: ``volcano.sh/card.request`` of the PodGroup, beside what the
queue uses and what other admitted PodGroups still wait for, within the quota times
``overCommitFactor``. See docs/design/queues.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from arranger.api import event_reasons
from arranger.api.annotations import CARD_REQUEST
from arranger.api.queue_annotations import DEFAULT_QUEUE, parse_cards
from arranger.api.resource_requests import Amounts
from arranger.api.types.pod_groups import AnyPodGroup, VolcanoPodGroup
from arranger.quota.ledger import QuotaLedger


@dataclass(frozen=True, slots=True)
class PodGroupEvent:
    """The reason and the text of an event about a PodGroup."""

    group: AnyPodGroup
    reason: str
    text: str


@dataclass(slots=True)
class _CardReservation:
    """Cards kept for an admitted PodGroup, at least until ``expires`` (in seconds)."""

    group: AnyPodGroup
    queue: str
    cards: Amounts
    expires: float


class Admission:
    """Admits PodGroups, and keeps cards for those whose pods have not got them yet.

    Args:
        ledger: the queues and what they use.
        over_commit: how many times the quota may be admitted.
        timeout: seconds for which cards are kept for a PodGroup whose pods are not there.
    """

    def __init__(self, ledger: QuotaLedger, over_commit: float, timeout: float) -> None:
        self._ledger = ledger
        self._over_commit = over_commit
        self._timeout = timeout
        #: PodGroup → what is kept for it, in the order in which the reservations end.
        self._reservations: dict[str, _CardReservation] = {}
        #: PodGroup → the text of its last event.
        self._last_event: dict[str, str] = {}
        self._events: list[PodGroupEvent] = []

    def admit(self, groups: Sequence[AnyPodGroup], now: float) -> str:
        """Admit PodGroups that are placed together, all or none; the reason if not, else ""."""
        if not self._ledger.active:
            return ""
        asking = [
            group
            for group in groups
            if CARD_REQUEST in group.metadata.annotations and group.key not in self._reservations
        ]
        ends = now + self._timeout
        new = {
            group.key: _CardReservation(group, _queue_of(group), self._requested_cards(group), ends)
            for group in asking
        }
        for group in asking:
            if why := self._shortage(new[group.key], new):
                self._record_event(group, event_reasons.INSUFFICIENT_SCALAR_QUOTA, why)
                return why
        self._reservations |= new
        return ""

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

    def _shortage(self, claim: _CardReservation, together: dict[str, _CardReservation]) -> str:
        for state in self._ledger.path_self_to_root(claim.queue):
            if state.card_quota is None:
                continue
            waiting: Counter[str] = Counter()
            for other in [*self._reservations.values(), *together.values()]:
                if any(each is state for each in self._ledger.path_self_to_root(other.queue)):
                    waiting.update(other.cards)
            for card, n in claim.cards.items():
                # `A100|H100` asks for either: their quotas are added.
                names = [part.strip() for part in card.split("|")]
                quota = state.card_quota
                limit = sum(int(quota.get(name, 0) * self._over_commit) for name in names)
                total = sum(state.used[name] for name in names) + waiting[card]
                if total > limit:
                    return (
                        f"Queue <{state.name}> has insufficient <{card}> quota: requested "
                        f"<{n * 1000}>, total would be <{total * 1000}>, but capability is "
                        f"<{limit * 1000}>"
                    )
        return ""

    def _requested_cards(self, group: AnyPodGroup) -> Amounts:
        try:
            return parse_cards(group.metadata.annotations[CARD_REQUEST])
        except ValueError as error:
            # Not refused: this check is an early one, and the pods are charged what they request.
            queue = _queue_of(group)
            text = f"Get request resource failed, Queue <{queue}>, error: <{CARD_REQUEST}: {error}>"
            self._record_event(group, event_reasons.GET_TASK_REQUEST_RESOURCE_FAILED, text)
            return {}

    def _record_event(self, group: AnyPodGroup, reason: str, text: str) -> None:
        if self._last_event.get(group.key) != text:
            self._last_event[group.key] = text
            self._events.append(PodGroupEvent(group, reason, text))


def _queue_of(group: AnyPodGroup) -> str:
    stated = group.spec.queue if isinstance(group, VolcanoPodGroup) else ""
    return stated or DEFAULT_QUEUE
