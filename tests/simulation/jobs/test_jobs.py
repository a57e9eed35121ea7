"""Jobs with the real scheduler and hollow kubelets, in virtual time."""

from __future__ import annotations

import asyncio

import pytest
import yaml

from tests.builders import a_node, a_pod
from tests.paths import REPO
from tests.simulation.harnesses.jobs import JobHarness, task
from tests.simulation.harnesses.simulation import VIRTUAL_TIME, Object

pytestmark = VIRTUAL_TIME

EXAMPLES = REPO / "examples" / "jobs"


# --- all run or all wait -------------------------------------------------------------------------


async def test_the_life_of_a_job(sim: JobHarness) -> None:
    sim.job("j", task(cpu=4, runs=30), plugins={"env": [], "svc": []})
    async with sim.at_work():
        await sim.until_phase("j", "Running")
        assert sim.pods_of_job("j") == {"j-w-0": "Running", "j-w-1": "Running"}
        assert sim.groups() == ["j-0"]
        await sim.until_phase("j", "Completed")
        assert sim.phases_of("j") == ["Pending", "Running", "Completed"]
        status = sim.status("j")
        assert (status["succeeded"], status["running"], status["retryCount"]) == (2, 0, 0)
        await asyncio.sleep(1)
        assert sim.groups() == []
        assert sim.events_about("j").keys() == {"Pending", "Running", "Completed"}


async def test_a_job_that_does_not_fit_holds_nothing_and_says_why(sim: JobHarness) -> None:
    sim.job("j", task(replicas=3, cpu=4))
    async with sim.at_work():
        await sim.until(lambda: "message" in sim.status("j").get("state", {}))
        assert set(sim.pods_of_job("j").values()) == {"-"}
        state = sim.status("j")["state"]
        assert (state["phase"], state["reason"]) == ("Pending", "Unschedulable")
        assert "Insufficient cpu" in state["message"]
        sim.create(a_node("n2").offers(cpu=4))
        await sim.until_phase("j", "Running")
        assert "reason" not in sim.status("j")["state"]


async def test_more_than_the_minimum_runs_when_it_fits(sim: JobHarness) -> None:
    sim.job("j", task(replicas=3, cpu=4), minAvailable=2)
    async with sim.at_work():
        await sim.until_phase("j", "Running")
        assert sim.status("j")["pending"] == 1
        sim.create(a_node("n2").offers(cpu=4))
        await sim.until(lambda: sim.status("j")["running"] == 3)


async def test_tasks_start_after_those_they_depend_on(sim: JobHarness) -> None:
    later = task("w", 2, dependsOn={"name": ["m"], "iteration": "all"})
    sim.job("j", task("m", 1, runs=60), later)
    async with sim.at_work():
        await sim.until(lambda: len(sim.pods_of_job("j")) == 3)
        made = {c.after["metadata"]["name"]: c.version for c in sim.history if c.type == "ADDED"}
        runs = next(
            c.version
            for c in sim.history
            if c.after["metadata"]["name"] == "j-m-0" and c.after["status"]["phase"] == "Running"
        )
        assert runs < made["j-w-0"]
        await sim.until_phase("j", "Running")


async def test_the_examples_run(sim: JobHarness) -> None:
    cards = {"nvidia.com/gpu": 8}
    notes = {"nvidia.com/gpu.product": "NVIDIA-GeForce-RTX-4090", "nvidia.com/gpu.count": "8"}
    notes["nvidia.com/gpu.memory"] = "24564"
    sim.create(a_node("n2").offers(cards).labelled(notes))
    for file in sorted(EXAMPLES.glob("*.yaml")):
        for manifest in yaml.safe_load_all(file.read_text()):
            sim.cluster.create(manifest)
    async with sim.at_work():
        await sim.until_phase("training-low", "Running")
        await sim.until_phase("mnist", "Running")
        assert len(sim.pods_of_job("mnist")) == 4


# --- evictions -----------------------------------------------------------------------------------


async def test_a_job_aborted_by_an_eviction_frees_everything(sim: JobHarness) -> None:
    sim.job("training", task(cpu=4), on={"PodEvicted": "AbortJob"})
    async with sim.at_work():
        await sim.until_phase("training", "Running")
        sim.create(a_pod("inference").needs(cpu=4))
        sim.evict("training-w-0")
        await sim.until_phase("training", "Aborted")
        assert sim.pods_of_job("training") == {}
        await sim.until(lambda: sim.node_of("inference") == "n1")
        await asyncio.sleep(600)
        assert (sim.pods_of_job("training"), sim.groups()) == ({}, [])
        state = sim.status("training")["state"]
        assert state["reason"] == "PodEvicted"
        assert state["message"] == "pod training-w-0 was evicted: AbortJob"
        # Until its owner wants it back.
        sim.delete("pod", "inference")
        sim.annotate("training", "ResumeJob")
        await sim.until_phase("training", "Running")


