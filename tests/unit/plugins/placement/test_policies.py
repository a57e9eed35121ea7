"""BinPack, LeaderFirst, MinFragment and the job affinities, with scores worked out by hand.

Percentages are whole and rounded down, each resource first and then their mean, as upstream does.
"""

from __future__ import annotations

import pytest

from arranger.api.annotations import PLACEMENT, ROLE
from arranger.framework.interface import Plugin
from arranger.framework.runtime.evaluation import Evaluation
from arranger.framework.runtime.profile import PluginWeight, Profile
from arranger.framework.runtime.registry import Registry
from arranger.plugins import DEFAULT_PLUGINS, default_profile
from arranger.plugins.placement.bin_pack import BinPack
from arranger.plugins.placement.job_affinity import JobAffinity, JobAntiAffinity
from arranger.plugins.placement.leader_first import LeaderFirst
from arranger.plugins.placement.min_fragment import MinFragment
from tests.builders import NodeBuilder, PodBuilder, a_cluster, a_node, a_pod
from tests.unit.plugins.evaluation import scores

GPU = "example.com/gpu"
Members = list[NodeBuilder | PodBuilder]


def node(name: str, *, cpu: int = 10, memory: str = "100Gi", gpu: int = 0) -> NodeBuilder:
    made = a_node(name).offers(cpu=cpu, memory=memory)
    return made.offers({GPU: gpu}) if gpu else made


def load(on: str, cpu: int, memory: str, gpu: int = 0) -> PodBuilder:
    """What is on a node already."""
    pod = a_pod(f"load-{on}").needs(cpu=cpu, memory=memory)
    return (pod.needs({GPU: gpu}) if gpu else pod).on(on)


def asking(policy: str, *, cpu: int = 1, memory: str = "10Gi", gpu: int = 0) -> PodBuilder:
    pod = a_pod().needs(cpu=cpu, memory=memory).annotated({PLACEMENT: policy})
    return pod.needs({GPU: gpu}) if gpu else pod


def leader(*, gpu: int = 0) -> PodBuilder:
    return asking("LeaderFirst", gpu=gpu).annotated({ROLE: "leader"})


def worker(*, gpu: int = 0) -> PodBuilder:
    return asking("LeaderFirst", gpu=gpu).annotated({ROLE: "worker"})


GPU_NODES: Members = [
    node("idle", gpu=4),
    # In use with the pod on it: 50 % of the CPU, 30 % of the memory, 75 % of the GPUs.
    node("busy", gpu=4),
    load("busy", 4, "20Gi", 2),
]

