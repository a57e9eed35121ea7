"""The status of Queues by the controllers as they run, kopf and all; in real time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.queueing import CARD, a_queue_manifest, gpu_node, priority_classes, training
from tests.simulation.gangs.test_controllers import GangControllerHarness, until


def _status(harness: GangControllerHarness) -> dict[str, Any]:
    (queue,) = harness.cluster.objects("queues", "scheduling.volcano.sh")
    return dict(queue.get("status") or {})


def _harness() -> GangControllerHarness:
    harness = GangControllerHarness()
    for manifest in (*priority_classes(), gpu_node().manifest()):
        harness.cluster.create(manifest)
    harness.install("queues.scheduling.volcano.sh")
    harness.cluster.create(a_queue_manifest("training", cards={CARD: 8}))
    manifest = training("t", 2).on("n").manifest()
    del manifest["metadata"]["uid"]
    harness.cluster.create(manifest)
    return harness


async def test_a_queue_shows_its_use_while_pods_come_and_go() -> None:
    harness = _harness()

    def shows(cards: str, running: int) -> Callable[[], bool]:
        def reached() -> bool:
            status = _status(harness)
            return (status.get("usage", {}).get("cards"), status.get("running")) == (cards, running)

        return reached

    async with harness.controllers():
        await until(shows(f"{CARD}: 2/8", 1), lambda: _status(harness))
        harness.delete_pods("t")
        await until(shows(f"{CARD}: 0/8", 0), lambda: _status(harness))
    for write in harness.faults.log:
        assert not write.request.user.startswith("arranger-controllers"), "kopf itself wrote"
    assert all(write.applied for write in harness.faults.log), harness.faults.log


async def test_who_sees_only_some_namespaces_does_not_count_for_queues() -> None:
    harness = _harness()
    harness.install("gangs.arranger.io")
    async with harness.controllers(namespaces=["default"]):
        harness.create_pods("a", labels={"scheduling.x-k8s.io/pod-group": "g"})
        await until(lambda: harness.gang().get("members") == 1, harness.gang)
    assert not _status(harness)
