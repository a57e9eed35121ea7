"""A plugin for pytest: a mutant is tried on the fastest tests that reach it, for some seconds."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

import pytest

#: What tests for one mutant may take together, by what they took without it.
SECONDS: Final = float(os.environ.get("MUTANT_SECONDS", "5"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the slowest tests, if together they take too long."""
    if "__mutmut_" not in os.environ.get("MUTANT_UNDER_TEST", ""):
        return
    from mutmut.state import state  # type: ignore[import-not-found]  # only there

    names = [item.nodeid for item in items]
    chosen = set(fastest(names, state().duration_by_test, SECONDS))
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in chosen])
    items[:] = [item for item in items if item.nodeid in chosen]


def fastest(names: list[str], durations: Mapping[str, float], seconds: float) -> list[str]:
    """As many tests as fit, but at least one; the fastest first."""
    ordered = sorted(names, key=lambda name: durations.get(name, 0.0))
    chosen, total = ordered[:1], durations.get(ordered[0], 0.0) if ordered else 0.0
    for name in ordered[1:]:
        total += durations.get(name, 0.0)
        if total > seconds:
            break
        chosen.append(name)
    return chosen
