"""What keeps a replica from the lease, what it says about that, and when it is ready."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from structlog.testing import capture_logs

from arranger.kube.client.problem_log import ProblemLog
from arranger.kube.leader_election import LeaderElection, LeaseConfig
from tests.unit.kube.scripted_transport import (
    HANG,
    REFUSED,
    Call,
    ScriptedTransport,
    failure,
    ok,
)

pytestmark = pytest.mark.looptime(noop_cycles=0)

NO_LEASE = failure(404, "NotFound", 'leases "arranger" not found')
NO_NAMESPACE = failure(404, "NotFound", 'namespaces "ours" not found')
NO_RIGHT = failure(
    403,
    "Forbidden",
    'leases.coordination.k8s.io "arranger" is forbidden: User "u" cannot get resource "leases" in'
    ' API group "coordination.k8s.io" in the namespace "ours"',
)


def a_lease(holder: str, version: int = 1) -> dict[str, Any]:
    return {
        "metadata": {"name": "arranger", "namespace": "ours", "resourceVersion": str(version)},
        "spec": {
            "holderIdentity": holder,
            "leaseDurationSeconds": 15,
            "leaseTransitions": 0,
            "renewTime": f"2026-01-01T00:00:{version:02}.000000Z",
        },
    }


class Server:
    """Answers with what it is told to, and else as a server with a lease would."""

    def __init__(self, trouble: Any = None, holder: str = "") -> None:
        self.trouble = trouble
        self.lease = a_lease(holder) if holder else None

    def answer(self, call: Call) -> Any:
        if isinstance(self.trouble, dict):
            return self.trouble[call.method]
        if self.trouble is not None:
            return self.trouble
        if call.method == "GET":
            return ok(self.lease) if self.lease else NO_LEASE
        self.lease = call.json
        self.lease["metadata"]["resourceVersion"] = "7"
        return ok(self.lease, 201 if call.method == "POST" else 200)


def an_election(server: Server) -> LeaderElection:
    return LeaderElection(
        ScriptedTransport(otherwise=server.answer),
        LeaseConfig("ours", "arranger", "me"),
        rng=random.Random(1),
        problems=ProblemLog("the rights of r.yaml"),
    )


TROUBLES: dict[str, tuple[Any, str, str, str]] = {
    "the namespace is missing": (
        {"GET": NO_LEASE, "POST": NO_NAMESPACE},
        "api.namespace_missing",
        "the namespace of the lease does not exist: ours",
        "`kubectl create namespace ours`",
    ),
    "a right is missing": (
        NO_RIGHT,
        "api.forbidden",
        'forbidden (403): User "u" has no right to: get leases.coordination.k8s.io in ours',
        "the rights of r.yaml",
    ),
    "the credentials are not accepted": (
        failure(401, "Unauthorized", "Unauthorized"),
        "api.unauthorized",
        "the API server does not accept our credentials (401)",
        "kubectl auth whoami",
    ),
    "the server is overloaded": (
        failure(503, "ServiceUnavailable", "busy"),
        "api.failing",
        "the API server answers 503 busy",
        "tried again",
    ),
    "nobody answers": (REFUSED, "api.failing", "connection refused", "tried again"),
    "the server hangs": (HANG, "api.failing", "timed out", "tried again"),
}


@pytest.mark.parametrize("case", TROUBLES.values(), ids=TROUBLES.keys())
async def test_one_line_and_not_ready_until_it_is_mended(case: tuple[Any, str, str, str]) -> None:
    trouble, event, problem, remedy = case
    server = Server(trouble)
    election = an_election(server)
    with capture_logs() as lines:
        run = asyncio.create_task(election.run())
        await asyncio.sleep(60)
        [line] = lines
        assert (line["event"], line["problem"]) == (event, problem)
        assert remedy in line["remedy"]
        assert election.readiness_error() == f"lease ours/arranger: {problem}"
        server.trouble = None
        await asyncio.sleep(30)
    assert [line["event"] for line in lines[1:]] == ["lease.acquired", "api.restored"]
    assert election.readiness_error() is None
    run.cancel()


async def test_not_ready_before_the_lease_was_read() -> None:
    assert an_election(Server()).readiness_error() == "lease ours/arranger: not read yet"


async def test_a_standby_is_ready_and_says_once_whom_it_stands_by() -> None:
    server = Server(holder="one")
    election = an_election(server)
    with capture_logs() as lines:
        run = asyncio.create_task(election.run())
        for version in range(2, 50):
            await asyncio.sleep(5)
            server.lease = a_lease("one" if version < 30 else "two", version)
            assert election.readiness_error() is None
    said = [(line["event"], line["holder"], line["log_level"]) for line in lines]
    assert said == [("lease.standing_by", "one", "info"), ("lease.standing_by", "two", "info")]
    run.cancel()


async def test_a_leader_says_that_it_leads_and_that_it_does_no_more() -> None:
    server = Server()
    election = an_election(server)
    with capture_logs() as lines:
        run = asyncio.create_task(election.run())
        await asyncio.sleep(20)
        server.trouble = REFUSED
        await asyncio.wait({run})
        events = [(line["event"], line["log_level"]) for line in lines]
    assert events == [
        ("lease.acquired", "info"),
        ("api.failing", "warning"),
        ("lease.renewal_late", "warning"),
        ("lease.lost", "warning"),
    ]


async def test_who_stops_in_good_order_says_so() -> None:
    server = Server()
    election = an_election(server)
    with capture_logs() as lines:
        run = asyncio.create_task(election.run())
        await asyncio.sleep(5)
        run.cancel()
        await asyncio.wait({run})
        assert await election.release()
    assert [line["event"] for line in lines] == ["lease.acquired", "lease.released"]
