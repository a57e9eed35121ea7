"""The first experiment: pods come and stay until the cluster is full.

It is that of Weng et al. (USENIX ATC 2023): the pods of the trace arrive in random order, none
ends, and one that finds no node is not tried again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from arranger.replay.gpu_usage import GpuUsage
from arranger.replay.policies import Policy
from arranger.replay.simulator import TraceSimulator
from arranger.replay.trace import TraceNode, TracePod


@dataclass(frozen=True, slots=True)
class Sample:
    """One moment, in per cent.

    Attributes:
        arrived: GPUs that the pods so far asked for, of all GPUs.
        allocated: GPUs that pods have, of all GPUs.
        fragmentation: fragmented GPUs of the free ones, 0 where none is free; see
            :mod:`arranger.replay.gpu_usage`.
    """

    arrived: float
    allocated: float
    fragmentation: float


@dataclass(frozen=True, slots=True)
class PackingResult:
    """How the cluster filled: samples, the last one at the end, and pods that found no node."""

    samples: tuple[Sample, ...]
    unplaced: int

    @property
    def allocated_at_capacity(self) -> float:
        """Allocated GPUs when pods had asked for as many as there are, or at the end if sooner."""
        reached = (s.allocated for s in self.samples if s.arrived >= 100)
        return next(reached, self.allocated)

    @property
    def allocated(self) -> float:
        """Allocated GPUs at the end, in per cent."""
        return self.samples[-1].allocated

    @property
    def fragmentation(self) -> float:
        """The mean until pods have asked for as many GPUs as there are, in per cent."""
        rates = [sample.fragmentation for sample in self.samples if sample.arrived <= 100]
        return sum(rates) / len(rates)


def run_packing(
    nodes: Sequence[TraceNode], pods: Sequence[TracePod], policy: Policy
) -> PackingResult:
    """Let the pods come in this order; a sample for every per cent of the cluster's GPUs."""
    simulator = TraceSimulator(nodes, policy)
    gpu_usage = GpuUsage(nodes, pods)
    samples = [_sample(gpu_usage, 0)]
    arrived = unplaced = 0
    for n, pod in enumerate(pods, start=1):
        arrived += pod.gpus
        simulator.create_pod(pod, 0.0)
        placed = simulator.run_scheduler(0.0)
        if not placed:
            unplaced += 1
            simulator.delete_pod(pod, 0.0)
        for _, node in placed:
            gpu_usage.allocate(pod, node)
        if n == len(pods) or 100 * arrived >= len(samples) * gpu_usage.gpus:
            samples.append(_sample(gpu_usage, arrived))
    return PackingResult(tuple(samples), unplaced)


def _sample(gpu_usage: GpuUsage, arrived: int) -> Sample:
    free = gpu_usage.free_gpus
    return Sample(
        arrived=100 * arrived / gpu_usage.gpus,
        allocated=100 * (gpu_usage.gpus - free) / gpu_usage.gpus,
        fragmentation=100 * gpu_usage.fragmented_gpus() / free if free else 0.0,
    )
