"""Plugins of a few lines: gates, order, cordons, names, ports, binding, refusals."""

from __future__ import annotations

import pytest

from arranger.api.effects import Bind, ObjectKey
from arranger.framework import ActionType, ClusterEvent, Code, CycleState
from arranger.framework.interface import Plugin, QueueSortInput
from arranger.framework.runtime.registry import PluginError, Registry
from arranger.plugins import DEFAULT_PLUGINS, default_profile
from arranger.plugins.default_binder import DefaultBinder
from arranger.plugins.nodes.node_declared_features import NodeDeclaredFeatures
from arranger.plugins.nodes.node_name import NodeName
from arranger.plugins.nodes.node_ports import NodePorts
from arranger.plugins.nodes.node_unschedulable import NodeUnschedulable
from arranger.plugins.queueing.priority_sort import PrioritySort
from arranger.plugins.queueing.scheduling_gates import SchedulingGates
from tests.builders import NodeBuilder, PodBuilder, a_node, a_pod
from tests.unit.plugins.evaluation import evaluate_with, rejected

N1, N2 = a_node("n1"), a_node("n2")
TAKEN = ("node(s) didn't have free ports for the requested pod ports",)
CORDONED = ("node(s) were unschedulable",)
OTHER_NAME = ("node(s) didn't match the requested node name",)

Case = tuple[Plugin, PodBuilder, list[NodeBuilder | PodBuilder], dict[str, tuple[str, ...]]]
LACKING = ("node(s) didn't match Pod's required features",)
RESTARTER = a_pod().with_spec(
    containers=[{"name": "c", "restartPolicyRules": [{"action": "RestartAllContainers"}]}]
)

FILTERS: dict[str, Case] = {
    "a pod that restarts whole goes where the kubelet can do that": (
        NodeDeclaredFeatures(),
        RESTARTER,
        [N1, N2.declaring("Other", "RestartAllContainersOnContainerExits")],
        {"n1": LACKING},
    ),
    "so does one whose init container says so": (
        NodeDeclaredFeatures(),
        a_pod().with_spec(
            initContainers=[
                {"name": "i", "restartPolicyRules": [{"action": "RestartAllContainers"}]}
            ]
        ),
        [N1],
        {"n1": LACKING},
    ),
    "one with other rules goes anywhere": (
        NodeDeclaredFeatures(),
        a_pod().with_spec(
            containers=[{"name": "c", "restartPolicyRules": [{"action": "Restart"}]}]
        ),
        [N1],
        {},
    ),
    "users of its own on the host's network need a feature": (
        NodeDeclaredFeatures(),
        a_pod().with_spec(hostNetwork=True, hostUsers=False),
        [N1, N2.declaring("UserNamespacesHostNetworkSupport")],
        {"n1": LACKING},
    ),
    "either of both alone does not": (
        NodeDeclaredFeatures(),
        a_pod().with_spec(hostNetwork=True),
        [N1],
        {},
    ),
    "a cordoned node takes no pods": (
        NodeUnschedulable(),
        a_pod(),
        [N1.cordoned(), N2],
        {"n1": CORDONED},
    ),
    "unless the pod tolerates the cordon's taint": (
        NodeUnschedulable(),
        a_pod().tolerates("node.kubernetes.io/unschedulable", effect="NoSchedule"),
        [N1.cordoned()],
        {},
    ),
    "a toleration of everything covers the cordon": (
        NodeUnschedulable(),
        a_pod().tolerates(),
        [N1.cordoned()],
        {},
    ),
    "a pod that names no node may go anywhere": (NodeName(), a_pod(), [N1, N2], {}),
    "a pod that names its node goes there only": (
        NodeName(),
        a_pod().with_spec(nodeName="n2"),
        [N1, N2],
        {"n1": OTHER_NAME},
    ),
    "a named node that is not there": (
        NodeName(),
        a_pod().with_spec(nodeName="n9"),
        [N1],
        {"n1": OTHER_NAME},
    ),
    "the port is taken": (
        NodePorts(),
        a_pod().host_port(80),
        [N1, N2, a_pod("b").host_port(80).on("n1")],
        {"n1": TAKEN},
    ),
    "another protocol is another port": (
        NodePorts(),
        a_pod().host_port(80, protocol="UDP"),
        [N1, a_pod("b").host_port(80).on("n1")],
        {},
    ),
    "another address is another port": (
        NodePorts(),
        a_pod().host_port(80, ip="10.0.0.1"),
        [N1, a_pod("b").host_port(80, ip="10.0.0.2").on("n1")],
        {},
    ),
    "all addresses include each": (
        NodePorts(),
        a_pod().host_port(80),
        [N1, a_pod("b").host_port(80, ip="10.0.0.2").on("n1")],
        {"n1": TAKEN},
    ),
    "each is included in all addresses": (
        NodePorts(),
        a_pod().host_port(80, ip="10.0.0.2"),
        [N1, a_pod("b").host_port(80).on("n1")],
        {"n1": TAKEN},
    ),
    "the port of a sidecar counts, that of an init container does not": (
        NodePorts(),
        a_pod().host_port(80).host_port(81),
        [
            N1,
            N2,
            a_pod("b").with_spec(initContainers=[{"ports": [{"hostPort": 80}]}]).on("n1"),
            a_pod("c")
            .with_spec(initContainers=[{"restartPolicy": "Always", "ports": [{"hostPort": 81}]}])
            .on("n2"),
        ],
        {"n2": TAKEN},
    ),
}


