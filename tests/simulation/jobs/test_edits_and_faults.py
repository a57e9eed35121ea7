"""Jobs that their owners edit, and what goes wrong with them, in virtual time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.builders import a_node, a_pod
from tests.faults.injector import WRITES, for_resource, from_user
from tests.faults.kinds import Delay, DropConnection, Reply
from tests.faults.matchers import RequestMatcher
from tests.simulation.harnesses.jobs import JobHarness, task
from tests.simulation.harnesses.simulation import VIRTUAL_TIME

pytestmark = VIRTUAL_TIME


# --- what its owner does -------------------------------------------------------------------------


async def test_a_job_is_scaled_up_and_down(sim: JobHarness) -> None:
    sim.job("j", task(replicas=2), plugins={"svc": []})
    async with sim.at_work():
        await sim.until_phase("j", "Running")
        sim.edit("j", {"spec": {"tasks": [task(replicas=4)]}})
        await sim.until(lambda: sim.status("j")["running"] == 4)
        (hosts,) = sim.cluster.objects("configmaps")
        assert hosts["data"]["VC_W_NUM"] == "4"
        sim.edit("j", {"spec": {"tasks": [task(replicas=1)]}})
        await sim.until(lambda: sim.pods_of_job("j") == {"j-w-0": "Running"})
        await sim.until(lambda: sim.status("j")["terminating"] == 0)
        assert sim.phase("j") == "Running"
        (group,) = sim.cluster.objects("podgroups", "scheduling.volcano.sh")
        assert group["spec"]["minMember"] == 1


async def test_an_edit_makes_pods_without_a_node_anew_and_leaves_the_others(
    sim: JobHarness,
) -> None:
    sim.may_repeat_pods.add("j")
    sim.job("j", task(replicas=2, cpu=5), minAvailable=1, maxRetry=1, on={"PodEvicted": "AbortJob"})
    other = task(replicas=2, cpu=5)
    other["template"]["spec"]["containers"][0]["image"] = "other"

    def images() -> dict[str, str]:
        pods = sim.cluster.objects("pods")
        return {p["metadata"]["name"]: p["spec"]["containers"][0]["image"] for p in pods}

    async with sim.at_work():
        await sim.until(lambda: sorted(sim.pods_of_job("j").values()) == ["-", "Running"])
        sim.edit("j", {"spec": {"tasks": [other]}})
        await sim.until(lambda: sorted(images().values()) == ["img", "other"])
        await sim.until_phase("j", "Running")
        await asyncio.sleep(60)
        waits = next(pod for pod, phase in sim.pods_of_job("j").items() if phase == "-")
        assert images()[waits] == "other"
        assert (sim.status("j")["retryCount"], sim.status("j")["version"]) == (0, 1)


async def test_an_action_is_done_once_for_each_time_it_is_asked_for(sim: JobHarness) -> None:
    sim.job("j", task())
    async with sim.at_work():
        await sim.until_phase("j", "Running")
        sim.annotate("j", "RestartJob")
        await sim.until(lambda: sim.status("j")["version"] == 1)
        await asyncio.sleep(60)
        assert sim.status("j")["version"] == 1
        sim.annotate("j", None)
        await asyncio.sleep(1)
        sim.annotate("j", "RestartJob")
        await sim.until(lambda: sim.status("j")["version"] == 2)
        await sim.until_phase("j", "Running")
        sim.annotate("j", "Terminate")
        await sim.until(lambda: "InvalidAction" in sim.events_about("j"))
        sim.annotate("j", "TerminateJob")
        await sim.until_phase("j", "Terminated")


async def test_what_belongs_to_a_job_goes_with_it(sim: JobHarness) -> None:
    sim.job("j", task(), plugins={"svc": []})
    async with sim.at_work() as controller:
        await sim.until_phase("j", "Running")
        sim.delete_job("j")
        await sim.until(lambda: not sim.cluster.objects("pods"))
        left = (*sim.cluster.objects("services"), *sim.cluster.objects("configmaps"))
        assert (sim.groups(), left) == ([], ())
        await asyncio.sleep(60)
        assert not controller.cache._records
        assert not controller.work_queue._timers


async def test_a_job_of_the_same_name_waits_until_the_old_one_is_gone(sim: JobHarness) -> None:
    sim.may_repeat_pods.add("j")
    sim.job("j", task())
    async with sim.at_work():
        await sim.until_phase("j", "Running")
        sim.delete_job("j")
        sim.job("j", task("w", 1))
        await sim.until_phase("j", "Running")
        assert sim.pods_of_job("j") == {"j-w-0": "Running"}


async def test_a_finished_job_is_deleted_in_time(sim: JobHarness) -> None:
    sim.job("j", task(runs=5), ttlSecondsAfterFinished=3600)
    async with sim.at_work():
        await sim.until_phase("j", "Completed")
        await asyncio.sleep(3590)
        assert sim.phase("j") == "Completed"
        await asyncio.sleep(15)
        assert sim.cluster.objects("jobs", "batch.volcano.sh") == []
        assert sim.cluster.objects("pods") == []


async def test_an_invalid_job_says_so_and_loses_nothing(sim: JobHarness) -> None:
    sim.job("bad", task(), plugins={"ssh": []})
    sim.job("good", task(cpu=2), on={"PodEvicted": "AbortJob"})
    async with sim.at_work():
        await sim.until_phase("good", "Running")
        assert sim.pods_of_job("bad") == {}
        assert "ssh is not supported" in sim.status("bad")["state"]["message"]
        assert "ssh is not supported" in sim.events_about("bad")["Invalid"]
        sim.edit("good", {"spec": {"minSuccess": 7}})
        await asyncio.sleep(5)
        assert sim.status("good")["state"]["reason"] == "Invalid"
        assert sim.pods_of_job("good") == {"good-w-0": "Running", "good-w-1": "Running"}
        sim.edit("good", {"spec": {"minSuccess": None}})
        sim.edit("bad", {"spec": {"plugins": None}})
        await sim.until(lambda: "reason" not in sim.status("good")["state"])
        await sim.until_phase("bad", "Running")


async def test_jobs_of_other_schedulers_are_left_alone(sim: JobHarness) -> None:
    sim.job("j", task(), schedulerName="volcano")
    async with sim.at_work():
        await asyncio.sleep(60)
        assert (sim.status("j"), sim.pods_of_job("j")) == ({}, {})


# --- what goes wrong -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fault",
    [
        Reply(503, "ServiceUnavailable"),
        Reply(409, "Conflict"),
        DropConnection.BEFORE,
        DropConnection.AFTER,
    ],
    ids=["unavailable", "conflict", "lost on the way", "lost on the way back"],
)
async def test_writes_that_fail_are_repeated(sim: JobHarness, fault: Any) -> None:
    sim.job("j", task(runs=60), on={"PodEvicted": "RestartJob"}, plugins={"svc": []})
    sim.job_faults.inject(WRITES & from_user("jobs"), fault, probability=0.3)
    async with sim.at_work():
        await sim.until_phase("j", "Running", within=600)
        sim.evict("j-w-0")
        await sim.until(lambda: sim.status("j")["version"] == 1, within=600)
        await sim.until_phase("j", "Completed", within=1200)


async def test_a_refusal_that_holds_for_all_pods_is_heard_once(sim: JobHarness) -> None:
    sim.job("j", task(replicas=500))
    full = Reply(403, "Forbidden", "exceeded quota: pods")
    quota = sim.job_faults.inject(WRITES & for_resource("pods"), full)
    async with sim.at_work():
        await asyncio.sleep(10)
        assert len(quota.matched) < 8
        assert sim.events_about("j")["FailedCreate"] == "j-w-0: exceeded quota: pods"
        assert sim.reason("j") == ("Refused", "j-w-0: exceeded quota: pods")


async def test_a_pod_of_that_name_that_is_not_ours(sim: JobHarness) -> None:
    sim.job("j", task())
    sim.create(a_pod("j-w-1"))
    async with sim.at_work():
        await asyncio.sleep(5)
        assert sim.events_about("j")["FailedCreate"] == "pod j-w-1 exists and is not of this job"
        assert sim.phase("j") == "Pending"
        sim.delete("pod", "j-w-1")
        await sim.until_phase("j", "Running")


async def test_pods_join_no_pod_group_that_is_not_of_their_job(sim: JobHarness) -> None:
    sim.cluster.create(
        {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "PodGroup",
            "metadata": {"name": "j-0", "namespace": "default"},
            "spec": {"minMember": 1},
        }
    )
    sim.job("j", task())
    async with sim.at_work():
        await sim.until(lambda: sim.phase("j") == "Pending")
        await asyncio.sleep(5)
        text = "PodGroup j-0 exists and is not of this job"
        assert sim.events_about("j")["FailedCreate"] == text
        assert sim.reason("j") == ("Refused", text)
        assert sim.pods_of_job("j") == {}
        sim.request(
            "DELETE", "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups/j-0"
        )
        await sim.until_phase("j", "Running")


async def test_pods_of_a_large_job_are_deleted_many_at_a_time(sim: JobHarness) -> None:
    sim.job("j", task(replicas=200))
    async with sim.at_work():
        await sim.until(lambda: len(sim.pods_of_job("j")) == 200, within=300)
        deletes = WRITES & for_resource("pods") & from_user("jobs")
        sim.job_faults.inject(deletes, Delay(1.0), times=200)
        sim.annotate("j", "AbortJob")
        await sim.until(lambda: not sim.pods_of_job("j"), within=60)


async def test_the_hosts_of_a_task_that_is_removed_are_removed(sim: JobHarness) -> None:
    sim.job("j", task(), task("x"), plugins={"svc": []})

    def tasks_told() -> set[str]:
        found = sim.cluster.objects("configmaps")
        return {name for each in found for name in each["data"] if name.endswith(".host")}

    async with sim.at_work():
        await sim.until(lambda: tasks_told() == {"w.host", "x.host"})
        sim.edit("j", {"spec": {"tasks": [task()]}})
        await sim.until(lambda: tasks_told() == {"w.host"})


async def test_a_pod_group_that_somebody_deletes_is_made_again(sim: JobHarness) -> None:
    sim.job("j", task())
    async with sim.at_work():
        await sim.until_phase("j", "Running")
        path = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups/j-0"
        sim.request("DELETE", path)
        await sim.until(lambda: sim.groups() == ["j-0"])
        await asyncio.sleep(5)
        assert sim.status("j")["version"] == 0


async def test_two_controllers_at_once_do_no_harm(sim: JobHarness) -> None:
    sim.job("j", task(cpu=4, runs=60), on={"PodEvicted": "RestartJob"}, plugins={"svc": []})
    async with sim.at_work(), sim.controllers("two"):
        await sim.until_phase("j", "Running")
        sim.evict("j-w-0")
        await sim.until_phase("j", "Restarting")
        await sim.until_phase("j", "Completed", within=300)
        assert sim.status("j")["version"] == 1


@pytest.mark.parametrize("code", [429, 500, 503])
async def test_a_pod_that_went_while_nobody_looked_is_found_once_the_server_answers(
    sim: JobHarness, code: int
) -> None:
    sim.may_repeat_pods.add("j")
    sim.job("j", task(replicas=3), minAvailable=1)
    async with sim.scheduler(), sim.kubelets():
        async with sim.controllers("one"):
            await sim.until(lambda: sim.status("j").get("running") == 3)
        sim.delete("pod", "j-w-2", grace=0)
        reads = RequestMatcher(lambda call: call.method == "GET" and call.path.endswith("/j-w-2"))
        unwell = sim.job_faults.inject(reads, Reply(code))
        async with sim.controllers("two"):
            await asyncio.sleep(10)
            assert sorted(sim.pods_of_job("j")) == ["j-w-0", "j-w-1"]
            unwell.stop()
            await sim.until(lambda: sim.status("j").get("running") == 3, within=120)


async def test_a_large_job_costs_few_writes_beside_its_pods(sim: JobHarness) -> None:
    sim.create(a_node("n2").offers(cpu=500, pods=600))
    sim.job("j", task(replicas=500))
    async with sim.at_work():
        await sim.until_phase("j", "Running", within=120)
        await asyncio.sleep(5)
        taken = sim.job_faults.received()
        assert len([w for w in taken if w.request.plural == "pods"]) == 500
        assert len([w for w in taken if w.request.plural == "jobs"]) < 40
        await asyncio.sleep(3600)
        assert len(sim.job_faults.received()) == len(taken)
