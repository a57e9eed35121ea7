"""Asks the queues' quotas whether gangs may be tried, and writes the events about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from arranger.engine import pod_events
from arranger.engine.context import EngineContext
from arranger.gangs.group import GangGroup
from arranger.quota.admission import Admission


@dataclass(slots=True, eq=False)
class QuotaGate:
    """Admission of gang groups to their queues, with the events that it calls for."""

    _context: EngineContext
    _admission: Admission

    def admit(self, group: GangGroup, rank: Callable[[], tuple[Any, ...]]) -> str:
        """Why a complete group is not admitted yet; "" if it is.

        ``rank`` works out its place in the order of the queue.
        """
        # A gang that has had its minimum has its cards: they count by its pods.
        asking = [g.pod_group for g in group.gangs if g.pod_group and not g.satisfied]
        refusal = self._admission.admit(asking, rank, self._context.clock.now)
        self._publish_pending()
        return refusal

    def release(self, gang: str) -> bool:
        """A gang has its cards, or is gone; whether any were kept for it."""
        return self._admission.release(gang)

    def withdraw(self, gang: str) -> bool:
        """A PodGroup was edited, and is to be asked about again; whether any were kept for it."""
        return self._admission.withdraw(gang)

    def expire(self, now: float, has_minimum: Callable[[str], bool]) -> bool:
        """Give back what is kept for gangs whose pods have not come in time; whether any was.

        ``has_minimum`` says of a PodGroup whether its pods are there.
        """
        expired = self._admission.expire(now, has_minimum)
        if expired:
            self._publish_pending()
        return expired

    def next_expiry(self) -> float | None:
        """When :meth:`expire` will have something to look at."""
        return self._admission.next_expiry()

    def _publish_pending(self) -> None:
        for told in self._admission.take_events():
            event = pod_events.pod_group_event(told.group, told.reason, told.text)
            self._context.outbox.append(event)
