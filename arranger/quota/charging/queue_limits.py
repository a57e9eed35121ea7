"""The limits that count for what somebody would be charged."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass

from arranger.api.resource_requests import Amounts
from arranger.quota.card_column import CardColumn
from arranger.quota.charging.charges import ChargedLimit
from arranger.quota.guarantees import Guarantees
from arranger.quota.queue_spec import QueueQuota


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """Lists the limits of a queue and of those above it, and what guarantees of others leave.

    Attributes:
        _path_of: a queue and those above it.
        _quota_of: a queue by its name.
    """

    _path_of: Callable[[str], Iterable[QueueQuota]]
    _quota_of: Callable[[str], QueueQuota | None]
    _guarantees: Guarantees
    _card_column: CardColumn

    def of(
        self, queue: str, demand: Amounts, of_cards: Collection[str], exempt: Collection[str]
    ) -> Iterator[ChargedLimit]:
        """The limits for so much in a queue.

        Args:
            of_cards: those of what is asked for that are cards.
            exempt: resources whose limits do not count.
        """
        for state in self._path_of(queue):
            for name, n in demand.items():
                if name not in of_cards:
                    limit = None if name in exempt else state.capability.get(name)
                else:
                    limit = None if state.card_quota is None else state.card_quota.get(name, 0)
                if limit is not None:
                    key, used = (state.name, name), state.used[name]
                    yield ChargedLimit(key, state.name, name, n, used, limit)
        for name in self._guarantees.resources & demand.keys() - set(exempt):
            total = self._card_column.resource_totals()
            if name not in total:
                total = self._card_column.totals()
            for key, part, room, slack in self._guarantees.limits(queue, name, total):
                quota = self._quota_of(part)
                used = 0 if quota is None else quota.used[name]
                yield ChargedLimit(key, part, name, demand[name], used, used + room, slack, True)
