"""Faults on purpose, and the log of writes: directly in virtual time, and over a real socket."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from arranger.embedded.server import EmbeddedCluster
from arranger.embedded.transport.http import serve
from arranger.embedded.transport.in_process import InProcessTransport
from arranger.kube.client.aiohttp_transport import HttpTransport
from arranger.kube.client.credentials import ApiServerConfig
from arranger.kube.client.transport import (
    RefusedConnectionError,
    Request,
    Transport,
    TransportError,
)
from tests.builders import a_node
from tests.faults.injector import (
    ALL,
    READS,
    WATCHES,
    WRITES,
    ClientRequest,
    FaultInjector,
    for_object,
    for_resource,
    from_user,
)
from tests.faults.kinds import (
    ConcurrentAction,
    Delay,
    DropConnection,
    Reply,
    WatchCut,
    WatchDelay,
    WatchExpiry,
    WatchStall,
)

NODES = "/api/v1/nodes"
WATCH = {"watch": "1"}


class FaultyCluster:
    """A tapped cluster and one client of it."""

    def __init__(self) -> None:
        self.cluster = EmbeddedCluster(rng=random.Random(1))
        self.faults = FaultInjector(rng=random.Random(1))
        self.client: Transport = InProcessTransport(self.cluster, hook=self.faults, user="me")

    async def make(self, name: str, timeout: float = 30.0) -> int:
        body = json.dumps(a_node(name).manifest()).encode()
        return (await self.client.send(Request("POST", NODES, body=body, timeout=timeout))).status

    def nodes(self) -> list[str]:
        return [node["metadata"]["name"] for node in self.cluster.objects("nodes")]

    def taken(self) -> list[tuple[str, int]]:
        return [
            (write.request.json["metadata"]["name"], write.status)
            for write in self.faults.received()
        ]


@pytest.fixture
def site() -> FaultyCluster:
    return FaultyCluster()


@pytest.mark.looptime(noop_cycles=0)
class TestRequests:
    async def test_what_is_refused_or_lost_on_the_way_there_never_happens(
        self, site: FaultyCluster
    ) -> None:
        site.faults.inject(WRITES, DropConnection.REFUSED, times=1)
        with pytest.raises(RefusedConnectionError):
            await site.make("n1")
        site.faults.inject(WRITES, DropConnection.BEFORE, times=1)
        with pytest.raises(TransportError) as caught:
            await site.make("n2")
        assert type(caught.value) is TransportError  # the client cannot know
        assert site.nodes() == []
        assert site.taken() == []

    async def test_what_is_lost_on_the_way_back_has_happened(self, site: FaultyCluster) -> None:
        site.faults.inject(WRITES, DropConnection.AFTER, times=1)
        with pytest.raises(TransportError):
            await site.make("n1")
        assert await site.make("n1") == 409
        assert site.taken() == [("n1", 201), ("n1", 409)]
        assert [write.status for write in site.faults.applied()] == [201]

    async def test_the_server_acts_on_a_late_request_though_the_client_gave_up(
        self, site: FaultyCluster
    ) -> None:
        site.faults.inject(WRITES, Delay(40), times=1)
        with pytest.raises(TransportError, match="in time"):
            await site.make("n1", timeout=5)
        assert asyncio.get_running_loop().time() == 5
        assert site.nodes() == []
        await asyncio.sleep(36)
        assert site.nodes() == ["n1"]
        (write,) = site.faults.log
        assert (write.request.at, write.at, write.request.user) == (0, 40, "me")

    async def test_a_late_request_can_be_lost_too(self, site: FaultyCluster) -> None:
        site.faults.inject(WRITES, Delay(3), times=1)
        site.faults.inject(WRITES, DropConnection.BEFORE, times=1)
        with pytest.raises(TransportError):
            await site.make("n1")
        assert asyncio.get_running_loop().time() == 3
        assert site.nodes() == []

    async def test_a_late_answer_comes_after_the_act(self, site: FaultyCluster) -> None:
        site.faults.inject(WRITES, Delay(3, after=True), times=1)
        making = asyncio.create_task(site.make("n1"))
        await asyncio.sleep(1)
        assert site.nodes() == ["n1"]
        assert await making == 201
        assert asyncio.get_running_loop().time() == 3

    async def test_an_answer_can_come_instead_of_the_act_or_in_spite_of_it(
        self, site: FaultyCluster
    ) -> None:
        site.faults.inject(WRITES, Reply(429, "TooManyRequests", retry_after=7), times=1)
        site.faults.inject(WRITES, Reply(504, "Timeout", after=True), skip=1, times=1)
        answer = await site.client.send(Request("POST", NODES, body=b"{}"))
        assert (answer.status, answer.headers["retry-after"]) == (429, "7")
        assert json.loads(answer.body)["reason"] == "TooManyRequests"
        assert site.taken() == []
        assert await site.make("n1") == 504
        assert site.taken() == [("n1", 201)]

    async def test_something_else_can_happen_meanwhile(self, site: FaultyCluster) -> None:
        def make(name: str) -> Callable[[], object]:
            return lambda: site.cluster.create(a_node(name).manifest())

        site.faults.inject(WRITES & for_resource("nodes"), ConcurrentAction(make("n1")), times=1)
        site.faults.inject(
            WRITES & for_resource("nodes"),
            ConcurrentAction(make("n3"), after=True),
            skip=1,
            times=1,
        )
        assert await site.make("n1") == 409
        assert await site.make("n2") == 201
        assert site.nodes() == ["n1", "n2", "n3"]

    async def test_the_opening_of_a_watch_can_fail(self, site: FaultyCluster) -> None:
        site.faults.inject(WATCHES, Reply(410, "Expired"), times=1)
        async with site.client.stream(Request("GET", NODES, WATCH)) as stream:
            assert stream.status == 410
            assert json.loads(await stream.body())["reason"] == "Expired"
        site.faults.inject(WATCHES, DropConnection.AFTER, times=1)
        with pytest.raises(TransportError):
            async with site.client.stream(Request("GET", NODES, WATCH)):
                pass


WHICH = {
    "the resource of the core group": (for_resource("pods"), "/api/v1/pods", True),
    "the resource of an object": (
        for_resource("pods"),
        "/api/v1/namespaces/a/pods/p/binding",
        True,
    ),
    "the resource of a named group": (for_resource("leases"), "/apis/x.io/v1/leases/l", True),
    "a namespace itself": (for_resource("namespaces"), "/api/v1/namespaces/a", True),
    "an object is not its resource": (for_resource("p"), "/api/v1/namespaces/a/pods/p", False),
    "the object of that name": (for_object("p"), "/api/v1/namespaces/a/pods/p/status", True),
    "no object of part of a name": (for_object("p"), "/api/v1/namespaces/a/pods/p2", False),
    "nothing outside the API": (for_resource("pods"), "/readyz", False),
    "both at once": (for_resource("pods") & for_object("q"), "/api/v1/namespaces/a/pods/p", False),
    "either": (for_resource("pods") | for_object("q"), "/api/v1/namespaces/a/pods/p", True),
    "neither": (~(for_resource("pods") | for_object("q")), "/api/v1/nodes/n", True),
    "the client": (from_user("me") & ~from_user("you"), "/readyz", True),
}


@pytest.mark.looptime(noop_cycles=0)
class TestRules:
    async def test_a_rule_spares_then_strikes_then_is_used_up(self, site: FaultyCluster) -> None:
        rule = site.faults.inject(WRITES, Reply(500), skip=1, times=2)
        assert [await site.make(f"n{n}") for n in range(4)] == [201, 500, 500, 201]
        assert [call.json["metadata"]["name"] for call in rule.matched] == ["n1", "n2"]

    async def test_a_rule_ends_with_its_context_and_all_end_when_cleared(
        self, site: FaultyCluster
    ) -> None:
        with site.faults.inject(ALL, Reply(503)):
            assert await site.make("n1") == 503
        assert await site.make("n1") == 201
        site.faults.inject(ALL, Reply(503))
        site.faults.clear()
        assert await site.make("n2") == 201

    async def test_chance_is_seeded(self, site: FaultyCluster) -> None:
        async def fates() -> list[int]:
            fresh = FaultyCluster()
            fresh.faults.inject(WRITES, Reply(500), probability=0.5)
            return [await fresh.make(f"n{n}") for n in range(20)]

        first = await fates()
        assert first == await fates()
        assert set(first) == {201, 500}

    async def test_without_a_fault_it_only_takes_note(self, site: FaultyCluster) -> None:
        reads = site.faults.inject(READS & for_resource("nodes"))
        assert await site.make("n1") == 201
        await site.client.send(Request("GET", NODES, query={"limit": "5"}))
        assert [call.query for call in reads.matched] == [{"limit": "5"}]

    @pytest.mark.parametrize(
        ("which", "path", "hit"),
        WHICH.values(),
        ids=WHICH.keys(),
    )
    async def test_which_calls(
        self, which: Callable[[ClientRequest], bool], path: str, hit: bool
    ) -> None:
        assert which(ClientRequest(0.0, "GET", path, user="me")) is hit


async def read(lines: AsyncIterator[bytes]) -> list[str]:
    """Names of the nodes seen, or the type of what is no node's event, until the end."""
    seen = []
    async for line in lines:
        event: dict[str, Any] = json.loads(line)
        seen.append(event["object"]["metadata"].get("name") or event["type"])
    return seen


