"""Which tests reach which lines of the files with mutants."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final, NamedTuple
from zlib import crc32

from tests.mutants.changed_lines import changed_lines
from tests.mutants.names import module_of

#: Calls of a function in one test of which it is noted which lines they reach: more would take
#: long, and hardly reach others.
_CALLS_SEEN: Final = 300
#: Tests after which what they reach is written down.
_WRITTEN_AFTER: Final = 50


class _Reached(NamedTuple):
    """What is known of a test, if its file and the source are still what they were."""

    file: int
    source: int
    seconds: float
    lines: list[tuple[str, int]]


class ReachedLines:
    """Which tests reach which lines; what is known from an earlier run is not found out again.

    Args:
        mutants: names of mutants; lines of other files do not count.
        known: a file of what each test reaches.
    """

    def __init__(self, mutants: Iterable[str], known: Path) -> None:
        self._files: dict[str, str] = {}
        self._changed: dict[str, tuple[str, range]] = {}
        self._source = 0
        for module in sorted({module_of(name) for name in mutants}):
            path = Path(f"{module.replace('.', '/')}.py").resolve()
            text = path.read_text()
            self._files[str(path)] = module
            self._source = crc32(text.encode(), self._source)
            for name, lines in changed_lines(text).items():
                self._changed[f"{module}.{name}"] = module, lines
        self._path = known
        read = json.loads(known.read_text()) if known.exists() else {}
        self._known = {test: _Reached(*each) for test, each in read.items()}
        #: Test → the processor time that it takes, in seconds.
        self.durations: dict[str, float] = {}
        self._tests: dict[tuple[str, int], set[str]] = defaultdict(set)
        self._now: set[tuple[str, int]] = set()
        self._calls: Counter[CodeType] = Counter()

    def note(self, test: str, run: Callable[[], object]) -> None:
        """Run a test, unless it is known what it reaches, and note that."""
        file = crc32(Path(test.partition("::")[0]).read_bytes())
        known = self._known.get(test)
        if known is None or (known.file, known.source) != (file, self._source):
            began = time.process_time()
            self._follow(run)
            seconds = time.process_time() - began
            known = self._known[test] = _Reached(file, self._source, seconds, sorted(self._now))
            if len(self.durations) % _WRITTEN_AFTER == 0:
                self.write()
        self.durations[test] = known.seconds
        for module, line in known.lines:
            self._tests[module, line].add(test)

    def write(self) -> None:
        """Write down what is known."""
        self._path.write_text(json.dumps(self._known))

    def tests_of(self, mutant: str) -> set[str]:
        """The tests that reach a line that a mutant changes."""
        module, lines = self._changed[mutant]
        return set().union(*(self._tests.get((module, line), ()) for line in lines))

    def _follow(self, run: Callable[[], object]) -> None:
        self._now, self._calls = set(), Counter()
        sys.settrace(self._enter)
        threading.settrace(self._enter)
        try:
            run()
        finally:
            sys.settrace(None)
            threading.settrace(None)  # type: ignore[arg-type]  # as documented

    def _enter(self, frame: FrameType, event: str, argument: Any) -> Any:
        if (code := frame.f_code).co_filename not in self._files:
            return None
        self._calls[code] += 1
        return self._pass if self._calls[code] <= _CALLS_SEEN else None

    def _pass(self, frame: FrameType, event: str, argument: Any) -> Any:
        self._now.add((self._files[frame.f_code.co_filename], frame.f_lineno))
        return self._pass
