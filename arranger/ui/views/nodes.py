"""Nodes as a grid, by topology domain and card; and one node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from arranger.api.types.core import Node, Pod
from arranger.cluster.columns import CPU, MEMORY
from arranger.quota.cards import cards_of, is_card_resource
from arranger.ui.views.amounts import Share
from arranger.ui.views.observed import Observed
from arranger.ui.views.overview import is_ready

ZONE: Final = "topology.kubernetes.io/zone"
_HOST: Final = "kubernetes.io/hostname"
#: A label is a topology where so many nodes share a value on average, and it has so many at most.
_SHARED: Final = 2
_MOST_DOMAINS: Final = 200
#: Cells of a grid; of more nodes only the counts of their groups are shown.
MAX_CELLS: Final = 6_000
#: Steps of a cell's colour.
_STEPS: Final = 5


@dataclass(frozen=True, slots=True)
class NodeCell:
    """One node of the grid.

    Attributes:
        step: 0 (nothing requested) to 5 (everything) of its scarcest resource.
        mark: ``""``, ``cordoned`` or ``not ready``.
        text: the same in words.
    """

    name: str
    step: int
    mark: str
    text: str


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """The nodes of one domain that have the same card.

    Attributes:
        domain: value of the label; "" of nodes without it.
        card: of what model; "" without any.
        share: of its cards, else of its cpu.
    """

    domain: str
    card: str
    nodes: int
    share: Share
    cells: list[NodeCell]


@dataclass(frozen=True, slots=True)
class NodeGrid:
    """All groups, and the labels by which they may be made."""

    label: str
    labels: list[str]
    groups: list[NodeGroup]
    nodes: int
    hidden: int


def node_grid(observed: Observed, label: str = "", text: str = "") -> NodeGrid:
    """The nodes whose names hold a text, by the values of a label and by card."""
    labels = topology_labels(observed)
    label = label if label in labels else next(iter(labels), "")
    table = observed.engine.cluster.table
    found: dict[tuple[str, str], list[int]] = {}
    for name, row in table.index.items():
        if text in name:
            node = table.node(row)
            card = ", ".join(sorted(set(cards_of(node).values()))) or _device(node)
            found.setdefault((node.metadata.labels.get(label, ""), card), []).append(row)
    groups, left = [], MAX_CELLS
    for (domain, card), rows in sorted(found.items(), key=lambda each: (each[0][1] == "", each[0])):
        cells = [_cell(observed, row) for row in rows[: max(0, left)]]
        left -= len(rows)
        cells.sort(key=lambda cell: cell.name)
        groups.append(NodeGroup(domain, card, len(rows), _share(observed, card, rows), cells))
    groups.sort(key=lambda each: (each.domain, each.card == "", each.card))
    count = sum(group.nodes for group in groups)
    return NodeGrid(label, labels, groups, count, max(0, -left))


def topology_labels(observed: Observed) -> list[str]:
    """The labels whose values are shared by several nodes, zones first, then the coarsest."""
    values: dict[str, set[str]] = {}
    counts: Counter[str] = Counter()
    for node in observed.objects.of(Node):
        for key, value in node.metadata.labels.items():
            counts[key] += 1
            values.setdefault(key, set()).add(value)
    usable = [
        key
        for key, seen in values.items()
        if key != _HOST and len(seen) <= _MOST_DOMAINS and counts[key] >= _SHARED * len(seen)
    ]
    return sorted(
        usable, key=lambda key: (key != ZONE, "topology" not in key, len(values[key]), key)
    )


def node_shares(observed: Observed, row: int) -> list[Share]:
    """What a node has of each resource, and what of it is requested."""
    table = observed.engine.cluster.table
    return [
        Share(name, int(table.requested[column, row]), int(table.allocatable[column, row]))
        for column, name in enumerate(table.resources.values)
        if name and table.allocatable[column, row]
    ]


def node_pods(observed: Observed, name: str) -> list[Pod]:
    """The pods on a node, by name."""
    found = (info.pod for info in observed.engine.cluster.pods_on(name))
    return sorted(found, key=lambda pod: pod.key)


def _device(node: Node) -> str:
    """What stands for the cards of a node that does not name their model."""
    named = (name for name in node.status.allocatable if is_card_resource(name))
    return next(iter(sorted(named)), "")


def _share(observed: Observed, card: str, rows: Sequence[int]) -> Share:
    table = observed.engine.cluster.table
    columns = [
        column
        for column, name in enumerate(table.resources.values)
        if card and is_card_resource(name)
    ]
    used = int(table.requested[columns][:, rows].sum()) if columns else 0
    total = int(table.allocatable[columns][:, rows].sum()) if columns else 0
    if total:
        return Share(card, used, total)
    cpu = table.requested[CPU, rows].sum(), table.allocatable[CPU, rows].sum()
    return Share("cpu", int(cpu[0]), int(cpu[1]))


def _cell(observed: Observed, row: int) -> NodeCell:
    table = observed.engine.cluster.table
    node = table.node(row)
    columns = [CPU, MEMORY]
    columns += [c for c, name in enumerate(table.resources.values) if is_card_resource(name)]
    shares = [
        Share(
            table.resources.values[c], int(table.requested[c, row]), int(table.allocatable[c, row])
        )
        for c in columns
        if table.allocatable[c, row]
    ]
    fullest = max(shares, key=lambda share: share.percent, default=Share("cpu", 0, 0))
    mark = "cordoned" if node.spec.unschedulable else "" if is_ready(node) else "not ready"
    step = -(-_STEPS * fullest.width // 100)
    text = ", ".join(f"{share.percent}% {share.name}" for share in shares)
    return NodeCell(node.metadata.name, step, mark, text)
