"""InterPodAffinity: near friends, apart from others, and both ways."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from arranger.api.types.core import Namespace
from arranger.cluster.affinity_terms import MAX_COARSE_KEYS, MAX_CROSS_NAMESPACE_TERMS, MAX_TERMS
from arranger.explain.evaluate import evaluate_pod
from arranger.framework import ActionType, ClusterEvent
from arranger.framework.interface import Plugin
from arranger.framework.runtime.registry import Registry
from arranger.plugins.topology.inter_pod_affinity import InterPodAffinity
from tests.builders import NodeBuilder, PodBuilder, a_cluster, a_node, a_pod
from tests.unit.plugins.evaluation import evaluate_with, rejected, scores, single_plugin_profile

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
WEB, DB = {"app": "web"}, {"app": "db"}
A1, A2 = a_node("a1").in_zone("a"), a_node("a2").in_zone("a")
B1 = a_node("b1").in_zone("b")
NODES = [A1, A2, B1]
WEB_POD = a_pod().labelled(WEB)
DB_ON_A1 = a_pod("db").labelled(DB).on("a1")
ALONE = ("node(s) didn't match pod affinity rules",)
TOO_NEAR = ("node(s) didn't match pod anti-affinity rules",)
UNWELCOME = ("node(s) didn't satisfy existing pods anti-affinity rules",)

Members = list[NodeBuilder | PodBuilder]


def _after_others(count: int, key: str, **more: Any) -> PodBuilder:
    """A pod that dislikes so many others first."""
    pod = DB_ON_A1
    for n in range(count):
        pod = pod.apart(key, {"app": f"other-{n}"}, **more)
    return pod


def _after_friends(count: int) -> PodBuilder:
    """A pod with required affinity to so many others."""
    pod = DB_ON_A1
    for n in range(count):
        pod = pod.near(HOST, {"app": f"other-{n}"})
    return pod


def _by_keys(count: int) -> PodBuilder:
    """A pod that dislikes others by so many keys, after as many terms as are looked at."""
    pod = _after_others(MAX_TERMS, HOST)
    for n in range(count):
        pod = pod.apart(f"key-{n}", {"app": "other"})
    return pod


TEAM_A: dict[str, Any] = {"namespaceSelector": {"matchLabels": {"team": "a"}}}
CASES: dict[str, tuple[PodBuilder, Members, dict[str, tuple[str, ...]]]] = {
    "near a pod means in its zone": (WEB_POD.near(ZONE, DB), [*NODES, DB_ON_A1], {"b1": ALONE}),
    "near a pod on its host": (
        WEB_POD.near(HOST, DB),
        [*NODES, DB_ON_A1],
        {"a2": ALONE, "b1": ALONE},
    ),
    "near nobody": (
        WEB_POD.near(ZONE, DB),
        [*NODES],
        {"a1": ALONE, "a2": ALONE, "b1": ALONE},
    ),
    "a node without the key is near nobody": (
        WEB_POD.near(ZONE, DB),
        [A1, a_node("bare"), DB_ON_A1],
        {"bare": ALONE},
    ),
    "the first of its kind may go anywhere with the key": (
        WEB_POD.near(ZONE, WEB),
        [*NODES, a_node("bare")],
        {"bare": ALONE},
    ),
    "the second follows the first": (
        WEB_POD.near(ZONE, WEB),
        [*NODES, a_pod("w").labelled(WEB).on("b1")],
        {"a1": ALONE, "a2": ALONE},
    ),
    "one pod must meet all terms": (
        WEB_POD.near(ZONE, DB).near(HOST, {"tier": "back"}),
        [*NODES, DB_ON_A1, a_pod("t").labelled(tier="back").on("a1")],
        {"a1": ALONE, "a2": ALONE, "b1": ALONE},
    ),
    "other namespaces are not looked at": (
        WEB_POD.near(ZONE, DB),
        [A1, DB_ON_A1.in_namespace("other")],
        {"a1": ALONE},
    ),
    "unless they are named": (
        WEB_POD.near(ZONE, DB, namespaces=["other"]),
        [A1, DB_ON_A1.in_namespace("other")],
        {},
    ),
    "or all are meant": (
        WEB_POD.near(ZONE, DB, namespaceSelector={}),
        [A1, DB_ON_A1.in_namespace("other")],
        {},
    ),
    "or selected by their labels": (
        WEB_POD.near(ZONE, DB, **TEAM_A),
        [A1, DB_ON_A1.in_namespace("a-team")],
        {},
    ),
    "a namespace of another team": (
        WEB_POD.near(ZONE, DB, **TEAM_A),
        [A1, DB_ON_A1.in_namespace("b-team")],
        {"a1": ALONE},
    ),
    "apart from a pod means in another zone": (
        WEB_POD.apart(ZONE, DB),
        [*NODES, DB_ON_A1],
        {"a1": TOO_NEAR, "a2": TOO_NEAR},
    ),
    "a node without the key is apart from all": (
        WEB_POD.apart(ZONE, DB),
        [A1, a_node("bare"), DB_ON_A1],
        {"a1": TOO_NEAR},
    ),
    "of several terms of dislike each counts": (
        WEB_POD.apart(ZONE, DB).apart(HOST, {"tier": "back"}),
        [*NODES, DB_ON_A1, a_pod("t").labelled(tier="back").on("b1")],
        {"a1": TOO_NEAR, "a2": TOO_NEAR, "b1": TOO_NEAR},
    ),
    "who is there may dislike the newcomer": (
        WEB_POD,
        [*NODES, DB_ON_A1.apart(ZONE, WEB)],
        {"a1": UNWELCOME, "a2": UNWELCOME},
    ),
    "and dislike others": (WEB_POD, [*NODES, DB_ON_A1.apart(ZONE, DB)], {}),
    "and dislike a whole team": (
        WEB_POD.in_namespace("a-team"),
        [*NODES, DB_ON_A1.apart(HOST, WEB, **TEAM_A)],
        {"a1": UNWELCOME},
    ),
    "but not another team": (
        WEB_POD.in_namespace("b-team"),
        [*NODES, DB_ON_A1.apart(HOST, WEB, **TEAM_A)],
        {},
    ),
    "or the newcomer after many others": (
        WEB_POD,
        [*NODES, _after_others(MAX_TERMS, HOST).apart(HOST, WEB)],
        {"a1": UNWELCOME},
    ),
    "or after many whole teams": (
        WEB_POD,
        [
            *NODES,
            _after_others(MAX_CROSS_NAMESPACE_TERMS, HOST, namespaceSelector={}).apart(
                ZONE, WEB, namespaceSelector={}
            ),
        ],
        {"a1": UNWELCOME, "a2": UNWELCOME},
    ),
    "or after many friends": (
        WEB_POD,
        [*NODES, _after_friends(MAX_TERMS).apart(HOST, WEB)],
        {"a1": UNWELCOME},
    ),
    "friends that are too many to look at make nobody unwelcome": (
        a_pod().labelled(app="any"),
        [*NODES, _after_friends(MAX_TERMS).apart(HOST, WEB)],
        {},
    ),
    "of too much dislike it is not known whom it means, in its domain": (
        a_pod().labelled(app="any"),
        [*NODES, _after_others(MAX_TERMS, ZONE).apart(HOST, WEB)],
        {"a1": UNWELCOME},
    ),
    "but it means no other namespace": (
        WEB_POD.in_namespace("other"),
        [*NODES, _after_others(MAX_TERMS, HOST).apart(HOST, WEB)],
        {},
    ),
    "nor anybody if it selects nobody": (
        WEB_POD,
        [*NODES, _after_others(MAX_TERMS, HOST).apart(HOST, WEB, labelSelector=None)],
        {},
    ),
    "dislike by too many keys means all nodes": (
        WEB_POD,
        [*NODES, a_node("bare"), _by_keys(MAX_COARSE_KEYS + 1).apart(HOST, WEB)],
        {"a1": UNWELCOME, "a2": UNWELCOME, "b1": UNWELCOME, "bare": UNWELCOME},
    ),
    "in its own namespace": (
        WEB_POD.in_namespace("other"),
        [*NODES, a_node("bare"), _by_keys(MAX_COARSE_KEYS + 1).apart(HOST, WEB)],
        {},
    ),
    "preferences reject nothing": (
        WEB_POD.near(ZONE, DB, weight=9).apart(HOST, WEB, weight=9),
        [*NODES, DB_ON_A1],
        {},
    ),
}


def _teams(pod: PodBuilder, members: Members, plugin: Plugin) -> dict[str, tuple[str, ...]]:
    cluster = a_cluster(*members)
    for team in "ab":
        manifest = {"metadata": {"name": f"{team}-team", "labels": {"team": team}}}
        cluster.objects.set(msgspec.convert(manifest, Namespace))
    verdict = evaluate_pod(cluster, pod.with_uid("new").info(), single_plugin_profile(plugin))
    return {node: tuple(why["reasons"]) for node, why in verdict["rejected"].items()}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_filter(case: tuple[PodBuilder, Members, dict[str, tuple[str, ...]]]) -> None:
    pod, members, expected = case
    assert _teams(pod, members, InterPodAffinity()) == expected


def test_affinity_is_named_before_dislike_and_not_resolvable() -> None:
    pod = WEB_POD.near(ZONE, {"app": "gone"}).apart(ZONE, DB)
    assert rejected(InterPodAffinity(), pod, A1, DB_ON_A1) == {"a1": ALONE}
    verdict = evaluate_with(InterPodAffinity(), WEB_POD.apart(ZONE, DB), A1, DB_ON_A1)
    assert verdict["rejected"]["a1"]["code"] == "Unschedulable"
    verdict = evaluate_with(InterPodAffinity(), WEB_POD.near(ZONE, DB), A1)
    assert verdict["rejected"]["a1"]["code"] == "UnschedulableAndUnresolvable"


ORDINARY = InterPodAffinity()
STRONG = Registry([InterPodAffinity]).make("InterPodAffinity", {"hardPodAffinityWeight": 60})
WEAK = Registry([InterPodAffinity]).make("InterPodAffinity", {"hardPodAffinityWeight": 0})
OWN_ONLY = Registry([InterPodAffinity]).make(
    "InterPodAffinity", {"ignorePreferredTermsOfExistingPods": True}
)
FOND = a_pod("fond").labelled(DB).on("a1")
POINTS: dict[str, tuple[Plugin, PodBuilder, Members, dict[str, int | None]]] = {
    "nobody minds: not scored": (ORDINARY, WEB_POD, [A1, B1, DB_ON_A1], {"a1": None, "b1": None}),
    "a preference": (
        ORDINARY,
        WEB_POD.near(ZONE, DB, weight=1),
        [*NODES, DB_ON_A1],
        {"a1": 100, "a2": 100, "b1": 0},
    ),
    "a dislike": (
        ORDINARY,
        WEB_POD.apart(ZONE, DB, weight=1),
        [*NODES, DB_ON_A1],
        {"a1": 0, "a2": 0, "b1": 100},
    ),
    "preferences add up: 3, 2 and 0": (
        ORDINARY,
        WEB_POD.near(ZONE, DB, weight=2).near(HOST, DB, weight=1),
        [*NODES, DB_ON_A1],
        {"a1": 100, "a2": 66, "b1": 0},
    ),
    "a preference nobody meets is not scored": (
        ORDINARY,
        WEB_POD.near(ZONE, {"app": "gone"}, weight=1),
        [A1, B1, DB_ON_A1],
        {"a1": None, "b1": None},
    ),
    "preferences that cancel out are scored 0": (
        ORDINARY,
        WEB_POD.near(ZONE, DB, weight=3).apart(ZONE, DB, weight=3),
        [A1, B1, DB_ON_A1],
        {"a1": 0, "b1": 0},
    ),
    "who is there may prefer the newcomer": (
        ORDINARY,
        WEB_POD,
        [A1, B1, FOND.near(ZONE, WEB, weight=5)],
        {"a1": 100, "b1": 0},
    ),
    "or rather not have it": (
        ORDINARY,
        WEB_POD,
        [A1, B1, FOND.apart(ZONE, WEB, weight=5)],
        {"a1": 0, "b1": 100},
    ),
    "required affinity of who is there counts too": (
        ORDINARY,
        WEB_POD,
        [A1, B1, FOND.near(ZONE, WEB)],
        {"a1": 100, "b1": 0},
    ),
    "as much as configured: 60 against 40": (
        STRONG,
        WEB_POD,
        [A1, B1, FOND.near(ZONE, WEB), a_pod("f").on("b1").near(ZONE, WEB, weight=40)],
        {"a1": 100, "b1": 0},
    ),
    "or not at all": (
        WEAK,
        WEB_POD,
        [A1, B1, FOND.near(ZONE, WEB)],
        {"a1": None, "b1": None},
    ),
    "others' preferences can be left out": (
        OWN_ONLY,
        WEB_POD,
        [A1, B1, FOND.near(ZONE, WEB, weight=5)],
        {"a1": None, "b1": None},
    ),
}


@pytest.mark.parametrize("case", POINTS.values(), ids=POINTS.keys())
def test_scores(case: tuple[Plugin, PodBuilder, Members, dict[str, int | None]]) -> None:
    plugin, pod, members, expected = case
    assert scores(plugin, pod, *members) == expected


NEAR, APART = WEB_POD.near(ZONE, DB), WEB_POD.apart(ZONE, DB)


def _changed(name: str) -> ClusterEvent:
    """A namespace has other labels."""
    namespace = msgspec.convert({"metadata": {"name": name}}, Namespace)
    return ClusterEvent(ActionType.OTHER, resource="Namespace", stored=namespace)


HINTS: dict[str, tuple[PodBuilder, ClusterEvent, bool]] = {
    "a friend came": (NEAR, ClusterEvent(ActionType.POD_ADDED, pod=DB_ON_A1.build()), True),
    "a stranger came": (
        NEAR,
        ClusterEvent(ActionType.POD_ADDED, pod=a_pod("x").on("a1").build()),
        False,
    ),
    "a pod disliked went": (
        APART,
        ClusterEvent(ActionType.POD_REMOVED, pod=DB_ON_A1.build()),
        True,
    ),
    "a stranger went": (
        APART,
        ClusterEvent(ActionType.POD_REMOVED, pod=a_pod("x").on("a1").build()),
        False,
    ),
    "a pod that dislikes it went": (
        WEB_POD,
        ClusterEvent(ActionType.POD_REMOVED, pod=DB_ON_A1.apart(ZONE, WEB).build()),
        True,
    ),
    "a pod went that perhaps disliked it": (
        WEB_POD,
        ClusterEvent(
            ActionType.POD_REMOVED, pod=_by_keys(MAX_COARSE_KEYS + 1).apart(HOST, WEB).build()
        ),
        True,
    ),
    "one of two pods disliked went": (
        APART.apart(HOST, {"tier": "back"}),
        ClusterEvent(ActionType.POD_REMOVED, pod=DB_ON_A1.build()),
        True,
    ),
    "a pod became a friend": (
        NEAR,
        ClusterEvent(
            ActionType.POD_LABELS,
            pod=DB_ON_A1.build(),
            pod_before=DB_ON_A1.labelled(app="x").build(),
        ),
        True,
    ),
    "a friend in a namespace that may be meant": (
        WEB_POD.near(ZONE, DB, **TEAM_A),
        ClusterEvent(ActionType.POD_ADDED, pod=DB_ON_A1.in_namespace("any").build()),
        True,
    ),
    "a node came into some zone": (
        NEAR,
        ClusterEvent(ActionType.NODE_ADDED, node=A1.build()),
        True,
    ),
    "a node without the key came": (
        NEAR,
        ClusterEvent(ActionType.NODE_ADDED, node=a_node("bare").build()),
        False,
    ),
    "any node may be apart": (
        APART,
        ClusterEvent(ActionType.NODE_ADDED, node=a_node("bare").build()),
        True,
    ),
    "a node changed its zone": (
        NEAR,
        ClusterEvent(ActionType.NODE_LABELS, node=B1.build(), node_before=A1.build()),
        True,
    ),
    "a node left its zone": (
        APART,
        ClusterEvent(ActionType.NODE_LABELS, node=a_node("a1").build(), node_before=A1.build()),
        True,
    ),
    "a node got another label": (
        NEAR,
        ClusterEvent(
            ActionType.NODE_LABELS, node=A1.labelled(a="b").build(), node_before=A1.build()
        ),
        False,
    ),
    "its namespace changed": (NEAR, _changed("default"), True),
    "another namespace changed": (NEAR, _changed("other"), False),
    "a namespace changed that may be meant": (
        WEB_POD.near(ZONE, DB, **TEAM_A),
        _changed("other"),
        True,
    ),
    "a Service changed": (NEAR, ClusterEvent(ActionType.OTHER, resource="Service"), False),
}


@pytest.mark.parametrize("case", HINTS.values(), ids=HINTS.keys())
def test_wakes(case: tuple[PodBuilder, ClusterEvent, bool]) -> None:
    pod, event, expected = case
    assert any(w.matches(pod.info(), event) for w in InterPodAffinity.queueing_hints) == expected
