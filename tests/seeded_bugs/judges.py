"""Whoever is to notice a bug: here the tests that are near it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tests.seeded_bugs.bug import SeededBug

#: pytest's statuses: all passed; some failed.
_PASSED, _FAILED = 0, 1
_FAILURE = re.compile(r"^(?:FAILED|ERROR) (\S+?::.+?)(?: - .*)?$", re.MULTILINE)
_COUNT = re.compile(r"(\d+) passed")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a judge says of one bug.

    Attributes:
        found: whether it was noticed.
        by: the first that noticed it; else why it was not.
        tries: tests, or worlds, until then.
        seconds: how long that took.
    """

    found: bool
    by: str
    tries: int
    seconds: float


class UnfitError(Exception):
    """The judge cannot tell: it fails without the bug, or does not run at all."""


class Judge(Protocol):
    """Looks for a bug that has been put in."""

    def judge(self, bug: SeededBug) -> Verdict:
        """Look for it.

        Raises:
            UnfitError: nobody can look.
        """
        ...

    def confirm(self, verdict: Verdict) -> None:
        """The bug has been taken out: what noticed it must be content.

        Raises:
            UnfitError: it is not.
        """
        ...


@dataclass(frozen=True, slots=True)
class NearbyTests:
    """Runs the tests that a bug names, in the order of their files, until one fails.

    Args:
        root: a copy of the repository.
        seconds: how long they may take for one bug.
    """

    root: Path
    seconds: float

    def judge(self, bug: SeededBug) -> Verdict:
        """Look for a bug that has been put in.

        Raises:
            UnfitError: the tests do not run.
        """
        started = time.monotonic()
        status, output = self._run("-x", *bug.tests)
        seconds = time.monotonic() - started
        passed = sum(map(int, _COUNT.findall(output)[-1:]))
        if status == _PASSED:
            return Verdict(False, f"all of {', '.join(bug.tests)} pass", passed, seconds)
        failure = _FAILURE.search(output)
        if status != _FAILED or failure is None:
            raise UnfitError(output[-2000:])
        return Verdict(True, failure[1], passed + 1, seconds)

    def confirm(self, verdict: Verdict) -> None:
        """The bug has been taken out: what noticed it must be content.

        Raises:
            UnfitError: it is not.
        """
        if "::" not in verdict.by:
            return
        status, output = self._run(verdict.by)
        if status != _PASSED:
            raise UnfitError(f"{verdict.by} fails without the bug: {output[-2000:]}")

    def _run(self, *args: str) -> tuple[int, str]:
        options = (
            "-q",
            "-p",
            "no:randomly",
            "-p",
            "no:cacheprovider",
            "-rfE",
            "--tb=short",
            "--timeout=100",
        )
        return run_module(self.root, self.seconds, "pytest", *options, *args)


def run_module(root: Path, seconds: float, module: str, *args: str) -> tuple[int, str]:
    """Run a module in a copy of the repository; returns its status and what it says.

    Raises:
        UnfitError: it takes too long.
    """
    try:
        done = subprocess.run(
            [sys.executable, "-m", module, *args],
            cwd=root,
            env=environment(root),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise UnfitError(f"{module} takes longer than {seconds:g}s") from error
    return done.returncode, done.stdout + done.stderr


def environment(root: Path) -> dict[str, str]:
    """What a process is given that is to run what stands in a copy of the repository."""
    settings = {"PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "100"}
    return {**os.environ, **settings}
