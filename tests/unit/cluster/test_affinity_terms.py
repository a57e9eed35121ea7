"""The index of terms finds what a look at each of them would find, or more: not all of too many."""

from __future__ import annotations

import random
from typing import Any

import pytest

from arranger.cluster.affinity_terms import (
    ANYWHERE,
    MAX_COARSE_KEYS,
    MAX_TERMS,
    AffinityIndex,
    TermRows,
    affinity_terms_of,
)
from tests.builders import PodBuilder, a_pod

HOST = "kubernetes.io/hostname"
NAMES = ("a", "b", "c")


def a_selector(rng: random.Random) -> dict[str, Any] | None:
    values = rng.sample(NAMES, rng.randint(1, 3))
    return rng.choice(
        [
            None,
            {},
            {"matchLabels": {rng.choice(NAMES): rng.choice(NAMES)}},
            {"matchExpressions": [{"key": "a", "operator": "In", "values": values}]},
            {"matchExpressions": [{"key": "b", "operator": "NotIn", "values": values}]},
            {"matchExpressions": [{"key": "c", "operator": "Exists"}]},
            {"matchExpressions": [{"key": "c", "operator": "In", "values": ["not a value!"]}]},
            {
                "matchLabels": {"a": rng.choice(NAMES)},
                "matchExpressions": [{"key": "b", "operator": "DoesNotExist"}],
            },
        ]
    )


def a_term(rng: random.Random) -> dict[str, Any]:
    return {
        "topologyKey": rng.choice([HOST, "zone"]),
        "labelSelector": a_selector(rng),
        "namespaces": rng.sample(NAMES, rng.randint(0, 2)),
        "namespaceSelector": a_selector(rng) if rng.random() < 0.3 else None,
    }


def apart_from(*terms: dict[str, Any]) -> PodBuilder:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}
    return a_pod().with_spec(affinity={"podAntiAffinity": required})


def a_stranger(rng: random.Random) -> PodBuilder:
    labels = {key: rng.choice(NAMES) for key in NAMES if rng.random() < 0.6}
    return a_pod("stranger").in_namespace(rng.choice(NAMES)).labelled(labels)


@pytest.mark.parametrize("seed", range(20))
def test_the_index_finds_what_a_look_at_each_term_finds(seed: int) -> None:
    rng = random.Random(seed)
    index = TermRows()
    there: list[tuple[Any, int]] = []
    for _ in range(100):
        if there and rng.random() < 0.4:
            term, row = there.pop(rng.randrange(len(there)))
            index.add(term, row, -1)
        else:
            pod = apart_from(a_term(rng)).in_namespace(rng.choice(NAMES)).build()
            (term,), row = affinity_terms_of(pod).required_anti, rng.randrange(5)
            there.append((term, row))
            index.add(term, row, 1)
        pod = a_stranger(rng).build()
        labels = {key: rng.choice(NAMES) for key in NAMES if rng.random() < 0.5}
        found = {term: dict(rows) for term, rows in index.matching(pod, labels)}
        expected: dict[Any, dict[int, int]] = {}
        for term, row in there:
            if term.matches(pod, labels):
                rows = expected.setdefault(term, {})
                rows[row] = rows.get(row, 0) + 1
        assert found == expected
    for term, row in there:
        index.add(term, row, -1)
    assert index == TermRows()


def of_app(n: int, **more: Any) -> dict[str, Any]:
    return {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": f"a{n}"}}, **more}


TOO_MUCH: dict[str, tuple[list[dict[str, Any]], str]] = {
    "terms": ([of_app(n) for n in range(500)], "more than 64 terms"),
    "terms for all namespaces": (
        [of_app(n, namespaceSelector={}) for n in range(20)],
        "more than 8 terms with a namespace selector",
    ),
    "requirements": (
        [
            {
                "topologyKey": HOST,
                "labelSelector": {"matchLabels": {f"k{n}": "" for n in range(1000)}},
            }
        ],
        "more than 128 requirements",
    ),
    "namespaces": (
        [of_app(0, namespaces=[f"n{n}" for n in range(10_000)])],
        "more than 4096 values and namespaces",
    ),
}


@pytest.mark.parametrize("case", TOO_MUCH.values(), ids=TOO_MUCH)
def test_of_too_many_terms_the_first_are_looked_at(case: tuple[list[dict[str, Any]], str]) -> None:
    terms, why = case
    found = affinity_terms_of(apart_from(*terms).build())
    assert found.too_much == why
    assert len(found.required_anti) <= MAX_TERMS + MAX_COARSE_KEYS
    index = AffinityIndex()
    index.add(found, 0, 1)
    index.add(found, 0, -1)
    assert index == AffinityIndex()


@pytest.mark.parametrize("seed", range(20))
def test_whom_one_of_too_many_terms_keeps_away_is_kept_away(seed: int) -> None:
    rng = random.Random(seed)
    terms = [a_term(rng) for _ in range(MAX_TERMS + rng.randrange(200))]
    if rng.random() < 0.3:
        terms += [of_app(n, topologyKey=f"k{n}") for n in range(2 * MAX_COARSE_KEYS)]
    there = apart_from(*terms).in_namespace(rng.choice(NAMES)).build()
    found = affinity_terms_of(there).required_anti
    assert len(found) <= MAX_TERMS + MAX_COARSE_KEYS
    one_by_one = [
        term
        for each in terms
        for term in affinity_terms_of(
            apart_from(each).in_namespace(there.metadata.namespace).build()
        ).required_anti
    ]
    for _ in range(20):
        pod = a_stranger(rng).build()
        labels = {key: rng.choice(NAMES) for key in NAMES if rng.random() < 0.5}
        near = {term.topology_key for term in found if term.matches(pod, labels)}
        unwelcome = {term.topology_key for term in one_by_one if term.matches(pod, labels)}
        assert unwelcome <= near or ANYWHERE in near
