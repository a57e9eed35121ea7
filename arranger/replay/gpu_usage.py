"""What is free on every node of a trace, and how much of it is fragmented.

Fragmentation is the measure of Weng et al., *Beware of Fragmentation: Scheduling GPU-Sharing
Workloads with Fragmentation Gradient Descent* (USENIX ATC 2023): what a pod drawn at random
from the trace cannot use of the free GPUs. For one pod, all free GPUs of a node are fragments if
the pod does not fit there (too little CPU, memory or GPUs, or another model) or wants no GPU at
all; otherwise none are, as long as GPUs are whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arranger.replay.trace import TraceNode, TracePod


class GpuUsage:
    """The free CPU (millicores), memory (MiB) and GPUs of every node."""

    def __init__(self, nodes: Sequence[TraceNode], pods: Sequence[TracePod]) -> None:
        """``pods`` weight the fragments: how frequent each kind of request is among them."""
        self._row = {node.name: row for row, node in enumerate(nodes)}
        rows = [(node.cpu, node.memory, node.gpus) for node in nodes]
        #: ``[resource, row]``
        self._free: NDArray[np.int64] = np.array(rows, dtype=np.int64).T.copy()
        models = np.array([node.model for node in nodes])
        #: For each kind of request: (amounts, nodes with a model it accepts, share of the pods).
        self._pod_classes: list[tuple[NDArray[np.int64], NDArray[np.bool_], float]] = []
        counts = Counter((p.cpu, p.memory, p.gpus, p.models) for p in pods if p.gpus)
        for (cpu, memory, total_gpus, wanted), count in counts.items():
            asks = np.array([[cpu], [memory], [total_gpus]], dtype=np.int64)
            there = np.isin(models, wanted) if wanted else np.ones(len(models), dtype=np.bool_)
            self._pod_classes.append((asks, there, count / len(pods)))
        self.gpus = self.free_gpus

    @property
    def free_gpus(self) -> int:
        """The GPUs that no pod has."""
        return int(self._free[2].sum())

    def allocate(self, pod: TracePod, node: str) -> None:
        """The pod runs on the node now."""
        self._free[:, self._row[node]] -= (pod.cpu, pod.memory, pod.gpus)

    def release(self, pod: TracePod, node: str) -> None:
        """The pod has ended on the node."""
        self._free[:, self._row[node]] += (pod.cpu, pod.memory, pod.gpus)

    def fragmented_gpus(self) -> float:
        """The free GPUs that a pod of the trace cannot use, expected over the pods."""
        usable: NDArray[Any] = np.zeros(self._free.shape[1])
        for asks, there, share in self._pod_classes:
            usable += share * ((self._free >= asks).all(axis=0) & there)
        return float(((1.0 - usable) * self._free[2]).sum())
