"""Sets objects other than pods aside when it is they that make our code raise, not the pods.

Who is to blame is decided by :mod:`~arranger.engine.faults.suspicions`. An object that is set aside
does not count until it changes, or for a while that doubles; then it counts again, and is watched
for as long.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeVar

from arranger.api.quarantine import FIRST_RETRY, QuarantineKey, UnreadableError
from arranger.api.types.resource_claims import ResourceClaim
from arranger.api.types.workloads import Owner, Workload
from arranger.cluster.nodes.node_table import NodeTable
from arranger.engine.faults.fault_notes import FaultNotes
from arranger.engine.faults.held_by_objects import HeldByObjects
from arranger.engine.faults.known_objects import KnownObjects
from arranger.engine.faults.states import stand_in, succeeds
from arranger.engine.faults.suspicions import MAX_CONVICTED, Suspicions
from arranger.engine.handlers.watched_kinds import WatchedKind

T = TypeVar("T")

#: Nodes that may be set aside at once, however few there are; and of many every so many.
_FEW_NODES: Final = 2
_NODES_PER_CONVICTED: Final = 10
#: Seconds that an object which counts again is watched at least.
_MIN_WATCHED: Final = 60.0


@dataclass(slots=True, eq=False)
class ObjectTrials:
    """Finds objects guilty, sets them aside, and lets them count again.

    Args:
        hurry: has a pod tried soon that waits for its back-off to end.
    """

    _notes: FaultNotes
    _known: KnownObjects
    _held: HeldByObjects
    _table: NodeTable
    _hurry: Callable[[QuarantineKey], None]
    _suspicions: Suspicions = field(init=False)
    #: Objects that count again, and until when they are watched.
    _watched: dict[QuarantineKey, float] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._suspicions = Suspicions(self._most)

    def __bool__(self) -> bool:
        return bool(self._suspicions)

    def on_fault(self, accusers: Sequence[QuarantineKey], error: Exception, now: float) -> None:
        """Our code has raised about these; perhaps it is something else that is to blame."""
        if isinstance(error, UnreadableError):
            return
        objects = [key for key in self._known.accused(error) if key not in accusers]
        verdict = self._suspicions.on_fault(accusers, objects)
        if verdict.convicted is not None and self._set_aside(verdict.convicted, error, now):
            for key in verdict.released:
                self._try_again(key, now)
        self._acquit(verdict.acquitted, now)

    def on_update_fault(
        self,
        kind: WatchedKind[T],
        obj: T,
        before: T | None,
        error: Exception,
        now: float,
        retry: Callable[[float], None],
    ) -> None:
        """A handler raised about an object: its last state, ``before``, counts meanwhile.

        But of a claim that holds devices what it holds now: others may have given it these. Of the
        last state of an owner no more than its name is given; its handlers have kept what counts.
        """
        self._notes.note(kind, obj, error, now, retry)
        key = kind.key_of(obj.metadata)  # type: ignore[attr-defined]
        if isinstance(obj, Owner | Workload):
            if before is None:
                self._keep(kind, obj, now)
            self.on_fault([key], error, now)
            return
        states = [before, stand_in(obj)]
        if isinstance(obj, ResourceClaim):
            states.reverse()
        if states[0] is None:
            succeeds(kind.deleted, obj, now)
        for other in states:
            if other is not None:
                if succeeds(kind.updated, other, now):
                    break
                succeeds(kind.deleted, obj, now)
        else:
            self._held.keep(kind, obj)
        self.on_fault([key], error, now)

    def on_passed(self, accuser: QuarantineKey, node: str, now: float, *, placed: bool) -> None:
        """An attempt for a pod did not raise; perhaps the pod got this node, or another place."""
        self._acquit(self._suspicions.on_passed(accuser, placed=placed), now)
        if node:
            self._clear(("Node", "", node))

    def convict(self, error: Exception, now: float) -> bool:
        """Set the innermost object aside that our code was busy with; whether there is one."""
        return any(self._set_aside(key, error, now) for key in self._known.accused(error)[:1])

    def replace(self, kind: WatchedKind[T], obj: T, now: float) -> None:
        """An object does not count: something stands in for it, where anything does."""
        other = stand_in(obj)
        if other is None or not succeeds(kind.updated, other, now):
            self._keep(kind, obj, now)

    def on_unknown(self, kind: WatchedKind[T], obj: Any) -> None:
        """Of an object no more is known than its metadata."""
        self._held.on_unknown(kind, obj)

    def end(self, kind: WatchedKind[T], obj: Any) -> None:
        """An object counts again, or is gone: nothing stands in for it."""
        self._held.end(kind, obj)

    def end_watch(self, key: QuarantineKey) -> None:
        """An object is gone, and not of all books yet: it is not to be found innocent."""
        self._suspicions.forget(key)
        self._watched.pop(key, None)

    def advance(self, now: float) -> None:
        """Clear those that have been watched for long enough, and those that have changed."""
        # Not everybody who is watched was convicted by suspicions: see convict.
        for key in dict.fromkeys((*self._suspicions.convicted(), *self._watched)):
            due = self._watched.get(key, math.inf) <= now
            if due or self._notes.quarantine.get(*key) is None:
                self._clear(key)

    def next_due(self) -> float | None:
        """When :meth:`advance` will have something to do."""
        return min(self._watched.values(), default=None)

    # --- inside ----------------------------------------------------------------------------

    def _most(self, kind: str) -> int:
        if kind != "Node":
            return MAX_CONVICTED
        return max(_FEW_NODES, self._table.count // _NODES_PER_CONVICTED)

    def _clear(self, key: QuarantineKey) -> None:
        """An object that counts has done no harm."""
        self._suspicions.forget(key)
        if self._watched.pop(key, None) is not None:
            self._notes.quarantine.release(*key)

    def _acquit(self, keys: Sequence[QuarantineKey], now: float) -> None:
        for key in keys:
            found = self._notes.quarantine.get(*key)
            if found is not None and found.retry is not None:
                self._notes.quarantine.release(*key)
                found.retry(now)
            self._clear(key)

    def _set_aside(self, key: QuarantineKey, error: Exception, now: float) -> bool:
        found = self._known.find(key)
        if found is None:
            self._suspicions.forget(key)
            return False
        kind, obj = found
        if self._held.gives_up(obj):
            return True
        noted = self._notes.quarantine.get(*key)
        if noted is not None and noted.retry is not None:  # this is only what stands in for it
            may_go = stand_in(obj) is None or self._held.keeps(obj)
            return may_go and self._keep(kind, obj, now)
        self._watched.pop(key, None)
        self._notes.note(kind, obj, error, now, partial(self._count_again, kind, obj, now))
        succeeds(kind.deleted, obj, now)
        self.replace(kind, obj, now)
        return True

    def _keep(self, kind: WatchedKind[Any], obj: Any, now: float) -> bool:
        """No state of an object counts, and what it keeps is kept; whether it is gone for sure."""
        gone = succeeds(kind.deleted, obj, now)
        self._held.keep(kind, obj)
        return gone

    def _count_again(self, kind: WatchedKind[Any], obj: Any, since: float, now: float) -> None:
        key = kind.key_of(obj.metadata)
        self._watched[key] = now + max(_MIN_WATCHED, FIRST_RETRY, 2 * (now - since))
        self._held.end(kind, obj)
        try:
            kind.updated(obj, now)
        except Exception as error:
            self._held.keep(kind, obj)
            if not self._set_aside(key, error, now):  # it was not even stored
                self._watched.pop(key, None)
                again = partial(self._count_again, kind, obj, now)
                self._notes.note(kind, obj, error, now, again)

    def _try_again(self, key: QuarantineKey, now: float) -> None:
        """Have what is set aside tried again at once."""
        found = self._notes.quarantine.get(*key)
        if found is None:
            self._hurry(key)
        elif found.retry is not None:
            self._notes.quarantine.retry_at(*key, now, found.retry)
