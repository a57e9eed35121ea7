"""Gangs of real Jobs on the real control plane, with its controller-manager."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Collection
from functools import partial
from typing import Any

import pytest
import pytest_asyncio
import yaml

from arranger.api.quantity import milli_value
from arranger.embedded.bundled_crds import bundled_crds
from tests.controlplane.daemon import REPO, Daemon, install_rbac
from tests.controlplane.fixtures import skip_without_binary
from tests.controlplane.harness import ControlPlane, a_node, until

pytestmark = [pytest.mark.controlplane, pytest.mark.xdist_group("controlplane")]

Object = dict[str, Any]

LABEL = "pod-group.scheduling.sigs.k8s.io"
PODS = "/api/v1/pods"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
POD_GROUPS = "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/default/podgroups"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"

GANGS = [f"gang-{n:02}" for n in range(20)]
SIZE = 50


@pytest_asyncio.fixture
async def plane() -> AsyncIterator[ControlPlane]:
    """A control plane with controllers and our definitions; pods end when tests say so."""
    skip_without_binary()
    async with ControlPlane(controllers=True) as running:
        await install_rbac(running)
        await running.apply(bundled_crds())
        await running.until_served(POD_GROUPS)
        yield running


def _job(gang: str) -> Object:
    container = {
        "name": "worker",
        "image": "pause",
        "resources": {"requests": {"cpu": "100m", "memory": "16Mi"}},
    }
    template = {
        "metadata": {"labels": {LABEL: gang}},
        "spec": {"schedulerName": "arranger", "restartPolicy": "Never", "containers": [container]},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": gang},
        "spec": {"completions": SIZE, "parallelism": SIZE, "template": template},
    }


async def _pods(plane: ControlPlane) -> list[Object]:
    return list((await plane.get(PODS))["items"])


def _bound(pods: list[Object]) -> Counter[str]:
    """Gang → how many of it have a node, ended or not."""
    return Counter(_gang_of(p) for p in pods if "nodeName" in p["spec"])


async def _finish(plane: ControlPlane, gangs: Collection[str] | None = None) -> None:
    """Pods (of these gangs) that have a node end well, as their kubelets would tell."""
    running = [pod for pod in await _pods(plane) if _runs(pod)]
    left = iter([pod for pod in running if gangs is None or _gang_of(pod) in gangs])

    async def work() -> None:
        for pod in left:
            meta = pod["metadata"]
            path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/status"
            await plane.merge(path, {"status": {"phase": "Succeeded"}})

    async with asyncio.TaskGroup() as group:
        for _ in range(16):
            group.create_task(work())


def _runs(pod: Object) -> bool:
    return "nodeName" in pod["spec"] and pod["status"]["phase"] != "Succeeded"


def _gang_of(pod: Object) -> str:
    return str(pod["metadata"].get("labels", {}).get(LABEL, ""))


async def _check(plane: ControlPlane) -> None:
    """At rest: every gang is whole or nothing, and no node has more than it can take."""
    pods = await _pods(plane)
    assert set(_bound(pods).values()) <= {SIZE}, _bound(pods)
    used: Counter[str] = Counter()
    for pod in pods:
        if _runs(pod):
            used[pod["spec"]["nodeName"]] += milli_value("100m")
    assert all(each <= milli_value("5") for each in used.values()), used


async def _until_bound(plane: ControlPlane, least: int, daemon: Daemon) -> None:
    async def reached() -> bool:
        assert daemon.process.returncode is None, daemon.log_lines()
        return _bound(await _pods(plane)).total() >= least

    await until(reached, what=f"{least} Bindings")


async def test_ten_of_twenty_gangs_of_fifty_run_and_the_others_follow_though_it_is_killed_twice(
    plane: ControlPlane,
) -> None:
    await plane.post_all("/api/v1/nodes", [a_node(f"n{n}", cpu="5") for n in range(10)])
    head = {"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "PodGroup"}
    groups = ({**head, "metadata": {"name": g}, "spec": {"minMember": SIZE}} for g in GANGS)
    await plane.post_all(POD_GROUPS, groups)
    first = await Daemon.start(plane, "first")
    await plane.post_all(JOBS, map(_job, GANGS))
    await _until_bound(plane, SIZE + 1, first)
    await first.kill()

    second = await Daemon.start(plane, "second")

    async def ten_run() -> bool:
        assert second.process.returncode is None, second.log_lines()
        pods = await _pods(plane)
        told = [p for p in pods if "nodeName" in p["spec"] or _why(p)["message"].startswith("0/10")]
        return len(pods) == len(told) == 20 * SIZE and _bound(pods).total() == 10 * SIZE

    await until(ten_run, what="ten gangs that run, and ten that know why not")
    await _check(plane)
    await until(partial(_all_know_why, plane), what="an event of every pod that waits")

    begun = sorted(_bound(await _pods(plane)))
    async with asyncio.TaskGroup() as group:
        group.create_task(_finish(plane, begun[:5]))
        await _until_bound(plane, 10 * SIZE + 1, second)
        await second.kill()
    third = await Daemon.start(plane, "third")
    await _until_bound(plane, 15 * SIZE, third)
    await _check(plane)

    async def all_complete() -> bool:
        assert third.process.returncode is None, third.log_lines()
        await _finish(plane)
        jobs = (await plane.get(JOBS))["items"]
        return [_is_complete(job) for job in jobs] == 20 * [True]

    await until(all_complete, what="the end of all Jobs")
    await _check(plane)
    assert await third.stop() == 0, third.log_lines()


async def _all_know_why(plane: ControlPlane) -> bool:
    """Every pod that waits says so of its gang, in its condition and in an event."""
    waiting = [pod for pod in await _pods(plane) if "nodeName" not in pod["spec"]]
    for pod in waiting:
        why = _why(pod)["message"]
        assert "0/10 nodes are available: 10 Insufficient cpu." in why
        assert f"gang default/{_gang_of(pod)}: 50 of 50 arrived, " in why
    events = (await plane.get(EVENTS))["items"]
    notes = {(e["regarding"]["name"], e["reason"]): e["note"] for e in events}
    said = [(_gang_of(p), notes.get((p["metadata"]["name"], "FailedScheduling"))) for p in waiting]
    assert all(f"gang default/{gang}" in note for gang, note in said if note)
    return all(note for _, note in said)


def _why(pod: Object) -> Object:
    """The condition of a pod that waits."""
    conditions = pod["status"].get("conditions") or []
    return next((c for c in conditions if c.get("reason") == "Unschedulable"), {"message": ""})


#: File → how many pods it makes that must start together.
EXAMPLES = {"podgroup.yaml": 4, "bundles.yaml": 4, "gang-group.yaml": 4}


async def test_the_examples_run_whole_and_to_their_end(plane: ControlPlane) -> None:
    assert {file.name for file in (REPO / "examples/gangs").iterdir()} == set(EXAMPLES)
    # Too small for any of the three, though not for the first pod of each.
    await plane.post("/api/v1/nodes", a_node("small", cpu="1200m"))
    daemon = await Daemon.start(plane)
    for file in EXAMPLES:
        await plane.apply(yaml.safe_load_all((REPO / "examples/gangs" / file).read_text()))
    total = sum(EXAMPLES.values())

    async def all_told() -> bool:
        assert daemon.process.returncode is None, daemon.log_lines()
        told = [pod for pod in await _pods(plane) if "0/1 nodes" in _why(pod)["message"]]
        return len(told) == total

    await until(all_told, what="why they wait")
    assert not _bound(await _pods(plane))
    await plane.post("/api/v1/nodes", a_node("large", cpu="8"))
    await _until_bound(plane, total, daemon)

    async def all_complete() -> bool:
        await _finish(plane)
        jobs = (await plane.get("/apis/batch/v1/jobs"))["items"]
        return [_is_complete(job) for job in jobs] == 5 * [True]

    await until(all_complete, what="the end of the examples' Jobs")
    assert await daemon.stop() == 0, daemon.log_lines()


def _is_complete(job: Object) -> bool:
    conditions = job["status"].get("conditions") or []
    return any((c["type"], c["status"]) == ("Complete", "True") for c in conditions)
