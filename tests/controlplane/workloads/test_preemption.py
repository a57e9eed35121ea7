"""Preemption on the real API server, ours beside kube-scheduler's: the same writes and words."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest
import pytest_asyncio

from tests.controlplane.daemon import Daemon, install_rbac
from tests.controlplane.fixtures import skip_without_binary
from tests.controlplane.harness import ControlPlane, a_node, a_pod, until

pytestmark = [pytest.mark.controlplane, pytest.mark.xdist_group("controlplane")]

Object = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
AT_ONCE = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}


@pytest_asyncio.fixture
async def plane() -> AsyncIterator[ControlPlane]:
    """One node, and nobody who ends pods but the test."""
    skip_without_binary()
    async with ControlPlane() as running:
        await install_rbac(running)
        await running.post("/api/v1/nodes", a_node("n0", cpu="2"))
        head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
        await running.post(CLASSES, {**head, "metadata": {"name": "high"}, "value": 1000})
        yield running


def _pod(scheduler: str, name: str, cpu: str, *, high: bool) -> Object:
    pod = a_pod(name, scheduler=scheduler, cpu=cpu)
    if high:
        pod["spec"]["priorityClassName"] = "high"
    return pod


def _condition(pod: Object, kind: str) -> Object:
    """The condition without its times."""
    for condition in pod["status"].get("conditions", ()):
        if condition["type"] == kind:
            return {key: condition.get(key) for key in ("status", "reason", "message")}
    return {}


async def _story(plane: ControlPlane, scheduler: str) -> dict[str, Any]:
    """Two pods of high priority want the place of one of low; what is written about it."""

    async def pod(name: str) -> Object:
        return await plane.get(f"{PODS}/{name}")

    async def is_bound(name: str) -> bool:
        return bool((await pod(name))["spec"].get("nodeName"))

    async def is_told(name: str) -> bool:
        return bool(_condition(await pod(name), "PodScheduled"))

    async def is_leaving() -> bool:
        return "deletionTimestamp" in (await pod("low"))["metadata"]

    uids: dict[str, str] = {}

    async def create(name: str, cpu: str, *, high: bool = False) -> None:
        made = await plane.post(PODS, _pod(scheduler, name, cpu, high=high))
        uids[made["metadata"]["uid"]] = name

    await create("low", "2")
    await until(lambda: is_bound("low"), what="the first pod")
    await create("high", "1500m", high=True)
    await until(is_leaving, what="the eviction")
    await create("late", "1500m", high=True)
    for name in ("high", "late"):
        await until(partial(is_told, name), what=f"word to {name}")
    high, late, low = [await pod(name) for name in ("high", "late", "low")]
    told = {
        "nominated": high["status"].get("nominatedNodeName"),
        "not nominated": late["status"].get("nominatedNodeName"),
        "high": _condition(high, "PodScheduled"),
        "late": _condition(late, "PodScheduled"),
        "low": _condition(low, "DisruptionTarget"),
        "grace": low["metadata"]["deletionGracePeriodSeconds"],
    }
    await plane.request("DELETE", f"{PODS}/low", AT_ONCE)
    await until(lambda: is_bound("high"), what="the place of the victim")
    told["afterwards"] = (await pod("high"))["status"].get("nominatedNodeName")
    events: list[Object] = []

    async def all_told() -> bool:
        events[:] = (await plane.get(EVENTS))["items"]
        told_late = any(e["note"] == told["late"]["message"] for e in events)
        return told_late and any(e["reason"] == "Preempted" for e in events)

    await until(all_told, what="the events")
    (preempted,) = [e for e in events if e["reason"] == "Preempted"]
    told["event"] = {
        **{key: preempted[key] for key in ("action", "type", "note")},
        "regarding": [preempted["regarding"]["kind"], preempted["regarding"]["name"]],
    }
    told["failure"] = [
        [e["action"], e["type"], e["note"]]
        for e in events
        if e["reason"] == "FailedScheduling" and e["note"] == told["late"]["message"]
    ]
    for name in ("high", "late"):
        await plane.request("DELETE", f"{PODS}/{name}", AT_ONCE)
    await plane.request("DELETE", EVENTS)
    text = json.dumps(told).replace(scheduler, "<scheduler>")
    for uid, name in uids.items():
        text = text.replace(uid, f"<uid of {name}>")
    return dict(json.loads(text))


async def test_what_is_written_of_an_eviction_is_what_kube_scheduler_writes(
    plane: ControlPlane,
) -> None:
    daemon = await Daemon.start(plane)
    ours = await _story(plane, "arranger")
    assert await daemon.stop() == 0, daemon.log_lines()
    await plane.start_scheduler()
    theirs = await _story(plane, "default-scheduler")
    # The one thing that we leave out: kube-scheduler says of a pod without claims that it has none.
    assert "no new claims to deallocate, " in theirs["late"]["message"]
    told = json.dumps(theirs).replace("no new claims to deallocate, ", "")
    assert ours == json.loads(told)
    assert ours["nominated"] == "n0"
    assert "preemption: 0/1 nodes are available: " in ours["late"]["message"]
