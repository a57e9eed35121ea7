"""How long pods of one kind have run: what is not said about an end is estimated from that.

Pods are of one kind that have the same kind of owner, its name without what generates it, and the
same queue and namespace. Nobody's estimate follows from pods of another namespace.
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final

from arranger.api.effects import EVICTION_NOTICE
from arranger.api.types.core import Pod
from arranger.cluster.pod_info import PodInfo

#: Namespace, kind of owner, its name without suffixes, queue.
HistoryKey = tuple[str, str, str, str]
#: Run times kept of one kind, the youngest.
MAX_RUNS: Final = 32
#: Kinds kept: those that ended last.
MAX_KINDS: Final = 4096
#: Of so many runs an estimate is longer than this part.
QUANTILE: Final = 0.9
#: The conditions of pods that are made to end.
_STOPPED: Final = frozenset({"DisruptionTarget", EVICTION_NOTICE})
_DIGITS: Final = frozenset("0123456789")
#: What the API server appends to ``generateName``, and controllers as hashes, is of these.
_GENERATED: Final = frozenset("bcdfghjklmnpqrstvwxz2456789")


def name_stem(name: str) -> str:
    """A name without the generated suffixes, or all of it where nothing would be left."""
    while True:
        head, _, last = name.rpartition("-")
        generated = 5 <= len(last) <= 10 and _GENERATED.issuperset(last)
        if not head or not last or not (generated or _DIGITS.issuperset(last)):
            return name
        name = head


class RunTimeHistory:
    """Run times of pods that have ended, by kind; bounded in memory.

    Args:
        queue_of: the queue of a pod.
    """

    def __init__(self, queue_of: Callable[[PodInfo], str]) -> None:
        self._queue_of = queue_of
        self._runs: OrderedDict[HistoryKey, deque[float]] = OrderedDict()
        self._changed: set[HistoryKey] = set()

    def __len__(self) -> int:
        return len(self._runs)

    def key_of(self, pod: PodInfo) -> HistoryKey:
        """Of which kind a pod is."""
        meta = pod.pod.metadata
        owner = meta.controller
        kind, name = ("Pod", meta.name) if owner is None else (owner.kind, owner.name)
        return meta.namespace, kind, name_stem(name), self._queue_of(pod)

    def record(self, pod: PodInfo, ended: float) -> None:
        """A pod has ended, ``ended`` seconds after 1970.

        One that never started tells nothing, nor does one that others have made end.
        """
        started = pod.pod.status.start_time
        if _was_stopped(pod.pod) or started is None or ended < started.timestamp():
            return
        key = self.key_of(pod)
        runs = self._runs.get(key)
        if runs is None:
            runs = self._runs[key] = deque(maxlen=MAX_RUNS)
            if len(self._runs) > MAX_KINDS:
                self._runs.popitem(last=False)
        self._runs.move_to_end(key)
        runs.append(ended - started.timestamp())
        if len(runs) == 1:
            self._changed.add(key)
            if len(self._changed) > MAX_KINDS:
                self._changed.clear()

    def estimate(self, key: HistoryKey) -> float | None:
        """In how many seconds most pods of a kind have ended; None if none is known."""
        runs = self._runs.get(key)
        if not runs:
            return None
        ordered = sorted(runs)
        return ordered[math.ceil(QUANTILE * len(ordered)) - 1]

    def take_new_kinds(self) -> set[HistoryKey]:
        """The kinds of which the first run is known since the last call."""
        if not (changed := self._changed):
            return changed
        self._changed = set()
        return changed


def _was_stopped(pod: Pod) -> bool:
    """Whether a pod was deleted, evicted or told to leave, so that its end is not its own.

    Kubelets give such a pod a terminal phase, too, before it is gone.
    """
    if pod.metadata.deletion_timestamp is not None:
        return True
    return any(each.type in _STOPPED and each.status == "True" for each in pod.status.conditions)
