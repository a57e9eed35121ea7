"""A class of pods kept current equals the same class judged from scratch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arranger.api.types.core import Namespace
from arranger.api.types.workloads import Service
from arranger.cluster.cluster import Cluster
from arranger.cluster.nodes.node_view import NodeInfo
from arranger.cluster.pod_info import PodInfo
from arranger.framework import CycleState, DependsOn, Plugin, PreFilterResult, Status
from arranger.framework.runtime.evaluation import Evaluation
from arranger.framework.runtime.profile import PluginWeight, Profile
from arranger.plugins import DEFAULT_PLUGINS, default_profile
from arranger.plugins.default_binder import DefaultBinder
from arranger.plugins.queueing.priority_sort import PrioritySort
from tests.builders import NodeBuilder, PodBuilder, a_cluster, a_node, a_pod, expr
from tests.storage import DRIVER, a_claim, a_class, a_csi_node, a_volume, attached

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
WEB = {"app": "web"}
WEB_POD = a_pod().labelled(WEB).needs(cpu="300m", memory="1Gi")


class OddNodes(Plugin):
    """A per-node plugin as a newcomer writes it."""

    depends_on = DependsOn.USAGE

    def filter_node(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        return self.reject("crowded") if len(node.pods) > 3 else None

    def score_node(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        return int(node.name.removeprefix("n")) * 10


PROFILE = Profile(
    "test", [*(PluginWeight(p(), w) for p, w in DEFAULT_PLUGINS), PluginWeight(OddNodes())]
)

CLASSES: dict[str, PodBuilder] = {
    "plain": a_pod().needs(cpu="500m", memory="1Gi"),
    "asks for nothing": a_pod(),
    "asks for a device": a_pod().needs({"example.com/gpu": 1}),
    "too large": a_pod().needs(cpu=64),
    "host port": a_pod().host_port(80),
    "tolerating": a_pod().needs(cpu=1).tolerates("dedicated"),
    "selecting": a_pod().selects(disk="ssd"),
    "one of two nodes": a_pod().requires(fields=[expr("metadata.name", "In", "n1")]),
    "preferring": a_pod()
    .needs(cpu=1)
    .running("img:1")
    .prefers(10, expr("rank", "Gt", "3"))
    .prefers(3, expr("disk", "In", "ssd")),
    "spread hard": WEB_POD.spreads(ZONE, over=WEB).spreads(HOST, skew=2, over=WEB),
    "spread soft": WEB_POD.spreads(ZONE, over=WEB, soft=True).spreads(HOST, over=WEB, soft=True),
    "spread where allowed": WEB_POD.selects(disk="ssd").spreads(
        ZONE, over=WEB, nodeTaintsPolicy="Honor", minDomains=2
    ),
    "spread by its service": WEB_POD,
    "apart": WEB_POD.apart(HOST, WEB),
    "near its own kind": WEB_POD.near(ZONE, WEB),
    "liking and disliking": a_pod().near(ZONE, WEB, weight=5).apart(HOST, WEB, weight=7),
    "near in other namespaces": a_pod().near(
        ZONE, WEB, namespaceSelector={"matchLabels": {"team": "a"}}
    ),
    "claims a volume": a_pod().with_claim("data"),
    "claims two volumes": a_pod().needs(cpu=1).with_claim("data").with_claim("more"),
    "mounts a disk": a_pod().with_spec(
        volumes=[{"name": "disk", "awsElasticBlockStore": {"volumeID": "vol-1"}}]
    ),
}

nodes = st.builds(
    lambda n, zone, disk, rank, cpu, taint, image, cordoned: _node(
        n, zone=zone, disk=disk, rank=rank, cpu=cpu, taint=taint, image=image, cordoned=cordoned
    ),
    st.integers(0, 5),
    st.sampled_from(["", "a", "b"]),
    st.sampled_from(["", "ssd", "hdd"]),
    st.sampled_from(["", "2", "7", "x"]),
    st.integers(1, 4),
    st.sampled_from(["", "NoSchedule", "PreferNoSchedule"]),
    st.booleans(),
    st.booleans(),
)
pods = st.builds(
    lambda name, kind, namespace, node: (
        CLASSES[kind].in_namespace(namespace).with_uid(f"uid-{name}").on(f"n{node}")
    ),
    st.integers(0, 12),
    st.sampled_from(list(CLASSES)),
    st.sampled_from(["default", "other"]),
    st.integers(0, 6),
)
Change = Callable[[Cluster], Any]


def _node(
    n: int, *, zone: str, disk: str, rank: str, cpu: int, taint: str, image: bool, cordoned: bool
) -> NodeBuilder:
    labels = {key: value for key, value in ((ZONE, zone), ("disk", disk), ("rank", rank)) if value}
    node = (
        a_node(f"n{n}").labelled(labels).offers({"cpu": cpu, "pods": 5, "example.com/gpu": n % 2})
    )
    if taint:
        node = node.tainted("dedicated", effect=taint)
    if image:
        node = node.holding("img:1", 400 * 2**20)
    return node.cordoned() if cordoned else node


def _place(pod: PodBuilder) -> Change:
    return lambda cluster: cluster.observe_pod(pod.info())


def _set(node: NodeBuilder) -> Change:
    return lambda cluster: cluster.set_node(node.build())


def _team(name: str, team: str) -> Change:
    manifest = {"metadata": {"name": name, "labels": {"team": team}}}
    return lambda cluster: cluster.objects.set(msgspec.convert(manifest, Namespace))


def _serve(app: str) -> Change:
    manifest = {
        "metadata": {"name": "svc", "namespace": "default"},
        "spec": {"selector": {"app": app}},
    }
    return lambda cluster: cluster.objects.set(msgspec.convert(manifest, Service))


VOLUME, CLAIM = a_volume().served_by(DRIVER, "h"), a_claim()
storage = st.sampled_from(
    [
        a_class(),
        a_class().allowed_in("a"),
        CLAIM,
        CLAIM.bound_to("v"),
        CLAIM.with_spec(accessModes=["ReadWriteOncePod"]),
        a_claim("more"),
        a_claim("more").bound_to("w"),
        VOLUME,
        VOLUME.held_by("data").labelled({ZONE: "a"}),
        a_volume("w").usable_in("b"),
        a_csi_node("n1", csi_example_com=1, ebs_csi_aws_com=1),
        a_csi_node("n2", csi_example_com=2),
        attached("v", "n2"),
    ]
)

changes = st.one_of(
    storage.map(lambda each: lambda cluster: cluster.objects.set(each.build())),
    storage.map(lambda each: lambda cluster: cluster.objects.set(each.build())),
    storage.map(lambda each: lambda cluster: cluster.objects.remove(each.build())),
    nodes.map(_set),
    pods.map(_place),
    pods.map(_place),
    st.integers(0, 12).map(lambda n: lambda cluster: cluster.remove_pod(f"uid-{n}")),
    st.integers(0, 5).map(lambda n: lambda cluster: cluster.remove_node(f"n{n}")),
    st.builds(_team, st.sampled_from(["default", "other"]), st.sampled_from("ab")),
    st.sampled_from(["web", "db"]).map(_serve),
)


@settings(max_examples=60, deadline=None)
@given(
    first=st.lists(st.one_of(nodes.map(_set), pods.map(_place)), min_size=3, max_size=20),
    rounds=st.lists(st.lists(changes, min_size=1, max_size=4), min_size=1, max_size=6),
)
def test_refreshing_equals_judging_from_scratch(
    first: list[Change], rounds: list[list[Change]]
) -> None:
    cluster = Cluster()
    for change in first:
        change(cluster)
    kept = {
        name: Evaluation(PROFILE, cluster, pod.with_uid("uid-new").info())
        for name, pod in CLASSES.items()
    }
    for batch in rounds:
        for change in batch:
            change(cluster)
        cluster.check_consistent()
        for name, pod in CLASSES.items():
            kept[name].refresh()
            fresh = Evaluation(PROFILE, cluster, pod.with_uid("uid-new").info())
            assert _answers(kept[name], cluster) == _answers(fresh, cluster), name


def _answers(evaluation: Evaluation, cluster: Cluster) -> dict[str, Any]:
    diagnosis = evaluation.diagnosis()
    alive = sorted(cluster.table.index.items())
    judged = evaluation.pre_filter_status is None
    scores = evaluation.scores() if judged else {}
    return {
        "feasible": evaluation.feasible.tolist(),
        "ranked": evaluation.total_scores.tolist(),
        "best": evaluation.best_row(),
        "scores": {
            plugin: [int(points[row]) for _, row in alive if evaluation.feasible[row]]
            for plugin, points in scores.items()
        },
        "message": diagnosis.message(),
        "rejected": [(name, diagnosis.first_rejection(row)) for name, row in alive]
        if judged
        else [],
        "rejected by": diagnosis.unschedulable_plugins(),
    }


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(nodes.map(_set), pods.map(_place)), min_size=3, max_size=25))
def test_a_node_is_either_feasible_or_has_a_reason(first: list[Change]) -> None:
    cluster = Cluster()
    for change in first:
        change(cluster)
    for pod in CLASSES.values():
        evaluation = Evaluation(PROFILE, cluster, pod.with_uid("uid-new").info())
        diagnosis = evaluation.diagnosis()
        if evaluation.pre_filter_status is None:
            for row in cluster.table.index.values():
                assert evaluation.feasible[row] == (diagnosis.first_rejection(row) is None)


def test_an_empty_cluster_has_no_best_node() -> None:
    evaluation = Evaluation(default_profile(), Cluster(), a_pod().info())
    assert evaluation.best_row() == -1
    assert evaluation.diagnosis().message() == "no nodes available to schedule pods"


def test_the_first_node_of_an_empty_cluster_is_found() -> None:
    cluster = Cluster()
    evaluation = Evaluation(default_profile(), cluster, a_pod().info())
    cluster.set_node(a_node("n1").build())
    evaluation.refresh()
    assert evaluation.best_row() == 0


def test_the_change_log_may_be_cut_between_refreshes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("arranger.cluster.nodes.node_table._LOG_LIMIT", 8)
    cluster = a_cluster(a_node("n1").offers(pods=2), a_node("n2"))
    evaluation = Evaluation(default_profile(), cluster, a_pod().info())
    for n in range(20):
        cluster.observe_pod(a_pod(f"p{n}").on("n1").info())
    evaluation.refresh()
    assert evaluation.feasible.tolist() == [False, True]


class Restricting(Plugin):
    """Allows only the named nodes."""

    depends_on = DependsOn.NODE
    names: frozenset[str] = frozenset()

    def pre_filter(
        self, state: CycleState, pod: PodInfo, cluster: Cluster
    ) -> PreFilterResult | Status | None:
        return PreFilterResult(self.names)


class OnlyFirst(Restricting):
    names = frozenset({"n1", "n2"})


class OnlyLast(Restricting):
    names = frozenset({"n3"})


class Refusing(Plugin):
    """Refuses resolvably, so that others are still heard."""

    depends_on = DependsOn.NODE

    def pre_filter(self, state: CycleState, pod: PodInfo, cluster: Cluster) -> Status:
        return self.reject("not now")


class RefusingForGood(Refusing):
    def pre_filter(self, state: CycleState, pod: PodInfo, cluster: Cluster) -> Status:
        return self.reject("never", resolvable=False)


PRE_FILTERS: dict[str, tuple[list[type[Plugin]], str]] = {
    "nodes outside a PreFilter's list are named with the plugin": (
        [OnlyLast],
        "0/3 nodes are available: 1 Too many pods, 2 node(s) didn't satisfy plugin(s) [OnlyLast].",
    ),
    "two lists without a common node": (
        [OnlyLast, OnlyFirst],
        "0/3 nodes are available: "
        "node(s) didn't satisfy plugin(s) [OnlyFirst OnlyLast] simultaneously.",
    ),
    "an empty list": (
        [Restricting],
        "0/3 nodes are available: node(s) didn't satisfy plugin Restricting.",
    ),
    "a refusal that evictions may lift": ([Refusing], "0/3 nodes are available: not now."),
    "a refusal for good outweighs one that may be lifted": (
        [Refusing, RefusingForGood],
        "0/3 nodes are available: never.",
    ),
}


@pytest.mark.parametrize(("plugins", "message"), PRE_FILTERS.values(), ids=PRE_FILTERS.keys())
def test_what_pre_filters_say_together(plugins: list[type[Plugin]], message: str) -> None:
    profile = Profile(
        "test",
        [PluginWeight(p(), w) for p, w in DEFAULT_PLUGINS] + [PluginWeight(p()) for p in plugins],
    )
    full = [a_node(f"n{n}").offers(pods=0) for n in (1, 2, 3)]
    assert Evaluation(profile, a_cluster(*full), a_pod().info()).diagnosis().message() == message


def test_equal_scores_go_to_the_first_row() -> None:
    profile = Profile("test", [PluginWeight(PrioritySort()), PluginWeight(DefaultBinder())])
    evaluation = Evaluation(profile, a_cluster(a_node("n1"), a_node("n2")), a_pod().info())
    assert np.array_equal(evaluation.total_scores, [0, 0])
    assert evaluation.best_row() == 0


def test_an_image_alone_that_is_pulled_counts_for_all_nodes_that_have_it() -> None:
    profile, pod, size = default_profile(), a_pod("p").running("img:1").info(), 400 * 2**20
    nodes = [a_node(f"n{n}") for n in range(6)]
    cluster = a_cluster(nodes[0].holding("img:1", size), *nodes[1:])
    kept = Evaluation(profile, cluster, pod)
    for node in nodes[1:4]:
        cluster.set_node(node.holding("img:1", size).build())
        kept.refresh()
        fresh = Evaluation(profile, cluster, pod)
        assert kept.total_scores.tolist() == fresh.total_scores.tolist()
