"""Runs both experiments under several policies, and says what came of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from arranger.replay.packing import Filled, fill
from arranger.replay.policies import POLICIES
from arranger.replay.queueing import Flowed, flow
from arranger.replay.trace import Trace, TraceNode, TracePod


class PolicyError(ValueError):
    """Nobody knows the policy; the message names those that are known."""


@dataclass(frozen=True, slots=True)
class Run:
    """What one policy did."""

    policy: str
    filled: Filled
    flowed: Flowed

    def as_json(self) -> dict[str, Any]:
        """The form that scripts read; per cent and seconds."""
        filled, flowed = self.filled, self.flowed
        return {
            "policy": self.policy,
            "allocatedGpuPercentAtCapacity": _rounded(filled.allocated_at_capacity),
            "allocatedGpuPercent": _rounded(filled.allocated),
            "fragmentationPercent": _rounded(filled.fragmentation),
            "unplacedPods": filled.unplaced,
            "waitingSeconds": {
                "pods": flowed.waited,
                "mean": _rounded(flowed.mean),
                "p50": _rounded(flowed.percentile(50)),
                "p95": _rounded(flowed.percentile(95)),
                "max": _rounded(flowed.percentile(100)),
                "unplacedPods": flowed.unplaced,
            },
            "samples": [
                {
                    "arrivedGpuPercent": _rounded(sample.arrived),
                    "allocatedGpuPercent": _rounded(sample.allocated),
                    "fragmentationPercent": _rounded(sample.fragmentation),
                }
                for sample in filled.samples
            ],
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    """The runs of one trace, all with the same pods in the same order."""

    trace: Trace
    seed: int
    speedup: float
    runs: tuple[Run, ...]

    def facts(self) -> tuple[str, ...]:
        """What a reader must know to read the numbers, a sentence each."""
        trace = self.trace
        asked = sum(pod.gpus for pod in trace.pods)
        facts = [
            f"{len(trace.pods)} pods that ask for {asked} GPUs, "
            f"{len(trace.nodes)} nodes that offer {trace.gpus}; seed {self.seed}.",
            f"{trace.fractions} pods ask for a fraction of a GPU, which counts as a whole one.",
            f"Waiting: arrivals {self.speedup:g} times as fast as in the trace, "
            "durations as they are.",
        ]
        never = [
            f"{run.flowed.unplaced} ({run.policy})" for run in self.runs if run.flowed.unplaced
        ]
        if never:
            facts.append(f"Never placed, and in no waiting time: {', '.join(never)}.")
        return tuple(facts)

    def as_json(self) -> dict[str, Any]:
        """The form that scripts read."""
        return {
            "nodes": len(self.trace.nodes),
            "gpus": self.trace.gpus,
            "pods": len(self.trace.pods),
            "fractionalPodsCountedWhole": self.trace.fractions,
            "seed": self.seed,
            "speedup": self.speedup,
            "policies": [run.as_json() for run in self.runs],
        }


def compare(
    trace: Trace,
    policies: Iterable[str] = (),
    *,
    seed: int = 0,
    speedup: float = 50_000.0,
    starting: Callable[[str], None] = lambda policy: None,  # noqa: ARG005
) -> Comparison:
    """Replay a trace under each policy, all of them by default; equal arguments, equal outcome.

    The seed draws in which order the pods come and which of equally good nodes is taken.

    Args:
        starting: hears of each policy before its turn.

    Raises:
        PolicyError: a policy is not known.
    """
    names = tuple(dict.fromkeys(policies)) or tuple(POLICIES)
    for name in names:
        if name not in POLICIES:
            raise PolicyError(f"no policy named {name!r}; there are {', '.join(POLICIES)}")
    nodes, pods = _shuffled(trace, seed)
    runs: list[Run] = []
    for name in names:
        starting(name)
        policy = POLICIES[name]
        filled = fill(nodes, pods, policy)
        runs.append(Run(name, filled, flow(nodes, pods, policy, speedup=speedup)))
    return Comparison(trace, seed, speedup, tuple(runs))


def _shuffled(trace: Trace, seed: int) -> tuple[Sequence[TraceNode], Sequence[TracePod]]:
    """Nodes and pods in another order; the arrival times stay, and other pods come at them.

    The core takes the first of equally good nodes, so their order decides between them.
    """
    rng = random.Random(seed)
    nodes, pods = list(trace.nodes), list(trace.pods)
    rng.shuffle(nodes)
    rng.shuffle(pods)
    slots = zip(pods, trace.pods, strict=True)
    return nodes, [replace(pod, arrival=slot.arrival) for pod, slot in slots]


def _rounded(number: float) -> float:
    return round(number, 3)
