"""Events of controllers, against the embedded server in virtual time."""

from __future__ import annotations

import asyncio
import random

import pytest

from arranger.api.effects import ObjectReference
from arranger.controllers.runtime.controller import ControllerOptions
from arranger.controllers.runtime.events import EventBroadcaster
from arranger.embedded.server import EmbeddedCluster
from arranger.embedded.transport.in_process import InProcessTransport
from arranger.embedded.virtual_time import virtual_now
from tests.faults.injector import EVENTS, FaultInjector
from tests.faults.kinds import Delay, Reply

pytestmark = pytest.mark.looptime(noop_cycles=0)

QUEUE = ObjectReference("scheduling.volcano.sh/v1beta1", "Queue", "", "q", "uid-q")


async def test_a_failed_event_is_sent_again_though_nothing_else_happens() -> None:
    faults = FaultInjector()
    transport = InProcessTransport(EmbeddedCluster(rng=random.Random(1)), hook=faults)
    events = EventBroadcaster(
        transport, ControllerOptions(rng=random.Random(1), now=virtual_now), "queues"
    )
    rejected = faults.inject(EVENTS, Reply(500, "InternalError"), times=2)
    task = asyncio.create_task(events.run())
    events.record(QUEUE, "InvalidQueue", "there is no queue team", warning=True)
    await asyncio.sleep(1)
    assert not faults.applied(EVENTS)
    await asyncio.sleep(60)
    (sent,) = faults.applied(EVENTS)
    assert len(rejected.matched) == 2
    assert sent.request.json["note"] == "there is no queue team"
    assert sent.request.json["type"] == "Warning"
    assert sent.request.json["reportingInstance"] == "arranger-controllers-queues"
    task.cancel()
    await asyncio.wait({task})


async def test_events_that_a_webhook_holds_up_hold_up_no_others() -> None:
    faults = FaultInjector()
    transport = InProcessTransport(EmbeddedCluster(rng=random.Random(1)), hook=faults)
    events = EventBroadcaster(
        transport, ControllerOptions(rng=random.Random(1), now=virtual_now), "jobs"
    )
    theirs = EVENTS & (lambda request: "/namespaces/kube-public/" in request.path)
    faults.inject(theirs, Delay(10.0))
    task = asyncio.create_task(events.run())
    for n in range(200):
        for namespace in ("kube-public", "default"):
            job = ObjectReference("batch.volcano.sh/v1alpha1", "Job", namespace, f"j{n}", f"u{n}")
            events.record(job, "Invalid", "spec.tasks: there are none", warning=True)
    await asyncio.sleep(5)
    assert len(faults.applied(EVENTS & ~theirs)) == 200
    task.cancel()
    await asyncio.wait({task})
