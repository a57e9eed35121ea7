"""What one object makes our code raise reaches no other object.

An exception in a handler of an informer or in a reconcile concerns the object that it was about:
that one is quarantined, counted, told to its owner, and tried again; all others go on.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Generic

from arranger.api import event_reasons
from arranger.api.effects import ObjectReference, PublishEvent
from arranger.api.parsing.errors import ParseError
from arranger.api.quarantine import (
    Quarantine,
    QuarantinedObject,
    QuarantineKey,
    UnreadableError,
    key_of,
    quarantined_event,
)
from arranger.kube.client.metrics import NULL_METRICS, MetricsRecorder
from arranger.kube.watch.decoder import T, UndecodableObject

#: Who tells owners, in the Events.
_CONTROLLER: Final = "arranger-controllers"


class ObjectBarrier:
    """The quarantined objects of one process.

    Args:
        publish: tells owners.
        metrics: gets the gauge ``quarantined_objects`` {kind}.
    """

    def __init__(
        self,
        publish: Callable[[PublishEvent], None] = lambda _: None,
        metrics: MetricsRecorder = NULL_METRICS,
    ) -> None:
        self._publish = publish
        self._metrics = metrics
        #: Of each informer those that its handlers could not take in: several may watch a kind.
        self._unheard: list[Quarantine] = []
        #: Those that could not be reconciled.
        self._unreconciled = Quarantine()
        #: Object → how many of these hold it; and kind → objects.
        self._held: Counter[QuarantineKey] = Counter()
        self._of_kind: Counter[str] = Counter()

    def add_informer(self) -> Quarantine:
        """Another informer: what it sets aside is its own."""
        self._unheard.append(Quarantine())
        return self._unheard[-1]

    @property
    def unheard(self) -> list[QuarantinedObject]:
        """The objects that handlers of informers could not take in."""
        return [found for quarantine in self._unheard for found in quarantine]

    @property
    def unreconciled(self) -> Quarantine:
        """The objects whose reconcile has raised."""
        return self._unreconciled

    def on_unheard(
        self,
        quarantine: Quarantine,
        about: ObjectReference,
        error: Exception,
        retry: Callable[[], None] | None = None,
    ) -> None:
        """A handler raised about an object; ``retry`` has it heard again after a while."""
        loop = asyncio.get_running_loop()
        again = None if retry is None else lambda _: retry()
        found = self._add(quarantine, about, error, again)
        if retry is not None:
            loop.call_at(found.retry_at, self._retry_due)
        self._tell(found)

    def on_unreadable(self, quarantine: Quarantine, about: ObjectReference, why: str) -> None:
        """An object is not what its kind is."""
        self._tell(self._add(quarantine, about, UnreadableError(why)))

    def on_heard(self, quarantine: Quarantine, about: ObjectReference) -> None:
        """An object was taken in, or is gone."""
        self._release(quarantine, about)

    def on_reconcile_fault(self, about: ObjectReference, error: Exception) -> None:
        """A reconcile raised what it must not; it is tried again by its work queue."""
        self._tell(self._add(self._unreconciled, about, error))

    def on_refused(self, about: ObjectReference, why: str) -> None:
        """The server refuses what is written to an object, or for it, and will again."""
        self._publish(
            PublishEvent(
                regarding=about,
                reason=event_reasons.FAILED_STATUS,
                action="Reconcile",
                note=why,
                type="Warning",
                controller=_CONTROLLER,
            )
        )

    def on_reconciled(self, about: ObjectReference) -> None:
        """An object was reconciled."""
        self._release(self._unreconciled, about)

    def _add(
        self,
        quarantine: Quarantine,
        about: ObjectReference,
        error: Exception,
        retry: Callable[[float], None] | None = None,
    ) -> QuarantinedObject:
        if quarantine.get(*key_of(about)) is None:
            self._count(key_of(about), 1)
        return quarantine.add(about, error, asyncio.get_running_loop().time(), retry)

    def _release(self, quarantine: Quarantine, about: ObjectReference) -> None:
        if quarantine.release(*key_of(about)):
            self._count(key_of(about), -1)

    def _tell(self, found: QuarantinedObject) -> None:
        if found.is_news:
            self._publish(quarantined_event(found, _CONTROLLER))

    def _retry_due(self) -> None:
        now = asyncio.get_running_loop().time()
        for quarantine in self._unheard:
            for found in quarantine.take_due(now):
                if found.retry is not None:
                    found.retry(now)

    def _count(self, key: QuarantineKey, change: int) -> None:
        """One more or one less of several holds an object, which counts once."""
        before = bool(self._held[key])
        self._held[key] += change
        if not self._held[key]:
            del self._held[key]
        kind, after = key[0], key in self._held
        self._of_kind[kind] += after - before
        self._metrics.set_gauge("quarantined_objects", self._of_kind[kind], kind=kind)


@dataclass(eq=False)
class InformerFaults(Generic[T]):
    """Answers for the objects of one informer that make a handler raise.

    Args:
        about: names an object in Events.
        hear: tells the handlers of an object again.
    """

    barrier: ObjectBarrier
    api_version: str
    kind: str
    hear: Callable[[T], None]
    _quarantine: Quarantine = field(init=False)

    def __post_init__(self) -> None:
        self._quarantine = self.barrier.add_informer()

    def on_update_fault(self, obj: T, before: T | None, error: Exception) -> None:
        """The handlers go by the last state that they could take in."""
        if isinstance(error, ParseError):
            self.barrier.on_unreadable(self._quarantine, self._about(obj), str(error))
        else:
            again = partial(self._hear_again, obj)
            self.barrier.on_unheard(self._quarantine, self._about(obj), error, again)

    def on_delete_fault(self, obj: T, error: Exception) -> None:
        """What is gone cannot be told anything, and does not come again."""
        self.barrier.on_unheard(self._quarantine, self._about(obj), error)

    def on_undecodable(self, obj: UndecodableObject, *, known: bool) -> None:
        """The handlers go by its last state, if there is one."""
        self.barrier.on_unreadable(self._quarantine, self._about(obj), obj.error)

    def on_heard(self, obj: T) -> None:
        """All is well with an object."""
        if self._quarantine:
            self.barrier.on_heard(self._quarantine, self._about(obj))

    def on_gone(self, obj: T | UndecodableObject) -> None:
        """An object is gone."""
        if self._quarantine:
            self.barrier.on_heard(self._quarantine, self._about(obj))

    def _hear_again(self, obj: T) -> None:
        try:
            self.hear(obj)
        except Exception as error:
            self.on_update_fault(obj, None, error)
        else:
            self.on_heard(obj)

    def _about(self, obj: T | UndecodableObject) -> ObjectReference:
        meta = obj.metadata
        return ObjectReference(self.api_version, self.kind, meta.namespace, meta.name, meta.uid)
