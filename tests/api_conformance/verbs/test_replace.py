"""Replacing whole objects: versions, what a status request may change and what a plain one may."""

from __future__ import annotations

from tests.api_conformance.client import Api
from tests.api_conformance.objects import LEASES, a_lease, a_node, a_pod, pods

SUCCEEDED = {"type": "Ready", "status": "True"}


async def test_the_version_read_is_replaced_once(api: Api, ns: str) -> None:
    pod = await api.create(pods(ns), a_pod("web"))
    pod["metadata"]["labels"] = {"turn": "first"}
    first = await api.put(f"{pods(ns)}/web", pod)
    assert first["metadata"]["labels"] == {"turn": "first"}
    assert int(first["metadata"]["resourceVersion"]) > int(pod["metadata"]["resourceVersion"])
    pod["metadata"]["labels"] = {"turn": "second"}
    assert (await api.call("PUT", f"{pods(ns)}/web", pod)).refusal == (409, "Conflict")
    assert await api.get(f"{pods(ns)}/web") == first


async def test_a_pod_may_be_replaced_without_naming_a_version(api: Api, ns: str) -> None:
    pod = await api.create(pods(ns), a_pod("web"))
    del pod["metadata"]["resourceVersion"]
    pod["metadata"]["annotations"] = {"a": "b"}
    assert (await api.put(f"{pods(ns)}/web", pod))["metadata"]["annotations"] == {"a": "b"}


async def test_a_replacement_without_change_writes_nothing(api: Api, ns: str) -> None:
    pod = await api.create(pods(ns), a_pod("web"))
    assert await api.put(f"{pods(ns)}/web", pod) == pod


async def test_labels_left_out_of_a_replacement_are_gone(api: Api, ns: str) -> None:
    pod = await api.create(pods(ns), a_pod("web", metadata={"labels": {"a": "1", "b": "2"}}))
    pod["metadata"]["labels"] = {"b": "3"}
    assert (await api.put(f"{pods(ns)}/web", pod))["metadata"]["labels"] == {"b": "3"}


async def test_the_spec_counts_generations_and_nothing_else_does(api: Api, ns: str) -> None:
    pod = await api.create(pods(ns), a_pod("web"))
    pod["metadata"]["labels"] = {"a": "b"}
    pod = await api.put(f"{pods(ns)}/web", pod)
    assert pod["metadata"]["generation"] == 1
    pod["spec"]["containers"][0]["image"] = "other"
    pod = await api.put(f"{pods(ns)}/web", pod)
    assert pod["metadata"]["generation"] == 2
    pod["status"]["phase"] = "Running"
    pod = await api.put(f"{pods(ns)}/web/status", pod)
    assert (pod["metadata"]["generation"], pod["status"]["phase"]) == (2, "Running")


async def test_a_plain_replacement_leaves_the_status_alone(api: Api, ns: str) -> None:
    pod = await api.create(pods(ns), a_pod("web"))
    pod["status"] = {"phase": "Running", "nominatedNodeName": "n"}
    pod["metadata"]["labels"] = {"a": "b"}
    after = await api.put(f"{pods(ns)}/web", pod)
    assert after["status"] == {"phase": "Pending", "qosClass": "BestEffort"}


async def test_a_status_replacement_leaves_the_spec_alone(api: Api, ns: str) -> None:
    pod = await api.create(pods(ns), a_pod("web"))
    pod["spec"]["containers"][0]["image"] = "other"
    pod["spec"]["nodeName"] = "n"
    pod["status"] |= {"phase": "Running", "conditions": [SUCCEEDED]}
    after = await api.put(f"{pods(ns)}/web/status", pod)
    assert after["spec"]["containers"][0]["image"] == "pause"
    assert "nodeName" not in after["spec"]
    assert after["status"]["phase"] == "Running"
    assert [c["type"] for c in after["status"]["conditions"]] == ["Ready"]
    assert await api.get(f"{pods(ns)}/web/status") == after


async def test_a_status_replacement_of_a_stale_version_conflicts(api: Api, ns: str) -> None:
    pod = await api.create(pods(ns), a_pod("web"))
    await api.patch(f"{pods(ns)}/web", {"metadata": {"labels": {"a": "b"}}})
    pod["status"]["phase"] = "Running"
    assert (await api.call("PUT", f"{pods(ns)}/web/status", pod)).refusal == (409, "Conflict")


async def test_the_status_of_a_node_is_isolated_as_well(api: Api, ns: str) -> None:
    node = await api.create("/api/v1/nodes", a_node(ns))
    node["spec"]["unschedulable"] = True
    node["status"]["capacity"]["cpu"] = "8"
    node = await api.put(f"/api/v1/nodes/{ns}", node)
    assert node["spec"]["unschedulable"] is True
    assert node["status"]["capacity"]["cpu"] == "4"
    del node["spec"]["unschedulable"]
    node["status"]["capacity"]["cpu"] = "8"
    node = await api.put(f"/api/v1/nodes/{ns}/status", node)
    assert node["spec"]["unschedulable"] is True
    assert node["status"]["capacity"]["cpu"] == "8"


