"""Whom budgets protect, which of two candidates is cheaper, and which of two sets of victims."""

from __future__ import annotations

from typing import Any

import pytest

from arranger.api.types.disruption_budgets import PodDisruptionBudget
from arranger.cluster.pod_info import PodInfo
from arranger.framework.preemption import PriorityPolicy
from arranger.preemption.disruption_budgets import split_by_pdb_violation
from arranger.preemption.importance import Candidate, by_importance, oldest_checkpoint, start_time
from arranger.preemption.victim_search import cost_of
from tests.builders import PodBuilder, a_disruption_budget, a_pod, disruption_budgets

SAVED = "arranger.io/checkpointed-at"
POLICY = PriorityPolicy()


def budget(allowed: int, selector: dict[str, Any] | None, **more: Any) -> PodDisruptionBudget:
    return a_disruption_budget(selector, allowed, **more)


DB = {"matchLabels": {"app": "db"}}
PODS = [
    a_pod("a").labelled(app="db"),
    a_pod("b").labelled(app="db", tier="x"),
    a_pod("c").labelled(app="web"),
    a_pod("d"),
    a_pod("e").labelled(app="db").in_namespace("other"),
]

#: Budgets, and the pods that they protect when all leave, in this order.
PROTECTED: dict[str, tuple[list[PodDisruptionBudget], str]] = {
    "no budget": ([], ""),
    "one that lets nobody go": ([budget(0, DB)], "ab"),
    "one that lets one go": ([budget(1, DB)], "b"),
    "one that lets all go": ([budget(2, DB)], ""),
    "one that is short already": ([budget(-1, DB)], "ab"),
    "one by expressions": (
        [budget(0, {"matchExpressions": [{"key": "tier", "operator": "Exists"}]})],
        "b",
    ),
    "one of another namespace": ([budget(0, DB, namespace="other")], "e"),
    "one without a selector": ([budget(0, None)], ""),
    "one with an empty selector": ([budget(0, {})], ""),
    "one that has counted a pod already": ([budget(0, DB, disrupted=("a",))], "b"),
    "a pod it has counted takes nobody's place": ([budget(1, DB, disrupted=("a",))], ""),
    "two, one of which lets go": ([budget(9, DB), budget(0, DB, name="c")], "ab"),
    "two, the first of which does not cover it": (
        [budget(0, {"matchLabels": {"app": "web"}}), budget(0, DB, name="c")],
        "abc",
    ),
    "two, the second of which has been used up": (
        [budget(1, {"matchLabels": {"tier": "x"}}), budget(1, DB, name="c")],
        "b",
    ),
}


@pytest.mark.parametrize(("budgets", "protected"), PROTECTED.values(), ids=PROTECTED.keys())
def test_whom_budgets_protect(budgets: list[PodDisruptionBudget], protected: str) -> None:
    pods = [pod.info() for pod in PODS]
    violating, others = split_by_pdb_violation(pods, disruption_budgets(*budgets))
    names = [pod.pod.metadata.name for pod in violating]
    assert "".join(names) == protected
    assert [pod for pod in pods if pod in others] == others
    assert len(violating) + len(others) == len(pods)


def victim(
    name: str = "v", priority: int = 0, started: int | None = 30, saved: str = ""
) -> PodInfo:
    pod: PodBuilder = a_pod(name).with_priority(priority).on("n")
    if started is not None:
        pod = pod.with_status(startTime=f"2026-01-01T00:00:{started:02}Z")
    return (pod.annotated({SAVED: saved}) if saved else pod).info()


def candidate(
    *victims: PodInfo, budgets: int = 0, leaving: tuple[str, ...] = (), broken: int = 0
) -> Candidate:
    ordered = tuple(by_importance(victims))
    return Candidate(
        0,
        ordered,
        budgets,
        leaving=frozenset(f"uid-default-{name}" for name in leaving),
        groups_broken=broken,
    )


EARLY, LATE = "2026-01-01T01:00:00Z", "2026-01-01T02:00:00Z"
HIGH, MID, LOW = 20, 10, -5

