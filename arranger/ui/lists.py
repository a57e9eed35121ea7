"""The pages that list things: of which template, with which values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from arranger.api.types.core import Node
from arranger.ui.views import nodes, overview, pods, queues, workloads
from arranger.ui.views.observed import STATES, Observed

#: Lines of a list, and of each part of what a search finds.
MOST_ROWS: Final = 200
_FOUND: Final = 50

Made = tuple[str, dict[str, Any]]
#: Field of the address → its value.
Query = Mapping[str, str]


def _overview(observed: Observed, _: Query) -> Made:
    return "overview.html", {"title": "Overview", "view": overview.overview(observed)}


def _queues(observed: Observed, _: Query) -> Made:
    return "queues.html", {"title": "Queues", "queues": queues.queue_tree(observed), "one": None}


def _gangs(observed: Observed, query: Query) -> Made:
    text = query.get("q", "")
    rows, count = workloads.gang_rows(observed, text, MOST_ROWS)
    return "workloads.html", {"title": "Gangs", "text": text, "count": count, "rows": rows}


def _jobs(observed: Observed, query: Query) -> Made:
    text = query.get("q", "")
    rows, count = workloads.job_rows(observed, text, MOST_ROWS)
    return "workloads.html", {"title": "Jobs", "text": text, "count": count, "rows": rows}


def _pods(observed: Observed, query: Query) -> Made:
    text, state = query.get("q", ""), query.get("state", "")
    rows, count = pods.find_pods(observed, text, state, MOST_ROWS)
    values = {"text": text, "state": state, "states": STATES, "rows": rows, "count": count}
    return "pods.html", {"title": "Pods", **values}


def _nodes(observed: Observed, query: Query) -> Made:
    text = query.get("q", "")
    view = nodes.node_grid(observed, query.get("by", ""), text)
    return "nodes.html", {"title": "Nodes", "text": text, "view": view}


def _search(observed: Observed, query: Query) -> Made:
    text = query.get("q", "").strip()
    engine, objects = observed.engine, observed.objects
    named = {
        "queue": list(engine.ledger.queues),
        "gang": observed.scope.of(engine.registry.gangs),
        "node": [node.metadata.name for node in objects.of(Node)],
        "pod": [pod.key for pod in observed.pods()],
    }
    found = [
        (kind, sorted(name for name in names if text in name)[:_FOUND])
        for kind, names in named.items()
        if text
    ]
    return "search.html", {
        "title": "Search",
        "query": text,
        "found": [(kind, names) for kind, names in found if names],
    }


LISTS: Final[Mapping[str, Callable[[Observed, Query], Made]]] = {
    "overview": _overview,
    "queues": _queues,
    "gangs": _gangs,
    "jobs": _jobs,
    "pods": _pods,
    "nodes": _nodes,
    "search": _search,
}
