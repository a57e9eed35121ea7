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
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final
from zlib import crc32

import pytest

from tests.mutants.changed_lines import changed_lines
from tests.mutants.names import module_of

#: Where the copy of the copy is whose source has the mutants in it, all of them at once.
MUTATED: Final = Path("mutants")
RESULTS: Final = Path("results.json")
KILLED, ENDLESS, SURVIVED, UNREACHED = "killed", "endless", "survived", "not reached"
#: What a mutant may take more than the source, which has a few hundred MB.
_MEMORY: Final = 4 << 30
#: Calls of a function in one test of which it is noted which lines they reach: more would take
#: long, and hardly reach others.
_CALLS_SEEN: Final = 300


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tests", nargs="+", help="as pytest takes them, with options for it")
    parser.add_argument("--percent", type=float, default=100, help="try so many of the mutants")
    parser.add_argument("--seconds", type=float, default=5, help="what tests of one may take")
    options, more = parser.parse_known_args()
    names = written_down()
    trials = Trials(chosen(names, options.percent), options.seconds, RESULTS.resolve())
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


def chosen(names: Iterable[str], percent: float) -> list[str]:
    """So many of the mutants, by a hash of their names."""
    return [name for name in names if crc32(name.encode()) % 1000 < percent * 10]


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


class ReachedLines:
    """Which tests reach which lines of the files with mutants."""

    def __init__(self, mutants: Iterable[str]) -> None:
        modules = {module_of(name) for name in mutants}
        self._files = {
            str(Path(f"{module.replace('.', '/')}.py").resolve()): module for module in modules
        }
        self._changed = {
            f"{module}.{name}": (file, lines)
            for file, module in self._files.items()
            for name, lines in changed_lines(Path(file).read_text()).items()
        }
        self._tests: dict[tuple[str, int], set[str]] = defaultdict(set)
        self._now: set[tuple[str, int]] = set()
        self._calls: Counter[CodeType] = Counter()

    def note(self, item: pytest.Item) -> None:
        """Run a test, and note what it reaches."""
        self._now, self._calls = set(), Counter()
        sys.settrace(self._enter)
        threading.settrace(self._enter)
        try:
            _run(item)
        finally:
            sys.settrace(None)
            threading.settrace(None)  # type: ignore[arg-type]  # as documented
        for line in self._now:
            self._tests[line].add(item.nodeid)

    def tests_of(self, mutant: str) -> set[str]:
        """The tests that reach a line that a mutant changes."""
        file, lines = self._changed[mutant]
        return set().union(*(self._tests.get((file, line), ()) for line in lines))

    def _enter(self, frame: FrameType, event: str, argument: Any) -> Any:
        if (code := frame.f_code).co_filename not in self._files:
            return None
        self._calls[code] += 1
        return self._pass if self._calls[code] <= _CALLS_SEEN else None

    def _pass(self, frame: FrameType, event: str, argument: Any) -> Any:
        self._now.add((frame.f_code.co_filename, frame.f_lineno))
        return self._pass


class Trials:
    """Takes the place of pytest's loop over the tests.

    Args:
        mutants: those to be tried; what has killed one before need not be done again.
        seconds: what the tests of one may take.
        results: a file of what came of each.
    """

    def __init__(self, mutants: Sequence[str], seconds: float, results: Path) -> None:
        self._mutants, self._seconds, self._results = mutants, seconds, results
        self._durations: dict[str, float] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run all tests as they are, then some with each mutant.

        They have to pass in a process of its own as well, or each mutant would count as killed.
        """
        select("")
        reached = ReachedLines(self._mutants)
        for item in session.items:
            began = time.process_time()
            reached.note(item)
            self._durations[item.nodeid] = time.process_time() - began
        gc.collect()
        gc.freeze()  # so that those that are forked share what is there
        if session.testsfailed or self._try(session.items, "") != SURVIVED:
            session.testsfailed += 1
            return True
        known = results(self._results)
        left = [name for name in self._mutants if known.get(name) not in (KILLED, ENDLESS)]
        items = {item.nodeid: item for item in session.items}
        for done, mutant in enumerate(left, start=1):
            tests = varied(reached.tests_of(mutant), self._durations, self._seconds)
            known[mutant] = self._try([items[name] for name in tests], mutant)
            self._results.write_text(json.dumps(known, indent=1, sort_keys=True))
            sys.stderr.write(f"{done} of {len(left)}: {known[mutant]}: {mutant}\n")
        return True

    def _try(self, items: Sequence[pytest.Item], mutant: str) -> str:
        if not items:
            return UNREACHED
        usual = sum(self._durations[item.nodeid] for item in items)
        pid = os.fork()
        if not pid:
            _judge(items, mutant, cpu_seconds=10 + int(10 * usual))
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        return SURVIVED if status == 0 else ENDLESS if status == -signal.SIGXCPU else KILLED


def _judge(items: Sequence[pytest.Item], mutant: str, cpu_seconds: int) -> None:
    """In a process of its own: end it with 0 if all tests pass.

    Who takes ten times as much processor time, and ten seconds, does not come to an end.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 1))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    select(mutant)
    try:
        for item in items:
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
