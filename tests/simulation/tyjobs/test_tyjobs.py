"""TYJobs (docs/design/tyjob.md) through scheduler, kubelets and controller, in virtual time.

After every test: stages changed along the edges of the machine only, no worker ran without the
address of its leader, and the invariants of gangs hold (:mod:`tests.simulation.harnesses.tyjobs`).
"""

from __future__ import annotations

import asyncio
from typing import Any

from arranger.controllers.tyjob.image_errors import IMAGE_PATIENCE
from tests.builders import a_pod
from tests.simulation.harnesses.simulation import VIRTUAL_TIME
from tests.simulation.harnesses.tyjobs import FIRST, LEADER, POD_CREATES, SECOND, TYJobHarness
from tests.tyjobs import a_template

pytestmark = VIRTUAL_TIME


def ending(after: float, code: int = 0) -> dict[str, Any]:
    """A template whose pods end."""
    return a_template(run_seconds=str(after), exit_code=str(code))


# --- the whole way -----------------------------------------------------------------------------


async def test_a_job_succeeds_with_its_leader(sim: TYJobHarness) -> None:
    sim.nodes("n1")
    sim.submit(leader=ending(60))
    async with sim.at_work():
        await sim.until_stage("Running")
        status = sim.status()
        assert status["scheduleState"] == "ScheduledSucceed"
        assert {each["pod"] for each in status["allocations"]} == {LEADER, FIRST, SECOND}
        assert (status["totalWorkers"], status["restarts"]) == (2, 0)
        assert status["leaderAddress"] == sim.pods()[LEADER]["status"]["podIP"]
        await sim.until(lambda: sim.status()["readyWorkers"] == 2)
        await sim.until_stage("Succeeded", within=90)
        await sim.until(lambda: not sim.pods())
        assert sim.status()["reason"] == "LeaderSucceeded"
        assert sim.stages() == ["Pending", "Starting", "Running", "Succeeded"]
        assert sim.event_reasons() == ["Pending", "Starting", "Running", "Succeeded"]


async def test_nothing_is_written_once_all_is_right(sim: TYJobHarness) -> None:
    sim.nodes("n1")
    sim.submit()
    async with sim.at_work():
        await sim.until_stage("Running")
        await asyncio.sleep(60)
        before = len(sim.controller_faults.log)
        await asyncio.sleep(600)
        assert len(sim.controller_faults.log) == before


async def test_a_job_that_does_not_fit_waits_whole_and_says_why(sim: TYJobHarness) -> None:
    sim.nodes("n1", cpu=2)
    sim.submit(workers=2, least=2)
    async with sim.at_work():
        await asyncio.sleep(60)
        status = sim.status()
        assert (status["stage"], status["scheduleState"]) == ("Pending", "Unscheduled")
        assert status["reason"] == "Unsatisfiable", "the nodes have 2 CPU in all"
        assert "gang default/job: 3 of 3 arrived" in status["message"]
        assert "allocations" not in status
        sim.nodes("n2", cpu=1)
        await sim.until_stage("Running")


async def test_a_job_starts_with_its_minimum_and_takes_the_rest_when_it_fits(
    sim: TYJobHarness,
) -> None:
    sim.nodes("n1", cpu=2)
    sim.submit(workers=3, least=1)
    async with sim.at_work():
        await sim.until_stage("Running")
        await asyncio.sleep(60)
        status = sim.status()
        assert (status["stage"], status["scheduleState"]) == ("Running", "ScheduledPartly")
        assert (status["readyWorkers"], status["totalWorkers"]) == (1, 3)
        assert "Insufficient cpu" in status["message"]
        sim.nodes("n2", cpu=2)
        await sim.until(lambda: sim.status()["readyWorkers"] == 3)
        assert sim.status()["scheduleState"] == "ScheduledSucceed"
        assert "message" not in sim.status()


async def test_workers_never_take_the_room_of_their_leader(sim: TYJobHarness) -> None:
    sim.nodes("n1", cpu=3)
    sim.submit(workers=3, least=1, leader=a_template(cpu=2))
    async with sim.at_work():
        await sim.until_stage("Running")
        assert sim.node_of(LEADER) == "n1"


async def test_without_gang_pods_are_placed_as_they_fit(sim: TYJobHarness) -> None:
    sim.nodes("n1", cpu=2)
    sim.submit(workers=2, least=2, schedulerPolicy={"basicPolicy": "BinPack"})
    async with sim.at_work():
        await sim.until(lambda: sim.bound() == 2)
        await asyncio.sleep(10)
        status = sim.status()
        assert (status["stage"], status["scheduleState"]) == ("Starting", "ScheduledPartly")
        assert "Insufficient cpu" in status["message"]
        sim.nodes("n2", cpu=2)
        await sim.until_stage("Running")


# --- failures ----------------------------------------------------------------------------------


