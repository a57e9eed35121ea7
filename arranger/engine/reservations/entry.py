"""One Reservation, as it was read: its nodes, its window at a moment, and its users."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import numpy as np

from arranger.api.parsing.errors import ParseError
from arranger.api.selectors import Selector, is_valid_requirement, requirement_matches
from arranger.api.settings.reservation_windows import Window, Windows, problem_of, read_windows
from arranger.api.timestamps import from_unix, second_time
from arranger.api.types.core import LabelSelector, Requirement
from arranger.api.types.reservation import ReservationSpec, ReservedNodes
from arranger.cluster.columns import BoolArray
from arranger.cluster.nodes.node_table import NodeTable

_NO_TIME: Final = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Entry:
    """A Reservation that can be read.

    Attributes:
        name: its name.
        spec: what it says.
        windows: when it holds.
        rows: row → whether its node is reserved in a window.
        namespaces: whose labels make pods its users.
    """

    name: str
    spec: ReservationSpec
    windows: Windows
    rows: BoolArray
    namespaces: Selector

    def window_for(self, now: float, lasts: float | None) -> Window | None:
        """The window that keeps a pod of others away which would start now; None if none does.

        Args:
            now: in seconds since 1970.
            lasts: the pod's maximum run time, in seconds; None if it may run for ever.
        """
        window = self.windows.at(now)
        if window is None:
            return None
        reaches = self.windows.drain_before if lasts is None else lasts
        return window if now + reaches > window.start else None

    def reason(self, window: Window, now: float) -> str:
        """Why a node is not for others."""
        if now >= window.start:
            return f"node(s) reserved by Reservation {self.name} until {shown_time(window.end)}"
        return f"node(s) reserved by Reservation {self.name} from {shown_time(window.start)}"


def read_entry(name: str, spec: ReservationSpec, table: NodeTable) -> Entry:
    """A Reservation with its nodes as they are now.

    Raises:
        ParseError: something of it cannot be read, or nothing is reserved for anybody.
    """
    if problem := problem_of(spec):
        raise ParseError(problem)
    rows = _selected_rows(spec.nodes, table)
    return Entry(name, spec, read_windows(spec), rows, Selector(spec.users.namespace_selector))


def shown_time(at: float) -> str:
    """A moment in messages, in UTC."""
    return second_time(from_unix(at))


def _selected_rows(stated: ReservedNodes, table: NodeTable) -> BoolArray:
    """Of the nodes of a selector the oldest, so that new nodes take no other's place."""
    chosen = np.zeros(table.size, dtype=np.bool_)
    if stated.selector is not None:
        chosen = _matching_rows(stated.selector, table)
        if stated.count is not None and int(chosen.sum()) > stated.count:
            found = np.flatnonzero(chosen).tolist()
            found.sort(key=lambda row: _age_of(table, row))
            chosen[found[stated.count :]] = False
    chosen[table.rows(stated.names)] = True
    return chosen


def _age_of(table: NodeTable, row: int) -> tuple[datetime, str]:
    meta = table.node(row).metadata
    return meta.creation_timestamp or _NO_TIME, meta.name


def _matching_rows(selector: LabelSelector, table: NodeTable) -> BoolArray:
    """Row → whether a label selector matches its node; each value is looked at once."""
    rows = table.alive[: table.size].copy()
    equal = [Requirement(key, "In", [value]) for key, value in selector.match_labels.items()]
    for requirement in (*equal, *selector.match_expressions):
        if not is_valid_requirement(requirement):
            return np.zeros(table.size, dtype=np.bool_)
        ids = table.label_column(requirement.key)[: table.size]
        values = table.label_values(requirement.key).values
        accepted = [requirement_matches(requirement, value) for value in values]
        # An absent label has a negative number: the last entry.
        accepted.append(requirement_matches(requirement, None))
        rows &= np.array(accepted, dtype=np.bool_)[np.where(ids < 0, len(values), ids)]
    return rows
