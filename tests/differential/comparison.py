"""One comparison with the oracle: a snapshot evaluated by both, and the differences."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from arranger.explain import Snapshot, SnapshotError, evaluate
from tests.conformance.verdict_diff import differences
from tests.differential.oracle import Oracle, OracleError
from tests.differential.shrinking import shrink


@dataclass(frozen=True)
class Disagreement:
    """The smallest snapshot found on which we and kube-scheduler disagree, with its verdicts."""

    differences: list[str]
    case: dict[str, Any]

    def __str__(self) -> str:
        return "\n".join(
            (*self.differences, "As a file of tests/conformance/cases:", json.dumps(self.case))
        )


def compare_with_oracle(snapshot: dict[str, Any], oracle: Oracle) -> Disagreement | None:
    """Evaluate a snapshot; None if we agree with kube-scheduler.

    Raises:
        OracleError: the oracle cannot evaluate it.
        SnapshotError: we cannot.
    """
    fields = _differing_fields(snapshot, oracle)
    if not fields:
        return None

    def still_differs(smaller: dict[str, Any]) -> bool:
        # Shrinking must not end in another difference than it started from.
        try:
            return not fields.isdisjoint(_differing_fields(smaller, oracle))
        except (OracleError, SnapshotError):
            return False  # so small that it is no longer valid

    smallest = shrink(snapshot, still_differs)
    return Disagreement(
        _disagreements(smallest, oracle),
        {"snapshot": smallest, "verdicts": oracle.evaluate(smallest)},
    )


def _disagreements(snapshot: dict[str, Any], oracle: Oracle) -> list[str]:
    ours = evaluate(Snapshot.parse(snapshot))
    theirs = oracle.evaluate(snapshot)
    pairs = zip(theirs, ours, strict=True)
    return [line for wanted, got in pairs for line in differences(wanted, got)]


def _differing_fields(snapshot: dict[str, Any], oracle: Oracle) -> frozenset[str]:
    return frozenset(line.split(": ")[1] for line in _disagreements(snapshot, oracle))
