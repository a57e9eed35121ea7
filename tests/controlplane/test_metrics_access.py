"""Who may see the metrics, as the real API server says."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from tests.controlplane.accounts import RBAC, account, bind
from tests.controlplane.daemon import Daemon, install_rbac, manifests
from tests.controlplane.fixtures import skip_without_binary
from tests.controlplane.harness import ControlPlane, until

pytestmark = [pytest.mark.controlplane, pytest.mark.xdist_group("controlplane")]

#: As a Prometheus is let in: docs/guide/operations.md.
READER: dict[str, Any] = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "metrics-reader"},
    "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}],
}
COMMANDS = {"run": "manifests/20-rbac.yaml", "controllers": "manifests/60-controllers-rbac.yaml"}


@pytest_asyncio.fixture
async def plane() -> AsyncIterator[ControlPlane]:
    """A control plane of its own, with nothing of ours in it."""
    skip_without_binary()
    async with ControlPlane() as running:
        yield running


async def grant(plane: ControlPlane, name: str) -> None:
    await plane.post(f"{RBAC}/clusterroles", READER)
    await bind(plane, name, READER["metadata"]["name"])


async def status(port: int, path: str, token: str = "") -> tuple[int, str]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    url = f"https://127.0.0.1:{port}{path}"
    async with (
        aiohttp.ClientSession() as session,
        session.get(url, ssl=False, headers=headers) as answer,
    ):
        return answer.status, await answer.text()


async def start(plane: ControlPlane, command: str, port: int) -> Daemon:
    """The process with the rights of the manifests and no others."""
    name = "arranger" if command == "run" else "arranger-controllers"
    await install_rbac(plane)
    for manifest in manifests(COMMANDS[command]):
        code, answer = await plane.request("POST", await plane.collection(manifest), manifest)
        assert code in (201, 409), answer
    token = await plane.service_account_token("arranger-system", name)
    kubeconfig = plane.kubeconfig(f"{name}-metrics", token)
    options = [
        f"--kubeconfig={kubeconfig}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        "--authorization-webhook-cache-unauthorized-ttl=1s",
    ]
    daemon = await Daemon.launch(plane, f"{name}-metrics", command, *options)

    async def alive() -> bool:
        try:
            return (await status(port, "/livez"))[0] == 200
        except aiohttp.ClientError:
            return False

    await until(alive, what=f"/livez of {command}")
    return daemon


@pytest.mark.parametrize("command", COMMANDS)
async def test_metrics_are_for_whom_the_api_server_lets_in(
    command: str, plane: ControlPlane, unused_tcp_port_factory: Any
) -> None:
    port = unused_tcp_port_factory()
    stranger, prometheus = await account(plane, "stranger"), await account(plane, "prometheus")
    daemon = await start(plane, command, port)

    assert (await status(port, "/metrics"))[0] == 403
    assert (await status(port, "/metrics", "made-up"))[0] == 401
    refused = 'User "system:serviceaccount:default:{}" cannot get path "/metrics"'
    assert await status(port, "/metrics", stranger) == (403, refused.format("stranger"))
    assert await status(port, "/metrics", prometheus) == (403, refused.format("prometheus"))

    await grant(plane, "prometheus")

    async def let_in() -> bool:
        return (await status(port, "/metrics", prometheus))[0] == 200

    await until(let_in, what="the answer of the API server for whom it lets in")
    text = (await status(port, "/metrics", prometheus))[1]
    assert "arranger_watch_events_total" in text
    assert (await status(port, "/metrics", stranger))[0] == 403
    # An administrator may see everything.
    assert (await status(port, "/metrics", plane.token))[0] == 200
    assert "server.review_failed" not in daemon.log_lines()

    idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(1100)]
    assert (await status(port, "/livez"))[0] == 200
    assert len(os.listdir(f"/proc/{daemon.process.pid}/fd")) < 300
    for _, writer in idle:
        writer.transport.abort()
    assert await daemon.stop() == 0
