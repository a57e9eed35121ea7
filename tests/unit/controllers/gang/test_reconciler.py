"""What is written and what is not, against the embedded server in virtual time."""

from __future__ import annotations

import asyncio

import pytest

from arranger.controllers.gang.cache import GANG_GROUP
from arranger.embedded.fault_injection import WRITES, ConcurrentAction, DropConnection, Reply
from tests.builders import a_pod
from tests.unit.controllers.gang.harness import SIGS, ReconcilerHarness, a_pod_group, members

pytestmark = pytest.mark.looptime(noop_cycles=0)

VOLCANO = "scheduling.volcano.sh"


async def test_a_large_gang_costs_three_writes_however_its_pods_arrive(
    desk: ReconcilerHarness,
) -> None:
    desk.create(a_pod_group(100))
    async with desk.running():
        desk.deliver(SIGS)
        for pod in members(100):
            desk.observe(pod)
        await asyncio.sleep(5)
        # The PodGroup's status, the Gang, and the Gang's status.
        assert [write.call.method for write in desk.written()] == ["PATCH", "POST", "PATCH"]
        assert desk.gangs["g"]["status"]["members"] == 100
        assert desk.status()["phase"] == "PreScheduling"


async def test_nothing_is_written_while_nothing_changes(desk: ReconcilerHarness) -> None:
    desk.create(a_pod_group())
    async with desk.running():
        desk.deliver(SIGS)
        desk.observe(*members(2))
        await asyncio.sleep(5)
        before = len(desk.written())
        for _ in range(3):
            desk.deliver(SIGS)
            desk.deliver(GANG_GROUP)
            desk.observe(*members(2))
            desk.reconciler.enqueue({"default/g"})
            await asyncio.sleep(5)
        assert len(desk.written()) == before


async def test_pods_alone_make_a_gang_and_pods_without_a_gang_make_none(
    desk: ReconcilerHarness,
) -> None:
    notes = {
        "gang.scheduling.koordinator.sh/name": "a",
        "gang.scheduling.koordinator.sh/min-available": "2",
    }
    async with desk.running():
        desk.observe(a_pod("p").annotated(notes), a_pod("lone"))
        await asyncio.sleep(1)
        assert desk.gangs.keys() == {"a"}
        assert desk.gangs["a"]["spec"]["source"] == "gang.scheduling.koordinator.sh"
        assert desk.gangs["a"]["status"]["message"] == "1/2 members have arrived"


async def test_pods_before_their_pod_group(desk: ReconcilerHarness) -> None:
    async with desk.running():
        desk.observe(*members(2))
        await asyncio.sleep(1)
        assert desk.gangs["g"]["status"]["reason"] == "NotDefined"
        desk.create(a_pod_group())
        desk.deliver(SIGS)
        await asyncio.sleep(1)
        assert desk.gangs["g"]["spec"]["bundles"] == [{"name": "", "minMember": 2}]
        assert "reason" not in desk.gangs["g"]["status"]
        assert desk.status()["phase"] == "PreScheduling"


async def test_a_gang_goes_with_its_last_pod(desk: ReconcilerHarness) -> None:
    desk.create(a_pod_group())
    first, second = (pod.on("n1") for pod in members(2))
    async with desk.running():
        desk.deliver(SIGS)
        desk.observe(first, second)
        await asyncio.sleep(1)
        assert desk.status()["phase"] == "Running"
        desk.observe_deleted(first)
        await asyncio.sleep(1)
        assert desk.gangs["g"]["status"]["running"] == 1
        desk.observe_deleted(second)
        await asyncio.sleep(1)
        assert desk.gangs == {}
        assert (desk.status()["phase"], desk.status()["running"]) == ("Pending", 0)


