from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from arranger.kube.leader_election import LeaderElection, LeaseConfig
from tests.unit.kube.scripted_transport import (
    HANG,
    RESET,
    After,
    Call,
    ScriptedTransport,
    failure,
    ok,
)

pytestmark = pytest.mark.looptime(noop_cycles=0)


def now() -> float:
    return asyncio.get_running_loop().time()


async def until(condition: Callable[[], bool]) -> None:
    """Look every 10 ms of virtual time: leadership ends by the clock, without an event."""
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0.01)


class LeaseServer:
    """One lease, with optimistic locking."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.version = 0

    def answer(self, call: Call) -> Any:
        if call.method == "GET":
            return ok(self.lease) if self.lease else failure(404, "NotFound")
        if call.method == "POST":
            if self.lease:
                return failure(409, "AlreadyExists")
        elif not self.lease:
            return failure(404, "NotFound")
        elif call.json["metadata"]["resourceVersion"] != str(self.version):
            return failure(409, "Conflict")
        self.version += 1
        self.lease = call.json
        self.lease["metadata"]["resourceVersion"] = str(self.version)
        return ok(self.lease, 201 if call.method == "POST" else 200)

    @property
    def spec(self) -> dict[str, Any]:
        assert self.lease is not None
        spec: dict[str, Any] = self.lease["spec"]
        return spec


class Candidate:
    """One process: its transport, its election, and when it led."""

    def __init__(self, server: LeaseServer, name: str, *, skew: float = 0.0) -> None:
        self.cut_off = False
        self.server = server
        self.transport = ScriptedTransport(otherwise=self._answer)
        self.stretches: list[list[float]] = []
        self.epochs: list[int] = []
        self.election = LeaderElection(
            self.transport,
            LeaseConfig("kube-system", "arranger", name),
            rng=random.Random(name),
            on_started=self._started,
            on_stopped=lambda: self.stretches[-1].append(now()),
            clock=lambda: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=now() + skew),
        )
        self.task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self.task = asyncio.create_task(self.election.run())

    async def stop(self) -> None:
        assert self.task is not None
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    def _answer(self, call: Call) -> Any:
        return HANG if self.cut_off else self.server.answer(call)

    def _started(self, epoch: int) -> None:
        self.stretches.append([now()])
        self.epochs.append(epoch)
        assert self.election.is_leader()


@pytest.fixture
def server() -> LeaseServer:
    return LeaseServer()


async def test_the_first_creates_the_lease_and_keeps_it_alone(server: LeaseServer) -> None:
    one, two = Candidate(server, "one"), Candidate(server, "two")
    one.start()
    await asyncio.sleep(1)
    two.start()
    for _ in range(100):
        await asyncio.sleep(3)
        assert one.election.is_leader()
        assert not two.election.is_leader()
    assert one.epochs == [0]
    assert server.spec["holderIdentity"] == "one"
    assert server.spec["leaseDurationSeconds"] == 15
    assert server.spec["acquireTime"].endswith(".000000Z")
    assert server.spec["renewTime"] > server.spec["acquireTime"]
    await one.stop()
    await two.stop()


async def test_a_dead_leader_is_followed_within_the_lease_and_a_retry(server: LeaseServer) -> None:
    one, two = Candidate(server, "one"), Candidate(server, "two", skew=-3600)
    one.start()
    await asyncio.sleep(1)
    two.start()
    await asyncio.sleep(30)
    await one.stop()
    died = now()
    await until(two.election.is_leader)
    assert 13 - 2 <= now() - died <= 15 + 2 * 2.2 + 2
    assert two.epochs == [1]
    assert server.spec["leaseTransitions"] == 1
    await two.stop()


@pytest.mark.parametrize("skew", [3600.0, -3600.0], ids=["an hour ahead", "an hour behind"])
async def test_clocks_apart_do_not_make_two_leaders(server: LeaseServer, skew: float) -> None:
    one, two = Candidate(server, "one"), Candidate(server, "two", skew=skew)
    one.start()
    await asyncio.sleep(1)
    two.start()
    await asyncio.sleep(600)
    assert one.election.is_leader()
    assert two.stretches == []
    await one.stop()
    await two.stop()


async def test_a_cut_off_leader_stops_at_the_deadline_before_another_starts(
    server: LeaseServer,
) -> None:
    one, two = Candidate(server, "one"), Candidate(server, "two")
    one.start()
    await asyncio.sleep(1)
    two.start()
    await asyncio.sleep(30.05)
    last = max(call.at for call in one.transport.calls)
    one.cut_off = True
    await until(lambda: not one.election.is_leader())
    stopped = now()
    await until(two.election.is_leader)
    # Five seconds, the time-out of a write, lie between the last leader's end and the next one.
    assert stopped - last <= 10.06
    assert now() - stopped >= 4.9
    assert one.stretches[0][1] == pytest.approx(last + 10, abs=0.1)
    await one.stop()
    await two.stop()


async def test_a_renewal_that_hangs_or_fails_thrice_does_not_cost_the_lease(
    server: LeaseServer,
) -> None:
    one = Candidate(server, "one")
    one.start()
    await asyncio.sleep(1)
    for trouble in ([HANG], [RESET, failure(503), failure(429)]):
        one.transport.answers += trouble
        for _ in range(200):
            await asyncio.sleep(0.1)
            assert one.election.is_leader()
    await one.stop()


async def test_a_renewal_answered_late_counts_from_when_it_was_sent(server: LeaseServer) -> None:
    one = Candidate(server, "one")
    one.start()
    await asyncio.sleep(0.1)

    def slow() -> Any:
        return After(4.9, server.answer(one.transport.calls[-1]))

    one.transport.answers.append(slow)
    await asyncio.sleep(2.0)
    sent = one.transport.calls[-1].at
    one.cut_off = True  # for what comes after it
    await asyncio.sleep(4.95)
    assert one.election.is_leader()
    await until(lambda: not one.election.is_leader())
    assert now() - sent <= 10.02
    await one.stop()


async def test_a_stolen_lease_ends_leadership_at_the_next_renewal(server: LeaseServer) -> None:
    one = Candidate(server, "one")
    one.start()
    await asyncio.sleep(5)
    server.spec["holderIdentity"] = "thief"
    server.version += 1
    assert server.lease is not None
    server.lease["metadata"]["resourceVersion"] = str(server.version)
    await asyncio.sleep(2.1)
    assert not one.election.is_leader()
    assert one.task is not None
    assert one.task.done()
    assert one.election.holder == "thief"


async def test_a_conflict_with_ourselves_is_no_loss(server: LeaseServer) -> None:
    one = Candidate(server, "one")
    one.start()
    await asyncio.sleep(5)

    def applied_but_reply_lost() -> Any:
        server.answer(one.transport.calls[-1])
        return RESET

    one.transport.answers.append(applied_but_reply_lost)
    await asyncio.sleep(20)
    assert one.election.is_leader()
    assert len(one.stretches) == 1
    await one.stop()


async def test_a_takeover_whose_reply_was_lost_is_found_to_be_ours(server: LeaseServer) -> None:
    one = Candidate(server, "one")

    def applied_but_reply_lost() -> Any:
        server.answer(one.transport.calls[-1])
        return RESET

    one.transport.answers += [failure(404, "NotFound"), applied_but_reply_lost]
    one.start()
    await asyncio.sleep(6)
    assert one.election.is_leader()
    assert one.epochs == [0]
    await one.stop()


async def test_a_deleted_lease_is_made_anew(server: LeaseServer) -> None:
    one = Candidate(server, "one")
    one.start()
    await asyncio.sleep(5)
    server.lease = None
    await asyncio.sleep(5)
    assert one.election.is_leader()
    assert server.spec["holderIdentity"] == "one"
    await one.stop()


async def test_a_released_lease_is_taken_at_the_next_look(server: LeaseServer) -> None:
    one, two = Candidate(server, "one"), Candidate(server, "two")
    one.start()
    await asyncio.sleep(5)
    two.start()
    await asyncio.sleep(5)
    assert not await one.election.release()  # not while leading
    await one.stop()
    assert await one.election.release()
    assert server.spec["holderIdentity"] == ""
    assert server.spec["leaseDurationSeconds"] == 1
    released = now()
    await until(two.election.is_leader)
    assert now() - released <= 4.6
    assert two.epochs == [1]
    await two.stop()


async def test_a_release_the_server_does_not_answer_is_bounded(server: LeaseServer) -> None:
    one = Candidate(server, "one")
    one.start()
    await asyncio.sleep(5)
    await one.stop()
    one.cut_off = True
    before = now()
    assert not await one.election.release()
    assert now() - before <= 2.0


async def test_two_in_a_race_to_create_make_one_leader(server: LeaseServer) -> None:
    many = [Candidate(server, f"c{n}") for n in range(5)]
    for one in many:
        one.transport.answers.append(failure(404, "NotFound"))
        one.start()
    for _ in range(50):
        await asyncio.sleep(0.5)
        assert sum(one.election.is_leader() for one in many) <= 1
    assert sum(one.election.is_leader() for one in many) == 1
    for one in many:
        await one.stop()


@pytest.fixture
async def stall(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Lets the loop's clock run on while nothing in the loop runs."""
    lost = 0.0
    loop = asyncio.get_running_loop()
    true = loop.time
    monkeypatch.setattr(loop, "time", lambda: true() + lost)

    def skip(seconds: float) -> None:
        nonlocal lost
        lost += seconds

    return skip


