"""How one of our verdicts differs from kube-scheduler's on the same pod."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Verdict = Mapping[str, Any]

#: Its scores are 0 for pods without claims, and we leave those out.
UNSCORED_PLUGIN = "DynamicResources"


def differences(wanted: Verdict, got: Verdict) -> list[str]:
    """A line for each part of the verdict that is not equal; none if they are the same.

    ``preemption`` is compared where both have it: kube-scheduler's is left out where it chooses at
    random.
    """
    expected = _comparable(wanted, got)
    found = _comparable(got, wanted)
    return [
        f"{wanted['pod']}: {field}: want {expected.get(field)}, got {found.get(field)}"
        for field in sorted(expected.keys() | found.keys())
        if expected.get(field) != found.get(field)
    ]


def scores_told(verdict: Verdict) -> dict[str, dict[str, int]]:
    """The scores by node and plugin, without those that may be left out."""
    return {
        node: {plugin: n for plugin, n in points.items() if plugin != UNSCORED_PLUGIN or n}
        for node, points in verdict["scores"].items()
    }


def _comparable(verdict: Verdict, other: Verdict) -> dict[str, Any]:
    kept = {k: v for k, v in verdict.items() if k != "preemption" or k in other}
    return {**kept, "scores": scores_told(verdict)}
