"""Makes a snapshot smaller as long as it still shows the same difference."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

Json = Any
Path = tuple[str | int, ...]

#: Fields that the API requires: they go only with the whole object that holds them.
REQUIRED: Final = frozenset(
    {
        "allocatable",
        "allocatedResources",
        "containerPort",
        "containers",
        "controller",
        "disruptionsAllowed",
        "effect",
        "hostPort",
        "key",
        "kind",
        "maxSkew",
        "metadata",
        "name",
        "names",
        "namespace",
        "nodeName",
        "nodeSelectorTerms",
        "nodes",
        "operator",
        "pending",
        "phase",
        "podAffinityTerm",
        "preference",
        "reference",
        "requests",
        "selector",
        "sizeBytes",
        "spec",
        "startTime",
        "status",
        "topologyKey",
        "uid",
        "values",
        "weight",
        "whenUnsatisfiable",
    }
)


def shrink(value: Json, still_fails: Callable[[Json], bool]) -> Json:
    """The smallest value found by dropping parts, big ones first, while ``still_fails`` stays true.

    No part (an element of a list, a key that may be left out) can be dropped from what is returned.
    """
    again = True
    while again:
        again = False
        for path in sorted(_paths(value), key=len):
            if (smaller := _without(value, path)) is not None and still_fails(smaller):
                value, again = smaller, True
    return value


def _paths(value: Json, at: Path = ()) -> Iterator[Path]:
    # The last element first, so that dropping it does not change the other paths.
    if isinstance(value, dict):
        for key, inner in value.items():
            if key not in REQUIRED:
                yield (*at, key)
            yield from _paths(inner, (*at, key))
    elif isinstance(value, list):
        for index in reversed(range(len(value))):
            yield (*at, index)
            yield from _paths(value[index], (*at, index))


def _without(value: Json, path: Path, holder: str | int = "") -> Json | None:
    """A copy without one part, sharing the rest; None where it is gone already, or must stay.

    ``holder`` is the key under which the value was found.
    """
    first, rest = path[0], path[1:]
    if isinstance(value, dict) and first in value:
        if not rest:
            return {key: inner for key, inner in value.items() if key != first}
        inner = _without(value[first], rest, first)
        return None if inner is None else {**value, first: inner}
    if isinstance(value, list) and isinstance(first, int) and first < len(value):
        if not rest:
            last = len(value) == 1 and holder in REQUIRED
            return None if last else [*value[:first], *value[first + 1 :]]
        inner = _without(value[first], rest, first)
        return None if inner is None else [*value[:first], inner, *value[first + 1 :]]
    return None
