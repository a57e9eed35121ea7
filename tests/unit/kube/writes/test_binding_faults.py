"""Bindings against a server that loses replies, delays writes, fails, and binds behind our back."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from arranger.api.effects import Ambiguous, Applied, Bind, ObjectKey, Outcome, Refused
from arranger.kube.writes.dispatcher import ApiDispatcher
from tests.unit.kube.scripted_transport import (
    HANG,
    REFUSED,
    RESET,
    After,
    Call,
    ScriptedTransport,
    failure,
    ok,
)

pytestmark = pytest.mark.looptime(noop_cycles=0)

PODS = 120


class BindingServer:
    """BindingREST's rules, with faults around them drawn from a seed."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.uids = {f"p{n}": f"uid-{n}" for n in range(PODS)}
        self.nodes: dict[str, str] = {}
        self.history: list[tuple[str, str]] = []
        self.calm = False

    def answer(self, call: Call) -> Any:
        rng = self.rng
        if self.calm:
            return self.decide(call)
        if rng.random() < 0.05:
            self.disturb()
        fault = rng.random()
        if fault < 0.05:
            return REFUSED
        if fault < 0.10:
            return failure(429, "TooManyRequests", retry_after="1")
        if fault < 0.15:
            return rng.choice([HANG, RESET, failure(500), failure(503)])
        if fault < 0.25:
            # Done, and the reply lost.
            self.decide(call)
            return rng.choice([HANG, RESET, failure(500), failure(504)])
        if fault < 0.35:
            # The client gives up, and the server acts only then.
            asyncio.get_running_loop().call_later(rng.uniform(1, 20), self.decide, call)
            return rng.choice([HANG, RESET])
        return After(rng.uniform(0.01, 4.0), self.decide(call))

    def decide(self, call: Call) -> Any:
        name = call.path.split("/")[6]
        uid = self.uids.get(name)
        if uid is None:
            return failure(404, "NotFound")
        if call.method == "GET":
            return ok({"metadata": {"uid": uid}, "spec": {"nodeName": self.nodes.get(uid, "")}})
        if call.json["metadata"]["uid"] != uid or uid in self.nodes:
            return failure(409, "Conflict")
        self.bind(uid, call.json["target"]["name"])
        return ok({"status": "Success"}, 201)

    def bind(self, uid: str, node: str) -> None:
        self.nodes[uid] = node
        self.history.append((uid, node))

    def disturb(self) -> None:
        """A pod is deleted, replaced, or bound by somebody else."""
        name = self.rng.choice(sorted(self.uids))
        kind = self.rng.randrange(3)
        if kind == 0:
            del self.uids[name]
        elif kind == 1:
            self.uids[name] += "'"
        elif self.uids[name] not in self.nodes:
            self.bind(self.uids[name], "foreign")


@pytest.mark.parametrize("seed", range(12))
async def test_the_final_outcome_is_always_the_truth(seed: int) -> None:
    rng = random.Random(seed)
    server = BindingServer(rng)
    transport = ScriptedTransport(otherwise=server.answer)
    writer = ApiDispatcher(transport, may_write=lambda: True, host="here", rng=rng)
    running = asyncio.create_task(writer.run())
    outcomes: dict[str, list[Outcome]] = {uid: [] for uid in server.uids.values()}
    for name, uid in list(server.uids.items()):
        effect = Bind(ObjectKey("team", name, uid), f"node-{uid}")
        writer.submit(effect, outcomes[uid].append)
    await asyncio.sleep(120)
    server.calm = True
    await asyncio.sleep(120)
    assert writer.backlog == 0
    writer.close()
    await running

    assert len({uid for uid, _ in server.history}) == len(server.history), "bound twice"
    doubts = 0
    for uid, told in outcomes.items():
        *before, final = told
        assert len(before) <= 1
        assert all(isinstance(outcome, Ambiguous) for outcome in before)
        doubts += len(before)
        bound_by_us = (uid, f"node-{uid}") in server.history
        if isinstance(final, Applied):
            assert bound_by_us
        else:
            assert isinstance(final, Refused)
            # Only a pod that is gone may have been bound before we were told so.
            assert not bound_by_us or uid not in server.uids.values()
    assert doubts > 10, "the faults did not bite"
