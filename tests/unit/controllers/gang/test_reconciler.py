"""What is written and what is not, against the embedded server in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from arranger.controllers.gang.cache import GANG_GROUP, GangObjectKey
from arranger.controllers.gang.reconciler import RETRY
from arranger.controllers.runtime.objects import LISTED
from tests.builders import PodBuilder, a_pod, an_unstructured
from tests.faults.injector import WRITES, for_resource
from tests.faults.kinds import ConcurrentAction, DropConnection, Reply
from tests.swarm.backup import Backup
from tests.unit.controllers.gang.harness import SIGS, ReconcilerHarness, a_pod_group, members

pytestmark = pytest.mark.looptime(noop_cycles=0)

VOLCANO = "scheduling.volcano.sh"


async def _see_bound(harness: ReconcilerHarness, pods: Sequence[PodBuilder]) -> None:
    """The PodGroup is shown, and then its pods, on a node."""
    harness.deliver(SIGS)
    harness.observe(*(pod.on("n1") for pod in pods))
    await asyncio.sleep(1)


async def test_a_large_gang_costs_three_writes_however_its_pods_arrive(
    harness: ReconcilerHarness,
) -> None:
    harness.create(a_pod_group(100))
    async with harness.running():
        harness.deliver(SIGS)
        for pod in members(100):
            harness.observe(pod)
        await asyncio.sleep(5)
        # The Gang, by which a restart knows that the PodGroup is ours; and both statuses.
        assert [write.request.method for write in harness.written()] == ["POST", "PATCH", "PATCH"]
        assert harness.gangs["g"]["status"]["members"] == 100
        assert harness.status()["phase"] == "PreScheduling"


async def test_nothing_is_written_while_nothing_changes(harness: ReconcilerHarness) -> None:
    harness.create(a_pod_group())
    async with harness.running():
        harness.deliver(SIGS)
        harness.observe(*members(2))
        await asyncio.sleep(5)
        before = len(harness.written())
        for _ in range(3):
            harness.deliver(SIGS)
            harness.deliver(GANG_GROUP)
            harness.observe(*members(2))
            harness.work_queue.enqueue({"default/g"})
            await asyncio.sleep(5)
        assert len(harness.written()) == before


async def test_pods_alone_make_a_gang_and_pods_without_a_gang_make_none(
    harness: ReconcilerHarness,
) -> None:
    notes = {
        "gang.scheduling.koordinator.sh/name": "a",
        "gang.scheduling.koordinator.sh/min-available": "2",
    }
    async with harness.running():
        harness.observe(a_pod("p").annotated(notes), a_pod("lone"))
        await asyncio.sleep(1)
        assert harness.gangs.keys() == {"a"}
        assert harness.gangs["a"]["spec"]["source"] == "gang.scheduling.koordinator.sh"
        assert harness.gangs["a"]["status"]["message"] == "1/2 members have arrived"


async def test_pods_before_their_pod_group(harness: ReconcilerHarness) -> None:
    async with harness.running():
        harness.observe(*members(2))
        await asyncio.sleep(1)
        assert harness.gangs["g"]["status"]["reason"] == "NotDefined"
        harness.create(a_pod_group())
        harness.deliver(SIGS)
        await asyncio.sleep(1)
        assert harness.gangs["g"]["spec"]["bundles"] == [{"name": "", "minMember": 2}]
        assert "reason" not in harness.gangs["g"]["status"]
        assert harness.status()["phase"] == "PreScheduling"


async def test_a_gang_goes_with_its_last_pod(harness: ReconcilerHarness) -> None:
    harness.create(a_pod_group())
    first, second = (pod.on("n1") for pod in members(2))
    async with harness.running():
        harness.deliver(SIGS)
        harness.observe(first, second)
        await asyncio.sleep(1)
        assert harness.status()["phase"] == "Running"
        harness.observe_deleted(first)
        await asyncio.sleep(1)
        assert harness.gangs["g"]["status"]["running"] == 1
        harness.observe_deleted(second)
        await asyncio.sleep(1)
        assert harness.gangs == {}
        assert (harness.status()["phase"], harness.status()["running"]) == ("Pending", 0)


async def test_pods_that_are_gone_after_a_relist_are_forgotten(harness: ReconcilerHarness) -> None:
    async with harness.running():
        harness.observe(*members(2), *members(1, gang="other"))
        await asyncio.sleep(1)
        harness.pods.replaced([members(1)[0].build()], "9")
        await asyncio.sleep(1)
        assert harness.gangs.keys() == {"g"}
        assert harness.gangs["g"]["status"]["members"] == 1


async def test_a_pod_that_moves_to_another_gang_is_counted_there(
    harness: ReconcilerHarness,
) -> None:
    async with harness.running():
        harness.observe(*members(2))
        harness.observe(members(1)[0].labelled({"pod-group.scheduling.sigs.k8s.io": "h"}))
        await asyncio.sleep(1)
        assert {n: g["status"]["members"] for n, g in harness.gangs.items()} == {"g": 1, "h": 1}


async def test_after_a_restart_what_the_scheduler_wrote_is_kept(harness: ReconcilerHarness) -> None:
    written = {"resourceSatisfied": True, "waitingSince": "2026-01-01T00:00:00Z"}
    async with harness.running():
        harness.create(a_pod_group())
        harness.deliver(SIGS)
        harness.observe(*members(2))
        await asyncio.sleep(1)
        path = "/apis/arranger.io/v1alpha1/namespaces/default/gangs/g/status"
        harness.patch(path, {"status": written})
    # They come back knowing nothing, when only new pods are there, and try to create the Gang.
    harness.restart()
    async with harness.running():
        harness.observe(*members(1, first=2))
        await asyncio.sleep(2)
        status = harness.gangs["g"]["status"]
        assert (status["phase"], status["members"]) == ("Pending", 1)
        assert written.items() <= status.items()


async def test_a_bundle_without_pods_is_in_the_gang_as_long_as_there_are_others(
    harness: ReconcilerHarness,
) -> None:
    server, worker = a_pod("ps").in_bundle("g", "ps", 1), a_pod("w").in_bundle("g", "worker", 1)
    both = [{"name": "ps", "minMember": 1}, {"name": "worker", "minMember": 1}]
    async with harness.running():
        harness.observe(server, worker)
        await asyncio.sleep(1)
        harness.observe_deleted(server)
        await asyncio.sleep(1)
        assert harness.gangs["g"]["spec"]["bundles"] == both
        assert harness.gangs["g"]["status"]["message"] == "1/2 members have arrived"
    harness.restart()
    async with harness.running():
        harness.observe(worker)
        harness.deliver(GANG_GROUP)
        await asyncio.sleep(1)
        assert harness.gangs["g"]["spec"]["bundles"] == both
        harness.observe(worker.in_bundle("g", "ps", 1))
        await asyncio.sleep(1)
        assert harness.gangs["g"]["spec"]["bundles"] == both[:1]


async def test_after_a_restart_a_gang_whose_pods_are_gone_is_removed(
    harness: ReconcilerHarness,
) -> None:
    pods = members(2)
    async with harness.running():
        harness.create(a_pod_group())
        await _see_bound(harness, pods)
    harness.restart()
    async with harness.running():
        harness.deliver(SIGS)
        harness.deliver(GANG_GROUP)
        await asyncio.sleep(1)
        assert harness.gangs == {}
        assert harness.status()["phase"] == "Pending"


async def test_what_belongs_to_another_scheduler_is_left_alone(harness: ReconcilerHarness) -> None:
    harness.create(a_pod_group())
    gang = {"apiVersion": "arranger.io/v1alpha1", "kind": "Gang", "spec": {}}
    harness.create({**gang, "metadata": {"name": "by-hand"}})
    theirs = {"app.kubernetes.io/managed-by": "other"}
    harness.create({**gang, "metadata": {"name": "theirs", "labels": theirs}})
    async with harness.running():
        harness.deliver(SIGS)
        await asyncio.sleep(1)
        # Nobody had written this one yet; now its scheduler does.
        assert harness.status()["phase"] == "Pending"
        pod_group = "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/default/podgroups/g"
        harness.patch(f"{pod_group}/status", {"status": {"phase": "Running", "running": 2}})
        harness.observe(*(pod.for_scheduler("other").on("n1") for pod in members(2)))
        harness.deliver(SIGS)
        harness.deliver(GANG_GROUP)
        await asyncio.sleep(1)
        assert (harness.status()["phase"], harness.status()["running"]) == ("Running", 2)
        assert harness.gangs.keys() == {"by-hand", "theirs"}


async def test_a_pod_of_another_scheduler_counts_in_a_gang_of_ours_once_it_has_a_node(
    harness: ReconcilerHarness,
) -> None:
    harness.create(a_pod_group())
    ours, theirs = members(1)[0], members(1, first=1)[0].for_scheduler("other")

    def numbers() -> tuple[int, int]:
        status = harness.gangs["g"]["status"]
        return status["members"], status["bound"]

    async with harness.running():
        harness.deliver(SIGS)
        harness.observe(ours, theirs)
        await asyncio.sleep(1)
        assert numbers() == (1, 0)
        harness.observe(theirs.on("n1"))
        await asyncio.sleep(1)
        assert numbers() == (2, 1)
        harness.observe_deleted(ours)
        await asyncio.sleep(1)
        assert harness.gangs == {}, "it is no gang of ours any more"
        harness.observe_deleted(theirs)
        harness.observe(ours.on("n1"))
        await asyncio.sleep(1)
        assert numbers() == (1, 1)


async def test_a_gang_that_somebody_deletes_or_edits_is_put_right(
    harness: ReconcilerHarness,
) -> None:
    async with harness.running():
        harness.observe(*members(2))
        await asyncio.sleep(1)
        harness.delete_gang()
        await asyncio.sleep(1)
        assert harness.gangs["g"]["status"]["members"] == 2
        gang = "/apis/arranger.io/v1alpha1/namespaces/default/gangs/g"
        harness.patch(f"{gang}/status", {"status": {"members": 7, "topology": None}})
        harness.patch(gang, {"spec": {"mode": "NonStrict", "topology": {"key": "zone"}}})
        harness.deliver(GANG_GROUP)
        await asyncio.sleep(1)
        assert harness.gangs["g"]["status"]["members"] == 2
        assert harness.gangs["g"]["spec"]["mode"] == "Strict"
        assert "topology" not in harness.gangs["g"]["spec"]


async def test_only_fields_that_the_served_definition_has_are_written(
    harness: ReconcilerHarness,
) -> None:
    harness.create(a_pod_group())
    harness.cache.on_definition_updated(SIGS, frozenset({"phase", "running"}))
    async with harness.running():
        harness.deliver(SIGS)
        harness.observe(*members(2))
        await asyncio.sleep(1)
        assert harness.status() == {"phase": "PreScheduling", "running": 0}


async def test_without_a_definition_nothing_is_written_until_it_is_there(
    harness: ReconcilerHarness,
) -> None:
    harness.create(a_pod_group())
    harness.cache.on_definition_deleted(GANG_GROUP)
    harness.cache.on_definition_deleted(SIGS)
    async with harness.running():
        harness.deliver(SIGS)
        harness.observe(*members(2))
        await asyncio.sleep(5)
        assert harness.faults.log == []
        harness.work_queue.enqueue(harness.cache.on_definition_updated(GANG_GROUP, None))
        harness.work_queue.enqueue(harness.cache.on_definition_updated(SIGS, None))
        await asyncio.sleep(1)
        assert harness.status()["phase"] == "PreScheduling"
        assert harness.gangs.keys() == {"g"}


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
    harness: ReconcilerHarness, fault: Reply | DropConnection
) -> None:
    harness.create(a_pod_group())
    harness.faults.inject(WRITES, fault, times=3)
    async with harness.running():
        harness.deliver(SIGS)
        harness.observe(*members(2))
        await asyncio.sleep(20)
        assert harness.status()["phase"] == "PreScheduling"
        assert harness.gangs["g"]["status"]["phase"] == "PreScheduling"


@pytest.mark.parametrize("fault", [DropConnection.AFTER, Reply(503, "busy", after=True)])
async def test_a_write_of_unknown_end_is_looked_for_before_the_last_pod_is_forgotten(
    harness: ReconcilerHarness, fault: Reply | DropConnection
) -> None:
    """Its watch shows it late, when nothing tells any more that the PodGroup was ours."""
    of_pod_groups = WRITES & for_resource("podgroups")
    last = ConcurrentAction(lambda: harness.observe_deleted(*members(2)))
    harness.create(a_pod_group())
    async with harness.running():
        harness.deliver(SIGS)
        await asyncio.sleep(5)
        assert harness.status()["phase"] == "Pending"
        harness.faults.inject(of_pod_groups, last, times=1)
        harness.faults.inject(of_pod_groups, fault, times=1)
        harness.observe(*members(2))
        await asyncio.sleep(60)
        assert harness.gangs == {}
        harness.deliver(SIGS)
        await asyncio.sleep(5)
        assert harness.status()["phase"] == "Pending"


async def test_a_server_that_is_down_is_asked_ever_more_slowly(harness: ReconcilerHarness) -> None:
    down = harness.faults.inject(WRITES, Reply(503, "ServiceUnavailable"))
    async with harness.running():
        harness.observe(*members(2))
        for _ in range(600):
            await asyncio.sleep(1)
            harness.work_queue.enqueue({"default/g"})
        assert len(down.matched) < 35
        down.stop()
        await asyncio.sleep(60)
        assert harness.gangs["g"]["status"]["members"] == 2


async def test_a_conflict_starts_from_what_is_there_and_keeps_the_others_condition(
    harness: ReconcilerHarness,
) -> None:
    theirs = {"type": "Theirs", "status": "True"}
    pod_group = f"/apis/{VOLCANO}/v1beta1/namespaces/default/podgroups/g"

    def edit() -> None:
        harness.patch(f"{pod_group}/status", {"status": {"conditions": [theirs]}})

    harness.create(a_pod_group(group=VOLCANO))
    harness.faults.inject(WRITES, ConcurrentAction(edit), times=1)
    notes = {"scheduling.k8s.io/group-name": "g"}
    async with harness.running():
        harness.deliver(VOLCANO)
        harness.observe(*(a_pod(f"p{n}").annotated(notes).on("n1") for n in range(2)))
        await asyncio.sleep(5)
        status = harness.status(VOLCANO)
        assert (status["phase"], status["running"]) == ("Running", 2)
        assert [condition["type"] for condition in status["conditions"]] == ["Theirs", "Scheduled"]


async def test_a_gang_that_is_made_anew_while_it_is_deleted_stays_known(
    harness: ReconcilerHarness,
) -> None:
    def make_anew() -> None:
        (gang,) = harness.cluster.objects("gangs", GANG_GROUP)
        labels = gang["metadata"]["labels"]
        harness.delete_gang()
        head = {"apiVersion": "arranger.io/v1alpha1", "kind": "Gang", "spec": {}}
        harness.create({**head, "metadata": {"name": "g", "labels": labels}})
        harness.deliver(GANG_GROUP)

    async with harness.running():
        harness.observe(*members(1))
        await asyncio.sleep(1)
        harness.faults.inject(WRITES, ConcurrentAction(make_anew), times=1)
        harness.observe_deleted(*members(1))
        await asyncio.sleep(5)
        assert harness.gangs == {}


async def test_a_refusal_is_not_repeated_before_something_changes(
    harness: ReconcilerHarness,
) -> None:
    bad = harness.faults.inject(WRITES, Reply(422, "Invalid"))
    async with harness.running():
        harness.observe(*members(2))
        await asyncio.sleep(600)
        assert len(bad.matched) == 1
        harness.observe(*members(1, first=2))
        await asyncio.sleep(600)
        assert len(bad.matched) == 2


async def test_a_gang_group_over_namespaces_is_shown_in_each(
    harness: ReconcilerHarness,
) -> None:
    harness.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "far"}})
    notes = {
        "gang.scheduling.koordinator.sh/min-available": "1",
        "gang.scheduling.koordinator.sh/groups": '["default/a", "far/b"]',
    }
    near = a_pod("p").annotated(notes).annotated({"gang.scheduling.koordinator.sh/name": "a"})
    far = a_pod("q").annotated(notes).annotated({"gang.scheduling.koordinator.sh/name": "b"})
    far = far.in_namespace("far")
    async with harness.running():
        harness.observe(near.on("n1"), far)
        await asyncio.sleep(1)
        groups = [g["spec"]["group"] for g in harness.gangs.values()]
        assert groups == [["default/a", "far/b"]] * 2
        assert [g["status"]["bound"] for g in harness.gangs.values()] == [1, 0]


async def test_memory_is_given_back(harness: ReconcilerHarness) -> None:
    harness.create(a_pod_group())
    pods = members(3)
    async with harness.running():
        harness.deliver(SIGS)
        harness.observe(*pods)
        await asyncio.sleep(1)
        harness.observe_deleted(*pods)
        harness.cache.on_definition_deleted(SIGS)
        await asyncio.sleep(1)
        cache = harness.cache
        counted = len(cache._members), cache._observed, cache._without_pods
        assert not any((*counted, cache.registry.gangs))
        assert harness.work_queue.idle


async def test_a_pod_group_whose_last_pod_goes_while_it_is_written_is_written_once_more(
    harness: ReconcilerHarness,
) -> None:
    harness.cache.on_definition_deleted(GANG_GROUP)  # only what was seen says whose it is
    pods = members(2)
    harness.create(a_pod_group())
    harness.faults.inject(WRITES, ConcurrentAction(lambda: harness.observe_deleted(*pods)), times=1)
    async with harness.running():
        harness.deliver(SIGS)
        harness.observe(*pods)
        await asyncio.sleep(5)
        assert harness.status()["phase"] == "Pending"


async def test_a_gang_without_pods_stays_at_the_start_until_all_pod_groups_are_known(
    harness: ReconcilerHarness,
) -> None:
    pods = members(2)
    harness.create(a_pod_group())
    async with harness.running():
        await _see_bound(harness, pods)
        assert harness.status()["phase"] != "Pending"
        assert harness.gangs
    harness.restart()
    harness.pod_groups_read = False
    async with harness.running():
        harness.deliver(GANG_GROUP)
        await asyncio.sleep(1)
        assert harness.gangs, "by what is it known then whose the PodGroup is?"
        harness.deliver(SIGS)
        harness.pod_groups_read = True
        await asyncio.sleep(RETRY + 1)
        assert harness.status()["phase"] == "Pending"
        assert not harness.gangs


async def test_what_a_backup_undoes_of_a_pod_group_without_pods_is_written_again(
    harness: ReconcilerHarness,
) -> None:
    pods = members(2)
    harness.create(a_pod_group())
    async with harness.running():
        await _see_bound(harness, pods)
        backup = Backup.of(harness.cluster.store)
        harness.deliver(SIGS)
        harness.observe_deleted(*pods)
        await asyncio.sleep(1)
        harness.deliver(SIGS)
        assert harness.status()["phase"] == "Pending"
        backup.restore(harness.cluster.store, bump=False)
        assert harness.status()["phase"] != "Pending"
        (group,) = harness.cluster.objects("podgroups", SIGS)
        shown = harness.cache.on_object_updated(SIGS, an_unstructured(group), asked_at=LISTED)
        harness.work_queue.enqueue(shown)
        await asyncio.sleep(1)
        assert harness.status()["phase"] == "Pending"
        harness.cache.on_object_deleted(GangObjectKey(SIGS, "default/g"))
        assert not harness.cache._left
