"""The conformance corpora: snapshots with kube-scheduler 1.36's verdicts on them.

They are shared beside the repository; ``ARRANGER_SHARED`` names another place.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from arranger.plugins import DEFAULT_PLUGINS

SHARED = Path(
    os.environ.get("ARRANGER_SHARED") or Path(__file__).resolve().parents[2].parent / "shared"
)
#: Who may be named in a verdict we are to equal. All of DynamicResources' scores are 0.
KNOWN_PLUGINS = {plugin.name for plugin, _ in DEFAULT_PLUGINS} | {
    "PreFilterResult",
    "DynamicResources",
}


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
    def needs_unknown_plugin(self) -> bool:
        """Whether the verdict rests on a plugin that is not built."""
        return not self._named_plugins() <= KNOWN_PLUGINS

    def _named_plugins(self) -> set[str]:
        named = {why["plugin"] for why in self.expected["rejected"].values()}
        named.update(plugin for scores in self.expected["scores"].values() for plugin in scores)
        if "preFilter" in self.expected:
            named.add(self.expected["preFilter"]["plugin"])
        return named

    def comparable_verdict(self) -> dict[str, Any]:
        """The verdict without scores that are all 0."""
        scores = {
            node: {p: n for p, n in points.items() if p != "DynamicResources"}
            for node, points in self.expected["scores"].items()
        }
        return {**self.expected, "scores": scores}


def lines(file: str) -> list[str]:
    """The lines of a corpus; skips the test where there is none."""
    path = SHARED / "conformance" / file
    if not path.exists():
        pytest.skip(f"no corpus at {path}; set ARRANGER_SHARED to the shared folder")
    return _lines(path)


@lru_cache(maxsize=2)
def _lines(path: Path) -> list[str]:
    return gzip.decompress(path.read_bytes()).decode().splitlines()


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
