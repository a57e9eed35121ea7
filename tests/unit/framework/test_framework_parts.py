"""Diagnosis, profiles, the registry, per-node plugins and wake-up hints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from arranger.cluster.nodes.node_view import NodeInfo, NodeView
from arranger.cluster.pod_info import PodInfo
from arranger.framework import (
    ActionType,
    ClusterEvent,
    Code,
    CycleState,
    DependsOn,
    Plugin,
    QueueingHint,
    Rejection,
    Status,
)
from arranger.framework.diagnosis import Diagnosis, PluginRejection, filters_part
from arranger.framework.runtime.profile import PluginWeight, Profile, ProfileError
from arranger.framework.runtime.registry import PluginError, Registry
from arranger.framework.runtime.run import run_filter, run_score
from arranger.plugins import DEFAULT_PLUGINS, default_profile
from arranger.plugins.default_binder import DefaultBinder
from arranger.plugins.helpers.normalize_score import default_normalize_score
from arranger.plugins.nodes.node_name import NodeName
from arranger.plugins.queueing.priority_sort import PrioritySort
from arranger.plugins.resources.node_resources_fit import NodeResourcesFit
from tests.builders import PodBuilder, a_cluster, a_node, a_pod

CPU = Rejection(("Insufficient cpu",))
BOTH = Rejection(("Insufficient cpu", "Insufficient memory"))
TAINT = Rejection(("node(s) had untolerated taint(s)",), Code.UNRESOLVABLE)


def _diagnosis(*kinds: Rejection | None, **more: Any) -> Diagnosis:
    """One node per entry; ``None`` for a node that passed."""
    distinct = [kind for kind in dict.fromkeys(kinds) if kind is not None]
    return Diagnosis(
        nodes=len(kinds),
        rejections=[PluginRejection("P", kind) for kind in distinct],
        rejection_index=np.array(
            [-1 if k is None else distinct.index(k) for k in kinds], dtype=np.int64
        ),
        **more,
    )


MESSAGES: dict[str, tuple[Diagnosis, str]] = {
    "no nodes at all": (_diagnosis(), "no nodes available to schedule pods"),
    "one reason": (_diagnosis(CPU), "0/1 nodes are available: 1 Insufficient cpu."),
    "a node counts once for each of its reasons": (
        _diagnosis(CPU, BOTH),
        "0/2 nodes are available: 1 Insufficient memory, 2 Insufficient cpu.",
    ),
    "sorted as text, as upstream": (
        _diagnosis(*[CPU] * 10, TAINT, TAINT),
        "0/12 nodes are available: 10 Insufficient cpu, 2 node(s) had untolerated taint(s).",
    ),
    "a refusal stands alone": (
        _diagnosis(CPU, pre_filter_status=Status(Code.UNRESOLVABLE, ("a", "b"), "P")),
        "0/1 nodes are available: a, b.",
    ),
    "what PostFilter says comes last": (
        _diagnosis(CPU, post_filter_message="preemption: nobody to evict."),
        "0/1 nodes are available: 1 Insufficient cpu. preemption: nobody to evict.",
    ),
}


@pytest.mark.parametrize("case", MESSAGES.values(), ids=MESSAGES.keys())
def test_message(case: tuple[Diagnosis, str]) -> None:
    diagnosis, expected = case
    assert diagnosis.message() == expected


def test_evictions_may_help_where_the_rejection_is_resolvable() -> None:
    assert _diagnosis(CPU, TAINT, None, CPU).resolvable().nonzero()[0].tolist() == [0, 3]


def test_evictions_help_nowhere_where_the_pod_must_not_be() -> None:
    diagnosis = _diagnosis(CPU, TAINT, None, CPU)
    diagnosis.within = np.array([False, True, True, True])
    assert diagnosis.resolvable().nonzero()[0].tolist() == [3]


def test_rows_that_were_not_looked_at_are_not_resolvable() -> None:
    diagnosis = Diagnosis(2, Status(Code.UNSCHEDULABLE, ("a",), "P"))
    diagnosis.within = np.array([False, True])
    assert diagnosis.resolvable().nonzero()[0].tolist() == []


# --- profiles ----------------------------------------------------------------------------------

NEEDED = [PluginWeight(PrioritySort()), PluginWeight(DefaultBinder())]
PROFILES: dict[str, tuple[list[PluginWeight], str]] = {
    "nobody sorts": ([PluginWeight(DefaultBinder())], "exactly one plugin must sort the queue"),
    "nobody binds": ([PluginWeight(PrioritySort())], "no plugin binds pods"),
    "a plugin twice": (
        [*NEEDED, PluginWeight(NodeName()), PluginWeight(NodeName())],
        "enabled twice: NodeName$",
    ),
    "no weight": ([*NEEDED, PluginWeight(NodeName(), 0)], "the weight of NodeName is 0"),
}


@pytest.mark.parametrize("case", PROFILES.values(), ids=PROFILES.keys())
def test_a_profile_that_cannot_work_is_refused(case: tuple[list[PluginWeight], str]) -> None:
    plugins, message = case
    with pytest.raises(ProfileError, match=message):
        Profile("test", plugins)


SIGNS: dict[str, tuple[PodBuilder, PodBuilder, bool]] = {
    "names and uids do not matter": (a_pod("a"), a_pod("b"), True),
    "requests do": (a_pod("a"), a_pod("b").needs(cpu=1), False),
    "labels do: others may have an opinion": (a_pod("a"), a_pod("b").labelled(a="b"), False),
    "so do namespaces": (a_pod("a"), a_pod("b").in_namespace("other"), False),
    "annotations do not": (a_pod("a"), a_pod("b").annotated(a="b"), True),
    "a node named does": (a_pod("a"), a_pod("b").with_spec(nodeName="n"), False),
    "volumes that live anywhere do not": (
        a_pod("a").with_spec(volumes=[{"name": "token-x", "projected": {}}]),
        a_pod("b").with_spec(volumes=[{"name": "token-y", "projected": {}}]),
        True,
    ),
    "claims do": (a_pod("a").with_claim("x"), a_pod("b").with_claim("y"), False),
}


@pytest.mark.parametrize("case", SIGNS.values(), ids=SIGNS.keys())
def test_pods_share_an_evaluation_if(case: tuple[PodBuilder, PodBuilder, bool]) -> None:
    one, other, alike = case
    profile = default_profile()
    assert (profile.sign_pod(one.info()) == profile.sign_pod(other.info())) == alike


class Picky(Plugin):
    """Says nothing about what its verdicts depend on."""

    def filter_node(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        return None


class OwnFit(NodeResourcesFit):
    """A Filter of somebody's own, about which nothing is known."""


