"""What kube-controller-manager does in scenarios is what is recorded of it."""

from __future__ import annotations

import pytest

from tests.controlplane.harness import ControlPlane
from tests.workload_scenarios.play import SCENARIOS, play_for_real, recorded

pytestmark = [
    pytest.mark.controlplane,
    pytest.mark.xdist_group("controlplane"),
    pytest.mark.asyncio(loop_scope="session"),
]


async def test_the_record_is_true(control_plane_with_controllers: ControlPlane) -> None:
    seen = await play_for_real(control_plane_with_controllers, SCENARIOS)
    found = recorded()
    # A busy machine can make the controllers look between two writes: once more, one at a time.
    others = {name: SCENARIOS[name] for name, steps in seen.items() if steps != found[name]}
    again = await play_for_real(
        control_plane_with_controllers, others, at_once=1, prefix="scenario-again"
    )
    for name, steps in again.items():
        assert steps == found[name], name
