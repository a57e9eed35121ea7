"""Puts bugs back, one at a time, into a copy of the source, and tells whether they are noticed.

Without names all of them. The table is that of ``docs/testing.md``.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.paths import REPO
from tests.seeded_bugs.bug import SeededBug
from tests.seeded_bugs.catalogue import ALL
from tests.seeded_bugs.judges import Judge, NearbyTests, UnfitError, Verdict
from tests.seeded_bugs.swarm import Swarm

_LEFT_OUT = shutil.ignore_patterns(".git", ".venv", ".*_cache", ".hypothesis", "build", "dist")


def main() -> int:
    """Judge the bugs that are named; the exit status is 1 if one of them is not noticed."""
    parser = argparse.ArgumentParser(prog="python -m tests.seeded_bugs", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="keys of bugs; default: all")
    parser.add_argument("--list", action="store_true", help="show the bugs, and run nothing")
    parser.add_argument("--seconds", type=float, default=300, help="for one bug at most")
    parser.add_argument(
        "--swarm", type=int, metavar="SEEDS", help="ask the worlds of so many seeds"
    )
    options = parser.parse_args()
    known = {bug.key: bug for bug in ALL}
    if unknown := [name for name in options.names if name not in known]:
        parser.error(f"there is no bug {', '.join(unknown)}")
    bugs = [known[name] for name in options.names] or list(ALL)
    if options.list:
        for bug in bugs:
            sys.stdout.write(f"{bug.key}: {bug.name} ({bug.file})\n")
        return 0
    with copy_of_repository() as root:
        judge: Judge = NearbyTests(root, options.seconds)
        if options.swarm:
            judge = Swarm.without_bugs(root, options.seconds, range(1, options.swarm + 1), bugs)
        return _judge_all(bugs, root, judge)


def _judge_all(bugs: Sequence[SeededBug], root: Path, judge: Judge) -> int:
    missed = 0
    sys.stdout.write("| bug | noticed | by | tries | seconds |\n|---|---|---|---|---|\n")
    for bug in bugs:
        try:
            verdict = judge_one(bug, root, judge)
        except UnfitError as error:
            missed += 1
            sys.stdout.write(f"| {bug.key} | cannot be told | {error} | | |\n")
            continue
        missed += not verdict.found
        answer = "yes" if verdict.found else "**no**"
        numbers = f"{verdict.tries} | {verdict.seconds:.0f}"
        sys.stdout.write(f"| {bug.key} | {answer} | {verdict.by} | {numbers} |\n")
        sys.stdout.flush()
    sys.stdout.write(f"{len(bugs) - missed} of {len(bugs)} noticed\n")
    return int(bool(missed))


def judge_one(bug: SeededBug, root: Path, judge: Judge) -> Verdict:
    """Put one bug into the copy, have it looked for, and take it out again.

    Raises:
        UnfitError: the judge cannot tell.
    """
    before = bug.put_into(root)
    try:
        verdict = judge.judge(bug)
    finally:
        (root / bug.file).write_text(before)
    if verdict.found:
        judge.confirm(verdict)
    return verdict


@contextmanager
def copy_of_repository() -> Iterator[Path]:
    """A copy of the checkout, for as long as the block runs."""
    with tempfile.TemporaryDirectory(prefix="seeded-bugs-") as folder:
        root = Path(folder) / "arranger"
        shutil.copytree(REPO, root, ignore=_LEFT_OUT)
        yield root


if __name__ == "__main__":
    sys.exit(main())
