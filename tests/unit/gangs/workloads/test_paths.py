"""What is kept of an owner is what the expressions about it read, and decides the same."""

from __future__ import annotations

import random
from typing import Any

import pytest

from arranger.daemon.config.schema import Config
from arranger.gangs.workloads.definitions import pod_scope, read_definition
from arranger.gangs.workloads.expressions import Expression
from arranger.gangs.workloads.kinds import OWNER_WORDS, ROLE_WORDS, RoleRule, WorkloadKind
from arranger.gangs.workloads.paths import ANY, PathTree, paths_of
from tests.builders import a_pod
from tests.builders.workloads import an_owner, replicas
from tests.odd_values import spoil

KINDS = Config().workload_kinds()

# sentence: expression, the paths that it reads
READ: dict[str, tuple[str, set[tuple[str | None, ...]]]] = {
    "a number reads nothing": ("1", set()),
    "a path": ("spec.size", {("spec", "size")}),
    "a key that is no name": (
        'metadata.labels["example.com/a"]',
        {("metadata", "labels", "example.com/a")},
    ),
    "both sides of a sum": ("spec.a.b + status.c", {("spec", "a", "b"), ("status", "c")}),
    "all arguments of a function, and not its name": (
        'first(pod.labels["x"], spec.first, 1)',
        {("pod", "labels", "x"), ("spec", "first")},
    ),
    "a condition and what follows from it": (
        "spec.a if spec.b and not spec.c else spec.d",
        {("spec", "a"), ("spec", "b"), ("spec", "c"), ("spec", "d")},
    ),
    "what stands in a role, where the role is": (
        "role.replicas",
        {("spec", "jobs", ANY, "replicas")},
    ),
}

# sentence: the paths, an object, what is kept of it
KEPT: dict[str, tuple[list[tuple[str | None, ...]], Any, Any]] = {
    "nothing of what is not read": ([("a",)], {"a": 1, "b": 2}, {"a": 1}),
    "that there is more in an object": ([("a",)], {"b": 2}, {"": None}),
    "that an object is empty": ([("a",)], {}, {}),
    "that there is a list": ([("a",)], {"a": [{"x": 1}, 3]}, {"a": [{"": None}, 3]}),
    "of the elements of a list what a path through it reads": (
        [("a", "n")],
        {"a": [{"n": 1, "m": 2}, {"m": 2}]},
        {"a": [{"n": 1}, {"": None}]},
    ),
    "of the elements of a map what is read of each": (
        [("a", ANY, "n")],
        {"a": {"x": {"n": 1, "m": 2}, "y": 3}},
        {"a": {"x": {"n": 1}, "y": 3}},
    ),
    "of the elements of a list what is read of each, and through it": (
        [("a", ANY, "n"), ("a", "m")],
        {"a": [{"n": 1, "m": 2, "l": 3}]},
        {"a": [{"n": 1, "m": 2}]},
    ),
    "the beginning of a text": ([("a",)], {"a": "x" * 5000}, {"a": "x" * 1024}),
}


@pytest.mark.parametrize(("text", "paths"), READ.values(), ids=READ)
def test_an_expression_reads(text: str, paths: set[tuple[str | None, ...]]) -> None:
    assert set(paths_of(Expression(text, ROLE_WORDS), ("spec", "jobs", ANY))) == paths


@pytest.mark.parametrize(("paths", "value", "kept"), KEPT.values(), ids=KEPT)
def test_it_keeps(paths: list[tuple[str | None, ...]], value: Any, kept: Any) -> None:
    assert PathTree(paths).part_of(value) == kept


def a_kind(**more: Any) -> WorkloadKind:
    return WorkloadKind("example.com", ("v1",), "Thing", "things", **more)


ROLES = RoleRule(
    Expression("first(role.name, key)", ROLE_WORDS),
    Expression("role.count * first(role.each, 1)", ROLE_WORDS),
    Expression("spec.groups", ROLE_WORDS),
)
#: The shipped kinds, and some whose roles are a list, or a map.
ALL = [
    *KINDS,
    a_kind(roles=(ROLES,), minimum=Expression("spec.least", OWNER_WORDS)),
    a_kind(roles=(ROLES,), gang_per_role=Expression("spec.groups and spec.order", OWNER_WORDS)),
]
OWNERS = [
    replicas("PyTorchJob", Master=1, Worker=3),
    replicas("MPIJob", Launcher=1, Worker=2),
    an_owner("LeaderWorkerSet", replicas=2, leaderWorkerTemplate={"size": 3}),
    an_owner("RayCluster", headGroupSpec={}, workerGroupSpecs=[{"groupName": "a", "replicas": 2}]),
    an_owner("SparkApplication", executor={"instances": 4}),
    an_owner("JobSet", groups=[{"name": "a", "count": 2}, {"count": 3, "each": 2}], order=True),
    an_owner("JobSet", groups={"a": {"count": 2}, "b": {"count": 1}, "c": 3}, least=2),
]


@pytest.mark.parametrize("seed", range(60))
def test_what_is_kept_says_the_same_as_the_whole(seed: int) -> None:
    chance = random.Random(seed)
    for kind in ALL:
        tree = PathTree([*kind.read_paths(), ("metadata", "annotations")])
        for owner in OWNERS:
            meta = owner.manifest()["metadata"]
            said = {"name": meta["name"], "labels": {}, "annotations": {}}
            spec = owner.manifest()["spec"]
            for _ in range(seed % 4):
                spec = spoil(spec, chance)
            scope = {"metadata": said, "spec": spec, **pod_scope(a_pod("p").build().metadata)}
            assert read_definition(kind, tree.part_of(scope)) == read_definition(kind, scope)
