"""Verdicts as tables for people: the answer first, then why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from arranger.api.printable import printable
from arranger.api.settings.gang_membership import gang_membership
from arranger.api.unsatisfiable import unsatisfiable_message
from arranger.cluster.nodes.node_sizes import why_too_large
from arranger.cluster.pod_info import PodInfo
from arranger.explain.evaluate import Verdict
from arranger.explain.lack import lacks_of_nodes
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
        for reason, count in reason_counts(snapshot.cluster.table.count, verdict):
            grid.add_row(str(count), reason)
        parts.append(Padding(grid, (0, 0, 0, 2)))
        hints = [] if fits else [never_fits(snapshot, pod), nearest_fit(snapshot, pod, verdict)]
        hints.append(judged_alone(pod))
        parts += [Padding(Text(printable(hint)), (0, 0, 0, 2)) for hint in hints if hint]
    if parts and snapshot.reservations:
        parts.append(Text("Reservations are not looked at here: `arranger why --snapshot` does."))
    if not parts:
        parts.append(Text(printable(f"{snapshot.origin}: no pod is pending")))
    return Group(*parts)


def headline(snapshot: Snapshot, verdict: Verdict) -> str:
    """The answer about one pod in one line."""
    nodes = snapshot.cluster.table.count
    feasible = verdict["feasible"]
    if "error" in verdict:
        return f"{verdict['pod']}: it takes too long to find out: {verdict['error']}"
    if not feasible:
        return f"{verdict['pod']}: no node fits (of {nodes})"
    totals = verdict["totals"]
    best = max(feasible, key=lambda name: totals[name])
    return f"{verdict['pod']}: {len(feasible)} of {nodes} nodes fit, best {best} ({totals[best]})"


def reason_counts(nodes: int, verdict: Verdict) -> list[tuple[str, int]]:
    """(reason, nodes), most frequent first; the counts add up to the number of nodes."""
    if "preFilter" in verdict:
        refusal = verdict["preFilter"]
        reason = f"{', '.join(refusal['reasons'])} ({refusal['plugin']})"
        return [(reason, nodes)]
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
    lacking = lacks_of_nodes(table, pod, verdict)
    if lacking:
        nowhere = set.intersection(*(each.has_none for each in lacking))
        if nowhere and len(lacking) == table.count:
            return f"no node has {', '.join(sorted(nowhere))}"
        return f"nearest: {lacking[0].text()}"
    for node, why in verdict["rejected"].items():
        if why["code"] == "Unschedulable":
            return f"nearest: {node}, {', '.join(why['reasons'])}"
    return ""
