"""How long an entity waits whose attempt broke off, or found no node."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from arranger.engine.context.entity import QueuedEntity

#: A gang that is bound in part is tried so often without a back-off.
_URGENT_ATTEMPTS: Final = 4
#: Seconds within which back-offs end together; less where they are shorter.
_BACKOFF_WINDOW: Final = 1.0


@dataclass(frozen=True, slots=True)
class SchedulingQueueConfig:
    """Times in seconds.

    Attributes:
        initial_backoff, max_backoff: wait after the first attempt that broke off, doubling up to
            the max.
        flush_after: the longest an unschedulable entity waits without being tried.
        questions_at_once: of how many that wait it is asked at once whether an event may help.
        asked_with_event: up to how many are asked when the event is noticed; if more wait, before
            the next attempt.
    """

    initial_backoff: float = 1.0
    max_backoff: float = 10.0
    flush_after: float = 300.0
    questions_at_once: int = 512
    asked_with_event: int = 16

    def backoff_ends(self, entity: QueuedEntity, *, yields: bool = False) -> float:
        """When an entity may be tried again; one that ``yields`` waits at least for a moment."""
        broken = max(entity.broken_attempts, int(yields and entity.attempts > 0))
        # Others must not take the nodes that a gang bound in part needs.
        if broken < (_URGENT_ATTEMPTS if entity.urgent else 1):
            return entity.last_attempt
        # 2**62 is far beyond any maximum; a larger shift would only build a huge integer.
        grown = self.initial_backoff * 2.0 ** min(broken - 1, 62)
        window = min(_BACKOFF_WINDOW, self.initial_backoff)
        return (entity.last_attempt + min(grown, self.max_backoff)) // window * window


def retry_times(entity: QueuedEntity) -> Iterator[float]:
    """When an attempt may come to more than the last one although nothing happens.

    At the first time nodes are kept for it, at the others it may evict.
    """
    yield from (entity.starves_at, entity.evict_after, entity.plan_again_at)
    for member in entity.members.values():
        if member.refused_nominations:
            yield member.refused_nominations.next_end(entity.last_attempt)
