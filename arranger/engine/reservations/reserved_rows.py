"""Which nodes a Reservation has: those it names, and the oldest of those that its selector matches.

The oldest, so that a new node takes no other's place. Of resources and cards it has as many whole
nodes as offer them together. Of all of them it may have only a part.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, Protocol

import numpy as np

from arranger.api.parsing.errors import ParseError
from arranger.api.quantity import QuantityError
from arranger.api.resource_requests import format_quantity, parse_resource_list
from arranger.api.selectors import is_valid_requirement, requirement_matches
from arranger.api.types.core import LabelSelector, Requirement, ResourceList
from arranger.api.types.reservation import ReservedNodes
from arranger.cluster.columns import NOT_OFFERED, BoolArray, IntArray
from arranger.cluster.nodes.node_table import NodeTable

_NO_TIME: Final = datetime.min.replace(tzinfo=UTC)


class NodeCards(Protocol):
    """Knows the cards of nodes."""

    def amounts(self, card: str, most: Mapping[str, int]) -> IntArray:
        """Row → how many of a card its node offers, of a resource no more than so much."""


@dataclass(slots=True)
class ReservedRows:
    """Chooses rows, as the nodes are now."""

    _table: NodeTable
    _cards: NodeCards
    #: Rows of living nodes, the oldest first, once somebody has asked.
    _oldest: IntArray | None = field(default=None, init=False)

    def of(self, stated: ReservedNodes) -> tuple[BoolArray, Mapping[int, int], str]:
        """(row → whether a Reservation has its node, the part that it has of each, and what its
        nodes do not offer: "" for nothing).

        A part is told by column; it is empty for whole nodes.

        Raises:
            ParseError: an amount is none, or is not above 0.
        """
        table, per_node = self._table, _amounts("perNode", stated.per_node)
        chosen = np.zeros(table.size, dtype=np.bool_)
        missing: list[str] = []
        if stated.selector is not None or stated.resources or stated.cards:
            matching = table.alive[: table.size].copy()
            if stated.selector is not None:
                matching = matching_rows(stated.selector, table)
            if stated.count is not None:
                chosen[self._by_age(matching)[: stated.count]] = True
            elif stated.resources or stated.cards:
                for name, wanted, offered in self._amounts(stated, per_node):
                    found = self._add_nodes(chosen, matching, wanted, offered)
                    if found < wanted:
                        shown = [format_quantity(name, each) for each in (found, wanted)]
                        missing.append(f"{shown[0]} of {shown[1]} {name}")
            else:
                chosen = matching
        chosen[table.rows(stated.names)] = True
        part = dict[int, int]()
        for name, wanted in per_node.items():
            column = table.resource_column(name)
            less = chosen & (table.allocatable[column, : table.size] < wanted)
            if column == NOT_OFFERED:
                less = chosen
            else:
                part[column] = wanted
            if less.any():
                missing.append(f"less than {format_quantity(name, wanted)} {name} each")
        if per_node and not part:
            chosen = np.zeros(table.size, dtype=np.bool_)  # there is nothing of it to be kept
        return chosen, part, f"its nodes offer {', '.join(missing)}" if missing else ""

    def _amounts(
        self, stated: ReservedNodes, per_node: Mapping[str, int]
    ) -> Iterator[tuple[str, int, IntArray]]:
        """(resource or card, how much of it, row → how much its node has for it)."""
        table, wanted = self._table, _amounts("resources", stated.resources)
        _check_amounts("cards", stated.cards)
        for name in sorted(wanted):
            column = table.resources.find(name)
            offered = np.zeros(table.size, dtype=np.int64)
            if column >= 0:
                offered = table.allocatable[column, : table.size]
            if name in per_node:
                offered = np.minimum(offered, per_node[name])
            yield name, wanted[name], offered
        for card in sorted(stated.cards):
            yield card, stated.cards[card], self._cards.amounts(card, per_node)

    def _add_nodes(
        self, chosen: BoolArray, matching: BoolArray, wanted: int, offered: IntArray
    ) -> int:
        """Choose more of the matching nodes until they offer enough; returns how much they do."""
        found: int = sum(offered[chosen].tolist())
        more = self._by_age(matching & ~chosen & (offered > 0))
        for row, amount in zip(more.tolist(), offered[more].tolist(), strict=True):
            if found >= wanted:
                break
            chosen[row] = True
            found += amount
        return found

    def _by_age(self, rows: BoolArray) -> IntArray:
        if self._oldest is None:
            alive = np.flatnonzero(self._table.alive[: self._table.size]).tolist()
            self._oldest = np.array(sorted(alive, key=self._age_of), dtype=np.int64)
        return self._oldest[rows[self._oldest]]

    def _age_of(self, row: int) -> tuple[datetime, str]:
        meta = self._table.node(row).metadata
        return meta.creation_timestamp or _NO_TIME, meta.name


def _amounts(field_name: str, stated: ResourceList) -> Mapping[str, int]:
    try:
        amounts = parse_resource_list(stated)
    except QuantityError as error:
        raise ParseError(f"nodes.{field_name}: {error}") from None
    _check_amounts(field_name, amounts)
    return amounts


def _check_amounts(field_name: str, amounts: Mapping[str, int]) -> None:
    if any(amount <= 0 for amount in amounts.values()):
        raise ParseError(f"nodes.{field_name}: amounts must be above 0")


def matching_rows(selector: LabelSelector, table: NodeTable) -> BoolArray:
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
