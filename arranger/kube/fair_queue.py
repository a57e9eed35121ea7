"""A queue that serves one namespace after the other."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


def anyone(_namespace: str) -> bool:
    """Every namespace may."""
    return True


class FairQueue(Generic[T]):
    """What waits, from one namespace after the other; of one namespace, first come first served.

    So who has thousands waiting keeps nobody else waiting for longer than one of these. Whatever is
    in no namespace counts as of one.
    """

    def __init__(self) -> None:
        #: Namespace → what waits of it; the namespace whose turn it is first.
        self._lanes: OrderedDict[str, deque[T]] = OrderedDict()
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def push(self, namespace: str, item: T) -> None:
        """Add something behind all else of its namespace."""
        self._lanes.setdefault(namespace, deque()).append(item)
        self._length += 1

    def push_front(self, namespace: str, item: T) -> None:
        """Add something before all else of its namespace: it has waited already."""
        self._lanes.setdefault(namespace, deque()).appendleft(item)
        self._length += 1

    def waiting_of(self, namespace: str) -> int:
        """How many a namespace has."""
        return len(self._lanes.get(namespace, ()))

    def pop(self) -> T:
        """Take out what is next.

        Raises:
            IndexError: nothing waits.
        """
        if not self._lanes:
            raise IndexError("pop from an empty queue")
        return self._take_turn(next(iter(self._lanes)))

    def pop_allowed(self, may: Callable[[str], bool]) -> T | None:
        """Take out what is next of the namespaces that ``may``; they keep their turns meanwhile."""
        namespace = self.first_allowed(may)
        return None if namespace is None else self._take_turn(namespace)

    def first_allowed(self, may: Callable[[str], bool]) -> str | None:
        """The namespace whose turn is next of those that ``may``; None if there is none."""
        return next(filter(may, self._lanes), None)

    def pop_from(self, namespace: str) -> T:
        """Take out what is next of a namespace that has something waiting, as its turn."""
        return self._take_turn(namespace)

    def pop_from_longest(self) -> T:
        """Take out what waits longest of the namespace that has most waiting.

        Raises:
            IndexError: nothing waits.
        """
        if not self._lanes:
            raise IndexError("pop from an empty queue")
        namespace = max(self._lanes, key=lambda each: len(self._lanes[each]))
        return self._take_first(namespace, self._lanes[namespace])

    def take_all(self) -> list[T]:
        """Take out all, namespace by namespace."""
        items = [item for lane in self._lanes.values() for item in lane]
        self._lanes.clear()
        self._length = 0
        return items

    def _take_turn(self, namespace: str) -> T:
        lane = self._lanes[namespace]
        item = self._take_first(namespace, lane)
        if lane:
            self._lanes.move_to_end(namespace)
        return item

    def _take_first(self, namespace: str, lane: deque[T]) -> T:
        item = lane.popleft()
        self._length -= 1
        if not lane:
            del self._lanes[namespace]
        return item
