"""The status of queues as it is written, against the embedded server in virtual time."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from arranger.api.types.core import Pod
from arranger.controllers.queue.controller import QueueController
from arranger.controllers.runtime.controller import ControllerOptions
from arranger.controllers.runtime.informers import MultiNamespaceInformer
from arranger.embedded.bundled_crds import bundled_crds
from arranger.embedded.server import EmbeddedCluster
from arranger.embedded.transport.in_process import InProcessTransport
from arranger.kube.client.transport import Request
from tests.builders import NodeBuilder, PodBuilder
from tests.faults.injector import EVENTS, WRITES, FaultInjector
from tests.faults.kinds import ConcurrentAction, DropConnection, Reply
from tests.queueing import CARD, QUEUES, a_queue_manifest, gpu_node, priority_classes, training

pytestmark = pytest.mark.looptime(noop_cycles=0)

CLOSE = {"metadata": {"annotations": {"arranger.io/queue-state": "Closed"}}}
OPEN = {"metadata": {"annotations": {"arranger.io/queue-state": "Open"}}}


class QueueControllerHarness:
    """A cluster and the queue controller, without kopf."""

    def __init__(self) -> None:
        self.cluster = EmbeddedCluster(rng=random.Random(1))
        self.faults = FaultInjector()
        self.definitions = {d["metadata"]["name"]: d for d in bundled_crds()}
        for manifest in (*self.definitions.values(), *priority_classes()):
            self.cluster.create(manifest)
        self.transport = InProcessTransport(self.cluster, hook=self.faults)

    @asynccontextmanager
    async def controller(
        self, definition: dict[str, Any] | None = None
    ) -> AsyncIterator[QueueController]:
        options = ControllerOptions(rng=random.Random(1))
        controller = QueueController(self.transport, options)
        served = definition or self.definitions["queues.scheduling.volcano.sh"]
        controller.on_definition_event(served, False)
        pods = MultiNamespaceInformer(
            self.transport, options, "/api/v1", "pods", Pod, controller.pods
        )
        parts = [*controller.tasks(caches_synced=pods.synced), *pods.tasks()]
        tasks = [asyncio.create_task(part) for part in parts]
        try:
            yield controller
            assert not any(task.done() for task in tasks), "a part has ended"
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    def create(self, *builders: NodeBuilder | PodBuilder) -> None:
        for builder in builders:
            manifest = builder.manifest()
            del manifest["metadata"]["uid"]
            self.cluster.create(manifest)

    def request(self, method: str, path: str, body: dict[str, Any]) -> None:
        encoded = json.dumps(body).encode()
        merge = "application/merge-patch+json" if method == "PATCH" else "application/json"
        answer = self.cluster.handle(Request(method, path, {}, encoded, merge))
        assert answer.status < 300, answer

    def edit(self, change: dict[str, Any], name: str = "training") -> None:
        self.request("PATCH", f"{QUEUES}/{name}", change)

    def end(self, name: str) -> None:
        path = f"/api/v1/namespaces/default/pods/{name}"
        self.request("DELETE", path, {"gracePeriodSeconds": 0})

    def status(self, name: str = "training") -> dict[str, Any]:
        queues = self.cluster.objects("queues", "scheduling.volcano.sh")
        (found,) = (queue for queue in queues if queue["metadata"]["name"] == name)
        return dict(found.get("status") or {})

    def notes(self) -> list[str]:
        return [w.request.json["note"] for w in self.faults.applied(EVENTS)]


@pytest.fixture
def harness() -> QueueControllerHarness:
    harness = QueueControllerHarness()
    harness.cluster.create(a_queue_manifest("training", cards={CARD: 8}))
    return harness


async def test_many_pods_cost_a_write_and_then_nothing_is_written(
    harness: QueueControllerHarness,
) -> None:
    harness.create(gpu_node())
    async with harness.controller():
        await asyncio.sleep(5)
        before = len(harness.faults.applied(WRITES))
        harness.create(*(training(f"t{n}").on("n") for n in range(6)))
        await asyncio.sleep(5)
        assert harness.status()["usage"]["cards"] == f"{CARD}: 6/8"
        assert harness.status()["running"] == 6
        assert len(harness.faults.applied(WRITES)) == before + 1
        harness.edit({"metadata": {"labels": {"new": "label"}}})
        await asyncio.sleep(60)
        assert len(harness.faults.applied(WRITES)) == before + 1
    async with harness.controller():
        await asyncio.sleep(60)
    assert len(harness.faults.applied(WRITES)) == before + 1


async def test_a_card_that_is_used_no_more_is_shown_no_more(
    harness: QueueControllerHarness,
) -> None:
    harness.create(gpu_node(card="H200"), training("t").on("n"))
    async with harness.controller():
        await asyncio.sleep(5)
        assert set(harness.status()["cards"]) == {CARD, "H200"}
        harness.end("t")
        await asyncio.sleep(5)
        assert set(harness.status()["cards"]) == {CARD}
        assert not harness.status()["allocated"]


@pytest.mark.parametrize("number", [0, 1, 2, 3, 4, 5, 99])
@pytest.mark.parametrize("how", [DropConnection.BEFORE, DropConnection.AFTER])
async def test_queues_close_and_open_with_the_one_that_they_are_part_of(
    how: DropConnection, number: int, harness: QueueControllerHarness
) -> None:
    """Also if a controller dies after any write; what was closed by itself stays closed."""
    harness.cluster.create(a_queue_manifest("team"))
    for name in ("a", "b", "shut"):
        harness.cluster.create(a_queue_manifest(name, parent="team"))
    harness.cluster.create(a_queue_manifest("below", parent="a"))
    harness.edit(CLOSE, "shut")
    harness.create(gpu_node(), training("t").in_queue("below").on("n"))

    def states() -> dict[str, str]:
        names = ("team", "a", "b", "below", "shut", "training")
        return {name: harness.status(name).get("state", "") for name in names}

    async def comes_to(change: dict[str, Any], expected: dict[str, str]) -> None:
        harness.edit(change, "team")
        with harness.faults.inject(WRITES, how, skip=number):
            async with harness.controller():
                await asyncio.sleep(5)
        async with harness.controller():
            await asyncio.sleep(30)
            assert states() == expected

    still = {"shut": "Closed", "training": "Open"}
    opened = {**dict.fromkeys(("team", "a", "b", "below"), "Open"), **still}
    async with harness.controller():
        await asyncio.sleep(10)
        assert states() == opened
    closing = {**dict.fromkeys(("team", "a", "below"), "Closing"), "b": "Closed", **still}
    await comes_to(CLOSE, closing)
    await comes_to(OPEN, opened)
    await comes_to(CLOSE, closing)
    harness.end("t")
    async with harness.controller():
        await asyncio.sleep(10)
        assert set(states().values()) == {"Closed", "Open"}
        assert states()["below"] == "Closed"
    await comes_to(OPEN, opened)


async def test_a_queue_closes_when_its_work_has_ended_and_opens_again(
    harness: QueueControllerHarness,
) -> None:
    harness.create(gpu_node(), training("t").on("n"))
    async with harness.controller():
        for change, expected in ((CLOSE, "Closing"), (OPEN, "Open"), (CLOSE, "Closing")):
            harness.edit(change)
            await asyncio.sleep(5)
            assert harness.status()["state"] == expected
        harness.end("t")
        await asyncio.sleep(5)
        assert harness.status()["state"] == "Closed"
        harness.edit(OPEN)
        await asyncio.sleep(5)
        assert harness.status()["state"] == "Open"


async def test_what_is_wrong_is_told_once_and_taken_back_when_it_is_mended(
    harness: QueueControllerHarness,
) -> None:
    async with harness.controller():
        lots = {"annotations": {"volcano.sh/card.quota": "lots"}}
        harness.edit({"metadata": lots, "spec": {"parent": "team"}})
        await asyncio.sleep(60)
        (condition,) = harness.status()["conditions"]
        orphaned = "spec.parent: there is no queue team"
        both = f"volcano.sh/card.quota: 'lots' is not JSON; {orphaned}"
        assert (condition["status"], condition["message"]) == ("False", both)
        # The scheduler tells what it cannot read.
        assert harness.notes() == [orphaned]
        # Another queue mends it in part.
        harness.cluster.create(a_queue_manifest("team"))
        harness.edit({"metadata": {"annotations": {"volcano.sh/card.quota": "{}"}}})
        await asyncio.sleep(5)
        (condition,) = harness.status()["conditions"]
        assert (condition["status"], condition["message"]) == ("True", "")


async def test_an_event_that_failed_is_sent_again_though_nothing_else_changes(
    harness: QueueControllerHarness,
) -> None:
    harness.faults.inject(EVENTS, Reply(500, "InternalError"), times=2)
    async with harness.controller():
        harness.edit({"spec": {"parent": "team"}})
        await asyncio.sleep(5)
        assert harness.status()["conditions"][0]["status"] == "False"
        assert harness.notes() == []
        await asyncio.sleep(60)
        assert harness.notes() == ["spec.parent: there is no queue team"]


FAULTS: dict[str, Any] = {
    "refused connections": DropConnection.REFUSED,
    "lost writes": DropConnection.BEFORE,
    "lost answers": DropConnection.AFTER,
    "a server that is not well": Reply(500, "InternalError"),
    "a server that has too much to do": Reply(429, "TooManyRequests"),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
async def test_in_the_end_all_is_written_in_spite_of(
    fault: Any, harness: QueueControllerHarness
) -> None:
    harness.create(gpu_node(), training("t").on("n"))
    harness.faults.inject(WRITES, fault, times=5)
    async with harness.controller():
        await asyncio.sleep(120)
        assert harness.status()["usage"]["cards"] == f"{CARD}: 1/8"


async def test_somebody_else_writes_at_the_same_time(harness: QueueControllerHarness) -> None:
    theirs = {"status": {"conditions": [{"type": "Theirs", "status": "True"}]}}
    write = ConcurrentAction(lambda: harness.request("PATCH", f"{QUEUES}/training/status", theirs))
    harness.faults.inject(WRITES, write, times=1)
    async with harness.controller():
        await asyncio.sleep(10)
        assert {c["type"] for c in harness.status()["conditions"]} == {"Theirs", "Valid"}


async def test_an_edit_that_only_the_answer_to_a_status_write_shows_is_taken_in(
    harness: QueueControllerHarness,
) -> None:
    """What a watch shows after that is no news any more."""
    harness.create(gpu_node())
    async with harness.controller():
        await asyncio.sleep(5)
        quota = {"metadata": {"annotations": {"volcano.sh/card.quota": json.dumps({CARD: 4})}}}
        edit = ConcurrentAction(lambda: harness.edit(quota))
        harness.faults.inject(WRITES & ~EVENTS, edit, times=1)
        harness.create(training("t", 2).on("n"))
        await asyncio.sleep(5)
    assert harness.status()["usage"]["cards"] == f"{CARD}: 2/4"


async def test_what_is_gone_from_a_status_by_the_answer_to_a_write_is_written_again(
    harness: QueueControllerHarness,
) -> None:
    """Somebody has removed it at the same moment, or the server was restored from a backup."""
    harness.create(gpu_node())
    async with harness.controller():
        await asyncio.sleep(5)
        lost = {"status": {"inqueue": None, "usage": {"memory": None}}}
        gone = ConcurrentAction(lambda: harness.request("PATCH", f"{QUEUES}/training/status", lost))
        harness.faults.inject(WRITES & ~EVENTS, gone, times=1)
        harness.create(training("t", 2).on("n"))
        await asyncio.sleep(5)
    status = harness.status()
    assert (status["running"], status["inqueue"], "memory" in status["usage"]) == (1, 0, True)


async def test_only_fields_that_the_definition_has_are_written(
    harness: QueueControllerHarness,
) -> None:
    definition = json.loads(json.dumps(harness.definitions["queues.scheduling.volcano.sh"]))
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for ours in ("cards", "usage", "conditions"):
        del schema["properties"]["status"]["properties"][ours]
    harness.create(gpu_node(), training("t").on("n"))
    async with harness.controller(definition):
        await asyncio.sleep(10)
        assert harness.status()["running"] == 1
        assert harness.status().keys().isdisjoint({"cards", "usage", "conditions"})


async def test_nothing_is_written_before_the_definition_is_known(
    harness: QueueControllerHarness,
) -> None:
    async with harness.controller() as controller:
        definition = harness.definitions["queues.scheduling.volcano.sh"]
        controller.on_definition_event(definition, True)
        await asyncio.sleep(10)
        assert not harness.faults.applied(WRITES)
        controller.on_definition_event(definition, False)
        await asyncio.sleep(10)
        assert harness.status()["state"] == "Open"
