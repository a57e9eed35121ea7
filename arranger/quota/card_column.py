"""Which cards every node has, as a column beside the node table's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from arranger.api.resource_requests import Amounts
from arranger.cluster import IdArray, NodeTable, RowChange
from arranger.cluster.columns import IntArray, Interner, exact_sum
from arranger.quota.cards import NO_CARDS, Cards, cards_of


class CardColumn:
    """Row → the node's set of cards, as a small number; nodes with equal sets share it."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._card_sets: Interner[tuple[tuple[str, str], ...]] = Interner()
        self._card_sets.id(())
        self._column: IdArray = np.zeros(0, dtype=np.int32)
        self._version = -1
        self._present: frozenset[tuple[str, str]] = frozenset()
        self._kinds: list[int] = [0]
        self._resource_totals: tuple[int, Amounts] = (-1, {})
        #: Node → its object, and the cards that this has.
        self._cards_by_node: dict[str, tuple[object, Cards]] = {}

    def cards_on(self, node: str) -> Cards:
        """The cards of a node by resource."""
        row = self._table.index.get(node)
        if row is None:
            self._cards_by_node.pop(node, None)
            return NO_CARDS
        known = self._table.node(row)
        cached = self._cards_by_node.get(node)
        if cached is None or cached[0] is not known:
            cached = self._cards_by_node[node] = known, cards_of(known)
        return cached[1]

    def forget_nodes(self) -> None:
        """Look at the nodes anew."""
        self._cards_by_node.clear()

    def card_set_ids(self) -> IdArray:
        """Row → number of its card set; 0 for no cards."""
        table = self._table
        if table.version == self._version:
            return self._column
        changes = table.changed_since(self._version) if self._version >= 0 else None
        if changes is None or len(self._column) != table.size:
            rows = list(range(table.size))
            self._column = np.zeros(table.size, dtype=np.int32)
        else:
            rows = sorted({row for change, row in changes if change is RowChange.NODE})
        for row in rows:
            node = table.node(row) if table.alive[row] else None
            cards = cards_of(node) if node is not None else {}
            self._column[row] = self._card_sets.id(tuple(sorted(cards.items())))
        if rows:
            self._kinds = kinds_in(self._column) or [0]
            self._present = frozenset(self._offered())
        self._version = table.version
        return self._column

    def present(self) -> frozenset[tuple[str, str]]:
        """(resource, card) of all cards of which any node has one to give."""
        self.card_set_ids()
        return self._present

    def amounts(self, card: str, most: Mapping[str, int]) -> IntArray:
        """Row → how many of a card its node offers, of a resource no more than so much."""
        self.card_set_ids()
        table = self._table
        found = np.zeros(table.size, dtype=np.int64)
        for kind in self._kinds:
            for resource, each in self.card_set(kind).items():
                if each == card:
                    column = table.allocatable[table.resource_column(resource), : table.size]
                    if resource in most:
                        column = np.minimum(column, most[resource])
                    found += np.where(self._column == kind, column, 0)
        return found

    def resource_totals(self) -> Amounts:
        """Resource → what all nodes have together."""
        table = self._table
        if self._resource_totals[0] != table.nodes_version:
            sums = table.allocatable[:, : table.size].sum(axis=1).tolist()
            named = zip(table.resources.values, sums, strict=False)
            self._resource_totals = table.nodes_version, dict(named)
        return self._resource_totals[1]

    def totals(self) -> dict[str, int]:
        """Card → how many all nodes have together."""
        self.card_set_ids()
        found = Counter[str]()
        for (_, card), n in self._offered().items():
            found[card] += n
        return dict(found)

    def _offered(self) -> Counter[tuple[str, str]]:
        """(resource, card) → how many all nodes have together, of those that have any."""
        table, found = self._table, Counter[tuple[str, str]]()
        for kind in self._kinds:
            for resource, card in self.card_set(kind).items():
                column = table.allocatable[table.resource_column(resource), : table.size]
                found[resource, card] += exact_sum(column[self._column == kind])
        return +found

    def kinds(self) -> Sequence[int]:
        """The numbers of the card sets that there are."""
        self.card_set_ids()
        return self._kinds

    def card_set(self, number: int) -> Cards:
        """The cards of a set, by resource."""
        return dict(self._card_sets.values[number])


def kinds_in(column: IdArray) -> list[int]:
    """The numbers of card sets that are there, in order: they are few, and counted at a tenth of
    what it costs to sort rows."""
    found: list[int] = np.flatnonzero(np.bincount(column)).tolist()
    return found
