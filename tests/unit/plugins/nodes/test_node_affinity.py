"""NodeAffinity and TaintToleration: what nodes say about themselves."""

from __future__ import annotations

import pytest

from arranger.framework import ActionType, ClusterEvent
from arranger.framework.interface import Plugin
from arranger.framework.runtime.registry import Registry
from arranger.plugins.nodes.node_affinity import NodeAffinity
from arranger.plugins.nodes.taint_toleration import TaintToleration
from tests.builders import NodeBuilder, PodBuilder, a_node, a_pod, expr
from tests.unit.plugins.evaluation import evaluate_with, rejected, scores

SSD = a_node("ssd").labelled(disk="ssd", rank="7")
HDD = a_node("hdd").labelled(disk="hdd", rank="x")
BARE = a_node("bare")
ALL = [SSD, HDD, BARE]

SELECTED: dict[str, tuple[PodBuilder, set[str]]] = {
    "a node selector": (a_pod().selects(disk="ssd"), {"ssd"}),
    "a node selector of two labels needs both": (a_pod().selects(disk="ssd", rank="x"), set()),
    "a value no node has": (a_pod().selects(disk="tape"), set()),
    "a label no node has": (a_pod().selects(colour="red"), set()),
    "In": (a_pod().requires(expr("disk", "In", "ssd", "tape")), {"ssd"}),
    "NotIn also takes nodes without the label": (
        a_pod().requires(expr("disk", "NotIn", "ssd")),
        {"hdd", "bare"},
    ),
    "Exists": (a_pod().requires(expr("disk", "Exists")), {"ssd", "hdd"}),
    "DoesNotExist": (a_pod().requires(expr("disk", "DoesNotExist")), {"bare"}),
    "Gt compares numbers, and is false for other text": (
        a_pod().requires(expr("rank", "Gt", "6")),
        {"ssd"},
    ),
    "Gt is strict": (a_pod().requires(expr("rank", "Gt", "7")), set()),
    "Lt": (a_pod().requires(expr("rank", "Lt", "10")), {"ssd"}),
    "expressions of a term must all hold": (
        a_pod().requires(expr("disk", "Exists"), expr("rank", "NotIn", "7")),
        {"hdd"},
    ),
    "of several terms one must hold": (
        a_pod().requires(expr("disk", "In", "ssd")).requires(expr("disk", "DoesNotExist")),
        {"ssd", "bare"},
    ),
    "selector and affinity must both hold": (
        a_pod().selects(disk="ssd").requires(expr("rank", "In", "x")),
        set(),
    ),
    "an empty term selects nothing": (a_pod().requires(), set()),
    "no term selects nothing": (
        a_pod().with_spec(
            affinity={
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}
                }
            }
        ),
        set(),
    ),
    "an operator that does not exist selects nothing": (
        a_pod().requires(expr("disk", "Is", "ssd")),
        set(),
    ),
    "Gt of no number selects nothing": (a_pod().requires(expr("rank", "Gt", "six")), set()),
    "In of no values selects nothing": (a_pod().requires(expr("disk", "In")), set()),
    "Exists with values selects nothing": (a_pod().requires(expr("disk", "Exists", "ssd")), set()),
    "a value that no label can have selects nothing": (
        a_pod().requires(expr("disk", "NotIn", "not a label value")),
        set(),
    ),
    "a broken term does not spoil a good one": (
        a_pod().requires(expr("disk", "Is")).requires(expr("disk", "In", "hdd")),
        {"hdd"},
    ),
    "a field names the node": (
        a_pod().requires(fields=[expr("metadata.name", "In", "hdd")]),
        {"hdd"},
    ),
    "a field excludes a node": (
        a_pod().requires(fields=[expr("metadata.name", "NotIn", "hdd")]),
        {"ssd", "bare"},
    ),
    "a field and an expression must both hold": (
        a_pod().requires(expr("disk", "In", "ssd"), fields=[expr("metadata.name", "In", "hdd")]),
        set(),
    ),
    "a field of several values selects nothing": (
        a_pod().requires(fields=[expr("metadata.name", "In", "hdd", "ssd")]),
        set(),
    ),
}


