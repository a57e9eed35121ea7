"""Whether a pod is larger than every node, whatever runs there, and amounts in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from arranger.api.listing import first_names
from arranger.cluster.nodes.node_table import NodeTable
from arranger.cluster.pod_info import PodInfo

_GI: Final = 1024**3
#: Amounts in a text.
_MAX_NAMED: Final = 16
_BYTES: Final = ("memory", "ephemeral-storage")


def why_too_large(table: NodeTable, pod: PodInfo) -> str:
    """What the pod asks for that no node has, even if it were empty; "" if one has it all."""
    if table.replica_capacity(pod, empty=True).any():
        return ""
    most_of = {
        column: int(table.allocatable[column, : table.size].max(initial=0))
        for column in pod.request_vector(table.resource_column)[0]
    }
    requests = ((name, amount) for name, amount in pod.counted_requests.items() if amount)
    largest = {name: most_of[table.resource_column(name)] for name, _ in requests}
    beyond = {name: most for name, most in largest.items() if pod.requests[name] > most}
    if not beyond:
        together = amounts_text({name: pod.requests[name] for name in largest})
        return f"no node has together what pod {pod.key} asks for: {together}"
    asked = amounts_text({name: pod.requests[name] for name in beyond})
    return f"pod {pod.key} asks for {asked}, and the largest node has {amounts_text(beyond)}"


def amounts_text(amounts: Mapping[str, int]) -> str:
    """Amounts as people write them: ``cpu 64, memory 1.5Gi``; the first of many."""
    texts = [f"{name} {_amount(name, n)}" for name, n in sorted(amounts.items())]
    return first_names(texts, _MAX_NAMED)


def _amount(name: str, amount: int) -> str:
    if name == "cpu":
        return f"{amount / 1000:g}"
    return f"{amount / _GI:.3g}Gi" if name in _BYTES else str(amount)