BREAKS = {
    "cut between lines": (WatchCut(), ""),
    "cut within a line, which is lost": (WatchCut(within_line=True), ""),
    "reset": (WatchCut(reset=True), "reset"),
    "silent until the client gives up": (WatchStall(), "too long"),
    "late beyond its patience": (WatchDelay(90), "too long"),
}


@pytest.mark.looptime(noop_cycles=0)
class TestWatches:
    @pytest.mark.parametrize(
        ("fault", "complaint"),
        BREAKS.values(),
        ids=BREAKS.keys(),
    )
    async def test_lines_come_until_the_fault(
        self, site: FaultyCluster, fault: Any, complaint: str
    ) -> None:
        await site.make("n1")
        await site.make("n2")
        site.faults.inject(WATCHES & for_resource("nodes"), fault, skip=1, times=1)
        async with site.client.stream(Request("GET", NODES, WATCH)) as stream:
            lines = stream.frames()
            assert json.loads(await anext(lines))["object"]["metadata"]["name"] == "n1"
            if complaint:
                with pytest.raises(TransportError, match=complaint):
                    await anext(lines)
            else:
                assert await read(lines) == []
        async with site.client.stream(
            Request("GET", NODES, {**WATCH, "timeoutSeconds": "1"})
        ) as stream:
            assert await read(stream.frames()) == ["n1", "n2"]

    async def test_an_expired_watch_says_so(self, site: FaultyCluster) -> None:
        await site.make("n1")
        site.faults.inject(WATCHES, WatchExpiry(), skip=1, times=1)
        await site.make("n2")
        async with site.client.stream(Request("GET", NODES, WATCH)) as stream:
            assert await read(stream.frames()) == ["n1", "ERROR"]

    async def test_a_pause_delays_and_loses_nothing(self, site: FaultyCluster) -> None:
        await site.make("n1")
        await site.make("n2")
        site.faults.inject(WATCHES, WatchDelay(5), skip=1, times=1)
        async with site.client.stream(
            Request("GET", NODES, {**WATCH, "timeoutSeconds": "9"})
        ) as stream:
            assert await read(stream.frames()) == ["n1", "n2"]
        assert asyncio.get_running_loop().time() >= 9


