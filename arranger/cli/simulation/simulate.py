"""Schedules manifests in an embedded cluster, in virtual time, until nothing changes any more."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

from arranger.cli.simulation.manifests import load_manifests
from arranger.cli.simulation.result import SimulationResult, collect_result
from arranger.daemon.config.schema import Config, LeaderElectionConfig
from arranger.daemon.scheduler import Scheduler
from arranger.embedded.kubelet import HollowKubelets
from arranger.embedded.server import EmbeddedCluster
from arranger.embedded.transport.in_process import InProcessTransport
from arranger.embedded.virtual_time import run_virtual, virtual_now

Object = dict[str, Any]

#: Kinds whose pods are made by controllers, which do not run in a simulation.
_WORKLOAD_KINDS: Final = frozenset(
    {
        "CronJob",
        "DaemonSet",
        "Deployment",
        "Job",
        "ReplicaSet",
        "ReplicationController",
        "StatefulSet",
        "TYJob",
    }
)
#: Virtual seconds without a write that end a simulation: longer than an unschedulable pod stays
#: in the queue untried (five minutes) and its back-off.
_QUIET_SECONDS: Final = 400.0


def simulate(
    manifests: Iterable[tuple[str, Object]], config: Config, *, seed: int = 0
) -> SimulationResult:
    """Load the manifests, schedule until nothing changes, and tell what became of every pod.

    Raises:
        ManifestError: the server refuses an object.
        ConfigError: the configured plugins cannot be used.
    """
    single_replica = config.model_copy(
        update={"leader_election": LeaderElectionConfig(leader_elect=False)}
    )
    return run_virtual(_simulate(list(manifests), single_replica, seed))


async def _simulate(
    manifests: list[tuple[str, Object]], config: Config, seed: int
) -> SimulationResult:
    cluster = EmbeddedCluster(now=virtual_now, rng=random.Random(seed))
    load_manifests(cluster, manifests)
    scheduler = Scheduler(
        InProcessTransport(cluster),
        config,
        identity="simulation",
        rng=random.Random(seed),
        clock=lambda: virtual_now().timestamp(),
    )
    work = asyncio.create_task(scheduler.run())
    kubelets = HollowKubelets(InProcessTransport(cluster), now=virtual_now)
    running = asyncio.create_task(kubelets.run())
    last_change = 0.0
    version = -1
    loop = asyncio.get_running_loop()
    while (loop.time() - last_change < _QUIET_SECONDS or not kubelets.idle) and not work.done():
        if cluster.store.version != version:
            version, last_change = cluster.store.version, loop.time()
        await asyncio.sleep(1.0)
    running.cancel()
    await asyncio.wait({running})
    scheduler.stop()
    await work
    kinds = Counter(manifest["kind"] for _, manifest in manifests)
    without_pods = {kind: kinds[kind] for kind in sorted(_WORKLOAD_KINDS & kinds.keys())}
    return collect_result(cluster, last_change, without_pods=without_pods)
