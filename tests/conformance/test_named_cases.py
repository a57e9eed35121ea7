"""Snapshots on which we once differed from kube-scheduler, with its verdicts.

The name of each file in ``cases`` says what it shows. ``make differential`` prints new ones, and
the control-plane tests evaluate them by the oracle again.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from arranger.explain import Snapshot, evaluate
from tests.conformance.verdict_diff import differences

FOLDER = Path(__file__).parent / "cases"
CASES = sorted(path.stem for path in FOLDER.glob("*.json"))


def load(name: str) -> dict[str, Any]:
    """The snapshot and verdicts of a case."""
    case: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    return case


@pytest.mark.parametrize("name", CASES)
def test_verdicts_equal_kube_schedulers(name: str) -> None:
    case = load(name)
    verdicts = evaluate(Snapshot.parse(case["snapshot"]))
    pairs = zip(case["verdicts"], verdicts, strict=True)
    assert [line for wanted, got in pairs for line in differences(wanted, got)] == []
