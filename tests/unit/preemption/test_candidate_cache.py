"""A survey that is kept current says the same as one made anew, whatever has happened."""

from __future__ import annotations

import random
from collections.abc import Hashable, Sequence

import numpy as np
import pytest

from arranger.api.types.disruption_budgets import PodDisruptionBudget
from arranger.cluster.cluster import Cluster
from arranger.cluster.pod_info import PodInfo
from arranger.framework.preemption import Losses, PriorityPolicy
from arranger.framework.runtime.dry_run import DryRun
from arranger.framework.runtime.evaluation import Evaluation
from arranger.plugins import default_profile
from arranger.preemption import candidate_cache
from arranger.preemption.candidate_cache import CandidateCache
from tests.builders import PodBuilder, a_disruption_budget, a_node, a_pod

PROFILE = default_profile()
APPS = ("a", "b", "c")


def budget(app: str, allowed: int, namespace: str = "default") -> PodDisruptionBudget:
    selector = {"matchLabels": {"app": app}}
    return a_disruption_budget(selector, allowed, name=f"budget-{app}", namespace=namespace)


def victim(rng: random.Random, number: int) -> PodBuilder:
    pod = a_pod(f"v{number}").needs(cpu=rng.randint(1, 3)).with_priority(rng.randint(0, 12))
    return pod.labelled(app=rng.choice(APPS)).in_namespace(rng.choice(["default", "other"]))


class PartnersLeaveTogether(PriorityPolicy):
    """Evicts partners together, and nobody otherwise than by priority."""

    def __init__(self, world: RandomCluster) -> None:
        self._world = world

    def in_gang(self, pod: PodInfo) -> bool:
        return pod.uid in self._world.partners

    def expand_to_gang(self, victims: Sequence[PodInfo]) -> Sequence[PodInfo]:
        return self._world.company(victims)


class Keeps(PriorityPolicy, Losses):
    """Allows no eviction of pods of these names."""

    def __init__(self, kept: set[str]) -> None:
        self._kept = kept

    def losses(self, takers: Sequence[PodInfo]) -> Losses:
        return self

    def add(self, victims: Sequence[PodInfo]) -> bool:
        return self.may_add(victims)

    def may_add(self, victims: Sequence[PodInfo]) -> bool:
        return not any(pod.pod.metadata.name in self._kept for pod in victims)

    def kind_of(self, victim: PodInfo) -> Hashable:
        return victim.uid


class RandomCluster:
    """A cluster to which things happen, and a survey that is kept."""

    def __init__(self, seed: int, wanted: PodBuilder) -> None:
        self.rng = random.Random(seed)
        self.cluster = Cluster()
        self.pod = wanted.info()
        self.evaluation = Evaluation(PROFILE, self.cluster, self.pod)
        self.kept = CandidateCache()
        self.placed: list[PodInfo] = []
        #: Pods that, as members of a gang, take another with them.
        self.partners: dict[str, PodInfo] = {}

    def company(self, pods: Sequence[PodInfo]) -> list[PodInfo]:
        leaving = {pod.uid: pod for pod in pods}
        for uid in list(leaving):
            other = self.partners.get(uid)
            if other is not None and other.uid in self.cluster:
                leaving[other.uid] = other
        return list(leaving.values())

    def happen(self, number: int) -> None:
        rng = self.rng
        match rng.randrange(8):
            case 0:
                node = a_node(f"n{rng.randrange(8)}").offers(cpu=rng.randint(2, 8))
                self.cluster.set_node((node.tainted("x") if rng.random() < 0.2 else node).build())
            case 1 if self.placed:
                self.cluster.remove_pod(self.placed.pop(rng.randrange(len(self.placed))).uid)
            case 2:
                self.cluster.budgets.set(budget(rng.choice(APPS), rng.randrange(3)))
            case 3:
                namespace = rng.choice(["default", "other"])
                self.cluster.budgets.remove(budget(rng.choice(APPS), 0, namespace))
            case 4:
                one, other = (victim(rng, 1000 * n + number).info() for n in (1, 2))
                self.partners[one.uid], self.partners[other.uid] = other, one
                self.place(one)
                self.place(other)
            case _:
                self.place(victim(rng, number).info())

    def place(self, pod: PodInfo) -> None:
        self.cluster.assume_pod(pod, f"n{self.rng.randrange(8)}")
        self.placed.append(pod)

    def look(self, survey: CandidateCache) -> tuple[object, ...]:
        self.evaluation.refresh()
        what_if = DryRun(
            PROFILE, self.cluster, self.pod, self.evaluation, policy=PartnersLeaveTogether(self)
        )
        rows = self.evaluation.diagnosis().resolvable()
        assert not (rows & self.evaluation.feasible).any()
        survey.update(what_if, rows, lambda pod: pod.pod.metadata.labels["app"] != "c", 10**6)
        found = [(each.row, each.victims, each.pdb_violations) for each in survey.candidates()]
        return found, survey.reasons()


WANTED = {
    "by room alone": a_pod("high").needs(cpu=3).with_priority(10),
    "by what runs there, too": a_pod("high")
    .needs(cpu=2)
    .with_priority(10)
    .apart("kubernetes.io/hostname", {"app": "a"}),
}


@pytest.mark.parametrize("wanted", WANTED.values(), ids=WANTED.keys())
def test_what_is_kept_is_what_would_be_found_anew(wanted: PodBuilder) -> None:
    found = 0
    for seed in range(15):
        world = RandomCluster(seed, wanted)
        for number in range(120):
            world.happen(number)
            if world.rng.random() < 0.4:
                kept = world.look(world.kept)
                assert kept == world.look(CandidateCache()), seed
                found += bool(kept[0])
    assert found > 50, "somebody could have been evicted at some time"


