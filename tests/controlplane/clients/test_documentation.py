"""The README's path from an empty cluster to the first pod, gang, eviction and TYJob, typed.

The commands are those of the pages, read from them; kubectl, the API server, the controllers of
Kubernetes and kube-scheduler are real. Kubelets are hollow, and what the pods of ``manifests/``
would run is run beside them.
"""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from arranger.kube.client.aiohttp_transport import HttpTransport
from arranger.kube.client.kubeconfig import load_api_server_config
from tests.controlplane.admin import until
from tests.controlplane.clients.terminal import NOT_TYPED, Terminal, commands, kubectl_path
from tests.controlplane.cluster import ContainerEndingKubelets
from tests.controlplane.daemon import Daemon
from tests.controlplane.fixtures import skip_without_binary
from tests.controlplane.harness import ControlPlane, a_node, a_pod
from tests.paths import REPO

pytestmark = [pytest.mark.controlplane, pytest.mark.xdist_group("controlplane")]

Object = dict[str, Any]

PODS = "/api/v1/namespaces/default/pods"
#: What the commands of the pages that show something show, sooner or later.
SHOWN = {
    "kubectl -n arranger-system rollout status": "successfully rolled out",
    "kubectl get events --field-selector reason=Scheduled": r"pod/hello\s+Successfully assigned",
    "kubectl get gangs": r"resnet .*4",
    "kubectl get events --field-selector reason=Preempted": r"pod/training-low-.* by pod",
    "kubectl get tyjobs": r"pytorch .*(Running|Succeeded)",
    "kubectl get vcjob": r"mnist .*(Running|Completed)",
    "kubectl explain jobs": r"KIND: +Job\nVERSION: +v1alpha1\n(?s:.*)minAvailable",
}


@asynccontextmanager
async def a_cluster(cards: int) -> AsyncIterator[ControlPlane]:
    """A cluster as a reader has it: a node, and nothing of ours."""
    skip_without_binary()
    kubectl_path()
    async with ControlPlane(controllers=True) as plane:
        await plane.start_scheduler()
        node = a_node("n1", cpu="32", memory="128Gi")
        if cards:
            labels = {"product": "NVIDIA-GeForce-RTX-4090", "count": str(cards)}
            node["metadata"]["labels"] |= {f"nvidia.com/gpu.{k}": v for k, v in labels.items()}
            for offered in (node["status"]["capacity"], node["status"]["allocatable"]):
                offered["nvidia.com/gpu"] = str(cards)
        await plane.post("/api/v1/nodes", node)
        access = await load_api_server_config(str(plane.kubeconfig("kubelets")), None)
        transport = HttpTransport(access)
        kubelets = asyncio.create_task(ContainerEndingKubelets(transport).run())
        try:
            yield plane
        finally:
            kubelets.cancel()
            with suppress(asyncio.CancelledError):
                await kubelets
            await transport.close()


async def running(plane: ControlPlane, prefix: str) -> int:
    """How many pods run whose name begins so."""
    pods = (await plane.get(PODS))["items"]
    mine = (pod for pod in pods if pod["metadata"]["name"].startswith(prefix))
    return sum(pod["status"]["phase"] == "Running" for pod in mine)


async def until_running(plane: ControlPlane, **expected: int) -> None:
    """Until so many pods run of each; ``_`` for ``-``."""

    async def reached() -> bool:
        return all(
            [await running(plane, n.replace("_", "-")) == count for n, count in expected.items()]
        )

    await until(reached, what=str(expected))


async def test_the_readme_from_an_empty_cluster_to_a_tyjob() -> None:
    async with a_cluster(cards=8) as plane:
        terminal = Terminal(plane.kubeconfig("reader"), SHOWN)
        for command in commands("README.md", "In a cluster"):
            if command.startswith(NOT_TYPED):
                continue
            if command.startswith("kubectl apply -f examples/queues/inference.yaml"):
                await until_running(plane, training_high=1, training_medium=1, training_low=1)
            await terminal.type(command)
            if command == "kubectl apply -k manifests/":
                # What the containers of its pods would run.
                await Daemon.start(plane)
                await Daemon.controllers(plane)
            if command.startswith("kubectl get gangs"):
                await until_running(plane, resnet=4)
            if command.startswith("kubectl delete -f examples/queues/inference.yaml"):
                await until_running(plane, training_high=1, training_medium=1, training_low=1)
        for command in commands("docs/guide/vcjob.md", "Looking at Jobs"):
            await terminal.type(command)
        assert all(any(t.startswith(s) for t in terminal.typed) for s in SHOWN), terminal.typed


async def test_a_checkout_against_a_cluster_says_what_it_lacks_and_then_schedules() -> None:
    async with a_cluster(cards=0) as plane:
        terminal = Terminal(plane.kubeconfig("reader"), {}, environment={"PYTHONUNBUFFERED": "1"})
        typed = [c for c in commands("docs/install.md", "From a checkout") if c[:5] != "make "]
        (run,) = (command for command in typed if "arranger run" in command)
        (controllers,) = (command for command in typed if "arranger controllers" in command)

        early = await terminal.start(run)
        plane.clients.append(early)
        said = await _read_until(early, "kubectl create namespace arranger-system")
        assert "arranger-system" in said

        for command in typed:
            if command not in (run, controllers):
                await terminal.type(command)
        plane.clients.append(await terminal.start(controllers))
        first, *_ = (c for c in commands("docs/install.md", "In a cluster") if "kubectl run" in c)
        await terminal.type(first)
        await until_running(plane, hello=1)


