"""History: what has happened so far and is not to be seen of the objects as they are."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace

from tests.specification.premises import Premises
from tests.specification.trace import LEASES, PODS, SOMEBODY, Step, World
from tests.specification.vocabulary.departures import Eviction, NoticeBook
from tests.specification.vocabulary.gangs import GangBook
from tests.specification.vocabulary.manifests import (
    Object,
    is_told_to_make_room,
    node_of,
    priority_of,
)
from tests.specification.vocabulary.queues import named_queue

EVENTS = "events.k8s.io/events"
#: What a step by one of our schedulers is called where the trace does not say which.
ONE_OF_OURS = "(a scheduler)"
#: Seconds within which an Event tells for whom a pod was evicted.
_TOLD_WITHIN = 600.0


@dataclass(slots=True)
class History:
    """What has happened so far.

    Attributes:
        leader: who holds the Lease, "" for nobody; None where others have written it.
        gangs: since when which are in pieces.
        notices: who was told that it will have to leave.
        evictions: victim's uid → its eviction, until the taker has a node or is gone.
        waited: (when, pod) of those that wait no more.
        upheavals: (when, priority) of what may have taken a taker's room: a pod that came, or more
            than any priority for all else that changes where pods may be.
    """

    premises: Premises
    leader: str | None = None
    gangs: GangBook = field(init=False)
    notices: NoticeBook = field(init=False)
    evictions: dict[str, Eviction] = field(default_factory=dict)
    waited: deque[tuple[float, Object]] = field(default_factory=lambda: deque(maxlen=1000))
    upheavals: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=5000))
    _told: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.gangs, self.notices = GangBook(self.premises), NoticeBook(self.premises)

    def is_ours(self, step: Step) -> bool:
        """Whether one of our schedulers has written."""
        return step.writer == ONE_OF_OURS or step.writer in self.premises.schedulers

    def is_for_us(self, pod: Object) -> bool:
        """Whether a pod is to be placed by our schedulers."""
        return pod.get("spec", {}).get("schedulerName") in self.premises.scheduler_names

    def with_writer(self, step: Step) -> Step:
        """The step with a writer; where nobody has recorded any, by what only we write."""
        if step.writer is not None:
            return step
        if step.resource != PODS:
            return replace(step, writer=SOMEBODY)
        told = self._told.get(step.after["metadata"].get("uid", ""), float("-inf"))
        evicts = step.begins_to_leave and step.at - told < self.premises.notice
        mine = self.is_for_us(step.after) and (step.is_bind or evicts)
        return replace(step, writer=ONE_OF_OURS if mine else SOMEBODY)

    def hears(self, step: Step) -> None:
        """A step is about to be judged: who leads, and who is told that it has to leave."""
        if step.resource == PODS:
            if is_told_to_make_room(step.after):
                self._told.setdefault(step.after["metadata"]["uid"], step.at)
            self.notices.take(step)
        elif step.resource == LEASES:
            holder = (step.after.get("spec") or {}).get("holderIdentity") or ""
            ours = step.kind != "DELETED" and step.writer in self.premises.schedulers
            self.leader = holder if ours and holder in ("", step.writer) else None

    def waited_since(self, when: float) -> list[Object]:
        """Those that waited then or later, and do not any more."""
        return [pod for at, pod in self.waited if at >= when]

    def find_waiting(self, world: World, uid: str) -> Object | None:
        """A pod that waits, or did."""
        if (found := world.waiting.get(uid)) is not None:
            return found
        known = (pod for _, pod in self.waited)
        return next((pod for pod in known if pod["metadata"]["uid"] == uid), None)

    def happened(self, world: World, step: Step) -> None:
        """A step has been judged, which the world is about to take."""
        ours, uid = self.is_ours(step), step.after["metadata"].get("uid", "")
        if step.resource == PODS:
            if step.kind == "DELETED":
                world.named_first.pop(uid, None)
            elif node_of(step.after) and uid not in world.named_first:
                world.named_first[uid] = named_queue(world, step.after)
            waited = world.waiting.get(uid)
            if waited is not None and (step.is_bind or step.begins_to_leave):
                self.waited.append((step.at, waited))
            if step.kind == "DELETED":
                self._told.pop(uid, None)
                self.notices.forget(uid)
            elif step.before is None or (step.is_bind and not ours):
                self.upheavals.append((step.at, priority_of(step.after)))
            elif step.before["spec"] != step.after["spec"] and not step.is_bind:
                self.upheavals.append((step.at, float("inf")))
        elif not (ours or step.resource in (EVENTS, LEASES) or step.resource.endswith("gangs")):
            self.upheavals.append((step.at, float("inf")))

    def forget_evictions(self, world: World, now: float) -> None:
        """Those whose takers have a node or are gone, and old ones of which no Event has told."""
        self.evictions = {
            uid: each
            for uid, each in self.evictions.items()
            if (each.taker is None and now - each.at < _TOLD_WITHIN)
            or (each.taker is not None and each.taker["metadata"]["uid"] in world.waiting)
        }
