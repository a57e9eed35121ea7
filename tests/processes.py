"""Starting ``arranger`` as a process of its own."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from tests.paths import REPO


async def start_arranger(*args: str, log: Path, append: bool = False) -> asyncio.subprocess.Process:
    """``arranger`` with these arguments, from this checkout; all that it says goes into ``log``."""
    # As installed: whoever may not write bytecode compiles everything at each start.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    with log.open("ab" if append else "wb") as out:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "arranger.cli.main",
            *args,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            cwd=REPO,
            env={**environment, "PYTHONPATH": str(REPO)},
        )
