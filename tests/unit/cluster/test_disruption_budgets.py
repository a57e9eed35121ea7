"""Which budgets cover a pod: beside asking all of them, and what it costs where there are many."""

from __future__ import annotations

import random
from typing import Any

import pytest

from arranger.api.selectors import Selector
from arranger.api.types.core import Pod
from arranger.api.types.disruption_budgets import PodDisruptionBudget
from arranger.cluster.attempt_work import AttemptWork
from arranger.cluster.disruption_budgets import DisruptionBudgets
from arranger.preemption.disruption_budgets import split_by_pdb_violation
from tests.builders import a_disruption_budget, a_pod, disruption_budgets

KEYS, VALUES = ("app", "tier"), ("a", "b", "c")


def a_budget(
    name: str, selector: dict[str, Any] | None, allowed: int = 0, namespace: str = "default"
) -> PodDisruptionBudget:
    return a_disruption_budget(selector, allowed, name=name, namespace=namespace)


def names(budgets: DisruptionBudgets, pod: Pod) -> list[str] | None:
    covering = budgets.covering(pod)
    return None if covering is None else sorted(each.metadata.name for each in covering)


def any_selector(rng: random.Random) -> dict[str, Any] | None:
    operators = {"In": 2, "NotIn": 1, "Exists": 0, "DoesNotExist": 0, "Gt": 1, "bad": 0}
    expressions = []
    for _ in range(rng.randrange(3)):
        operator = rng.choice(list(operators))
        values = rng.sample(VALUES, operators[operator])
        expressions.append({"key": rng.choice(KEYS), "operator": operator, "values": values})
    labels = {key: rng.choice(VALUES) for key in rng.sample(KEYS, rng.randrange(3))}
    selector = {"matchLabels": labels, "matchExpressions": expressions}
    return rng.choice([selector, selector, selector, None, {}])


@pytest.mark.parametrize("seed", range(50))
def test_those_are_found_that_asking_all_of_them_finds(seed: int) -> None:
    rng = random.Random(seed)
    budgets = DisruptionBudgets(AttemptWork())
    there: dict[str, PodDisruptionBudget] = {}
    for _ in range(60):
        made = a_budget(
            f"b{rng.randrange(20)}", any_selector(rng), namespace=rng.choice(("default", "other"))
        )
        if rng.random() < 0.3:
            budgets.remove(made)
            there.pop(made.key, None)
        else:
            budgets.set(made)
            there[made.key] = made
        budgets.check_consistent()
        labels = {key: rng.choice(VALUES) for key in rng.sample(KEYS, rng.randrange(3))}
        pod = a_pod("p").labelled(**labels).build()
        for _twice in range(2):
            assert names(budgets, pod) == sorted(
                each.metadata.name
                for each in there.values()
                if each.metadata.namespace == "default"
                and (selector := each.spec.selector) is not None
                and (selector.match_labels or selector.match_expressions)
                and Selector(selector).matches(labels)
            )
    assert len(budgets) == len(there)


def test_a_pod_is_not_compared_with_budgets_of_other_apps(monkeypatch: pytest.MonkeyPatch) -> None:
    budgets = disruption_budgets(
        *(a_budget(f"b{n}", {"matchLabels": {"app": f"a{n}"}}) for n in range(2000)),
        *(a_budget(f"c{n}", {"matchLabels": {"app": "a7"}}, 0, f"n{n}") for n in range(100)),
    )
    asked = list[object]()
    real = Selector.matches

    def matches(self: Selector, labels: dict[str, str]) -> bool:
        asked.append(self)
        return real(self, labels)

    monkeypatch.setattr(Selector, "matches", matches)
    assert names(budgets, a_pod("p").labelled(app="a7").build()) == ["b7"]
    assert len(asked) == 1


def test_a_pod_with_more_labels_than_there_are_budgets_is_found_too() -> None:
    budgets = disruption_budgets(a_budget("a", {"matchLabels": {"l7": "x"}}), a_budget("b", EXISTS))
    labels = {f"l{n}": "x" for n in range(50)}
    assert names(budgets, a_pod("p").labelled(labels).build()) == ["a"]
    assert names(budgets, a_pod("q").labelled({**labels, "app": "y"}).build()) == ["a", "b"]