async def test_pods_that_are_gone_after_a_relist_are_forgotten(desk: ReconcilerHarness) -> None:
    async with desk.running():
        desk.observe(*members(2), *members(1, gang="other"))
        await asyncio.sleep(1)
        seen = desk.ledger.on_pods_replaced([members(1)[0].build()])
        desk.reconciler.enqueue(seen)
        await asyncio.sleep(1)
        assert desk.gangs.keys() == {"g"}
        assert desk.gangs["g"]["status"]["members"] == 1


async def test_a_pod_that_moves_to_another_gang_is_counted_there(desk: ReconcilerHarness) -> None:
    async with desk.running():
        desk.observe(*members(2))
        desk.observe(members(1)[0].labelled({"pod-group.scheduling.sigs.k8s.io": "h"}))
        await asyncio.sleep(1)
        assert {n: g["status"]["members"] for n, g in desk.gangs.items()} == {"g": 1, "h": 1}


async def test_after_a_restart_what_was_reached_once_is_kept(desk: ReconcilerHarness) -> None:
    pods = members(2)
    async with desk.running():
        desk.create(a_pod_group())
        desk.deliver(SIGS)
        desk.observe(*(pod.on("n1") for pod in pods))
        await asyncio.sleep(1)
        assert desk.gangs["g"]["status"]["resourceSatisfied"]
    # It comes back knowing nothing, when only new pods are there, and tries to create the Gang.
    desk.restart()
    async with desk.running():
        desk.observe(*members(2, first=2))
        await asyncio.sleep(2)
        status = desk.gangs["g"]["status"]
        assert (status["phase"], status["resourceSatisfied"]) == ("Pending", True)


async def test_a_gang_all_of_whose_pods_terminate_has_its_nodes_no_more(
    desk: ReconcilerHarness,
) -> None:
    pods = [pod.on("n1") for pod in members(2)]
    async with desk.running():
        desk.create(a_pod_group())
        desk.deliver(SIGS)
        desk.observe(*pods)
        await asyncio.sleep(1)
        desk.observe(pods[0].deleting(), *members(2, first=2))
        await asyncio.sleep(1)
        status = desk.gangs["g"]["status"]
        assert (status["bound"], status["resourceSatisfied"]) == (2, True), "one stays"
        desk.observe(pods[1].deleting())
        await asyncio.sleep(1)
        status = desk.gangs["g"]["status"]
        assert (status["bound"], status["resourceSatisfied"]) == (2, False)


async def test_a_bundle_without_pods_is_in_the_gang_as_long_as_there_are_others(
    desk: ReconcilerHarness,
) -> None:
    server, worker = a_pod("ps").in_bundle("g", "ps", 1), a_pod("w").in_bundle("g", "worker", 1)
    both = [{"name": "ps", "minMember": 1}, {"name": "worker", "minMember": 1}]
    async with desk.running():
        desk.observe(server, worker)
        await asyncio.sleep(1)
        desk.observe_deleted(server)
        await asyncio.sleep(1)
        assert desk.gangs["g"]["spec"]["bundles"] == both
        assert desk.gangs["g"]["status"]["message"] == "1/2 members have arrived"
    desk.restart()
    async with desk.running():
        desk.observe(worker)
        desk.deliver(GANG_GROUP)
        await asyncio.sleep(1)
        assert desk.gangs["g"]["spec"]["bundles"] == both
        desk.observe(worker.in_bundle("g", "ps", 1))
        await asyncio.sleep(1)
        assert desk.gangs["g"]["spec"]["bundles"] == both[:1]


async def test_after_a_restart_a_gang_whose_pods_are_gone_is_removed(
    desk: ReconcilerHarness,
) -> None:
    pods = members(2)
    async with desk.running():
        desk.create(a_pod_group())
        desk.deliver(SIGS)
        desk.observe(*(pod.on("n1") for pod in pods))
        await asyncio.sleep(1)
    desk.restart()
    async with desk.running():
        desk.deliver(SIGS)
        desk.deliver(GANG_GROUP)
        await asyncio.sleep(1)
        assert desk.gangs == {}
        assert desk.status()["phase"] == "Pending"