async def test_somebody_is_let_into_the_cockpit_of_a_cluster() -> None:
    """What the guide has them type gives a token with which the page shows numbers and no names."""
    async with a_cluster(cards=0) as plane:
        terminal = Terminal(plane.kubeconfig("reader"), {})
        await terminal.type("kubectl create namespace arranger-system")
        await terminal.type("kubectl apply -f manifests/95-viewer.yaml")
        await plane.post(PODS, a_pod("too-big", cpu="64"))
        token = ""
        for command in commands("docs/guide/cockpit.md", "In a cluster"):
            if command.startswith("kubectl proxy"):
                continue
            token = await terminal.type(command)
        own = await plane.service_account_token("arranger-system", "arranger-ui")
        cockpit = Terminal(plane.kubeconfig("arranger-ui", own), {})
        process = await cockpit.start("arranger ui --bind-address 0.0.0.0 --port 0")
        try:
            said = await _read_until(process, "https://0.0.0.0:")
            address = "https://127.0.0.1:" + said.partition("https://0.0.0.0:")[2].split("/")[0]
            async with aiohttp.ClientSession() as session:
                for given, status in (("", 401), (token.strip(), 200)):
                    headers = {"Authorization": f"Bearer {given}"}
                    async with session.get(f"{address}/", ssl=False, headers=headers) as page:
                        assert page.status == status, await page.text()
                        shown = await page.text()
            assert "Overview" in shown
            assert "too-big" not in shown
        finally:
            process.terminate()
            await process.communicate()


async def test_cards_for_a_node_that_has_none() -> None:
    async with a_cluster(cards=0) as plane:
        terminal = Terminal(plane.kubeconfig("reader"), {}, replaced={"NODE": "n1"})
        for command in commands("docs/getting-started.md", "A node of eight cards"):
            await terminal.type(command)
        node = await plane.get("/api/v1/nodes/n1")
        assert node["status"]["capacity"]["nvidia.com/gpu"] == "8"
        assert node["metadata"]["labels"]["nvidia.com/gpu.product"] == "NVIDIA-GeForce-RTX-4090"


async def test_a_snapshot_of_a_cluster_is_explained_and_simulated() -> None:
    async with a_cluster(cards=0) as plane:
        await plane.post(PODS, a_pod("too-big", cpu="64"))
        shown = {
            ".venv/bin/arranger explain": r"default/too-big[\s\S]*Insufficient cpu",
            "arranger simulate": r"default/too-big[\s\S]*ended: nothing has moved",
        }
        files = {name: str(plane.folder / name) for name in ("cluster.json", "nodes.yaml")}
        files["my-manifests/"] = str(plane.folder / "pods.yaml")
        terminal = Terminal(plane.kubeconfig("reader"), shown, replaced=files)
        section = "Try it on your cluster and change nothing"
        for command in commands("docs/getting-started.md", section):
            await terminal.type(command)
        _, nodes, simulate = commands("docs/guide/simulation.md", "Manifests")
        await terminal.type(nodes)
        await terminal.type("kubectl get pods -o yaml '>' pods.yaml")
        await terminal.type(simulate)


async def test_looking_around_in_the_demo(tmp_path: Path) -> None:
    shown = {
        "kubectl --server http://127.0.0.1:8001 get pods": r"training-.* gpu-1",
        "kubectl --server http://127.0.0.1:8001 describe pod too-big": "FailedScheduling",
    }
    kubectl_path()
    empty = tmp_path / "kubeconfig"
    empty.write_text("{}")
    terminal = Terminal(empty, shown)
    demo, *looks = commands("docs/getting-started.md", "Look around in the demo")
    process = await terminal.start(demo)
    try:
        await _read_until(process, "embedded cluster at http://127.0.0.1:8001")
        for command in looks:
            await terminal.type(command)
        assert len(terminal.typed) == len(shown)
    finally:
        process.terminate()
        await process.communicate()


async def test_an_image_of_ones_own_is_named_in_one_place(tmp_path: Path) -> None:
    (given,) = re.findall(r"```yml\n(.*?)```", (REPO / "docs/install.md").read_text(), re.DOTALL)
    # kustomize wants the folders of bases beside or above its own, and follows no links.
    shutil.copytree(REPO / "manifests", tmp_path / "arranger" / "manifests")
    (tmp_path / "kustomization.yaml").write_text(given)
    terminal = Terminal(tmp_path / "none", {})
    shown = await terminal.type(f"kubectl kustomize {tmp_path}")
    assert re.findall(r"image: (\S+)", shown) == ["registry.example.com/arranger:0.1.0"] * 2


async def _read_until(process: asyncio.subprocess.Process, text: str) -> str:
    """What it prints until it says something."""
    assert process.stdout is not None
    printed = ""
    async with asyncio.timeout(60):
        while text not in printed:
            line = await process.stdout.readline()
            assert line, printed
            printed += line.decode()
    return printed
