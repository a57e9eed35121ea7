"""Tries mutants of a copy of the checkout: ``python -m tests.mutants.trial TEST…``, in the copy.

All in one process, which forks for each mutant: the tests are imported once, and once they are all
run to see which of them reach which line. A mutant is tried on the fastest of those that reach a
line that it changes, the others cannot notice it, and on cases of every test function before it is
tried on more cases of one.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import resource
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final
from zlib import crc32

import pytest

from tests.mutants.caches import caches
from tests.mutants.reached_lines import ReachedLines

#: Where the copy of the copy is whose source has the mutants in it, all of them at once.
MUTATED: Final = Path("mutants")
RESULTS: Final = Path("results.json")
REACHED: Final = Path("reached.json")
KILLED, ENDLESS, SURVIVED, UNREACHED = "killed", "endless", "survived", "not reached"
#: What a mutant may take more than the source, which has a few hundred MB.
_MEMORY: Final = 4 << 30


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tests", nargs="+", help="as pytest takes them, with options for it")
    parser.add_argument("--percent", type=float, default=100, help="try so many of the mutants")
    parser.add_argument("--seed", default="", help="another text, another sample")
    parser.add_argument("--seconds", type=float, default=5, help="what tests of one may take")
    options, more = parser.parse_known_args()
    names = written_down()
    mutants = chosen(names, options.percent, options.seed)
    trials = Trials(mutants, options.seconds, Path.cwd())
    assert "arranger" not in sys.modules, "it would be imported as it is, without mutants"
    os.chdir(MUTATED)
    sys.path.insert(0, str(Path.cwd()))
    arguments = ["-q", "-p", "no:randomly", "-p", "no:cacheprovider", "--no-header", *more]
    return pytest.main([*arguments, *options.tests], plugins=[trials])


def written_down() -> list[str]:
    """Have mutmut write all mutants down; returns their names."""
    from mutmut.__main__ import (  # type: ignore[import-not-found]  # only here
        copy_also_copy_files,
        copy_src_dir,
        create_mutants,
    )

    select("mutant_generation")
    copy_src_dir()
    copy_also_copy_files()
    shutil.copytree("tests", MUTATED / "tests", dirs_exist_ok=True)
    create_mutants(1)
    return all_mutants(MUTATED)


def all_mutants(mutated: Path) -> list[str]:
    """The names of those that mutmut has written down, tried or not."""
    return sorted(
        name
        for path in mutated.glob("arranger/**/*.meta")
        for name in json.loads(path.read_text())["exit_code_by_key"]
    )


def results(path: Path) -> dict[str, str]:
    """Each mutant that was tried, and what came of it."""
    return json.loads(path.read_text()) if path.exists() else {}


def chosen(names: Iterable[str], percent: float, seed: str = "") -> list[str]:
    """So many of the mutants, by a hash of the seed and their names, and in its order.

    Where trials end early, those that were tried are a smaller sample.
    """
    placed = sorted((crc32(f"{seed}{name}".encode()) % 1000, name) for name in names)
    return [name for place, name in placed if place < percent * 10]


def varied(names: Iterable[str], durations: Mapping[str, float], seconds: float) -> list[str]:
    """As many tests as fit, but at least one: one of each function first, then the second of each.

    Of one function the fastest, and the fastest first. Cases of one function are much alike.
    """
    ordered = sorted(names, key=lambda name: (durations[name], name))
    earlier: Counter[str] = Counter()
    rounds: list[tuple[int, str]] = []
    for name in ordered:
        function = name.partition("[")[0]
        rounds.append((earlier[function], name))
        earlier[function] += 1
    found, total = list[str](), 0.0
    for _, name in sorted(rounds, key=lambda each: each[0]):
        if not found or total + durations[name] <= seconds:
            found.append(name)
            total += durations[name]
    return found


def select(mutant: str) -> None:
    """Have the source be as this mutant has it; or one of mutmut's other modes."""
    from mutmut.mutation.trampoline import (  # type: ignore[import-not-found]  # only here
        set_mutant_under_test,
    )

    set_mutant_under_test(mutant)


class Trials:
    """Takes the place of pytest's loop over the tests.

    Args:
        mutants: those to be tried; what has killed one before need not be done again.
        seconds: what the tests of one may take.
        folder: where it is written what came of each, and what tests reach.
    """

    def __init__(self, mutants: Sequence[str], seconds: float, folder: Path) -> None:
        self._mutants, self._seconds, self._folder = mutants, seconds, folder
        #: Tests that pass in a process of their own if nothing is changed, and others.
        self._sound: set[str] = set()
        self._unsound: set[str] = set()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run all tests as they are, then some with each mutant."""
        select("")
        reached = ReachedLines(self._mutants, self._folder / REACHED)
        clear = caches()
        for item in session.items:
            for each in clear:  # else the next test would not reach what the last one has
                each()
            reached.note(item.nodeid, partial(_run, item))
        reached.write()
        if session.testsfailed:
            return True
        for each in caches():
            each()
        gc.collect()
        gc.freeze()  # so that those that are forked share what is there
        known = results(self._folder / RESULTS)
        left = [name for name in self._mutants if known.get(name) not in (KILLED, ENDLESS)]
        items = {item.nodeid: item for item in session.items}
        for done, mutant in enumerate(left, start=1):
            tests = varied(reached.tests_of(mutant), reached.durations, self._seconds)
            known[mutant] = self._try([items[name] for name in tests], mutant, reached.durations)
            (self._folder / RESULTS).write_text(json.dumps(known, indent=1, sort_keys=True))
            sys.stderr.write(f"{done} of {len(left)}: {known[mutant]}: {mutant}\n")
        for test in sorted(self._unsound):
            sys.stderr.write(f"it fails in a process of its own, and was left out: {test}\n")
        return True

    def _try(
        self, items: Sequence[pytest.Item], mutant: str, durations: Mapping[str, float]
    ) -> str:
        """What comes of a mutant; a test that would fail without it as well does not count."""
        while left := [item for item in items if item.nodeid not in self._unsound]:
            result, last = _fork(left, mutant, durations)
            if result == SURVIVED or last.nodeid in self._sound:
                return result
            if _fork([last], "", durations)[0] == SURVIVED:
                self._sound.add(last.nodeid)
                return result
            self._unsound.add(last.nodeid)
        return UNREACHED


def _fork(
    items: Sequence[pytest.Item], mutant: str, durations: Mapping[str, float]
) -> tuple[str, pytest.Item]:
    """Run tests in a process of its own until one fails; the result, and the last that was run."""
    usual = sum(durations[item.nodeid] for item in items)
    begun, begin = os.pipe()
    pid = os.fork()
    if not pid:
        _judge(items, mutant, begin, cpu_seconds=5 + int(5 * usual))
    os.close(begin)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with open(begun, "rb") as pipe:
        last = items[max(len(pipe.read()) - 1, 0)]
    result = SURVIVED if status == 0 else ENDLESS if status == -signal.SIGXCPU else KILLED
    return result, last


def _judge(items: Sequence[pytest.Item], mutant: str, begin: int, cpu_seconds: int) -> None:
    """In a process of its own: end it with 0 if all tests pass; say when each begins.

    Who takes five times as much processor time, and five seconds, does not come to an end.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 1))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    select(mutant)
    try:
        for item in items:
            os.write(begin, b".")
            _run(item)
            if item.session.testsfailed:
                os._exit(1)
    except BaseException:  # whatever a mutant leads to
        os._exit(2)
    os._exit(0)


def _run(item: pytest.Item) -> None:
    item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)


if __name__ == "__main__":
    sys.exit(main())
