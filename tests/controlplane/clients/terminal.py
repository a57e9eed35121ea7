"""Types what the documentation says: kubectl as it is published, ``arranger`` of this checkout."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.controlplane.admin import until
from tests.controlplane.builds import is_built, published
from tests.paths import REPO

#: What the documentation types and nobody can type here, because it needs a container engine or
#: makes what is there already.
NOT_TYPED: Final = ("docker ", "make ")


def kubectl_path() -> str:
    """The kubectl that ``make kubectl`` builds, or else the one that is installed.

    Skips the test where there is neither, with the command that would make it run.
    """
    installed = shutil.which("kubectl")
    return installed if installed and not is_built("kubectl") else str(published("kubectl"))


def commands(page: str, heading: str) -> Iterator[str]:
    """The commands of the fenced blocks of a page's section, without their comments."""
    text = (REPO / page).read_text()
    match = re.search(
        rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE
    )
    assert match, f"{page} has no section {heading!r}"
    for block in re.findall(r"^```\n(.*?)^```", match[1], re.DOTALL | re.MULTILINE):
        for line in block.splitlines():
            if words := shlex.split(line, comments=True):
                yield shlex.join(words)


@dataclass
class Terminal:
    """Where a reader types.

    Attributes:
        kubeconfig: of the reader, in the place of ``~/.kube/config``.
        expected: what a command that shows something is to show, sooner or later: how the command
            begins → a pattern in what it prints.
        environment: more of what the commands run in.
        replaced: words that the reader replaces, such as ``NODE``.
    """

    kubeconfig: Path
    expected: Mapping[str, str]
    environment: Mapping[str, str] = field(default_factory=dict)
    replaced: Mapping[str, str] = field(default_factory=dict)
    typed: list[str] = field(default_factory=list)

    async def type(self, command: str) -> str:
        """Run a command until it shows what is expected of it; what it printed.

        One that changes something is run once. Both must succeed.
        """
        self.typed.append(command)
        pattern = next((p for start, p in self.expected.items() if command.startswith(start)), None)
        shown = ""

        async def as_expected() -> bool:
            nonlocal shown
            status, shown = await self.run(command)
            if pattern is None:
                assert status == 0, f"{command}\n{shown}"
                return True
            return status == 0 and re.search(pattern, shown) is not None

        try:
            await until(as_expected)
        except TimeoutError:
            raise AssertionError(f"{command}\nshows no {pattern}:\n{shown}") from None
        return shown

    async def run(self, command: str) -> tuple[int, str]:
        """Exit status and output of a command; what it redirects goes into the reader's folder."""
        typed, _, file = command.partition(" '>' ")
        process = await self.start(typed)
        out, _ = await process.communicate()
        assert process.returncode is not None
        if file:
            (self.kubeconfig.parent / file).write_bytes(out)
        return process.returncode, out.decode()

    async def start(self, command: str) -> asyncio.subprocess.Process:
        """Start a command that goes on.

        Raises:
            AssertionError: nobody knows how to type it here.
        """
        words = [self.replaced.get(word, word) for word in shlex.split(command)]
        match words[0]:
            case "kubectl":
                words[0] = kubectl_path()
            case "arranger" | ".venv/bin/arranger":
                words[:1] = [sys.executable, "-m", "arranger.cli.main"]
            case _:
                raise AssertionError(f"a command that nobody can type here: {command}")
        home = str(self.kubeconfig)
        return await asyncio.create_subprocess_exec(
            *(home if word == "~/.kube/config" else word for word in words),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            cwd=REPO,
            env={**os.environ, "PYTHONPATH": str(REPO), "KUBECONFIG": home, **self.environment},
        )
