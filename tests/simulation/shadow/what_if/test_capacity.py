"""How many copies fit: held against arithmetic, and against the scheduler itself."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from arranger.api.annotations import CARD_NAME
from arranger.daemon.config.schema import Config
from arranger.shadow import Present, Shadow
from arranger.shadow.answers.capacity import Capacity, CapacityAnswer, NodesNeeded, copy_of
from arranger.shadow.forecasts.changes import ChangeError
from tests.builders import Manifest, a_node, a_pod, a_pod_group
from tests.builders.base import ManifestBuilder
from tests.queueing import GPU, a_queue_manifest, gpu_node

NOW = datetime(2026, 1, 2, tzinfo=UTC)
Given = ManifestBuilder | Manifest


def manifests(given: Sequence[Given]) -> list[Manifest]:
    return [each.manifest() if isinstance(each, ManifestBuilder) else each for each in given]


def capacity(
    copy: Sequence[Given], cluster: Sequence[Given], wanted: int = 0, like: Sequence[str] = ()
) -> CapacityAnswer:
    shadow = Shadow.from_manifests(manifests(cluster), Config(), calendar=lambda: NOW)
    return shadow.ask_now(Capacity(manifests(copy), wanted, like))


def node(name: str = "n1", cpu: int = 4) -> ManifestBuilder:
    return a_node(name).offers(cpu=cpu, memory="8Gi", pods=20)


def gang(size: int, cpu: int) -> list[Given]:
    group = a_pod_group("g").with_spec(minMember=size)
    return [group, *(a_pod(f"m{n}").needs(cpu=cpu).in_pod_group("g") for n in range(size))]


OWNER = {
    "apiVersion": "apps/v1",
    "kind": "ReplicaSet",
    "metadata": {"name": "web", "namespace": "default", "uid": "uid-ReplicaSet-web"},
    "spec": {"template": {}},
}
ONE = [a_pod("new").needs(cpu=1)]
#: What it is about: the copy, the cluster, and how many fit.
CASES: dict[str, tuple[Sequence[Given], Sequence[Given], int]] = {
    "what is free counts": (ONE, [node(), a_pod("old").needs(cpu=1).on("n1")], 3),
    "what waits comes first": (ONE, [node(), a_pod("other").needs(cpu=3)], 1),
    "nobody is evicted for it": (
        [a_pod("new").needs(cpu=1).with_priority(9)],
        [node(), a_pod("old").needs(cpu=3).on("n1")],
        1,
    ),
    "a gang fits as a whole or not": (gang(2, 2), [node(), node("n2"), node("n3", cpu=3)], 2),
    "copies of a gang are gangs of their own": (gang(3, 1), [node(cpu=5)], 1),
    "a queue's limit counts": (
        [a_pod("new").needs(cpu=1).in_queue("q")],
        [node(), a_queue_manifest("q", capability={"cpu": "2"})],
        2,
    ),
    "who waits evicts, with copies or without": (
        ONE,
        [
            node().labelled(disk="ssd"),
            node("n2"),
            a_pod("low").needs(cpu=4).on("n1"),
            a_pod("high").needs(cpu=4).with_priority(9).selects(disk="ssd"),
        ],
        4,
    ),
    "gangs that start together have copies that do": (
        [a_pod(g).needs(cpu=1).in_gang(g, 1, groups='["default/a", "default/b"]') for g in "ab"],
        [node()],
        2,
    ),
    "a queue comes once for all copies": (
        [a_queue_manifest("q", capability={"cpu": "3"}), a_pod("new").needs(cpu=1).in_queue("q")],
        [node(), a_queue_manifest("default")],
        3,
    ),
    "an owner's card counts for the pods of its copies": (
        [
            {**OWNER, "metadata": {**OWNER["metadata"], "annotations": {CARD_NAME: "H100"}}},
            a_pod("new").needs({GPU: 1}, cpu=1).owned_by("ReplicaSet", "web"),
        ],
        [
            gpu_node("a", 4, "A100").offers({GPU: 4}, cpu=64, pods=20),
            gpu_node("h", 2, "H100").offers({GPU: 2}, cpu=64, pods=20),
            a_queue_manifest("default"),
        ],
        2,
    ),
    "nothing fits": ([a_pod("new").needs(cpu=9)], [node()], 0),
}


@pytest.mark.parametrize("case", CASES)
def test_copies_that_fit_now(case: str) -> None:
    copy, cluster, fit = CASES[case]
    told = capacity(copy, cluster)
    assert (told.copies, told.at_most) == (fit, False)
    assert told.blocked


@pytest.mark.parametrize(
    ("copy", "cluster", "wanted", "count"),
    [
        (ONE, [node()], 4, 0),
        (ONE, [node()], 5, 1),
        (ONE, [node()], 13, 3),
        (gang(2, 3), [node()], 2, 3),
        ([a_pod("new").needs(cpu=5)], [node()], 1, None),
        (
            [a_pod("new").needs(cpu=1).in_queue("q")],
            [node(), a_queue_manifest("q", capability={"cpu": "2"})],
            3,
            None,
        ),
    ],
    ids=[
        "they fit already",
        "one is missing",
        "nodes are filled up",
        "members that need a node each",
        "no node of that kind is large enough",
        "nodes do not help against a limit",
    ],
)
def test_the_fewest_nodes_for_copies(
    copy: Sequence[Given], cluster: Sequence[Given], wanted: int, count: int | None
) -> None:
    assert capacity(copy, cluster, wanted, ["n1"]).nodes == [NodesNeeded("n1", count)]


def test_as_many_fit_as_the_scheduler_places() -> None:
    rng = random.Random(5)
    for _ in range(10):
        cluster = [node(f"n{n}", rng.randrange(1, 9)) for n in range(rng.randrange(1, 5))]
        size = rng.randrange(1, 5)
        copy = a_pod("new").needs(cpu=size).manifest()
        many = [each for n in range(40) for each in copy_of([copy], n)]
        shadow = Shadow.from_manifests([*manifests(cluster), *many], Config())
        placed = len(shadow.ask_now(Present()).nodes)
        assert capacity([copy], cluster).copies == placed


def test_what_makes_no_pod_has_no_capacity() -> None:
    with pytest.raises(ChangeError, match="no pod"):
        capacity([a_pod_group("g")], [node()])
