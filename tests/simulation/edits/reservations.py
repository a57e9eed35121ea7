"""Edits of Reservations; time begins with Thursday, 1 January 2026."""

from __future__ import annotations

from typing import Any, Final

from arranger.api import annotations as keys
from tests.builders import a_node, a_pod
from tests.simulation.edits.cluster import STAYS
from tests.simulation.edits.edit import (
    Edits,
    NoMeaning,
    TakesEffect,
    create,
    note,
    opens,
    patch,
)
from tests.simulation.edits.fields import Field
from tests.simulation.harnesses.gangs import GangHarness
from tests.simulation.harnesses.simulation import Object

_PATH: Final = "/apis/arranger.io/v1alpha1/reservations/r"
_ALWAYS: Final[Object] = {"start": "2025-12-01T00:00:00Z", "end": "2027-01-01T00:00:00Z"}
_NOBODY: Final[Object] = {"maintenance": True}
_LONG_AGO: Final = "2025-12-02T00:00:00Z"
_OTHERS: Final[Object] = {"key": "team", "operator": "In", "values": ["blue"]}


def _reserved(**spec: Any) -> Object:
    """The node ``n1``, now and for long, for nobody, unless said otherwise."""
    stated = {"nodes": {"names": ["n1"]}, "window": _ALWAYS, **(_NOBODY | spec)}
    if "users" in spec:
        del stated["maintenance"]
    return {
        "apiVersion": "arranger.io/v1alpha1",
        "kind": "Reservation",
        "metadata": {"name": "r"},
        "spec": stated,
    }


def _edit(change: Object, **spec: Any) -> Edits:
    """A pod gets the node once the Reservation, of this spec at first, is changed so."""
    node = a_node("n1").offers(cpu=1).labelled(team="red", last="yes")
    given = create(node, _reserved(**spec), a_pod("p").needs(cpu=1))
    return Edits(opens(given, patch(_PATH, {"spec": change})), STAYS)


def _window(change: Object, **window: Any) -> Edits:
    """The same of its window."""
    return _edit({"window": change}, window=window)


def _users(change: Object, **users: Any) -> Edits:
    """The same of its users."""
    return _edit({"users": change}, users=users)


def _selector(change: Object, **selector: Any) -> Edits:
    """The same of the selector of its nodes."""
    return _edit({"nodes": {"selector": change}}, nodes={"selector": selector})


def _of_namespaces(change: Object, **selector: Any) -> Edits:
    """The same of the selector of its users' namespaces."""
    return _users({"namespaceSelector": change}, namespaceSelector=selector)


_DAILY: Final[Object] = {"start": "2025-12-01T00:00:00Z", "duration": "2h"}
_RED: Final[Object] = {"key": "team", "operator": "In", "values": ["red"]}
_NAMED: Final = "kubernetes.io/metadata.name"
_IN_DEFAULT: Final[Object] = {"key": _NAMED, "operator": "In", "values": ["default"]}
_IN_OTHER: Final[Object] = {"key": _NAMED, "operator": "In", "values": ["other"]}
_COUNTED: Final = create(
    a_node("n0").offers(cpu=1).labelled(team="red"),
    a_node("n1").offers(cpu=1).labelled(team="red"),
    _reserved(nodes={"selector": {"matchLabels": {"team": "red"}}, "count": 2}),
    a_pod("p").needs(cpu=1),
)
_RUNNING: Final = create(a_node("n1").offers(cpu=1), _reserved(), a_pod("p").on("n1"))


def _fewer(field: str, name: str) -> Edits:
    """Of two nodes with a card each both are reserved, and then one."""
    card = {"nvidia.com/gpu.product": "A100"}
    nodes = (a_node(n).offers({"nvidia.com/gpu": 1}, cpu=1).labelled(card) for n in ("n0", "n1"))
    given = create(*nodes, _reserved(nodes={field: {name: 2}}), a_pod("p").needs(cpu=1))
    return Edits(opens(given, patch(_PATH, {"spec": {"nodes": {field: {name: 1}}}})), STAYS)


def _pods(sim: GangHarness) -> set[str]:
    return {pod["metadata"]["name"] for pod in sim.cluster.objects("pods")}


