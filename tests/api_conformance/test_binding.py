"""``pods/binding``: the one write that schedules, and everything that stops it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.api_conformance.client import Api, Object
from tests.api_conformance.objects import a_binding, a_node, a_pod, pods


async def test_a_binding_sets_node_condition_and_annotations_at_once(api: Api, ns: str) -> None:
    path = pods(ns)
    await api.create("/api/v1/nodes", a_node(ns))
    pod = await api.create(path, a_pod("web", metadata={"annotations": {"a": "1", "b": "1"}}))
    binding = a_binding("web", ns, uid=pod["metadata"]["uid"], annotations={"b": "2", "c": "2"})
    async with api.watch(path, resourceVersion=pod["metadata"]["resourceVersion"]) as watch:
        answer = await api.create(f"{path}/web/binding", binding)
        kind, bound = await watch.next()
    assert (answer["kind"], answer["status"], answer["code"]) == ("Status", "Success", 201)
    assert kind == "MODIFIED"
    assert bound["spec"]["nodeName"] == ns
    assert bound["metadata"]["annotations"] == {"a": "1", "b": "2", "c": "2"}
    assert bound["metadata"]["generation"] == 1
    [condition] = bound["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "True")
    assert condition["lastTransitionTime"]
    assert await api.get(f"{path}/web") == bound


async def test_a_binding_turns_the_condition_that_said_unschedulable(api: Api, ns: str) -> None:
    path = f"{pods(ns)}/web"
    await api.create(pods(ns), a_pod("web"))
    refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "m"}
    await api.patch(f"{path}/status", {"status": {"conditions": [refused]}})
    await api.create(f"{path}/binding", a_binding("web", "n"))
    [condition] = (await api.get(path))["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "True")
    assert "reason" not in condition
    assert "message" not in condition


async def test_a_binding_clears_the_nomination(api: Api, ns: str) -> None:
    path = f"{pods(ns)}/web"
    await api.create(pods(ns), a_pod("web"))
    await api.patch(f"{path}/status", {"status": {"nominatedNodeName": "n"}})
    await api.create(f"{path}/binding", a_binding("web", "n"))
    assert "nominatedNodeName" not in (await api.get(path))["status"]


async def test_nobody_checks_that_the_node_exists(api: Api, ns: str) -> None:
    await api.create(pods(ns), a_pod("web"))
    await api.create(f"{pods(ns)}/web/binding", a_binding("web", f"{ns}-nowhere"))
    assert (await api.get(f"{pods(ns)}/web"))["spec"]["nodeName"] == f"{ns}-nowhere"


async def test_the_collection_of_bindings_binds_as_well(api: Api, ns: str) -> None:
    await api.create(pods(ns), a_pod("web"))
    await api.create(f"/api/v1/namespaces/{ns}/bindings", a_binding("web", "n"))
    assert (await api.get(f"{pods(ns)}/web"))["spec"]["nodeName"] == "n"


# sentence: pod (spec and metadata), binding, code, reason, part of the message
REFUSED: dict[str, tuple[Object, Object, int, str, str]] = {
    "a pod with gates": (
        a_pod("web", schedulingGates=[{"name": "wait"}]),
        a_binding("web", "n"),
        409,
        "Conflict",
        "pod web has non-empty .spec.schedulingGates",
    ),
    "another pod of the name": (
        a_pod("web"),
        a_binding("web", "n", uid="not-its-uid"),
        409,
        "Conflict",
        "UID in precondition: not-its-uid",
    ),
    "another version of the pod": (
        a_pod("web"),
        a_binding("web", "n", resourceVersion="1"),
        409,
        "Conflict",
        "ResourceVersion in precondition: 1",
    ),
    "a binding of another name": (
        a_pod("web"),
        a_binding("other", "n"),
        400,
        "BadRequest",
        "name in URL does not match name in Binding object",
    ),
    "a pod that does not exist": (
        a_pod("other"),
        a_binding("web", "n"),
        404,
        "NotFound",
        'pods "web" not found',
    ),
    "a target that is no node": (
        a_pod("web"),
        {**a_binding("web", "n"), "target": {"kind": "Pod", "name": "n"}},
        500,
        "",
        "target.kind",
    ),
    "a target without a name": (a_pod("web"), a_binding("web", ""), 500, "", "target.name"),
}


@pytest.mark.parametrize(
    ("pod", "binding", "code", "reason", "message"), REFUSED.values(), ids=REFUSED
)
async def test_refused(
    api: Api, ns: str, pod: Object, binding: Object, code: int, reason: str, message: str
) -> None:
    made = await api.create(pods(ns), pod)
    answer = await api.call("POST", f"{pods(ns)}/web/binding", binding)
    assert answer.refusal == (code, reason)
    assert message in answer.body["message"]
    assert await api.get(f"{pods(ns)}/{made['metadata']['name']}") == made


@pytest.mark.parametrize("node", ["n", "other"])
async def test_a_bound_pod_is_not_bound_again(api: Api, ns: str, node: str) -> None:
    await api.create(pods(ns), a_pod("web"))
    await api.create(f"{pods(ns)}/web/binding", a_binding("web", "n"))
    answer = await api.call("POST", f"{pods(ns)}/web/binding", a_binding("web", node))
    assert answer.refusal == (409, "Conflict")
    assert answer.body["message"] == (
        'Operation cannot be fulfilled on pods/binding "web": '
        'pod web is already assigned to node "n"'
    )
    assert answer.body["details"] == {"name": "web", "kind": "pods/binding"}


async def test_a_pod_that_goes_is_not_bound(api: Api, ns: str) -> None:
    path = f"{pods(ns)}/web"
    await api.create(pods(ns), a_pod("web", metadata={"finalizers": ["a.io/wait"]}))
    await api.delete(path)
    answer = await api.call("POST", f"{path}/binding", a_binding("web", "n"))
    assert answer.refusal == (409, "Conflict")
    assert "pod web is being deleted, cannot be assigned to a host" in answer.body["message"]


async def test_of_bindings_at_once_one_wins(api: Api, ns: str) -> None:
    await api.create(pods(ns), a_pod("web"))

    async def bind(node: str) -> tuple[int, Any]:
        answer = await api.call("POST", f"{pods(ns)}/web/binding", a_binding("web", node))
        return answer.status, node

    answers = await asyncio.gather(*(bind(f"n{number}") for number in range(8)))
    won = [node for status, node in answers if status == 201]
    assert sorted({status for status, _ in answers}) == [201, 409]
    assert won == [(await api.get(f"{pods(ns)}/web"))["spec"]["nodeName"]]


async def test_a_dry_run_binds_nothing(api: Api, ns: str) -> None:
    made = await api.create(pods(ns), a_pod("web"))
    answer = await api.call(
        "POST", f"{pods(ns)}/web/binding", a_binding("web", "n"), query={"dryRun": "All"}
    )
    assert answer.status == 201
    assert await api.get(f"{pods(ns)}/web") == made
