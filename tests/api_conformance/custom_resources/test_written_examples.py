"""What both servers say to the examples of the designs as they are written, and corrected."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api_conformance.client import Api, Object
from tests.simulation.seeds.documents import corrected, documents

#: The kind of each example → where it is created.
PATHS = {
    "PodGroup": "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/{}/podgroups",
    "Queue": "/apis/scheduling.volcano.sh/v1beta1/queues",
    "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
    "Job": "/apis/batch.volcano.sh/v1alpha1/namespaces/{}/jobs",
}
BAD, GOOD = (400, "BadRequest"), (201, "")
# sentence: example, which of its documents, what the server says to it
WRITTEN: dict[str, tuple[str, int, tuple[int, str]]] = {
    "a PodGroup of the version v1alpha1 of no group": ("gang-a", 0, BAD),
    "and one whose annotations are a number and a list": ("gang-group", 0, BAD),
    "the queue of services": ("queues", 0, GOOD),
    "the queue of training": ("queues", 1, GOOD),
    "a PriorityClass": ("priority", 0, GOOD),
    "a training job": ("training", 0, GOOD),
}
# sentence: example whose documents are annotations of pods, what the server says to such a pod
ON_PODS: dict[str, tuple[str, tuple[int, str]]] = {
    "a number": ("annotations-basic", BAD),
    "a list": ("annotations-one-group", BAD),
    "a number beside an empty text": ("annotations-two-groups", BAD),
    "texts": ("bundles-one-gang", GOOD),
    "texts of two gangs": ("bundles-two-gangs", GOOD),
}


async def said(api: Api, path: str, body: Object) -> tuple[int, str]:
    """Code and reason; nothing is kept where the server can."""
    answer = await api.call("POST", path, body, query={"dryRun": "All"})
    return (answer.status, "") if answer.status == 201 else answer.refusal


def a_pod(document: Object) -> Object:
    container = {"name": "c", "image": "img"}
    meta: dict[str, Any] = {"name": "p", **document["metadata"]}
    head = {"apiVersion": "v1", "kind": "Pod", "metadata": meta}
    return {**head, "spec": {"containers": [container]}}


@pytest.mark.parametrize(("name", "number", "verdict"), WRITTEN.values(), ids=WRITTEN)
async def test_an_example_as_it_is_written(
    served: Api, ns: str, name: str, number: int, verdict: tuple[int, str]
) -> None:
    document = documents(name)[number]
    path = PATHS[document["kind"]].format(ns)
    document["metadata"].pop("namespace", None)
    assert await said(served, path, document) == verdict
    assert await said(served, path, _with_groups(document)) == GOOD


@pytest.mark.parametrize(("name", "verdict"), ON_PODS.values(), ids=ON_PODS)
async def test_annotations_of_pods_as_they_are_written(
    served: Api, ns: str, name: str, verdict: tuple[int, str]
) -> None:
    path = f"/api/v1/namespaces/{ns}/pods"
    for document in documents(name):
        assert await said(served, path, a_pod(document)) == verdict
        assert await said(served, path, a_pod(corrected(document))) in (
            GOOD,
            (409, "AlreadyExists"),
        )


async def test_a_namespace_in_capitals_is_refused(served: Api) -> None:
    (group,) = documents("gang-group")
    meta = {"name": group["metadata"]["namespace"]}
    assert await said(served, "/api/v1/namespaces", {"metadata": meta}) == (422, "Invalid")


def _with_groups(document: Object) -> Object:
    made = corrected(document)
    return {**made, "metadata": {**made["metadata"], "name": "corrected"}}