@pytest.mark.parametrize("case", FILTERS.values(), ids=FILTERS.keys())
def test_filter(case: Case) -> None:
    plugin, pod, members, expected = case
    assert rejected(plugin, pod, *members) == expected


def test_ports_may_be_freed_by_evictions_but_cordons_are_not() -> None:
    used = evaluate_with(NodePorts(), a_pod().host_port(80), N1, a_pod("b").host_port(80).on("n1"))
    assert used["rejected"]["n1"]["code"] == "Unschedulable"
    cordoned = evaluate_with(NodeUnschedulable(), a_pod(), N1.cordoned())
    assert cordoned["rejected"]["n1"]["code"] == "UnschedulableAndUnresolvable"


def test_gates_hold_a_pod_back_by_name() -> None:
    status = SchedulingGates().pre_enqueue(a_pod().gated("quota", "image").info())
    assert status is not None
    assert status.code is Code.UNRESOLVABLE
    assert status.message() == "waiting for scheduling gates: [quota image]"
    assert SchedulingGates().pre_enqueue(a_pod().info()) is None


def test_the_queue_is_sorted_by_priority_then_creation_then_arrival_then_name() -> None:
    def queued(name: str, created: float = 0, at: float = 0, priority: int = 0) -> QueueSortInput:
        return QueueSortInput(a_pod(name).with_priority(priority).info(), created, at, name)

    waiting = [
        queued("b", created=5, at=8),
        queued("late", created=5, at=9),
        queued("young", created=6, at=1),
        queued("important", created=9, priority=10),
        queued("unimportant", priority=-1),
        queued("a", created=5, at=8),
    ]
    names = [each.name for each in sorted(waiting, key=PrioritySort().sort_key)]
    assert names == ["important", "a", "b", "late", "young", "unimportant"]


def test_the_binding_is_for_this_incarnation_of_the_pod() -> None:
    bind = DefaultBinder().bind(CycleState(), a_pod("p").with_uid("u1").info(), "n1")
    assert bind == Bind(ObjectKey("default", "p", "u1"), "n1")


HINTS: dict[str, tuple[Plugin, PodBuilder, ClusterEvent, bool]] = {
    "an open node came": (
        NodeUnschedulable(),
        a_pod(),
        ClusterEvent(ActionType.NODE_ADDED, node=N1.build()),
        True,
    ),
    "a cordoned node came": (
        NodeUnschedulable(),
        a_pod(),
        ClusterEvent(ActionType.NODE_ADDED, node=N1.cordoned().build()),
        False,
    ),
    "a node was uncordoned": (
        NodeUnschedulable(),
        a_pod(),
        ClusterEvent(ActionType.NODE_TAINTS, node=N1.build(), node_before=N1.cordoned().build()),
        True,
    ),
    "an open node got another taint": (
        NodeUnschedulable(),
        a_pod(),
        ClusterEvent(ActionType.NODE_TAINTS, node=N1.tainted("x").build(), node_before=N1.build()),
        False,
    ),
    "a kubelet learned what the pod needs": (
        NodeDeclaredFeatures(),
        RESTARTER,
        ClusterEvent(
            ActionType.NODE_FEATURES,
            node=N1.declaring("RestartAllContainersOnContainerExits").build(),
            node_before=N1.build(),
        ),
        True,
    ),
    "a kubelet learned something else": (
        NodeDeclaredFeatures(),
        RESTARTER,
        ClusterEvent(
            ActionType.NODE_FEATURES, node=N1.declaring("Other").build(), node_before=N1.build()
        ),
        False,
    ),
    "the named node came": (
        NodeName(),
        a_pod().with_spec(nodeName="n1"),
        ClusterEvent(ActionType.NODE_ADDED, node=N1.build()),
        True,
    ),
    "another node than the named came": (
        NodeName(),
        a_pod().with_spec(nodeName="n1"),
        ClusterEvent(ActionType.NODE_ADDED, node=N2.build()),
        False,
    ),
    "who held the port went": (
        NodePorts(),
        a_pod().host_port(80),
        ClusterEvent(ActionType.POD_REMOVED, pod=a_pod("b").host_port(80).on("n1").build()),
        True,
    ),
    "who went held another port": (
        NodePorts(),
        a_pod().host_port(80),
        ClusterEvent(ActionType.POD_REMOVED, pod=a_pod("b").host_port(81).on("n1").build()),
        False,
    ),
    "the pod now tolerates the cordon": (
        NodeUnschedulable(),
        a_pod(),
        ClusterEvent(ActionType.OWN_UPDATE, pod=a_pod().tolerates().build()),
        True,
    ),
    "the pod was edited otherwise": (
        NodeUnschedulable(),
        a_pod(),
        ClusterEvent(ActionType.OWN_UPDATE, pod=a_pod().labelled(a="b").build()),
        False,
    ),
}