@pytest.mark.parametrize("case", SELECTED.values(), ids=SELECTED.keys())
def test_selects(case: tuple[PodBuilder, set[str]]) -> None:
    pod, expected = case
    assert set(evaluate_with(NodeAffinity(), pod, *ALL)["feasible"]) == expected


def test_nodes_outside_the_names_are_not_even_looked_at() -> None:
    pod = a_pod().requires(fields=[expr("metadata.name", "In", "ssd")])
    verdict = evaluate_with(NodeAffinity(), pod, *ALL)
    assert {node: why["plugin"] for node, why in verdict["rejected"].items()} == {
        "hdd": "PreFilterResult",
        "bare": "PreFilterResult",
    }


def test_names_that_exclude_each_other_refuse_the_pod() -> None:
    pod = a_pod().requires(
        fields=[expr("metadata.name", "In", "ssd"), expr("metadata.name", "In", "hdd")]
    )
    verdict = evaluate_with(NodeAffinity(), pod, *ALL)
    assert verdict["preFilter"]["reasons"] == ["pod affinity terms conflict"]


def _with_added(affinity: dict[str, object]) -> Plugin:
    return Registry([NodeAffinity]).make("NodeAffinity", {"addedAffinity": affinity})


def test_added_affinity_holds_for_every_pod_and_is_named_first() -> None:
    plugin = _with_added(
        {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "disk", "operator": "Exists"}]}]
            }
        }
    )
    enforced = ("node(s) didn't match scheduler-enforced node affinity",)
    own = ("node(s) didn't match Pod's node affinity/selector",)
    assert rejected(plugin, a_pod(), *ALL) == {"bare": enforced}
    assert rejected(plugin, a_pod().selects(disk="ssd"), *ALL) == {"bare": enforced, "hdd": own}


POINTS: dict[str, tuple[Plugin, PodBuilder, dict[str, int | None]]] = {
    "a pod that prefers nothing is not scored": (
        NodeAffinity(),
        a_pod(),
        {"ssd": None, "hdd": None, "bare": None},
    ),
    "weights add up, and the best gets 100": (
        NodeAffinity(),
        a_pod().prefers(30, expr("disk", "Exists")).prefers(10, expr("rank", "Gt", "1")),
        {"ssd": 100, "hdd": 75, "bare": 0},
    ),
    "a preference that matches nowhere changes nothing": (
        NodeAffinity(),
        a_pod().prefers(30, expr("disk", "In", "tape")),
        {"ssd": 0, "hdd": 0, "bare": 0},
    ),
    "an added preference counts for every pod": (
        _with_added(
            {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": 5,
                        "preference": {
                            "matchExpressions": [
                                {"key": "disk", "operator": "In", "values": ["hdd"]}
                            ]
                        },
                    }
                ]
            }
        ),
        a_pod(),
        {"ssd": 0, "hdd": 100, "bare": 0},
    ),
}


@pytest.mark.parametrize("case", POINTS.values(), ids=POINTS.keys())
def test_prefers(case: tuple[Plugin, PodBuilder, dict[str, int | None]]) -> None:
    plugin, pod, expected = case
    assert scores(plugin, pod, *ALL) == expected


