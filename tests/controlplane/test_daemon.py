"""The daemon, with the rights of ``manifests/``, against the real API server."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from arranger.api.quantity import milli_value
from tests.controlplane.daemon import Daemon, install_rbac
from tests.controlplane.fixtures import skip_without_binary
from tests.controlplane.harness import ControlPlane, a_node, a_pod, until

pytestmark = [pytest.mark.controlplane, pytest.mark.xdist_group("controlplane")]

PODS = "/api/v1/namespaces/default/pods"


@pytest_asyncio.fixture
async def plane() -> AsyncIterator[ControlPlane]:
    """A control plane of its own: these tests count every pod of the cluster."""
    skip_without_binary()
    async with ControlPlane() as running:
        await install_rbac(running)
        yield running


async def _pods(plane: ControlPlane) -> list[dict[str, Any]]:
    return list((await plane.get(PODS))["items"])


async def _bound(plane: ControlPlane) -> int:
    return sum("nodeName" in pod["spec"] for pod in await _pods(plane))


async def _assert_nothing_over_capacity(plane: ControlPlane) -> None:
    nodes = (await plane.get("/api/v1/nodes"))["items"]
    used: Counter[str] = Counter()
    for pod in await _pods(plane):
        if node := pod["spec"].get("nodeName"):
            used[node] += milli_value(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"])
    for node in nodes:
        assert used[node["metadata"]["name"]] <= milli_value(node["status"]["allocatable"]["cpu"])


async def test_a_daemon_killed_in_the_middle_goes_on_where_it_was(plane: ControlPlane) -> None:
    await plane.post_all("/api/v1/nodes", [a_node(f"n{n}") for n in range(50)])
    first = await Daemon.start(plane)
    posted = 0

    async def keep_posting() -> None:
        # Pods arrive until it is dead, so that it dies with work in hand, however fast it is.
        nonlocal posted
        while first.process.returncode is None and posted < 500:
            await plane.post(PODS, a_pod(f"p{posted}", cpu="390m"))
            posted += 1

    async def under_way() -> bool:
        assert first.process.returncode is None, first.log_lines()
        return await _bound(plane) > 20

    async with asyncio.TaskGroup() as group:
        group.create_task(keep_posting())
        await until(under_way, what="the first bindings")
        await first.kill()
    await plane.post_all(PODS, [a_pod(f"p{n}", cpu="390m") for n in range(posted, 500)])
    second = await Daemon.start(plane)

    async def all_bound() -> bool:
        assert second.process.returncode is None, second.log_lines()
        return await _bound(plane) == 500

    await until(all_bound, what="all bindings")
    await _assert_nothing_over_capacity(plane)
    assert await second.stop() == 0, second.log_lines()


async def test_the_events_and_conditions_read_as_kube_schedulers(plane: ControlPlane) -> None:
    await plane.post("/api/v1/nodes", a_node("n1", cpu="2"))
    await plane.post(PODS, a_pod("fits"))
    await plane.post(PODS, a_pod("too-big", cpu="3"))
    daemon = await Daemon.start(plane)

    async def both_told() -> bool:
        return {"Scheduled", "FailedScheduling"} <= set((await _events(plane)).keys())

    await until(both_told, what="the events")
    events = await _events(plane)
    assert events["Scheduled"]["note"] == "Successfully assigned default/fits to n1"
    why = "0/1 nodes are available: 1 Insufficient cpu."
    assert events["FailedScheduling"]["note"].startswith(why)
    assert events["FailedScheduling"]["reportingController"] == "arranger"

    async def condition_written() -> bool:
        return bool((await plane.get(f"{PODS}/too-big"))["status"].get("conditions"))

    await until(condition_written, what="the condition")
    (condition,) = (await plane.get(f"{PODS}/too-big"))["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "False")
    assert condition["reason"] == "Unschedulable"
    assert condition["message"].startswith(why)

    assert (await daemon.examined())["placed"] == 1

    await plane.post("/api/v1/nodes", a_node("n2", cpu="4"))

    async def woken() -> bool:
        return (await plane.get(f"{PODS}/too-big"))["spec"].get("nodeName") == "n2"

    await until(woken, what="the binding to the node that came later")
    assert await daemon.stop() == 0, daemon.log_lines()


async def test_of_two_replicas_one_leads_and_the_other_takes_over(plane: ControlPlane) -> None:
    await plane.post("/api/v1/nodes", a_node("n1"))
    replicas = [await Daemon.start(plane, f"replica-{n}") for n in range(2)]

    async def one_leads() -> bool:
        return any("lease.acquired" in replica.log_lines() for replica in replicas)

    await until(one_leads, what="a leader")
    leader, standby = sorted(replicas, key=lambda r: "lease.acquired" not in r.log_lines())
    assert "lease.acquired" not in standby.log_lines()
    await plane.post(PODS, a_pod("before"))
    await until(_is_bound(plane, "before"), what="the leader's binding")
    await leader.kill()
    await plane.post(PODS, a_pod("after"))
    # The lease must end, the next try come, and the standby list the cluster.
    await until(_is_bound(plane, "after"), what="the standby's binding")
    assert await standby.stop() == 0, standby.log_lines()
    lease = "/apis/coordination.k8s.io/v1/namespaces/arranger-system/leases/arranger"
    assert not (await plane.get(lease))["spec"].get("holderIdentity"), "released on shutdown"


def _is_bound(plane: ControlPlane, pod: str):  # type: ignore[no-untyped-def]
    async def bound() -> bool:
        return "nodeName" in (await plane.get(f"{PODS}/{pod}"))["spec"]

    return bound


async def _events(plane: ControlPlane) -> dict[str, dict[str, Any]]:
    path = "/apis/events.k8s.io/v1/namespaces/default/events"
    return {event["reason"]: event for event in (await plane.get(path))["items"]}
