"""The edge against a real kube-apiserver: what unit tests can only assume of it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from arranger.api.effects import (
    Applied,
    Bind,
    DeletePod,
    Effect,
    ObjectKey,
    ObjectReference,
    Outcome,
    PatchPodStatus,
    PodCondition,
    PublishEvent,
    Refused,
)
from arranger.api.types.core import Node, Pod
from arranger.api.types.storage import CSINode
from arranger.kube.client.aiohttp_transport import HttpTransport
from arranger.kube.client.connection_pool import ConnectionPool
from arranger.kube.client.credentials import ApiServerConfig
from arranger.kube.client.kubeconfig import load_kubeconfig
from arranger.kube.client.transport import Transport
from arranger.kube.leader_election import LeaderElection, LeaseConfig
from arranger.kube.watch.decoder import Decoder
from arranger.kube.watch.listing import list_collection
from arranger.kube.watch.reflector import Reflector
from arranger.kube.writes.dispatcher import ApiDispatcher
from tests.controlplane.admin import PATIENCE
from tests.controlplane.harness import ControlPlane, a_node, a_pod, until

pytestmark = [
    pytest.mark.controlplane,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.xdist_group("controlplane"),
]

PODS = "/api/v1/namespaces/{}/pods"
CONDITION = PodCondition("PodScheduled", "False", "Unschedulable", "0/1 nodes are available")


class Store:
    """A sink that keeps what it is told."""

    def __init__(self) -> None:
        self.pods: dict[str, Pod] = {}
        self.full_states = 0

    def listing(self) -> None:
        """Nothing is known but what was read."""

    def replaced(self, objects: list[Pod], resource_version: str, undecodable: Any = ()) -> None:
        self.pods = {pod.metadata.name: pod for pod in objects}
        self.full_states += 1

    def applied(self, obj: Pod) -> None:
        self.pods[obj.metadata.name] = obj

    def deleted(self, obj: Pod) -> None:
        del self.pods[obj.metadata.name]


async def namespace_of(plane: ControlPlane, name: str) -> str:
    await plane.post("/api/v1/namespaces", {"metadata": {"name": name}})
    return name


async def ref(plane: ControlPlane, namespace: str, name: str) -> ObjectKey:
    pod = await plane.post(PODS.format(namespace), a_pod(name, namespace=namespace))
    return ObjectKey(namespace, name, pod["metadata"]["uid"])


@asynccontextmanager
async def connected(
    plane: ControlPlane, make: Callable[[ApiServerConfig], Transport] = HttpTransport
) -> AsyncIterator[Transport]:
    """A way in, closed whatever happens: left to the collector, it would fail another test."""
    transport = make(await load_kubeconfig(str(plane.kubeconfig("edge"))))
    try:
        yield transport
    finally:
        await transport.close()


@asynccontextmanager
async def running(work: Coroutine[Any, Any, None]) -> AsyncIterator[asyncio.Task[None]]:
    """Something at work beside the test, ended with it."""
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def edge(
    plane: ControlPlane, make: Callable[[ApiServerConfig], Transport]
) -> AsyncIterator[ApiDispatcher]:
    async with connected(plane, make) as transport:
        writer = ApiDispatcher(transport, may_write=lambda: True, host="edge", rng=random.Random(1))
        async with running(writer.run()) as written:
            yield writer
            await writer.drain()
            writer.close()
            await written


async def outcome_of(writer: ApiDispatcher, effect: Effect) -> Outcome:
    final: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
    writer.submit(effect, final.set_result)
    return await final


@pytest.mark.parametrize("make", [HttpTransport, ConnectionPool], ids=["aiohttp", "raw pool"])
async def test_effects_have_the_outcomes_the_edge_takes_them_to_have(
    control_plane: ControlPlane, make: Callable[[ApiServerConfig], Transport]
) -> None:
    plane = control_plane
    ns = await namespace_of(plane, f"edge-effects-{make.__name__.lower()}")
    async with edge(plane, make) as writer:
        pod = await ref(plane, ns, "web")
        stranger = replace(pod, uid="00000000-0000-0000-0000-000000000000")

        assert isinstance(await outcome_of(writer, PatchPodStatus(stranger, CONDITION)), Refused)
        patch = PatchPodStatus(pod, CONDITION, nominated_node="n1")
        assert await outcome_of(writer, patch) == Applied()
        status = (await plane.get(f"{PODS.format(ns)}/web"))["status"]
        assert status["nominatedNodeName"] == "n1"
        before = status["conditions"][0]["lastTransitionTime"]
        again = PatchPodStatus(pod, replace(CONDITION, message="other"), nominated_node="")
        assert await outcome_of(writer, again) == Applied()
        status = (await plane.get(f"{PODS.format(ns)}/web"))["status"]
        assert "nominatedNodeName" not in status
        assert status["conditions"][0]["message"] == "other"
        assert status["conditions"][0]["lastTransitionTime"] == before

        refused = await outcome_of(writer, Bind(stranger, "n1"))
        assert isinstance(refused, Refused)
        assert refused.reason == "Replaced"
        assert await outcome_of(writer, Bind(pod, "n1", {"arranger.io/txn": "7"})) == Applied()
        assert await outcome_of(writer, Bind(pod, "n1")) == Applied()  # as after a lost reply
        refused = await outcome_of(writer, Bind(pod, "n2"))
        assert isinstance(refused, Refused)
        assert refused.reason == "AlreadyBound"
        bound = await plane.get(f"{PODS.format(ns)}/web")
        assert bound["spec"]["nodeName"] == "n1"
        assert bound["metadata"]["annotations"] == {"arranger.io/txn": "7"}

        assert await outcome_of(writer, DeletePod(stranger)) == Applied()
        assert (await plane.request("GET", f"{PODS.format(ns)}/web"))[0] == 200
        victim = replace(CONDITION, type="DisruptionTarget", status="True")
        assert await outcome_of(writer, DeletePod(pod, victim, grace_seconds=0)) == Applied()
        assert (await plane.request("GET", f"{PODS.format(ns)}/web"))[0] == 404
        gone = await outcome_of(writer, Bind(pod, "n1"))
        assert isinstance(gone, Refused)
        assert gone.status == 404


async def test_events_are_accepted_and_become_series(control_plane: ControlPlane) -> None:
    plane = control_plane
    ns = await namespace_of(plane, "edge-events")
    event = PublishEvent(
        regarding=ObjectReference("v1", "Pod", ns, "web", "uid-1"),
        reason="FailedScheduling",
        action="Scheduling",
        note="0/3 nodes are available: " + "ü" * 2000,
        type="Warning",
        related=ObjectReference("v1", "Node", "", "n1"),
    )
    path = f"/apis/events.k8s.io/v1/namespaces/{ns}/events"
    counts: dict[str, int] = {}

    async def until_counted(*expected: int) -> None:
        async def reached() -> bool:
            counts.clear()
            for each in (await plane.get(path))["items"]:
                assert each["reportingController"] == "arranger"
                counts[each["note"]] = each.get("series", {}).get("count", 1)
            return sorted(counts.values()) == list(expected)

        await until(reached, what=f"events of {expected} occurrences")

    async with edge(plane, ConnectionPool) as writer:
        writer.submit(event)
        await until_counted(1)
        writer.submit(event)
        await until_counted(2)
        # What is said in other words is said in an Event of its own.
        writer.submit(replace(event, note="another"))
        await until_counted(1, 2)
    assert counts.pop("another") == 1
    assert next(iter(counts)).endswith(" ...")


@pytest.mark.parametrize("streaming", [True, False], ids=["WatchList", "paged LIST"])
async def test_a_reflector_follows_a_hundred_bindings(
    control_plane: ControlPlane, streaming: bool
) -> None:
    plane = control_plane
    ns = await namespace_of(plane, f"edge-watch-{streaming}".lower())
    await plane.post("/api/v1/nodes", a_node(f"{ns}-node"))
    pods = [await ref(plane, ns, f"p{n}") for n in range(100)]
    store = Store()
    outcomes: list[Outcome] = []

    async def all_bound() -> bool:
        return all(pod.spec.node_name for pod in store.pods.values())

    async def empty() -> bool:
        return not store.pods

    async with connected(plane) as transport, edge(plane, ConnectionPool) as writer:
        path, rng = PODS.format(ns), random.Random(1)
        reflector = Reflector(transport, path, Decoder(Pod), store, rng=rng)
        reflector._use_watch_list = streaming
        async with running(reflector.run()):
            await asyncio.wait_for(reflector.synced.wait(), PATIENCE)
            assert len(store.pods) == 100
            for pod in pods:
                writer.submit(Bind(pod, f"{ns}-node"), outcomes.append)
            await until(all_bound, what="the bindings")
            await until(lambda: _are(outcomes, 100), what="the outcomes")
            assert outcomes == [Applied()] * 100
            for pod in pods:
                writer.submit(DeletePod(pod, grace_seconds=0))
            await until(empty, what="the deletions")
            assert store.full_states == 1
            assert reflector._use_watch_list is streaming
            assert reflector.last_error == ""


async def _are(outcomes: list[Outcome], count: int) -> bool:
    return len(outcomes) == count


async def test_a_resource_not_served_is_absent(control_plane: ControlPlane) -> None:
    path = "/apis/nobody.example.com/v1/things"
    async with connected(control_plane) as transport:
        reflector = Reflector(transport, path, Decoder(Pod), Store(), rng=random.Random(1))
        async with running(reflector.run()):
            await asyncio.wait_for(reflector.synced.wait(), PATIENCE)
            assert reflector.not_served


async def test_a_lease_is_taken_kept_released_and_taken_over(control_plane: ControlPlane) -> None:
    fast = LeaseConfig("default", "edge", "one", 6.0, 5.0, 0.3)

    async def leads(election: LeaderElection) -> bool:
        return election.is_leader()

    async with connected(control_plane) as transport:
        first = LeaderElection(transport, fast, rng=random.Random(1))
        second = LeaderElection(transport, replace(fast, identity="two"), rng=random.Random(2))
        async with running(first.run()) as leading:
            await until(lambda: leads(first), what="the first leader")
            async with running(second.run()):
                # Longer than a lease that is not renewed would last.
                await asyncio.sleep(7.0)
                assert first.is_leader()
                assert not second.is_leader()
                leading.cancel()
                await asyncio.gather(leading, return_exceptions=True)
                assert await first.release()
                # Sooner than by waiting for the lease to end.
                await until(lambda: leads(second), within=4.0, what="the second leader")
                assert (first.epoch, second.epoch) == (0, 1)


async def test_lists_that_the_server_writes_as_null_are_read_as_empty(
    control_plane: ControlPlane,
) -> None:
    name, nodes, csi_nodes = "edge-nulls", "/api/v1/nodes", "/apis/storage.k8s.io/v1/csinodes"
    await control_plane.post(nodes, a_node(name))
    images = {"images": [{"names": [], "sizeBytes": 5}]}
    await control_plane.merge(f"{nodes}/{name}/status", {"status": images})
    drivers = {name: [], f"{name}-driver": [{"name": "d", "nodeID": "n", "topologyKeys": []}]}
    for each, listed in drivers.items():
        await control_plane.post(
            csi_nodes, {"metadata": {"name": each}, "spec": {"drivers": listed}}
        )
    try:
        said = [(await control_plane.get(f"{csi_nodes}/{each}"))["spec"] for each in drivers]
        assert said[0]["drivers"] is None
        assert said[1]["drivers"][0]["topologyKeys"] is None
        node = await control_plane.get(f"{nodes}/{name}")
        assert node["status"]["images"][0]["names"] is None
        async with connected(control_plane) as transport:
            for path, kind in ((nodes, Node), (csi_nodes, CSINode)):
                listed = await list_collection(transport, path, Decoder[Any](kind))
                assert listed is not None
                assert not listed.undecodable
                assert name in {each.metadata.name for each in listed.objects}
    finally:
        for path in (f"{nodes}/{name}", *(f"{csi_nodes}/{each}" for each in drivers)):
            await control_plane.request("DELETE", path)