async def test_a_job_restarted_by_an_eviction_waits_whole(sim: JobHarness) -> None:
    sim.job("training", task(cpu=4), on={"PodEvicted": "RestartJob"})
    async with sim.at_work():
        await sim.until_phase("training", "Running")
        sim.create(a_pod("inference").needs(cpu=4))
        sim.evict("training-w-1")
        await sim.until(lambda: sim.node_of("inference") == "n1")
        await asyncio.sleep(600)
        assert sim.phase("training") == "Pending"
        assert sim.pods_of_job("training") == {"training-w-0": "-", "training-w-1": "-"}
        sim.delete("pod", "inference")
        await sim.until_phase("training", "Running")
        assert sim.status("training")["retryCount"] == 0


async def test_the_scheduler_itself_takes_the_room(sim: JobHarness) -> None:
    head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 1000}
    sim.cluster.create({**head, "metadata": {"name": "high"}})
    sim.job("training", task(cpu=4), on={"PodEvicted": "RestartJob"})
    async with sim.at_work():
        await sim.until_phase("training", "Running")
        sim.create(a_pod("inference").needs(cpu=4).with_spec(priorityClassName="high"))
        await sim.until(lambda: sim.node_of("inference") == "n1")
        await sim.until_phase("training", "Pending")
        await asyncio.sleep(60)
        assert set(sim.pods_of_job("training").values()) == {"-"}
        assert sim.status("training")["version"] == 1


async def test_evictions_never_use_up_the_retries(sim: JobHarness) -> None:
    sim.job("j", task(cpu=4), on={"PodEvicted": "RestartJob"}, maxRetry=1)
    async with sim.at_work():
        for _ in range(10):
            await sim.until_phase("j", "Running")
            sim.evict("j-w-0")
            await sim.until_phase("j", "Restarting")
        await sim.until_phase("j", "Running")
        assert (sim.status("j")["retryCount"], sim.status("j")["version"]) == (0, 10)


async def test_an_eviction_that_nobody_saw(sim: JobHarness) -> None:
    sim.job("j", task(cpu=4), on={"PodEvicted": "RestartJob"})
    async with sim.kubelets(), sim.scheduler():
        async with sim.controllers("first"):
            await sim.until_phase("j", "Running")
            await asyncio.sleep(1)
        sim.delete("pod", "j-w-0")
        await asyncio.sleep(10)
        async with sim.controllers("second"):
            await sim.until(lambda: sim.status("j")["version"] == 1)
            await sim.until_phase("j", "Running")


async def test_without_a_policy_a_lost_pod_is_made_again(sim: JobHarness) -> None:
    sim.may_repeat_pods.add("j")
    sim.job("j", task(cpu=4))
    async with sim.at_work():
        await sim.until_phase("j", "Running")
        sim.evict("j-w-0")
        await sim.until_phase("j", "Pending")
        await sim.until_phase("j", "Running")
        assert sim.status("j")["version"] == 0


# --- failures ------------------------------------------------------------------------------------


async def test_a_job_that_fails_again_and_again_fails(sim: JobHarness) -> None:
    sim.job("j", task(runs=1, exits=1), on={"PodFailed": "RestartJob"}, maxRetry=3)
    async with sim.at_work():
        await sim.until_phase("j", "Failed")
        status = sim.status("j")
        assert (status["retryCount"], status["version"]) == (3, 3)
        assert status["state"]["message"].endswith("but that is retry 3 of 3")
        # What has failed stays to be looked at.
        assert "Failed" in sim.pods_of_job("j").values()


async def test_only_the_pod_that_failed_is_restarted(sim: JobHarness) -> None:
    sim.may_repeat_pods.add("j")
    sim.job("j", task("a", 1, runs=5, exits=1), task("b"), on={"PodFailed": "RestartPod"})
    async with sim.at_work():
        await sim.until(lambda: sim.phase("j") == "Failed", within=120)
        versions = _versions(sim)
        assert versions["j-a-0"] == ["0", "1", "2"]
        assert versions["j-b-0"] == ["0"]


async def test_only_the_task_that_failed_is_restarted(sim: JobHarness) -> None:
    sim.may_repeat_pods.add("j")
    policy = {"event": "PodFailed", "action": "RestartTask"}
    sim.job("j", task("a"), task("b", runs=5, exits=7, policies=[policy]))
    async with sim.at_work():
        await sim.until(lambda: sim.status("j").get("retryCount") == 1)
        await sim.until_phase("j", "Running")
        versions = _versions(sim)
        assert versions["j-b-0"] == versions["j-b-1"] == ["0", "1"]
        assert versions["j-a-0"] == ["0"]


