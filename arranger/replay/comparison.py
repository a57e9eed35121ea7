"""Runs both experiments under several policies and compares the results."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from arranger.replay.packing import PackingResult, run_packing
from arranger.replay.policies import POLICIES
from arranger.replay.queueing import QueueingResult, run_queueing
from arranger.replay.trace import Trace, TraceNode, TracePod


class PolicyError(ValueError):
    """The policy is unknown; the message names those that are known."""


@dataclass(frozen=True, slots=True)
class PolicyResult:
    """The results of both experiments under one policy."""

    policy: str
    packing: PackingResult
    queueing: QueueingResult

    def as_json(self) -> dict[str, Any]:
        """The form that scripts read; per cent and seconds."""
        packing, queueing = self.packing, self.queueing
        return {
            "policy": self.policy,
            "allocatedGpuPercentAtCapacity": _rounded(packing.allocated_at_capacity),
            "allocatedGpuPercent": _rounded(packing.allocated),
            "fragmentationPercent": _rounded(packing.fragmentation),
            "unplacedPods": packing.unplaced,
            "waitingSeconds": {
                "pods": queueing.waited,
                "mean": _rounded(queueing.mean),
                "p50": _rounded(queueing.percentile(50)),
                "p95": _rounded(queueing.percentile(95)),
                "max": _rounded(queueing.percentile(100)),
                "unplacedPods": queueing.unplaced,
            },
            "samples": [
                {
                    "arrivedGpuPercent": _rounded(sample.arrived),
                    "allocatedGpuPercent": _rounded(sample.allocated),
                    "fragmentationPercent": _rounded(sample.fragmentation),
                }
                for sample in packing.samples
            ],
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    """The runs of one trace, all with the same pods in the same order."""

    trace: Trace
    seed: int
    speedup: float
    results: tuple[PolicyResult, ...]

    def footnotes(self) -> tuple[str, ...]:
        """The conditions of the comparison, a sentence each."""
        trace = self.trace
        asked = sum(pod.gpus for pod in trace.pods)
        footnotes = [
            f"{len(trace.pods)} pods that ask for {asked} GPUs, "
            f"{len(trace.nodes)} nodes that offer {trace.gpus}; seed {self.seed}.",
            f"{trace.fractional_pods} pods ask for a fraction of a GPU, which counts as a whole "
            "one.",
            f"Waiting: arrivals {self.speedup:g} times as fast as in the trace, "
            "durations as they are.",
        ]
        unplaced = ((run.queueing.unplaced, run.policy) for run in self.results)
        if never := [f"{count} ({policy})" for count, policy in unplaced if count]:
            footnotes.append(f"Never placed, and in no waiting time: {', '.join(never)}.")
        return tuple(footnotes)

    def as_json(self) -> dict[str, Any]:
        """The form that scripts read."""
        return {
            "nodes": len(self.trace.nodes),
            "gpus": self.trace.gpus,
            "pods": len(self.trace.pods),
            "fractionalPodsCountedWhole": self.trace.fractional_pods,
            "seed": self.seed,
            "speedup": self.speedup,
            "policies": [run.as_json() for run in self.results],
        }


def compare(
    trace: Trace,
    policies: Iterable[str] = (),
    *,
    seed: int = 0,
    speedup: float = 50_000.0,
    on_start: Callable[[str], None] = lambda policy: None,  # noqa: ARG005
) -> Comparison:
    """Replay a trace under each policy, all of them by default; equal arguments, equal outcome.

    The seed draws in which order the pods come and which of equally good nodes is taken.

    Args:
        on_start: called with each policy's name before it is run.

    Raises:
        PolicyError: a policy is not known.
    """
    names = tuple(dict.fromkeys(policies)) or tuple(POLICIES)
    for name in names:
        if name not in POLICIES:
            raise PolicyError(f"no policy named {name!r}; there are {', '.join(POLICIES)}")
    nodes, pods = _shuffled(trace, seed)
    results: list[PolicyResult] = []
    for name in names:
        on_start(name)
        policy = POLICIES[name]
        packing = run_packing(nodes, pods, policy)
        queueing = run_queueing(nodes, pods, policy, speedup=speedup)
        results.append(PolicyResult(name, packing, queueing))
    return Comparison(trace, seed, speedup, tuple(results))


def _shuffled(trace: Trace, seed: int) -> tuple[Sequence[TraceNode], Sequence[TracePod]]:
    """Nodes and pods in another order; the arrival times stay, and other pods come at them.

    The engine takes the first of equally good nodes, so their order decides between them.
    """
    rng = random.Random(seed)
    nodes, pods = list(trace.nodes), list(trace.pods)
    rng.shuffle(nodes)
    rng.shuffle(pods)
    slots = zip(pods, trace.pods, strict=True)
    return nodes, [replace(pod, arrival=slot.arrival) for pod, slot in slots]


def _rounded(number: float) -> float:
    return round(number, 3)
