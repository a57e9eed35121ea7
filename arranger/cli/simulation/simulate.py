"""Schedules manifests in an embedded cluster, in virtual time, until nothing changes any more."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any, Final

from arranger.cli.simulation.arrivals import Arrivals
from arranger.cli.simulation.asked import pods_asked_for
from arranger.cli.simulation.controllers import JobControllers
from arranger.cli.simulation.ending import Bounds, End, EndReason, Movement
from arranger.cli.simulation.goal import PLACED, Goal
from arranger.cli.simulation.result import SimulationResult, collect_result
from arranger.cli.simulation.timeline import Timeline
from arranger.daemon.config.schema import Config, LeaderElectionConfig
from arranger.daemon.scheduler import Scheduler
from arranger.embedded import Object
from arranger.embedded.kubelet import HollowKubelets
from arranger.embedded.server import EmbeddedCluster
from arranger.embedded.transport.in_process import InProcessTransport
from arranger.embedded.virtual_time import run_virtual, virtual_now
from arranger.embedded.workloads.controllers import HollowControllers

#: Virtual seconds after which a simulation ends in any case, unless told otherwise: 30 days.
MAX_SECONDS: Final = 30 * 86_400.0
#: Virtual seconds without movement that end a simulation, longer than an unschedulable pod stays in
#: the queue untried (five minutes); to them is added what gangs wait and starve.
_QUIET_SECONDS: Final = 400.0
#: The writes that a simulation may take: so many, and so many for each object of the manifests and
#: each pod that they ask for. One that is placed and runs to its end takes about ten.
_WRITES: Final = 10_000
_WRITES_EACH: Final = 100
#: And so many where CronJobs start Jobs again and again: one a minute for five days.
_WRITES_SCHEDULED: Final = 100_000


class Deadlines:
    """What a scheduler does later though nothing happens, but for its housekeeping."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    @property
    def idle(self) -> bool:
        """Whether nobody will have waited or run for too long."""
        return self._scheduler.engine.next_deadline() is None


def simulate(
    manifests: Iterable[tuple[str, Object]],
    config: Config,
    *,
    seed: int = 0,
    max_seconds: float = MAX_SECONDS,
    all_pods: bool = False,
    until: Goal | None = None,
    schedules: bool = False,
) -> SimulationResult:
    """Load the manifests, schedule until nothing changes, and tell what became of every pod.

    Args:
        seed: equal ones give equal runs.
        max_seconds: of virtual time, after which it ends in any case.
        all_pods: schedule the pods of other schedulers too.
        until: what ends it before nothing changes any more.
        schedules: whether CronJobs are due when their schedules say; else once, and at once.

    Raises:
        ManifestError: the server refuses an object.
        ConfigError: the configured plugins cannot be used.
    """
    single_replica = config.model_copy(
        update={"leader_election": LeaderElectionConfig(leader_elect=False)}
    )
    return run_virtual(
        _simulate(
            list(manifests),
            single_replica,
            seed,
            max_seconds,
            until,
            all_pods=all_pods,
            schedules=schedules,
        )
    )


async def _simulate(
    manifests: list[tuple[str, Object]],
    config: Config,
    seed: int,
    max_seconds: float,
    until: Goal | None,
    *,
    all_pods: bool,
    schedules: bool,
) -> SimulationResult:
    cluster = EmbeddedCluster(now=virtual_now, rng=random.Random(seed))
    names = [profile.scheduler_name for profile in config.profiles]
    timeline = Timeline(asyncio.get_running_loop().time)
    silences = [cluster.store.subscribe(timeline.on_change)]
    gangs = config.gangs
    quiet = _QUIET_SECONDS + max(gangs.wait_time_seconds, gangs.starvation_after_seconds)
    writes = _WRITES + _WRITES_EACH * (len(manifests) + pods_asked_for(manifests))
    writes += _WRITES_SCHEDULED * schedules
    movement = Movement(Bounds(max_seconds, writes, quiet), until)
    silences.append(cluster.store.subscribe(movement.on_change))
    arrivals = Arrivals(cluster, manifests, scheduler=names[0] if all_pods else None)
    scheduler = Scheduler(
        InProcessTransport(cluster),
        config,
        identity="simulation",
        rng=random.Random(seed),
        clock=lambda: virtual_now().timestamp(),
        perf_counter=lambda: 0.0,
    )
    kubelets = HollowKubelets(InProcessTransport(cluster), now=virtual_now)
    workloads = HollowControllers(cluster, now=virtual_now, schedules=schedules)
    jobs = JobControllers(cluster, config, random.Random(seed))
    try:
        end = await _until_end(
            scheduler,
            movement.until_end(kubelets, workloads, arrivals, jobs, Deadlines(scheduler)),
            [kubelets.run(), workloads.run(), jobs.run(), arrivals.run()],
        )
    finally:
        for silence in silences:
            silence()
    return collect_result(
        cluster,
        movement.last,
        ignored=arrivals.ignored,
        end=end,
        timeline=timeline,
        missed=_missed(until, end, cluster.objects("pods")),
    )


def _missed(until: Goal | None, end: End, pods: list[Object]) -> str | None:
    """What was waited for in vain."""
    if until is None or end.reason is EndReason.GOAL:
        return None
    if until.text == PLACED and all(pod["spec"].get("nodeName") for pod in pods):
        return None  # nobody had to be waited for
    return until.text


async def _until_end(
    scheduler: Scheduler,
    ending: Coroutine[Any, Any, End],
    parts: Sequence[Coroutine[Any, Any, None]],
) -> End:
    """Let all of it work until the end; what fails before fails the simulation."""
    end = asyncio.create_task(ending)
    work = asyncio.create_task(scheduler.run())
    others = [asyncio.create_task(part) for part in parts]
    try:
        await asyncio.wait({end, work, *others}, return_when=asyncio.FIRST_COMPLETED)
        for task in (work, *others):
            if task.done():
                task.result()
    finally:
        for task in others:
            task.cancel()
        await asyncio.wait(others)
        scheduler.stop()
        await work
    return end.result()
