"""TYJobs (docs/design/tyjob.md) through scheduler, kubelets and controller, in virtual time.

After every test: stages changed along the edges of the machine only, no worker ran without the
address of its leader, and the invariants of gangs hold (:mod:`tests.simulation.harnesses.tyjobs`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from tests.builders import a_pod
from tests.faults.injector import (
    EVENTS,
    WRITES,
    ConcurrentAction,
    DropConnection,
    Reply,
    RequestMatcher,
)
from tests.simulation.harnesses.simulation import VIRTUAL_TIME
from tests.simulation.harnesses.tyjobs import JOBS, POD_CREATES, TYJobHarness
from tests.tyjobs import a_template

pytestmark = VIRTUAL_TIME

LEADER, FIRST, SECOND = "job-learner-0", "job-actor-0", "job-actor-1"


#: Requests with the leader's pod in the body.
ABOUT_LEADER = RequestMatcher(lambda call: bool(call.body) and LEADER in str(call.json["metadata"]))


@pytest.fixture
def sim() -> Iterator[TYJobHarness]:
    sim = TYJobHarness()
    yield sim
    sim.check()


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
        assert status["reason"] == "Unschedulable"
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
        assert (status["stage"], status["scheduleState"]) == ("Pending", "ScheduledPartly")
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
        await sim.until_stage("Failed")
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


# --- ends --------------------------------------------------------------------------------------


async def test_terminating_ends_a_running_job_as_succeeded(sim: TYJobHarness) -> None:
    sim.nodes("n1")
    sim.submit()
    async with sim.at_work():
        await sim.until_stage("Running")
        sim.edit(terminating=True)
        await sim.until_stage("Succeeded")
        assert sim.status()["reason"] == "Terminated"
        await sim.until(lambda: not sim.pods())


async def test_terminating_ends_a_waiting_job_too(sim: TYJobHarness) -> None:
    sim.submit()
    async with sim.at_work():
        await sim.until_stage("Pending")
        sim.edit(terminating=True)
        await sim.until_stage("Succeeded")
        await sim.until(lambda: not sim.pods())


CLEANED: dict[str, set[str]] = {
    "All": set(),
    "Running": {LEADER, SECOND},
    "None": {LEADER, FIRST, SECOND},
}


@pytest.mark.parametrize(("policy", "left"), CLEANED.items(), ids=CLEANED.keys())
async def test_pods_that_are_left_at_the_end(
    sim: TYJobHarness, policy: str, left: set[str]
) -> None:
    sim.nodes("n1")
    sim.submit(cleanPodPolicy=policy, leader=ending(30))
    async with sim.at_work():
        await sim.until(lambda: sim.status().get("readyWorkers") == 2)
        sim.patch("pod", SECOND, {"status": {"phase": "Succeeded"}}, sub="/status")
        await sim.until_stage("Succeeded", within=60)
        await asyncio.sleep(60)
        assert sim.pods().keys() == left


async def test_deleting_a_job_takes_everything_with_it(sim: TYJobHarness) -> None:
    sim.nodes("n1")
    sim.submit()
    async with sim.at_work():
        await sim.until_stage("Running")
        assert "finalizers" not in sim.job()["metadata"]
        sim.request("DELETE", "/apis/arranger.io/v1alpha1/namespaces/default/tyjobs/job")
        await asyncio.sleep(60)
        assert not sim.pods()
        assert not [
            one
            for kind in ("services", "configmaps")
            for one in sim.cluster.objects(kind)
            if "ownerReferences" in one["metadata"]
        ]


# --- changes of mind ---------------------------------------------------------------------------


async def test_workers_are_added_and_taken_away(sim: TYJobHarness) -> None:
    sim.nodes("n1", "n2")
    sim.submit(workers=1)
    async with sim.at_work():
        await sim.until_stage("Running")
        template = a_template()
        grown = [{"name": "actor", "template": template, "counts": 3}]
        sim.edit(workerSets=grown)
        await sim.until(lambda: sim.status()["readyWorkers"] == 3)
        sim.edit(workerSets=[{"name": "other", "template": template, "counts": 1}])
        await sim.until(lambda: sim.pods().keys() == {LEADER, "job-other-0"})
        await sim.until_stage("Running")


async def test_a_bad_change_loses_nothing_and_is_told(sim: TYJobHarness) -> None:
    sim.nodes("n1")
    sim.submit()
    async with sim.at_work():
        await sim.until_stage("Running")
        before = {name: pod["metadata"]["uid"] for name, pod in sim.pods().items()}
        both = ["JobAffinity", "JobAntiAffinity"]
        sim.edit(schedulerPolicy={"basicPolicy": both})
        await sim.until(lambda: sim.status().get("reason") == "Invalid")
        await asyncio.sleep(60)
        assert {n: p["metadata"]["uid"] for n, p in sim.pods().items()} == before
        refusal = "basicPolicy asks for JobAffinity and for JobAntiAffinity"
        assert sim.status()["message"] == refusal
        assert "InvalidTYJob" in sim.event_reasons()
        sim.edit(schedulerPolicy=None)
        await sim.until(lambda: "reason" not in sim.status())
        (valid,) = (c for c in sim.status()["conditions"] if c["type"] == "Valid")
        assert valid["status"] == "True"
        assert {n: p["metadata"]["uid"] for n, p in sim.pods().items()} == before


async def test_somebody_elses_pod_has_the_name(sim: TYJobHarness) -> None:
    sim.nodes("n1")
    sim.create(a_pod(FIRST).needs(cpu=1))
    sim.submit()
    async with sim.at_work():

        def valid() -> dict[str, str]:
            conditions = sim.status().get("conditions", [])
            return next((c for c in conditions if c["type"] == "Valid"), {"status": ""})

        await sim.until(lambda: valid()["status"] == "False")
        assert valid()["message"] == f"pods {FIRST}: exists and is not of this job"
        assert "RefusedTYJob" in sim.event_reasons()
        sim.delete("pod", FIRST)
        await sim.until_stage("Running", within=120)
        assert valid()["status"] == "True"


async def test_a_quota_lets_no_pods_in_for_a_while(sim: TYJobHarness) -> None:
    sim.nodes("n1")
    sim.submit(workers=8)
    full = Reply(403, "Forbidden", "exceeded quota: pods")
    async with sim.at_work():
        with sim.controller_faults.inject(POD_CREATES & ~ABOUT_LEADER, full) as rule:
            await asyncio.sleep(60)
            assert len(rule.matched) < 10, "it asks ever more rarely, and for one pod only"
            conditions = {c["type"]: c for c in sim.status()["conditions"]}
            assert conditions["Valid"]["message"] == f"pods {FIRST}: exceeded quota: pods"
            assert sim.event_reasons().count("RefusedTYJob") == 1
        await sim.until_stage("Running", within=120)
        await sim.until(lambda: sim.status()["readyWorkers"] == 3)
        conditions = {c["type"]: c for c in sim.status()["conditions"]}
        assert conditions["Valid"]["status"] == "True"


async def test_a_job_that_has_gone_unseen_is_not_started_again(sim: TYJobHarness) -> None:
    sim.nodes("n1")
    sim.submit()
    async with sim.scheduler(), sim.kubelets(), sim.controller() as controller:
        await sim.until_stage("Running")
        job = controller.cache.job("default/job")
        assert job is not None
        sim.request("DELETE", f"{JOBS}/job")
        await asyncio.sleep(30)
        # As kopf leaves it when a watch was broken as the job went.
        controller.cache.on_job_updated(msgspec.to_builtins(job))
        before = len(sim.controller_faults.applied(POD_CREATES))
        controller.work_queue.enqueue({"default/job"})
        await asyncio.sleep(30)
        assert len(sim.controller_faults.applied(POD_CREATES)) == before
        assert controller.cache.job("default/job") is None


async def test_two_controllers_at_a_time_do_no_harm(sim: TYJobHarness) -> None:
    sim.nodes("n1")
    sim.submit()
    async with sim.scheduler(), sim.kubelets(), sim.controller(), sim.controller():
        await _script(sim)
    status = sim.status()
    assert (status["restarts"], status["workerRestarts"]) == (1, {SECOND: 1})
    created = [
        w.request.json["metadata"]["name"] for w in sim.controller_faults.applied(POD_CREATES)
    ]
    assert sorted(map(created.count, (LEADER, FIRST, SECOND))) == [2, 3, 3]


# --- deaths ------------------------------------------------------------------------------------


async def _restart_at(sim: TYJobHarness, write: int, lose: DropConnection) -> bool:
    """Run the script with the controller killed at its nth write; whether it came to that."""
    died = asyncio.Event()
    note = sim.controller_faults.inject(WRITES & ~EVENTS, ConcurrentAction(died.set), skip=write)
    # From that write on nothing gets through, until another controller takes over.
    with note, sim.controller_faults.inject(WRITES & ~EVENTS, lose, skip=write):
        async with sim.controller():
            script = asyncio.create_task(_script(sim))
            death = asyncio.create_task(died.wait())
            await asyncio.wait({script, death}, return_when=asyncio.FIRST_COMPLETED)
            death.cancel()
    if died.is_set():
        async with sim.controller():
            await script
    else:
        await script
    return died.is_set()


async def _script(sim: TYJobHarness) -> None:
    """A leader that fails once, a worker that does, an eviction, and a good end."""
    await sim.until_stage("Running", within=200)
    sim.patch("pod", SECOND, {"status": {"phase": "Failed"}}, sub="/status")
    await sim.until(lambda: sim.status().get("workerRestarts") == {SECOND: 1}, within=200)
    await sim.until(lambda: sim.status()["readyWorkers"] == 2, within=200)
    sim.patch("pod", LEADER, {"status": {"phase": "Failed"}}, sub="/status")
    await sim.until(lambda: sim.status()["restarts"] == 1, within=200)
    await sim.until(lambda: _all_ready(sim), within=200)
    sim.delete("pod", FIRST, grace=5)
    await sim.until(lambda: FIRST not in sim.pods(), within=200)
    await sim.until(lambda: _all_ready(sim), within=200)
    sim.patch("pod", LEADER, {"status": {"phase": "Succeeded"}}, sub="/status")
    await sim.until_stage("Succeeded", within=200)
    await sim.until(lambda: not sim.pods(), within=200)


def _all_ready(sim: TYJobHarness) -> bool:
    status = sim.status()
    return bool(status["stage"] == "Running" and status["readyWorkers"] == 2)


@pytest.mark.parametrize("lose", [DropConnection.BEFORE, DropConnection.AFTER])
async def test_it_is_killed_at_every_single_write(lose: DropConnection) -> None:
    for write in range(200):
        sim = TYJobHarness()
        sim.nodes("n1")
        sim.submit()
        async with sim.scheduler(), sim.kubelets():
            died = await _restart_at(sim, write, lose)
        sim.check()
        status = sim.status()
        assert (status["restarts"], status["workerRestarts"]) == (1, {SECOND: 1}), write
        created = [
            w.request.json["metadata"]["name"] for w in sim.controller_faults.applied(POD_CREATES)
        ]
        assert sorted(map(created.count, (LEADER, FIRST, SECOND))) == [2, 3, 3], (write, created)
        if not died:
            assert write > 20, "the script was not followed"
            return
    raise AssertionError("it never ends")