UNTOLERATED = ("node(s) had untolerated taint(s)",)
TAINTS: dict[str, tuple[PodBuilder, NodeBuilder, bool]] = {
    "no taint": (a_pod(), BARE, True),
    "a taint": (a_pod(), BARE.tainted("gpu"), False),
    "NoExecute keeps away as well": (a_pod(), BARE.tainted("gpu", effect="NoExecute"), False),
    "PreferNoSchedule does not": (a_pod(), BARE.tainted("gpu", effect="PreferNoSchedule"), True),
    "tolerated by key": (a_pod().tolerates("gpu"), BARE.tainted("gpu", "a100"), True),
    "tolerated by key and value": (a_pod().tolerates("gpu", "a"), BARE.tainted("gpu", "a"), True),
    "another value": (a_pod().tolerates("gpu", "b"), BARE.tainted("gpu", "a"), False),
    "another effect": (
        a_pod().tolerates("gpu", effect="NoExecute"),
        BARE.tainted("gpu"),
        False,
    ),
    "everything is tolerated": (a_pod().tolerates(), BARE.tainted("gpu").tainted("x"), True),
    "one of two taints is not": (
        a_pod().tolerates("gpu"),
        BARE.tainted("gpu").tainted("x"),
        False,
    ),
    "an empty operator means Equal": (
        a_pod().with_spec(tolerations=[{"key": "gpu", "value": "a"}]),
        BARE.tainted("gpu", "a"),
        True,
    ),
    "comparing operators are off by default": (
        a_pod().tolerates("sla", "900", operator="Gt"),
        BARE.tainted("sla", "950"),
        False,
    ),
}


@pytest.mark.parametrize("case", TAINTS.values(), ids=TAINTS.keys())
def test_tolerates(case: tuple[PodBuilder, NodeBuilder, bool]) -> None:
    pod, node, passes = case
    assert rejected(TaintToleration(), pod, node) == ({} if passes else {"bare": UNTOLERATED})


def test_the_fewer_soft_taints_the_better() -> None:
    soft = "PreferNoSchedule"
    one = a_node("one").tainted("a", effect=soft)
    two = a_node("two").tainted("a", effect=soft).tainted("b", effect=soft)
    pod = a_pod()
    assert scores(TaintToleration(), pod, BARE, one, two) == {"bare": 100, "one": 50, "two": 0}
    tolerant = pod.tolerates("a", effect=soft)
    assert scores(TaintToleration(), tolerant, one, two) == {"one": 100, "two": 0}
    # A toleration of another effect does not help here.
    assert scores(TaintToleration(), pod.tolerates("a", effect="NoSchedule"), BARE, one) == {
        "bare": 100,
        "one": 0,
    }


SELECTING = a_pod().selects(disk="ssd")
HINTS: dict[str, tuple[Plugin, PodBuilder, ClusterEvent, bool]] = {
    "a node that matches came": (
        NodeAffinity(),
        SELECTING,
        ClusterEvent(ActionType.NODE_ADDED, node=SSD.build()),
        True,
    ),
    "a node that does not match came": (
        NodeAffinity(),
        SELECTING,
        ClusterEvent(ActionType.NODE_ADDED, node=HDD.build()),
        False,
    ),
    "a node began to match": (
        NodeAffinity(),
        SELECTING,
        ClusterEvent(ActionType.NODE_LABELS, node=SSD.build(), node_before=HDD.build()),
        True,
    ),
    "a node went on matching": (
        NodeAffinity(),
        SELECTING,
        ClusterEvent(
            ActionType.NODE_LABELS, node=SSD.build(), node_before=SSD.labelled(a="b").build()
        ),
        False,
    ),
    "a taint went": (
        TaintToleration(),
        a_pod(),
        ClusterEvent(
            ActionType.NODE_TAINTS, node=BARE.build(), node_before=BARE.tainted("x").build()
        ),
        True,
    ),
    "one of two taints went": (
        TaintToleration(),
        a_pod(),
        ClusterEvent(
            ActionType.NODE_TAINTS,
            node=BARE.tainted("x").build(),
            node_before=BARE.tainted("x").tainted("y").build(),
        ),
        False,
    ),
    "a tolerated node came": (
        TaintToleration(),
        a_pod().tolerates("x"),
        ClusterEvent(ActionType.NODE_ADDED, node=BARE.tainted("x").build()),
        True,
    ),
}


@pytest.mark.parametrize("case", HINTS.values(), ids=HINTS.keys())
def test_wakes(case: tuple[Plugin, PodBuilder, ClusterEvent, bool]) -> None:
    plugin, pod, event, expected = case
    assert any(wake.matches(pod.info(), event) for wake in plugin.queueing_hints) == expected
