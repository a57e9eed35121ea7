"""kubectl as it is published, for tests that look at what it answers."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.controlplane.admin import PATIENCE
from tests.controlplane.clients.terminal import kubectl_path
from tests.controlplane.harness import ControlPlane

#: How long ``kubectl wait`` waits.
WITHIN = f"--timeout={PATIENCE:g}s"


@dataclass
class Kubectl:
    """A person's kubectl, with the rights of an administrator.

    ::

        await kubectl("get", "queues", "-o", "wide")
    """

    plane: ControlPlane
    environment: dict[str, str] = field(default_factory=dict)

    async def __call__(self, *words: str, given: object = None) -> str:
        """What a command prints that must succeed; ``given`` is its ``-f -``."""
        status, printed = await self.run(*words, given=given)
        assert status == 0, f"{words}\n{printed}"
        return printed

    async def refused(self, *words: str, given: object = None) -> str:
        """What a command says that must fail."""
        status, printed = await self.run(*words, given=given)
        assert status != 0, f"{words}\n{printed}"
        return printed

    async def run(self, *words: str, given: object = None) -> tuple[int, str]:
        """Exit status and output."""
        process = await self._start(*words)
        manifest = b"" if given is None else json.dumps(given).encode()
        printed, _ = await process.communicate(manifest)
        assert process.returncode is not None
        return process.returncode, printed.decode()

    @asynccontextmanager
    async def watching(self, *words: str) -> AsyncIterator[asyncio.StreamReader]:
        """A command that goes on and what it prints."""
        process = await self._start(*words)
        assert process.stdout is not None
        try:
            yield process.stdout
        finally:
            process.terminate()
            await process.communicate()

    async def _start(self, *words: str) -> asyncio.subprocess.Process:
        home: Path = self.plane.kubeconfig("person")
        # What it knows of one test's server is not true of the next that has the same port.
        cache = str(self.plane.folder / "kubectl-cache")
        return await asyncio.create_subprocess_exec(
            kubectl_path(),
            *words,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={
                **os.environ,
                "KUBECONFIG": str(home),
                "KUBECACHEDIR": cache,
                **self.environment,
            },
        )
