"""Mutates packages of the source, one after the other, and tells how many mutants the tests kill.

With mutmut, in copies of the checkout under ``build/mutants``; one that is there goes on where it
stopped. Survivors are printed as diffs, but for those that ``harmless.py`` explains.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

from tests.mutants.harmless import HARMLESS
from tests.mutants.packages import PACKAGES, Package
from tests.paths import REPO

_COPIED = ("arranger", "tests", "crds", "docs", "examples", "manifests", "pyproject.toml")
_LEFT_OUT = shutil.ignore_patterns("__pycache__")
_OPTIONS = ("-p", "no:randomly", "-p", "no:cacheprovider", "-p", "tests.mutants.budget")
_ADDED = re.compile(r"\+(?!\+\+ )")
_RESULT = re.compile(r"^\s*(\S+__mutmut_\d+): (.+)$", re.MULTILINE)
#: What of a line is never told by tests: it goes into logs.
_NOT_MUTATED = (r"^\s*log\.", r"^\s*assert .*, f?\"")
#: mutmut's words for mutants that the tests have found.
_KILLED = frozenset({"killed", "timeout", "suspicious", "segfault"})
_UNTRIED = frozenset({"not checked", "check was interrupted by user"})


@dataclass(frozen=True, slots=True)
class Score:
    """How many mutants of a package were tried, are killed, and are harmless.

    Attributes:
        untried: how many there are beside these.
        survivors: diffs of those that are neither.
    """

    mutants: int
    killed: int
    harmless: int
    untried: int
    survivors: tuple[str, ...]

    @property
    def percent(self) -> float:
        """Killed, of those that are not harmless."""
        return 100 * self.killed / max(1, self.mutants - self.harmless)


def main() -> int:
    """Mutate the packages that are named; 1 if a survivor is not explained."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("packages", nargs="*", metavar="PACKAGE", help=", ".join(PACKAGES))
    parser.add_argument("--fresh", action="store_true", help="begin anew")
    parser.add_argument("--sample", type=float, default=100, help="try so many percent of them")
    parser.add_argument("--score", action="store_true", help="tell of earlier runs, and try none")
    options = parser.parse_args()
    if unknown := set(options.packages) - PACKAGES.keys():
        parser.error(f"there is no package {', '.join(sorted(unknown))}")
    scores: dict[str, Score] = {}
    for name in options.packages or PACKAGES:
        folder = REPO / "build" / "mutants" / name
        if not options.score:
            if options.fresh:
                shutil.rmtree(folder, ignore_errors=True)
            prepare(folder, PACKAGES[name])
            run(folder, options.sample)
        scores[name] = score(folder)
        for diff in scores[name].survivors:
            sys.stdout.write(f"{diff}\n")
    sys.stdout.write(
        "| package | tried | killed | harmless | score | untried |\n|---|" + "---|" * 5
    )
    for name, found in scores.items():
        numbers = f"{found.mutants} | {found.killed} | {found.harmless} | {found.percent:.0f} %"
        sys.stdout.write(f"\n| {name} | {numbers} | {found.untried} |")
    sys.stdout.write("\n")
    return int(any(found.survivors for found in scores.values()))


def prepare(folder: Path, package: Package) -> None:
    """Copy the checkout, and write down for mutmut what is to be mutated."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in _COPIED:
        if (REPO / name).is_dir():
            shutil.copytree(REPO / name, folder / name, ignore=_LEFT_OUT, dirs_exist_ok=True)
        else:
            shutil.copy2(REPO / name, folder / name)
    settings = {
        "source_paths": ("arranger",),
        "only_mutate": tuple(files_of(package)),
        "pytest_add_cli_args_test_selection": package.tests,
        "pytest_add_cli_args": (*_OPTIONS, *(f"--ignore={path}" for path in package.slow)),
        "also_copy": tuple(name for name in _COPIED if name not in ("arranger", "tests")),
        "do_not_mutate_patterns": _NOT_MUTATED,
        "track_dependencies": ("false",),
        "use_git_change_detection": ("false",),
    }
    (folder / "setup.cfg").write_text(as_section(settings))


def run(folder: Path, percent: float) -> None:
    """Try the mutants that have not been tried, or some of them, by a hash of their names."""
    names: list[str] = []
    if percent < 100:
        mutmut(folder, "run", "none of them")  # says so once all are written down
        untried = [name for name, result in results(folder) if result in _UNTRIED]
        names = [name for name in untried if crc32(name.encode()) % 1000 < percent * 10]
    if names or percent >= 100:
        mutmut(folder, "run", *names, "--max-children", "1", quiet=False)


def results(folder: Path) -> list[tuple[str, str]]:
    """Each mutant of a package, and what came of it."""
    return _RESULT.findall(mutmut(folder, "results", "--all", "true"))


def files_of(package: Package) -> list[str]:
    """What is mutated: mutmut's own patterns go down into folders."""
    found = (path for pattern in package.sources for path in REPO.glob(pattern))
    return sorted(str(path.relative_to(REPO)) for path in found)


def as_section(settings: dict[str, tuple[str, ...]]) -> str:
    """Settings in the form of ``setup.cfg``; one that has a single value is written in its line."""
    lines = ["[mutmut]"]
    for key, values in settings.items():
        lines += [f"{key}={values[0]}"] if len(values) == 1 else [f"{key}=", *indented(values)]
    return "\n".join(lines) + "\n"


def indented(values: Iterable[str]) -> list[str]:
    """Each value in a line of its own."""
    return [f"    {value}" for value in values]


def score(folder: Path) -> Score:
    """What came of all mutants of a package."""
    known = results(folder)
    tried = [(name, result) for name, result in known if result not in _UNTRIED]
    killed = sum(result in _KILLED for _, result in tried)
    harmless, survivors = 0, []
    for name, result in tried:
        if result in _KILLED:
            continue
        diff = mutmut(folder, "show", name)
        if is_harmless(name, diff):
            harmless += 1
        else:
            survivors.append(diff)
    untried = len(known) - len(tried)
    return Score(len(tried), killed, harmless, untried, tuple(survivors))


def is_harmless(mutant: str, diff: str) -> bool:
    """Whether all that a mutant puts in is explained."""
    place = function_of(mutant)
    lines = [line[1:].strip() for line in diff.splitlines() if _ADDED.match(line)]
    return bool(lines) and all((place, line) in HARMLESS for line in lines)


def function_of(mutant: str) -> str:
    """The function that a mutant is of, with its module: ``package.module.Class.function``."""
    module, _, function = mutant.partition("__mutmut_")[0].rpartition(".")
    return f"{module}.{function.removeprefix('x').lstrip('_ǁ').replace('ǁ', '.')}"


def mutmut(folder: Path, *args: str, quiet: bool = True) -> str:
    """Run mutmut in a copy; returns what it says."""
    done = subprocess.run(
        [sys.executable, "-m", "mutmut", *args],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.environ.get("MUTMUT_PATH", "")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE if quiet else None,
        text=True,
        check=False,
    )
    return done.stdout or ""


if __name__ == "__main__":
    sys.exit(main())
