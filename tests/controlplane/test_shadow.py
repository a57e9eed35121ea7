"""``arranger why`` and ``arranger whatif`` on a real API server, with a viewer's rights only."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from arranger.embedded.bundled_crds import bundled_crds
from tests.builders import a_pod
from tests.controlplane.accounts import RBAC, account
from tests.controlplane.daemon import manifests
from tests.controlplane.fixtures import skip_without_binary
from tests.controlplane.harness import ControlPlane, a_node
from tests.paths import REPO
from tests.queueing import a_queue_manifest

pytestmark = [pytest.mark.controlplane, pytest.mark.xdist_group("controlplane")]

QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
PODS = "/api/v1/namespaces/default/pods"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plane() -> AsyncIterator[ControlPlane]:
    """A full node and one who waits; nothing of ours runs."""
    skip_without_binary()
    async with ControlPlane() as plane:
        for definition in bundled_crds():
            await plane.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
        await plane.until_served(QUEUES)
        (role,) = manifests("manifests/95-viewer.yaml")
        await plane.post(f"{RBAC}/clusterroles", role)
        await plane.post("/api/v1/nodes", a_node("n1", cpu="4"))
        await plane.post(QUEUES, a_queue_manifest("q", capability={"cpu": "3"}))
        for pod in (
            a_pod("old").needs(cpu=3).on("n1").manifest(),
            a_pod("new").needs(cpu=2).in_queue("q").manifest(),
        ):
            pod["metadata"].pop("uid", None)
            await plane.post(PODS, pod)
        yield plane


async def viewer(plane: ControlPlane, name: str, *, role: str) -> Path:
    """The kubeconfig of somebody with one role."""
    return plane.kubeconfig(name, await account(plane, name, role))


async def arranger(kubeconfig: Path, *words: str) -> tuple[int, str, str]:
    """Exit status, output and errors of a command."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "arranger.cli.main", words[0], f"--kubeconfig={kubeconfig}"),
        *words[1:],
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=REPO,
        env={"PYTHONPATH": str(REPO), "COLUMNS": "200"},
    )
    out, errors = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), errors.decode()


@pytest.mark.asyncio(loop_scope="module")
async def test_a_viewer_asks_why_and_what_if(plane: ControlPlane) -> None:
    kubeconfig = await viewer(plane, "viewer", role="arranger-viewer")
    before = await _versions(plane)

    status, out, errors = await arranger(kubeconfig, "why", "new", "--thorough", "-o", "json")
    assert (status, errors) == (0, "")
    (answer,) = json.loads(out)["answers"]
    assert answer["state"] == "Waiting"
    assert answer["nearest"] == [["n1", "lacks cpu 1000m"]]
    assert answer["queue"]["limits"] == {"q": {"cpu": [0, 3000]}}
    assert "when pod default/old ends" in [each["change"] for each in answer["suggestions"]]

    status, out, _ = await arranger(kubeconfig, "whatif", "--add-nodes", "1xn1", "-o", "json")
    assert status == 0
    assert json.loads(out)["placed"] == {"default/new": "n1-like-1"}
    assert await _versions(plane) == before


@pytest.mark.asyncio(loop_scope="module")
async def test_a_viewer_counts_copies_and_calls_the_doctor(
    plane: ControlPlane, tmp_path: Path
) -> None:
    kubeconfig = await viewer(plane, "examiner", role="arranger-viewer")
    before = await _versions(plane)
    file = tmp_path / "pod.json"
    file.write_text(json.dumps(a_pod("more").needs(cpu=1).manifest()))

    status, out, _ = await arranger(kubeconfig, "capacity", "-f", str(file), "-o", "json")
    assert status == 0
    assert json.loads(out)["copies"] == 1

    status, out, errors = await arranger(kubeconfig, "doctor", "-o", "json")
    found = {each["check"]: each for each in json.loads(out)["findings"]}
    # Nothing of ours runs here.
    assert [each["check"] for each in found.values() if each["state"] == "wrong"] == ["lease"]
    assert (status, errors) == (1, "")
    for check in ("server", "clock", "your rights", "queues", "gangs", "what was read"):
        assert found[check]["state"] == "ok", check
    assert found["definition queues.scheduling.volcano.sh"]["state"] == "ok"
    assert found["rights of system:serviceaccount:arranger-system:arranger"]["state"] == "unseen"
    assert await _versions(plane) == before


@pytest.mark.asyncio(loop_scope="module")
async def test_without_the_right_to_see_nodes_there_is_one_line(plane: ControlPlane) -> None:
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "sees-pods"},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}],
    }
    await plane.post(f"{RBAC}/clusterroles", role)
    kubeconfig = await viewer(plane, "stranger", role="sees-pods")
    status, out, errors = await arranger(kubeconfig, "why", "new")
    assert (status, out) == (1, "")
    assert len(errors.splitlines()) == 1
    assert 'cannot list resource "nodes"' in errors
    assert "it takes the right to list pods and nodes of all namespaces" in errors


@pytest.mark.asyncio(loop_scope="module")
async def test_with_the_pods_of_one_namespace_alone_it_is_said_what_is_missing(
    plane: ControlPlane,
) -> None:
    """Half the cluster would give wrong answers, so there is none; others' names are in no line."""
    rules = [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"]}]
    head = {"apiVersion": "rbac.authorization.k8s.io/v1"}
    role = {**head, "kind": "ClusterRole", "metadata": {"name": "sees-nodes"}, "rules": rules}
    await plane.post(f"{RBAC}/clusterroles", role)
    kubeconfig = await viewer(plane, "tenant", role="sees-nodes")
    own = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}]
    here = {"name": "sees-own-pods", "namespace": "default"}
    await plane.post(
        f"{RBAC}/namespaces/default/roles",
        {**head, "kind": "Role", "metadata": here, "rules": own},
    )
    binding = {
        **head,
        "kind": "RoleBinding",
        "metadata": here,
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "Role",
            "name": "sees-own-pods",
        },
        "subjects": [{"kind": "ServiceAccount", "name": "tenant", "namespace": "default"}],
    }
    await plane.post(f"{RBAC}/namespaces/default/rolebindings", binding)
    for words in (("why", "new"), ("whatif", "--cordon", "n1"), ("doctor",)):
        status, out, errors = await arranger(kubeconfig, *words)
        assert status == 1, words
        assert "Traceback" not in out + errors
        assert "old" not in out + errors
        if words[0] != "doctor":
            assert (out, len(errors.splitlines())) == ("", 1)
            assert 'cannot list resource "pods"' in errors
            assert "it takes the right to list pods and nodes of all namespaces" in errors


async def _versions(plane: ControlPlane) -> dict[str, str]:
    """Which versions all pods, nodes and queues have."""
    found: dict[str, Any] = {}
    for path in (PODS, "/api/v1/nodes", QUEUES):
        for item in (await plane.get(path))["items"]:
            found[f"{path}/{item['metadata']['name']}"] = item["metadata"]["resourceVersion"]
    return found
