"""The whole scheduler against the embedded API server, in virtual time."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from arranger.api.quantity import milli
from arranger.daemon.config import Config, LeaderElectionConfig
from arranger.daemon.scheduler import Scheduler
from arranger.embedded.direct import DirectTransport
from arranger.embedded.server import EmbeddedCluster
from arranger.kube.transport import Response, TransportError
from tests.builders import a_node, a_pod

pytestmark = pytest.mark.looptime

Object = dict[str, Any]
CONFIG = Config(leader_election=LeaderElectionConfig(resource_namespace="kube-system"))


class LossyTransport(DirectTransport):
    """Loses the answers to some bindings, before or after the server has acted."""

    def __init__(self, cluster: EmbeddedCluster, rng: random.Random) -> None:
        super().__init__(cluster)
        self._rng = rng
        self.lost = 0

    async def request(self, method: str, path: str, **more: Any) -> Response:
        fate = self._rng.random() if path.endswith("/binding") else 1.0
        if fate < 0.1:
            self.lost += 1
            raise TransportError("lost on the way there")
        answer = await super().request(method, path, **more)
        if fate < 0.3:
            self.lost += 1
            raise TransportError("lost on the way back")
        return answer


@asynccontextmanager
async def running(
    cluster: EmbeddedCluster, transport: DirectTransport | None = None, *, name: str = "one"
) -> AsyncIterator[Scheduler]:
    """A scheduler at work; the core is checked when it has stopped."""
    transport = transport or DirectTransport(cluster)
    scheduler = Scheduler(transport, CONFIG, identity=name, rng=random.Random(1))
    task = asyncio.create_task(scheduler.run())
    try:
        yield scheduler
        scheduler.stop()
        await task
        scheduler.engine.check_consistent()
    finally:
        task.cancel()
        await asyncio.wait({task})


async def until(reached: Callable[[], bool], *, within: float = 60.0) -> None:
    """Let virtual time pass until something holds."""
    async with asyncio.timeout(within):
        while not reached():  # noqa: ASYNC110 — polling costs nothing in virtual time
            await asyncio.sleep(0.1)


def create(cluster: EmbeddedCluster, *manifests: Mapping[str, Any]) -> None:
    for manifest in manifests:
        made = dict(manifest)
        made["metadata"] = {k: v for k, v in made["metadata"].items() if k != "uid"}
        cluster.create(made)


def pods(cluster: EmbeddedCluster) -> dict[str, Object]:
    return {pod["metadata"]["name"]: pod for pod in cluster.objects("pods")}


def bound(cluster: EmbeddedCluster) -> int:
    return sum("nodeName" in pod["spec"] for pod in cluster.objects("pods"))


def assert_nothing_over_capacity(cluster: EmbeddedCluster) -> None:
    used: Counter[str] = Counter()
    for pod in cluster.objects("pods"):
        if node := pod["spec"].get("nodeName"):
            used[node] += milli(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"])
    for node in cluster.objects("nodes"):
        assert used[node["metadata"]["name"]] <= milli(node["status"]["allocatable"]["cpu"])


def times_bound(cluster: EmbeddedCluster) -> Counter[str]:
    """How often each pod went from no node to a node, by the server's own history."""
    times: Counter[str] = Counter()
    for change in cluster.store.since(0):
        if change.resource == "/pods" and change.before is not None:
            was, now = change.before["spec"].get("nodeName"), change.after["spec"].get("nodeName")
            times[change.after["metadata"]["uid"]] += was != now
    return times


@pytest.mark.parametrize("seed", range(5))
async def test_no_pod_is_lost_or_bound_twice_when_answers_get_lost(seed: int) -> None:
    cluster = EmbeddedCluster(rng=random.Random(seed))
    create(cluster, *(a_node(f"n{n}").offers(cpu=4).manifest() for n in range(6)))
    create(
        cluster,
        *(a_pod(f"p{n}").for_scheduler("arranger").needs(cpu=1).manifest() for n in range(24)),
    )
    transport = LossyTransport(cluster, random.Random(seed))
    async with running(cluster, transport) as scheduler:
        await until(lambda: bound(cluster) == 24, within=600)
        await until(lambda: not scheduler.engine.entities(), within=600)
    assert transport.lost
    assert set(times_bound(cluster).values()) == {1}
    assert_nothing_over_capacity(cluster)


async def test_a_pod_without_room_is_told_why_and_woken_by_a_deletion() -> None:
    cluster = EmbeddedCluster(rng=random.Random(1))
    create(cluster, a_node("n1").offers(cpu=1).manifest())
    create(cluster, a_pod("first").for_scheduler("arranger").needs(cpu=1).manifest())
    async with running(cluster):
        await until(lambda: bound(cluster) == 1)
        create(cluster, a_pod("second").for_scheduler("arranger").needs(cpu=1).manifest())
        await until(lambda: bool(pods(cluster)["second"]["status"].get("conditions")))
        (condition,) = pods(cluster)["second"]["status"]["conditions"]
        assert condition["message"] == "0/1 nodes are available: 1 Insufficient cpu."
        transport = DirectTransport(cluster)
        path = "/api/v1/namespaces/default/pods/first"
        await transport.request("DELETE", path, body=b'{"gracePeriodSeconds":0}')
        await until(lambda: pods(cluster)["second"]["spec"].get("nodeName") == "n1")


async def test_a_gated_pod_is_scheduled_once_its_gate_is_gone() -> None:
    cluster = EmbeddedCluster(rng=random.Random(1))
    create(cluster, a_node("n1").manifest())
    create(cluster, a_pod("p").for_scheduler("arranger").gated("wait").manifest())
    async with running(cluster):
        await asyncio.sleep(30)
        assert bound(cluster) == 0
        await DirectTransport(cluster).request(
            "PATCH",
            "/api/v1/namespaces/default/pods/p",
            body=b'{"spec":{"schedulingGates":null}}',
            content_type="application/merge-patch+json",
        )
        await until(lambda: bound(cluster) == 1, within=5)


async def test_a_standby_takes_over_within_the_lease_time() -> None:
    cluster = EmbeddedCluster(rng=random.Random(1))
    create(cluster, a_node("n1").manifest())
    leader = Scheduler(DirectTransport(cluster), CONFIG, identity="a", rng=random.Random(1))
    first = asyncio.create_task(leader.run())
    await until(leader.may_write)
    async with running(cluster, name="b") as standby:
        await asyncio.sleep(20)
        assert not standby.may_write()
        first.cancel()  # killed: it releases nothing
        await asyncio.wait({first})
        create(cluster, a_pod("p").for_scheduler("arranger").manifest())
        await until(lambda: bound(cluster) == 1, within=20)
        assert standby.may_write()


async def test_memory_is_given_back_when_everything_is_gone() -> None:
    cluster = EmbeddedCluster(rng=random.Random(1))
    create(cluster, *(a_node(f"n{n}").manifest() for n in range(3)))
    create(cluster, *(a_pod(f"p{n}").for_scheduler("arranger").manifest() for n in range(20)))
    transport = DirectTransport(cluster)
    async with running(cluster) as scheduler:
        await until(lambda: bound(cluster) == 20)
        for name in pods(cluster):
            path = f"/api/v1/namespaces/default/pods/{name}"
            await transport.request("DELETE", path, body=b'{"gracePeriodSeconds":0}')
        await transport.request("DELETE", "/api/v1/nodes")
        await until(lambda: not scheduler.engine.cluster.table.count)
        assert not len(scheduler.engine.cluster)
        assert not scheduler.engine.entities()
        assert not len(scheduler.engine.queue)
