"""The control plane that the other tests of this tier stand on."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from tests.controlplane.daemon import Daemon, install_rbac
from tests.controlplane.fixtures import skip_without_binary
from tests.controlplane.harness import ControlPlane, a_node, a_pod, binary_path, until
from tests.controlplane.recorder import Recorder

pytestmark = [
    pytest.mark.controlplane,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.xdist_group("controlplane"),
]

# Starts etcd, says its pid, and lives until it is killed.
STARTER = """
import os, subprocess, sys
binary, folder = sys.argv[1:]
urls = [f"--{name}=http://127.0.0.1:0" for name in ("listen-client-urls", "listen-peer-urls")]
etcd = subprocess.Popen(
    [binary, "etcd", f"--data-dir={folder}", "--advertise-client-urls=http://127.0.0.1:1", *urls],
    env=os.environ | {"ARRANGER_PARENT": str(os.getpid())},
    stdout=subprocess.DEVNULL,
    stderr=subprocess.DEVNULL,
)
print(etcd.pid, flush=True)
sys.stdin.read()
"""


def _binding(pod: str, node: str) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod},
        "target": {"kind": "Node", "name": node},
    }


async def test_a_pod_is_bound_once_and_the_second_binding_conflicts(
    control_plane: ControlPlane,
) -> None:
    await control_plane.post("/api/v1/nodes", a_node("harness-1"))
    await control_plane.post("/api/v1/namespaces/default/pods", a_pod("harness"))
    path = "/api/v1/namespaces/default/pods/harness/binding"
    first, _ = await control_plane.request("POST", path, _binding("harness", "harness-1"))
    second, answer = await control_plane.request("POST", path, _binding("harness", "harness-1"))
    assert (first, second) == (201, 409)
    assert "already assigned" in answer["message"]


async def test_what_the_server_shows_is_judged(control_plane: ControlPlane) -> None:
    """A node of one CPU is given two pods of one, by whoever plays the scheduler."""
    assert control_plane._session is not None
    await control_plane.post("/api/v1/nodes", a_node("judged", cpu="1"))
    recorder = Recorder(control_plane.url, control_plane._session)
    await recorder.start()
    for name in ("judged-1", "judged-2"):
        pods = "/api/v1/namespaces/default/pods"
        await control_plane.post(pods, a_pod(name, cpu="1"))
        await control_plane.post(f"{pods}/{name}/binding", _binding(name, "judged"))

    async def both_seen() -> bool:
        return len(recorder.bindings("judged")) == 2

    await until(both_seen, what="both Bindings in the watch")
    await recorder.stop()
    found = [v for v in recorder.judged().violations if "judged" in v.text]
    assert [(v.rule, "judged-2" in v.text) for v in found] == [("it_fits", True)]


async def test_a_new_node_carries_no_taint_that_nobody_removes(control_plane: ControlPlane) -> None:
    node = await control_plane.post("/api/v1/nodes", a_node("harness-2"))
    assert "taints" not in node["spec"]


async def test_the_controller_manager_makes_the_pods_of_a_job(
    control_plane_with_controllers: ControlPlane,
) -> None:
    plane = control_plane_with_controllers
    template = {"spec": a_pod("unused")["spec"] | {"restartPolicy": "Never"}}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "three"},
        "spec": {"parallelism": 3, "completions": 3, "template": template},
    }
    await plane.post("/apis/batch/v1/namespaces/default/jobs", job)
    path = "/api/v1/namespaces/default/pods?labelSelector=job-name%3Dthree"

    async def all_there() -> bool:
        return len((await plane.get(path))["items"]) == 3

    await until(all_there, what="the Job's pods")


async def test_nothing_runs_on_after_the_control_plane_is_stopped() -> None:
    skip_without_binary()
    async with ControlPlane() as plane:
        await install_rbac(plane)
        daemon = await Daemon.start(plane)
        processes = [component.process for component in plane.components.values()]
        processes.append(daemon.process)
        folder = plane.folder
        assert len(processes) == 3
    assert all(process.returncode is not None for process in processes)
    assert not folder.exists()


async def test_a_component_ends_when_the_process_that_started_it_is_killed(tmp_path: Path) -> None:
    skip_without_binary()
    starter = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        STARTER,
        str(binary_path()),
        str(tmp_path),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert starter.stdin is not None
    assert starter.stdout is not None
    pid = int(await starter.stdout.readline())
    assert _runs(pid)
    starter.kill()
    await starter.wait()

    async def ended() -> bool:
        return not _runs(pid)

    await until(ended, within=10.0, what="the end of etcd")


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
