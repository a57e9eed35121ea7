"""How one of our verdicts differs from kube-scheduler's on the same pod."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Verdict = Mapping[str, Any]

#: Its scores are all 0, and we leave them out.
UNSCORED_PLUGIN = "DynamicResources"


def differences(wanted: Verdict, got: Verdict) -> list[str]:
    """A line for each part of the verdict that is not equal; none if they are the same.

    ``preemption`` counts where both tell it: kube-scheduler's is left out where it chooses by
    chance.
    """
    expected = _comparable(wanted, got)
    found = _comparable(got, wanted)
    return [
        f"{wanted['pod']}: {field}: want {expected.get(field)}, got {found.get(field)}"
        for field in sorted(expected.keys() | found.keys())
        if expected.get(field) != found.get(field)
    ]


def _comparable(verdict: Verdict, other: Verdict) -> dict[str, Any]:
    scores = {
        node: {plugin: n for plugin, n in points.items() if plugin != UNSCORED_PLUGIN}
        for node, points in verdict["scores"].items()
    }
    kept = {k: v for k, v in verdict.items() if k != "preemption" or k in other}
    return {**kept, "scores": scores}
