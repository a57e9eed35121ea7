"""A dispatcher of writes at work, and what it is told of each."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from arranger.api.effects import (
    Bind,
    Effect,
    ObjectKey,
    ObjectReference,
    Outcome,
    PodCondition,
    PublishEvent,
)
from arranger.kube.writes.dispatcher import ApiDispatcher
from tests.unit.kube.scripted_transport import (
    Call,
    ScriptedTransport,
    failure,
    ok,
)

POD = ObjectKey("team", "web-0", "uid-1")
BIND = Bind(POD, "n1", {"arranger.io/txn": "7"})
CREATED = ok({"kind": "Status", "status": "Success"}, 201)
CONFLICT = failure(409, "Conflict", "pod web-0 is already assigned")
CONDITION = PodCondition("PodScheduled", "False", "Unschedulable", "0/1 nodes", 3)
EVENT = PublishEvent(
    regarding=ObjectReference("v1", "Pod", "team", "web-0", "uid-1"),
    reason="Scheduled",
    action="Binding",
    note="Successfully assigned team/web-0 to n1",
)


@asynccontextmanager
async def writing(
    transport: ScriptedTransport, may_write: Callable[[], bool] = lambda: True
) -> AsyncIterator[ApiDispatcher]:
    writer = ApiDispatcher(
        transport,
        may_write=may_write,
        host="here",
        rng=random.Random(1),
        clock=lambda: datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    )
    running = asyncio.create_task(writer.run())
    yield writer
    writer.close()
    await running


async def outcomes_of(
    effect: Effect, *answers: Any, wait: float = 200.0
) -> tuple[list[Outcome], list[Call]]:
    transport = ScriptedTransport(*answers)
    outcomes: list[Outcome] = []
    async with writing(transport) as writer:
        writer.submit(effect, outcomes.append)
        await asyncio.sleep(wait)
        assert writer.backlog == 0 or wait < 200
    return outcomes, transport.calls


def pod(number: int) -> ObjectKey:
    return ObjectKey("team", f"p{number}", f"uid-{number}")
