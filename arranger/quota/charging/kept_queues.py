"""The queues that pods on nodes stay in although they name another one."""

from __future__ import annotations

from collections.abc import Callable, Iterator


class KeptQueues:
    """Pods that were charged to a queue when they got their nodes, and name another since.

    Who may say to which queue a running pod counts could else have a queue's limit anew, by saying
    that its pods are of a queue which does not take them.
    """

    def __init__(self) -> None:
        #: uid → queue, and why it does not change.
        self._kept: dict[str, tuple[str, str]] = {}
        #: uids of those of which nobody was told; and what was told of the others.
        self._untold: dict[str, None] = {}
        self._told: dict[str, tuple[str, str]] = {}
        #: uid → the queue that it is asked about whether a pod stays in it; and the uids of those
        #: that are in another queue by the answer.
        self._asked: dict[str, str] = {}
        self._changed: dict[str, None] = {}
        #: uids of those that have left their nodes, perhaps to come back.
        self._left: dict[str, None] = {}

    def __bool__(self) -> bool:
        return bool(self._kept)

    def __iter__(self) -> Iterator[str]:
        return iter(self._kept)

    def of(self, uid: str) -> str:
        """The queue that a pod stays in; "" where it is in the one that it names."""
        return self._kept[uid][0] if uid in self._kept else ""

    def keep(self, uid: str, queue: str, why: str) -> None:
        """A pod stays in a queue."""
        if self._told.get(uid) != (queue, why):
            self._untold[uid] = None
        if self._asked.pop(uid, "") != queue:
            self._changed[uid] = None
        self._kept[uid] = queue, why

    def release(self, uid: str) -> None:
        """It is to be found out anew whether a pod stays in its queue."""
        if (known := self._kept.pop(uid, None)) is not None:
            self._asked[uid] = known[0]
        self._untold.pop(uid, None)

    def forget(self, uid: str) -> None:
        """A pod is in the queue that it names, or is gone."""
        self.release(uid)
        if self._asked.pop(uid, ""):
            self._changed[uid] = None
        self._told.pop(uid, None)

    def on_left(self, uid: str) -> None:
        """A pod has left its node, if only in a plan."""
        if uid in self._kept:
            self._left[uid] = None

    def forget_gone(self, is_there: Callable[[str], bool]) -> None:
        """Forget those that have left for good."""
        if self._left:
            left, self._left = self._left, {}
            for uid in left:
                if not is_there(uid):
                    self.forget(uid)

    def take_changed(self) -> dict[str, None]:
        """The uids of those that are in another queue by that, since the last time."""
        changed, self._changed = self._changed, {}
        return changed

    def take_untold(self) -> list[tuple[str, str, str]]:
        """(uid, queue, why), each once."""
        if not self._untold:
            return []
        untold, self._untold = self._untold, {}
        self._told.update((uid, self._kept[uid]) for uid in untold)
        return [(uid, *self._kept[uid]) for uid in untold]
