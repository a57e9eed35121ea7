"""Whoever is to notice a bug: the tests that are near it, or the swarm, which knows of no bug."""

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
#: What the swarm says of a world: its seed, then a line for each violation.
_SEED = re.compile(r"seed (\d+):$")
_RULE = re.compile(r"  ([^:]+): ")
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


#: Seed → the rules that are broken in its world.
Broken = dict[int, frozenset[str]]


@dataclass(frozen=True, slots=True)
class Swarm:
    """Plays worlds, of one seed after the other, and sees what is broken in them.

    Args:
        root: a copy of the repository.
        seconds: how long they may take for one bug.
        seeds: how many worlds.
        usual: what is broken without any bug; see :meth:`without_bugs`.
    """

    root: Path
    seconds: float
    seeds: int
    usual: Broken

    @staticmethod
    def without_bugs(root: Path, seconds: float, seeds: int) -> Swarm:
        """One that has played all worlds without a bug.

        Raises:
            UnfitError: they cannot be played.
        """
        return Swarm(root, seconds, seeds, _broken(root, seconds, seeds))

    def judge(self, bug: SeededBug) -> Verdict:
        """Look for a bug that has been put in.

        Raises:
            UnfitError: no world can be played.
        """
        started = time.monotonic()
        broken = _broken(self.root, self.seconds, self.seeds)
        seconds = time.monotonic() - started
        for seed, rules in sorted(broken.items()):
            if more := rules - self.usual.get(seed, frozenset()):
                return Verdict(True, f"seed {seed}: {', '.join(sorted(more))}", seed, seconds)
        return Verdict(False, f"{self.seeds} worlds are as without it", self.seeds, seconds)

    def confirm(self, verdict: Verdict) -> None:
        """Its world was played without the bug before."""


def _broken(root: Path, seconds: float, seeds: int) -> Broken:
    """What is broken in the worlds of the first seeds."""
    options = ("--seed", "1", "--seeds", str(seeds))
    status, output = run_module(root, seconds, "tests.swarm", *options)
    found: dict[int, set[str]] = {}
    for line in output.splitlines():
        if seed := _SEED.match(line):
            rules = found.setdefault(int(seed[1]), set())
        elif found and (rule := _RULE.match(line)):
            rules.add(rule[1])
    if bool(status) != bool(found):
        raise UnfitError(output[-2000:])
    return {seed: frozenset(rules) for seed, rules in found.items()}


def run_module(root: Path, seconds: float, module: str, *args: str) -> tuple[int, str]:
    """Run a module in a copy of the repository; returns its status and what it says.

    Raises:
        UnfitError: it takes too long.
    """
    settings = {"PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "100"}
    try:
        done = subprocess.run(
            [sys.executable, "-m", module, *args],
            cwd=root,
            env={**os.environ, **settings},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise UnfitError(f"{module} takes longer than {seconds:g}s") from error
    return done.returncode, done.stdout + done.stderr
