"""Extenders that agree to victims who would not make room, or who may not go."""

from __future__ import annotations

from arranger.api.effects import ExtenderPreemptionDecision, NodeVictims
from tests.builders import a_pod
from tests.unit.engine.extenders.test_extenders import VETO, asking, evicted, full, victims


def test_nobody_is_evicted_when_they_agree_to_too_few() -> None:
    harness = asking(VETO)
    harness.observe(a_pod("top").needs(cpu=4).with_priority(99).on("n1"))
    harness.observe(*(a_pod(f"v{n}").needs(cpu=2).on("n0") for n in range(2)))
    harness.observe(a_pod("high").needs(cpu=4).with_priority(10))
    asked = victims(harness)
    few = NodeVictims(asked.victims["n0"].uids[:1])
    harness.settle(asked, ExtenderPreemptionDecision({"n0": few}))
    assert evicted(harness) == []


def test_nobody_is_evicted_when_they_name_somebody_more_important_as_well() -> None:
    harness = full(VETO)
    harness.observe(a_pod("top").with_priority(99).on("n1"))
    asked = victims(harness)
    named = (*asked.victims["n1"].uids, "uid-default-top")
    harness.settle(asked, ExtenderPreemptionDecision({"n1": NodeVictims(named)}))
    assert evicted(harness) == []