async def test_after_a_stall_leadership_is_proved_before_it_is_used(
    server: LeaseServer, stall: Callable[[float], None]
) -> None:
    one = Candidate(server, "one")
    one.start()
    await asyncio.sleep(5)
    one.transport.otherwise = lambda call: After(0.5, server.answer(call))
    stall(4.0)
    assert not one.election.is_leader()
    await asyncio.sleep(0.3)
    assert not one.election.is_leader()
    await asyncio.sleep(1)
    assert one.election.is_leader()
    assert len(one.stretches) == 1
    await one.stop()


async def test_after_a_stall_past_the_deadline_leadership_is_over(
    server: LeaseServer, stall: Callable[[float], None]
) -> None:
    one = Candidate(server, "one")
    one.start()
    await asyncio.sleep(5)
    stall(20.0)
    assert not one.election.is_leader()
    await asyncio.sleep(0.1)
    assert not one.election.is_leader()
    assert one.task is not None
    assert one.task.done()


async def test_another_thread_sees_a_loop_that_stands_still_and_a_deadline_that_is_over(
    server: LeaseServer,
) -> None:
    one = Candidate(server, "one")
    one.start()
    await asyncio.sleep(5)
    leads_at = one.election.leads_at
    assert leads_at(now() + 2)
    assert not leads_at(now() + 4), "the loop stands still"
    one.cut_off = True
    await until(lambda: not leads_at(now() + 2))  # before the loop itself stops leading
    assert one.election.is_leader()
    await one.stop()


async def test_a_short_hiccup_is_no_stall(
    server: LeaseServer, stall: Callable[[float], None]
) -> None:
    one = Candidate(server, "one")
    one.start()
    await asyncio.sleep(5.5)
    stall(2.0)
    assert one.election.is_leader()
    await one.stop()


WRONG_TIMES = {
    "the deadline reaches the lease": {"lease_duration": 10.0},
    "the retry reaches the deadline": {"retry_period": 9.0},
    "no retry": {"retry_period": 0.0},
}


@pytest.mark.parametrize("times", WRONG_TIMES.values(), ids=WRONG_TIMES.keys())
def test_times_that_cannot_work_are_refused(times: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="lease_duration > renew_deadline"):
        LeaseConfig("ns", "name", "me", **times)


async def test_what_is_written_is_what_clients_expect(server: LeaseServer) -> None:
    one = Candidate(server, "one")
    one.start()
    await asyncio.sleep(0.1)
    create = one.transport.calls[-1]
    assert create.path == "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
    body = json.loads(create.body or b"")
    assert body["metadata"]["name"] == "arranger"
    assert (body["kind"], body["apiVersion"]) == ("Lease", "coordination.k8s.io/v1")
    assert body["spec"]["leaseTransitions"] == 0
    await one.stop()
