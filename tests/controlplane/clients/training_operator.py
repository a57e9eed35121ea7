"""Kubeflow's training-operator as a process, with the manifests of its own release.

What a cluster does for its pod is done for the process here: the files of the webhook's Secret lie
where its Deployment mounts them, and the Service leads to it.
"""

from __future__ import annotations

import asyncio
import base64
import os
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import yaml

from tests.controlplane.admin import until
from tests.controlplane.builds import published
from tests.controlplane.clients.terminal import kubectl_path
from tests.controlplane.harness import ControlPlane, free_ports

Object = dict[str, Any]

#: Where its Deployment mounts the Secret of the webhook; the program knows no other place.
CERTIFICATES: Final = Path("/tmp/k8s-webhook-server/serving-certs")
SECRET: Final = "/api/v1/namespaces/kubeflow/secrets/training-operator-webhook-cert"


def required() -> None:
    """Skip the test where the operator or kubectl is not built."""
    published("training-operator")
    kubectl_path()


@asynccontextmanager
async def training_operator(plane: ControlPlane, *flags: str) -> AsyncIterator[None]:
    """Install the operator, run it with these flags, and wait until it is ready."""
    webhook, health = free_ports(2)
    await plane.apply(_installed(await _manifests(), webhook))
    shutil.rmtree(CERTIFICATES, ignore_errors=True)
    token = await plane.service_account_token("kubeflow", "training-operator")
    log = plane.folder / "training-operator.log"
    with log.open("wb") as out:
        process = await asyncio.create_subprocess_exec(
            str(published("training-operator")),
            "--metrics-bind-address=0",
            f"--health-probe-bind-address=127.0.0.1:{health}",
            f"--webhook-server-port={webhook}",
            *flags,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env={
                **os.environ,
                "KUBECONFIG": str(plane.kubeconfig("training-operator", token)),
                "MY_POD_NAMESPACE": "kubeflow",
            },
        )
    plane.clients.append(process)

    async def works(job: Object) -> bool:
        assert process.returncode is None, log.read_text()
        return await _is_admitted(plane, job)

    try:
        await until(lambda: _mounted(plane), what="the certificate of the operator's webhook")
        await until(lambda: works(_PROBE), what="an answer of the operator's webhook")
        yield
        assert process.returncode is None, log.read_text()
        assert "is forbidden" not in log.read_text(), log.read_text()
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()
        shutil.rmtree(CERTIFICATES, ignore_errors=True)


async def _manifests() -> list[Object]:
    """What ``kubectl apply -k`` of the release would create."""
    overlay = published("training-operator").parent / "manifests/overlays/standalone"
    process = await asyncio.create_subprocess_exec(
        kubectl_path(), "kustomize", str(overlay), stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    assert process.returncode == 0, overlay
    return list(yaml.load_all(out, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))


def _installed(manifests: list[Object], port: int) -> Iterator[Object]:
    """The manifests for a process of this machine in the place of the Deployment's pod."""
    for manifest in sorted(manifests, key=lambda each: each["kind"] != "Namespace"):
        match manifest["kind"]:
            case "Deployment":
                continue
            case "Service":
                spec = {"type": "ExternalName", "externalName": "localhost"}
                manifest["spec"] = {**spec, "ports": [{"port": port}]}
            case "ValidatingWebhookConfiguration":
                for webhook in manifest["webhooks"]:
                    webhook["clientConfig"]["service"]["port"] = port
        yield manifest


async def _mounted(plane: ControlPlane) -> bool:
    """Write what the operator has put into its Secret to where a kubelet would."""
    files = (await plane.get(SECRET)).get("data") or {}
    if "tls.crt" not in files:
        return False
    CERTIFICATES.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (CERTIFICATES / name).write_bytes(base64.b64decode(content))
    return True


#: A job that the operator's webhook must refuse, since a worker's container has another name.
_PROBE: Final[Object] = {
    "apiVersion": "kubeflow.org/v1",
    "kind": "PyTorchJob",
    "metadata": {"name": "no-container-of-that-name"},
    "spec": {
        "pytorchReplicaSpecs": {
            "Worker": {"template": {"spec": {"containers": [{"name": "other", "image": "x"}]}}}
        }
    },
}


async def _is_admitted(plane: ControlPlane, job: Object) -> bool:
    """Whether the webhook has been asked and has said why it refuses."""
    path = "/apis/kubeflow.org/v1/namespaces/default/pytorchjobs"
    status, answer = await plane.request("POST", path, job)
    assert status != 201, answer
    return "denied the request" in answer.get("message", "")