ROWS: Final[dict[Field, Edits]] = {
    ("Reservation", f"spec.{name}"): edits
    for name, edits in {
        "nodes.names": _edit({"nodes": {"names": ["n2"]}}),
        "nodes.count": Edits(
            opens(_COUNTED, patch(_PATH, {"spec": {"nodes": {"count": 1}}})), STAYS
        ),
        "nodes.perNode": _edit(
            {"nodes": {"perNode": {"cpu": None, "memory": "1Gi"}}},
            nodes={"names": ["n1"], "perNode": {"cpu": 1}},
            users={"queues": ["nobody"]},
        ),
        "nodes.cards": _fewer("cards", "A100"),
        "nodes.resources": _fewer("resources", "nvidia.com/gpu"),
        "nodes.selector.matchLabels": _selector(
            {"matchLabels": {"team": "blue"}}, matchLabels={"team": "red"}
        ),
        "nodes.selector.matchExpressions[].key": _selector(
            {"matchExpressions": [{**_RED, "key": "last"}]}, matchExpressions=[_RED]
        ),
        "nodes.selector.matchExpressions[].operator": _selector(
            {"matchExpressions": [{**_RED, "operator": "NotIn"}]}, matchExpressions=[_RED]
        ),
        "nodes.selector.matchExpressions[].values": _selector(
            {"matchExpressions": [_OTHERS]}, matchExpressions=[_RED]
        ),
        "window.start": _window({"start": "2026-12-01T00:00:00Z"}, **_ALWAYS),
        "window.end": _window({"end": _LONG_AGO}, **_ALWAYS),
        "window.duration": _window(
            {"duration": "1h"}, start="2025-12-31T00:00:00Z", duration="48h"
        ),
        "window.recurrence.days": _window(
            {"recurrence": {"days": ["Monday"]}}, **_DAILY, recurrence={"days": ["Thursday"]}
        ),
        "window.recurrence.timeZone": _window(
            {"recurrence": {"timeZone": "America/New_York"}},
            **_DAILY,
            recurrence={"days": ["Thursday"], "timeZone": "UTC"},
        ),
        "window.recurrence.until": _window(
            {"recurrence": {"until": _LONG_AGO}}, **_DAILY, recurrence={"days": ["Thursday"]}
        ),
        "users.queues": _users({"queues": ["default"]}, queues=["other"]),
        "users.gangs": Edits(
            opens(
                create(
                    a_node("n1").offers(cpu=1),
                    _reserved(users={"gangs": ["default/other"]}),
                    a_pod("p").needs(cpu=1).in_gang("g", 1),
                ),
                patch(_PATH, {"spec": {"users": {"gangs": ["default/g"]}}}),
            ),
            STAYS,
        ),
        "users.namespaceSelector.matchLabels": _of_namespaces(
            {"matchLabels": {_NAMED: "default"}}, matchLabels={_NAMED: "other"}
        ),
        "users.namespaceSelector.matchExpressions[].key": _of_namespaces(
            {"matchExpressions": [{**_IN_DEFAULT, "key": _NAMED}]},
            matchExpressions=[{**_IN_DEFAULT, "key": "name"}],
        ),
        "users.namespaceSelector.matchExpressions[].operator": _of_namespaces(
            {"matchExpressions": [{**_IN_OTHER, "operator": "NotIn"}]},
            matchExpressions=[_IN_OTHER],
        ),
        "users.namespaceSelector.matchExpressions[].values": _of_namespaces(
            {"matchExpressions": [_IN_DEFAULT]}, matchExpressions=[_IN_OTHER]
        ),
        "maintenance": _edit({"maintenance": False, "users": {"queues": ["default"]}}),
        "evict": Edits(
            NoMeaning("a pod that waits leaves no node"),
            TakesEffect(
                _RUNNING, patch(_PATH, {"spec": {"evict": True}}), _pods, without={"p"}, seen=set()
            ),
        ),
        "drainBefore": _edit(
            {"drainBefore": "1s"},
            window={"start": "2026-01-01T00:30:00Z", "end": "2026-01-01T01:00:00Z"},
        ),
    }.items()
} | {
    ("pod", keys.RESERVATION): Edits(
        opens(
            create(a_node("n1"), a_pod("p").annotated({keys.RESERVATION: "nobody-made-it"})),
            note(keys.RESERVATION, None, "p"),
        ),
        STAYS,
    )
}
