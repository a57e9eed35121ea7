"""The cockpit as ``manifests/ui`` runs it: its rights, and who may look, by a real API server."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator

import aiohttp
import pytest
import pytest_asyncio

from tests.builders import a_pod
from tests.controlplane.accounts import account, bind
from tests.controlplane.daemon import manifests
from tests.controlplane.fixtures import skip_without_binary
from tests.controlplane.harness import ControlPlane, a_node

pytestmark = [pytest.mark.controlplane, pytest.mark.xdist_group("controlplane")]

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


async def test_those_who_may_look_see_the_cluster_and_others_do_not(plane: ControlPlane) -> None:
    own = await plane.service_account_token("arranger-system", "arranger-ui")
    kubeconfig = plane.kubeconfig("arranger-ui", own)
    may, may_not = await account(plane, "may", "arranger-ui-user"), await account(plane, "may-not")
    numbers_only = await account(plane, "numbers-only", "arranger-ui-user")
    await bind(plane, "may", "arranger-viewer")
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
        pod = f"https://127.0.0.1:{port[1]}/pod?name=default/waits"
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
            url = f"https://127.0.0.1:{port[1]}/"
            async with session.get(f"{url}live", ssl=False, headers=headers) as followed:
                assert await followed.content.readline() == b"retry: 3000\n"
                await plane.post(PODS, newcomer)
                told = [await asyncio.wait_for(followed.content.readline(), 30) for _ in range(2)]
            assert told == [b"\n", b"event: changed\n"]
            async with session.get(
                f"{url}why?what=pod/default/waits", ssl=False, headers=headers
            ) as why:
                assert "Insufficient cpu" in await why.text()
    finally:
        process.terminate()
        await process.communicate()