#: The first is the cheaper.
CHEAPER: dict[str, tuple[Candidate, Candidate]] = {
    "who breaks no budget, however important": (
        candidate(victim("a", HIGH), victim("b", HIGH)),
        candidate(victim(priority=LOW), budgets=1),
    ),
    "whose most important is less so, however many there are": (
        candidate(*(victim(f"v{n}", MID) for n in range(5))),
        candidate(victim(priority=HIGH)),
    ),
    "who breaks no gang, however many leave": (
        candidate(*(victim(f"v{n}", MID) for n in range(5))),
        candidate(victim(priority=MID), broken=1),
    ),
    "whose priorities sum up to less, though they are as many": (
        candidate(victim("a", MID), victim("b", LOW)),
        candidate(victim("a", MID), victim("b", 0)),
    ),
    "who are fewer, though the others are below zero": (
        candidate(victim("a", MID)),
        candidate(victim("a", MID), victim("b", LOW)),
    ),
    "whose most important started later": (
        candidate(victim("a", MID, 40), victim("b", 0, 1)),
        candidate(victim("a", MID, 30), victim("b", 0, 50)),
    ),
    "the oldest of equally important ones counts": (
        candidate(victim("a", MID, 40), victim("b", MID, 35)),
        candidate(victim("a", MID, 59), victim("b", MID, 30)),
    ),
    "one that has not started": (candidate(victim(started=None)), candidate(victim())),
    "who has saved its state": (candidate(victim(saved=EARLY)), candidate(victim())),
    "who has saved it later": (candidate(victim(saved=LATE)), candidate(victim(saved=EARLY))),
    "of whom all have saved theirs": (
        candidate(victim("a", saved=EARLY), victim("b", saved=EARLY)),
        candidate(victim("a", saved=LATE), victim("b")),
    ),
    "who are leaving anyway cost nothing": (
        candidate(victim(priority=HIGH), leaving=("v",)),
        candidate(victim(priority=LOW)),
    ),
    "of those that cost as much who leaves with fewer that are leaving": (
        candidate(victim("a", MID)),
        candidate(victim("a", MID), victim("b", MID), leaving=("b",)),
    ),
}


@pytest.mark.parametrize(("one", "other"), CHEAPER.values(), ids=CHEAPER.keys())
def test_the_cheaper_candidate(one: Candidate, other: Candidate) -> None:
    assert one.cost() < other.cost()


def test_all_that_are_leaving_already_cost_the_same() -> None:
    few = candidate(victim("a", HIGH), leaving=("a",))
    many = candidate(victim("a", LOW), victim("b", MID), leaving=("a", "b"))
    assert few.cost() == many.cost() < candidate(victim(priority=LOW)).cost()


def test_what_is_known_of_a_cost_is_not_worked_out_again() -> None:
    known = candidate(victim("a", HIGH)).cost()
    assert Candidate(0, (victim("b", LOW),), 0, known_cost=known).cost() == known


DB_POD = a_pod("db").labelled(app="db").on("n").info()

#: Victims of which the first cost less.
SETS: dict[str, tuple[list[PodInfo], list[PodInfo]]] = {
    "nobody": ([], [victim(priority=-(2**31))]),
    "who breaks no budget": ([victim("a", HIGH), victim("b", HIGH)], [DB_POD]),
    "whose most important is less so": (
        [victim("a", MID), victim("b", MID)],
        [victim("a", HIGH)],
    ),
    "who are fewer": ([victim("a", MID)], [victim("a", MID), victim("b", LOW)]),
    "whose most important started later": ([victim("a", MID, 40)], [victim("a", MID, 30)]),
    "who have saved their states": ([victim("a", saved=EARLY)], [victim("a")]),
}


@pytest.mark.parametrize(("one", "other"), SETS.values(), ids=SETS.keys())
def test_the_cheaper_set_of_victims(one: list[PodInfo], other: list[PodInfo]) -> None:
    budgets = disruption_budgets(budget(0, DB))
    assert cost_of(one, POLICY, budgets) < cost_of(other, POLICY, budgets)
    assert cost_of(reversed(one), POLICY, budgets) == cost_of(one, POLICY, budgets)


def test_the_importance_of_the_policy_counts_and_not_the_priority() -> None:
    class Upside(PriorityPolicy):
        def importance(self, pod: PodInfo) -> int:
            return -pod.priority

    high, low = victim("a", HIGH), victim("b", LOW)
    assert cost_of([high], Upside(), disruption_budgets()) < cost_of(
        [low], Upside(), disruption_budgets()
    )
    assert cost_of([high, low], Upside(), disruption_budgets())[1] == -LOW


def test_when_a_pod_has_started_and_saved_its_state() -> None:
    assert start_time(victim(started=None)) == float("inf")
    assert start_time(victim(started=30)) == 1767225630.0
    assert oldest_checkpoint([victim(saved=LATE), victim(saved=EARLY)]) == 1767229200.0
    assert oldest_checkpoint([victim(saved=LATE), victim()]) == 0.0
