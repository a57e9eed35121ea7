"""Lists: selectors, pages, and from which moment they are."""

from __future__ import annotations

import pytest
import pytest_asyncio

from tests.api_conformance.client import Api
from tests.api_conformance.objects import LEASES, a_binding, a_lease, a_node, a_pod, pods


@pytest_asyncio.fixture(loop_scope="session")
async def three_pods(api: Api, ns: str) -> str:
    """Pods a (bound), b and c (running, of another scheduler) with labels."""
    path = pods(ns)
    await api.create("/api/v1/nodes", a_node(ns))
    await api.create(path, a_pod("a", metadata={"labels": {"app": "web", "tier": "front"}}))
    await api.create(path, a_pod("b", metadata={"labels": {"app": "web"}}))
    await api.create(path, a_pod("c", metadata={"labels": {"app": "db"}}, schedulerName="other"))
    await api.create(f"{path}/a/binding", a_binding("a", ns))
    await api.patch(f"{path}/c/status", {"status": {"phase": "Running"}})
    return path


LABELS = {
    "app=web": ["a", "b"],
    "app==db": ["c"],
    "app!=web": ["c"],
    "tier!=front": ["b", "c"],
    "app in (web,db)": ["a", "b", "c"],
    "app notin (web)": ["c"],
    "tier notin (front)": ["b", "c"],
    "tier": ["a"],
    "!tier": ["b", "c"],
    "app=web,!tier": ["b"],
    "app=web,tier=front": ["a"],
    "app=nobody": [],
    "": ["a", "b", "c"],
}


@pytest.mark.parametrize(("selector", "names"), LABELS.items())
async def test_label_selectors(api: Api, three_pods: str, selector: str, names: list[str]) -> None:
    assert await api.names(three_pods, labelSelector=selector) == names


FIELDS = {
    "metadata.name=b": ["b"],
    "metadata.name!=b": ["a", "c"],
    "spec.nodeName=": ["b", "c"],
    "spec.nodeName!=": ["a"],
    "spec.nodeName={ns}": ["a"],
    "metadata.namespace={ns}": ["a", "b", "c"],
    "metadata.namespace=other": [],
    "spec.schedulerName=other": ["c"],
    "spec.schedulerName!=other": ["a", "b"],
    "status.phase=Running": ["c"],
    "status.phase!=Running": ["a", "b"],
    "status.phase==Pending,spec.nodeName=": ["b"],
    "spec.restartPolicy=Always": ["a", "b", "c"],
    "status.nominatedNodeName=": ["a", "b", "c"],
}


@pytest.mark.parametrize(("selector", "names"), FIELDS.items())
async def test_field_selectors(
    api: Api, ns: str, three_pods: str, selector: str, names: list[str]
) -> None:
    assert await api.names(three_pods, fieldSelector=selector.format(ns=ns)) == names


async def test_nodes_are_selected_by_whether_they_take_pods(api: Api, ns: str) -> None:
    labels = {"suite": ns}
    await api.create("/api/v1/nodes", a_node(f"{ns}-open", labels=labels))
    await api.create("/api/v1/nodes", a_node(f"{ns}-shut", labels=labels, unschedulable=True))
    for value, name in (("true", "shut"), ("false", "open")):
        names = await api.names(
            "/api/v1/nodes",
            labelSelector=f"suite={ns}",
            fieldSelector=f"spec.unschedulable={value}",
        )
        assert names == [f"{ns}-{name}"]


REFUSED = {
    "a field that pods are not selected by": ({"fieldSelector": "spec.foo=x"}, 400, "BadRequest"),
    "a field selector without a sign": ({"fieldSelector": "x"}, 400, "BadRequest"),
    "a label selector that never closes": ({"labelSelector": "a in (b"}, 400, "BadRequest"),
    "a label selector with two signs": ({"labelSelector": "a=b=c"}, 400, "BadRequest"),
    "a limit that is no number": ({"limit": "x"}, 400, "BadRequest"),
    "a continuation that is none": ({"continue": "zzz"}, 400, "BadRequest"),
    "a version that is no number": ({"resourceVersion": "abc"}, 400, "BadRequest"),
    "a match without a version": ({"resourceVersionMatch": "Exact"}, 422, "Invalid"),
    "an exact match of any version": (
        {"resourceVersionMatch": "Exact", "resourceVersion": "0"},
        422,
        "Invalid",
    ),
    "a match of no kind": (
        {"resourceVersionMatch": "Roughly", "resourceVersion": "5"},
        422,
        "Invalid",
    ),
}


