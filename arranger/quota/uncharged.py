"""Queues of which it is not known what they use: somebody is on a node who cannot be charged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from arranger.api.settings.queue_annotations import DEFAULT_QUEUE
from arranger.api.types.pod_groups import AnyPodGroup
from arranger.quota.pod_annotations import queue_named_by

#: In place of a queue: one that is not known, though not the default queue.
ANOTHER: Final = "/"
#: A queue, "" for one that is not known, and the namespace of whoever is in it.
_Place = tuple[str, str]


@dataclass(slots=True, eq=False)
class UnchargedPods:
    """Who cannot be charged, and which queues are closed therefore.

    Where a pod's queue is not known either, as its PodGroup or its owner may name it, all are that
    PodGroups and owners of its namespace name, and the default queue; for pods that are charged to
    the default queue meanwhile (:data:`ANOTHER`) without that one.

    Args:
        may_use: whether pods of a namespace may be in a queue; the others are in the default queue.
    """

    _may_use: Callable[[str, str], bool]
    _edited: bool = field(default=False, init=False)
    #: Uid of a pod, or of the group of pods → where it is.
    _places: dict[str, _Place] = field(default_factory=dict, init=False)
    _counts: Counter[_Place] = field(default_factory=Counter, init=False)
    #: PodGroup → the queue that it names.
    _named: dict[tuple[type[AnyPodGroup], str], _Place] = field(default_factory=dict, init=False)
    _named_counts: Counter[_Place] = field(default_factory=Counter, init=False)

    def __bool__(self) -> bool:
        return bool(self._places)

    def set(self, uid: str, queue: str, namespace: str) -> None:
        """Somebody on a node cannot be charged to a queue; "" for one that is not known."""
        place = queue, namespace
        if self._places.get(uid) != place:
            self.end(uid)
            self._places[uid] = place
            self._counts[place] += 1
            self._edited = True

    def take_edited(self) -> bool:
        """Whether others may be closed than when this was asked last."""
        edited, self._edited = self._edited, False
        return edited

    def end(self, uid: str) -> bool:
        """Somebody is charged, or is gone; returns whether that is news."""
        known = self._places.pop(uid, None)
        if known is not None:
            _count_down(self._counts, known)
            self._edited = True
        return known is not None

    def note_group(self, group: AnyPodGroup) -> None:
        """A PodGroup, or what an owner says as one, appeared or was edited."""
        self.forget_group(type(group), group.key)
        if queue := queue_named_by(group):
            place = queue, group.metadata.namespace
            self._named[type(group), group.key] = place
            self._named_counts[place] += 1
            self._edited |= bool(self)

    def forget_group(self, kind: type[AnyPodGroup], key: str) -> None:
        """It was deleted."""
        known = self._named.pop((kind, key), None)
        if known is not None:
            _count_down(self._named_counts, known)
            self._edited |= bool(self)

    def closes(self, name: str) -> bool:
        """Whether it is not known what a queue uses."""
        return any(self._may_be_in(name, queue, space) for queue, space in self._counts)

    def _may_be_in(self, name: str, queue: str, namespace: str) -> bool:
        if queue and queue != ANOTHER:
            return name == (queue if self._may_use(queue, namespace) else DEFAULT_QUEUE)
        named = (name, namespace) in self._named_counts and self._may_use(name, namespace)
        return named or (name == DEFAULT_QUEUE and not queue)


def _count_down(counts: Counter[_Place], place: _Place) -> None:
    counts[place] -= 1
    if not counts[place]:
        del counts[place]
