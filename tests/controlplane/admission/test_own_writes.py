"""What our own service accounts may not write, whatever rules of RBAC allow them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from tests.controlplane.admin import until
from tests.controlplane.daemon import install_rbac, manifests
from tests.controlplane.fixtures import skip_without_binary
from tests.controlplane.harness import ControlPlane
from tests.unit.controllers.vcjob.admissions import CONTAINER

pytestmark = [
    pytest.mark.controlplane,
    pytest.mark.xdist_group("controlplane"),
    pytest.mark.asyncio(loop_scope="module"),
]

Object = dict[str, Any]

CORE = "/api/v1/namespaces/default"
QUEUE = "/apis/scheduling.volcano.sh/v1beta1/queues/q"
MERGE = "application/merge-patch+json"
UID = "12345678-0000-4000-8000-000000000000"
JOB = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "j", "uid": UID}
OWNED = {"ownerReferences": [{**JOB, "controller": True}]}
SCHEDULER, CONTROLLERS = "arranger", "arranger-controllers"


class Accounts:
    """Requests as one of our service accounts."""

    def __init__(self, plane: ControlPlane, session: aiohttp.ClientSession) -> None:
        self._plane, self._session = plane, session
        self._tokens: dict[str, str] = {}

    async def request(self, account: str, method: str, path: str, body: Object) -> tuple[int, str]:
        if account not in self._tokens:
            token = await self._plane.service_account_token("arranger-system", account)
            self._tokens[account] = token
        kind = MERGE if method == "PATCH" else "application/json"
        headers = {"Authorization": f"Bearer {self._tokens[account]}", "Content-Type": kind}
        url = f"{self._plane.url}{path}?dryRun=All"
        async with self._session.request(method, url, json=body, headers=headers) as answer:
            return answer.status, await answer.text()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def accounts() -> AsyncIterator[Accounts]:
    """An API server with our rights and policies; of each kind ``mine`` of a job and ``other``."""
    skip_without_binary()
    async with ControlPlane() as plane:
        await install_rbac(plane)
        await plane.apply(manifests("crds/queues.scheduling.volcano.sh.yaml"))
        await plane.apply(manifests("manifests/60-controllers-rbac.yaml"))
        await plane.until_served(QUEUE.rpartition("/")[0])
        queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue"}
        await plane.post(QUEUE.rpartition("/")[0], {**queue, "metadata": {"name": "q"}})
        for name, owner in (("mine", OWNED), ("other", {})):
            meta = {"name": name, "annotations": {"a": "1"}, **owner}
            await plane.post(f"{CORE}/pods", {"metadata": meta, "spec": POD})
            await plane.post(f"{CORE}/configmaps", {"metadata": meta, "data": {"a": "1"}})
            ports = [{"port": 80}]
            await plane.post(f"{CORE}/services", {"metadata": meta, "spec": {"ports": ports}})
            await plane.post(f"{CORE}/persistentvolumeclaims", {"metadata": meta, "spec": CLAIM})
        kept = {key: TAKEN[key] for key in ("namespace", "name")}
        volumes = {"free": {}, "taken": {"claimRef": TAKEN}, "kept": {"claimRef": kept}}
        for name, claim in volumes.items():
            volume = {"metadata": {"name": name}, "spec": {**VOLUME, **claim}}
            await plane.post("/api/v1/persistentvolumes", volume)
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=plane.ssl_context())
        ) as session:
            made = Accounts(plane, session)

            async def at_work() -> bool:
                wrong = [("POD", SCHEDULER), ("MAP", CONTROLLERS), ("QUEUE", CONTROLLERS)]
                wrong.append(("BINDING", SCHEDULER))
                answers = [await made.request(who, *BAD[what]) for what, who in wrong]
                return all(status == 403 for status, _ in answers)

            await until(at_work, what="the policies")
            yield made


POD = {"containers": [CONTAINER]}
CLAIM = {
    "accessModes": ["ReadWriteOnce"],
    "resources": {"requests": {"storage": "1Gi"}},
    "storageClassName": "none",
}
VOLUME = {
    "capacity": {"storage": "1Gi"},
    "accessModes": ["ReadWriteOnce"],
    "hostPath": {"path": "/x"},
    "storageClassName": "none",
}
CONDITION = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
#: The options of a deletion, which go before those in the address.
DRY = {"dryRun": ["All"]}
TAKEN = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": "c", "uid": UID}


def binding(**more: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "other", **more},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n"},
    }


BAD: dict[str, tuple[str, str, Object]] = {
    "POD": ("PATCH", f"{CORE}/pods/other", {"metadata": {"labels": {"a": "b"}}}),
    "MAP": ("PATCH", f"{CORE}/configmaps/other", {"data": {"a": "2"}}),
    "QUEUE": ("PATCH", QUEUE, {"spec": {"weight": 3}}),
    "BINDING": ("POST", f"{CORE}/pods/other/binding", binding(annotations={"a": "2"})),
}


def patch(path: str, **change: Any) -> tuple[str, str, Object]:
    return "PATCH", path if path.startswith("/") else f"{CORE}/{path}", change


def meta(**change: Any) -> Object:
    return {"metadata": change}


#: What is tried by whom → whether it is let through.
WRITES: dict[str, tuple[str, tuple[str, str, Object], bool]] = {
    "a mark on a pod": (
        SCHEDULER,
        patch("pods/other", **meta(annotations={"gang.scheduling.koordinator.sh/timeout": "true"})),
        True,
    ),
    "the deadline of an eviction on a pod": (
        SCHEDULER,
        patch("pods/other", **meta(annotations={"arranger.io/eviction-deadline": "2026-01-01"})),
        True,
    ),
    "another annotation of a pod": (
        SCHEDULER,
        patch("pods/other", **meta(annotations={"a": "2"})),
        False,
    ),
    "an annotation taken away": (
        SCHEDULER,
        patch("pods/other", **meta(annotations={"a": None})),
        False,
    ),
    "a pod's labels": (SCHEDULER, BAD["POD"], False),
    "a condition of a pod": (
        SCHEDULER,
        patch("pods/other/status", status={"conditions": [CONDITION]}),
        True,
    ),
    "a pod's labels, by way of its status": (
        SCHEDULER,
        patch("pods/other/status", **meta(labels={"a": "b"})),
        False,
    ),
    "another annotation of a pod, by way of its status": (
        SCHEDULER,
        patch("pods/other/status", **meta(annotations={"a": "2"})),
        False,
    ),
    "the node for a pod": (SCHEDULER, ("POST", f"{CORE}/pods/other/binding", binding()), True),
    "the node for a pod, and an annotation": (SCHEDULER, BAD["BINDING"], False),
    "the node for a pod, and a label": (
        SCHEDULER,
        ("POST", f"{CORE}/pods/other/binding", binding(labels={"a": "b"})),
        False,
    ),
    "a pod's owner": (SCHEDULER, patch("pods/mine", **meta(ownerReferences=None)), False),
    "a pod's finalizers": (SCHEDULER, patch("pods/mine", **meta(finalizers=["a.b/c"])), False),
    "a pod's image": (
        SCHEDULER,
        patch("pods/other", spec={"containers": [{**CONTAINER, "image": "evil"}]}),
        False,
    ),
    "the node for a claim": (
        SCHEDULER,
        patch(
            "persistentvolumeclaims/other",
            **meta(annotations={"volume.kubernetes.io/selected-node": "n"}),
        ),
        True,
    ),
    "a claim's labels": (
        SCHEDULER,
        patch("persistentvolumeclaims/other", **meta(labels={"a": "b"})),
        False,
    ),
    "a volume that is free": (
        SCHEDULER,
        patch("/api/v1/persistentvolumes/free", spec={"claimRef": TAKEN}),
        True,
    ),
    "a volume that is taken": (
        SCHEDULER,
        patch("/api/v1/persistentvolumes/taken", spec={"claimRef": {**TAKEN, "name": "d"}}),
        False,
    ),
    "a volume that is kept for this claim": (
        SCHEDULER,
        patch("/api/v1/persistentvolumes/kept", spec={"claimRef": TAKEN}),
        True,
    ),
    "a volume that is kept for another claim": (
        SCHEDULER,
        patch("/api/v1/persistentvolumes/kept", spec={"claimRef": {**TAKEN, "name": "d"}}),
        False,
    ),
    "to keep a volume for nobody any more": (
        SCHEDULER,
        patch("/api/v1/persistentvolumes/kept", spec={"claimRef": None}),
        False,
    ),
    "what becomes of a volume": (
        SCHEDULER,
        patch("/api/v1/persistentvolumes/free", spec={"persistentVolumeReclaimPolicy": "Delete"}),
        False,
    ),
    "a map of a job": (CONTROLLERS, patch("configmaps/mine", data={"a": "2"}), True),
    "somebody's map": (CONTROLLERS, BAD["MAP"], False),
    "somebody's map, made a job's": (
        CONTROLLERS,
        patch("configmaps/other", **meta(**OWNED)),
        False,
    ),
    "a service of a job": (CONTROLLERS, patch("services/mine", **meta(labels={"a": "b"})), True),
    "somebody's service": (CONTROLLERS, patch("services/other", **meta(labels={"a": "b"})), False),
    "a new map of a job": (
        CONTROLLERS,
        ("POST", f"{CORE}/configmaps", meta(name="new", **OWNED)),
        True,
    ),
    "a new map of nobody": (CONTROLLERS, ("POST", f"{CORE}/configmaps", meta(name="new")), False),
    "a new pod of a job": (
        CONTROLLERS,
        ("POST", f"{CORE}/pods", {**meta(name="new", **OWNED), "spec": POD}),
        True,
    ),
    "a new pod of nobody": (
        CONTROLLERS,
        ("POST", f"{CORE}/pods", {**meta(name="new"), "spec": POD}),
        False,
    ),
    "a pod of a job, deleted": (CONTROLLERS, ("DELETE", f"{CORE}/pods/mine", DRY), True),
    "somebody's pod, deleted": (CONTROLLERS, ("DELETE", f"{CORE}/pods/other", DRY), False),
    "a note on a job's pod": (
        CONTROLLERS,
        patch("pods/mine", **meta(annotations={"arranger.io/restarts": "1"})),
        True,
    ),
    "the image of a job's pod": (
        CONTROLLERS,
        patch("pods/mine", spec={"containers": [{**CONTAINER, "image": "evil"}]}),
        False,
    ),
    "whether a queue is open": (
        CONTROLLERS,
        patch(QUEUE, **meta(annotations={"arranger.io/queue-state": "Closed"})),
        True,
    ),
    "how much a queue may use": (CONTROLLERS, BAD["QUEUE"], False),
    "how many cards a queue may use": (
        CONTROLLERS,
        patch(QUEUE, **meta(annotations={"volcano.sh/card.quota": "{}"})),
        False,
    ),
}


@pytest.mark.parametrize(("account", "write", "allowed"), WRITES.values(), ids=WRITES)
async def test_what_our_service_accounts_write(
    accounts: Accounts, account: str, write: tuple[str, str, Object], allowed: bool
) -> None:
    status, text = await accounts.request(account, *write)
    assert (status < 300) == allowed, text
    if not allowed:
        assert status == 403, text
        assert "ValidatingAdmissionPolicy" in text