@pytest.mark.parametrize(("query", "code", "reason"), REFUSED.values(), ids=REFUSED)
async def test_refused(api: Api, ns: str, query: dict[str, str], code: int, reason: str) -> None:
    assert (await api.call("GET", pods(ns), query=query)).refusal == (code, reason)


async def test_a_list_of_a_version_to_come_is_asked_to_try_again(api: Api, ns: str) -> None:
    query = {"resourceVersion": "999999999999", "resourceVersionMatch": "NotOlderThan"}
    answer = await api.call("GET", pods(ns), query=query)
    assert answer.refusal == (504, "Timeout")
    assert answer.causes == [("ResourceVersionTooLarge", "")]
    assert answer.body["details"]["retryAfterSeconds"] == 1


async def test_items_carry_no_kind_of_their_own(api: Api, ns: str) -> None:
    await api.create(pods(ns), a_pod("web"))
    [item] = (await api.get(pods(ns)))["items"]
    assert "kind" not in item
    assert "apiVersion" not in item


async def test_pages_show_one_moment(api: Api, ns: str) -> None:
    path = LEASES.format(ns)
    for number in range(5):
        await api.create(path, a_lease(f"l{number}"))
    first = await api.get(path, limit="2")
    assert [item["metadata"]["name"] for item in first["items"]] == ["l0", "l1"]
    assert first["metadata"]["remainingItemCount"] == 3
    await api.create(path, a_lease("l1-late"))
    await api.delete(f"{path}/l3")
    second = await api.get(path, limit="2", **{"continue": first["metadata"]["continue"]})
    assert [item["metadata"]["name"] for item in second["items"]] == ["l2", "l3"]
    third = await api.get(path, limit="2", **{"continue": second["metadata"]["continue"]})
    assert [item["metadata"]["name"] for item in third["items"]] == ["l4"]
    assert not third["metadata"].get("continue")
    versions = {page["metadata"]["resourceVersion"] for page in (first, second, third)}
    assert len(versions) == 1
    assert await api.names(path) == ["l0", "l1", "l1-late", "l2", "l4"]


async def test_pages_of_a_selection_do_not_count_the_rest(
    api: Api, ns: str, three_pods: str
) -> None:
    first = await api.get(three_pods, limit="1", labelSelector="app=web")
    assert [item["metadata"]["name"] for item in first["items"]] == ["a"]
    assert "remainingItemCount" not in first["metadata"]
    query = {"continue": first["metadata"]["continue"], "limit": "1", "labelSelector": "app=web"}
    assert await api.names(three_pods, **query) == ["b"]


async def test_a_limit_that_fits_all_needs_no_continuation(api: Api, three_pods: str) -> None:
    page = await api.get(three_pods, limit="3")
    assert len(page["items"]) == 3
    assert not page["metadata"].get("continue")


async def test_an_exact_version_shows_the_past(api: Api, ns: str) -> None:
    path = LEASES.format(ns)
    await api.create(path, a_lease("early"))
    version = (await api.get(path))["metadata"]["resourceVersion"]
    await api.create(path, a_lease("late"))
    query = {"resourceVersion": version, "resourceVersionMatch": "Exact"}
    past = await api.get(path, **query)
    assert [item["metadata"]["name"] for item in past["items"]] == ["early"]
    assert past["metadata"]["resourceVersion"] == version


async def test_a_list_without_a_version_shows_what_was_just_written(api: Api, ns: str) -> None:
    path = LEASES.format(ns)
    for number in range(20):
        made = await api.create(path, a_lease(f"l{number:02}"))
        listed = await api.get(path)
        assert len(listed["items"]) == number + 1
        assert int(listed["metadata"]["resourceVersion"]) >= int(
            made["metadata"]["resourceVersion"]
        )


async def test_a_list_not_older_than_a_version_has_it(api: Api, ns: str) -> None:
    path = LEASES.format(ns)
    made = await api.create(path, a_lease("mine"))
    query = {
        "resourceVersion": made["metadata"]["resourceVersion"],
        "resourceVersionMatch": "NotOlderThan",
    }
    assert await api.names(path, **query) == ["mine"]
