"""The pages about one thing; None where there is no such thing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from arranger.api.types.core import Node
from arranger.ui.lists import MOST_ROWS, Made, Query
from arranger.ui.views import nodes, overview, pods, queues, workloads
from arranger.ui.views.observed import Observed

#: Bundles of a gang, and things wrong with it, that are shown.
_MOST_FACTS: Final = 50


def _pod(observed: Observed, query: Query) -> Made | None:
    view = pods.pod_view(observed, query.get("name", ""))
    return None if view is None else ("pod.html", {"title": f"Pod {view.key}", "view": view})


def _gang(observed: Observed, query: Query) -> Made | None:
    gang = observed.engine.registry.gangs.get(query.get("name", ""))
    if gang is not None and not observed.scope.sees(gang.name):
        return None
    if gang is None:
        # A group is named by all of its gangs.
        return _group(observed, query.get("name", ""))
    found = workloads.members(observed, gang.memberships)
    facts = [("mode", str(gang.mode.value))]
    minimums = gang.settings.bundle_minimums
    facts += [(f"minimum of {name}", str(n)) for name, n in minimums[:_MOST_FACTS]]
    if len(minimums) > _MOST_FACTS:
        facts.append(("and minimums of", f"{len(minimums) - _MOST_FACTS} other bundles"))
    facts += [("invalid", problem) for problem in gang.problems[:_MOST_FACTS]]
    return "workload.html", {
        "title": f"Gang {gang.name}",
        "what": f"gang/{gang.name}",
        "row": workloads.gang_row(observed, gang),
        "facts": facts,
        **_pods_part(observed, found),
    }


def _group(observed: Observed, name: str) -> Made | None:
    first = name.split(",")[0]
    return _gang(observed, {"name": first}) if first != name else None


def _job(observed: Observed, query: Query) -> Made | None:
    kind, name = query.get("kind", ""), query.get("name", "")
    found, _ = observed.objects.controlled_by(kind, name)
    if not found or not observed.scope.sees(name):
        return None
    return "workload.html", {
        "title": f"{kind} {name}",
        "what": f"{kind}/{name}",
        "row": None,
        "facts": [],
        **_pods_part(observed, workloads.members(observed, [pod.metadata.uid for pod in found])),
    }


def _queue(observed: Observed, query: Query) -> Made | None:
    name = query.get("name", "")
    tree = [each for top in queues.queue_tree(observed) for each in top.walk()]
    one = next((each for each in tree if each.name == name), None)
    if one is None:
        return None
    rows = workloads.waiting_rows(observed, MOST_ROWS, queue=name)[0]
    return "queues.html", {"title": f"Queue {name}", "one": one, "rows": rows, "queues": []}


def _node(observed: Observed, query: Query) -> Made | None:
    name = query.get("name", "")
    node, row = (
        observed.objects.get(Node, f"/{name}"),
        observed.engine.cluster.table.index.get(name),
    )
    if node is None or row is None:
        return None
    marks = ["Cordoned"] if node.spec.unschedulable else []
    marks += [] if overview.is_ready(node) else ["Not ready"]
    return "node.html", {
        "title": f"Node {name}",
        "name": name,
        "marks": marks,
        "shares": nodes.node_shares(observed, row),
        "labels": sorted(node.metadata.labels.items()),
        "taints": [f"{taint.key}={taint.value}:{taint.effect}" for taint in node.spec.taints],
        "pods": pods.pod_rows(observed, nodes.node_pods(observed, name))[:MOST_ROWS],
    }


def _pods_part(observed: Observed, found: list[Any]) -> dict[str, Any]:
    found = [pod for pod in found if observed.scope.sees(pod.key)]
    rows = pods.pod_rows(observed, found[:MOST_ROWS])
    return {"pods": rows, "hidden": len(found) - len(rows)}


DETAILS: Final[Mapping[str, Callable[[Observed, Query], Made | None]]] = {
    "pod": _pod,
    "gang": _gang,
    "job": _job,
    "queue": _queue,
    "node": _node,
}