def test_who_has_joined_a_gang_since_does_not_leave_alone() -> None:
    world = RandomCluster(1, WANTED["by room alone"])
    pods = [a_pod(f"v{n}").needs(cpu=4).labelled(app="b").info() for n in range(2)]
    for n, pod in enumerate(pods):
        world.cluster.set_node(a_node(f"n{n}").offers(cpu=4).build())
        world.cluster.assume_pod(pod, f"n{n}")
    (first, _), _ = world.look(world.kept)
    assert first == (0, (pods[0],), 0)
    world.partners = {pods[0].uid: pods[1], pods[1].uid: pods[0]}
    (first, _), _ = world.look(world.kept)
    assert set(first[1]) == set(pods)


@pytest.mark.parametrize(
    ("allowed", "candidates"), [(20, 5), (0, 8)], ids=["", "more where all break budgets"]
)
def test_where_plugins_must_be_asked_enough_candidates_are_enough(
    allowed: int, candidates: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(candidate_cache, "_PLENTY", 8)
    world = RandomCluster(1, WANTED["by what runs there, too"])
    for n in range(20):
        world.cluster.set_node(a_node(f"n{n}").offers(cpu=2).build())
        pod = a_pod(f"v{n}").needs(cpu=2).labelled(app="b").in_namespace("other")
        world.cluster.assume_pod(pod.info(), f"n{n}")
    world.cluster.budgets.set(budget("b", allowed, "other"))
    world.evaluation.refresh()
    what_if = DryRun(PROFILE, world.cluster, world.pod, world.evaluation)
    survey = CandidateCache()
    survey.update(what_if, np.ones(20, dtype=np.bool_), lambda _: True, 5)
    assert len(list(survey.candidates())) == candidates


CHOICES: dict[str, tuple[set[str], list[tuple[str, tuple[str, ...]]]]] = {
    "all may leave": (set(), [("n0", ("a",)), ("n1", ("c",))]),
    "who would leave may not, and another does": ({"a"}, [("n1", ("c",)), ("n0", ("b",))]),
    "nobody on one node": ({"a", "b"}, [("n1", ("c",))]),
    "nobody at all": ({"a", "b", "c"}, []),
}


@pytest.mark.parametrize(("kept", "expected"), CHOICES.values(), ids=CHOICES.keys())
def test_where_the_victims_may_not_leave_together_others_may(
    kept: set[str], expected: list[tuple[str, tuple[str, ...]]]
) -> None:
    world = RandomCluster(1, a_pod("high").needs(cpu=1).with_priority(10))
    for name, node, priority in (("a", "n0", 1), ("b", "n0", 3), ("c", "n1", 2)):
        world.cluster.set_node(a_node(node).offers(cpu=2 if node == "n0" else 1).build())
        world.cluster.assume_pod(a_pod(name).needs(cpu=1).with_priority(priority).info(), node)
    world.evaluation.refresh()
    what_if = DryRun(
        PROFILE,
        world.cluster,
        world.pod,
        world.evaluation,
        policy=Keeps(kept),
    )
    survey = CandidateCache()
    survey.update(what_if, np.ones(2, dtype=np.bool_), lambda _: True, 10)
    found = [
        (world.cluster.table.name(each.row), tuple(v.pod.metadata.name for v in each.victims))
        for each in survey.candidates()
    ]
    assert found == expected


#: Of two nodes one has a large pod, in whose room two takers fit, the other a small one beside one
#: that is more important than the takers: who may not leave, who leaves already, how many wait, and
#: who makes room for the first.
FOR_SEVERAL: dict[str, tuple[set[str], set[str], int, str]] = {
    "one alone takes the place of the smaller": (set(), set(), 1, "small"),
    "two that of the larger": (set(), set(), 2, "large"),
    "but not if it may not leave": ({"large"}, set(), 2, "small"),
    "nor if the smaller leaves anyhow": (set(), {"small"}, 2, "small"),
}


@pytest.mark.parametrize(
    ("kept", "leaving", "takers", "expected"), FOR_SEVERAL.values(), ids=FOR_SEVERAL.keys()
)
def test_whose_place_is_taken_depends_on_how_many_wait(
    kept: set[str], leaving: set[str], takers: int, expected: str
) -> None:
    world = RandomCluster(1, a_pod("high").needs(cpu=4).with_priority(100))
    for node in ("n0", "n1"):
        world.cluster.set_node(a_node(node).offers(cpu=8).build())
    for name, node, cpu, priority in (
        ("large", "n1", 8, 10),
        ("small", "n0", 4, 10),
        ("safe", "n0", 4, 200),
    ):
        pod = a_pod(name).needs(cpu=cpu).with_priority(priority)
        world.cluster.assume_pod(pod.info(), node)
    world.evaluation.refresh()
    what_if = DryRun(
        PROFILE,
        world.cluster,
        world.pod,
        world.evaluation,
        policy=Keeps(kept),
        terminating_victims={f"uid-default-{name}" for name in leaving},
        waiting_alike=lambda most: min(most, takers),
    )
    survey = CandidateCache()
    survey.update(what_if, np.ones(2, dtype=np.bool_), lambda _: True, 10)
    found = survey.best_for_several(what_if)
    assert found is not None
    assert [pod.pod.metadata.name for pod in found.victims] == [expected]