SCORES: dict[str, tuple[Plugin, PodBuilder, Members, dict[str, int | None]]] = {
    "BinPack: an empty node, one in use, one that it fills": (
        BinPack(),
        asking("BinPack"),
        [node("a"), node("b"), load("b", 4, "20Gi"), node("c"), load("c", 9, "90Gi")],
        # (10+10)/2; (50+30)/2; (100+100)/2
        {"a": 10, "b": 40, "c": 100},
    ),
    "BinPack: extended resources count for those that ask for them": (
        BinPack(),
        asking("BinPack", gpu=1),
        GPU_NODES,
        # (10+10+25)/3; (50+30+75)/3 = 51.6…
        {"idle": 15, "busy": 51},
    ),
    "BinPack: and for nobody else": (
        BinPack(),
        asking("BinPack"),
        GPU_NODES,
        {"idle": 10, "busy": 40},
    ),
    "BinPack: weights": (
        Registry([BinPack]).make("BinPack", {"resources": [{"name": GPU, "weight": 8}]}),
        asking("BinPack", gpu=1),
        GPU_NODES,
        # (10+10+8·25)/10; (50+30+8·75)/10
        {"idle": 22, "busy": 68},
    ),
    "LeaderFirst: the leader's GPUs count three times, and idle is good": (
        LeaderFirst(),
        leader(gpu=1),
        GPU_NODES,
        # 100 - (10+10+3·25)/5; 100 - (50+30+3·75)/5
        {"idle": 81, "busy": 39},
    ),
    "LeaderFirst: the workers' CPU counts three times, and busy is good": (
        LeaderFirst(),
        worker(gpu=1),
        GPU_NODES,
        # (3·10+10+25)/5; (3·50+30+75)/5
        {"idle": 13, "busy": 51},
    ),
    "LeaderFirst: a leader without GPUs": (
        LeaderFirst(),
        leader(),
        GPU_NODES,
        {"idle": 90, "busy": 60},
    ),
    "LeaderFirst: by label": (
        LeaderFirst(),
        asking("LeaderFirst").labelled({ROLE: "leader"}),
        GPU_NODES,
        {"idle": 90, "busy": 60},
    ),
    "LeaderFirst: the annotation goes before the label": (
        LeaderFirst(),
        worker().labelled({ROLE: "leader"}),
        GPU_NODES,
        # (3·10+10)/4; (3·50+30)/4
        {"idle": 10, "busy": 45},
    ),
    "LeaderFirst: whoever has no role is a worker": (
        LeaderFirst(),
        asking("LeaderFirst"),
        GPU_NODES,
        {"idle": 10, "busy": 45},
    ),
    "MinFragment: even use keeps BinPack's score, uneven use costs": (
        MinFragment(),
        asking("MinFragment"),
        [
            *(node("even"), load("even", 4, "40Gi")),  # 50 %, 50 %: 1.0 × 50
            *(node("cpu"), load("cpu", 7, "10Gi")),  # 80 %, 20 %: 0.4 × 50
            *(node("memory"), load("memory", 1, "70Gi")),  # 20 %, 80 %: 0.4 × 50
            *(node("full"), load("full", 8, "50Gi")),  # 90 %, 60 %: 0.7 × 75 = 52.5
        ],
        {"even": 50, "cpu": 20, "memory": 20, "full": 52},
    ),
    "JobAffinity: in proportion to the node with the most of the gang": (
        JobAffinity(),
        asking("JobAffinity").in_gang("g"),
        [
            node("three"),
            *(a_pod(f"t{n}").in_gang("g").on("three") for n in range(3)),
            node("one"),
            a_pod("o").in_gang("g").on("one"),
            node("others"),
            a_pod("x").in_gang("h").on("others"),
            a_pod("y").in_gang("g").in_namespace("other").on("others"),
        ],
        {"three": 100, "one": 33, "others": 0},
    ),
    "JobAntiAffinity: the other way round": (
        JobAntiAffinity(),
        asking("JobAntiAffinity").in_gang("g"),
        [
            node("three"),
            *(a_pod(f"t{n}").in_gang("g").on("three") for n in range(3)),
            node("one"),
            a_pod("o").in_gang("g").on("one"),
            node("others"),
            a_pod("x").in_gang("h").on("others"),
        ],
        {"three": 0, "one": 67, "others": 100},
    ),
    "JobAffinity: without a gang by controller": (
        JobAffinity(),
        asking("JobAffinity").owned_by("Job", "j"),
        [
            node("own"),
            a_pod("o").owned_by("Job", "j").on("own"),
            node("others"),
            a_pod("x").owned_by("Job", "k").on("others"),
        ],
        {"own": 100, "others": 0},
    ),
    "JobAffinity: the first of its job has no preference": (
        JobAffinity(),
        asking("JobAffinity").in_gang("g"),
        [node("a"), node("b")],
        {"a": 0, "b": 0},
    ),
    "JobAffinity: a pod on its own is not scored": (
        JobAffinity(),
        asking("JobAffinity"),
        [node("a")],
        {"a": None},
    ),
    "several policies: one of them": (
        BinPack(),
        asking("LeaderFirst, BinPack"),
        [node("a")],
        {"a": 10},
    ),
    "an unknown policy asks for nothing": (
        BinPack(),
        asking("BinPacking"),
        [node("a")],
        {"a": None},
    ),
}


@pytest.mark.parametrize("case", SCORES.values(), ids=SCORES.keys())
def test_scores(case: tuple[Plugin, PodBuilder, Members, dict[str, int | None]]) -> None:
    plugin, pod, members, expected = case
    assert scores(plugin, pod, *members) == expected


