"""The plugins of a profile that have a say about a class of pods, sorted by what they depend on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Final, NamedTuple

from arranger.framework.interface import DependsOn, Plugin, overrides

#: Combinations of skipped plugins that are kept.
_MAX_KEPT: Final = 256


class ScoreEntry(NamedTuple):
    """A plugin that scores this class, with what is needed for every placement."""

    plugin: Plugin
    name: str
    weight: int
    normalized: bool


class ActiveFilters(NamedTuple):
    """The plugins that filter: all, and those that depend on the nodes, their pods, everything."""

    all: tuple[Plugin, ...]
    node: tuple[Plugin, ...]
    usage: tuple[Plugin, ...]
    cluster: tuple[Plugin, ...]


class ActiveScorers(NamedTuple):
    """The plugins that score: all, those that normalise, and by what they depend on.

    ``rows`` are those that depend on a row alone.
    """

    all: tuple[ScoreEntry, ...] = ()
    normalized: tuple[ScoreEntry, ...] = ()
    cluster: tuple[ScoreEntry, ...] = ()
    usage: tuple[ScoreEntry, ...] = ()
    rows: tuple[ScoreEntry, ...] = ()


NO_SCORERS: Final = ActiveScorers()


class ActivePlugins:
    """Sorts a profile's plugins once for each set of those that are skipped."""

    def __init__(
        self, filters: Sequence[Plugin], scorers: Sequence[Plugin], weights: Mapping[str, int]
    ) -> None:
        self._filters = filters
        self._scorers = tuple(
            ScoreEntry(p, p.name, weights[p.name], overrides(p, "normalize_score")) for p in scorers
        )
        self._known_filters: dict[frozenset[str], ActiveFilters] = {}
        self._known_scorers: dict[frozenset[str], ActiveScorers] = {}

    def filters(self, skipped: Set[str]) -> ActiveFilters:
        """Those that filter."""
        key = frozenset(skipped)
        found = self._known_filters.get(key)
        if found is None:
            plugins = tuple(p for p in self._filters if p.name not in key)
            found = ActiveFilters(
                plugins,
                tuple(p for p in plugins if p.depends_on in (DependsOn.NODE, DependsOn.NODES)),
                tuple(p for p in plugins if p.depends_on is DependsOn.USAGE),
                tuple(p for p in plugins if p.depends_on is DependsOn.CLUSTER),
            )
            if len(self._known_filters) >= _MAX_KEPT:
                self._known_filters.clear()
            self._known_filters[key] = found
        return found

    def scorers(self, skipped: Set[str]) -> ActiveScorers:
        """Those that score."""
        key = frozenset(skipped)
        found = self._known_scorers.get(key)
        if found is None:
            entries = tuple(s for s in self._scorers if s.name not in key)
            found = ActiveScorers(
                entries,
                tuple(s for s in entries if s.normalized),
                tuple(s for s in entries if s.plugin.depends_on is DependsOn.CLUSTER),
                tuple(s for s in entries if s.plugin.depends_on is DependsOn.USAGE),
                tuple(s for s in entries if s.plugin.depends_on is not DependsOn.CLUSTER),
            )
            if len(self._known_scorers) >= _MAX_KEPT:
                self._known_scorers.clear()
            self._known_scorers[key] = found
        return found