async def test_what_belongs_to_another_scheduler_is_left_alone(desk: ReconcilerHarness) -> None:
    desk.create(a_pod_group())
    gang = {"apiVersion": "arranger.io/v1alpha1", "kind": "Gang", "spec": {}}
    desk.create({**gang, "metadata": {"name": "by-hand"}})
    theirs = {"app.kubernetes.io/managed-by": "other"}
    desk.create({**gang, "metadata": {"name": "theirs", "labels": theirs}})
    async with desk.running():
        desk.deliver(SIGS)
        await asyncio.sleep(1)
        # Nobody had written this one yet; now its scheduler does.
        assert desk.status()["phase"] == "Pending"
        pod_group = "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/default/podgroups/g"
        desk.patch(f"{pod_group}/status", {"status": {"phase": "Running", "running": 2}})
        desk.observe(*(pod.for_scheduler("other").on("n1") for pod in members(2)))
        desk.deliver(SIGS)
        desk.deliver(GANG_GROUP)
        await asyncio.sleep(1)
        assert (desk.status()["phase"], desk.status()["running"]) == ("Running", 2)
        assert desk.gangs.keys() == {"by-hand", "theirs"}


async def test_a_gang_that_somebody_deletes_or_edits_is_put_right(desk: ReconcilerHarness) -> None:
    async with desk.running():
        desk.observe(*members(2))
        await asyncio.sleep(1)
        desk.delete_gang()
        await asyncio.sleep(1)
        assert desk.gangs["g"]["status"]["members"] == 2
        gang = "/apis/arranger.io/v1alpha1/namespaces/default/gangs/g"
        desk.patch(f"{gang}/status", {"status": {"members": 7, "topology": None}})
        desk.patch(gang, {"spec": {"mode": "NonStrict", "topology": {"key": "zone"}}})
        desk.deliver(GANG_GROUP)
        await asyncio.sleep(1)
        assert desk.gangs["g"]["status"]["members"] == 2
        assert desk.gangs["g"]["spec"]["mode"] == "Strict"
        assert "topology" not in desk.gangs["g"]["spec"]


async def test_only_fields_that_the_served_definition_has_are_written(
    desk: ReconcilerHarness,
) -> None:
    desk.create(a_pod_group())
    desk.ledger.on_definition_updated(SIGS, frozenset({"phase", "running"}))
    async with desk.running():
        desk.deliver(SIGS)
        desk.observe(*members(2))
        await asyncio.sleep(1)
        assert desk.status() == {"phase": "PreScheduling", "running": 0}


async def test_without_a_definition_nothing_is_written_until_it_is_there(
    desk: ReconcilerHarness,
) -> None:
    desk.create(a_pod_group())
    desk.ledger.on_definition_deleted(GANG_GROUP)
    desk.ledger.on_definition_deleted(SIGS)
    async with desk.running():
        desk.deliver(SIGS)
        desk.observe(*members(2))
        await asyncio.sleep(5)
        assert desk.taps.log == []
        desk.reconciler.enqueue(desk.ledger.on_definition_updated(GANG_GROUP, None))
        desk.reconciler.enqueue(desk.ledger.on_definition_updated(SIGS, None))
        await asyncio.sleep(1)
        assert desk.status()["phase"] == "PreScheduling"
        assert desk.gangs.keys() == {"g"}


@pytest.mark.parametrize(
    "fault",
    [
        Reply(503, "ServiceUnavailable"),
        Reply(429, "TooManyRequests"),
        DropConnection.BEFORE,
        DropConnection.AFTER,
    ],
    ids=["unavailable", "too many requests", "lost on the way", "lost on the way back"],
)
async def test_a_write_that_fails_is_repeated(
    desk: ReconcilerHarness, fault: Reply | DropConnection
) -> None:
    desk.create(a_pod_group())
    desk.taps.inject(WRITES, fault, times=3)
    async with desk.running():
        desk.deliver(SIGS)
        desk.observe(*members(2))
        await asyncio.sleep(20)
        assert desk.status()["phase"] == "PreScheduling"
        assert desk.gangs["g"]["status"]["phase"] == "PreScheduling"


