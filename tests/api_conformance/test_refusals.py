"""What the server refuses, with which code and reason: programs decide by them."""

from __future__ import annotations

import pytest

from tests.api_conformance.client import (
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_PATCH,
    Api,
)
from tests.api_conformance.objects import LEASES, a_lease, a_node, a_pod, pods

PODS = "/api/v1/namespaces/{}/pods"
WEB = f"{PODS}/web"
ELSEWHERE = "/api/v1/namespaces/{}-not/pods"

# sentence: method, path ({} is the namespace, where a pod "web" exists), body, code, reason
CREATING: dict[str, tuple[str, str, object, int, str]] = {
    "a pod without containers": ("POST", PODS, a_pod("x", containers=[]), 422, "Invalid"),
    "a name that is no DNS name": ("POST", PODS, a_pod("Not_Valid"), 422, "Invalid"),
    "no name at all": ("POST", PODS, {**a_pod("x"), "metadata": {}}, 422, "Invalid"),
    "a body that is not JSON": ("POST", PODS, b"{nope", 400, "BadRequest"),
    "an empty body": ("POST", PODS, b"", 400, "BadRequest"),
    "a spec that is no object": ("POST", PODS, {**a_pod("x"), "spec": "x"}, 400, "BadRequest"),
    "another kind than the path's": ("POST", PODS, a_node("x"), 400, "BadRequest"),
    "another namespace than the path's": (
        "POST",
        PODS,
        a_pod("x", metadata={"namespace": "other"}),
        400,
        "BadRequest",
    ),
    "a namespace that does not exist": ("POST", ELSEWHERE, a_pod("x"), 404, "NotFound"),
    "a name that is taken": ("POST", PODS, a_pod("web"), 409, "AlreadyExists"),
    "a version before there is one": (
        "POST",
        PODS,
        a_pod("x", metadata={"resourceVersion": "3"}),
        500,
        "",
    ),
    "a class of priority nobody defined": (
        "POST",
        PODS,
        a_pod("x", priorityClassName="nosuch"),
        403,
        "Forbidden",
    ),
    "a priority that no class gives": ("POST", PODS, a_pod("x", priority=7), 403, "Forbidden"),
    "an unknown restart policy": (
        "POST",
        PODS,
        a_pod("x", restartPolicy="Sometimes"),
        422,
        "Invalid",
    ),
    "a toleration with an unknown operator": (
        "POST",
        PODS,
        a_pod("x", tolerations=[{"key": "a", "operator": "Perhaps"}]),
        422,
        "Invalid",
    ),
    "two containers of one name": (
        "POST",
        PODS,
        a_pod("x", containers=[{"name": "a", "image": "i"}, {"name": "a", "image": "i"}]),
        422,
        "Invalid",
    ),
    "a label that is none": (
        "POST",
        PODS,
        a_pod("x", metadata={"labels": {"a": "not valid!"}}),
        422,
        "Invalid",
    ),
    "a request above its limit": (
        "POST",
        PODS,
        a_pod(
            "x",
            containers=[
                {
                    "name": "a",
                    "image": "i",
                    "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}},
                }
            ],
        ),
        422,
        "Invalid",
    ),
    "a quantity that is none": (
        "POST",
        PODS,
        a_pod(
            "x",
            containers=[{"name": "a", "image": "i", "resources": {"requests": {"cpu": "lots"}}}],
        ),
        400,
        "BadRequest",
    ),
    "a lease of negative length": (
        "POST",
        LEASES,
        a_lease("x", leaseDurationSeconds=-1),
        422,
        "Invalid",
    ),
}

FINDING: dict[str, tuple[str, str, object, int, str]] = {
    "a pod that does not exist": ("GET", PODS + "/nosuch", None, 404, "NotFound"),
    "deleting a pod that does not exist": ("DELETE", PODS + "/nosuch", None, 404, "NotFound"),
    "a resource of no kind": ("GET", "/api/v1/namespaces/{}/nothings", None, 404, "NotFound"),
    "a subresource of no kind": ("GET", WEB + "/nothing", None, 404, "NotFound"),
    "patching a collection": ("PATCH", PODS, {}, 405, "MethodNotAllowed"),
    "putting a collection": ("PUT", PODS, {}, 405, "MethodNotAllowed"),
    "posting to an object": ("POST", WEB, {}, 405, "MethodNotAllowed"),
    "reading a binding": ("GET", WEB + "/binding", None, 405, "MethodNotAllowed"),
}

REPLACING: dict[str, tuple[str, str, object, int, str]] = {
    "a stale version": (
        "PUT",
        WEB,
        a_pod("web", metadata={"resourceVersion": "1"}),
        409,
        "Conflict",
    ),
    "a version that is no number": (
        "PUT",
        WEB,
        a_pod("web", metadata={"resourceVersion": "abc"}),
        500,
        "",
    ),
    "another name than the path's": ("PUT", WEB, a_pod("other"), 400, "BadRequest"),
    "another pod of the name": (
        "PUT",
        WEB,
        a_pod("web", metadata={"uid": "not-its-uid"}),
        409,
        "Conflict",
    ),
    "a pod that does not exist": ("PUT", PODS + "/nosuch", a_pod("nosuch"), 404, "NotFound"),
    "a node that the scheduler should choose": (
        "PUT",
        WEB,
        a_pod("web", nodeName="n"),
        422,
        "Invalid",
    ),
    "other containers": (
        "PUT",
        WEB,
        a_pod("web", containers=[{"name": "other", "image": "i"}]),
        422,
        "Invalid",
    ),
    "a gate that was not there": (
        "PUT",
        WEB,
        a_pod("web", schedulingGates=[{"name": "late"}]),
        422,
        "Invalid",
    ),
    "another scheduler": ("PUT", WEB, a_pod("web", schedulerName="other"), 422, "Invalid"),
}

