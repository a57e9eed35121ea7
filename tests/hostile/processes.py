"""``arranger run`` and ``arranger controllers`` as processes of their own."""

from __future__ import annotations

import asyncio
import re
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.processes import start_arranger

#: Kilobytes that a page of the lines of ``/proc/*/status`` counts in.
_KIB: Final = 1024
#: Seconds that a process may take to end in good order; kubelets give it 30.
STOPPED_WITHIN: Final = 25.0


@dataclass(slots=True)
class ArrangerProcess:
    """One running command."""

    name: str
    process: asyncio.subprocess.Process
    log: Path

    @classmethod
    async def launch(cls, name: str, folder: Path, *args: str) -> ArrangerProcess:
        """Start ``arranger`` with these arguments; its log is overwritten."""
        log = folder / f"{name}.log"
        return cls(name, await start_arranger(*args, log=log), log)

    @property
    def alive(self) -> bool:
        """Whether it has not ended."""
        return self.process.returncode is None

    def resident_bytes(self) -> int:
        """Memory that it uses now."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * _KIB
        return 0

    def complaints(self, lines: int = 12) -> str:
        """The last lines of its log that are no news, cut short: tracebacks, warnings, errors."""
        news = re.compile(rb'"level": "info"|bad_object')
        told = [line for line in self.log.read_bytes().splitlines() if not news.search(line)]
        return "\n".join(line[:500].decode(errors="replace") for line in told[-lines:])

    async def stop(self) -> int | None:
        """SIGTERM; the exit status, or None where it had to be killed."""
        if self.alive:
            self.process.send_signal(signal.SIGTERM)
            try:
                return await asyncio.wait_for(self.process.wait(), STOPPED_WITHIN)
            except TimeoutError:
                await self.kill()
                return None
        return self.process.returncode

    async def kill(self) -> None:
        """``kill -9``."""
        if self.alive:
            self.process.kill()
            await self.process.wait()