async def test_a_server_that_is_down_is_asked_ever_more_slowly(desk: ReconcilerHarness) -> None:
    down = desk.taps.inject(WRITES, Reply(503, "ServiceUnavailable"))
    async with desk.running():
        desk.observe(*members(2))
        for _ in range(600):
            await asyncio.sleep(1)
            desk.reconciler.enqueue({"default/g"})
        assert len(down.matched) < 35
        down.stop()
        await asyncio.sleep(60)
        assert desk.gangs["g"]["status"]["members"] == 2


async def test_a_conflict_starts_from_what_is_there_and_keeps_the_others_condition(
    desk: ReconcilerHarness,
) -> None:
    theirs = {"type": "Theirs", "status": "True"}
    pod_group = f"/apis/{VOLCANO}/v1beta1/namespaces/default/podgroups/g"

    def edit() -> None:
        desk.patch(f"{pod_group}/status", {"status": {"conditions": [theirs]}})

    desk.create(a_pod_group(group=VOLCANO))
    desk.taps.inject(WRITES, ConcurrentAction(edit), times=1)
    notes = {"scheduling.k8s.io/group-name": "g"}
    async with desk.running():
        desk.deliver(VOLCANO)
        desk.observe(*(a_pod(f"p{n}").annotated(notes).on("n1") for n in range(2)))
        await asyncio.sleep(5)
        status = desk.status(VOLCANO)
        assert (status["phase"], status["running"]) == ("Running", 2)
        assert [condition["type"] for condition in status["conditions"]] == ["Theirs", "Scheduled"]


async def test_a_refusal_is_not_repeated_before_something_changes(desk: ReconcilerHarness) -> None:
    bad = desk.taps.inject(WRITES, Reply(422, "Invalid"))
    async with desk.running():
        desk.observe(*members(2))
        await asyncio.sleep(600)
        assert len(bad.matched) == 1
        desk.observe(*members(1, first=2))
        await asyncio.sleep(600)
        assert len(bad.matched) == 2


async def test_a_gang_group_over_namespaces_is_satisfied_together(desk: ReconcilerHarness) -> None:
    desk.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "far"}})
    notes = {
        "gang.scheduling.koordinator.sh/min-available": "1",
        "gang.scheduling.koordinator.sh/groups": '["default/a", "far/b"]',
    }
    near = a_pod("p").annotated(notes).annotated({"gang.scheduling.koordinator.sh/name": "a"})
    far = a_pod("q").annotated(notes).annotated({"gang.scheduling.koordinator.sh/name": "b"})
    far = far.in_namespace("far")
    async with desk.running():
        desk.observe(near.on("n1"), far)
        await asyncio.sleep(1)
        assert desk.gangs["a"]["spec"]["group"] == ["default/a", "far/b"]
        assert [g["status"]["resourceSatisfied"] for g in desk.gangs.values()] == [False, False]
        desk.observe(far.on("n1"))
        await asyncio.sleep(1)
        assert [g["status"]["resourceSatisfied"] for g in desk.gangs.values()] == [True, True]


async def test_memory_is_given_back(desk: ReconcilerHarness) -> None:
    desk.create(a_pod_group())
    pods = members(3)
    async with desk.running():
        desk.deliver(SIGS)
        desk.observe(*pods)
        await asyncio.sleep(1)
        desk.observe_deleted(*pods)
        desk.ledger.on_definition_deleted(SIGS)
        await asyncio.sleep(1)
        ledger = desk.ledger
        assert not any(
            (ledger._members, ledger._observed, ledger._without_pods, ledger.registry.gangs)
        )
        assert desk.reconciler.work_queue.idle
