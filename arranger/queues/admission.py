"""Whether a PodGroup is let in: the cards it will want, against its queue's quota (seed 004).

The check of Volcano's enqueue action: ``volcano.sh/card.request`` of the PodGroup, beside what the
queue uses and what others that were let in still wait for, within the quota times
``overCommitFactor``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from arranger.api.podgroups import AnyPodGroup, VolcanoPodGroup
from arranger.api.queues import CARD_REQUEST, DEFAULT_QUEUE, Amounts, read_cards
from arranger.queues.ledger import QueueLedger


class Admission:
    """Lets PodGroups in, and remembers those that wait for their cards."""

    def __init__(self, ledger: QueueLedger, over_commit: float) -> None:
        self._ledger = ledger
        self._over_commit = over_commit
        #: PodGroup → the queue it was let into, and the cards it has asked for.
        self._inside: dict[str, tuple[str, Amounts]] = {}

    def refusal(self, groups: Iterable[AnyPodGroup]) -> str:
        """Why PodGroups that are placed together are not let in; "" if they are."""
        if not self._ledger.active:
            return ""
        asking = [group for group in groups if CARD_REQUEST in group.metadata.annotations]
        for group in asking:
            if group.name not in self._inside and (why := self._check(group)):
                return why
        for group in asking:
            self._inside[group.name] = _queue(group), _cards(group)
        return ""

    def placed(self, name: str) -> None:
        """The PodGroup has its cards, or is gone: they count by its pods from now on."""
        self._inside.pop(name, None)

    def _check(self, group: AnyPodGroup) -> str:
        queue = _queue(group)
        waiting: Counter[str] = Counter()
        for other, cards in self._inside.values():
            if other == queue:
                waiting.update(cards)
        for state in self._ledger.chain(queue):
            for card, n in _cards(group).items() if state.quota is not None else ():
                limit = int((state.quota or {}).get(card, 0) * self._over_commit)
                total = state.used[card] + waiting[card] + n
                if total > limit:
                    return (
                        f"Queue <{state.name}> has insufficient <{card}> quota: requested "
                        f"<{n * 1000}>, total would be <{total * 1000}>, but capability is "
                        f"<{limit * 1000}>"
                    )
        return ""


def _queue(group: AnyPodGroup) -> str:
    return (
        group.spec.queue or DEFAULT_QUEUE if isinstance(group, VolcanoPodGroup) else DEFAULT_QUEUE
    )


def _cards(group: AnyPodGroup) -> Amounts:
    try:
        return read_cards(group.metadata.annotations[CARD_REQUEST])
    except ValueError:
        return {}  # a check beforehand only: the pods are charged what they ask for
