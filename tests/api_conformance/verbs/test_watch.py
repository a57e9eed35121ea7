"""Watches: where they start, what they show, how they end."""

from __future__ import annotations

import pytest

from tests.api_conformance.client import Api
from tests.api_conformance.objects import (
    GROUP,
    LEASES,
    a_binding,
    a_lease,
    a_node,
    a_pod,
    pods,
    register,
)

INITIAL_EVENTS_END = "k8s.io/initial-events-end"


async def test_a_watch_from_a_list_shows_what_follows_it(api: Api, ns: str) -> None:
    path = LEASES.format(ns)
    await api.create(path, a_lease("before"))
    version = (await api.get(path))["metadata"]["resourceVersion"]
    made = await api.create(path, a_lease("mine"))
    async with api.watch(path, resourceVersion=version) as watch:
        assert watch.status == 200
        assert await watch.next() == ("ADDED", made)
        changed = await api.patch(f"{path}/mine", {"metadata": {"labels": {"a": "b"}}})
        assert await watch.next() == ("MODIFIED", changed)
        await api.delete(f"{path}/mine")
        kind, last = await watch.next()
        assert (kind, last["metadata"]["name"]) == ("DELETED", "mine")
        assert int(last["metadata"]["resourceVersion"]) > int(
            changed["metadata"]["resourceVersion"]
        )


@pytest.mark.parametrize("version", [None, "", "0"])
async def test_a_watch_from_no_version_starts_with_what_there_is(
    api: Api, ns: str, version: str | None
) -> None:
    path = LEASES.format(ns)
    for name in ("a", "b"):
        await api.create(path, a_lease(name))
    query = {} if version is None else {"resourceVersion": version}
    async with api.watch(path, **query) as watch:
        assert sorted(await watch.names(2)) == [("ADDED", "a"), ("ADDED", "b")]
        await api.create(path, a_lease("c"))
        assert await watch.names(1) == [("ADDED", "c")]


async def test_a_streaming_list_ends_with_a_marked_bookmark(api: Api, ns: str) -> None:
    path = pods(ns)
    for name in ("a", "b"):
        await api.create(path, a_pod(name))
    query = {
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
    }
    async with api.watch(path, **query) as watch:
        assert sorted(await watch.names(2)) == [("ADDED", "a"), ("ADDED", "b")]
        kind, mark = await watch.next()
        assert (kind, mark["kind"], mark["apiVersion"]) == ("BOOKMARK", "Pod", "v1")
        assert mark["metadata"]["annotations"] == {INITIAL_EVENTS_END: "true"}
        version = mark["metadata"]["resourceVersion"]
        await api.create(path, a_pod("c"))
        assert await watch.names(1) == [("ADDED", "c")]
    async with api.watch(path, resourceVersion=version) as watch:
        assert await watch.names(1) == [("ADDED", "c")]


async def test_a_streaming_list_has_all_that_was_written_before(api: Api, ns: str) -> None:
    path = LEASES.format(ns)
    query = {
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
    }
    for number in range(10):
        await api.create(path, a_lease(f"l{number}"))
        seen = 0
        async with api.watch(path, **query) as watch:
            while (await watch.next())[0] == "ADDED":
                seen += 1
        assert seen == number + 1


REFUSED = {
    "initial events without a match": ({"sendInitialEvents": "true"}, 422, "Invalid"),
    "a match without initial events": (
        {"resourceVersionMatch": "NotOlderThan", "resourceVersion": "1"},
        422,
        "Invalid",
    ),
    "a field that pods are not selected by": ({"fieldSelector": "spec.foo=x"}, 400, "BadRequest"),
    "a label selector that never closes": ({"labelSelector": "a in (b"}, 400, "BadRequest"),
    "a version that is no number": ({"resourceVersion": "abc"}, 500, ""),
}


@pytest.mark.parametrize(("query", "code", "reason"), REFUSED.values(), ids=REFUSED)
async def test_refused(api: Api, ns: str, query: dict[str, str], code: int, reason: str) -> None:
    async with api.watch(pods(ns), **query) as watch:
        assert (await watch.answer()).refusal == (code, reason)


async def test_a_watch_ends_when_its_time_is_over(api: Api, ns: str) -> None:
    await api.create(LEASES.format(ns), a_lease("a"))
    async with api.watch(LEASES.format(ns), timeoutSeconds="1") as watch:
        events = await watch.rest()
    assert [(kind, obj["metadata"]["name"]) for kind, obj in events] == [("ADDED", "a")]