@pytest.mark.parametrize(
    "plugin", [BinPack(), LeaderFirst(), MinFragment(), JobAffinity(), JobAntiAffinity()]
)
def test_a_pod_that_asks_for_nothing_is_not_scored(plugin: Plugin) -> None:
    pod = a_pod().needs(cpu=1).in_gang("g", 1)
    assert scores(plugin, pod, node("a"), load("a", 4, "20Gi")) == {"a": None}


def best(pod: PodBuilder, *members: NodeBuilder | PodBuilder) -> str:
    """The node that the default profile takes."""
    cluster = a_cluster(*members)
    row = Evaluation(default_profile(), cluster, pod.info()).best_row()
    return cluster.table.name(row)


#: Annotation → where a pod of the gang goes: all other plugins prefer the idle nodes.
AGAINST_THE_OTHERS = {"BinPack": "busy", "JobAffinity": "busy", "JobAntiAffinity": "idle"}


@pytest.mark.parametrize(
    ("policy", "expected"), AGAINST_THE_OTHERS.items(), ids=AGAINST_THE_OTHERS.keys()
)
def test_the_policy_decides_against_the_other_scores(policy: str, expected: str) -> None:
    pod = (
        asking(policy)
        .in_gang("g")
        .labelled(app="a")
        .spreads("kubernetes.io/hostname", soft=True, over={"app": "a"})
    )
    members: Members = [
        node("idle"),
        node("busy"),
        load("busy", 4, "40Gi").in_gang("g").labelled(app="a"),
    ]
    assert best(pod, *members) == expected


ALIKE: dict[str, tuple[PodBuilder, PodBuilder, bool]] = {
    "no annotation, two gangs": (a_pod("a").in_gang("g"), a_pod("b").in_gang("h"), True),
    "with and without the annotation": (asking("BinPack"), a_pod().needs(cpu=1), False),
    "BinPack, two gangs": (asking("BinPack").in_gang("g"), asking("BinPack").in_gang("h"), True),
    "JobAffinity, two gangs": (
        asking("JobAffinity").in_gang("g"),
        asking("JobAffinity").in_gang("h"),
        False,
    ),
    "leader and worker": (leader(), worker(), False),
    "leader and worker without the policy": (
        a_pod("a").annotated({ROLE: "leader"}),
        a_pod("b").annotated({ROLE: "worker"}),
        True,
    ),
}


@pytest.mark.parametrize("case", ALIKE.values(), ids=ALIKE.keys())
def test_pods_share_an_evaluation_when_their_scores_are_the_same(
    case: tuple[PodBuilder, PodBuilder, bool],
) -> None:
    one, other, alike = case
    plugins = [BinPack, LeaderFirst, MinFragment, JobAffinity, JobAntiAffinity]
    signs = [[plugin().sign_pod(pod.info()) for plugin in plugins] for pod in (one, other)]
    assert (signs[0] == signs[1]) == alike


@pytest.mark.parametrize(
    "policy", ["BinPack", "LeaderFirst", "MinFragment", "JobAffinity", "JobAntiAffinity"]
)
def test_scores_are_kept_current_as_the_job_is_placed(policy: str) -> None:
    """As if judged from scratch after every placement."""
    profile = Profile(
        "test", [PluginWeight(plugin(), weight) for plugin, weight in DEFAULT_PLUGINS]
    )
    cluster = a_cluster(*(node(f"n{n}", cpu=4 + n) for n in range(4)))
    pods = [asking(policy).in_gang("g").with_uid(f"u{n}") for n in range(12)]
    evaluation = Evaluation(profile, cluster, pods[0].info())
    for pod in pods:
        evaluation.refresh()
        fresh = Evaluation(profile, cluster, pods[0].info())
        assert evaluation.total_scores.tolist() == fresh.total_scores.tolist()
        assert evaluation.scores()[policy].tolist() == fresh.scores()[policy].tolist()
        cluster.assume_pod(pod.info(), cluster.table.name(evaluation.best_row()))
