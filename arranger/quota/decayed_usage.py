"""What queues have used lately: their use over time, of which half counts after a half-life.

In Kueue's words, admission fair sharing: ``usageHalfLifeTime``; Slurm does the same for accounts.
See ``docs/design/queues.md``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from arranger.quota.queue_spec import QueueQuota

#: Resource or card → amount, as of a queue's use.
Usage = dict[str, float]

#: Seconds between two looks at what queues use (Kueue's ``usageSamplingInterval``).
SAMPLING_INTERVAL: Final = 1.0
#: Queues that are gone whose use is remembered, lest it be forgotten by making a queue anew.
_MAX_GONE: Final = 256
_LN2: Final = math.log(2)


class QueueUses(Protocol):
    """Knows what queues use now."""

    @property
    def queues(self) -> Mapping[str, QueueQuota]:
        """All of them, by name."""

    def queue_quota(self, name: str) -> QueueQuota | None:
        """A queue; the default one need not have been made."""


def decayed_usage(uses: QueueUses, half_life: float | None, period: float) -> DecayedUsage | None:
    """What queues have used lately, where that counts: where there is a half-life."""
    return None if half_life is None else DecayedUsage(uses, half_life, period)


@dataclass(slots=True, eq=False)
class DecayedUsage:
    """Sums up what queues use, in amounts times seconds, and lets it decay.

    Args:
        uses: the ledger.
        half_life: after so many seconds half of what was used counts.
        period: what was used counts beside present use as if it had been used within so many
            seconds.
    """

    _uses: QueueUses
    half_life: float
    period: float
    #: Queue → amounts times seconds.
    _sums: dict[str, Usage] = field(default_factory=dict, init=False)
    #: What each queue used at the last look.
    _seen: Mapping[str, Mapping[str, float]] = field(default_factory=dict, init=False)
    _looked_at: float | None = field(default=None, init=False)
    #: Seconds before the first look in which what runs then is taken to have run.
    _gap: float = field(default=0.0, init=False)

    def restore(self, sums: Mapping[str, Mapping[str, float]], age: float) -> None:
        """Go on from what was recorded so many seconds ago.

        Meanwhile queues are taken to have used what they use at the first look.
        """
        age = min(max(0.0, age), 100 * self.half_life)
        kept = 0.5 ** (age / self.half_life)
        self._sums = {q: {r: n * kept for r, n in each.items()} for q, each in sums.items()}
        self._gap = age

    def advance(self, now: float) -> bool:
        """Sum up to ``now``, in the engine's clock; whether it was time for that."""
        before = self._looked_at
        if before is not None and now - before < SAMPLING_INTERVAL:
            return False
        seen: dict[str, Mapping[str, float]] = {
            state.name: dict(state.used) for state in self._states() if state.used
        }
        if before is None:
            self._add(seen, self._gap)
        else:
            self._decay(now - before)
            self._add(self._seen, now - before)
        self._seen, self._looked_at = seen, now
        self._forget_gone()
        return True

    def next_look(self) -> float:
        """When :meth:`advance` will look again, in the engine's clock."""
        return -math.inf if self._looked_at is None else self._looked_at + SAMPLING_INTERVAL

    def beside_present(self, queue: str) -> Mapping[str, float]:
        """What a queue has used, as amounts to be added to what it uses."""
        return {name: n / self.period for name, n in self._sums.get(queue, {}).items()}

    def mean(self, queue: str) -> Usage:
        """What a queue has used on average, later seconds counting for more."""
        return {name: n * _LN2 / self.half_life for name, n in self._sums.get(queue, {}).items()}

    @property
    def sums(self) -> Mapping[str, Usage]:
        """Queue → amounts times seconds, as of the last look."""
        return self._sums

    def _states(self) -> Iterator[QueueQuota]:
        queues = self._uses.queues
        yield from queues.values()
        default = self._uses.queue_quota("default")
        if default is not None and "default" not in queues:
            yield default

    def _decay(self, seconds: float) -> None:
        kept = 0.5 ** (seconds / self.half_life)
        for each in self._sums.values():
            for name in each:
                each[name] *= kept

    def _add(self, uses: Mapping[str, Mapping[str, float]], seconds: float) -> None:
        """Queues have used so much for so many seconds until now, of which a part has decayed."""
        counted = (1 - 0.5 ** (seconds / self.half_life)) * self.half_life / _LN2
        if not counted:
            return
        for queue, used in uses.items():
            sums = self._sums.setdefault(queue, {})
            for name, n in used.items():
                if n > 0:
                    sums[name] = sums.get(name, 0.0) + n * counted

    def _forget_gone(self) -> None:
        gone = self._sums.keys() - self._uses.queues.keys() - {"default"}
        if len(gone) > _MAX_GONE:
            for name in sorted(gone, key=lambda n: max(self._sums[n].values(), default=0))[
                : len(gone) - _MAX_GONE
            ]:
                del self._sums[name]
