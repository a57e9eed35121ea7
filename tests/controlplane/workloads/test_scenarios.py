"""What kube-controller-manager does in scenarios is what is recorded of it."""

from __future__ import annotations

import pytest

from tests.controlplane.harness import ControlPlane
from tests.workload_scenarios.play import SCENARIOS, Seen, play_for_real, recorded

pytestmark = [
    pytest.mark.controlplane,
    pytest.mark.xdist_group("controlplane"),
    pytest.mark.asyncio(loop_scope="session"),
]


def _by_rule(seen: Seen) -> Seen:
    """What is seen, without the one reason that kube-controller-manager leaves to chance.

    Of a roll-out whose first pod stays unready, ``NewReplicaSetCreated`` remains if the controller
    first reads its new ReplicaSet with the status written, and is replaced if it does so before.
    """
    return {
        step: [line.replace("NewReplicaSetCreated", "ReplicaSetUpdated") for line in lines]
        for step, lines in seen.items()
    }


async def test_the_record_is_true(control_plane_with_controllers: ControlPlane) -> None:
    seen = await play_for_real(control_plane_with_controllers, SCENARIOS)
    found = {name: _by_rule(steps) for name, steps in recorded().items()}
    # A busy machine can make the controllers look between two writes: once more, one at a time.
    others = {name: SCENARIOS[name] for name in seen if _by_rule(seen[name]) != found[name]}
    again = await play_for_real(
        control_plane_with_controllers, others, at_once=1, prefix="scenario-again"
    )
    for name, steps in again.items():
        assert _by_rule(steps) == found[name], name