async def test_a_leader_that_fails_once_more_than_it_may(sim: TYJobHarness) -> None:
    sim.nodes("n1")
    sim.submit(restartLimit=2, leader=ending(10, code=1))
    async with sim.at_work():
        await sim.until_stage("Failed", within=300)
        status = sim.status()
        assert (status["restarts"], status["reason"]) == (3, "LeaderFailed")
        assert status["message"] == "the leader failed 3 times; restartLimit is 2"
        assert sim.stages()[:4] == ["Pending", "Starting", "Running", "Rescheduling"]
        leaders = {
            write.request.json["metadata"]["name"]
            for write in sim.controller_faults.applied(POD_CREATES)
        }
        assert leaders == {LEADER, FIRST, SECOND}
        created = [
            w.request.json["metadata"]["name"] for w in sim.controller_faults.applied(POD_CREATES)
        ]
        assert created.count(LEADER) == 3
        await sim.until(lambda: not sim.pods())


async def test_no_restart_is_allowed(sim: TYJobHarness) -> None:
    sim.nodes("n1")
    sim.submit(restartLimit=0, leader=ending(10, code=1))
    async with sim.at_work():
        await sim.until_stage("Failed")
        assert sim.status()["restarts"] == 1


async def test_a_leader_without_its_image(sim: TYJobHarness) -> None:
    sim.nodes("n1")
    sim.submit(leader=a_template(waiting_reason="ImagePullBackOff"))
    async with sim.at_work():
        await sim.until(lambda: sim.status().get("reason") == "LeaderImage")
        assert sim.status()["stage"] == "Starting"
        await sim.until_stage("Failed", within=IMAGE_PATIENCE + 10)
        status = sim.status()
        assert (status["reason"], status["restarts"]) == ("LeaderImage", 0)
        assert status["message"] == f"{LEADER} cannot get its image: ImagePullBackOff"
        await sim.until(lambda: not sim.pods())


async def test_a_worker_that_fails_too_often_is_given_up_and_the_job_goes_on(
    sim: TYJobHarness,
) -> None:
    sim.nodes("n1")
    sim.submit(workers=2, least=1, restartLimit=1)
    async with sim.at_work():
        await sim.until(lambda: sim.status().get("readyWorkers") == 2)
        for times in ({SECOND: 1}, {SECOND: 2}):
            sim.patch("pod", SECOND, {"status": {"phase": "Failed"}}, sub="/status")
            await asyncio.sleep(10)
            assert sim.status()["workerRestarts"] == times
        assert sim.status()["stage"] == "Running"
        assert sim.pods()[SECOND]["status"]["phase"] == "Failed", "it stays for its logs"
        assert sim.status()["readyWorkers"] == 1
        assert "WorkerFailed" in sim.event_reasons()


async def test_too_many_workers_fail_for_good(sim: TYJobHarness) -> None:
    sim.nodes("n1")
    sim.submit(workers=2, least=2, restartLimit=1, worker=ending(5, code=1))
    async with sim.at_work():
        await sim.until_stage("Failed", within=120)
        status = sim.status()
        assert (status["reason"], status["restarts"]) == ("WorkersFailed", 0)


async def test_a_gang_that_ran_out_of_time_fails_the_job(sim: TYJobHarness) -> None:
    prefix = "gang.scheduling.koordinator.sh/"
    notes = {prefix + "mode": "NonStrict", prefix + "waiting-time": "30s"}
    sim.nodes("n1", cpu=1)
    sim.submit(annotations=notes)
    async with sim.at_work():
        await sim.until_stage("Failed", within=120)
        status = sim.status()
        assert (status["reason"], status["scheduleState"]) == (
            "SchedulingFailed",
            "ScheduledFailed",
        )


# --- evictions ---------------------------------------------------------------------------------


async def test_one_worker_of_a_surplus_is_evicted(sim: TYJobHarness) -> None:
    sim.nodes("n1")
    sim.submit(workers=2, least=1)
    async with sim.at_work():
        await sim.until(lambda: sim.status().get("readyWorkers") == 2)
        sim.delete("pod", SECOND, grace=30)
        await sim.until(lambda: sim.status()["readyWorkers"] == 1)
        await sim.until(lambda: sim.status()["readyWorkers"] == 2)
        assert sim.stages() == ["Pending", "Starting", "Running"]
        assert sim.status()["restarts"] == 0
        assert "workerRestarts" not in sim.status()


async def test_a_worker_of_the_minimum_is_evicted_and_its_room_is_gone(sim: TYJobHarness) -> None:
    sim.nodes("n1", cpu=3)
    sim.submit(workers=2, least=2)
    async with sim.at_work():
        await sim.until_stage("Running")
        sim.create(a_pod("taker").needs(cpu=1).with_priority(0).on("n1"))
        sim.may_exceed_capacity.add("n1")
        sim.delete("pod", SECOND, grace=0)
        await sim.until_stage("Rescheduling")
        status = sim.status()
        assert status["reason"] == "WorkersLost"
        await sim.until(lambda: "Insufficient cpu" in sim.status()["message"])
        assert status["restarts"] == 0
        sim.delete("pod", "taker")
        await sim.until_stage("Running")
        assert sim.status()["scheduleState"] == "ScheduledSucceed"