async def test_an_object_enters_and_leaves_a_selection(api: Api, ns: str) -> None:
    path = pods(ns)
    version = (await api.get(path))["metadata"]["resourceVersion"]
    await api.create(path, a_pod("web"))
    async with api.watch(path, resourceVersion=version, labelSelector="app=web") as watch:
        await api.patch(f"{path}/web", {"metadata": {"labels": {"app": "web"}}})
        assert await watch.names(1) == [("ADDED", "web")]
        await api.patch(f"{path}/web", {"metadata": {"annotations": {"a": "b"}}})
        assert await watch.names(1) == [("MODIFIED", "web")]
        left = await api.patch(f"{path}/web", {"metadata": {"labels": {"app": "other"}}})
        kind, last = await watch.next()
        # It is shown as it was last selected, at the version that took it out.
        assert (kind, last["metadata"]["labels"]) == ("DELETED", {"app": "web"})
        assert last["metadata"]["resourceVersion"] == left["metadata"]["resourceVersion"]


async def test_a_bound_pod_leaves_the_selection_of_the_unbound(api: Api, ns: str) -> None:
    path = pods(ns)
    await api.create("/api/v1/nodes", a_node(ns))
    version = (await api.get(path))["metadata"]["resourceVersion"]
    async with (
        api.watch(path, resourceVersion=version, fieldSelector="spec.nodeName=") as unbound,
        api.watch(path, resourceVersion=version, fieldSelector=f"spec.nodeName={ns}") as bound,
    ):
        await api.create(path, a_pod("web"))
        await api.create(f"{path}/web/binding", a_binding("web", ns))
        assert await unbound.names(2) == [("ADDED", "web"), ("DELETED", "web")]
        assert await bound.names(1) == [("ADDED", "web")]


async def test_one_object_may_be_watched_by_name(api: Api, ns: str) -> None:
    path = LEASES.format(ns)
    version = (await api.get(path))["metadata"]["resourceVersion"]
    query = {"resourceVersion": version, "fieldSelector": "metadata.name=mine"}
    async with api.watch(path, **query) as watch:
        for name in ("other", "mine"):
            await api.create(path, a_lease(name))
        assert await watch.names(1) == [("ADDED", "mine")]


async def test_a_watch_of_all_namespaces_sees_this_one(api: Api, ns: str) -> None:
    version = (await api.get("/api/v1/pods"))["metadata"]["resourceVersion"]
    async with api.watch("/api/v1/pods", resourceVersion=version) as watch:
        await api.create(pods(ns), a_pod("web"))
        found = await watch.until("ADDED", "web")
        assert found["metadata"]["namespace"] == ns


async def test_a_write_that_changes_nothing_is_not_seen(api: Api, ns: str) -> None:
    path = LEASES.format(ns)
    made = await api.create(path, a_lease("mine"))
    version = made["metadata"]["resourceVersion"]
    async with api.watch(path, resourceVersion=version) as watch:
        await api.put(f"{path}/mine", made)
        await api.create(path, a_lease("next"))
        assert await watch.names(1) == [("ADDED", "next")]


async def test_events_come_in_the_order_of_their_versions(api: Api, ns: str) -> None:
    path = LEASES.format(ns)
    version = (await api.get(path))["metadata"]["resourceVersion"]
    async with api.watch(path, resourceVersion=version) as watch:
        for number in range(10):
            await api.create(path, a_lease(f"l{number}"))
            await api.patch(f"{path}/l0", {"spec": {"leaseTransitions": number + 1}})
        versions = [int((await watch.next())[1]["metadata"]["resourceVersion"]) for _ in range(20)]
    assert versions == sorted(set(versions))


async def test_a_version_forgotten_is_gone_inside_the_stream(api: Api, ns: str) -> None:
    # The server has never remembered what was before this kind was registered.
    kind = f"Gone{ns.removeprefix('suite-')}".capitalize()
    await register(api, kind)
    path = f"/apis/{GROUP}/v1/namespaces/{ns}/{kind.lower()}s"
    async with api.watch(path, resourceVersion="1") as watch:
        assert watch.status == 200
        seen, status = await watch.next()
    assert (seen, status["kind"], status["code"]) == ("ERROR", "Status", 410)
    assert status["reason"] in ("Expired", "Gone")
