"""Random snapshots, the corpora and the named cases, put to kube-scheduler's own plugins."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance.corpus import FILES, entries
from tests.conformance.test_named_cases import CASES, load
from tests.conformance.verdict_diff import differences
from tests.differential.comparison import compare_with_oracle
from tests.differential.generator import random_snapshot
from tests.differential.oracle import Oracle

pytestmark = pytest.mark.controlplane

SEEDS = range(100)


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    if not Oracle.path().exists():
        pytest.skip("the oracle is not built: run `make oracle` (needs Go)")
    with Oracle() as running:
        yield running


@pytest.mark.parametrize("file", FILES)
def test_oracle_says_what_the_corpus_says(file: str, oracle: Oracle) -> None:
    different = [
        f"line {line}: {difference}"
        for line, entry in entries(file, 0, 1)
        for wanted, got in zip(entry["verdicts"], oracle.evaluate(entry["snapshot"]), strict=True)
        for difference in differences(wanted, got)
    ]
    assert different == []


@pytest.mark.parametrize("name", CASES)
def test_oracle_says_what_the_named_case_says(name: str, oracle: Oracle) -> None:
    case = load(name)
    assert oracle.evaluate(case["snapshot"]) == case["verdicts"]


def test_random_snapshots_are_judged_as_kube_scheduler_does(oracle: Oracle) -> None:
    findings = {seed: compare_with_oracle(random_snapshot(seed), oracle) for seed in SEEDS}
    assert {seed: str(found) for seed, found in findings.items() if found is not None} == {}
