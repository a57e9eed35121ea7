"""Objects that have made our own code raise: each is set aside alone, until it changes.

An object that meets a fault of ours must hurt nobody else. Whoever catches the exception puts its
own books right and notes the object here; what it says is not believed until it changes, or until
its next try is due. Whoever runs a process shows how many there are
(``arranger_quarantined_objects``).
"""

from __future__ import annotations

import heapq
import traceback
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Final

import structlog

import arranger
from arranger.api import event_reasons
from arranger.api.effects import ObjectReference, PublishEvent

log = structlog.get_logger(__name__)

#: Seconds until an object is tried again that has not changed, after its first fault and at most.
FIRST_RETRY: Final = 1.0
LAST_RETRY: Final = 300.0
#: Characters kept of what an exception says.
_MAX_ERROR: Final = 200
#: Innermost frames that are logged, for the first fault at a place.
_MAX_FRAMES: Final = 16
#: Entries of those to be tried that may be void before they are dropped, and one of each object.
_VOID_RETRIES: Final = 256
_PACKAGE: Final = Path(arranger.__file__).parent

#: Kind, namespace and name.
QuarantineKey = tuple[str, str, str]


class UnreadableError(Exception):
    """An object says what cannot be read; the message says where, and is about nothing else."""


@dataclass(frozen=True, slots=True)
class QuarantinedObject:
    """An object that has been set aside.

    Attributes:
        about: the object.
        error: the exception, for the log: its text may hold anything.
        place: the innermost frame of ours that it came through.
        message: what the object's owner is told: nothing that could be about others.
        faults: how many faults in a row it has met.
        is_news: whether its last fault was another than the one before.
        retry_at: when it is tried again even if it has not changed.
        retry: tries it again; None where only a change helps, or while it is being tried.
        content: what it was like: what the process writes to it itself does not count as a change.
    """

    about: ObjectReference
    error: str
    place: str
    message: str
    faults: int
    is_news: bool
    retry_at: float
    retry: Callable[[float], None] | None = field(repr=False)
    content: Hashable = field(default=None, repr=False)

    @property
    def key(self) -> QuarantineKey:
        """Which object it is."""
        return key_of(self.about)


def key_of(about: ObjectReference) -> QuarantineKey:
    """Which object is meant; one that is made anew under its name has the same key."""
    return about.kind, about.namespace, about.name


