"""Whether a pod is larger than every node, whatever runs there, and amounts in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from arranger.cluster.node_table import NodeTable
from arranger.cluster.pod_info import PodInfo

_GI: Final = 1024**3
_BYTES: Final = ("memory", "ephemeral-storage")


def why_too_large(table: NodeTable, pod: PodInfo) -> str:
    """What the pod asks for that no node has, even if it were empty; "" if one has it all."""
    if table.replica_capacity(pod, empty=True).any():
        return ""
    largest = {
        name: int(table.allocatable[table.resource_column(name), : table.size].max(initial=0))
        for name, amount in pod.requests.items()
        if amount
    }
    beyond = {name: most for name, most in largest.items() if pod.requests[name] > most}
    if not beyond:
        together = amounts_text({name: pod.requests[name] for name in largest})
        return f"no node has together what pod {pod.key} asks for: {together}"
    asked = amounts_text({name: pod.requests[name] for name in beyond})
    return f"pod {pod.key} asks for {asked}, and the largest node has {amounts_text(beyond)}"


def amounts_text(amounts: Mapping[str, int]) -> str:
    """Amounts as people write them: ``cpu 64, memory 1.5Gi``."""
    return ", ".join(f"{name} {_amount(name, n)}" for name, n in sorted(amounts.items()))


def _amount(name: str, amount: int) -> str:
    if name == "cpu":
        return f"{amount / 1000:g}"
    return f"{amount / _GI:.3g}Gi" if name in _BYTES else str(amount)
