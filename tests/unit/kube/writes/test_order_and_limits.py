"""In which order writes are sent, how many at once, and how the dispatcher ends."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from arranger.api.effects import (
    Applied,
    Bind,
    DeletePod,
    ObjectKey,
    ObjectReference,
    Outcome,
    PatchPodStatus,
    PublishEvent,
    Refused,
)
from arranger.kube.writes.concurrency_limiter import AimdLimiter
from arranger.kube.writes.dispatcher import ApiDispatcher
from tests.unit.kube.scripted_transport import (
    HANG,
    After,
    Call,
    ScriptedTransport,
    failure,
    ok,
)
from tests.unit.kube.writes.harness import BIND, CONDITION, CREATED, EVENT, pod, writing

pytestmark = pytest.mark.looptime(noop_cycles=0)


async def test_bindings_go_first_events_last_and_others_do_not_starve() -> None:
    transport = ScriptedTransport(otherwise=lambda call: After(1.0, ok()))
    async with writing(transport) as writer:
        for n in range(32):  # these take every slot, so that what follows has to queue
            writer.submit(DeletePod(pod(n)))
        await asyncio.sleep(0.5)
        writer.submit(EVENT)
        for n in range(100, 105):
            writer.submit(PatchPodStatus(pod(n), CONDITION))
        for n in range(200, 221):
            writer.submit(Bind(pod(n), "n1"))
        await asyncio.sleep(10)
    kinds = [call.path.rsplit("/", 1)[-1] for call in transport.calls[32:]]
    bindings = [place for place, kind in enumerate(kinds) if kind == "binding"]
    assert kinds[-1] == "events"
    assert bindings[-1] <= 21 + 21 // 7
    assert "status" in kinds[: bindings[-1]]


async def test_an_event_is_never_waited_for_by_a_binding() -> None:
    def events_hang(call: Call) -> Any:
        return HANG if "events" in call.path else CREATED

    transport = ScriptedTransport(otherwise=events_hang)
    times: list[float] = []
    async with writing(transport) as writer:
        for n in range(100):
            about = ObjectReference("v1", "Pod", "team", f"p{n}", f"uid-{n}")
            writer.submit(PublishEvent(about, "Scheduled", "Binding", "note"))
        await asyncio.sleep(0.1)
        start = asyncio.get_running_loop().time()
        writer.submit(BIND, lambda o: times.append(asyncio.get_running_loop().time() - start))
        await asyncio.sleep(1)
    assert times == [0.0]


async def test_writes_in_flight_are_bounded_and_the_bound_adapts() -> None:
    transport = ScriptedTransport(otherwise=lambda call: After(0.01, CREATED))
    async with writing(transport) as writer:
        for n in range(60):
            writer.submit(Bind(pod(n), "n1"))
        await asyncio.sleep(0.005)
        assert transport.in_flight == 24  # a namespace alone has three quarters of 32
        for n in range(60, 20_000):
            writer.submit(Bind(pod(n), "n1"))
        await asyncio.sleep(10)
        assert (transport.most_in_flight, writer.limit) == (96, 128)
        transport.otherwise = lambda call: failure(429, retry_after="1")
        for n in range(100):
            writer.submit(Bind(pod(n), "n1"))
        await asyncio.sleep(0.9)
        assert writer.limit == 64


def test_failures_of_one_moment_halve_the_limit_once() -> None:
    limit = AimdLimiter()
    for _ in range(30):
        limit.on_congestion(100.0)
    assert limit.value == 16
    for second in range(10):
        limit.on_congestion(102.0 + second)
    assert limit.value == 4


async def test_drain_waits_for_effects_then_events_and_takes_nothing_new() -> None:
    transport = ScriptedTransport(otherwise=lambda call: After(2.0, CREATED))
    outcomes: list[Outcome] = []
    async with writing(transport) as writer:
        writer.submit(BIND, outcomes.append)
        writer.submit(EVENT)
        drained = asyncio.create_task(writer.drain())
        await asyncio.sleep(0)
        late: list[Outcome] = []
        writer.submit(BIND, late.append)
        assert late == [Refused(0, "Stopped")]
        assert await drained
        assert outcomes == [Applied()]
        assert [c.path.rsplit("/", 1)[-1] for c in transport.calls] == ["binding", "events"]


async def test_drain_gives_up_in_time_and_close_refuses_what_was_never_sent() -> None:
    transport = ScriptedTransport(otherwise=lambda call: HANG)
    outcomes: list[Outcome] = []
    async with writing(transport) as writer:
        for n in range(64):
            writer.submit(Bind(pod(n), "n1"), outcomes.append)
        before = asyncio.get_running_loop().time()
        assert not await writer.drain(effects=3.0, events=1.0)
        assert asyncio.get_running_loop().time() - before == pytest.approx(3.0)
        writer.close()
    assert outcomes == [Refused(0, "Stopped")] * 8


async def test_an_error_of_the_caller_is_not_swallowed() -> None:
    def broken(outcome: Outcome) -> None:
        raise ZeroDivisionError

    writer = ApiDispatcher(
        ScriptedTransport(), may_write=lambda: True, host="here", rng=random.Random(1)
    )
    running = asyncio.create_task(writer.run())
    writer.submit(BIND, broken)
    with pytest.raises(ExceptionGroup) as caught:
        await running
    assert caught.group_contains(ZeroDivisionError)


HANGING = ("hangs-0", "hangs-1", "hangs-2", "hangs-3")


def _key(namespace: str, number: int) -> ObjectKey:
    return ObjectKey(namespace, f"p{number}", f"{namespace}-{number}")


@pytest.mark.parametrize("hanging", [HANGING[:1], HANGING], ids=["one", "several"])
async def test_writes_of_namespaces_that_hang_keep_those_of_others_waiting_for_a_moment_only(
    hanging: tuple[str, ...],
) -> None:
    def answer(call: Call) -> Any:
        return HANG if "/hangs-" in call.path else After(0.01, CREATED)

    transport, waits = ScriptedTransport(otherwise=answer), list[float]()
    loop = asyncio.get_running_loop()
    async with writing(transport) as writer:
        for second in range(40):
            for namespace in hanging:
                for n in range(200):
                    writer.submit(Bind(_key(namespace, 1000 * second + n), "n1"))
            for n in range(20):
                began, pod_key = loop.time(), _key(f"other-{n}", second)
                writer.submit(
                    Bind(pod_key, "n1"), lambda _, began=began: waits.append(loop.time() - began)
                )
                await asyncio.sleep(0.05)
    assert len(waits) >= 790
    assert sorted(waits)[len(waits) // 2] <= 0.1
    assert max(waits) <= 1.1


async def test_what_waits_behind_slow_writes_counts_little_for_whether_others_are_decided() -> None:
    transport = ScriptedTransport(otherwise=lambda call: HANG)
    async with writing(transport) as writer:
        for n in range(3000):
            writer.submit(Bind(_key("hangs-0", n), "n1"))
        assert writer.pressure == writer.backlog == 3000
        await asyncio.sleep(1.1)
        writer.submit(Bind(_key("other", 1), "n1"))
        assert writer.backlog == 3001
        assert writer.pressure == 33
