"""The cockpit as ``manifests/ui`` runs it: its rights, and who may look, by a real API server."""

from __future__ import annotations

import asyncio
import re
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import unquote

import aiohttp
import pytest
import pytest_asyncio

from tests.builders import a_pod
from tests.controlplane.accounts import account, bind
from tests.controlplane.admin import until
from tests.controlplane.daemon import manifests
from tests.controlplane.fixtures import skip_without_binary
from tests.controlplane.harness import ControlPlane, a_node
from tests.ui.visitor import Visitor

pytestmark = [pytest.mark.controlplane, pytest.mark.xdist_group("controlplane")]

SERVICES = "/api/v1/namespaces/arranger-system/services"
PODS = "/api/v1/namespaces/default/pods"


@pytest_asyncio.fixture
async def plane() -> AsyncIterator[ControlPlane]:
    """A node, a pod that waits, and what the manifests give."""
    skip_without_binary()
    async with ControlPlane() as running:
        namespace = {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": "arranger-system"},
        }
        await running.post("/api/v1/namespaces", namespace)
        for manifest in (
            *manifests("manifests/95-viewer.yaml"),
            *manifests("manifests/ui/rbac.yaml"),
        ):
            await running.post(await running.collection(manifest), manifest)
        await running.post("/api/v1/nodes", a_node("n1", cpu="4"))
        waits = a_pod("waits").needs(cpu=8).manifest()
        waits["metadata"].pop("uid", None)
        await running.post(PODS, waits)
        yield running


@asynccontextmanager
async def cockpit(plane: ControlPlane) -> AsyncIterator[int]:
    """The cockpit as it runs in a cluster; yields its port."""
    own = await plane.service_account_token("arranger-system", "arranger-ui")
    kubeconfig = plane.kubeconfig("arranger-ui", own)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "arranger.cli.main", "ui", "--kubeconfig", str(kubeconfig)),
        *("--bind-address", "0.0.0.0", "--port", "0"),
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        line = (await asyncio.wait_for(process.stdout.readline(), 60)).decode()
        port = re.search(r"https://0\.0\.0\.0:(\d+)/", line)
        assert port is not None, line
        yield int(port[1])
    finally:
        process.terminate()
        await process.communicate()


async def test_those_who_may_look_see_the_cluster_and_others_do_not(plane: ControlPlane) -> None:
    may, may_not = await account(plane, "may", "arranger-ui-user"), await account(plane, "may-not")
    numbers_only = await account(plane, "numbers-only", "arranger-ui-user")
    await bind(plane, "may", "arranger-viewer")
    async with cockpit(plane) as port:
        pod = f"https://127.0.0.1:{port}/pod?name=default/waits"
        answers = ((may, 200), (numbers_only, 404), (may_not, 403), ("nonsense", 401))
        async with aiohttp.ClientSession() as session:
            for token, status in answers:
                headers = {"Authorization": f"Bearer {token}"}
                async with session.get(pod, ssl=False, headers=headers) as answer:
                    assert answer.status == status
                    assert ("Pod default/waits" in await answer.text()) == (status == 200)
            headers = {"Authorization": f"Bearer {may}"}
            newcomer = a_pod("newcomer").manifest()
            newcomer["metadata"].pop("uid", None)
            url = f"https://127.0.0.1:{port}/"
            async with session.get(f"{url}live", ssl=False, headers=headers) as followed:
                assert await followed.content.readline() == b"retry: 3000\n"
                await plane.post(PODS, newcomer)
                told = [await asyncio.wait_for(followed.content.readline(), 30) for _ in range(2)]
            assert told == [b"\n", b"event: changed\n"]
            async with session.get(
                f"{url}why?what=pod/default/waits", ssl=False, headers=headers
            ) as why:
                assert "Insufficient cpu" in await why.text()


async def test_behind_the_api_server_s_proxy_links_forms_and_events_work(
    plane: ControlPlane,
) -> None:
    token = await account(plane, "may", "arranger-ui-user")
    await bind(plane, "may", "arranger-viewer")
    async with cockpit(plane) as port:
        await _serve_as(plane, "arranger-ui", port)
        address = f"{plane.url}{SERVICES}/https:arranger-ui:https/proxy/"
        connector = aiohttp.TCPConnector(ssl=plane.ssl_context())
        jar = aiohttp.CookieJar(unsafe=True)
        async with aiohttp.ClientSession(connector=connector, cookie_jar=jar) as session:
            visitor = Visitor(session, address, {"Authorization": f"Bearer {plane.token}"})

            async def answers() -> bool:
                async with session.get(address, headers=visitor.headers) as answer:
                    return answer.status == 401

            await until(answers, what="the proxy's way to the Service")
            await visitor.sign_in(token)
            seen = await visitor.visit_all()
            assert {"pods", "nodes", "what-if", "static/cockpit.js"} <= seen
            assert "pod?name=default/waits" in {unquote(path) for path in seen}
            assert 'role="alert"' not in await visitor.send("what-if", cordon="n1")
            events = await visitor.events()
            newcomer = a_pod("newcomer").manifest()
            newcomer["metadata"].pop("uid", None)
            await plane.post(PODS, newcomer)
            assert await events.following() == "changed"
            events.close()


async def _serve_as(plane: ControlPlane, name: str, port: int) -> None:
    """A Service that leads to a port of this machine, by an address that is no loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as reached:
        reached.connect(("192.0.2.1", 9))  # nothing is sent
        own = reached.getsockname()[0]
    named = {"name": "https", "port": port}
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"ports": [{"name": "https", "port": 443, "targetPort": port}]},
    }
    # The proxy leads only to what is said to be a pod of that address.
    pod = a_pod(name).manifest()
    pod["metadata"]["namespace"] = "arranger-system"
    pod["metadata"].pop("uid", None)
    pod["spec"]["serviceAccountName"] = name
    endpoints = {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {"name": name},
        "subsets": [
            {
                "addresses": [
                    {
                        "ip": own,
                        "targetRef": {"kind": "Pod", "namespace": "arranger-system", "name": name},
                    }
                ],
                "ports": [named],
            }
        ],
    }
    await plane.post(PODS.replace("default", "arranger-system"), pod)
    status = {"status": {"phase": "Running", "podIP": own, "podIPs": [{"ip": own}]}}
    await plane.merge(f"{PODS.replace('default', 'arranger-system')}/{name}/status", status)
    await plane.post(SERVICES, service)
    await plane.post(SERVICES.replace("services", "endpoints"), endpoints)
