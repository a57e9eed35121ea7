"""Jobs with the real scheduler and hollow kubelets, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from arranger.controllers.vcjob.controller import JobController
from arranger.embedded.fault_injection import WRITES, DropConnection, Reply, for_resource, from_user
from tests.builders import a_node, a_pod
from tests.simulation.harnesses.jobs import JobHarness, task
from tests.simulation.harnesses.simulation import VIRTUAL_TIME, Object

pytestmark = VIRTUAL_TIME

EXAMPLES = Path(__file__).parents[3] / "examples" / "jobs"


@pytest.fixture
def stage() -> Iterator[JobHarness]:
    """One node of eight CPUs."""
    stage = JobHarness()
    stage.create(a_node("n1").offers(cpu=8))
    yield stage
    stage.check()


@asynccontextmanager
async def everything(stage: JobHarness) -> AsyncIterator[JobController]:
    """A scheduler, kubelets and controllers at work."""
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(stage.kubelets())
        await stack.enter_async_context(stage.scheduler())
        yield await stack.enter_async_context(stage.controllers())


# --- all run or all wait -------------------------------------------------------------------------


async def test_the_life_of_a_job(stage: JobHarness) -> None:
    stage.job("j", task(cpu=4, runs=30), plugins={"env": [], "svc": []})
    async with everything(stage):
        await stage.until_phase("j", "Running")
        assert stage.pods_of_job("j") == {"j-w-0": "Running", "j-w-1": "Running"}
        assert stage.groups() == ["j-0"]
        await stage.until_phase("j", "Completed")
        assert stage.phases_of("j") == ["Pending", "Running", "Completed"]
        status = stage.status("j")
        assert (status["succeeded"], status["running"], status["retryCount"]) == (2, 0, 0)
        await asyncio.sleep(1)
        assert stage.groups() == []
        assert stage.events_about("j").keys() == {"Pending", "Running", "Completed"}


async def test_a_job_that_does_not_fit_holds_nothing_and_says_why(stage: JobHarness) -> None:
    stage.job("j", task(replicas=3, cpu=4))
    async with everything(stage):
        await stage.until(lambda: "message" in stage.status("j").get("state", {}))
        assert set(stage.pods_of_job("j").values()) == {"-"}
        state = stage.status("j")["state"]
        assert (state["phase"], state["reason"]) == ("Pending", "Unschedulable")
        assert "Insufficient cpu" in state["message"]
        stage.create(a_node("n2").offers(cpu=4))
        await stage.until_phase("j", "Running")
        assert "reason" not in stage.status("j")["state"]


async def test_more_than_the_minimum_runs_when_it_fits(stage: JobHarness) -> None:
    stage.job("j", task(replicas=3, cpu=4), minAvailable=2)
    async with everything(stage):
        await stage.until_phase("j", "Running")
        assert stage.status("j")["pending"] == 1
        stage.create(a_node("n2").offers(cpu=4))
        await stage.until(lambda: stage.status("j")["running"] == 3)


async def test_tasks_start_after_those_they_depend_on(stage: JobHarness) -> None:
    later = task("w", 2, dependsOn={"name": ["m"], "iteration": "all"})
    stage.job("j", task("m", 1, runs=60), later)
    async with everything(stage):
        await stage.until(lambda: len(stage.pods_of_job("j")) == 3)
        made = {c.after["metadata"]["name"]: c.version for c in stage.history if c.type == "ADDED"}
        runs = next(
            c.version
            for c in stage.history
            if c.after["metadata"]["name"] == "j-m-0" and c.after["status"]["phase"] == "Running"
        )
        assert runs < made["j-w-0"]
        await stage.until_phase("j", "Running")


async def test_the_examples_run(stage: JobHarness) -> None:
    cards = {"nvidia.com/gpu": 8}
    notes = {"nvidia.com/gpu.product": "NVIDIA-GeForce-RTX-4090", "nvidia.com/gpu.count": "8"}
    notes["nvidia.com/gpu.memory"] = "24564"
    stage.create(a_node("n2").offers(cards).labelled(notes))
    for file in sorted(EXAMPLES.glob("*.yaml")):
        for manifest in yaml.safe_load_all(file.read_text()):
            stage.cluster.create(manifest)
    async with everything(stage):
        await stage.until_phase("training-low", "Running")
        await stage.until_phase("mnist", "Running")
        assert len(stage.pods_of_job("mnist")) == 4


# --- evictions (seed 004) ------------------------------------------------------------------------


async def test_a_job_aborted_by_an_eviction_frees_everything(stage: JobHarness) -> None:
    stage.job("training", task(cpu=4), on={"PodEvicted": "AbortJob"})
    async with everything(stage):
        await stage.until_phase("training", "Running")
        stage.create(a_pod("inference").needs(cpu=4))
        stage.evict("training-w-0")
        await stage.until_phase("training", "Aborted")
        assert stage.pods_of_job("training") == {}
        await stage.until(lambda: stage.node_of("inference") == "n1")
        await asyncio.sleep(600)
        assert (stage.pods_of_job("training"), stage.groups()) == ({}, [])
        state = stage.status("training")["state"]
        assert state["reason"] == "PodEvicted"
        assert state["message"] == "pod training-w-0 was evicted: AbortJob"
        # Until its owner wants it back.
        stage.delete("pod", "inference")
        stage.annotate("training", "ResumeJob")
        await stage.until_phase("training", "Running")


async def test_a_job_restarted_by_an_eviction_waits_whole(stage: JobHarness) -> None:
    stage.job("training", task(cpu=4), on={"PodEvicted": "RestartJob"})
    async with everything(stage):
        await stage.until_phase("training", "Running")
        stage.create(a_pod("inference").needs(cpu=4))
        stage.evict("training-w-1")
        await stage.until(lambda: stage.node_of("inference") == "n1")
        await asyncio.sleep(600)
        assert stage.phase("training") == "Pending"
        assert stage.pods_of_job("training") == {"training-w-0": "-", "training-w-1": "-"}
        stage.delete("pod", "inference")
        await stage.until_phase("training", "Running")
        assert stage.status("training")["retryCount"] == 0


async def test_the_scheduler_itself_takes_the_room(stage: JobHarness) -> None:
    head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 1000}
    stage.cluster.create({**head, "metadata": {"name": "high"}})
    stage.job("training", task(cpu=4), on={"PodEvicted": "RestartJob"})
    async with everything(stage):
        await stage.until_phase("training", "Running")
        stage.create(a_pod("inference").needs(cpu=4).with_spec(priorityClassName="high"))
        await stage.until(lambda: stage.node_of("inference") == "n1")
        await stage.until_phase("training", "Pending")
        await asyncio.sleep(60)
        assert set(stage.pods_of_job("training").values()) == {"-"}
        assert stage.status("training")["version"] == 1


async def test_evictions_never_use_up_the_retries(stage: JobHarness) -> None:
    stage.job("j", task(cpu=4), on={"PodEvicted": "RestartJob"}, maxRetry=1)
    async with everything(stage):
        for _ in range(10):
            await stage.until_phase("j", "Running")
            stage.evict("j-w-0")
            await stage.until_phase("j", "Restarting")
        await stage.until_phase("j", "Running")
        assert (stage.status("j")["retryCount"], stage.status("j")["version"]) == (0, 10)


async def test_an_eviction_that_nobody_saw(stage: JobHarness) -> None:
    stage.job("j", task(cpu=4), on={"PodEvicted": "RestartJob"})
    async with stage.kubelets(), stage.scheduler():
        async with stage.controllers("first"):
            await stage.until_phase("j", "Running")
            await asyncio.sleep(1)
        stage.delete("pod", "j-w-0")
        await asyncio.sleep(10)
        async with stage.controllers("second"):
            await stage.until(lambda: stage.status("j")["version"] == 1)
            await stage.until_phase("j", "Running")


async def test_without_a_policy_a_lost_pod_is_made_again(stage: JobHarness) -> None:
    stage.pieces.add("j")
    stage.job("j", task(cpu=4))
    async with everything(stage):
        await stage.until_phase("j", "Running")
        stage.evict("j-w-0")
        await stage.until_phase("j", "Pending")
        await stage.until_phase("j", "Running")
        assert stage.status("j")["version"] == 0


# --- failures ------------------------------------------------------------------------------------


async def test_a_job_that_fails_again_and_again_fails(stage: JobHarness) -> None:
    stage.job("j", task(runs=1, exits=1), on={"PodFailed": "RestartJob"}, maxRetry=3)
    async with everything(stage):
        await stage.until_phase("j", "Failed")
        status = stage.status("j")
        assert (status["retryCount"], status["version"]) == (3, 3)
        assert status["state"]["message"].endswith("but that is retry 3 of 3")
        # What has failed stays to be looked at.
        assert "Failed" in stage.pods_of_job("j").values()


async def test_only_the_pod_that_failed_is_restarted(stage: JobHarness) -> None:
    stage.pieces.add("j")
    stage.job("j", task("a", 1, runs=5, exits=1), task("b"), on={"PodFailed": "RestartPod"})
    async with everything(stage):
        await stage.until(lambda: stage.phase("j") == "Failed", within=120)
        versions = _versions(stage)
        assert versions["j-a-0"] == ["0", "1", "2"]
        assert versions["j-b-0"] == ["0"]


async def test_only_the_task_that_failed_is_restarted(stage: JobHarness) -> None:
    stage.pieces.add("j")
    policy = {"event": "PodFailed", "action": "RestartTask"}
    stage.job("j", task("a"), task("b", runs=5, exits=7, policies=[policy]))
    async with everything(stage):
        await stage.until(lambda: stage.status("j").get("retryCount") == 1)
        await stage.until_phase("j", "Running")
        versions = _versions(stage)
        assert versions["j-b-0"] == versions["j-b-1"] == ["0", "1"]
        assert versions["j-a-0"] == ["0"]


async def test_a_completed_task_completes_the_job(stage: JobHarness) -> None:
    stage.job("j", task("ps", 1), task("w", 2, runs=5), on={"TaskCompleted": "CompleteJob"})
    async with everything(stage):
        await stage.until_phase("j", "Completed")
        assert stage.phases_of("j") == ["Pending", "Running", "Completing", "Completed"]
        assert stage.pods_of_job("j") == {"j-w-0": "Succeeded", "j-w-1": "Succeeded"}


async def test_a_job_that_waits_too_long_is_aborted(stage: JobHarness) -> None:
    policy = {"event": "PodPending", "action": "AbortJob", "timeout": "10m"}
    stage.job("j", task(replicas=9))
    stage.edit("j", {"spec": {"policies": [policy]}})
    async with everything(stage):
        await asyncio.sleep(590)
        assert stage.phase("j") == "Pending"
        await stage.until_phase("j", "Aborted")
        assert stage.pods_of_job("j") == {}


async def test_a_gang_in_pieces_is_restarted(stage: JobHarness) -> None:
    stage.job("j", task(cpu=4), on={"Unknown": "RestartJob"})
    async with everything(stage):
        await stage.until_phase("j", "Running")
        # Its room is taken as soon as it is lost, so that it cannot be whole again.
        stage.create(a_pod("other").needs(cpu=4))
        stage.pieces.add("j")
        stage.delete("pod", "j-w-0")
        await stage.until(lambda: stage.status("j")["version"] == 1)
        assert stage.status("j")["retryCount"] == 1


# --- what its owner does -------------------------------------------------------------------------


async def test_a_job_is_scaled_up_and_down(stage: JobHarness) -> None:
    stage.job("j", task(replicas=2), plugins={"svc": []})
    async with everything(stage):
        await stage.until_phase("j", "Running")
        stage.edit("j", {"spec": {"tasks": [task(replicas=4)]}})
        await stage.until(lambda: stage.status("j")["running"] == 4)
        (hosts,) = stage.cluster.objects("configmaps")
        assert hosts["data"]["VC_W_NUM"] == "4"
        stage.edit("j", {"spec": {"tasks": [task(replicas=1)]}})
        await stage.until(lambda: stage.pods_of_job("j") == {"j-w-0": "Running"})
        await stage.until(lambda: stage.status("j")["terminating"] == 0)
        assert stage.phase("j") == "Running"
        (group,) = stage.cluster.objects("podgroups", "scheduling.volcano.sh")
        assert group["spec"]["minMember"] == 1


async def test_an_action_is_done_once_for_each_time_it_is_asked_for(stage: JobHarness) -> None:
    stage.job("j", task())
    async with everything(stage):
        await stage.until_phase("j", "Running")
        stage.annotate("j", "RestartJob")
        await stage.until(lambda: stage.status("j")["version"] == 1)
        await asyncio.sleep(60)
        assert stage.status("j")["version"] == 1
        stage.annotate("j", None)
        await asyncio.sleep(1)
        stage.annotate("j", "RestartJob")
        await stage.until(lambda: stage.status("j")["version"] == 2)
        await stage.until_phase("j", "Running")
        stage.annotate("j", "Terminate")
        await stage.until(lambda: "InvalidAction" in stage.events_about("j"))
        stage.annotate("j", "TerminateJob")
        await stage.until_phase("j", "Terminated")


async def test_what_belongs_to_a_job_goes_with_it(stage: JobHarness) -> None:
    stage.job("j", task(), plugins={"svc": []})
    async with everything(stage) as controller:
        await stage.until_phase("j", "Running")
        stage.delete_job("j")
        await stage.until(lambda: not stage.cluster.objects("pods"))
        left = (*stage.cluster.objects("services"), *stage.cluster.objects("configmaps"))
        assert (stage.groups(), left) == ([], ())
        await asyncio.sleep(60)
        assert not controller.cache._records
        assert not controller.reconciler._timers


async def test_a_job_of_the_same_name_waits_until_the_old_one_is_gone(stage: JobHarness) -> None:
    stage.pieces.add("j")
    stage.job("j", task())
    async with everything(stage):
        await stage.until_phase("j", "Running")
        stage.delete_job("j")
        stage.job("j", task("w", 1))
        await stage.until_phase("j", "Running")
        assert stage.pods_of_job("j") == {"j-w-0": "Running"}


async def test_a_finished_job_is_deleted_in_time(stage: JobHarness) -> None:
    stage.job("j", task(runs=5), ttlSecondsAfterFinished=3600)
    async with everything(stage):
        await stage.until_phase("j", "Completed")
        await asyncio.sleep(3590)
        assert stage.phase("j") == "Completed"
        await asyncio.sleep(15)
        assert stage.cluster.objects("jobs", "batch.volcano.sh") == []
        assert stage.cluster.objects("pods") == []


async def test_an_invalid_job_says_so_and_loses_nothing(stage: JobHarness) -> None:
    stage.job("bad", task(), plugins={"ssh": []})
    stage.job("good", task(cpu=2), on={"PodEvicted": "AbortJob"})
    async with everything(stage):
        await stage.until_phase("good", "Running")
        assert stage.pods_of_job("bad") == {}
        assert "ssh is not supported" in stage.status("bad")["state"]["message"]
        assert "ssh is not supported" in stage.events_about("bad")["Invalid"]
        stage.edit("good", {"spec": {"minSuccess": 7}})
        await asyncio.sleep(5)
        assert stage.status("good")["state"]["reason"] == "Invalid"
        assert stage.pods_of_job("good") == {"good-w-0": "Running", "good-w-1": "Running"}
        stage.edit("good", {"spec": {"minSuccess": None}})
        stage.edit("bad", {"spec": {"plugins": None}})
        await stage.until(lambda: "reason" not in stage.status("good")["state"])
        await stage.until_phase("bad", "Running")


async def test_jobs_of_other_schedulers_are_left_alone(stage: JobHarness) -> None:
    stage.job("j", task(), schedulerName="volcano")
    async with everything(stage):
        await asyncio.sleep(60)
        assert (stage.status("j"), stage.pods_of_job("j")) == ({}, {})


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
async def test_writes_that_fail_are_repeated(stage: JobHarness, fault: Any) -> None:
    stage.job("j", task(runs=60), on={"PodEvicted": "RestartJob"}, plugins={"svc": []})
    stage.job_taps.inject(WRITES & from_user("jobs"), fault, probability=0.3)
    async with everything(stage):
        await stage.until_phase("j", "Running", within=600)
        stage.evict("j-w-0")
        await stage.until(lambda: stage.status("j")["version"] == 1, within=600)
        await stage.until_phase("j", "Completed", within=1200)


async def test_a_refusal_that_holds_for_all_pods_is_heard_once(stage: JobHarness) -> None:
    stage.job("j", task(replicas=500))
    full = Reply(403, "Forbidden", "exceeded quota: pods")
    quota = stage.job_taps.inject(WRITES & for_resource("pods"), full)
    async with everything(stage):
        await asyncio.sleep(10)
        assert len(quota.matched) < 8
        assert stage.events_about("j")["FailedCreate"] == "j-w-0: exceeded quota: pods"
        assert stage.reason("j") == ("Refused", "j-w-0: exceeded quota: pods")


async def test_a_pod_of_that_name_that_is_not_ours(stage: JobHarness) -> None:
    stage.job("j", task())
    stage.create(a_pod("j-w-1"))
    async with everything(stage):
        await asyncio.sleep(5)
        assert stage.events_about("j")["FailedCreate"] == "pod j-w-1 exists and is not of this job"
        assert stage.phase("j") == "Pending"
        stage.delete("pod", "j-w-1")
        await stage.until_phase("j", "Running")


async def test_a_pod_group_that_somebody_deletes_is_made_again(stage: JobHarness) -> None:
    stage.job("j", task())
    async with everything(stage):
        await stage.until_phase("j", "Running")
        path = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups/j-0"
        stage.request("DELETE", path)
        await stage.until(lambda: stage.groups() == ["j-0"])
        await asyncio.sleep(5)
        assert stage.status("j")["version"] == 0


async def test_two_controllers_at_once_do_no_harm(stage: JobHarness) -> None:
    stage.job("j", task(cpu=4, runs=60), on={"PodEvicted": "RestartJob"}, plugins={"svc": []})
    async with everything(stage), stage.controllers("two"):
        await stage.until_phase("j", "Running")
        stage.evict("j-w-0")
        await stage.until_phase("j", "Restarting")
        await stage.until_phase("j", "Completed", within=300)
        assert stage.status("j")["version"] == 1


async def test_a_large_job_costs_few_writes_beside_its_pods(stage: JobHarness) -> None:
    stage.create(a_node("n2").offers(cpu=500, pods=600))
    stage.job("j", task(replicas=500))
    async with everything(stage):
        await stage.until_phase("j", "Running", within=120)
        await asyncio.sleep(5)
        taken = stage.job_taps.received()
        assert len([w for w in taken if w.call.plural == "pods"]) == 500
        assert len([w for w in taken if w.call.plural == "jobs"]) < 40
        await asyncio.sleep(3600)
        assert len(stage.job_taps.received()) == len(taken)


def _versions(stage: JobHarness) -> dict[str, list[str]]:
    """Pod → the versions of it that were made."""
    made: dict[str, list[str]] = {}
    for change in stage.history:
        if change.resource == "/pods" and change.type == "ADDED":
            meta: Object = change.after["metadata"]
            version = meta["annotations"]["volcano.sh/job-version"]
            made.setdefault(meta["name"], []).append(version)
    return made
