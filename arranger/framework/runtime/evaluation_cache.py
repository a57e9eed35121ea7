"""What is kept of classes of pods that were evaluated: most of those that are asked about again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final

from arranger.cluster.pod_info import PodInfo
from arranger.framework.runtime.evaluation import Evaluation

#: A class: the scheduler's name and the signature of its pods.
ClassKey = tuple[str, Hashable]

#: Classes that have been asked about twice or more, and are kept.
MAX_KEPT: Final = 64
#: Classes that have been asked about once, and are kept.
MAX_NEW: Final = 8
#: Classes that have left the new ones, and are kept if they are asked about again.
_MAX_LEFT: Final = 64


class EvaluationCache:
    """The evaluations used last, of classes asked about again ahead of those asked about once.

    Where every pod is a class of its own nobody asks again. Then few are kept, so that their
    memory, which is still in the processor's caches, is used for the next. (Johnson and Shasha,
    "2Q: A Low Overhead High Performance Buffer Management Replacement Algorithm", 1994.)
    """

    def __init__(self, group_of: Callable[[PodInfo], object] = lambda _: None) -> None:
        """``group_of`` gives a pod's PodGroup, which may name the queue that its pods are judged
        by. Pods of one class need not be of the same."""
        self._group_of = group_of
        self._new: OrderedDict[ClassKey, Evaluation] = OrderedDict()
        self._kept: OrderedDict[ClassKey, Evaluation] = OrderedDict()
        #: Hashes of the classes that have left the new ones; a chance equal costs nothing.
        self._left: OrderedDict[int, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._new) + len(self._kept)

    def get(self, key: ClassKey, pod: PodInfo) -> Evaluation | None:
        """The evaluation of a pod's class; it is used now, and has to be refreshed.

        One that was made for a pod which is gone since, or in another gang, is forgotten.
        """
        kept = self._kept.get(key)
        found = self._new.get(key) if kept is None else kept
        if found is None:
            return None
        if found.pod is not pod and self._group_of(found.pod) is not self._group_of(pod):
            self.discard(key)
            return None
        if kept is not None:
            self._kept.move_to_end(key)
        else:
            del self._new[key]
            self._keep(key, found)
        return found

    def add(self, key: ClassKey, evaluation: Evaluation) -> None:
        """Keep the evaluation of a class that was not known."""
        if hash(key) in self._left:
            del self._left[hash(key)]
            self._keep(key, evaluation)
            return
        self._new[key] = evaluation
        if len(self._new) > MAX_NEW:
            left, _ = self._new.popitem(last=False)
            self._left[hash(left)] = None
            if len(self._left) > _MAX_LEFT:
                self._left.popitem(last=False)

    def discard(self, key: ClassKey) -> None:
        """Forget a class."""
        self._new.pop(key, None)
        self._kept.pop(key, None)

    def _keep(self, key: ClassKey, evaluation: Evaluation) -> None:
        self._kept[key] = evaluation
        if len(self._kept) > MAX_KEPT:
            self._kept.popitem(last=False)
