"""The demo: the embedded cluster over HTTP, hollow kubelets, scheduler and controllers."""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import yaml

from arranger.cli.simulation.arrivals import Arrivals
from arranger.cli.simulation.ending import HasIdle
from arranger.cli.simulation.result import SimulationResult, collect_result
from arranger.cli.simulation.timeline import Timeline
from arranger.controllers.manager import run_controllers
from arranger.controllers.runtime.controller import ControllerOptions
from arranger.daemon.config.schema import Config, LeaderElectionConfig
from arranger.daemon.scheduler import Scheduler
from arranger.embedded import Object
from arranger.embedded.kubelet import HollowKubelets
from arranger.embedded.server import EmbeddedCluster
from arranger.embedded.transport.http import serve
from arranger.embedded.workloads.controllers import HollowControllers
from arranger.kube.client.aiohttp_transport import HttpTransport
from arranger.kube.client.credentials import ApiServerConfig

#: Seconds without a change after which the demo ends, and after which it ends in any case.
QUIET_SECONDS = 2.5
MAX_SECONDS = 60.0


async def run_demo(
    cluster: EmbeddedCluster,
    manifests: list[tuple[str, Object]],
    *,
    port: int,
    keep: bool,
    progress: Callable[[SimulationResult], None],
    serving: Callable[[str, Path], None],
) -> SimulationResult:
    """Run the demo in a cluster; with ``keep`` until cancelled, else until nothing changes.

    ``serving`` is called with the URL and a kubeconfig for it, ``progress`` twice a second with
    what has happened so far.

    Raises:
        KeyboardInterrupt: it was stopped by Ctrl-C or SIGTERM.
        ManifestError: the server refuses an object.
        OSError: the port is taken.
    """
    started = asyncio.get_running_loop().time()
    timeline = Timeline(asyncio.get_running_loop().time)
    cluster.store.subscribe(timeline.on_change)
    config = Config(leader_election=LeaderElectionConfig(resource_namespace="kube-system"))
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(serve(cluster, port=port))
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="arranger-demo-"))
        serving(url, _write_kubeconfig(Path(folder), url))
        server = ApiServerConfig(url)
        transport, kubelet_transport = HttpTransport(server), HttpTransport(server)
        stack.push_async_callback(transport.close)
        stack.push_async_callback(kubelet_transport.close)
        scheduler = Scheduler(transport, config, identity="demo", rng=random.Random())
        kubelets = HollowKubelets(kubelet_transport)
        workloads = HollowControllers(cluster)
        parts = (scheduler.run(), kubelets.run(), workloads.run())
        work = [asyncio.create_task(part) for part in parts]
        try:
            arrivals = Arrivals(cluster, manifests)
            work.append(asyncio.create_task(arrivals.run()))
            # When the definitions are there, so that nobody has to wait for them to be found.
            controllers = run_controllers(server, ControllerOptions(debounce=0.2))
            work.append(asyncio.create_task(controllers))

            def report() -> None:
                passed = asyncio.get_running_loop().time() - started
                progress(collect_result(cluster, passed, timeline=timeline))

            await _until_quiet(cluster, [kubelets, arrivals], work, keep=keep, report=report)
        finally:
            scheduler.stop()
            for task in work[1:]:
                task.cancel()
            await asyncio.wait(work)
    passed = asyncio.get_running_loop().time() - started
    return collect_result(cluster, passed, ignored=arrivals.ignored, timeline=timeline)


async def _until_quiet(
    cluster: EmbeddedCluster,
    parts: Sequence[HasIdle],
    work: list[asyncio.Task[None]],
    *,
    keep: bool,
    report: Callable[[], None],
) -> None:
    loop = asyncio.get_running_loop()
    started = changed = loop.time()
    seen = -1
    while keep or (loop.time() - changed < QUIET_SECONDS and loop.time() - started < MAX_SECONDS):
        for task in work:
            if task.done():
                task.result()
                # It was Ctrl-C: in the main thread kopf hears of signals first.
                raise KeyboardInterrupt
        # Not the store's version: the lease is renewed every two seconds.
        version = sum(
            int(obj["metadata"]["resourceVersion"])
            for plural, group in (("pods", ""), ("nodes", ""), ("tyjobs", "arranger.io"))
            for obj in cluster.objects(plural, group)
        )
        if version != seen or not all(part.idle for part in parts):
            seen, changed = version, loop.time()
        report()
        await asyncio.sleep(0.5)


def _write_kubeconfig(folder: Path, url: str) -> Path:
    name = "arranger-demo"
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": {"server": url}}],
        "users": [{"name": "demo", "user": {}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": "demo"}}],
    }
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(content))
    return path
