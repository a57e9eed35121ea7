"""PodTopologySpread: even over domains, or nearly."""

from __future__ import annotations

import tracemalloc
from math import log
from typing import Any

import msgspec
import pytest

from arranger.api.types.core import Pod
from arranger.api.types.workloads import ReplicaSet, ReplicationController, Service, StatefulSet
from arranger.cluster.object_store import StoredObject
from arranger.cluster.pod_info import PodInfo
from arranger.explain.evaluate import evaluate_pod
from arranger.framework import ActionType, ClusterEvent
from arranger.framework.runtime.registry import Registry
from arranger.kube.watch.trimming import trim
from arranger.plugins.topology.pod_topology_spread import PodTopologySpread
from tests.builders import NodeBuilder, PodBuilder, a_cluster, a_node, a_pod
from tests.unit.plugins.evaluation import evaluate_with, rejected, scores, single_plugin_profile

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
WEB = {"app": "web"}
WEB_POD = a_pod().labelled(WEB)
A1, A2 = a_node("a1").in_zone("a"), a_node("a2").in_zone("a")
B1 = a_node("b1").in_zone("b")
NODES = [A1, A2, B1]
SKEWED = ("node(s) didn't match pod topology spread constraints",)
NO_LABEL = ("node(s) didn't match pod topology spread constraints (missing required label)",)


def web(name: str, node: str) -> PodBuilder:
    return a_pod(name).labelled(WEB).on(node)


