"""Mutates packages of the source, one after the other, and tells how many mutants the tests kill.

With mutmut, in copies of the checkout under ``build/mutants``. Those that were killed in an earlier
run are not tried again, others are. Survivors are printed as diffs, but for those that
``harmless.py`` explains.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.harmless import HARMLESS
from tests.mutants.names import function_of, module_of
from tests.mutants.packages import PACKAGES, Package
from tests.mutants.trial import ENDLESS, KILLED, MUTATED, RESULTS, all_mutants, chosen, results
from tests.paths import REPO

_COPIED = ("arranger", "tests", "crds", "docs", "examples", "manifests", "pyproject.toml")
_LEFT_OUT = shutil.ignore_patterns("__pycache__")
_ADDED = re.compile(r"\+(?!\+\+ )")
#: What of a line is never told by tests: it goes into logs.
_NOT_MUTATED = (r"^\s*log\.", r"^\s*assert .*, f?\"")


@dataclass(frozen=True, slots=True)
class Score:
    """How many mutants a package has, and of how many it is known that they are killed or harmless.

    Attributes:
        survivors: diffs of those that were tried and are neither.
    """

    mutants: int
    tried: int
    killed: int
    harmless: int
    survivors: tuple[str, ...]

    @property
    def percent(self) -> float:
        """Killed, of those that are not harmless."""
        return 100 * self.killed / max(1, self.tried - self.harmless)


def main() -> int:
    """Mutate the packages that are named; 1 if a survivor is not explained."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("packages", nargs="*", metavar="PACKAGE", help=", ".join(PACKAGES))
    parser.add_argument("--fresh", action="store_true", help="begin anew")
    parser.add_argument("--percent", default="100", help="try, or count, so many of them")
    parser.add_argument("--seed", default="", help="another text, another sample")
    parser.add_argument("--seconds", default="5", help="what the tests of one mutant may take")
    parser.add_argument("--score", action="store_true", help="tell of earlier runs, and try none")
    options = parser.parse_args()
    if unknown := set(options.packages) - PACKAGES.keys():
        parser.error(f"there is no package {', '.join(sorted(unknown))}")
    scores: dict[str, Score] = {}
    for name in options.packages or PACKAGES:
        folder, package = REPO / "build" / "mutants" / name, PACKAGES[name]
        if not options.score:
            if options.fresh:
                shutil.rmtree(folder, ignore_errors=True)
            prepare(folder, package)
            limits = ("--percent", options.percent, "--seconds", options.seconds)
            limits += ("--seed", options.seed)
            left_out = (f"--ignore={path}" for path in package.slow)
            tests = (*package.tests, *left_out)
            done = run(folder, "tests.mutants.trial", *limits, *tests, quiet=False)
            if done.returncode:
                parser.exit(2, f"{name}: nothing was tried, as a test fails without mutants\n")
        scores[name] = score(folder, float(options.percent), options.seed)
        for diff in scores[name].survivors:
            sys.stdout.write(f"{diff}\n")
    sys.stdout.write(
        "| package | mutants | tried | killed | harmless | score |\n|---|" + "---|" * 5
    )
    for name, found in scores.items():
        numbers = f"{found.mutants} | {found.tried} | {found.killed} | {found.harmless}"
        sys.stdout.write(f"\n| {name} | {numbers} | {found.percent:.0f} % |")
    sys.stdout.write("\n")
    return int(any(found.survivors for found in scores.values()))


def prepare(folder: Path, package: Package) -> None:
    """Copy the checkout, and write down for mutmut what is to be mutated.

    What is known of mutants whose source has changed since is forgotten.
    """
    folder.mkdir(parents=True, exist_ok=True)
    stale = [name for name in files_of(package) if _differs(REPO / name, folder / name)]
    for name in _COPIED:
        if (REPO / name).is_dir():
            shutil.copytree(REPO / name, folder / name, ignore=_LEFT_OUT, dirs_exist_ok=True)
        else:
            shutil.copy2(REPO / name, folder / name)
    modules = {name.removesuffix(".py").replace("/", ".") for name in stale}
    known = results(folder / RESULTS)
    kept = {name: result for name, result in known.items() if module_of(name) not in modules}
    (folder / RESULTS).write_text(json.dumps(kept))
    settings = {
        "source_paths": ("arranger",),
        "only_mutate": tuple(files_of(package)),
        "also_copy": tuple(name for name in _COPIED if name not in ("arranger", "tests")),
        "do_not_mutate_patterns": _NOT_MUTATED,
        "track_dependencies": ("false",),
        "use_git_change_detection": ("false",),
    }
    (folder / "setup.cfg").write_text(as_section(settings))


def _differs(source: Path, copied: Path) -> bool:
    return copied.exists() and copied.read_bytes() != source.read_bytes()


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


def score(folder: Path, percent: float, seed: str = "") -> Score:
    """What came of so many of the mutants of a package, of those of a sample that were tried."""
    known = results(folder / RESULTS)
    tried = {name: known[name] for name in chosen(known, percent, seed)}
    killed = sum(result in (KILLED, ENDLESS) for result in tried.values())
    alive = sorted(name for name, result in tried.items() if result not in (KILLED, ENDLESS))
    diffs = json.loads(run(folder, "tests.mutants.diffs", *alive).stdout or "{}")
    survivors = [diff for name, diff in diffs.items() if not is_harmless(name, diff)]
    mutants = len(all_mutants(folder / MUTATED))
    harmless = len(alive) - len(survivors)
    return Score(mutants, len(tried), killed, harmless, tuple(survivors))


def is_harmless(mutant: str, diff: str) -> bool:
    """Whether all that a mutant puts in is explained."""
    place = function_of(mutant)
    lines = [line[1:].strip() for line in diff.splitlines() if _ADDED.match(line)]
    return bool(lines) and all((place, line) in HARMLESS for line in lines)


def run(
    folder: Path, module: str, *args: str, quiet: bool = True
) -> subprocess.CompletedProcess[str]:
    """Run a module in a copy; it says nothing where ``quiet``, but in what is returned."""
    return subprocess.run(
        [sys.executable, "-m", module, *args],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.environ.get("MUTMUT_PATH", "")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE if quiet else None,
        text=True,
        check=False,
    )


if __name__ == "__main__":
    sys.exit(main())
