"""Queues of which it is not known what they use: somebody is on a node who cannot be charged."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final, Protocol

from arranger.api.settings.queue_annotations import DEFAULT_QUEUE
from arranger.api.types.pod_groups import AnyPodGroup
from arranger.quota.pod_annotations import queue_named_by

#: In place of a queue: one that is not known, though not the default queue.
ANOTHER: Final = "/"
_UNKNOWN: Final = ("", ANOTHER)
#: A queue, or what stands for one that is not known, and the namespace of whoever is in it.
_Place = tuple[str, str]
#: Queue → namespace → how many are there.
_Counts = dict[str, Counter[str]]
_NOBODY: Final[Counter[str]] = Counter()


class Rights(Protocol):
    """Says which queues the pods of a namespace may be in."""

    @property
    def version(self) -> int:
        """Another number whenever something may be allowed that was not, or the other way round."""

    def may_use(self, queue: str, namespace: str) -> bool:
        """Whether the pods of a namespace may be in a queue; if not they are in the default one."""


@dataclass(slots=True, eq=False)
class UnchargedPods:
    """Who cannot be charged, and which queues are closed therefore.

    Where a pod's queue is not known either, as its PodGroup or its owner may name it, all are that
    PodGroups and owners of its namespace name, and the default queue; for pods that are charged to
    the default queue meanwhile (:data:`ANOTHER`) without that one.

    What is asked for every pod does not look at all who cannot be charged: a tenant may have many
    of them, in as many queues.
    """

    _rights: Rights
    _edited: bool = field(default=False, init=False)
    #: Uid of a pod, or of the group of pods → where it is.
    _places: dict[str, _Place] = field(default_factory=dict, init=False)
    _counts: _Counts = field(default_factory=dict, init=False)
    #: PodGroup → the queue that it names.
    _named: dict[tuple[type[AnyPodGroup], str], _Place] = field(default_factory=dict, init=False)
    _named_counts: _Counts = field(default_factory=dict, init=False)
    #: The places that are in the default queue, as they may not be in another that is known; and
    #: the version of the rights by which they were found.
    _refused: set[_Place] = field(default_factory=set, init=False)
    _refused_by: int = field(default=-1, init=False)

    def __bool__(self) -> bool:
        return bool(self._places)

    def __contains__(self, uid: object) -> bool:
        return uid in self._places

    def set(self, uid: str, queue: str, namespace: str) -> None:
        """Somebody on a node cannot be charged to a queue; "" for one that is not known."""
        place = queue, namespace
        if self._places.get(uid) != place:
            self.end(uid)
            self._places[uid] = place
            _count(self._counts, place)
            if queue not in _UNKNOWN and not self._rights.may_use(queue, namespace):
                self._refused.add(place)
            self._edited = True

    def take_edited(self) -> bool:
        """Whether others may be closed than when this was asked last."""
        edited, self._edited = self._edited, False
        return edited

    def end(self, uid: str) -> bool:
        """Somebody is charged, or is gone; returns whether that is news."""
        known = self._places.pop(uid, None)
        if known is not None:
            if _count_down(self._counts, known):
                self._refused.discard(known)
            self._edited = True
        return known is not None

    def note_group(self, group: AnyPodGroup) -> None:
        """A PodGroup, or what an owner says as one, appeared or was edited."""
        self.forget_group(type(group), group.key)
        if queue := queue_named_by(group):
            place = queue, group.metadata.namespace
            self._named[type(group), group.key] = place
            _count(self._named_counts, place)
            self._edited |= bool(self)

    def forget_group(self, kind: type[AnyPodGroup], key: str) -> None:
        """It was deleted."""
        known = self._named.pop((kind, key), None)
        if known is not None:
            _count_down(self._named_counts, known)
            self._edited |= bool(self)

    def closes(self, name: str) -> bool:
        """Whether it is not known what a queue uses."""
        counts, may_use = self._counts, self._rights.may_use
        if not counts:
            return False
        if name == DEFAULT_QUEUE and ("" in counts or self._are_some_refused()):
            return True
        if any(may_use(name, space) for space in counts.get(name, _NOBODY)):
            return True
        naming = self._named_counts.get(name, _NOBODY)
        for place in _UNKNOWN:
            fewer, others = sorted((counts.get(place, _NOBODY), naming), key=len)
            if any(space in others and may_use(name, space) for space in fewer):
                return True
        return False

    def _are_some_refused(self) -> bool:
        rights = self._rights
        if self._refused_by != rights.version:
            self._refused_by = rights.version
            known = ((q, each) for q, each in self._counts.items() if q not in _UNKNOWN)
            places = ((queue, space) for queue, spaces in known for space in spaces)
            self._refused = {place for place in places if not rights.may_use(*place)}
        return bool(self._refused)


def _count(counts: _Counts, place: _Place) -> None:
    queue, namespace = place
    counts.setdefault(queue, Counter())[namespace] += 1


def _count_down(counts: _Counts, place: _Place) -> bool:
    """One fewer is there; whether that was the last one."""
    queue, namespace = place
    counts[queue][namespace] -= 1
    if counts[queue][namespace]:
        return False
    del counts[queue][namespace]
    if not counts[queue]:
        del counts[queue]
    return True
