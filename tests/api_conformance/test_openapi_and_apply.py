"""What ``kubectl apply`` asks for: that the server checks fields, and patches that create."""

from __future__ import annotations

import pytest

from tests.api_conformance.client import Api, Object
from tests.api_conformance.objects import LEASES, a_lease, a_pod, a_widget, pods

APPLY = "application/apply-patch+yaml"
MANAGER = {"fieldManager": "suite"}
# path of the group's version: kind
DOCUMENTS = {"api/v1": "Pod", "apis/coordination.k8s.io/v1": "Lease", "apis/policy/v1": None}


@pytest.mark.parametrize("base", DOCUMENTS)
async def test_patches_are_documented_to_check_fields(api: Api, base: str) -> None:
    where = (await api.get("/openapi/v3"))["paths"][base]["serverRelativeURL"]
    path, _, query = where.partition("?")
    answer = await api.call("GET", path, query=dict(p.split("=") for p in query.split("&") if p))
    patches: list[Object] = [
        item["patch"]
        for item in answer.body["paths"].values()
        # Not those that are passed on to pods and services.
        if item.get("patch", {}).get("x-kubernetes-action") == "patch"
    ]
    kinds = {patch["x-kubernetes-group-version-kind"]["kind"] for patch in patches}
    assert (DOCUMENTS[base] or "PodDisruptionBudget") in kinds
    for patch in patches:
        assert "fieldValidation" in {p["name"] for p in patch["parameters"]}


async def test_a_document_of_nothing_is_not_found(api: Api) -> None:
    assert (await api.call("GET", "/openapi/v3/apis/nosuch.arranger.io/v1")).status == 404


async def test_applying_creates_and_then_changes(api: Api, ns: str) -> None:
    path = f"{LEASES.format(ns)}/l"
    for status, holder in ((201, "one"), (200, "two")):
        body = a_lease("l", holderIdentity=holder)
        answer = await api.call("PATCH", path, body, query=MANAGER, content_type=APPLY)
        assert (answer.status, answer.body["spec"]) == (status, {"holderIdentity": holder})


async def test_applying_to_a_pod_merges_its_lists_by_key(api: Api, ns: str) -> None:
    path = f"{pods(ns)}/web"
    await api.call("PATCH", path, a_pod("web"), query=MANAGER, content_type=APPLY)
    body = a_pod("web", containers=[{"name": "main", "image": "other"}])
    answer = await api.call("PATCH", path, body, query=MANAGER, content_type=APPLY)
    assert answer.status == 200
    [container] = answer.body["spec"]["containers"]
    assert (container["image"], container["terminationMessagePolicy"]) == ("other", "File")


async def test_applying_creates_a_widget(api: Api, widgets: str) -> None:
    answer = await api.call(
        "PATCH", f"{widgets}/w", a_widget("w"), query=MANAGER, content_type=APPLY
    )
    assert (answer.status, answer.body["spec"]) == (201, {"size": 1, "colour": "red"})


async def test_other_patches_create_nothing(api: Api, ns: str) -> None:
    body = a_lease("l")
    answer = await api.call(
        "PATCH", f"{LEASES.format(ns)}/l", body, content_type="application/merge-patch+json"
    )
    assert answer.refusal == (404, "NotFound")
