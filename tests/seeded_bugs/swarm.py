"""The swarm as a judge: it knows of no bug, and must break a rule that is not broken without."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.seeded_bugs.bug import SeededBug
from tests.seeded_bugs.judges import UnfitError, Verdict, environment


@dataclass(frozen=True, slots=True)
class Played:
    """What came of a world.

    Attributes:
        seed: the world.
        rules: what is broken in it.
        lines: file → the lines of it that were run.
    """

    seed: int
    rules: frozenset[str]
    lines: Mapping[str, frozenset[int]]

    def enters(self, bug: SeededBug, root: Path) -> bool:
        """Whether it gets to where a bug is, so that it may be other with it."""
        if bug.is_run_at_import(root):
            return True
        return not self.lines.get(bug.file, frozenset()).isdisjoint(bug.lines(root))


@dataclass(frozen=True, slots=True)
class Swarm:
    """Plays the worlds that get to a bug, one after the other, until more is broken in one.

    Args:
        root: a copy of the repository.
        seconds: how long it may take for one bug.
        usual: features → seed → the world of it, as it is without any bug; see
            :meth:`without_bugs`.
        entered: bug → the seeds whose worlds get to it.
    """

    root: Path
    seconds: float
    usual: Mapping[tuple[str, ...], Mapping[int, Played]]
    entered: Mapping[str, Sequence[int]]

    @staticmethod
    def without_bugs(
        root: Path, seconds: float, seeds: Iterable[int], bugs: Sequence[SeededBug]
    ) -> Swarm:
        """One that has played all worlds without a bug.

        Raises:
            UnfitError: they cannot be played.
        """
        usual: dict[tuple[str, ...], dict[int, Played]] = {}
        for features in dict.fromkeys(bug.only for bug in bugs):
            files = sorted({bug.file for bug in bugs if bug.only == features})
            with _playing(root, list(seeds), features, files) as worlds:
                usual[features] = {world.seed: world for world in worlds}
        entered = {
            bug.key: [world.seed for world in usual[bug.only].values() if world.enters(bug, root)]
            for bug in bugs
        }
        return Swarm(root, seconds, usual, entered)

    def judge(self, bug: SeededBug) -> Verdict:
        """Look for a bug that has been put in.

        Raises:
            UnfitError: no world can be played.
        """
        started, tries = time.monotonic(), 0
        seeds, usual = self.entered[bug.key], self.usual[bug.only]
        if not seeds:
            return Verdict(False, f"none of {len(usual)} worlds gets there", 0, 0.0)
        with _playing(self.root, seeds, bug.only) as worlds:
            for world in worlds:
                tries += 1
                seconds = time.monotonic() - started
                if more := world.rules - usual[world.seed].rules:
                    by = f"seed {world.seed}: {', '.join(sorted(more))}"
                    return Verdict(True, by, tries, seconds)
                if seconds > self.seconds:
                    break
        by = f"{len(seeds)} of {len(usual)} worlds get there, {tries} are as without it"
        return Verdict(False, by, tries, time.monotonic() - started)

    def confirm(self, verdict: Verdict) -> None:
        """Its world was played without the bug before."""


@contextmanager
def _playing(
    root: Path, seeds: Sequence[int], features: Sequence[str], files: Sequence[str] = ()
) -> Iterator[Iterator[Played]]:
    """Worlds, as they are played; those that are not waited for are not played to their end."""
    more = ["--only", *features, "--files", *files]
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.seeded_bugs.worlds", *map(str, seeds), *more],
        cwd=root,
        env=environment(root),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield _read(process)
    finally:
        process.kill()
        process.communicate()


def _read(process: subprocess.Popen[str]) -> Iterator[Played]:
    assert process.stdout is not None
    assert process.stderr is not None
    for line in process.stdout:
        said = json.loads(line)
        lines = {file: frozenset(numbers) for file, numbers in said["lines"].items()}
        yield Played(said["seed"], frozenset(said["rules"]), lines)
    if process.wait():
        raise UnfitError(process.stderr.read()[-2000:])
