"""``pods/eviction``: deletion that asks the disruption budgets first."""

from __future__ import annotations

from typing import Any

from tests.api_conformance.client import Answer, Api, Object
from tests.api_conformance.objects import BUDGETS, a_binding, a_node, a_pod, pods

READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


async def a_running_pod(api: Api, ns: str, name: str) -> Object:
    path = f"{pods(ns)}/{name}"
    await api.create(pods(ns), a_pod(name, metadata={"labels": {"app": "web"}}))
    await api.create(f"{path}/binding", a_binding(name, ns))
    return await api.patch(f"{path}/status", {"status": READY})


async def a_budget(api: Api, ns: str, *, healthy: int, minimum: int) -> None:
    """A budget whose controller has counted; no controller runs here, so the test counts."""
    spec = {"minAvailable": minimum, "selector": {"matchLabels": {"app": "web"}}}
    made = await api.create(BUDGETS.format(ns), {"metadata": {"name": "budget"}, "spec": spec})
    status = {
        "observedGeneration": made["metadata"]["generation"],
        "disruptionsAllowed": max(healthy - minimum, 0),
        "currentHealthy": healthy,
        "desiredHealthy": minimum,
        "expectedPods": healthy,
    }
    await api.patch(f"{BUDGETS.format(ns)}/budget/status", {"status": status})


async def evict(api: Api, ns: str, name: str, **more: Any) -> Answer:
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": ns},
        **more,
    }
    return await api.call("POST", f"{pods(ns)}/{name}/eviction", body)


async def test_an_eviction_deletes_gracefully(api: Api, ns: str) -> None:
    await api.create("/api/v1/nodes", a_node(ns))
    await a_running_pod(api, ns, "web")
    answer = await evict(api, ns, "web")
    assert (answer.status, answer.body["kind"], answer.body["status"]) == (201, "Status", "Success")
    assert (await api.get(f"{pods(ns)}/web"))["metadata"]["deletionGracePeriodSeconds"] == 30


async def test_an_eviction_takes_the_grace_it_is_given(api: Api, ns: str) -> None:
    await a_running_pod(api, ns, "web")
    answer = await evict(api, ns, "web", deleteOptions={"gracePeriodSeconds": 0})
    assert answer.status == 201
    assert (await api.call("GET", f"{pods(ns)}/web")).refusal == (404, "NotFound")


async def test_a_budget_is_spent_and_then_refuses(api: Api, ns: str) -> None:
    for name in ("one", "two"):
        await a_running_pod(api, ns, name)
    await a_budget(api, ns, healthy=2, minimum=1)
    assert (await evict(api, ns, "one")).status == 201
    answer = await evict(api, ns, "two")
    assert answer.refusal == (429, "TooManyRequests")
    assert answer.body["message"] == (
        "Cannot evict pod as it would violate the pod's disruption budget."
    )
    assert answer.causes == [("DisruptionBudget", "")]
    assert "deletionTimestamp" not in (await api.get(f"{pods(ns)}/two"))["metadata"]


async def test_a_dry_run_spends_nothing(api: Api, ns: str) -> None:
    for name in ("one", "two"):
        await a_running_pod(api, ns, name)
    await a_budget(api, ns, healthy=2, minimum=1)
    assert (await evict(api, ns, "one", deleteOptions={"dryRun": ["All"]})).status == 201
    assert "deletionTimestamp" not in (await api.get(f"{pods(ns)}/one"))["metadata"]
    assert (await evict(api, ns, "two")).status == 201


async def test_a_pod_that_waits_for_a_node_needs_no_budget(api: Api, ns: str) -> None:
    await api.create(pods(ns), a_pod("web", metadata={"labels": {"app": "web"}}))
    await a_budget(api, ns, healthy=0, minimum=1)
    assert (await evict(api, ns, "web")).status == 201
    assert (await api.call("GET", f"{pods(ns)}/web")).refusal == (404, "NotFound")


async def test_a_plain_delete_asks_no_budget(api: Api, ns: str) -> None:
    await a_running_pod(api, ns, "web")
    await a_budget(api, ns, healthy=1, minimum=1)
    gone = await api.delete(f"{pods(ns)}/web", {"gracePeriodSeconds": 0})
    assert gone["kind"] == "Pod"


async def test_two_budgets_for_one_pod_are_an_error(api: Api, ns: str) -> None:
    await a_running_pod(api, ns, "web")
    await a_budget(api, ns, healthy=1, minimum=0)
    spec = {"minAvailable": 0, "selector": {"matchLabels": {"app": "web"}}}
    await api.create(BUDGETS.format(ns), {"metadata": {"name": "second"}, "spec": spec})
    answer = await evict(api, ns, "web")
    assert answer.refusal == (500, "")


async def test_an_eviction_of_another_pod_of_the_name_conflicts(api: Api, ns: str) -> None:
    await a_running_pod(api, ns, "web")
    answer = await evict(api, ns, "web", deleteOptions={"preconditions": {"uid": "not-its-uid"}})
    assert answer.refusal == (409, "Conflict")


async def test_an_eviction_of_no_pod_is_not_found(api: Api, ns: str) -> None:
    assert (await evict(api, ns, "nosuch")).refusal == (404, "NotFound")


async def test_an_eviction_of_another_name_is_refused(api: Api, ns: str) -> None:
    await a_running_pod(api, ns, "web")
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "other"}}
    answer = await api.call("POST", f"{pods(ns)}/web/eviction", body)
    assert answer.refusal == (400, "BadRequest")