@pytest.mark.parametrize("case", HINTS.values(), ids=HINTS.keys())
def test_wakes(case: tuple[Plugin, PodBuilder, ClusterEvent, bool]) -> None:
    plugin, pod, event, expected = case
    assert any(wake.matches(pod.info(), event) for wake in plugin.queueing_hints) == expected


def test_the_default_profile_runs_plugins_in_kube_schedulers_order() -> None:
    profile = default_profile()
    assert [p.name for p in profile.plugins_at("filter")] == [
        "NodeUnschedulable",
        "NodeName",
        "TaintToleration",
        "NodeAffinity",
        "NodePorts",
        "NodeResourcesFit",
        "VolumeRestrictions",
        "NodeVolumeLimits",
        "VolumeBinding",
        "VolumeZone",
        "PodTopologySpread",
        "InterPodAffinity",
        "DynamicResources",
        "CapacityCard",
        "NodeDeclaredFeatures",
    ]
    weights = {p.name: profile.weights[p.name] for p in profile.plugins_at("score")}
    assert weights == {
        "TaintToleration": 3,
        "NodeAffinity": 2,
        "NodeResourcesFit": 1,
        "PodTopologySpread": 2,
        "InterPodAffinity": 2,
        "DynamicResources": 2,
        "CapacityCard": 1,
        "NodeResourcesBalancedAllocation": 1,
        "ImageLocality": 1,
        # Ours, silent for pods that do not ask for them.
        **dict.fromkeys(("BinPack", "LeaderFirst", "MinFragment"), 100),
        **dict.fromkeys(("JobAffinity", "JobAntiAffinity"), 100),
    }


BAD_ARGS: dict[str, tuple[str, dict[str, object], str]] = {
    "an unknown field": ("NodeResourcesFit", {"scoring": {}}, "scoring: unknown field; did"),
    "a wrong strategy": (
        "NodeResourcesFit",
        {"scoringStrategy": {"type": "Least"}},
        "scoringStrategy.type: Input should be",
    ),
    "a ratio without its shape": (
        "NodeResourcesFit",
        {"scoringStrategy": {"type": "RequestedToCapacityRatio"}},
        "requestedToCapacityRatio must be given",
    ),
    "a shape that goes back": (
        "NodeResourcesFit",
        {
            "scoringStrategy": {
                "type": "RequestedToCapacityRatio",
                "requestedToCapacityRatio": {
                    "shape": [{"utilization": 50, "score": 1}, {"utilization": 50, "score": 2}]
                },
            }
        },
        "utilization values must be sorted",
    ),
    "a weight of nothing": (
        "NodeResourcesBalancedAllocation",
        {"resources": [{"name": "cpu", "weight": 0}]},
        "resources.0.weight: Input should be greater than or equal to 1",
    ),
    "an operator that selectors do not have": (
        "NodeAffinity",
        {
            "addedAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Is"}]}]
                }
            }
        },
        "nodeSelectorTerms.0.matchExpressions.0.operator: Input should be",
    ),
    "system defaults beside own ones": (
        "PodTopologySpread",
        {
            "defaultConstraints": [
                {"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "ScheduleAnyway"}
            ]
        },
        "defaultConstraints must be empty when defaultingType is System",
    ),
}


@pytest.mark.parametrize("case", BAD_ARGS.values(), ids=BAD_ARGS.keys())
def test_wrong_arguments_name_their_path(case: tuple[str, dict[str, object], str]) -> None:
    name, args, message = case
    registry = Registry(plugin for plugin, _ in DEFAULT_PLUGINS)
    with pytest.raises(PluginError) as caught:
        registry.make(name, args)
    assert message in str(caught.value)


def test_arguments_copied_from_kube_scheduler_may_say_what_they_are() -> None:
    registry = Registry(plugin for plugin, _ in DEFAULT_PLUGINS)
    registry.make(
        "InterPodAffinity",
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "InterPodAffinityArgs",
            "hardPodAffinityWeight": 5,
        },
    )