EXISTS = {"matchExpressions": [{"key": "app", "operator": "Exists"}]}
MANY_VALUES = [f"v{n}" for n in range(10_000)]

#: Sentence → budgets of the pod's namespace with which it counts as protected.
TOO_MUCH = {
    "more budgets than are asked": [a_budget(f"b{n}", EXISTS, 9) for n in range(129)],
    "a selector with too many values": [
        a_budget(
            "b",
            {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": MANY_VALUES}]},
            9,
        )
    ],
    "selectors with too many requirements": [
        a_budget(f"b{n}", {"matchExpressions": EXISTS["matchExpressions"] * 50}, 9)
        for n in range(3)
    ],
}


@pytest.mark.parametrize("budgets", TOO_MUCH.values(), ids=TOO_MUCH)
def test_who_would_have_to_be_compared_with_too_much_is_protected(
    budgets: list[PodDisruptionBudget],
) -> None:
    pods = [
        a_pod("p").labelled(app="x").info(),
        a_pod("q").labelled(app="x").in_namespace("other").info(),
        a_pod("r").info(),
    ]
    violating, free = split_by_pdb_violation(pods, disruption_budgets(*budgets))
    assert [pod.pod.metadata.name for pod in violating] == ["p"]
    assert len(free) == 2


def test_as_many_as_are_asked_are_asked() -> None:
    budgets = disruption_budgets(*(a_budget(f"b{n}", EXISTS, 1) for n in range(128)))
    pods = [a_pod(name).labelled(app="x").info() for name in "pq"]
    violating, free = split_by_pdb_violation(pods, budgets)
    assert [[pod.pod.metadata.name for pod in some] for some in (free, violating)] == [["p"], ["q"]]


def test_what_comparing_takes_counts_as_work_and_is_remembered_until_something_changes() -> None:
    budgets = disruption_budgets(*(a_budget(f"b{n}", EXISTS, 1) for n in range(100)))
    pod, asked = a_pod("p").labelled(app="x").build(), EXISTS["matchExpressions"]
    assert len(budgets.covering(pod) or ()) == 100 * len(asked)
    assert budgets.work.spent >= 50
    known_before = budgets.covering(pod)
    assert budgets.covering(pod) is known_before
    budgets.set(a_budget("b0", EXISTS, 5))
    allowed = [each.status.disruptions_allowed for each in budgets.covering(pod) or ()]
    assert sorted(allowed)[-1] == 5
    edited = a_pod("p").labelled(tier="x").build()  # the same pod
    assert budgets.covering(edited) == []


def test_budgets_that_share_labels_are_found_by_those_that_they_do_not_share() -> None:
    """As those of one chart that is installed many times."""

    def labels(n: int) -> dict[str, str]:
        return {"component": "db", "instance": f"i{n}", "name": "postgres"}

    budgets = disruption_budgets(
        *(a_budget(f"b{n}", {"matchLabels": labels(n)}) for n in range(500))
    )
    assert names(budgets, a_pod("p").labelled(labels(7)).build()) == ["b7"]
    assert budgets.work.spent < 10


def test_of_which_namespaces_budgets_have_changed() -> None:
    budgets = disruption_budgets(a_budget("b", EXISTS))
    before = budgets.version
    assert budgets.changed_since(before) == set()
    for name in ("one", "two", "one"):
        budgets.set(a_budget("b", EXISTS, namespace=name))
    budgets.remove(a_budget("b", EXISTS))
    assert budgets.changed_since(before) == {"one", "two", "default"}
    assert budgets.changed_since(budgets.version - 1) == {"default"}
    for n in range(5000):
        budgets.set(a_budget("b", EXISTS, namespace=f"n{n}"))
    assert budgets.changed_since(before) is None
    assert budgets.changed_since(budgets.version - 2) == {"n4998", "n4999"}
