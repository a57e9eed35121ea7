"""How many members a gang can do without, counted by bundle and in all."""

from __future__ import annotations

import pytest

from arranger.api.types.pod_groups import VolcanoPodGroup
from tests.builders import a_pod, a_pod_group
from tests.unit.gangs.harness import RegistryHarness

PS, WORKER = "ps", "worker"


def run(known: RegistryHarness, least: int, roles: dict[str, int], **running: int) -> None:
    """A Volcano PodGroup with minimums of its tasks, and members that run."""
    group = a_pod_group("g", least=least, minTaskMember=roles)
    known.registry.on_pod_group_updated(group.build(VolcanoPodGroup))
    for role, count in running.items():
        for n in range(count):
            pod = (
                a_pod(f"{role}-{n}")
                .on("n")
                .annotated({"scheduling.k8s.io/group-name": "g", "volcano.sh/task-spec": role})
            )
            known.see(pod)


@pytest.mark.parametrize(
    ("least", "roles", "running", "evicted", "breaks"),
    [
        pytest.param(3, {}, (1, 3), {WORKER: 1}, False, id="one more than the minimum"),
        pytest.param(3, {}, (1, 3), {PS: 1}, False, id="of any role, where roles have none"),
        pytest.param(3, {}, (1, 3), {PS: 1, WORKER: 1}, True, id="two of one more"),
        pytest.param(3, {PS: 1, WORKER: 2}, (1, 3), {WORKER: 1}, False, id="the role's surplus"),
        pytest.param(3, {PS: 1, WORKER: 2}, (1, 3), {PS: 1}, True, id="a role without surplus"),
        pytest.param(4, {PS: 1, WORKER: 2}, (1, 3), {WORKER: 1}, True, id="the sum counts, too"),
        pytest.param(2, {PS: 1}, (1, 3), {WORKER: 2}, False, id="a role without a minimum"),
        pytest.param(2, {PS: 1}, (1, 3), {WORKER: 3}, True, id="more than that role can spare"),
        pytest.param(3, {PS: 2}, (1, 3), {WORKER: 1}, True, id="one that is below already"),
        pytest.param(3, {PS: 1}, (1, 3), {}, False, id="nobody"),
    ],
)
def test_a_gang_breaks_without(
    least: int,
    roles: dict[str, int],
    running: tuple[int, int],
    evicted: dict[str, int],
    breaks: bool,
    known: RegistryHarness,
) -> None:
    run(known, least, roles, ps=running[0], worker=running[1])
    assert known.gang().breaks_if_evicted(evicted) is breaks
