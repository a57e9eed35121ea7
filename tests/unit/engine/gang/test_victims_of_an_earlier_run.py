"""What an earlier run of ours has evicted is waited for, and not for ever."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from arranger.api.effects import DeletePod
from arranger.engine.gang.preemption.executor import LATE_VICTIMS
from arranger.plugins import default_profile
from tests.builders import PodBuilder, a_node, a_pod
from tests.unit.engine.harness import EngineHarness, of_kind

START = 1_000_000.0


def leaving(ends: float) -> PodBuilder:
    """A pod on a node of its own that has to be gone then, in seconds since the start."""
    moment = datetime.fromtimestamp(START + ends, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    target = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    pod = a_pod("stuck").in_namespace("other").needs(cpu=1).on("dead")
    return pod.with_status(phase="Running", conditions=[target]).deleting(moment)


@pytest.mark.parametrize(
    ("ends", "evicts_at"),
    [(30.0, 30.0 + LATE_VICTIMS), (-30.0, LATE_VICTIMS - 30.0), (-LATE_VICTIMS, 0.0)],
)
def test_a_gang_waits_for_one_that_does_not_go_for_a_minute(ends: float, evicts_at: float) -> None:
    harness = EngineHarness(default_profile(), unix_start=START, max_grace_period=3600)
    harness.observe(a_node("dead").offers(cpu=1), leaving(ends))
    harness.observe(a_node("n0").offers(cpu=4), a_pod("low").needs(cpu=4).on("n0"))
    harness.start()
    pods = [a_pod(f"big-{n}").needs(cpu=2).in_gang("big", 2).with_priority(5) for n in range(2)]
    harness.observe(*pods)
    effects = harness.run()
    while harness.now < 200 and not of_kind(DeletePod, effects):
        effects = harness.advance_to(harness.now + 1)
    assert [effect.pod.name for effect in of_kind(DeletePod, effects)] == ["low"]
    assert evicts_at <= harness.now <= evicts_at + 1