REQUESTS = {
    f"{what} {sentence}": case
    for what, cases in {
        "creating with": CREATING,
        "looking for": FINDING,
        "replacing with": REPLACING,
    }.items()
    for sentence, case in cases.items()
}


@pytest.mark.parametrize(
    ("method", "path", "body", "code", "reason"), REQUESTS.values(), ids=REQUESTS
)
async def test_refused(
    api: Api, ns: str, method: str, path: str, body: object, code: int, reason: str
) -> None:
    await api.create(pods(ns), a_pod("web"))
    content_type = MERGE_PATCH if method == "PATCH" else "application/json"
    answer = await api.call(method, path.format(ns), body, content_type=content_type)
    assert answer.refusal == (code, reason)


# sentence: content type, body, code, reason
PATCHES: dict[str, tuple[str, object, int, str]] = {
    "a JSON patch that is not JSON": (JSON_PATCH, b"{nope", 400, "BadRequest"),
    "a merge patch that is not JSON": (MERGE_PATCH, b"{nope", 400, "BadRequest"),
    "a strategic patch that is not JSON": (STRATEGIC_PATCH, b"{nope", 400, "BadRequest"),
    "a content type that is no patch": ("application/json", {}, 415, "UnsupportedMediaType"),
    "a test that fails": (
        JSON_PATCH,
        [{"op": "test", "path": "/metadata/name", "value": "other"}],
        422,
        "Invalid",
    ),
    "removing what is not there": (
        JSON_PATCH,
        [{"op": "remove", "path": "/metadata/annotations/nosuch"}],
        422,
        "Invalid",
    ),
    "a stale version": (MERGE_PATCH, {"metadata": {"resourceVersion": "1"}}, 409, "Conflict"),
    "another uid": (MERGE_PATCH, {"metadata": {"uid": "not-its-uid"}}, 422, "Invalid"),
    "another uid, strategically": (
        STRATEGIC_PATCH,
        {"metadata": {"uid": "not-its-uid"}},
        422,
        "Invalid",
    ),
    "another name": (MERGE_PATCH, {"metadata": {"name": "other"}}, 400, "BadRequest"),
    "a node that the scheduler should choose": (
        STRATEGIC_PATCH,
        {"spec": {"nodeName": "n"}},
        422,
        "Invalid",
    ),
    "a label that is none": (
        MERGE_PATCH,
        {"metadata": {"labels": {"a": "not valid!"}}},
        422,
        "Invalid",
    ),
    "a container without its key": (
        STRATEGIC_PATCH,
        {"spec": {"containers": [{"image": "new"}]}},
        500,
        "",
    ),
    "a value of the wrong type": (MERGE_PATCH, {"spec": {"priority": "high"}}, 422, "Invalid"),
}


@pytest.mark.parametrize(("content_type", "body", "code", "reason"), PATCHES.values(), ids=PATCHES)
async def test_refused_patch(
    api: Api, ns: str, content_type: str, body: object, code: int, reason: str
) -> None:
    made = await api.create(pods(ns), a_pod("web"))
    answer = await api.call("PATCH", f"{pods(ns)}/web", body, content_type=content_type)
    assert answer.refusal == (code, reason)
    assert await api.get(f"{pods(ns)}/web") == made


async def test_a_patch_of_what_does_not_exist_is_not_found(api: Api, ns: str) -> None:
    body = {"metadata": {"labels": {"a": "b"}}}
    answer = await api.call("PATCH", f"{pods(ns)}/nosuch", body, content_type=MERGE_PATCH)
    assert answer.refusal == (404, "NotFound")


async def test_a_body_of_another_content_type_is_refused(api: Api, ns: str) -> None:
    answer = await api.call("POST", pods(ns), a_pod("web"), content_type="text/plain")
    assert answer.refusal == (415, "UnsupportedMediaType")


async def test_a_group_of_no_api_is_not_found(api: Api) -> None:
    assert (await api.call("GET", "/apis/nosuch.arranger.io/v1/things")).status == 404


async def test_a_refusal_names_the_object_and_the_field(api: Api, ns: str) -> None:
    invalid = await api.call("POST", pods(ns), a_pod("web", containers=[]))
    assert invalid.causes == [("FieldValueRequired", "spec.containers")]
    details = invalid.body["details"]
    assert (details["name"], details["kind"]) == ("web", "Pod")
    missing = await api.call("GET", f"{pods(ns)}/nosuch")
    assert missing.body["message"] == 'pods "nosuch" not found'
    assert missing.body["details"] == {"name": "nosuch", "kind": "pods"}
    await api.create(LEASES.format(ns), a_lease("mine"))
    taken = await api.call("POST", LEASES.format(ns), a_lease("mine"))
    assert taken.body["message"] == 'leases.coordination.k8s.io "mine" already exists'
    assert taken.body["details"] == {
        "name": "mine",
        "group": "coordination.k8s.io",
        "kind": "leases",
    }
