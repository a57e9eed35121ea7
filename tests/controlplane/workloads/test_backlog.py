"""A scheduler that starts, or takes over, with a backlog heeds queues as one that saw it grow."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from arranger.embedded.bundled_crds import bundled_crds
from tests.controlplane.daemon import Daemon, install_rbac, manifests
from tests.controlplane.fixtures import skip_without_binary
from tests.controlplane.harness import ControlPlane, a_node, a_pod, until
from tests.queueing import CARD, GPU, a_queue_manifest

pytestmark = [pytest.mark.controlplane, pytest.mark.xdist_group("controlplane")]

PODS = "/api/v1/namespaces/default/pods"
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
QUEUE_NAME = "scheduling.volcano.sh/queue-name"


@pytest_asyncio.fixture
async def plane() -> AsyncIterator[ControlPlane]:
    """Room for one pod of the two queues, and eight cards."""
    skip_without_binary()
    async with ControlPlane() as running:
        await install_rbac(running)
        await running.apply(bundled_crds())
        await running.apply(manifests("manifests/30-config.yaml"))
        for path in (QUEUES, GROUPS):
            await running.until_served(path)
        small, large = a_node("small", cpu="1"), a_node("large", cpu="8")
        large["metadata"]["labels"][f"{GPU}.product"] = CARD
        large["spec"] = {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}
        for part in ("capacity", "allocatable"):
            large["status"][part] = {**large["status"][part], GPU: "8"}
        await running.post_all("/api/v1/nodes", [small, large])
        await running.apply(
            [
                a_queue_manifest("low", priority=20000),
                a_queue_manifest("high", priority=80000),
                a_queue_manifest("training", cards={CARD: 8}),
            ]
        )
        yield running


async def _backlog(plane: ControlPlane, number: int) -> None:
    """A pod of the lower queue, then one of the higher, and a PodGroup beyond its quota."""
    for queue in ("low", "high"):
        pod = a_pod(f"{queue}-{number}", cpu="900m")
        pod["metadata"]["annotations"] = {QUEUE_NAME: queue}
        await plane.post(PODS, pod)
        await asyncio.sleep(1.1)  # creation times are whole seconds
    group = f"group-{number}"
    request = {"volcano.sh/card.request": f'{{"{CARD}": 9}}'}
    await plane.apply(
        [
            {
                "apiVersion": "scheduling.volcano.sh/v1beta1",
                "kind": "PodGroup",
                "metadata": {"name": group, "namespace": "default", "annotations": request},
                "spec": {"queue": "training", "minMember": 1},
            }
        ]
    )
    pod = a_pod(f"member-{number}")
    pod["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": group}
    pod["spec"]["tolerations"] = [{"key": "gpu", "operator": "Exists"}]
    pod["spec"]["containers"][0]["resources"]["limits"][GPU] = "1"
    await plane.post(PODS, pod)


async def _is_decided_rightly(plane: ControlPlane, number: int) -> None:
    """The higher queue's pod has the room, and the PodGroup is told why it waits."""

    async def decided() -> bool:
        told = [e for e in (await plane.get(EVENTS))["items"] if _is_about(e, f"group-{number}")]
        return bool(told) and bool(await _bound(plane))

    await until(decided, what="the decisions")
    assert await _bound(plane) == [f"high-{number}"]


def _is_about(event: dict[str, Any], group: str) -> bool:
    return event["regarding"]["name"] == group and event["reason"] == "InsufficientScalarQuota"


async def _bound(plane: ControlPlane) -> list[str]:
    pods = (await plane.get(PODS))["items"]
    return [pod["metadata"]["name"] for pod in pods if pod["spec"].get("nodeName")]


async def _clear(plane: ControlPlane) -> None:
    status, answer = await plane.request("DELETE", PODS, {"gracePeriodSeconds": 0})
    assert status == 200, answer


async def test_every_start_with_a_backlog_decides_as_if_it_had_seen_it_grow(
    plane: ControlPlane,
) -> None:
    for number in range(3):
        await _backlog(plane, number)
        scheduler = await Daemon.start(plane, f"daemon-{number}")
        await _is_decided_rightly(plane, number)
        assert await scheduler.stop() == 0, scheduler.log_lines()
        await _clear(plane)


async def test_so_does_a_standby_that_takes_over(plane: ControlPlane) -> None:
    leader = await Daemon.start(plane, "leader")

    async def leads() -> bool:
        return "lease.acquired" in leader.log_lines()

    await until(leads, what="the lease")
    standby = await Daemon.start(plane, "standby")
    leader.process.send_signal(signal.SIGSTOP)
    await _backlog(plane, 0)
    await _is_decided_rightly(plane, 0)
    await leader.kill()
    assert await standby.stop() == 0, standby.log_lines()
