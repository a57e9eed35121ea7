"""What queues are guaranteed, kept free for them whoever else wants it (docs/design/queues.md).

A queue's *stake* is what it and its parts use, or what they are guaranteed if that is more. The
stakes of the parts of a queue must fit into its capability, and those of all queues into the
cluster. So the guarantee of an idle queue is room that others do not get. What a queue uses within
its guarantee raises no stake, and is never refused for the guarantees of others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from arranger.api.resource_requests import Amounts
from arranger.api.settings.queue_annotations import ROOT_QUEUE
from arranger.framework.preemption import Limit
from arranger.quota.queue_spec import MAX_LEVELS, QueueQuota, path_self_to_root

#: In a :data:`Limit`, in front of the resource: what stakes leave of a queue, and what is left of
#: a queue's own guarantee.
_BESIDE: Final = "beside guarantees: "
_WITHIN: Final = "within guarantee: "


class StakeLimit(NamedTuple):
    """What the stakes in a queue, or in the cluster, leave to one of its parts.

    Attributes:
        part: the queue whose stake would rise.
        room: what its pods may still be charged.
        slack: so much of that raises no stake, as it is guaranteed.
    """

    key: Limit
    part: str
    room: int
    slack: int


class Guarantees:
    """The stakes of all queues, by resource; nothing is counted where nothing is guaranteed."""

    def __init__(self) -> None:
        #: Resources that any queue is guaranteed.
        self.resources: frozenset[str] = frozenset()
        self._queues: Mapping[str, QueueQuota] = {}
        #: Queue → what it uses itself, and the stakes of its parts.
        self._inside: dict[str, Counter[str]] = {}
        #: (queue, resource) where a part of the queue is guaranteed some.
        self._keeps: set[Limit] = set()

    def reset(self, queues: Mapping[str, QueueQuota]) -> None:
        """These are the queues, and nobody uses anything."""
        self._queues = queues
        self._inside.clear()
        self._keeps.clear()
        self.resources = frozenset(name for q in queues.values() for name in q.guarantee)
        if not self.resources:
            return
        paths = {name: self._path(name) for name in queues}
        for name, path in sorted(paths.items(), key=lambda each: -len(each[1])):
            if path[0] != name:
                continue  # part of a circle, or too deep
            for resource in self.resources:
                stake = max(queues[name].guarantee.get(resource, 0), self._in(name, resource))
                if stake and len(path) > 1:
                    self._add(path[1], resource, stake)
                    self._keeps.add((path[1], resource))

    def on_moved(self, queue: str, amounts: Amounts, sign: int) -> None:
        """A pod of a queue uses this from now on (1), or no more (-1)."""
        for resource in self.resources & amounts.keys():
            change = sign * amounts[resource]
            for name in self._path(queue):
                before = self._stake(name, resource)
                self._add(name, resource, change)
                change = self._stake(name, resource) - before
                if not change:
                    break

    def limits(self, queue: str, resource: str, total: Amounts) -> Iterator[StakeLimit]:
        """What stakes leave to a queue, the nearest first; ``total`` is what the cluster has."""
        slack, part = 0, queue
        for name in self._path(queue):
            known = self._queues.get(name)
            if (name, resource) in self._keeps:
                available = known.capability.get(resource) if known is not None else None
                if name == ROOT_QUEUE:
                    of_all = total.get(resource, 0)
                    available = of_all if available is None else min(of_all, available)
                if available is not None:
                    room = available - self._in(name, resource) + slack
                    yield StakeLimit((name, _BESIDE + resource), part, room, slack)
            if known is not None:
                slack += max(0, known.guarantee.get(resource, 0) - self._in(name, resource))
            part = name

    def relieved(self, queue: str, amounts: Amounts) -> Iterator[Limit]:
        """The limits of others that a pod counts towards no more, which used this in a queue."""
        for resource in self.resources & amounts.keys():
            left = amounts[resource]
            for name in self._path(queue):
                if left > 0 and (name, resource) in self._keeps:
                    yield name, _BESIDE + resource
                known = self._queues.get(name)
                if known is not None:
                    free = known.guarantee.get(resource, 0) - self._in(name, resource)
                    if free > 0:
                        yield name, _WITHIN + resource
                        left -= free

    def limits_of(self, queue: str, resources: Iterable[str]) -> Iterator[Limit]:
        """All limits that might keep pods of a queue from using some resources."""
        for resource in self.resources.intersection(resources):
            for name in self._path(queue):
                if (name, resource) in self._keeps:
                    yield name, _BESIDE + resource
                known = self._queues.get(name)
                if known is not None and known.guarantee.get(resource, 0):
                    yield name, _WITHIN + resource

    def released(self, queue: str, amounts: Amounts) -> Iterator[tuple[Limit, int]]:
        """What a pod that uses this in a queue would give back.

        As if that were part of their stakes: no eviction leaves a queue less than its guarantee.
        """
        for resource in self.resources & amounts.keys():
            for name in self._path(queue):
                if (name, resource) in self._keeps:
                    yield (name, _BESIDE + resource), amounts[resource]

    def inside(self) -> dict[str, Counter[str]]:
        """Queue → what it uses itself, and the stakes of its parts, for checks."""
        return {name: +amounts for name, amounts in self._inside.items() if +amounts}

    def _path(self, queue: str) -> list[str]:
        """A queue and its ancestors, the root at the end; only the root of those without an end."""
        path = list(path_self_to_root(self._queues, queue))
        names = [state.name for state in path] or [queue]
        if len(path) > MAX_LEVELS or (path and path[-1].parent in names):
            return [ROOT_QUEUE]
        return names if names[-1] == ROOT_QUEUE else [*names, ROOT_QUEUE]

    def _in(self, name: str, resource: str) -> int:
        inside = self._inside.get(name)
        return 0 if inside is None else inside[resource]

    def _stake(self, name: str, resource: str) -> int:
        known = self._queues.get(name)
        promised = 0 if known is None else known.guarantee.get(resource, 0)
        return max(promised, self._in(name, resource))

    def _add(self, name: str, resource: str, change: int) -> None:
        self._inside.setdefault(name, Counter())[resource] += change