@dataclass(slots=True, eq=False)
class Quarantine:
    """The objects that have been set aside, and when each is tried again."""

    _objects: dict[QuarantineKey, QuarantinedObject] = field(default_factory=dict, init=False)
    #: (when, number, key) of what is to be tried again, the first first; it may be void by now.
    _retries: list[tuple[float, int, QuarantineKey]] = field(default_factory=list, init=False)
    _last_number: int = field(default=0, init=False)
    #: Where faults were logged with all their frames.
    _places: set[str] = field(default_factory=set, init=False)

    def __len__(self) -> int:
        return len(self._objects)

    def get(self, kind: str, namespace: str, name: str) -> QuarantinedObject | None:
        """An object that has been set aside; None if it has not."""
        return self._objects.get((kind, namespace, name))

    def __iter__(self) -> Iterator[QuarantinedObject]:
        return iter(self._objects.values())

    def add(
        self,
        about: ObjectReference,
        error: BaseException,
        now: float,
        retry: Callable[[float], None] | None = None,
        content: Hashable = None,
    ) -> QuarantinedObject:
        """Set an object aside that has made our code raise; logged once, and when that changes."""
        place, kind = place_of(error), type(error).__name__
        message = f"an internal error set this object aside until it changes: {kind} at {place}"
        if isinstance(error, UnreadableError):
            message = f"it cannot be read, and what was known of it holds on: {error}"
        text = f"{kind}: {error!s:.{_MAX_ERROR}}"
        found = self._set_aside(about, text, place, message, now, retry, content)
        if found.is_news:
            told = {**_names_of(about), "place": place, "error": found.error}
            if place not in self._places and not isinstance(error, UnreadableError):
                self._places.add(place)
                lines = traceback.format_exception(error, limit=-_MAX_FRAMES, chain=False)
                told["frames"] = "".join(lines)
            log.error("object.quarantined", **told)
        return found

    def add_undecodable(self, about: ObjectReference, why: str, now: float) -> QuarantinedObject:
        """Set an object aside that cannot be decoded; whoever reads it has logged why."""
        text = f"{why:.{_MAX_ERROR}}"
        message = f"set aside until it changes, as it cannot be decoded: {text}"
        return self._set_aside(about, text, "decoding", message, now)

    def _set_aside(
        self,
        about: ObjectReference,
        error: str,
        place: str,
        message: str,
        now: float,
        retry: Callable[[float], None] | None = None,
        content: Hashable = None,
    ) -> QuarantinedObject:
        before = self._objects.get(key_of(about))
        faults = before.faults + 1 if before is not None else 1
        found = QuarantinedObject(
            about=about,
            error=error,
            place=place,
            message=message,
            faults=faults,
            is_news=before is None or (before.about, before.place) != (about, place),
            retry_at=now + min(FIRST_RETRY * 2 ** min(faults - 1, 16), LAST_RETRY),
            retry=retry,
            content=content,
        )
        self._keep(found)
        return found

    def release(self, kind: str, namespace: str, name: str) -> bool:
        """An object has gone, or was taken in without a fault; whether it had been set aside."""
        if not self._objects:
            return False
        found = self._objects.pop((kind, namespace, name), None)
        if found is not None:
            log.info("object.released", **_names_of(found.about))
        return found is not None

    def count(self) -> Counter[str]:
        """How many objects of each kind there are."""
        return Counter(kind for kind, _, _ in self._objects)

    def retry_at(
        self, kind: str, namespace: str, name: str, at: float, retry: Callable[[float], None]
    ) -> None:
        """Try an object that has been set aside at another time, and in another way."""
        if (found := self._objects.get((kind, namespace, name))) is not None:
            self._keep(replace(found, retry_at=at, retry=retry))

    def drop_retries(self) -> None:
        """Whoever was to try objects again is gone: only a change helps."""
        self._objects = {key: _without_retry(found) for key, found in self._objects.items()}
        self._retries.clear()

    def take_due(self, now: float) -> list[QuarantinedObject]:
        """The objects that are to be tried again now; each once, unless it fails again."""
        due = []
        while (first := self.next_due()) is not None and first <= now:
            *_, key = heapq.heappop(self._retries)
            due.append(self._objects[key])
            self._objects[key] = _without_retry(due[-1])
        return due

    def next_due(self) -> float | None:
        """When :meth:`take_due` will have something to give."""
        retries = self._retries
        while retries and not self._is_due_then(retries[0]):
            heapq.heappop(retries)
        return retries[0][0] if retries else None

    def _keep(self, found: QuarantinedObject) -> None:
        self._objects[found.key] = found
        if found.retry is not None:
            self._last_number += 1
            heapq.heappush(self._retries, (found.retry_at, self._last_number, found.key))
            if len(self._retries) > 2 * len(self._objects) + _VOID_RETRIES:
                self._retries = sorted(filter(self._is_due_then, self._retries))

    def _is_due_then(self, entry: tuple[float, int, QuarantineKey]) -> bool:
        at, _, key = entry
        found = self._objects.get(key)
        return found is not None and found.retry is not None and found.retry_at == at


def quarantined_event(found: QuarantinedObject, controller: str = "arranger") -> PublishEvent:
    """What the owner of an object is told."""
    return PublishEvent(
        regarding=found.about,
        reason=event_reasons.QUARANTINED,
        action="Quarantine",
        note=found.message,
        type="Warning",
        controller=controller,
    )


def place_of(error: BaseException) -> str:
    """The innermost frame of ours that an exception came through."""
    for each in frames_of(error):
        code = each.tb_frame.f_code
        path = Path(code.co_filename)
        if path.is_relative_to(_PACKAGE):
            return f"{path.relative_to(_PACKAGE.parent)}:{each.tb_lineno} in {code.co_name}"
    return "unknown"


def frames_of(error: BaseException) -> list[TracebackType]:
    """The frames that an exception came through, the innermost first."""
    frames, each = [], error.__traceback__
    while each is not None:
        frames.append(each)
        each = each.tb_next
    return frames[::-1]


def _without_retry(found: QuarantinedObject) -> QuarantinedObject:
    return replace(found, is_news=False, retry_at=0.0, retry=None)


def _names_of(about: ObjectReference) -> dict[str, str]:
    return {
        "kind": about.kind,
        "namespace": about.namespace,
        "name": about.name,
        "uid": about.uid,
    }
