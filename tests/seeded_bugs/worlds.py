"""Plays worlds of the swarm by their seeds, and says of each, as JSON, what is broken in it.

With ``--files`` also which lines of these files it has run, with ``--only`` the worlds have these
features. It is run in a copy of the repository.
"""

from __future__ import annotations

import argparse
import json
import resource
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from coverage import Coverage

from tests.swarm.play import be_quiet, play
from tests.swarm.worlds.generate import generate, only

#: Bytes that a world may need: what takes all memory of a machine is a bug, too.
MOST_MEMORY = 4 << 30
#: CPU seconds after which a world is said not to end.
ENOUGH = 60.0


class EndlessError(KeyboardInterrupt):
    """A world has taken too long; a task of it that meets this ends the loop, too."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seeds", nargs="+", type=int)
    parser.add_argument("--files", nargs="*", type=Path, default=())
    parser.add_argument("--only", nargs="*", default=())
    options = parser.parse_args()
    weights = only(*options.only) if options.only else None
    be_quiet()
    signal.signal(signal.SIGPROF, _give_up)
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    for seed in options.seeds:
        lines = Lines(options.files)
        signal.setitimer(signal.ITIMER_PROF, ENOUGH, ENOUGH)  # its end may not end, either
        rules = broken_rules(seed, weights)
        signal.setitimer(signal.ITIMER_PROF, 0)
        answer = {"seed": seed, "rules": sorted(rules), "lines": lines.end()}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    return 0


def broken_rules(seed: int, weights: Mapping[str, float] | None) -> set[str]:
    """What is broken in one world; that it raises, or does not end, is broken too."""
    try:
        return {each.rule for each in play(generate(seed, weights=weights)).violations}
    except EndlessError:
        return {"it does not end"}
    except Exception as error:  # whatever a bug leads to
        return {f"it ends in {type(error).__name__}"}


class Lines:
    """Notes which lines of some files are run, from now on."""

    def __init__(self, files: Sequence[Path]) -> None:
        self._files = [path.resolve() for path in files]
        self._coverage = Coverage(data_file=None, include=[str(path) for path in self._files])
        if self._files:
            self._coverage.start()

    def end(self) -> dict[str, list[int]]:
        """File → the lines that were run."""
        if not self._files:
            return {}
        self._coverage.stop()
        data, here = self._coverage.get_data(), Path.cwd()
        return {
            str(path.relative_to(here)): sorted(data.lines(str(path)) or ()) for path in self._files
        }


def _give_up(*_: object) -> NoReturn:
    raise EndlessError


if __name__ == "__main__":
    sys.exit(main())
