"""The pods on nodes, by namespace and by the labels that selectors ask about."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol

from arranger.api.types.core import Pod

#: Uid of a pod → its row.
RowOf = dict[str, int]

#: Label keys of one namespace by which its pods are kept: those asked about last.
_MAX_KEYS: Final = 8
#: Labels of one selector that are looked at.
MAX_LABELS: Final = 4
#: With no more pods in a namespace, nothing is gained by looking them up.
_FEW_PODS: Final = 32
#: With more, they are not all looked at in one go, which takes about a third of a microsecond each.
_MANY_PODS: Final = 50_000

_NO_KEYS: Final[Mapping[str, dict[str, RowOf]]] = {}


class HasPod(Protocol):
    """A pod with what has been worked out about it."""

    pod: Pod


#: Row → uid → pod.
PodLookup = Sequence[Mapping[str, HasPod]]


class PlacedPods:
    """Which pods are on which rows, for those who look for pods with a label.

    Attributes:
        by_namespace: namespace → uid → row, of all pods.
    """

    def __init__(self) -> None:
        self.by_namespace: dict[str, RowOf] = {}
        #: Namespace → label key → value → its pods; only for keys that somebody has asked about.
        self._by_label: dict[str, OrderedDict[str, dict[str, RowOf]]] = {}

    def add(self, pod: Pod, row: int) -> None:
        """A pod takes a row."""
        metadata = pod.metadata
        self.by_namespace.setdefault(metadata.namespace, {})[metadata.uid] = row
        for key, by_value in self._by_label.get(metadata.namespace, _NO_KEYS).items():
            if (value := metadata.labels.get(key)) is not None:
                by_value.setdefault(value, {})[metadata.uid] = row

    def remove(self, pod: Pod) -> None:
        """A pod, as it was when it came, leaves its row.

        Raises:
            KeyError: it is not there.
        """
        metadata = pod.metadata
        namespace, uid = metadata.namespace, metadata.uid
        pods = self.by_namespace[namespace]
        del pods[uid]
        if not pods:
            del self.by_namespace[namespace]
            self._by_label.pop(namespace, None)
            return
        for key, by_value in self._by_label.get(namespace, _NO_KEYS).items():
            if (value := metadata.labels.get(key)) is not None:
                del by_value[value][uid]
                if not by_value[value]:
                    del by_value[value]

    def add_all(self, namespace: str, pods: Sequence[tuple[Pod, int]]) -> None:
        """Pods of a namespace take their rows."""
        there = self.by_namespace.setdefault(namespace, {})
        there.update((pod.metadata.uid, row) for pod, row in pods)
        for key, by_value in self._by_label.get(namespace, _NO_KEYS).items():
            for pod, row in pods:
                metadata = pod.metadata
                if (value := metadata.labels.get(key)) is not None:
                    if (found := by_value.get(value)) is None:
                        found = by_value[value] = {}
                    found[metadata.uid] = row

    def remove_all(self, namespace: str, pods: Sequence[Pod]) -> None:
        """Pods of a namespace, as they were when they came, leave their rows.

        Raises:
            KeyError: one is not there.
        """
        there = self.by_namespace[namespace]
        for pod in pods:
            del there[pod.metadata.uid]
        if not there:
            del self.by_namespace[namespace]
            self._by_label.pop(namespace, None)
            return
        for key, by_value in self._by_label.get(namespace, _NO_KEYS).items():
            for pod in pods:
                metadata = pod.metadata
                if (value := metadata.labels.get(key)) is not None:
                    found = by_value[value]
                    del found[metadata.uid]
                    if not found:
                        del by_value[value]

    def candidates(
        self, namespace: str, labels: Sequence[tuple[str, str]], pod_on: PodLookup
    ) -> tuple[Mapping[str, int], int]:
        """(pods of a namespace among which are all with these labels, how many were looked at).

        The first time that a label is asked about, all pods of the namespace are looked at, by one
        label a call.
        """
        fewest = self.by_namespace.get(namespace, {})
        looked_at = 0
        for key, value in labels[:MAX_LABELS]:
            if len(fewest) <= _FEW_PODS:
                break
            keys = self._by_label.setdefault(namespace, OrderedDict())
            by_value = keys.get(key)
            if by_value is None:
                if looked_at or len(self.by_namespace[namespace]) > _MANY_PODS:
                    continue
                looked_at += len(self.by_namespace[namespace])
                by_value = keys[key] = self._sorted(namespace, key, pod_on)
                if len(keys) > _MAX_KEYS:
                    keys.popitem(last=False)
            else:
                keys.move_to_end(key)
            pods = by_value.get(value, {})
            fewest = pods if len(pods) < len(fewest) else fewest
        return fewest, looked_at

    def _sorted(self, namespace: str, key: str, pod_on: PodLookup) -> dict[str, RowOf]:
        by_value: dict[str, RowOf] = {}
        for uid, row in self.by_namespace[namespace].items():
            value = pod_on[row][uid].pod.metadata.labels.get(key)
            if value is not None:
                by_value.setdefault(value, {})[uid] = row
        return by_value

    def check_consistent(self, rows: Iterable[tuple[Pod, int]]) -> None:
        """Compare with the pods on all rows.

        Raises:
            AssertionError: they differ.
        """
        fresh = PlacedPods()
        for namespace, keys in self._by_label.items():
            fresh._by_label[namespace] = OrderedDict((key, {}) for key in keys)
        for pod, row in rows:
            fresh.add(pod, row)
        assert self.by_namespace == fresh.by_namespace, "pods by namespace"
        assert self._by_label == fresh._by_label, "pods by label"
