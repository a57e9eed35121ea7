"""Calls to extenders for one tenant leave room for those for others."""

from __future__ import annotations

import asyncio
import json
import random
from contextlib import AsyncExitStack
from typing import Any

from arranger.api.effects import Bind, ExtenderDecision, ObjectKey, Outcome, QueryExtenders
from arranger.api.extenders import Extender
from arranger.kube.client.transport import Request, Response
from arranger.kube.extenders.client import ExtenderClient
from arranger.kube.extenders.slots import FairSlots
from tests.builders import a_pod
from tests.unit.kube.extenders.harness import whole_nodes

SHARE = Extender("http://share", filter_verb="filter", bind_verb="bind", node_cache_capable=True)


class Pods:
    """An API server that has every pod there may be."""

    async def send(self, request: Request) -> Response:
        *_, namespace, _, name = request.path.split("/")
        manifest = a_pod(name).in_namespace(namespace).manifest()
        return Response(200, json.dumps(manifest).encode())


class Hangs:
    """An extender that binds nothing, and answers what it is asked."""

    def __init__(self) -> None:
        self.binding = 0

    async def post(self, extender: Extender, verb: str, body: bytes) -> tuple[int, bytes]:
        if verb == "bind":
            self.binding += 1
            await asyncio.Event().wait()
        names = json.loads(body)["NodeNames"]
        return 200, json.dumps({"NodeNames": names}).encode()

    async def close(self) -> None:
        pass


def key(name: str, namespace: str) -> ObjectKey:
    meta = a_pod(name).in_namespace(namespace).manifest()["metadata"]
    return ObjectKey(namespace, name, meta["uid"])


async def test_bindings_of_one_tenant_that_hang_keep_no_questions_of_others_waiting() -> None:
    extender, answered = Hangs(), asyncio.get_running_loop().create_future()
    transport: Any = Pods()
    client = ExtenderClient(
        extender, transport, whole_nodes(), may_write=lambda: True, rng=random.Random(1)
    )

    def ignore(_outcome: Outcome) -> None:
        pass

    try:
        for n in range(100):
            client.submit(Bind(key(f"p{n}", "slow"), "n0", extender=SHARE), ignore)
        client.submit(
            QueryExtenders(key("q", "other"), (SHARE,), ("n0", "n1")), answered.set_result
        )
        outcome = await asyncio.wait_for(answered, 5)
    finally:
        await client.close()
    assert isinstance(outcome, ExtenderDecision)
    assert outcome.nodes == ("n0", "n1")
    assert 1 <= extender.binding < 16


async def test_who_gives_up_waiting_gives_its_place_to_others() -> None:
    slots, begun = FairSlots(4), list[str]()

    async def call(name: str, ends: asyncio.Event) -> None:
        async with slots.one_for("a"):
            begun.append(name)
            await ends.wait()

    never, now = asyncio.Event(), asyncio.Event()
    holders = [asyncio.create_task(call(f"h{n}", now)) for n in range(3)]
    await asyncio.sleep(0)
    waiting = [asyncio.create_task(call(f"w{n}", never)) for n in range(3)]
    await asyncio.sleep(0)
    assert begun == ["h0", "h1", "h2"], "one is left for others"
    waiting[0].cancel()
    holders[0].cancel()
    await asyncio.wait([holders[0], waiting[0]])
    await asyncio.sleep(0)
    assert begun == ["h0", "h1", "h2", "w1"]
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(slots.one_for("b"))
    now.set()
    await asyncio.wait(holders[1:])
    await asyncio.sleep(0)
    assert begun[-1] == "w2"
    for task in waiting[1:]:
        task.cancel()
    await asyncio.wait(waiting[1:])