async def test_the_leader_is_evicted_and_the_whole_round_starts_again(sim: TYJobHarness) -> None:
    sim.nodes("n1")
    sim.submit()
    async with sim.at_work():
        await sim.until(lambda: sim.status().get("readyWorkers") == 2)
        before = {name: pod["metadata"]["uid"] for name, pod in sim.pods().items()}
        address = sim.status()["leaderAddress"]
        sim.delete("pod", LEADER, grace=30)
        await sim.until_stage("Rescheduling")
        assert sim.status()["reason"] == "LeaderLost"
        await sim.until_stage("Running")
        await sim.until(lambda: sim.status().get("readyWorkers") == 2)
        after = {name: pod["metadata"]["uid"] for name, pod in sim.pods().items()}
        assert before.keys() == after.keys()
        assert not set(before.values()) & set(after.values())
        assert sim.status()["leaderAddress"] != address
        assert sim.status()["restarts"] == 0
        (told,) = (
            c["data"]
            for c in sim.cluster.objects("configmaps")
            if "ownerReferences" in c["metadata"]
        )
        assert told == {after[LEADER]: sim.status()["leaderAddress"]}


async def test_a_leader_evicted_by_its_kubelet_is_no_failure(sim: TYJobHarness) -> None:
    sim.nodes("n1")
    sim.submit(restartLimit=0)
    async with sim.at_work():
        await sim.until_stage("Running")
        evicted = {"status": {"phase": "Failed", "reason": "Evicted"}}
        sim.patch("pod", LEADER, evicted, sub="/status")
        await sim.until_stage("Rescheduling")
        await sim.until_stage("Running")
        assert sim.status()["restarts"] == 0


async def test_a_pod_of_a_dead_node_does_not_hold_the_job_up_for_ever(sim: TYJobHarness) -> None:
    sim.nodes("n1")
    sim.submit(workers=2, least=2)
    async with sim.scheduler(), sim.controller():
        async with sim.kubelets():
            await sim.until_stage("Running")
        lost = sim.pods()[SECOND]["metadata"]["uid"]
        sim.delete("pod", SECOND, grace=30)
        await sim.until_stage("Rescheduling")
        await asyncio.sleep(80)
        assert sim.pods()[SECOND]["metadata"]["uid"] == lost, "its kubelet may still be alive"
        await sim.until(lambda: sim.pods().get(SECOND, sim.job())["metadata"]["uid"] != lost)
        async with sim.kubelets():
            await sim.until_stage("Running")
        assert "workerRestarts" not in sim.status()


async def test_a_job_larger_than_every_node_is_told_so_at_once_and_waits_on(
    sim: TYJobHarness,
) -> None:
    sim.nodes("n1", cpu=1)
    sim.submit(leader=a_template(cpu=64))
    async with sim.at_work():
        await sim.until(lambda: sim.status().get("reason") == "Unsatisfiable", within=10)
        why = f"Unsatisfiable: pod default/{LEADER} asks for cpu 64, and the largest node has cpu 1"
        assert sim.status()["message"].startswith(why)
        assert sim.message(LEADER).startswith(why)
        (scheduled,) = (c for c in sim.status()["conditions"] if c["type"] == "Scheduled")
        assert (scheduled["status"], scheduled["reason"]) == ("False", "Unsatisfiable")
        await asyncio.sleep(300)
        assert sim.status()["stage"] == "Pending"
        sim.create(a_pod("other").needs(cpu=64).on("n2"))
        sim.may_exceed_capacity.add("n2")
        sim.nodes("n2", cpu=66)
        await sim.until(lambda: sim.status().get("reason") == "Unschedulable")
        sim.delete("pod", "other")
        await sim.until_stage("Running")


async def test_a_job_without_gang_larger_than_every_node_is_told_so_too(sim: TYJobHarness) -> None:
    sim.nodes("n1")
    sim.submit(worker=a_template(cpu=64), schedulerPolicy={"basicPolicy": "BinPack"})
    async with sim.at_work():
        await sim.until(lambda: sim.status().get("reason") == "Unsatisfiable", within=10)
        assert sim.status()["stage"] == "Starting"
        assert sim.message(FIRST).startswith(f"Unsatisfiable: pod default/{FIRST} asks for cpu 64")


async def test_nodes_that_are_kept_for_a_gang_are_told_before_it_is_whole(
    sim: TYJobHarness,
) -> None:
    sim.nodes("n1", cpu=2)
    sim.submit(least=2, annotations={"gang.scheduling.koordinator.sh/mode": "NonStrict"})
    async with sim.at_work():
        await sim.until(lambda: len(sim.status().get("allocations", ())) == 2)
        status = sim.status()
        assert (status["stage"], status["scheduleState"]) == ("Pending", "ScheduledPartly")
        assert {each["node"] for each in status["allocations"]} == {"n1"}
        sim.nodes("n2", cpu=1)
        await sim.until_stage("Running")