SPREAD = WEB_POD.spreads(ZONE, over=WEB)
Members = list[NodeBuilder | PodBuilder]
CASES: dict[str, tuple[PodBuilder, Members, dict[str, tuple[str, ...]]]] = {
    "an empty cluster is even": (SPREAD, [*NODES], {}),
    "one ahead is enough": (SPREAD, [*NODES, web("w", "a1")], {"a1": SKEWED, "a2": SKEWED}),
    "a skew of two allows one more": (
        WEB_POD.spreads(ZONE, skew=2, over=WEB),
        [*NODES, web("w", "a1")],
        {},
    ),
    "pods of other labels do not count": (SPREAD, [*NODES, a_pod("x").on("a1")], {}),
    "pods of other namespaces do not count": (
        SPREAD,
        [*NODES, a_pod("w").in_namespace("other").labelled(WEB).on("a1")],
        {},
    ),
    "pods that are going do not count": (SPREAD, [*NODES, web("w", "a1").deleting()], {}),
    "a node without the key takes no such pod": (
        SPREAD,
        [*NODES, a_node("bare")],
        {"bare": NO_LABEL},
    ),
    "domains the pod cannot go to do not set the minimum": (
        SPREAD.selects({ZONE: "a"}),
        [*NODES, web("w", "a1")],
        {},
    ),
    "unless the policy ignores that": (
        WEB_POD.spreads(ZONE, over=WEB, nodeAffinityPolicy="Ignore").selects({ZONE: "a"}),
        [*NODES, web("w", "a1")],
        {"a1": SKEWED, "a2": SKEWED},
    ),
    "tainted nodes set the minimum": (
        SPREAD,
        [A1, B1.tainted("x"), web("w", "a1")],
        {"a1": SKEWED},
    ),
    "unless the policy honours taints": (
        WEB_POD.spreads(ZONE, over=WEB, nodeTaintsPolicy="Honor"),
        [A1, B1.tainted("x"), web("w", "a1")],
        {},
    ),
    "tolerated taints are as good as none": (
        WEB_POD.spreads(ZONE, over=WEB, nodeTaintsPolicy="Honor").tolerates("x"),
        [A1, B1.tainted("x"), web("w", "a1")],
        {"a1": SKEWED},
    ),
    "too few domains: the minimum is taken to be nothing": (
        WEB_POD.spreads(ZONE, over=WEB, minDomains=3),
        [*NODES, web("w", "a1"), web("v", "b1")],
        {"a1": SKEWED, "a2": SKEWED, "b1": SKEWED},
    ),
    "enough domains": (
        WEB_POD.spreads(ZONE, over=WEB, minDomains=2),
        [*NODES, web("w", "a1"), web("v", "b1")],
        {},
    ),
    "a pod that its own selector does not mean adds nothing": (
        a_pod().spreads(ZONE, over=WEB),
        [*NODES, web("w", "a1")],
        {},
    ),
    "two constraints must both hold": (
        SPREAD.spreads(HOST, over=WEB),
        [A1, A2, B1, web("w", "a1"), web("v", "b1")],
        {"a1": SKEWED, "b1": SKEWED},
    ),
    "nodes without all keys count in no domain": (
        SPREAD.spreads("rack", skew=9, over=WEB),
        [A1.labelled(rack="r"), B1, web("w", "b1")],
        {"b1": NO_LABEL},
    ),
    "matchLabelKeys narrows to the pod's own revision": (
        WEB_POD.labelled(rev="2").spreads(ZONE, over=WEB, matchLabelKeys=["rev"]),
        [*NODES, web("old", "a1").labelled(rev="1")],
        {},
    ),
    "a selector that selects everything counts nothing": (
        WEB_POD.spreads(ZONE),
        [*NODES, web("w", "a1")],
        {},
    ),
    "soft constraints reject nothing": (
        WEB_POD.spreads(ZONE, over=WEB, soft=True),
        [*NODES, web("w", "a1")],
        {},
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_filter(case: tuple[PodBuilder, Members, dict[str, tuple[str, ...]]]) -> None:
    pod, members, expected = case
    assert rejected(PodTopologySpread(), pod, *members) == expected


def test_skew_may_be_evicted_away_but_a_missing_label_not() -> None:
    verdict = evaluate_with(PodTopologySpread(), SPREAD, A1, B1, a_node("bare"), web("w", "a1"))
    codes = {node: why["code"] for node, why in verdict["rejected"].items()}
    assert codes == {"a1": "Unschedulable", "bare": "UnschedulableAndUnresolvable"}


SOFT = WEB_POD.spreads(ZONE, over=WEB, soft=True)
POINTS: dict[str, tuple[PodBuilder, Members, dict[str, int | None]]] = {
    "a pod without constraints is not scored": (a_pod(), [A1, B1], {"a1": None, "b1": None}),
    "an empty cluster is all the same": (SOFT, [A1, B1], {"a1": 100, "b1": 100}),
    "the emptier zone is better": (SOFT, [A1, B1, web("w", "a1")], {"a1": 0, "b1": 100}),
    # log(2 + 2) = 1.39: three pods weigh 4, one weighs 1.
    "in proportion": (
        SOFT,
        [A1, B1, *(web(f"w{n}", "a1") for n in range(3)), web("v", "b1")],
        {"a1": 25, "b1": 100},
    ),
    "hosts count their own pods": (
        WEB_POD.spreads(HOST, over=WEB, soft=True),
        [A1, A2, web("w", "a1")],
        {"a1": 0, "a2": 100},
    ),
    "nodes without the key get nothing": (
        SOFT,
        [A1, a_node("bare"), web("w", "a1")],
        {"a1": 100, "bare": 0},
    ),
}


@pytest.mark.parametrize("case", POINTS.values(), ids=POINTS.keys())
def test_scores(case: tuple[PodBuilder, Members, dict[str, int | None]]) -> None:
    pod, members, expected = case
    assert scores(PodTopologySpread(), pod, *members) == expected


def _made(kind: type[StoredObject], name: str, selector: dict[str, Any]) -> StoredObject:
    manifest = {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": selector},
    }
    return msgspec.convert(manifest, kind)


OWNED = WEB_POD.owned_by("ReplicaSet", "web")
BY_DEFAULT: dict[str, tuple[PodBuilder, StoredObject | None, bool]] = {
    "nobody selects it": (WEB_POD, None, False),
    "a service selects it": (WEB_POD, _made(Service, "s", WEB), True),
    "a service of other pods": (WEB_POD, _made(Service, "s", {"app": "db"}), False),
    "a service without a selector": (WEB_POD, _made(Service, "s", {}), False),
    "its replica set": (OWNED, _made(ReplicaSet, "web", {"matchLabels": WEB}), True),
    "another replica set": (OWNED, _made(ReplicaSet, "db", {"matchLabels": WEB}), False),
    "its stateful set": (
        WEB_POD.owned_by("StatefulSet", "web"),
        _made(StatefulSet, "web", {"matchLabels": WEB}),
        True,
    ),
    "its replication controller": (
        WEB_POD.owned_by("ReplicationController", "web", api_version="v1"),
        _made(ReplicationController, "web", WEB),
        True,
    ),
    "its own constraints replace the default ones": (
        WEB_POD.spreads(ZONE, skew=9, over=WEB),
        _made(Service, "s", WEB),
        False,
    ),
}


@pytest.mark.parametrize("case", BY_DEFAULT.values(), ids=BY_DEFAULT.keys())
def test_workloads_are_spread_by_default(
    case: tuple[PodBuilder, StoredObject | None, bool],
) -> None:
    pod, stored, spread = case
    cluster = a_cluster(A1, B1, web("w", "a1"))
    if stored is not None:
        cluster.objects.set(stored)
    plugin = PodTopologySpread()
    points = evaluate_pod(cluster, pod.with_uid("new").info(), single_plugin_profile(plugin))[
        "scores"
    ]
    # One pod on a1 weighs log 4 in its zone and on its host, on top of 2 + 4 for the skews
    # allowed: 9 against 6. The own constraint does not score.
    expected = {"a1": {plugin.name: 66}, "b1": {plugin.name: 100}}
    assert points == (expected if spread else {"a1": {}, "b1": {}})


MANY_LABELS = {f"key-{n}": f"{n}" for n in range(1000)} | WEB
FEWER = {key: MANY_LABELS[key] for key in list(MANY_LABELS)[:500]}
FAR = {**MANY_LABELS, "app": "db"}
MANY_EXPRESSIONS = [
    {"key": "app", "operator": "NotIn", "values": [f"other-{n}" for n in range(1000)]}
]
SERVICE, OTHERS = _made(Service, "s", MANY_LABELS), _made(Service, "o", FAR)
REPLICAS = _made(ReplicaSet, "web", {"matchLabels": MANY_LABELS})
#: What there is, and whether a pod with many labels is spread among others with the same.
BY_LARGE_SELECTORS: dict[str, tuple[list[StoredObject], bool]] = {
    "a service": ([SERVICE], True),
    "a service of other pods": ([OTHERS], False),
    "several services": ([SERVICE, OTHERS, _made(Service, "f", FEWER)], True),
    "a replica set": ([REPLICAS], True),
    "a replica set and a service": ([REPLICAS, SERVICE, OTHERS], True),
    "a replica set and a small service": ([REPLICAS, _made(Service, "w", WEB)], True),
    "a replica set that says otherwise than a service": (
        [_made(ReplicaSet, "web", {"matchLabels": FAR}), SERVICE],
        False,
    ),
    "expressions": ([_made(ReplicaSet, "web", {"matchExpressions": MANY_EXPRESSIONS})], True),
    "expressions and labels": (
        [
            _made(
                ReplicaSet,
                "web",
                {"matchLabels": MANY_LABELS, "matchExpressions": MANY_EXPRESSIONS},
            )
        ],
        True,
    ),
}


@pytest.mark.parametrize("case", BY_LARGE_SELECTORS.values(), ids=BY_LARGE_SELECTORS)
def test_packed_selectors_spread_as_they_would_otherwise(
    case: tuple[list[StoredObject], bool],
) -> None:
    stored, spread = case
    new = WEB_POD.labelled(MANY_LABELS).owned_by("ReplicaSet", "web").with_uid("new").build()
    there = web("w", "a1").labelled(MANY_LABELS).build()
    found = []
    for keep in (lambda _: None, trim):
        cluster = a_cluster(A1, B1)
        pods = [msgspec.json.decode(msgspec.json.encode(pod), type=Pod) for pod in (there, new)]
        objects = [msgspec.convert(msgspec.to_builtins(each), type(each)) for each in stored]
        for each in (*pods, *objects):
            keep(each)
        cluster.observe_pod(PodInfo(pods[0]))
        for each in objects:
            cluster.objects.set(each)
        plugin = PodTopologySpread()
        verdict = evaluate_pod(cluster, PodInfo(pods[1]), single_plugin_profile(plugin))
        found.append(verdict["scores"])
        cluster.check_consistent()
    assert found[0] == found[1]
    assert (len({points.get(plugin.name) for points in found[1].values()}) == 2) is spread


def test_compiled_selectors_are_kept_up_to_some_bytes() -> None:
    plugin = PodTopologySpread()
    cluster = a_cluster(A1)
    tracemalloc.start()
    for n in range(40):
        values = [f"{n}-{m}".ljust(60, "x") for m in range(3000)]
        expression = {"key": "app", "operator": "NotIn", "values": values}
        cluster.objects.set(_made(ReplicaSet, "web", {"matchExpressions": [expression]}))
        evaluate_pod(cluster, OWNED.with_uid("new").info(), single_plugin_profile(plugin))
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 12 * 1024 * 1024


def test_defaults_may_be_configured_and_hard() -> None:
    plugin = Registry([PodTopologySpread]).make(
        "PodTopologySpread",
        {
            "defaultingType": "List",
            "defaultConstraints": [
                {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
            ],
        },
    )
    cluster = a_cluster(A1, B1, web("w", "a1"))
    cluster.objects.set(_made(Service, "s", WEB))
    verdict = evaluate_pod(cluster, WEB_POD.with_uid("new").info(), single_plugin_profile(plugin))
    assert verdict["feasible"] == ["b1"]


def _came(stored: Any) -> ClusterEvent:
    """An object that plugins look up has come."""
    kind = type(stored).__name__
    return ClusterEvent(ActionType.OTHER, resource=kind, stored=stored)


PLACED = web("w", "a1")
HINTS: dict[str, tuple[ClusterEvent, bool]] = {
    "a pod that counts went": (ClusterEvent(ActionType.POD_REMOVED, pod=PLACED.build()), True),
    "a pod that does not count went": (
        ClusterEvent(ActionType.POD_REMOVED, pod=a_pod("x").on("a1").build()),
        False,
    ),
    "a pod of another namespace went": (
        ClusterEvent(ActionType.POD_REMOVED, pod=PLACED.in_namespace("other").build()),
        False,
    ),
    "a pod ceased to count": (
        ClusterEvent(
            ActionType.POD_LABELS,
            pod=PLACED.labelled(app="db").build(),
            pod_before=PLACED.build(),
        ),
        True,
    ),
    "a pod goes on counting": (
        ClusterEvent(
            ActionType.POD_LABELS, pod=PLACED.labelled(a="b").build(), pod_before=PLACED.build()
        ),
        False,
    ),
    "a node of some zone came": (ClusterEvent(ActionType.NODE_ADDED, node=A1.build()), True),
    "a node of no zone came": (
        ClusterEvent(ActionType.NODE_ADDED, node=a_node("bare").build()),
        False,
    ),
    "a node of a zone went": (ClusterEvent(ActionType.NODE_REMOVED, node_before=A1.build()), True),
    "a node moved": (
        ClusterEvent(ActionType.NODE_LABELS, node=A1.in_zone("b").build(), node_before=A1.build()),
        True,
    ),
    "a node got another label": (
        ClusterEvent(
            ActionType.NODE_LABELS, node=A1.labelled(a="b").build(), node_before=A1.build()
        ),
        False,
    ),
    "a node's taints changed": (
        ClusterEvent(ActionType.NODE_TAINTS, node=A1.build(), node_before=A1.tainted("x").build()),
        True,
    ),
    "a Service came": (_came(_made(Service, "s", WEB)), False),
    "a claim came": (ClusterEvent(ActionType.OTHER, resource="PersistentVolumeClaim"), False),
}


def test_by_its_workload_it_is_woken_only_where_that_selects_for_it() -> None:
    hints = PodTopologySpread.queueing_hints
    other = msgspec.convert({"metadata": {"name": "s", "namespace": "other"}}, Service)
    for service, pod, expected in (
        (_made(Service, "s", WEB), WEB_POD, True),
        (_made(Service, "s", WEB), SPREAD, False),
        (other, WEB_POD, False),
    ):
        event = _came(service)
        assert any(hint.matches(pod.info(), event) for hint in hints) == expected


@pytest.mark.parametrize("case", HINTS.values(), ids=HINTS.keys())
def test_wakes(case: tuple[ClusterEvent, bool]) -> None:
    event, expected = case
    assert (
        any(w.matches(SPREAD.info(), event) for w in PodTopologySpread.queueing_hints) == expected
    )


@pytest.mark.parametrize("last", ["z0", "z3", ""], ids=["seen", "new", "none"])
def test_where_a_node_stands_in_the_table_decides_nothing(last: str) -> None:
    """What the first rows show of the zones is not taken for all of them."""
    nodes = [a_node(f"n{n}").in_zone(f"z{n % 3}") for n in range(520)]
    at_end = a_node("end").in_zone(last) if last else a_node("end")
    pods = [web(f"w{n}", f"n{n}") for n in (0, 3, 4, 6, 8, 9, 12)]
    forwards, backwards = (
        scores(PodTopologySpread(), SOFT, *order, *pods)
        for order in ([*nodes, at_end], [at_end, *reversed(nodes)])
    )
    assert forwards == backwards
    weight = log(2 + len({"z0", "z1", "z2", last} - {""}))
    emptiest = int((last != "z3") * weight + 0.5)
    most = int(5 * weight + 0.5)
    assert forwards["n0"] == 100 * emptiest // most