def test_a_profile_knows_its_plugins_by_what_they_state() -> None:
    profile = default_profile()
    assert profile.node_resource_filters == {"NodeResourcesFit"}
    assert profile.resource_filters == {"NodeResourcesFit", "CapacityCard"}
    assert profile.monotone_filters == {
        "NodeResourcesFit",
        "CapacityCard",
        "NodePorts",
        "NodeVolumeLimits",
        "VolumeRestrictions",
    }
    assert profile.quota_plugin == "CapacityCard"
    assert profile.evicting_plugin is profile.by_name["DefaultPreemption"]


def test_what_a_filter_promises_is_not_inherited() -> None:
    plugins = [OwnFit(), PrioritySort(), DefaultBinder()]
    profile = Profile("own", [PluginWeight(plugin) for plugin in plugins])
    assert not profile.monotone_filters | profile.resource_filters
    assert profile.quota_plugin == ""
    assert profile.evicting_plugin is None


def test_a_plugin_that_does_not_sign_is_asked_about_each_pod() -> None:
    profile = Profile("test", [*NEEDED, PluginWeight(Picky())])
    assert profile.sign_pod(a_pod().info()) is None


# --- the registry ------------------------------------------------------------------------------

FILES: dict[str, tuple[str | None, str]] = {
    "it is not there": (None, "no such file"),
    "it does not run": ("1 / 0", "ZeroDivisionError: division by zero"),
    "it is no Python": ("def", "SyntaxError"),
    "it defines no plugin": ("x = 1", "defines no subclass of Plugin"),
    "it takes a name that is taken": (
        "from arranger.framework import Plugin\nclass NodeName(Plugin): ...",
        "a plugin named 'NodeName' exists already",
    ),
}


