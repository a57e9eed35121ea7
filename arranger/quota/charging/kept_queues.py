"""The queues that pods on nodes stay in although they name another one."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from arranger.cluster.pod_info import PodInfo


class KeptQueues:
    """Pods that were charged to a queue when they got their nodes, and name another since.

    Who may say to which queue a running pod counts could else have a queue's limit anew, by saying
    that its pods are of a queue which does not take them.
    """

    def __init__(self) -> None:
        #: uid → queue, why it does not change, and the pod as it was then.
        self._kept: dict[str, tuple[str, str, PodInfo]] = {}
        #: uids of those of which nobody was told; of those that are in another queue than before;
        #: and of those that have left their nodes, perhaps to come back.
        self._untold: dict[str, None] = {}
        self._changed: dict[str, None] = {}
        self._left: dict[str, None] = {}

    def __bool__(self) -> bool:
        return bool(self._kept)

    def __contains__(self, uid: object) -> bool:
        return uid in self._kept

    def __iter__(self) -> Iterator[str]:
        return iter(self._kept)

    def of(self, pod: PodInfo) -> str:
        """The queue that a pod stays in; "" where it is in the one that it names.

        As it was when it had no node yet it was in that: what was found out by it then, about all
        that are like it, is asked about it still.
        """
        known = self._kept.get(pod.uid)
        is_placed = known is not None and (pod is known[2] or pod.pod.spec.node_name)
        return known[0] if known is not None and is_placed else ""

    def keep(self, pod: PodInfo, queue: str, why: str) -> None:
        """A pod that has a node, or holds one, stays in a queue."""
        uid = pod.uid
        before, text, _ = self._kept.get(uid, ("", "", None))
        if before != queue:
            self._changed[uid] = None
        if (before, text) != (queue, why):
            self._untold[uid] = None
        self._kept[uid] = queue, why, pod

    def forget(self, uid: str) -> None:
        """A pod is in the queue that it names, or is gone."""
        if self._kept.pop(uid, None) is not None:
            self._changed[uid] = None
            self._untold.pop(uid, None)

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
        untold, self._untold = self._untold, {}
        return [(uid, *self._kept[uid][:2]) for uid in untold]