async def test_the_last_gate_may_go_but_none_may_come(api: Api, ns: str) -> None:
    gates = [{"name": "one"}, {"name": "two"}]
    pod = await api.create(pods(ns), a_pod("web", schedulingGates=gates))
    pod["spec"]["schedulingGates"] = [{"name": "two"}]
    pod = await api.put(f"{pods(ns)}/web", pod)
    assert pod["spec"]["schedulingGates"] == [{"name": "two"}]
    del pod["spec"]["schedulingGates"]
    pod = await api.put(f"{pods(ns)}/web", pod)
    assert "schedulingGates" not in pod["spec"]
    pod["spec"]["schedulingGates"] = [{"name": "two"}]
    assert (await api.call("PUT", f"{pods(ns)}/web", pod)).refusal == (422, "Invalid")


async def test_a_gated_pod_may_narrow_where_it_goes_and_others_may_not(api: Api, ns: str) -> None:
    for name, gates in (("gated", [{"name": "wait"}]), ("free", [])):
        await api.create(pods(ns), a_pod(name, schedulingGates=gates))
    narrower = {"spec": {"nodeSelector": {"zone": "a"}}}
    assert (await api.patch(f"{pods(ns)}/gated", narrower))["spec"]["nodeSelector"] == {"zone": "a"}
    answer = await api.call(
        "PATCH", f"{pods(ns)}/free", narrower, content_type="application/merge-patch+json"
    )
    assert answer.refusal == (422, "Invalid")


async def test_tolerations_may_be_added(api: Api, ns: str) -> None:
    pod = await api.create(pods(ns), a_pod("web"))
    pod["spec"].setdefault("tolerations", []).append({"key": "spot", "operator": "Exists"})
    after = await api.put(f"{pods(ns)}/web", pod)
    assert {"key": "spot", "operator": "Exists"} in after["spec"]["tolerations"]


async def test_the_time_to_end_may_not_be_changed(api: Api, ns: str) -> None:
    pod = await api.create(pods(ns), a_pod("web"))
    pod["spec"]["terminationGracePeriodSeconds"] = 60
    answer = await api.call("PUT", f"{pods(ns)}/web", pod)
    assert answer.refusal == (422, "Invalid")
    assert answer.causes == [("FieldValueForbidden", "spec")]


async def test_a_lease_is_won_by_the_first_of_two_who_read_it(api: Api, ns: str) -> None:
    path = f"{LEASES.format(ns)}/leader"
    lease = await api.create(
        LEASES.format(ns), a_lease("leader", renewTime="2026-01-01T00:00:00.123456Z")
    )
    assert lease["spec"]["renewTime"] == "2026-01-01T00:00:00.123456Z"
    lease["spec"]["holderIdentity"] = "one"
    assert (await api.put(path, lease))["spec"]["holderIdentity"] == "one"
    lease["spec"]["holderIdentity"] = "two"
    assert (await api.call("PUT", path, lease)).refusal == (409, "Conflict")
    assert (await api.get(path))["spec"]["holderIdentity"] == "one"


async def test_a_lease_is_never_replaced_blindly(api: Api, ns: str) -> None:
    await api.create(LEASES.format(ns), a_lease("leader"))
    answer = await api.call("PUT", f"{LEASES.format(ns)}/leader", a_lease("leader"))
    assert answer.refusal == (422, "Invalid")
    assert answer.causes == [("FieldValueInvalid", "metadata.resourceVersion")]


async def test_putting_a_lease_that_is_not_there_creates_it(api: Api, ns: str) -> None:
    answer = await api.call("PUT", f"{LEASES.format(ns)}/fresh", a_lease("fresh"))
    assert answer.status == 201
    assert await api.names(LEASES.format(ns)) == ["fresh"]


async def test_a_lease_deleted_between_two_renewals_is_created_by_the_second(
    api: Api, ns: str
) -> None:
    lease = await api.create(LEASES.format(ns), a_lease("leader"))
    await api.call("DELETE", f"{LEASES.format(ns)}/leader")
    answer = await api.call("PUT", f"{LEASES.format(ns)}/leader", lease)
    assert answer.refusal == (409, "Conflict")  # that uid is gone
    uid = lease["metadata"].pop("uid")
    answer = await api.call("PUT", f"{LEASES.format(ns)}/leader", lease)
    assert answer.status == 201
    assert answer.body["metadata"]["uid"] != uid