@pytest.mark.parametrize("case", FILES.values(), ids=FILES.keys())
def test_a_plugin_file_is_refused_if(case: tuple[str | None, str], tmp_path: Path) -> None:
    text, message = case
    path = tmp_path / "mine.py"
    if text is not None:
        path.write_text(text)
    with pytest.raises(PluginError, match=message) as caught:
        Registry(plugin for plugin, _ in DEFAULT_PLUGINS).add_file(path)
    assert str(path) in str(caught.value)


_STATE = """
from __future__ import annotations
from dataclasses import dataclass
from arranger.framework import Plugin

@dataclass(slots=True)
class Seen:
    limit: int

class Own(Plugin):
    seen = Seen({limit})
"""
_ARGS = """
from __future__ import annotations
from typing import Annotated
from pydantic import Field
from arranger.framework import Plugin
from arranger.plugins.helpers.args import PluginArgs

class OwnArgs(PluginArgs):
    limit: Annotated[int, Field(ge=0)] = 3

class Own(Plugin):
    Args = OwnArgs

    def __init__(self, args):
        self.limit = args.limit
"""
#: What a file may be written like, as ours are.
STYLES = {
    "a dataclass, and annotations that are not evaluated": _STATE.format(limit=3),
    "arguments with bounds": _ARGS,
}


@pytest.mark.parametrize("text", STYLES.values(), ids=STYLES)
def test_a_plugin_file_may_have(text: str, tmp_path: Path) -> None:
    path, registry = tmp_path / "mine.py", Registry()
    path.write_text(text)
    registry.add_file(path)
    assert registry.make("Own").name == "Own"


def test_two_plugin_files_may_have_one_name(tmp_path: Path) -> None:
    registry = Registry()
    for name, limit in (("One", 1), ("Two", 2)):
        path = tmp_path / name / "mine.py"
        path.parent.mkdir()
        path.write_text(_STATE.format(limit=limit).replace("Own", name))
        registry.add_file(path)
    seen = [getattr(registry.make(name), "seen").limit for name in ("One", "Two")]  # noqa: B009
    assert seen == [1, 2]
    assert len({type(registry.make(name)).__module__ for name in ("One", "Two")}) == 2


class Broken(Plugin):
    """It cannot be made."""

    def __init__(self) -> None:
        raise RuntimeError("no licence")


def test_a_plugin_that_cannot_be_made_is_refused_in_one_line() -> None:
    with pytest.raises(PluginError, match=r"^plugin Broken: RuntimeError: no licence$"):
        Registry([Broken]).make("Broken")


def test_a_plugin_that_is_not_known_is_refused_with_those_that_are() -> None:
    with pytest.raises(PluginError, match="no plugin named 'Nope'; known: NodeName"):
        Registry([NodeName]).make("Nope")


def test_a_plugin_that_is_nearly_known_is_refused_with_the_one_that_is_meant() -> None:
    with pytest.raises(PluginError, match="no plugin named 'nodename'; did you mean 'NodeName'"):
        Registry([NodeName]).make("nodename")


def test_arguments_for_a_plugin_that_takes_none_are_refused() -> None:
    with pytest.raises(PluginError, match=r"NodeName takes no arguments, got a$"):
        Registry([NodeName]).make("NodeName", {"a": 1})


# --- per-node plugins --------------------------------------------------------------------------


