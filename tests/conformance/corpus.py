"""The conformance corpora: snapshots with kube-scheduler's verdicts on them. See ``corpora``."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from arranger.plugins import DEFAULT_PLUGINS

FOLDER = Path(__file__).parent / "corpora"
FILES = tuple(sorted(path.name for path in FOLDER.glob("*.jsonl.gz")))
#: The plugins that may occur in a verdict that we must equal.
KNOWN_PLUGINS = {plugin.name for plugin, _ in DEFAULT_PLUGINS} | {"PreFilterResult"}


@dataclass(frozen=True)
class Case:
    """One pending pod of one snapshot."""

    line: int
    pod: dict[str, Any]
    expected: dict[str, Any]

    @property
    def name(self) -> str:
        return f"line {self.line} {self.expected['pod']}"

    @property
    def has_unknown_plugin(self) -> bool:
        """Whether the verdict depends on a plugin that is not implemented."""
        return not self._named_plugins() <= KNOWN_PLUGINS

    def _named_plugins(self) -> set[str]:
        named = {why["plugin"] for why in self.expected["rejected"].values()}
        named.update(plugin for scores in self.expected["scores"].values() for plugin in scores)
        if "preFilter" in self.expected:
            named.add(self.expected["preFilter"]["plugin"])
        return named


@lru_cache(maxsize=3)
def lines(file: str) -> list[str]:
    """The lines of a corpus."""
    return gzip.decompress((FOLDER / file).read_bytes()).decode().splitlines()


def write(file: str, lines_of_it: Iterable[str]) -> None:
    """Write a corpus; equal lines give an equal file."""
    text = "".join(f"{line}\n" for line in lines_of_it)
    (FOLDER / file).write_bytes(gzip.compress(text.encode(), mtime=0))
    lines.cache_clear()


def cases(line: int, entry: dict[str, Any]) -> Iterator[Case]:
    """The cases of one line."""
    pending = entry["snapshot"]["pending"]
    for pod, expected in zip(pending, entry["verdicts"], strict=True):
        yield Case(line, pod, expected)


def entries(file: str, part: int, parts: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """(line number, entry) of one of ``parts`` equal shares of a corpus."""
    for number, line in enumerate(lines(file), start=1):
        if number % parts == part:
            yield number, json.loads(line)