class TestOverHttp:
    @pytest.fixture
    async def served(self, site: FaultyCluster) -> AsyncIterator[FaultyCluster]:
        async with serve(site.cluster, hook=site.faults) as url:
            site.client = HttpTransport(ApiServerConfig(url))
            yield site
            await site.client.close()

    async def test_lost_before_and_after(self, served: FaultyCluster) -> None:
        served.faults.inject(WRITES, DropConnection.BEFORE, times=1)
        served.faults.inject(WRITES, DropConnection.AFTER, skip=1, times=1)
        for name in ("n1", "n2"):
            with pytest.raises(TransportError):
                await served.make(name)
        assert served.nodes() == ["n2"]
        assert served.taken() == [("n2", 201)]
        assert served.faults.log[0].request.user.startswith("arranger/")

    async def test_answers_on_purpose(self, served: FaultyCluster) -> None:
        served.faults.inject(WRITES, Reply(429, "TooManyRequests", retry_after=7), times=1)
        answer = await served.client.send(Request("POST", NODES, body=b"{}"))
        assert (answer.status, answer.headers["retry-after"]) == (429, "7")

    @pytest.mark.parametrize(
        "fault", [WatchCut(), WatchCut(within_line=True), WatchCut(reset=True), WatchExpiry()]
    )
    async def test_watches_break(self, served: FaultyCluster, fault: Any) -> None:
        await served.make("n1")
        await served.make("n2")
        served.faults.inject(WATCHES, fault, skip=1, times=1)
        seen = []
        async with asyncio.timeout(5), served.client.stream(Request("GET", NODES, WATCH)) as stream:
            lines = stream.frames()
            seen.append(json.loads(await anext(lines))["object"]["metadata"]["name"])
            if fault == WatchCut(reset=True):
                with pytest.raises(TransportError):
                    await anext(lines)
            else:
                seen += await read(lines)
        assert seen == (["n1", "ERROR"] if fault == WatchExpiry() else ["n1"])

    async def test_a_stalled_watch_is_found_out(self, served: FaultyCluster) -> None:
        await served.make("n1")
        served.faults.inject(WATCHES, WatchStall(), times=1)
        async with served.client.stream(Request("GET", NODES, WATCH), inactivity=0.1) as stream:
            with pytest.raises(TransportError):
                await anext(stream.frames())
