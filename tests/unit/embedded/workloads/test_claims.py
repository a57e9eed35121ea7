"""Claims by hollow controllers: which get a volume, and when."""

from __future__ import annotations

import json
from typing import Any

import pytest

from arranger.kube.client.transport import MERGE_PATCH, Request
from tests.unit.embedded.workloads.harness import WorkloadHarness

pytestmark = pytest.mark.looptime(noop_cycles=0)

LATE = "WaitForFirstConsumer"
PATH = "/api/v1/namespaces/default/persistentvolumeclaims/c"


def a_class(
    name: str, *, mode: str = "Immediate", provisioner: str = "p", default: bool = False
) -> dict[str, Any]:
    notes = {"storageclass.kubernetes.io/is-default-class": "true"} if default else {}
    meta = {"name": name, "annotations": notes}
    head = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": meta}
    return {**head, "provisioner": provisioner, "volumeBindingMode": mode}


CLASSES = [
    a_class("now"),
    a_class("late", mode=LATE),
    a_class("by-hand", provisioner="kubernetes.io/no-provisioner"),
]


@pytest.mark.parametrize(
    ("storage_class", "default", "volume_of"),
    [
        pytest.param("now", None, "now", id="at once"),
        pytest.param("late", None, None, id="when a pod has a node"),
        pytest.param("by-hand", None, None, id="never, of a class without a provisioner"),
        pytest.param("unknown", None, "unknown", id="at once, of a class that is not there"),
        pytest.param("", None, None, id="never, of no class"),
        pytest.param(None, None, "", id="at once, where there is no default class"),
        pytest.param(None, "Immediate", "standard", id="of the default class"),
        pytest.param(None, LATE, None, id="late, of a default class that is late"),
    ],
)
async def test_a_claim_gets_a_volume(
    at_work: WorkloadHarness,
    storage_class: str | None,
    default: str | None,
    volume_of: str | None,
) -> None:
    at_work.apply(*CLASSES)
    if default is not None:
        at_work.apply(a_class("standard", mode=default, default=True))
    _claim(at_work, storage_class)
    await at_work.after(5)
    volumes = at_work.cluster.objects("persistentvolumes")
    classes = [volume["spec"].get("storageClassName", "") for volume in volumes]
    assert classes == ([] if volume_of is None else [volume_of])
    (claim,) = at_work.cluster.objects("persistentvolumeclaims")
    names = [volume["metadata"]["name"] for volume in volumes]
    assert [claim["spec"]["volumeName"]] == names if names else "volumeName" not in claim["spec"]
    assert (claim.get("status") or {}).get("phase") == ("Bound" if names else None)


async def test_a_late_claim_gets_its_volume_when_a_node_is_chosen(at_work: WorkloadHarness) -> None:
    at_work.apply(*CLASSES)
    _claim(at_work, "late")
    await at_work.after(5)
    assert at_work.cluster.objects("persistentvolumes") == []
    note = {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "n1"}}}
    body = json.dumps(note).encode()
    answer = at_work.cluster.handle(Request("PATCH", PATH, {}, body, MERGE_PATCH))
    assert answer.status == 200
    await at_work.after(5)
    assert len(at_work.cluster.objects("persistentvolumes")) == 1


def _claim(at_work: WorkloadHarness, storage_class: str | None) -> None:
    spec: dict[str, Any] = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "2Gi"}},
    }
    if storage_class is not None:
        spec["storageClassName"] = storage_class
    meta = {"name": "c", "namespace": "default"}
    head = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta}
    at_work.apply({**head, "spec": spec})
