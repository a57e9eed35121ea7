"""What a change would do, in the parts that the page shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from arranger.shadow.forecasts.comparison import Difference, replacement_text

#: Pods that a part names before it only counts.
_NAMED: Final = 200


@dataclass(frozen=True, slots=True)
class Part:
    """Pods of which the same becomes.

    Attributes:
        style: how it is marked.
        heading: of the second column.
        rows: (pod, text) of the first.
    """

    title: str
    style: str
    heading: str
    count: int
    rows: list[tuple[str, str]]


def parts_of(told: Difference) -> list[Part]:
    """The parts, the gravest first."""
    moved = {key: f"{was} → {becomes}" for key, (was, becomes) in told.moved.items()}
    evicted = {key: f"{why}{replacement_text(told, key)}" for key, why in told.evicted.items()}
    gone = {key: replacement_text(told, key).removeprefix("; ") for key in told.gone}
    return [
        _part("evicted", "evicted", "Why", evicted),
        _part("would wait, and do not now", "waits", "Why", told.waiting),
        _part("placed", "placed", "Node", told.placed),
        _part("placed elsewhere", "moved", "Nodes", moved),
        _part("no longer evicted", "spared", "", dict.fromkeys(told.spared, "")),
        _part("taken away by the change", "gone", "", gone),
        _part("still waiting", "still", "Why", told.still_waiting),
    ]


def _part(title: str, style: str, heading: str, pods: dict[str, str]) -> Part:
    rows = [(key, pods[key]) for key in sorted(pods)[:_NAMED]]
    return Part(title, style, heading or "Outcome", len(pods), rows)
