"""Runs our daemon as the process users run, with the rights users give it."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.controlplane.admin import PATIENCE, until
from tests.controlplane.harness import ControlPlane
from tests.paths import REPO
from tests.processes import start_arranger


def manifests(*files: str) -> Iterator[dict[str, Any]]:
    """The objects of files of this repository."""
    for file in files:
        yield from yaml.safe_load_all((REPO / file).read_text())


async def install_rbac(plane: ControlPlane) -> None:
    """Create the namespace, the service account and its rights from ``manifests/``; idempotent.

    With the policies on what our accounts may write, so that each test says what these refuse.
    """
    files = ("10-namespace", "20-rbac", "90-own-writes")
    for manifest in manifests(*(f"manifests/{file}.yaml" for file in files)):
        path = await plane.collection(manifest)
        status, answer = await plane.request("POST", path, manifest)
        assert status in (201, 409), answer


@dataclass(slots=True)
class Daemon:
    """``arranger run`` in a process of its own."""

    process: asyncio.subprocess.Process
    log: Path

    @classmethod
    async def start(
        cls, plane: ControlPlane, name: str = "daemon", *, config: dict[str, object] | None = None
    ) -> Daemon:
        """Start with the service account of ``manifests/``; leases of tests are short."""
        token = await plane.service_account_token("arranger-system", "arranger")
        kubeconfig = plane.kubeconfig(f"arranger-{name}", token)
        file = plane.folder / f"{name}.yaml"
        content: dict[str, object] = {
            "apiVersion": "arranger.io/v1alpha1",
            "kind": "SchedulerConfiguration",
            "server": {"host": "127.0.0.1", "port": 0},
            # As short as a server allows that shares two cores with all of this.
            "leaderElection": {"leaseDuration": 6, "renewDeadline": 5, "retryPeriod": 0.5},
        }
        file.write_text(yaml.safe_dump(content | (config or {})))
        await plane.record(config or {})
        return await cls.launch(
            plane, name, "run", f"--kubeconfig={kubeconfig}", f"--config={file}"
        )

    @classmethod
    async def controllers(cls, plane: ControlPlane, name: str = "controllers") -> Daemon:
        """``arranger controllers`` instead, with the service account of ``manifests/``."""
        token = await plane.service_account_token("arranger-system", "arranger-controllers")
        kubeconfig = plane.kubeconfig(f"arranger-{name}", token)
        return await cls.launch(plane, name, "controllers", f"--kubeconfig={kubeconfig}")

    @classmethod
    async def launch(cls, plane: ControlPlane, name: str, *args: str) -> Daemon:
        """``arranger`` with these arguments; ``name`` is that of its log."""
        log = plane.folder / f"{name}.log"
        process = await start_arranger(*args, log=log, append=True)
        plane.clients.append(process)
        return cls(process, log)

    def log_lines(self) -> str:
        """All it has logged."""
        return self.log.read_text(errors="replace")

    async def examined(self) -> dict[str, Any]:
        """How much the scheduler holds, once it has found its books in order."""
        before = len(self._examinations())
        self.process.send_signal(signal.SIGUSR2)

        async def reported() -> bool:
            return len(self._examinations()) > before

        await until(reported, what="the scheduler's report on itself")
        report = self._examinations()[-1]
        assert report["event"] == "engine.consistent", report
        return report

    def _examinations(self) -> list[dict[str, Any]]:
        """Every time it has looked into its own books."""
        lines = self.log_lines().splitlines()
        return [json.loads(line) for line in lines if "consistent" in line]

    async def kill(self) -> None:
        """``kill -9``."""
        if self.process.returncode is None:
            self.process.kill()
            await self.process.wait()

    async def stop(self) -> int:
        """SIGTERM; the exit status."""
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGTERM)
        return await asyncio.wait_for(self.process.wait(), PATIENCE)
