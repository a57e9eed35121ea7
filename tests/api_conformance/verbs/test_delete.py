"""Deleting: grace, preconditions, finalizers, collections."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from arranger.kube.client.status import Status
from tests.api_conformance.client import Api, Object
from tests.api_conformance.objects import LEASES, a_binding, a_lease, a_node, a_pod, pods
from tests.controlplane.harness import until


async def a_bound_pod(api: Api, ns: str, **spec: Any) -> str:
    path = f"{pods(ns)}/web"
    await api.create(pods(ns), a_pod("web", **spec))
    await api.create(f"{path}/binding", a_binding("web", ns))

    # The real server reckons grace with the pod as its watch cache has it: to be asked of a busy
    # one only after the cache has seen the binding, or the pod goes at once as an unbound one.
    async def cached() -> bool:
        return "nodeName" in (await api.get(path, resourceVersion="0"))["spec"]

    await until(cached, what="the binding in the watch cache")
    return path


async def test_an_unbound_pod_goes_at_once(api: Api, ns: str) -> None:
    made = await api.create(pods(ns), a_pod("web"))
    async with api.watch(pods(ns), resourceVersion=made["metadata"]["resourceVersion"]) as watch:
        gone = await api.delete(f"{pods(ns)}/web")
        events = [await watch.next() for _ in range(2)]
    assert (gone["kind"], gone["metadata"]["uid"]) == ("Pod", made["metadata"]["uid"])
    assert gone["metadata"]["deletionTimestamp"]
    assert gone["metadata"]["deletionGracePeriodSeconds"] == 0
    assert [kind for kind, _ in events] == ["MODIFIED", "DELETED"]
    assert (await api.call("GET", f"{pods(ns)}/web")).refusal == (404, "NotFound")


async def test_a_bound_pod_waits_for_its_kubelet(api: Api, ns: str) -> None:
    path = await a_bound_pod(api, ns)
    going = await api.delete(path)
    assert going["metadata"]["deletionGracePeriodSeconds"] == 30
    assert going["metadata"]["deletionTimestamp"]
    assert going["metadata"]["generation"] == 2
    assert await api.get(path) == going
    # A second request changes nothing; the kubelet's own, without grace, removes it.
    assert await api.delete(path) == going
    await api.delete(path, {"gracePeriodSeconds": 0})
    assert (await api.call("GET", path)).refusal == (404, "NotFound")


GRACE: dict[str, tuple[Object, Object | None, int]] = {
    "as the pod says": ({"terminationGracePeriodSeconds": 5}, None, 5),
    "as the request says": ({}, {"gracePeriodSeconds": 7}, 7),
    "the request before the pod": (
        {"terminationGracePeriodSeconds": 5},
        {"gracePeriodSeconds": 7},
        7,
    ),
}


@pytest.mark.parametrize(("spec", "options", "seconds"), GRACE.values(), ids=GRACE)
async def test_grace(api: Api, ns: str, spec: Object, options: Object | None, seconds: int) -> None:
    path = await a_bound_pod(api, ns, **spec)
    going = await api.delete(path, options)
    assert going["metadata"]["deletionGracePeriodSeconds"] == seconds


async def test_grace_given_in_the_query_counts(api: Api, ns: str) -> None:
    path = await a_bound_pod(api, ns)
    answer = await api.call("DELETE", path, query={"gracePeriodSeconds": "3"})
    assert answer.body["metadata"]["deletionGracePeriodSeconds"] == 3


async def test_grace_is_only_ever_shortened(api: Api, ns: str) -> None:
    path = await a_bound_pod(api, ns)
    for asked, left in ((9, 9), (5, 5), (20, 5)):
        going = await api.delete(path, {"gracePeriodSeconds": asked})
        assert going["metadata"]["deletionGracePeriodSeconds"] == left


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
async def test_a_finished_pod_goes_at_once(api: Api, ns: str, phase: str) -> None:
    path = await a_bound_pod(api, ns)
    await api.patch(f"{path}/status", {"status": {"phase": phase}})
    await api.delete(path)
    assert (await api.call("GET", path)).refusal == (404, "NotFound")


PRECONDITIONS: dict[str, Object] = {
    "another uid": {"uid": "not-its-uid"},
    "another version": {"resourceVersion": "1"},
}


@pytest.mark.parametrize("preconditions", PRECONDITIONS.values(), ids=PRECONDITIONS)
@pytest.mark.parametrize("bound", [False, True], ids=["unbound", "bound"])
async def test_a_delete_with_a_false_precondition_conflicts(
    api: Api, ns: str, preconditions: Object, bound: bool
) -> None:
    path = f"{pods(ns)}/web"
    await api.create(pods(ns), a_pod("web"))
    if bound:
        await api.create(f"{path}/binding", a_binding("web", ns))
    answer = await api.call("DELETE", path, {"preconditions": preconditions})
    assert answer.refusal == (409, "Conflict")
    status = msgspec.convert(answer.body, Status)
    assert status.names_another_uid == ("uid" in preconditions)
    assert "deletionTimestamp" not in (await api.get(path))["metadata"]


async def test_a_delete_with_true_preconditions_succeeds(api: Api, ns: str) -> None:
    made = (await api.create(pods(ns), a_pod("web")))["metadata"]
    preconditions = {"uid": made["uid"], "resourceVersion": made["resourceVersion"]}
    await api.delete(f"{pods(ns)}/web", {"preconditions": preconditions})
    assert await api.names(pods(ns)) == []


async def test_a_finalizer_holds_the_object_until_it_is_taken_off(api: Api, ns: str) -> None:
    path = f"{LEASES.format(ns)}/kept"
    made = await api.create(
        LEASES.format(ns), a_lease("kept", metadata={"finalizers": ["a.io/wait"]})
    )
    version = made["metadata"]["resourceVersion"]
    async with api.watch(LEASES.format(ns), resourceVersion=version) as watch:
        going = await api.delete(path)
        kind, marked = await watch.next()
        assert kind == "MODIFIED"
        assert marked["metadata"]["deletionTimestamp"]
        assert marked["metadata"]["deletionGracePeriodSeconds"] == 0
        assert marked == going
        again = await api.delete(path)
        assert again["metadata"]["resourceVersion"] == going["metadata"]["resourceVersion"]
        await api.patch(path, {"metadata": {"finalizers": None}})
        assert await watch.names(1) == [("DELETED", "kept")]
    assert (await api.call("GET", path)).refusal == (404, "NotFound")


async def test_a_finalizer_holds_an_unbound_pod(api: Api, ns: str) -> None:
    path = f"{pods(ns)}/web"
    await api.create(pods(ns), a_pod("web", metadata={"finalizers": ["a.io/wait"]}))
    going = await api.delete(path)
    assert going["metadata"]["deletionGracePeriodSeconds"] == 0
    assert (await api.get(path))["metadata"]["deletionTimestamp"]
    await api.patch(path, {"metadata": {"finalizers": []}})
    assert (await api.call("GET", path)).refusal == (404, "NotFound")


async def test_what_goes_takes_no_new_finalizer(api: Api, ns: str) -> None:
    path = f"{LEASES.format(ns)}/kept"
    await api.create(LEASES.format(ns), a_lease("kept", metadata={"finalizers": ["a.io/wait"]}))
    await api.delete(path)
    body = {"metadata": {"finalizers": ["a.io/wait", "a.io/late"]}}
    answer = await api.call("PATCH", path, body, content_type="application/merge-patch+json")
    assert answer.refusal == (422, "Invalid")
    assert answer.causes == [("FieldValueForbidden", "metadata.finalizers")]


async def test_a_name_is_taken_until_its_object_is_gone(api: Api, ns: str) -> None:
    path = await a_bound_pod(api, ns)
    await api.delete(path)
    answer = await api.call("POST", pods(ns), a_pod("web"))
    assert answer.refusal == (409, "AlreadyExists")
    first = await api.get(path)
    await api.delete(path, {"gracePeriodSeconds": 0})
    second = await api.create(pods(ns), a_pod("web"))
    assert second["metadata"]["uid"] != first["metadata"]["uid"]


async def test_a_dry_run_deletes_nothing(api: Api, ns: str) -> None:
    made = await api.create(pods(ns), a_pod("web"))
    await api.delete(f"{pods(ns)}/web", {"dryRun": ["All"]})
    assert await api.get(f"{pods(ns)}/web") == made


@pytest.mark.parametrize("kind", ["nodes", "leases"])
async def test_most_deletions_answer_with_a_success(api: Api, ns: str, kind: str) -> None:
    path, body = {
        "nodes": ("/api/v1/nodes", a_node(ns)),
        "leases": (LEASES.format(ns), a_lease(ns)),
    }[kind]
    made = await api.create(path, body)
    answer = await api.delete(f"{path}/{ns}")
    assert (answer["kind"], answer["status"]) == ("Status", "Success")
    assert answer["details"]["name"] == ns
    assert answer["details"]["uid"] == made["metadata"]["uid"]


async def test_options_of_another_kind_are_refused(api: Api, ns: str) -> None:
    await api.create(pods(ns), a_pod("web"))
    answer = await api.call("DELETE", f"{pods(ns)}/web", {"kind": "Nope", "apiVersion": "v1"})
    assert answer.refusal == (400, "BadRequest")


async def test_a_collection_is_deleted_by_selector(api: Api, ns: str) -> None:
    path = LEASES.format(ns)
    for name, app in (("a", "web"), ("b", "web"), ("c", "db")):
        await api.create(path, a_lease(name, metadata={"labels": {"app": app}}))
    answer = await api.call("DELETE", path, query={"labelSelector": "app=web"})
    assert answer.status == 200
    assert answer.body["kind"] == "LeaseList"
    assert sorted(item["metadata"]["name"] for item in answer.body["items"]) == ["a", "b"]
    assert await api.names(path) == ["c"]
