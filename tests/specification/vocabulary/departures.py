"""Departures: pods that schedulers have made leave, why, and what was said of that."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from tests.specification.premises import Premises
from tests.specification.trace import NAMESPACES, NODES, QUEUES, Step, World
from tests.specification.vocabulary.manifests import (
    Object,
    has_started,
    is_given_notice,
    is_told_its_node_is_reserved,
    is_told_its_time_is_over,
    is_told_to_make_room,
    node_of,
    notes_of,
    seconds_in,
    seconds_run,
)
from tests.specification.vocabulary.queues import Standing, is_moved, job_of, run_time_limit
from tests.specification.vocabulary.reservations import RESERVATIONS, Reservation

_ASKS = "arranger.io/checkpoint-before-eviction"
_SAVED = "arranger.io/checkpointed-at"
#: Seconds of Go's longest duration: a longer one cannot be read.
_LONGEST = 2**63 / 1e9

Why = Literal["room", "time", "reservation"]


@dataclass(frozen=True, slots=True)
class Notice:
    """A pod was told that it will have to leave, and had asked for so many seconds.

    Attributes:
        saved: when it had saved its state the last time, as it says.
    """

    at: float
    asked: float
    saved: str


@dataclass(eq=False)
class Departure:
    """A scheduler begins to delete a pod.

    Attributes:
        victim: the pod as it was before.
        after: as it is now.
        notice: that it would have to leave, if it was given any.
        waited: those that waited lately and do not any more.
        is_of_a_part: whether its gang was never bound whole.
        is_after_a_restore: whether a backup was restored lately.
    """

    world: World
    premises: Premises
    victim: Object
    after: Object
    at: float
    notice: Notice | None
    waited: list[Object]
    is_of_a_part: bool
    is_after_a_restore: bool

    @cached_property
    def why(self) -> Why:
        """What it was told: that its ``time`` is over, or that it leaves for a ``reservation``."""
        if is_told_its_time_is_over(self.after):
            return "time"
        return "reservation" if is_told_its_node_is_reserved(self.after) else "room"

    @cached_property
    def is_told_why(self) -> bool:
        """Whether it was told before that it has to make room."""
        return is_told_to_make_room(self.victim)

    @cached_property
    def is_of_a_job(self) -> bool:
        """Whether it may be in a gang by its owner, which is not read here."""
        return job_of(self.world, self.victim) is not None

    @cached_property
    def is_of_a_queue(self) -> bool:
        """Whether it is known of which, or there are none."""
        return not (self.world.of(QUEUES) and is_moved(self.world, self.victim))

    @property
    def is_unclear(self) -> bool:
        """Whether that is not known, or the scheduler saw the world before a backup."""
        return self.is_after_a_restore or not self.is_of_a_queue

    # --- who may have its place --------------------------------------------------------------

    @cached_property
    def standing(self) -> Standing:
        """How the victim stands."""
        return Standing(self.world, self.premises, self.victim)

    def who_waits(self) -> Iterator[Standing]:
        """How those stand for whom our schedulers may have evicted it: who waits, or did lately."""
        for pod in (*self.world.waiting.values(), *self.waited):
            if pod["spec"].get("schedulerName") in self.premises.scheduler_names:
                yield Standing(self.world, self.premises, pod)

    # --- its time ----------------------------------------------------------------------------

    @cached_property
    def has_started(self) -> bool:
        """Whether its kubelet has begun to run it."""
        return has_started(self.victim)

    @property
    def ran(self) -> float | None:
        """Seconds that it had run; None where it had not started."""
        return seconds_run(self.after)

    @property
    def run_time(self) -> float | None:
        """Seconds that it may run; None for ever."""
        return run_time_limit(self.world, self.after)

    @property
    def is_over(self) -> bool:
        """Whether it has run as long as it may. Times of the API are whole seconds."""
        limit, ran = self.run_time, self.ran
        return limit is not None and ran is not None and ran >= limit - 1

    @property
    def when_it_ended(self) -> str:
        """How long it had run, and may, for a sentence."""
        if self.ran is None or self.run_time is None:
            return "for its run time, and has no limit or has not started"
        return f"after {self.ran:g} s, and has {self.run_time:g} s"

    @property
    def asked(self) -> float:
        """Seconds that it asks to have when it is told that it has to leave, or asked for then."""
        return time_asked(self.victim, self.premises) if self.notice is None else self.notice.asked

    @property
    def had(self) -> float:
        """How long before it was told, in seconds; without end where it was not."""
        return float("inf") if self.notice is None else self.at - self.notice.at

    @property
    def has_saved(self) -> bool:
        """Whether it has said since its notice that its state is saved."""
        return self.notice is not None and saved_at(self.victim) != self.notice.saved

    # --- its node ----------------------------------------------------------------------------

    @property
    def knows_reservations(self) -> bool:
        """Whether it must be known which Reservations have whom leave the node."""
        lately, node = self.at - self.premises.notice, self.world.get(NODES, node_of(self.victim))
        kinds = (RESERVATIONS, NODES, QUEUES, NAMESPACES)
        if self.premises.calendar is None or node is None:
            return False
        return not self.world.was_gone_since(lately, *kinds) and not any(
            when >= lately for (kind, _), (when, _) in self.world.changed.items() if kind in kinds
        )

    def reservations_of_its_node(self) -> Iterator[Reservation]:
        """Those that have its node at some time."""
        node = self.world.of(NODES)[node_of(self.victim)]
        there = (Reservation(self.world, each) for each in self.world.of(RESERVATIONS).values())
        return (each for each in there if each.has(node))

    def holds_or_did(self, reservation: Reservation) -> bool:
        """Whether the window of one is open, or was lately, as far as can be told."""
        assert self.premises.calendar is not None
        date, window = self.premises.calendar + self.at, reservation.window
        since, now = date - self.premises.notice, date + 1  # clocks of whole seconds
        return window is None or (window[0] <= now and since < window[1])


@dataclass(slots=True)
class Eviction:
    """A pod that has left to make room, and for whom as far as an Event has told it."""

    at: float
    victim: Object
    #: uids of those who waited then and might have its place. An Event may be written long after,
    #: when queues or the pods say otherwise.
    takers: frozenset[str] = frozenset()
    taker: Object | None = None


@dataclass(eq=False)
class Telling:
    """An Event about a pod that has left, which names another as the reason.

    Attributes:
        taker: the other, which waits or did.
    """

    world: World
    premises: Premises
    eviction: Eviction
    taker: Object

    @property
    def victim(self) -> Object:
        return self.eviction.victim

    @property
    def might_then(self) -> bool:
        """Whether the other waited when the pod left, and might have its place then."""
        return self.taker["metadata"]["uid"] in self.eviction.takers

    @property
    def standings(self) -> tuple[Standing, Standing]:
        """How the taker and the victim stand now."""
        both = self.taker, self.victim
        taker, victim = (Standing(self.world, self.premises, each) for each in both)
        return taker, victim


@dataclass(slots=True)
class NoticeBook:
    """The notices that stand, by the pods' uids."""

    premises: Premises
    _notices: dict[str, Notice] = field(default_factory=dict)

    def take(self, step: Step) -> None:
        """A pod is about to be as the step says."""
        pod, uid = step.after, step.after["metadata"].get("uid", "")
        if not is_given_notice(pod):
            if uid in self._notices and not step.begins_to_leave and step.kind != "DELETED":
                self.forget(uid)
        elif uid not in self._notices:
            asked = time_asked(pod, self.premises)
            self._notices[uid] = Notice(step.at, asked, saved_at(pod))

    def forget(self, uid: str) -> None:
        """A pod is gone, or was told that it stays."""
        self._notices.pop(uid, None)

    def of(self, pod: Object) -> Notice | None:
        """What a pod was told, if it was."""
        return self._notices.get(pod["metadata"].get("uid", ""))


def saved_at(pod: Object) -> str:
    """When a pod says to have saved its state the last time."""
    return notes_of(pod).get(_SAVED, "")


def time_asked(pod: Object, premises: Premises) -> float:
    """How long before it has to leave a pod asks to be told, in seconds."""
    asked = seconds_in(notes_of(pod).get(_ASKS, "")) or 0.0
    return 0.0 if asked > _LONGEST else min(asked, premises.max_checkpoint)
