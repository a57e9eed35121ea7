"""Verdicts as tables for people: the answer first, then why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from arranger.api.gang_membership import gang_membership
from arranger.api.printable import printable
from arranger.api.unsatisfiable import unsatisfiable_message
from arranger.cluster.node_sizes import why_too_large
from arranger.cluster.node_table import NodeTable
from arranger.cluster.node_view import NodeInfo
from arranger.cluster.pod_info import PodInfo
from arranger.explain.evaluate import Verdict
from arranger.explain.snapshot import Snapshot

if TYPE_CHECKING:
    from rich.console import RenderableType


def render(snapshot: Snapshot, verdicts: Sequence[Verdict]) -> RenderableType:
    """A renderable for rich: for each pod the answer, nodes by reason, and the nearest fit."""
    from rich.console import Group
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    parts: list[RenderableType] = []
    for pod, verdict in zip(snapshot.pending, verdicts, strict=True):
        fits = bool(verdict["feasible"])
        parts.append(
            Text(printable(headline(snapshot, verdict)), style="bold green" if fits else "bold red")
        )
        grid = Table.grid(padding=(0, 2))
        grid.add_column(justify="right")
        grid.add_column()
        for reason, count in reason_counts(snapshot, verdict):
            grid.add_row(str(count), reason)
        parts.append(Padding(grid, (0, 0, 0, 2)))
        hints = [] if fits else [never_fits(snapshot, pod), nearest_fit(snapshot, pod, verdict)]
        hints.append(judged_alone(pod))
        parts += [Padding(Text(printable(hint)), (0, 0, 0, 2)) for hint in hints if hint]
    if not parts:
        parts.append(Text(printable(f"{snapshot.origin}: no pod is pending")))
    return Group(*parts)


def headline(snapshot: Snapshot, verdict: Verdict) -> str:
    """The answer about one pod in one line."""
    nodes = snapshot.cluster.table.count
    feasible = verdict["feasible"]
    if not feasible:
        return f"{verdict['pod']}: no node fits (of {nodes})"
    totals = verdict["totals"]
    best = max(feasible, key=lambda name: totals[name])
    return f"{verdict['pod']}: {len(feasible)} of {nodes} nodes fit, best {best} ({totals[best]})"


def reason_counts(snapshot: Snapshot, verdict: Verdict) -> list[tuple[str, int]]:
    """(reason, nodes), most frequent first; the counts add up to the number of nodes."""
    if "preFilter" in verdict:
        refusal = verdict["preFilter"]
        reason = f"{', '.join(refusal['reasons'])} ({refusal['plugin']})"
        return [(reason, snapshot.cluster.table.count)]
    counts = Counter(
        f"{', '.join(why['reasons'])} ({why['plugin']})" for why in verdict["rejected"].values()
    )
    fitting = [("fit", len(verdict["feasible"]))] if verdict["feasible"] else []
    return [*fitting, *sorted(counts.items(), key=lambda item: (-item[1], item[0]))]


def never_fits(snapshot: Snapshot, pod: PodInfo) -> str:
    """Why no node could ever take the pod; "" if one might, or if there are none yet."""
    table = snapshot.cluster.table
    return unsatisfiable_message(why_too_large(table, pod) if table.count else "", "").rstrip()


def judged_alone(pod: PodInfo) -> str:
    """For a member of a gang: that the others were not asked about; "" for a lone pod."""
    membership = gang_membership(pod.pod)
    return f"as a pod on its own, without gang {membership.gang}" if membership is not None else ""


def nearest_fit(snapshot: Snapshot, pod: PodInfo, verdict: Verdict) -> str:
    """The node that lacks least, and what it lacks; "" if none can ever fit."""
    table = snapshot.cluster.table
    lacking = [
        _Lack.of(table, node, pod)
        for node, why in verdict["rejected"].items()
        if why["plugin"] == "NodeResourcesFit"
    ]
    if lacking:
        nowhere = set.intersection(*(each.has_none for each in lacking))
        if nowhere and len(lacking) == table.count:
            return f"no node has {', '.join(sorted(nowhere))}"
        return f"closest: {min(lacking, key=_Lack.rank).text()}"
    for node, why in verdict["rejected"].items():
        if why["code"] == "Unschedulable":
            return f"closest: {node}, {', '.join(why['reasons'])}"
    return ""


@dataclass(frozen=True, slots=True)
class _Lack:
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
    def of(cls, table: NodeTable, node: str, pod: PodInfo) -> _Lack:
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
        """Least for the node that is closest: room may come, devices do not."""
        return len(self.has_none), self.share

    def text(self) -> str:
        """What the node would need."""
        lacks = ", ".join(_amount(name, amount) for name, amount in self.missing.items())
        parts = [
            f"lacks {lacks}" if lacks else "",
            f"has no {', '.join(sorted(self.has_none))}" if self.has_none else "",
        ]
        return f"{self.node} {' and '.join(filter(None, parts))}"


def _amount(resource: str, amount: int) -> str:
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
