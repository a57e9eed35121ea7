"""The one place that keeps what an object makes our code raise from anything but that object.

Everything the engine does is about an object: an event of it, an attempt to place it, the outcome
of a write for it, a wait of it that ends. What raises there has perhaps done half of it, so the
object is taken out of all books, is told so, and is tried again when it changes or after a while
(:mod:`~arranger.api.quarantine`). Meanwhile a pod that waits does not exist for us, one on a node
takes what it requests and is nothing else, and of any other object the last known state holds. A
pod that was only being looked at when it made the code raise is taken out in place of the object
that we were busy with (:mod:`~arranger.engine.faults.accused`), and what pods are held against in
place of these (:mod:`~arranger.engine.faults.object_trials`).

The books are checked afterwards. If they are wrong all the same, whoever drives the engine begins
anew, with those objects left out (:attr:`Barrier.suspects`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeVar

from arranger.api.effects import Applied, Bind, Effect, Outcome
from arranger.api.quarantine import LAST_RETRY, Quarantine, QuarantineKey, quarantined_event
from arranger.api.types.core import Pod
from arranger.engine.context.engine_context import EngineContext
from arranger.engine.context.entity import QueuedEntity
from arranger.engine.faults.accused import accused_pods, named_pods, set_aside_in
from arranger.engine.faults.books_check import BooksCheck
from arranger.engine.faults.failed_deletions import FailedDeletions
from arranger.engine.faults.fault_notes import FaultNotes
from arranger.engine.faults.held_room import HeldRoom
from arranger.engine.faults.left_out import LeftOutObjects
from arranger.engine.faults.object_trials import ObjectTrials
from arranger.engine.faults.rollback import Rollback
from arranger.engine.faults.states import LeftOutError, content_of, key_of_pod, on_node
from arranger.engine.handlers.pod_handlers import PodHandlers
from arranger.engine.handlers.watched_kinds import WatchedKind, watched_kind
from arranger.gangs.registry import GangRegistry
from arranger.quota.ledger import QuotaLedger

R = TypeVar("R")
T = TypeVar("T")

#: Pods taken out, one after the other, for what one step of ours raises.
_MAX_ACCUSED: Final = 16


@dataclass(slots=True, eq=False)
class Barrier:
    """Does a step about an object, and puts things right when it raises.

    Args:
        notes: who has been set aside.
        trials: find out when it is not a pod that is to blame.
        held: keeps what pods hold that are set aside.
        left_out: objects over which an earlier engine came to grief.
        perf_counter: measures what a check of the books costs, seconds.
    """

    _notes: FaultNotes
    _trials: ObjectTrials
    _held: HeldRoom
    _context: EngineContext
    _pods: PodHandlers
    _ledger: QuotaLedger
    _registry: GangRegistry
    _rollback: Rollback
    _left_out: LeftOutObjects
    _undeleted: FailedDeletions
    _perf_counter: Callable[[], float]
    books: BooksCheck = field(init=False)
    pod_kind: WatchedKind[Pod] = field(init=False)

    def __post_init__(self) -> None:
        self.books = BooksCheck(self._notes, self._perf_counter)
        self.pod_kind = watched_kind(
            Pod, self._pods.on_updated, lambda pod, now: self._pods.on_deleted(pod.key, now)
        )

    @property
    def quarantine(self) -> Quarantine:
        """The objects that have been set aside."""
        return self._notes.quarantine

    @property
    def suspects(self) -> dict[QuarantineKey, Hashable]:
        """The objects set aside since the books were last found consistent."""
        return self._notes.suspects

    # --- events ----------------------------------------------------------------------------

    def hand_on(
        self,
        kind: WatchedKind[T],
        obj: T,
        now: float,
        hear: Callable[[T, float], None] | None = None,
    ) -> None:
        """Have an object heard of by ``hear``, or by whoever hears of updates of its kind."""
        stands_in = not isinstance(obj, Pod) and self._has_stand_in(kind, obj)
        if not stands_in and self._left_out.has(kind, obj) and self.is_left_out(kind, obj, now):
            return
        if self._cannot_be_counted(kind, obj, now):
            return
        try:
            (hear or kind.updated)(obj, now)
        except Exception as error:
            self.on_update_fault(kind, obj, None, error, now)
        else:
            if not stands_in:
                self.release(kind, obj)

    def on_update_fault(
        self, kind: WatchedKind[T], obj: T, before: T | None, error: Exception, now: float
    ) -> None:
        """A handler raised about an object, whose last state was ``before``."""
        self._ledger.mark_stale()
        own = {obj.metadata.uid} if isinstance(obj, Pod) else set()
        for _ in range(_MAX_ACCUSED):
            accused = self._accused(error)
            if not accused or accused & own:
                break
            self._set_aside_all(accused, error, now)
            try:
                if isinstance(obj, Pod):
                    self._rollback.take_in_again(obj, now)
                else:
                    kind.updated(obj, now)
            except Exception as again:
                error = again
            else:
                self.release(kind, obj)
                return
        if isinstance(obj, Pod):
            self._set_aside_pod(obj, before if isinstance(before, Pod) else None, error, now)
            self._trials.on_fault([key_of_pod(obj.metadata)], error, now)
            return
        retry = partial(self._retry, kind, obj, before)
        self._trials.on_update_fault(kind, obj, before, error, now, retry)

    def on_delete_fault(self, kind: WatchedKind[T], obj: T, error: Exception, now: float) -> None:
        """A handler raised about an object that is gone."""
        self._ledger.mark_stale()
        own = {obj.metadata.uid} if isinstance(obj, Pod) else set()
        for _ in range(_MAX_ACCUSED):
            accused = self._accused(error) - own
            self._set_aside_all(accused, error, now)
            try:
                kind.deleted(obj, now)
            except Exception as again:
                error = again
                if not accused:
                    break
            else:
                return
        self._undeleted.note(kind, obj, error, now)

    def is_left_out(self, kind: WatchedKind[T], obj: Any, now: float) -> bool:
        """Whether an object is not to be heard of as it is; it is then counted and told."""
        if self._is_set_aside(kind, obj):
            return True
        if not self._left_out.has(kind, obj):
            return self._cannot_be_counted(kind, obj, now)
        meta = obj.metadata
        if self._left_out.is_news(meta.uid):  # what the earlier engine said may not have been sent
            found = self.quarantine.get(*kind.key_of(meta))
            if found is None:
                about, content = kind.about(meta), content_of(obj)
                found = self.quarantine.add(about, LeftOutError(), now, content=content)
            self._notes.tell(found, obj)
        retry = partial(self._readmit, kind, obj)
        self.quarantine.retry_at(*kind.key_of(meta), now + LAST_RETRY, retry)
        self._trials.replace(kind, obj, now)
        if isinstance(obj, Pod) and obj.spec.node_name:
            facts = self._held.facts_of(obj)
            self._held.keep(obj, obj.spec.node_name, facts, None, LeftOutError(), now)
        return True

    def on_undecodable(
        self, kind: WatchedKind[T], obj: Any, why: str, at: str, now: float, *, known: bool
    ) -> None:
        """An object cannot be decoded: its last state holds, if it is known. A pod is at a node."""
        about = kind.about(obj.metadata)
        if not known:
            self._trials.on_unknown(kind, obj)
        if at and about.kind == "Pod":
            self._held.on_undecodable(obj.metadata, at, now)
        found = self.quarantine.add_undecodable(about, why, now)
        if found.is_news and about.name:
            self._context.outbox.append(quarantined_event(found))

    def on_heard(self, kind: WatchedKind[T], obj: Any) -> None:
        """An event of an object has been heard of without a fault: has its owner changed it?"""
        if self.quarantine and not self._left_out.has(kind, obj):
            found = self.quarantine.get(*kind.key_of(obj.metadata))
            if found is not None and found.content != content_of(obj):
                self.release(kind, obj)

    def release(self, kind: WatchedKind[T], obj: Any) -> None:
        """An object has been heard of without a fault, or is gone."""
        if self.quarantine and not self._left_out.has(kind, obj):
            meta = obj.metadata
            self._undeleted.end(kind, obj)
            if self._held.closes(kind.kind, meta.name):
                return
            if self.quarantine.release(*kind.key_of(meta)):
                self._trials.end(kind, obj)
            if kind.kind == "Pod":
                self._held.end(meta)

    def on_gone(self, kind: WatchedKind[T], obj: Any) -> None:
        """An object is gone: nothing is left out, and nothing is tried again."""
        self._left_out.forget(kind, obj.metadata)
        if not self._undeleted.has(kind, obj):
            self.release(kind, obj)

    def advance(self, now: float) -> None:
        """Try again what is due."""
        self._trials.advance(now)
        for found in self.quarantine.take_due(now):
            if found.retry is not None:
                found.retry(now)
        for kind, node in self._held.take_open(now):
            self.hand_on(kind, node, now)

    def next_due(self) -> float | None:
        """When :meth:`advance` will have something to do."""
        times = self.quarantine.next_due(), self._trials.next_due()
        return min((due for due in times if due is not None), default=None)

    # --- attempts, outcomes, and waits that end ----------------------------------------------

    def attempt(self, entity: QueuedEntity, now: float, step: Callable[[], None]) -> None:
        """Do a step that is an attempt to place an entity."""
        try:
            step()
        except Exception as error:
            self._on_attempt_fault(entity, error, now)
        else:
            if self._context.plugin_failures:
                self._on_plugin_failures(now)
            elif self.quarantine or self._trials:
                for member in self._rollback.pods_of(entity):
                    pod, node = member.pod.pod, member.node
                    self.release(self.pod_kind, pod)
                    placed = bool(node) or self._rollback.is_nominated(member)
                    self._trials.on_passed(key_of_pod(pod.metadata), node, now, placed=placed)

    def _on_plugin_failures(self, now: float) -> None:
        for pod, error in self._context.take_failures():
            self._trials.on_fault([key_of_pod(pod.metadata)], error, now)
            for uid in self._accused(error):
                member = self._context.pods.get(uid)
                entity = None if member is None else member.entity
                group = None if entity is None else entity.group
                if group is not None and group.can_do_without(uid, self._context.pods):
                    self._set_aside_all({uid}, error, now)
                    self._rollback.end_backoff(entity)

    def run(self, now: float, step: Callable[[], R]) -> R:
        """Do a step about whoever it concerns, again without those that make it raise.

        Raises:
            Exception: it is about nothing that is known, so that nothing can be taken out.
        """
        for _ in range(_MAX_ACCUSED):
            try:
                return step()
            except Exception as error:
                self._ledger.mark_stale()
                accused = self._accused(error)
                if not accused and self._trials.convict(error, now):
                    continue
                known = self._context.pods, self._ledger, self._registry.gangs
                accused = accused or named_pods(error, *known)
                if accused:
                    self._set_aside_all(accused, error, now)
                elif (key := set_aside_in(error, self.quarantine)) is not None:
                    self._notes.suspect(key)
                else:
                    raise
        return step()

    def on_outcome_fault(
        self, effect: Effect, outcome: Outcome, error: Exception, now: float
    ) -> None:
        """What follows from an outcome has raised.

        Raises:
            Exception: it is about no pod that is known, so that none can be taken out.
        """
        self._ledger.mark_stale()
        uid = getattr(getattr(effect, "pod", None), "uid", "")
        accused = self._accused(error) or ({uid} if self._is_known(uid) else set())
        if not accused and not self._trials.convict(error, now):
            raise error
        self._set_aside_all(accused, error, now)
        if uid in accused or not self._is_known(uid):
            return
        pod = self._pod(uid)  # it is innocent, and half of the step may have been done
        bound = isinstance(effect, Bind) and isinstance(outcome, Applied)
        if pod is not None:
            self._rollback.forget(pod, now)
            self.hand_on(self.pod_kind, on_node(pod, effect.node) if bound else pod, now)  # type: ignore[union-attr]

    def _is_set_aside(self, kind: WatchedKind[Any], obj: Any) -> bool:
        """Whether an object is set aside, and its owner has not changed it since."""
        meta = obj.metadata
        found = self.quarantine.get(*kind.key_of(meta))
        if found is None or found.retry is None:
            return False
        return found.about.uid == meta.uid and found.content == content_of(obj)

    def _has_stand_in(self, kind: WatchedKind[Any], obj: Any) -> bool:
        """Whether it is left out, so that what is handed on at the start stands in for it."""
        key = kind.key_of(obj.metadata)
        return key in self._left_out and self._notes.is_retried(key)

    def _on_attempt_fault(self, entity: QueuedEntity, error: Exception, now: float) -> None:
        members = {member.uid: member for member in self._rollback.pods_of(entity)}
        self._ledger.mark_stale()
        accused = self._accused(error) or set(members)
        self._set_aside_all(accused, error, now)
        rest = [member for uid, member in members.items() if uid not in accused]
        for _ in range(_MAX_ACCUSED):
            try:
                self._rollback.requeue(rest, now)
                return
            except Exception as again:
                accused = self._accused(again) or {member.uid for member in rest}
                self._set_aside_all(accused, again, now)
                rest = [member for member in rest if member.uid not in accused]

    def _accused(self, error: Exception) -> set[str]:
        accused = accused_pods(error, self._is_known)
        return accused & self._context.pods.keys() or accused  # of a gang those that have no node

    def _is_known(self, uid: str) -> bool:
        return uid in self._context.pods or uid in self._context.cluster

    def _pod(self, uid: str) -> Pod | None:
        if (member := self._context.pods.get(uid)) is not None:
            return member.pod.pod
        placed = self._context.cluster.pod(uid)
        return None if placed is None else self._held.on_accused(placed.pod)

    def _set_aside_all(self, uids: Iterable[str], error: Exception, now: float) -> None:
        for pod in (accused := [pod for uid in sorted(uids) if (pod := self._pod(uid))]):
            self._set_aside_pod(pod, None, error, now)
        self._trials.on_fault([key_of_pod(pod.metadata) for pod in accused], error, now)

    def _set_aside_pod(self, pod: Pod, before: Pod | None, error: Exception, now: float) -> None:
        node, facts = self._held.node_of(pod), self._held.facts_of(pod)
        leaves = self._rollback.is_leaving(pod.metadata.uid)
        self._notes.note(self.pod_kind, pod, error, now, partial(self._retry_pod, pod))
        with suppress(Exception):
            self._rollback.unreserve(pod.metadata.uid)
        self._rollback.forget(pod, now)
        if node and not pod.terminal:
            self._held.keep(pod, node, facts, before, error, now)
            self._rollback.leave_again(pod.metadata.uid, leaves=leaves)
        else:
            self._held.end(pod.metadata)

    def _cannot_be_counted(self, kind: WatchedKind[T], obj: T, now: float) -> bool:
        """Whether it is a pod that no book takes in, as before; it stays set aside."""
        if not isinstance(obj, Pod) or (error := self._held.why_uncountable(obj)) is None:
            return False
        self._set_aside_pod(obj, None, error, now)
        return True

    def _retry(self, kind: WatchedKind[T], obj: T, before: T | None, now: float) -> None:
        try:
            kind.updated(obj, now)
        except Exception as error:
            self.on_update_fault(kind, obj, before, error, now)
        else:
            self.release(kind, obj)

    def _readmit(self, kind: WatchedKind[T], obj: T, now: float) -> None:
        """What was left out is looked at again: what it met may have been somebody else's."""
        self._left_out.forget(kind, obj.metadata)  # type: ignore[attr-defined]
        if isinstance(obj, Pod):
            self._rollback.forget(obj, now)
        self.hand_on(kind, obj, now)

    def _retry_pod(self, pod: Pod, now: float) -> None:
        """Take a pod in again, with no stand-in; an attempt will show whether it is well."""
        if self._cannot_be_counted(self.pod_kind, pod, now):
            return
        try:
            self._rollback.take_in_again(pod, now)
        except Exception as error:
            self.on_update_fault(self.pod_kind, pod, None, error, now)
        else:
            if pod.metadata.uid not in self._context.pods:
                self.release(self.pod_kind, pod)
