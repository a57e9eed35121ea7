"""Asks the queues' quotas whether gangs may be tried, and writes the events about it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from arranger.api.types.pod_groups import AnyPodGroup
from arranger.cluster.pod_info import PodInfo
from arranger.engine.context import pod_events
from arranger.engine.context.engine_context import EngineContext
from arranger.gangs.group import GangGroup
from arranger.quota.admission import Admission
from arranger.quota.min_resources_admission import MinResourcesAdmission, Refusal


@dataclass(slots=True, eq=False)
class QuotaGate:
    """Admission of gang groups to their queues, with the events that it calls for."""

    _context: EngineContext
    _admission: Admission
    _min_resources: MinResourcesAdmission

    def admit(
        self, group: GangGroup, rank: Callable[[], tuple[Any, ...]], takers: Sequence[PodInfo]
    ) -> Refusal | None:
        """Why a complete group is not admitted yet; None if it is.

        ``rank`` works out its place in the order of the queue; ``takers`` are some of its pods.
        """
        # A gang that has had its minimum has its cards: they count by its pods.
        asking = [g.pod_group for g in group.gangs if g.pod_group and not g.satisfied]
        if not asking:
            return None
        now = self._context.clock.now
        refusal = self._min_resources.admit(asking, takers)
        if refusal is None and (why := self._admission.admit(asking, rank, now)):
            refusal = Refusal(why, frozenset())
        self._publish_pending()
        return refusal

    def watch(self, group: AnyPodGroup) -> None:
        """A PodGroup was added or edited."""
        self._min_resources.watch(group)

    def on_satisfied(self, gang: str) -> None:
        """A gang has its minimum: its cards count by its pods."""
        self._admission.release(gang)

    def withdraw_unentitled(self) -> None:
        """Queues say otherwise who may use them: nothing is kept for who may not."""
        self._admission.withdraw_unentitled()

    def release(self, gang: str) -> bool:
        """A gang is gone; whether anything was kept for it."""
        kept = self._min_resources.forget(gang)
        return self._admission.release(gang) or kept

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