class Even(Plugin):
    """Rejects odd nodes, in two ways."""

    depends_on = DependsOn.NODE

    def filter_node(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        number = int(node.name.removeprefix("n"))
        if number % 2:
            return self.reject("odd", resolvable=number < 2)
        return None

    def score_node(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        return int(node.free("cpu")) // 1000


def test_a_per_node_plugin_is_lifted_to_many_nodes() -> None:
    cluster = a_cluster(*(a_node(f"n{n}").offers(cpu=n + 1) for n in range(4)))
    cluster.remove_node("n2")
    view, pod, plugin = NodeView(cluster.table), a_pod().info(), Even()
    verdicts = run_filter(plugin, CycleState(), pod, view)
    assert verdicts.passes.tolist() == [True, False, True, False]
    kinds, kind_of = verdicts.rejections()
    assert [kind.code for kind in kinds] == [Code.UNSCHEDULABLE, Code.UNRESOLVABLE]
    assert kind_of.tolist() == [-1, 0, -1, 1]
    feasible = verdicts.passes & view.alive
    assert run_score(plugin, CycleState(), pod, view, feasible).tolist() == [1, 0, 0, 0]


NORMALIZED: dict[str, tuple[list[int], list[bool], bool, list[int]]] = {
    "the largest gets 100": ([1, 2, 4], [True] * 3, False, [25, 50, 100]),
    "or nothing, turned round": ([1, 2, 4], [True] * 3, True, [75, 50, 0]),
    "division cuts off": ([1, 3], [True] * 2, False, [33, 100]),
    "before it is turned round": ([1, 3], [True] * 2, True, [67, 0]),
    "all zero stays zero": ([0, 0], [True] * 2, False, [0, 0]),
    "or is all best, turned round": ([0, 0], [True] * 2, True, [100, 100]),
    "infeasible rows do not set the scale": ([1, 9], [True, False], False, [100, 900]),
}


@pytest.mark.parametrize("case", NORMALIZED.values(), ids=NORMALIZED.keys())
def test_normalize_by_max(case: tuple[list[int], list[bool], bool, list[int]]) -> None:
    raw, feasible, reverse, expected = case
    scores = default_normalize_score(np.array(raw), np.array(feasible), reverse=reverse)
    assert scores.tolist() == expected


# --- waking ------------------------------------------------------------------------------------


def _broken(pod: PodInfo, event: ClusterEvent) -> bool:
    raise RuntimeError


WAKES: dict[str, tuple[QueueingHint, bool]] = {
    "the event is asked for": (QueueingHint(ActionType.NODE_CHANGED), True),
    "another event is asked for": (QueueingHint(ActionType.POD_REMOVED), False),
    "the hint says yes": (QueueingHint(ActionType.ANY, lambda pod, event: True), True),
    "the hint says no": (QueueingHint(ActionType.ANY, lambda pod, event: False), False),
    "another kind of object is asked for": (
        QueueingHint(ActionType.OTHER, resources=frozenset({"Service"})),
        False,
    ),
    "it is asked for beside kinds of objects": (
        QueueingHint(ActionType.OTHER | ActionType.NODE_ADDED, resources=frozenset({"Service"})),
        True,
    ),
    "a hint that breaks must not strand the pod": (QueueingHint(ActionType.ANY, _broken), True),
}


@pytest.mark.parametrize("case", WAKES.values(), ids=WAKES.keys())
def test_wakes_if(case: tuple[QueueingHint, bool]) -> None:
    wake, expected = case
    event = ClusterEvent(ActionType.NODE_ADDED, node=a_node().build())
    assert wake.matches(a_pod().info(), event) == expected


@pytest.mark.parametrize(("resource", "expected"), [("Service", True), ("Namespace", False)])
def test_of_objects_only_those_of_the_kinds_that_are_named_wake(
    resource: str, expected: bool
) -> None:
    hint = QueueingHint(ActionType.OTHER, resources=frozenset({"Service"}))
    event = ClusterEvent(ActionType.OTHER, resource=resource)
    assert hint.matches(a_pod().info(), event) == expected


FILTERS_PARTS = {
    "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: 1 No"
    " preemption victims found for incoming pod.": "0/1 nodes are available: 1 Insufficient cpu.",
    "0/1 nodes are available: 1 cannot allocate all claims. still not schedulable, preemption: not"
    " eligible due to preemptionPolicy=Never.": (
        "0/1 nodes are available: 1 cannot allocate all claims."
    ),
    "0/2 nodes are available: 2 Insufficient cpu.": "0/2 nodes are available: 2 Insufficient cpu.",
    "no nodes available to schedule pods": "no nodes available to schedule pods",
    "gang a/b waits for members: 2 of 5 arrived": "gang a/b waits for members: 2 of 5 arrived",
}


@pytest.mark.parametrize(("message", "part"), FILTERS_PARTS.items(), ids=range(len(FILTERS_PARTS)))
def test_the_part_of_a_message_that_columns_show(message: str, part: str) -> None:
    assert filters_part(message) == part
