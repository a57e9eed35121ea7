"""The real API server refuses who names a queue that is not for its namespace, and warns others."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.controlplane.admin import until
from tests.controlplane.daemon import REPO, manifests
from tests.controlplane.fixtures import skip_without_binary
from tests.controlplane.harness import ControlPlane
from tests.project.crds.samples import SAMPLES
from tests.unit.controllers.vcjob.admissions import CONTAINER, Admission

pytestmark = [
    pytest.mark.controlplane,
    pytest.mark.xdist_group("controlplane"),
    pytest.mark.asyncio(loop_scope="module"),
]

Object = dict[str, Any]

QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
QUEUE = "scheduling.volcano.sh/queue-name"
PODS = "/api/v1/namespaces/web/pods"
TRY = "?dryRun=All"
MERGE = "application/merge-patch+json"
SELECTORS: dict[str, tuple[Object, bool, bool]] = {
    # Name of the queue: its selector, whether pods of ``ml`` and of ``web`` may use it.
    "all": ({}, True, True),
    "equal": ({"matchLabels": {"team": "ml"}}, True, False),
    "in": (
        {"matchExpressions": [_e := {"key": "team", "operator": "In", "values": ["ml"]}]},
        True,
        False,
    ),
    "not-in": ({"matchExpressions": [{**_e, "operator": "NotIn"}]}, False, True),
    "exists": ({"matchExpressions": [{"key": "team", "operator": "Exists"}]}, True, True),
    "lacks": ({"matchExpressions": [{"key": "big", "operator": "DoesNotExist"}]}, False, True),
}


def named(name: str, **spec: Any) -> Object:
    kind = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue"}
    return {**kind, "metadata": {"name": name}, "spec": spec}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plane() -> AsyncIterator[ControlPlane]:
    """An API server with our definitions and policies, the queues, and two namespaces."""
    skip_without_binary()
    async with ControlPlane() as plane:
        files = ["crds/tyjobs.arranger.io.yaml"]
        files += sorted(f"crds/{file.name}" for file in (REPO / "crds").glob("*.volcano.sh.yaml"))
        await plane.apply(manifests(*files))

        async def served() -> bool:
            return (await plane.request("GET", QUEUES))[0] == 200

        await until(served, what="the definitions")
        for name, labels in (("ml", {"team": "ml", "big": "yes"}), ("web", {"team": "web"})):
            await plane.post("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
        for name, (selector, _, _) in SELECTORS.items():
            await plane.post(QUEUES, named(name, namespaceSelector=selector))
        await plane.post(QUEUES, named("modest", maxPriority=5, serviceTypes=["training"]))
        await plane.apply(manifests("manifests/85-queue-rights.yaml"))

        placed = a_pod("all", name="placed")
        placed["spec"]["nodeName"] = "n"
        await plane.post(PODS, placed)

        async def at_work() -> bool:
            moved = {"metadata": {"annotations": {QUEUE: "nowhere"}}}
            answers = (
                await plane.request("POST", f"{PODS}{TRY}", a_pod("equal")),
                await plane.request("PATCH", f"{PODS}/placed{TRY}", moved, content_type=MERGE),
            )
            return all(status == 403 for status, _ in answers)

        await until(at_work, what="the policies")
        yield plane


def a_pod(
    queue: str,
    *,
    name: str = "p",
    label: bool = False,
    scheduler: str = "arranger",
    **notes: str,
) -> Object:
    said = {QUEUE: queue}
    words = {f"volcano.sh/{key.replace('_', '.')}": text for key, text in notes.items()}
    meta: Object = {"name": name, "annotations": words}
    meta["labels" if label else "annotations"] = {**said} if label else {**words, **said}
    return {"metadata": meta, "spec": {"schedulerName": scheduler, "containers": [CONTAINER]}}


#: How a queue is named: kind → path in a namespace, and the object.
def ways(queue: str) -> dict[str, tuple[str, Object]]:
    job = Admission(False, {"queue": queue}, name="k").manifest()
    group = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup"}
    little = SAMPLES["a TYJob that says little"]
    tyjob = little.manifest({**little.spec, "queue": queue}, "t")
    return {
        "a pod's annotation": ("/api/v1/namespaces/{}/pods", a_pod(queue)),
        "a pod's label": ("/api/v1/namespaces/{}/pods", a_pod(queue, label=True)),
        "a Volcano Job": ("/apis/batch.volcano.sh/v1alpha1/namespaces/{}/jobs", job),
        "a TYJob": ("/apis/arranger.io/v1alpha1/namespaces/{}/tyjobs", tyjob),
        "a PodGroup": (
            "/apis/scheduling.volcano.sh/v1beta1/namespaces/{}/podgroups",
            {**group, "metadata": {"name": "g"}, "spec": {"minMember": 1, "queue": queue}},
        ),
    }


@pytest.mark.parametrize("way", ways("all"))
@pytest.mark.parametrize("queue", SELECTORS)
async def test_a_queue_is_for_the_namespaces_that_it_selects(
    plane: ControlPlane, queue: str, way: str
) -> None:
    path, manifest = ways(queue)[way]
    _, *allowed = SELECTORS[queue]
    for namespace, may in zip(("ml", "web"), allowed, strict=True):
        manifest["metadata"]["namespace"] = namespace
        status, answer = await plane.request("POST", path.format(namespace) + TRY, manifest)
        assert status == (201 if may else 403), answer
        if not may:
            assert f"Queue <{queue}> is not for namespace <{namespace}>" in answer["message"]


async def test_a_pod_group_that_names_no_queue_is_asked_for_none(plane: ControlPlane) -> None:
    await plane.post(QUEUES, named("default", namespaceSelector={"matchLabels": {"no": "one"}}))
    path, manifest = ways("all")["a PodGroup"]
    del manifest["spec"]["queue"]
    status, answer = await plane.request("POST", path.format("web") + TRY, manifest)
    assert status == 201, answer
    assert answer["spec"]["queue"] == "default", "the definition says so for it"


#: sentence: what is edited of a pod, and whether that is refused.
EDITS: dict[str, tuple[Object, bool]] = {
    "to another queue": ({"annotations": {QUEUE: "lacks"}}, True),
    "to one that does not exist": ({"annotations": {QUEUE: "nowhere"}}, True),
    "to none": ({"annotations": {QUEUE: None}}, True),
    "to a queue by label": ({"labels": {QUEUE: "lacks"}}, True),
    "nowhere: something else is said": ({"annotations": {"a": "b"}, "labels": {"a": "b"}}, False),
}


@pytest.mark.parametrize(("change", "refused"), EDITS.values(), ids=EDITS)
@pytest.mark.parametrize("placed", [True, False], ids=["with a node", "without a node"])
async def test_a_pod_goes(plane: ControlPlane, change: Object, refused: bool, placed: bool) -> None:
    pod = a_pod("all")
    pod["metadata"]["generateName"] = "p-"
    del pod["metadata"]["name"]
    if placed:
        pod["spec"]["nodeName"] = "n"
    name = (await plane.post(PODS, pod))["metadata"]["name"]
    status, answer = await plane.request(
        "PATCH",
        f"{PODS}/{name}{TRY}",
        {"metadata": change},
        content_type=MERGE,
    )
    assert status == (403 if refused and placed else 200), answer


async def test_a_pod_of_another_scheduler_is_none_of_our_business(plane: ControlPlane) -> None:
    pod = a_pod("equal", scheduler="default-scheduler")
    status, answer = await plane.request("POST", f"/api/v1/namespaces/web/pods{TRY}", pod)
    assert status == 201, answer


async def test_what_a_queue_does_not_believe_is_no_reason_to_refuse_a_pod(
    plane: ControlPlane,
) -> None:
    pod = a_pod("modest", service_type="inference")
    status, answer = await plane.request("POST", f"/api/v1/namespaces/web/pods{TRY}", pod)
    assert status == 201, answer
