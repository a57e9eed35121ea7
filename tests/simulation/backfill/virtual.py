"""A trace in virtual time: the engine, and a server and kubelets that do at once what it asks."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec

from arranger.api.effects import Applied, Bind, Effect
from arranger.api.types.core import Pod
from arranger.engine.assembly.settings import EngineSettings
from arranger.engine.engine import Engine
from arranger.engine.gang.state.policy import GangPolicy
from arranger.plugins import default_profile
from tests.builders import a_node, a_pod
from tests.simulation.backfill.traces import CPUS, NODES, Job

#: A plan for whoever does not fit, for as long as it takes, on all nodes.
PLANNED = GangPolicy(
    starvation_after=0.0, reservation_seconds=1e9, reservation_max_nodes_percent=100
)
UNPLANNED = GangPolicy(starvation_after=float("inf"))


@dataclass
class Played:
    """What became of a trace.

    Attributes:
        starts: job → when it started.
        promises: (job, start that was told, when it was told), of known ends.
        estimates: job → the first start that was told as an estimate.
        broken: as the engine counts it.
    """

    starts: dict[str, int] = field(default_factory=dict)
    promises: list[tuple[str, float, int]] = field(default_factory=list)
    estimates: dict[str, float] = field(default_factory=dict)
    broken: int = 0

    def late(self) -> list[tuple[str, float, int]]:
        """The promises that were not kept, to the second."""
        return [each for each in self.promises if self.starts[each[0]] > each[1]]


@dataclass
class Machine:
    """One engine and its cluster.

    Attributes:
        delay: seconds by which kubelets are late to start pods, and to end them.
    """

    policy: GangPolicy
    with_limits: bool = True
    delay: int = 0
    engine: Engine = field(init=False)
    played: Played = field(default_factory=Played)
    now: int = 0
    pods: dict[str, dict[str, Any]] = field(default_factory=dict)
    jobs: dict[str, Job] = field(default_factory=dict)
    running: list[tuple[int, str]] = field(default_factory=list)
    starting: list[tuple[int, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Another engine takes over: it knows what objects say, and nothing else."""
        self.engine = Engine(EngineSettings([default_profile()], gang_policy=self.policy))
        for n in range(NODES):
            node = a_node(f"n{n}").offers(cpu=CPUS, pods=110).build()
            self.engine.handlers.on_node_updated(node, self.now)
        for pod in self.pods.values():
            self._show(pod)

    def play(self, trace: Sequence[Job], *, checked: bool = False) -> Played:
        """Until every job has started."""
        arrivals = list(trace)
        while len(self.played.starts) < len(trace):
            times = [arrivals[0].arrives] if arrivals else []
            times += [each[0][0] for each in (self.running, self.starting) if each]
            assert times, "nothing runs, nothing comes, and something waits"
            self.step(max(self.now, min(times)), arrivals)
            if checked:
                self.engine.check_consistent()
        return self.played

    def step(self, now: int, arrivals: list[Job]) -> None:
        """Jobs end and come, and the engine does what follows."""
        self.now = now
        while self.starting and self.starting[0][0] <= now:
            self._start(self.pods[heapq.heappop(self.starting)[1]])
        while self.running and self.running[0][0] <= now:
            self._end(self.jobs[heapq.heappop(self.running)[1]])
        while arrivals and arrivals[0].arrives <= now:
            self._arrive(arrivals.pop(0))
        self.run()

    def run(self) -> None:
        """Until nothing is left to be done now."""
        done = self.engine.run(self.now)
        while done or self.engine.ready:
            for effect in done:
                self._carry_out(effect)
            done = self.engine.run(self.now)
        self.played.broken += sum(self.engine.take_stats().broken_promises.values())
        for name, gang in self.engine.registry.gangs.items():
            start, job = gang.planned_start, name.partition("/")[2]
            if start is None or job in self.played.starts:
                continue
            if start.known:
                self.played.promises.append((job, start.at, self.now))
            else:
                self.played.estimates.setdefault(job, start.at)

    # --- inside ------------------------------------------------------------------------------

    def _show(self, manifest: dict[str, Any]) -> None:
        self.engine.handlers.on_pod_updated(msgspec.convert(manifest, Pod), self.now)

    def _arrive(self, job: Job) -> None:
        self.jobs[job.name] = job
        for n in range(job.size):
            name = f"{job.name}-{n}"
            pod = a_pod(name).needs(cpu=1).in_gang(job.name, job.size)
            if self.with_limits:
                pod = pod.with_spec(activeDeadlineSeconds=job.limit)
            manifest = pod.manifest()
            manifest["metadata"]["creationTimestamp"] = _at(job.arrives)
            self.pods[name] = manifest
            self._show(manifest)

    def _carry_out(self, effect: Effect) -> None:
        self.engine.on_outcome(effect, Applied(), self.now)
        if not isinstance(effect, Bind):
            return
        manifest = self.pods[effect.pod.name]
        manifest["spec"]["nodeName"] = effect.node
        if self.delay:
            heapq.heappush(self.starting, (self.now + self.delay, effect.pod.name))
            self._show(manifest)
        else:
            self._start(manifest)
        job = self.jobs[effect.pod.name.rpartition("-")[0]]
        if job.name not in self.played.starts:
            self.played.starts[job.name] = self.now
            heapq.heappush(self.running, (self.now + job.lasts + 2 * self.delay, job.name))

    def _start(self, manifest: dict[str, Any]) -> None:
        manifest["status"] = {"phase": "Running", "startTime": _at(self.now)}
        self._show(manifest)

    def _end(self, job: Job) -> None:
        for n in range(job.size):
            manifest = self.pods.pop(f"{job.name}-{n}")
            manifest["status"]["phase"] = "Succeeded"
            self._show(manifest)
            self.engine.handlers.on_pod_deleted(f"default/{job.name}-{n}", self.now)


def _at(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
