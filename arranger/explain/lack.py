"""What nodes lack for a pod, the nearest one first."""

from __future__ import annotations

from dataclasses import dataclass

from arranger.cluster.nodes.node_table import NodeTable
from arranger.cluster.nodes.node_view import NodeInfo
from arranger.cluster.pod_info import PodInfo
from arranger.explain.evaluate import Verdict


def lacks_of_nodes(table: NodeTable, pod: PodInfo, verdict: Verdict) -> list[Lack]:
    """What each node lacks that was rejected for want of resources, the nearest first."""
    return sorted(
        (
            Lack.of(table, node, pod)
            for node, why in verdict["rejected"].items()
            if why["plugin"] == "NodeResourcesFit"
        ),
        key=Lack.rank,
    )


@dataclass(frozen=True, slots=True)
class Lack:
    """What a node is short of for a pod.

    Attributes:
        missing: resource → how much more of it would have to be free.
        has_none: the devices of which the node has none at all.
        share: the largest share of any of the pod's requests that is missing.
    """

    node: str
    missing: dict[str, int]
    has_none: set[str]
    share: float

    @classmethod
    def of(cls, table: NodeTable, node: str, pod: PodInfo) -> Lack:
        """Compare what is free on the node with what the pod asks for."""
        missing: dict[str, int] = {}
        has_none: set[str] = set()
        share, row = 0.0, table.index[node]
        here = NodeInfo(table, row)
        for name, amount in {**pod.requests, "pods": 1}.items():
            in_all = here.allocatable(name)
            short = amount - (here.free(name) if in_all else 0)
            if short > 0:
                share = max(share, short / max(amount, 1))
                if "/" in name and not in_all:
                    has_none.add(name)
                else:
                    missing[name] = short
        return cls(node, missing, has_none, share)

    def rank(self) -> tuple[int, float]:
        """Least for the node that is nearest: room may come, devices do not."""
        return len(self.has_none), self.share

    def text(self) -> str:
        """What the node would need."""
        lacks = ", ".join(format_amount(name, amount) for name, amount in self.missing.items())
        parts = [
            f"lacks {lacks}" if lacks else "",
            f"has no {', '.join(sorted(self.has_none))}" if self.has_none else "",
        ]
        return f"{self.node} {' and '.join(filter(None, parts))}"


def format_amount(resource: str, amount: int) -> str:
    """An amount of a resource as people write it, ``cpu 500m``."""
    if resource == "cpu":
        return f"cpu {amount}m"
    if resource == "pods":
        return f"{amount} pod slot"
    if resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-"):
        return f"{resource} {_binary(amount)}"
    return f"{resource} {amount}"


def _binary(amount: int) -> str:
    for unit, size in (("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10)):
        if amount >= size:
            return f"{amount / size:.3g}{unit}"
    return str(amount)