async def test_a_completed_task_completes_the_job(sim: JobHarness) -> None:
    sim.job("j", task("ps", 1), task("w", 2, runs=5), on={"TaskCompleted": "CompleteJob"})
    async with sim.at_work():
        await sim.until_phase("j", "Completed")
        assert sim.phases_of("j") == ["Pending", "Running", "Completing", "Completed"]
        assert sim.pods_of_job("j") == {"j-w-0": "Succeeded", "j-w-1": "Succeeded"}


async def test_a_job_that_waits_too_long_is_aborted(sim: JobHarness) -> None:
    policy = {"event": "PodPending", "action": "AbortJob", "timeout": "10m"}
    sim.job("j", task(replicas=9))
    sim.edit("j", {"spec": {"policies": [policy]}})
    async with sim.at_work():
        await asyncio.sleep(590)
        assert sim.phase("j") == "Pending"
        assert sim.events_about("j")["ExecuteAction"] == "Execute action AbortJob after 10m0s"
        await sim.until_phase("j", "Aborted")
        assert sim.pods_of_job("j") == {}


async def test_a_gang_in_pieces_is_restarted(sim: JobHarness) -> None:
    sim.job("j", task(cpu=4), on={"Unknown": "RestartJob"})
    async with sim.at_work():
        await sim.until_phase("j", "Running")
        # Its room is taken as soon as it is lost, so that it cannot be whole again.
        sim.create(a_pod("other").needs(cpu=4))
        sim.may_repeat_pods.add("j")
        sim.delete("pod", "j-w-0")
        await sim.until(lambda: sim.status("j")["version"] == 1)
        assert sim.status("j")["retryCount"] == 1


def _versions(sim: JobHarness) -> dict[str, list[str]]:
    """Pod → the versions of it that were made."""
    made: dict[str, list[str]] = {}
    for change in sim.history:
        if change.resource == "/pods" and change.type == "ADDED":
            meta: Object = change.after["metadata"]
            version = meta["annotations"]["volcano.sh/job-version"]
            made.setdefault(meta["name"], []).append(version)
    return made


@pytest.mark.parametrize("policy", [None, "RestartPod"])
async def test_a_pod_that_saves_its_state_when_it_is_evicted_is_not_done(
    sim: JobHarness, policy: str | None
) -> None:
    sim.may_repeat_pods.add("j")
    sim.job("j", task(replicas=2, runs=100), on={"PodEvicted": policy} if policy else {})
    async with sim.at_work():
        await sim.until_phase("j", "Running")
        before = sim.pod("j-w-0")["metadata"]["uid"]
        sim.patch("pod", "j-w-0", {"metadata": {"finalizers": ["example.com/slow"]}})
        sim.evict("j-w-0")
        sim.patch("pod", "j-w-0", {"status": {"phase": "Succeeded"}}, sub="/status")
        await asyncio.sleep(2)
        assert "succeeded" not in {k for k, n in sim.status("j").items() if n}
        sim.patch("pod", "j-w-0", {"metadata": {"finalizers": None}})
        await sim.until(lambda: sim.status("j")["running"] == 2)
        assert sim.pod("j-w-0")["metadata"]["uid"] != before
        await sim.until_phase("j", "Completed", within=200)
        assert (sim.status("j")["succeeded"], sim.status("j")["retryCount"]) == (2, 0)


async def test_pods_that_their_nodes_refuse_use_up_no_retry(sim: JobHarness) -> None:
    sim.may_repeat_pods.add("j")
    sim.job("j", task(replicas=1), on={"PodFailed": "RestartJob"}, maxRetry=2)
    refusal = {"phase": "Failed", "reason": "OutOfcpu", "message": "Pod was rejected: no cpu"}
    async with sim.scheduler(), sim.controllers("one"):
        for _ in range(4):
            await sim.until(lambda: sim.pods_of_job("j") == {"j-w-0": "Pending"})
            await sim.until(lambda: bool(sim.node_of("j-w-0")))
            refused = sim.pod("j-w-0")["metadata"]["uid"]
            sim.patch("pod", "j-w-0", {"status": refusal}, sub="/status")
            await sim.until(
                lambda uid=refused: (
                    sim.pods_of_job("j").keys() == {"j-w-0"}
                    and sim.pod("j-w-0")["metadata"]["uid"] != uid
                )
            )
        async with sim.kubelets():
            await sim.until_phase("j", "Running")
        assert sim.status("j")["retryCount"] == 0
