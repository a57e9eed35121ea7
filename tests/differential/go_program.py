"""A program of ``tests/controlplane/cmd`` that answers line by line, as one long-lived process."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

from tests.controlplane.builds import build_folder
from tests.paths import REPO

MODULE = REPO / "tests" / "controlplane"


class GoProgram:
    """One process; use it as a context manager. It ends when its input is closed, or we do.

    Attributes:
        name: of the program's folder; ``make`` has a target of that name.
    """

    name: ClassVar[str]

    @classmethod
    def path(cls) -> Path:
        """Where ``make`` puts the binary that was built from the present sources."""
        sources = [
            MODULE / "go.mod",
            MODULE / "go.sum",
            *sorted((MODULE / "cmd" / cls.name).glob("*.go")),
        ]
        return build_folder(cls.name, sources) / f"arranger-{cls.name}"

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [self.path()], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.communicate()

    def answer(self, question: Any) -> str:
        """The line with which it answers a question, as JSON; "" once it has ended."""
        assert self._process.stdin is not None, "asked for with PIPE"
        assert self._process.stdout is not None, "asked for with PIPE"
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline()
