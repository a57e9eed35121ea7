"""The status of Queues by the controllers as they run, kopf and all; in real time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.queueing import CARD, a_queue_manifest, gpu_node, priority_classes, training
from tests.simulation.gangs.test_controllers import GangControllerHarness, until


def _status(town: GangControllerHarness) -> dict[str, Any]:
    (queue,) = town.cluster.objects("queues", "scheduling.volcano.sh")
    return dict(queue.get("status") or {})


def _town() -> GangControllerHarness:
    town = GangControllerHarness()
    for manifest in (*priority_classes(), gpu_node().manifest()):
        town.cluster.create(manifest)
    town.install("queues.scheduling.volcano.sh")
    town.cluster.create(a_queue_manifest("training", cards={CARD: 8}))
    manifest = training("t", 2).on("n").manifest()
    del manifest["metadata"]["uid"]
    town.cluster.create(manifest)
    return town


async def test_a_queue_shows_its_use_while_pods_come_and_go() -> None:
    town = _town()

    def shows(cards: str, running: int) -> Callable[[], bool]:
        def reached() -> bool:
            status = _status(town)
            return (status.get("usage", {}).get("cards"), status.get("running")) == (cards, running)

        return reached

    async with town.controllers():
        await until(shows(f"{CARD}: 2/8", 1), lambda: _status(town))
        town.delete_pods("t")
        await until(shows(f"{CARD}: 0/8", 0), lambda: _status(town))
    for write in town.taps.log:
        assert not write.call.user.startswith("arranger-controllers"), "kopf itself wrote"
    assert all(write.applied for write in town.taps.log), town.taps.log


async def test_who_sees_only_some_namespaces_does_not_count_for_queues() -> None:
    town = _town()
    town.install("gangs.arranger.io")
    async with town.controllers(namespaces=["default"]):
        town.create_pods("a", labels={"scheduling.x-k8s.io/pod-group": "g"})
        await until(lambda: town.gang().get("members") == 1, town.gang)
    assert not _status(town)
