"""Volumes with the real volume controllers: what we write is what they take up."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.controlplane.daemon import Daemon, install_rbac
from tests.controlplane.fixtures import skip_without_binary
from tests.controlplane.harness import ControlPlane, a_node, a_pod, until

pytestmark = [pytest.mark.controlplane, pytest.mark.xdist_group("controlplane")]

Object = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
DRIVER = "csi.example.com"
SELECTED = "volume.kubernetes.io/selected-node"
HOST = "kubernetes.io/hostname"


@pytest_asyncio.fixture
async def plane() -> AsyncIterator[ControlPlane]:
    skip_without_binary()
    async with ControlPlane(controllers=True) as running:
        await install_rbac(running)
        await running.post_all("/api/v1/nodes", [a_node(f"n{n}") for n in range(3)])
        for name, provisioner in (("hand", "kubernetes.io/no-provisioner"), ("csi", DRIVER)):
            await running.post(
                CLASSES,
                {
                    "apiVersion": "storage.k8s.io/v1",
                    "kind": "StorageClass",
                    "metadata": {"name": name},
                    "provisioner": provisioner,
                    "volumeBindingMode": "WaitForFirstConsumer",
                },
            )
        yield running


def _volume(name: str, node: str, of: str, source: Object, **spec: Any) -> Object:
    term = {"matchExpressions": [{"key": HOST, "operator": "In", "values": [node]}]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": of,
            "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
            **source,
            **spec,
        },
    }


def _claim_spec(of: str) -> Object:
    return {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": of,
        "resources": {"requests": {"storage": "1Gi"}},
    }


def _claim(name: str, of: str) -> Object:
    meta = {"name": name, "namespace": "default"}
    spec = _claim_spec(of)
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": spec}


def _with_volume(name: str, volume: Object) -> Object:
    pod = a_pod(name)
    pod["spec"]["volumes"] = [{"name": "data", **volume}]
    return pod


async def _provision(plane: ControlPlane) -> None:
    """What a CSI provisioner does with claims that are handed to it."""
    have = {v["metadata"]["name"] for v in (await plane.get(VOLUMES))["items"]}
    for claim in (await plane.get(CLAIMS))["items"]:
        meta = claim["metadata"]
        node = meta.get("annotations", {}).get(SELECTED)
        name = f"pvc-{meta['uid']}"
        if node and name not in have:
            ref = {"kind": "PersistentVolumeClaim", "apiVersion": "v1"}
            ref |= {key: meta[key] for key in ("namespace", "name", "uid")}
            source = {"csi": {"driver": DRIVER, "volumeHandle": name}}
            volume = _volume(name, node, "csi", source, claimRef=ref)
            volume["metadata"]["annotations"] = {"pv.kubernetes.io/provisioned-by": DRIVER}
            await plane.post(VOLUMES, volume)


async def test_the_volume_controller_completes_what_we_begin(plane: ControlPlane) -> None:
    local = {"local": {"path": "/mnt"}}
    await plane.post_all(VOLUMES, [_volume(f"disk-{n}", f"n{n}", "hand", local) for n in range(3)])
    template = {"volumeClaimTemplate": {"spec": _claim_spec("hand")}}
    by_name = {"persistentVolumeClaim": {"claimName": "named"}}
    made = {"persistentVolumeClaim": {"claimName": "made"}}
    await plane.post_all(CLAIMS, [_claim("named", "hand"), _claim("made", "csi")])
    await plane.post_all(
        PODS,
        [
            _with_volume("named", by_name),
            _with_volume("one", {"ephemeral": template}),
            _with_volume("two", {"ephemeral": template}),
            _with_volume("made", made),
        ],
    )
    daemon = await Daemon.start(plane)

    async def all_bound() -> bool:
        await _provision(plane)
        pods = (await plane.get(PODS))["items"]
        return all("nodeName" in pod["spec"] for pod in pods)

    await until(all_bound, what="four pods with volumes")
    assert await daemon.stop() == 0, daemon.log_lines()
    nodes = {p["metadata"]["name"]: p["spec"]["nodeName"] for p in (await plane.get(PODS))["items"]}
    claims = {c["metadata"]["name"]: c for c in (await plane.get(CLAIMS))["items"]}
    for pod, claim in (("named", "named"), ("one", "one-data"), ("two", "two-data")):
        assert claims[claim]["status"]["phase"] == "Bound"
        assert claims[claim]["spec"]["volumeName"] == f"disk-{nodes[pod][1:]}"
    assert claims["made"]["metadata"]["annotations"][SELECTED] == nodes["made"]
