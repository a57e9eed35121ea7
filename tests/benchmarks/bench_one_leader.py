"""How far one scheduler goes beside a server that is not the limit.

    python -m tests.benchmarks.bench_one_leader [--nodes 5000] [--pods 20000]

The daemon, a process as users run it, with TLS and Events, beside ``stubserver``, which stores and
checks nothing. Prints the Bindings a second from the first to the last, and the CPU of both a pod.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from pathlib import Path
from typing import Any, Final

import yaml

from tests.controlplane.harness import cpu_seconds
from tests.differential.go_program import GoProgram
from tests.processes import start_arranger

#: Seconds after which a run that has not ended is given up.
PATIENCE: Final = 300.0


class StubServer(GoProgram):
    """Only where it is built."""

    name = "stubserver"


async def run(nodes: int, pods: int) -> str:
    """What one run took, as a line."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        server = await asyncio.create_subprocess_exec(
            StubServer.path(),
            *(f"--nodes={nodes}", f"--pods={pods}", f"--folder={folder}"),
            stdout=asyncio.subprocess.PIPE,
        )
        assert server.stdout is not None, "asked for with PIPE"
        daemon: asyncio.subprocess.Process | None = None
        try:
            async with asyncio.timeout(PATIENCE):
                url = (await server.stdout.readline()).decode().strip()
                daemon = await start_arranger(*_options(folder, url), log=folder / "log")
                await server.stdout.readline()
                before = cpu_seconds(daemon.pid)
                told: dict[str, Any] = json.loads(await server.stdout.readline())
                cpu = cpu_seconds(daemon.pid) - before
        finally:
            for process in (server, daemon):
                if process is not None:
                    process.kill()
                    await process.wait()
    return (
        f"{nodes} nodes, {pods} pods: {(pods - 1) / told['seconds']:.0f} Bindings/s,"
        f" {1000 * cpu / pods:.3f} ms CPU a pod ({cpu / told['seconds']:.2f} of a core),"
        f" the server's {1000 * told['server_cpu'] / pods:.3f}"
    )


def _options(folder: Path, url: str) -> tuple[str, ...]:
    """Those of the daemon, of which the files are written."""
    cluster = {"server": url, "certificate-authority": str(folder / "ca.crt")}
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "stub",
        "clusters": [{"name": "stub", "cluster": cluster}],
        "users": [{"name": "stub", "user": {"token": "stub"}}],
        "contexts": [{"name": "stub", "context": {"cluster": "stub", "user": "stub"}}],
    }
    config = {
        "apiVersion": "arranger.io/v1alpha1",
        "kind": "SchedulerConfiguration",
        "server": {"host": "127.0.0.1", "port": 0},
        "leaderElection": {"leaderElect": False},
    }
    for name, content in (("kubeconfig", kubeconfig), ("config", config)):
        (folder / name).write_text(yaml.safe_dump(content))
    return "run", f"--kubeconfig={folder / 'kubeconfig'}", f"--config={folder / 'config'}"


def main() -> None:
    """Run once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=20_000)
    args = parser.parse_args()
    print(asyncio.run(run(args.nodes, args.pods)))


if __name__ == "__main__":
    main()
