"""``arranger controllers``, with the rights of ``manifests/``, against the real API server."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from tests.controlplane.daemon import Daemon, install_rbac, manifests
from tests.controlplane.fixtures import skip_without_binary
from tests.controlplane.harness import ControlPlane, a_node, a_pod, until

pytestmark = [pytest.mark.controlplane, pytest.mark.xdist_group("controlplane")]

PODS = "/api/v1/namespaces/default/pods"
GANGS = "/apis/arranger.io/v1alpha1/namespaces/default/gangs"
SIGS = "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/default/podgroups"
VOLCANO = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
WHY = "gang default/g: 3/3 members have arrived, 2 placeable"

Object = dict[str, Any]


@pytest_asyncio.fixture
async def plane() -> AsyncIterator[ControlPlane]:
    """A control plane of its own, without our definitions as yet."""
    skip_without_binary()
    async with ControlPlane() as running:
        await install_rbac(running)
        files = ("manifests/60-controllers-rbac.yaml", "manifests/70-controllers.yaml")
        await running.apply(manifests("manifests/30-config.yaml", *files))
        await running.post("/api/v1/nodes", a_node("n1"))
        yield running


async def test_what_people_see_of_a_gang(plane: ControlPlane) -> None:
    controllers = await Daemon.controllers(plane)
    # The definitions come when it runs already.
    await _define(plane, "gangs.arranger.io", "podgroups.scheduling.sigs.k8s.io")
    await plane.post(SIGS, _pod_group("scheduling.sigs.k8s.io/v1alpha1"))
    names = ["a", "b", "c"]
    for name in names:
        await plane.post(PODS, _member(name, {"pod-group.scheduling.sigs.k8s.io": "g"}))
    await _until_row(plane, controllers, GANGS, ["g", 0, 3, "PreScheduling", None])
    await _until_row(plane, controllers, SIGS, ["g", 0, 3, "PreScheduling", None])

    await _tell(plane, names)
    await _until_row(plane, controllers, GANGS, ["g", 0, 3, "Scheduling", "Unschedulable"])
    await _until_row(plane, controllers, SIGS, ["g", 0, 3, "Scheduling", "Unschedulable"])
    assert (await plane.get(f"{GANGS}/g"))["status"]["message"] == WHY

    await _bind(plane, names)
    await _until_row(plane, controllers, GANGS, ["g", 3, 3, "Scheduled", None])
    for name in names:
        await plane.merge(f"{PODS}/{name}/status", {"status": {"phase": "Running"}})
    await _until_row(plane, controllers, GANGS, ["g", 3, 3, "Running", None])
    await _until_row(plane, controllers, SIGS, ["g", 3, 3, "Running", None])

    assert await controllers.stop() == 0, controllers.log_lines()
    for name in names:
        await plane.request("DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": 0})
    again = await Daemon.controllers(plane, "again")

    async def removed() -> bool:
        assert again.process.returncode is None, again.log_lines()
        return not (await plane.get(GANGS))["items"]

    await until(removed, what="the removal of the gang that lost its pods meanwhile")
    (pod_group,) = (await plane.get(SIGS))["items"]
    assert pod_group["status"]["phase"] == "Pending"
    assert "finalizers" not in pod_group["metadata"]
    assert "annotations" not in pod_group["metadata"]
    assert await again.stop() == 0, again.log_lines()
    for daemon in (controllers, again):
        assert "refused" not in daemon.log_lines()
        assert "orbidden" not in daemon.log_lines()


async def test_volcanos_pod_groups(plane: ControlPlane) -> None:
    await _define(plane, "podgroups.scheduling.volcano.sh")
    await plane.post(VOLCANO, _pod_group("scheduling.volcano.sh/v1beta1"))
    names = ["a", "b", "c"]
    for name in names:
        await plane.post(PODS, _member(name, {}, {"scheduling.k8s.io/group-name": "g"}))
    await _tell(plane, names)
    controllers = await Daemon.controllers(plane)
    await _until_row(plane, controllers, VOLCANO, ["g", "Inqueue", 3, 0, "default"])
    await _bind(plane, names)
    await _until_row(plane, controllers, VOLCANO, ["g", "Running", 3, 0, "default"])
    # As its user would stop it, with Ctrl-C.
    controllers.process.send_signal(signal.SIGINT)
    assert await controllers.process.wait() == 0, controllers.log_lines()


async def _define(plane: ControlPlane, *names: str) -> None:
    await plane.apply(manifests(*(f"crds/{name}.yaml" for name in names)))
    for name in names:
        plural, _, group = name.partition(".")
        version = {"scheduling.volcano.sh": "v1beta1"}.get(group, "v1alpha1")
        await plane.until_served(f"/apis/{group}/{version}/{plural}")


def _pod_group(version: str) -> Object:
    head = {"apiVersion": version, "kind": "PodGroup", "metadata": {"name": "g"}}
    return {**head, "spec": {"minMember": 3}}


def _member(name: str, labels: dict[str, str], annotations: dict[str, str] | None = None) -> Object:
    pod = a_pod(name)
    pod["metadata"] |= {"labels": labels, "annotations": annotations or {}}
    return pod


async def _tell(plane: ControlPlane, names: Iterable[str]) -> None:
    """The scheduler's part, when there is no room."""
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": WHY,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    for name in names:
        await plane.merge(f"{PODS}/{name}/status", {"status": {"conditions": [condition]}})


async def _bind(plane: ControlPlane, names: Iterable[str]) -> None:
    """The scheduler's part, when there is."""
    for name in names:
        target = {"apiVersion": "v1", "kind": "Node", "name": "n1"}
        binding = {"apiVersion": "v1", "kind": "Binding", "target": target}
        await plane.post(f"{PODS}/{name}/binding", {**binding, "metadata": {"name": name}})


async def _until_row(
    plane: ControlPlane, controllers: Daemon, path: str, expected: list[object]
) -> None:
    """Until what ``kubectl get`` prints of the only object begins like this."""
    cells: list[object] = []

    async def printed() -> bool:
        assert controllers.process.returncode is None, controllers.log_lines()
        cells[:] = await _row(plane, path)
        return cells[: len(expected)] == expected

    try:
        await until(printed)
    except TimeoutError:
        raise AssertionError(f"{cells} for {expected}\n{controllers.log_lines()}") from None


async def _row(plane: ControlPlane, path: str) -> list[object]:
    session: Callable[..., Any] = aiohttp.ClientSession
    headers = {"Authorization": f"Bearer {plane.token}", "Accept": TABLE}
    async with (
        session(connector=aiohttp.TCPConnector(ssl=plane.ssl_context()), headers=headers) as http,
        http.get(plane.url + path) as answer,
    ):
        rows = (await answer.json())["rows"]
    return list(rows[0]["cells"]) if rows else []
