"""TYJobs (seed 003) through scheduler, kubelets and controller, in virtual time.

After every test: stages changed along the edges of the machine only, no worker ran without the
address of its leader, and the invariants of gangs hold (:mod:`.tyjob_stage`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from arranger.embedded.fault_injection import (
    EVENTS,
    WRITES,
    ConcurrentAction,
    DropConnection,
    Reply,
    RequestMatcher,
)
from tests.builders import a_pod
from tests.simulation.harnesses.simulation import VIRTUAL_TIME
from tests.simulation.harnesses.tyjobs import JOBS, POD_CREATES, TYJobHarness
from tests.tyjobs import a_template

pytestmark = VIRTUAL_TIME

LEADER, FIRST, SECOND = "job-learner-0", "job-actor-0", "job-actor-1"


#: Requests with the leader's pod in the body.
ABOUT_LEADER = RequestMatcher(lambda call: bool(call.body) and LEADER in str(call.json["metadata"]))


@pytest.fixture
def stage() -> Iterator[TYJobHarness]:
    stage = TYJobHarness()
    yield stage
    stage.check()


def ending(after: float, code: int = 0) -> dict[str, Any]:
    """A template whose pods end."""
    return a_template(run_seconds=str(after), exit_code=str(code))


# --- the whole way -----------------------------------------------------------------------------


async def test_a_job_succeeds_with_its_leader(stage: TYJobHarness) -> None:
    stage.nodes("n1")
    stage.submit(leader=ending(60))
    async with stage.at_work():
        await stage.until_stage("Running")
        status = stage.status()
        assert status["scheduleState"] == "ScheduledSucceed"
        assert {each["pod"] for each in status["allocations"]} == {LEADER, FIRST, SECOND}
        assert (status["totalWorkers"], status["restarts"]) == (2, 0)
        assert status["leaderAddress"] == stage.pods()[LEADER]["status"]["podIP"]
        await stage.until(lambda: stage.status()["readyWorkers"] == 2)
        await stage.until_stage("Succeeded", within=90)
        await stage.until(lambda: not stage.pods())
        assert stage.status()["reason"] == "LeaderSucceeded"
        assert stage.stages() == ["Pending", "Starting", "Running", "Succeeded"]
        assert stage.event_reasons() == ["Pending", "Starting", "Running", "Succeeded"]


async def test_nothing_is_written_once_all_is_right(stage: TYJobHarness) -> None:
    stage.nodes("n1")
    stage.submit()
    async with stage.at_work():
        await stage.until_stage("Running")
        await asyncio.sleep(60)
        before = len(stage.hands.log)
        await asyncio.sleep(600)
        assert len(stage.hands.log) == before


async def test_a_job_that_does_not_fit_waits_whole_and_says_why(stage: TYJobHarness) -> None:
    stage.nodes("n1", cpu=2)
    stage.submit(workers=2, least=2)
    async with stage.at_work():
        await asyncio.sleep(60)
        status = stage.status()
        assert (status["stage"], status["scheduleState"]) == ("Pending", "Unscheduled")
        assert status["reason"] == "Unschedulable"
        assert "gang default/job: 3 of 3 arrived" in status["message"]
        assert "allocations" not in status
        stage.nodes("n2", cpu=1)
        await stage.until_stage("Running")


async def test_a_job_starts_with_its_minimum_and_takes_the_rest_when_it_fits(
    stage: TYJobHarness,
) -> None:
    stage.nodes("n1", cpu=2)
    stage.submit(workers=3, least=1)
    async with stage.at_work():
        await stage.until_stage("Running")
        await asyncio.sleep(60)
        status = stage.status()
        assert (status["stage"], status["scheduleState"]) == ("Running", "ScheduledPartly")
        assert (status["readyWorkers"], status["totalWorkers"]) == (1, 3)
        assert "Insufficient cpu" in status["message"]
        stage.nodes("n2", cpu=2)
        await stage.until(lambda: stage.status()["readyWorkers"] == 3)
        assert stage.status()["scheduleState"] == "ScheduledSucceed"
        assert "message" not in stage.status()


async def test_workers_never_take_the_room_of_their_leader(stage: TYJobHarness) -> None:
    stage.nodes("n1", cpu=3)
    stage.submit(workers=3, least=1, leader=a_template(cpu=2))
    async with stage.at_work():
        await stage.until_stage("Running")
        assert stage.node_of(LEADER) == "n1"


async def test_without_gang_pods_are_placed_as_they_fit(stage: TYJobHarness) -> None:
    stage.nodes("n1", cpu=2)
    stage.submit(workers=2, least=2, schedulerPolicy={"basicPolicy": "BinPack"})
    async with stage.at_work():
        await stage.until(lambda: stage.bound() == 2)
        await asyncio.sleep(10)
        status = stage.status()
        assert (status["stage"], status["scheduleState"]) == ("Pending", "ScheduledPartly")
        stage.nodes("n2", cpu=2)
        await stage.until_stage("Running")


# --- failures ----------------------------------------------------------------------------------


async def test_a_leader_that_fails_once_more_than_it_may(stage: TYJobHarness) -> None:
    stage.nodes("n1")
    stage.submit(restartLimit=2, leader=ending(10, code=1))
    async with stage.at_work():
        await stage.until_stage("Failed", within=300)
        status = stage.status()
        assert (status["restarts"], status["reason"]) == (3, "LeaderFailed")
        assert status["message"] == "the leader failed 3 times; restartLimit is 2"
        assert stage.stages()[:4] == ["Pending", "Starting", "Running", "Rescheduling"]
        leaders = {
            write.call.json["metadata"]["name"] for write in stage.hands.applied(POD_CREATES)
        }
        assert leaders == {LEADER, FIRST, SECOND}
        created = [w.call.json["metadata"]["name"] for w in stage.hands.applied(POD_CREATES)]
        assert created.count(LEADER) == 3
        await stage.until(lambda: not stage.pods())


async def test_no_restart_is_allowed(stage: TYJobHarness) -> None:
    stage.nodes("n1")
    stage.submit(restartLimit=0, leader=ending(10, code=1))
    async with stage.at_work():
        await stage.until_stage("Failed")
        assert stage.status()["restarts"] == 1


async def test_a_leader_without_its_image(stage: TYJobHarness) -> None:
    stage.nodes("n1")
    stage.submit(leader=a_template(waiting_reason="ImagePullBackOff"))
    async with stage.at_work():
        await stage.until_stage("Failed")
        status = stage.status()
        assert (status["reason"], status["restarts"]) == ("LeaderImage", 0)
        assert status["message"] == f"{LEADER} cannot get its image: ImagePullBackOff"
        await stage.until(lambda: not stage.pods())


async def test_a_worker_that_fails_too_often_is_given_up_and_the_job_goes_on(
    stage: TYJobHarness,
) -> None:
    stage.nodes("n1")
    stage.submit(workers=2, least=1, restartLimit=1)
    async with stage.at_work():
        await stage.until(lambda: stage.status().get("readyWorkers") == 2)
        for times in ({SECOND: 1}, {SECOND: 2}):
            stage.patch("pod", SECOND, {"status": {"phase": "Failed"}}, sub="/status")
            await asyncio.sleep(10)
            assert stage.status()["workerRestarts"] == times
        assert stage.status()["stage"] == "Running"
        assert stage.pods()[SECOND]["status"]["phase"] == "Failed", "it stays for its logs"
        assert stage.status()["readyWorkers"] == 1
        assert "WorkerFailed" in stage.event_reasons()


async def test_too_many_workers_fail_for_good(stage: TYJobHarness) -> None:
    stage.nodes("n1")
    stage.submit(workers=2, least=2, restartLimit=1, worker=ending(5, code=1))
    async with stage.at_work():
        await stage.until_stage("Failed", within=120)
        status = stage.status()
        assert (status["reason"], status["restarts"]) == ("WorkersFailed", 0)


async def test_a_gang_that_ran_out_of_time_fails_the_job(stage: TYJobHarness) -> None:
    prefix = "gang.scheduling.koordinator.sh/"
    notes = {prefix + "mode": "NonStrict", prefix + "waiting-time": "30s"}
    stage.nodes("n1", cpu=1)
    stage.submit(annotations=notes)
    async with stage.at_work():
        await stage.until_stage("Failed", within=120)
        status = stage.status()
        assert (status["reason"], status["scheduleState"]) == (
            "SchedulingFailed",
            "ScheduledFailed",
        )


# --- evictions ---------------------------------------------------------------------------------


async def test_one_worker_of_a_surplus_is_evicted(stage: TYJobHarness) -> None:
    stage.nodes("n1")
    stage.submit(workers=2, least=1)
    async with stage.at_work():
        await stage.until(lambda: stage.status().get("readyWorkers") == 2)
        stage.delete("pod", SECOND, grace=30)
        await stage.until(lambda: stage.status()["readyWorkers"] == 1)
        await stage.until(lambda: stage.status()["readyWorkers"] == 2)
        assert stage.stages() == ["Pending", "Starting", "Running"]
        assert stage.status()["restarts"] == 0
        assert "workerRestarts" not in stage.status()


async def test_a_worker_of_the_minimum_is_evicted_and_its_room_is_gone(stage: TYJobHarness) -> None:
    stage.nodes("n1", cpu=3)
    stage.submit(workers=2, least=2)
    async with stage.at_work():
        await stage.until_stage("Running")
        stage.create(a_pod("taker").needs(cpu=1).with_priority(0).on("n1"))
        stage.excused.add("n1")
        stage.delete("pod", SECOND, grace=0)
        await stage.until_stage("Rescheduling")
        status = stage.status()
        assert status["reason"] == "WorkersLost"
        await stage.until(lambda: "Insufficient cpu" in stage.status()["message"])
        assert status["restarts"] == 0
        stage.delete("pod", "taker")
        await stage.until_stage("Running")
        assert stage.status()["scheduleState"] == "ScheduledSucceed"


async def test_the_leader_is_evicted_and_the_whole_round_starts_again(stage: TYJobHarness) -> None:
    stage.nodes("n1")
    stage.submit()
    async with stage.at_work():
        await stage.until(lambda: stage.status().get("readyWorkers") == 2)
        before = {name: pod["metadata"]["uid"] for name, pod in stage.pods().items()}
        address = stage.status()["leaderAddress"]
        stage.delete("pod", LEADER, grace=30)
        await stage.until_stage("Rescheduling")
        assert stage.status()["reason"] == "LeaderLost"
        await stage.until_stage("Running")
        await stage.until(lambda: stage.status().get("readyWorkers") == 2)
        after = {name: pod["metadata"]["uid"] for name, pod in stage.pods().items()}
        assert before.keys() == after.keys()
        assert not set(before.values()) & set(after.values())
        assert stage.status()["leaderAddress"] != address
        assert stage.status()["restarts"] == 0
        (told,) = (
            c["data"]
            for c in stage.cluster.objects("configmaps")
            if "ownerReferences" in c["metadata"]
        )
        assert told == {after[LEADER]: stage.status()["leaderAddress"]}


async def test_a_leader_evicted_by_its_kubelet_is_no_failure(stage: TYJobHarness) -> None:
    stage.nodes("n1")
    stage.submit(restartLimit=0)
    async with stage.at_work():
        await stage.until_stage("Running")
        evicted = {"status": {"phase": "Failed", "reason": "Evicted"}}
        stage.patch("pod", LEADER, evicted, sub="/status")
        await stage.until_stage("Rescheduling")
        await stage.until_stage("Running")
        assert stage.status()["restarts"] == 0


async def test_a_pod_of_a_dead_node_does_not_hold_the_job_up_for_ever(stage: TYJobHarness) -> None:
    stage.nodes("n1")
    stage.submit(workers=2, least=2)
    async with stage.scheduler(), stage.controller():
        async with stage.kubelets():
            await stage.until_stage("Running")
        lost = stage.pods()[SECOND]["metadata"]["uid"]
        stage.delete("pod", SECOND, grace=30)
        await stage.until_stage("Rescheduling")
        await asyncio.sleep(80)
        assert stage.pods()[SECOND]["metadata"]["uid"] == lost, "its kubelet may still be alive"
        await stage.until(lambda: stage.pods().get(SECOND, stage.job())["metadata"]["uid"] != lost)
        async with stage.kubelets():
            await stage.until_stage("Running")
        assert "workerRestarts" not in stage.status()


# --- ends --------------------------------------------------------------------------------------


async def test_terminating_ends_a_running_job_as_succeeded(stage: TYJobHarness) -> None:
    stage.nodes("n1")
    stage.submit()
    async with stage.at_work():
        await stage.until_stage("Running")
        stage.edit(terminating=True)
        await stage.until_stage("Succeeded")
        assert stage.status()["reason"] == "Terminated"
        await stage.until(lambda: not stage.pods())


async def test_terminating_ends_a_waiting_job_too(stage: TYJobHarness) -> None:
    stage.submit()
    async with stage.at_work():
        await stage.until_stage("Pending")
        stage.edit(terminating=True)
        await stage.until_stage("Succeeded")
        await stage.until(lambda: not stage.pods())


CLEANED: dict[str, set[str]] = {
    "All": set(),
    "Running": {LEADER, SECOND},
    "None": {LEADER, FIRST, SECOND},
}


@pytest.mark.parametrize(("policy", "left"), CLEANED.items(), ids=CLEANED.keys())
async def test_pods_that_are_left_at_the_end(
    stage: TYJobHarness, policy: str, left: set[str]
) -> None:
    stage.nodes("n1")
    stage.submit(cleanPodPolicy=policy, leader=ending(30))
    async with stage.at_work():
        await stage.until(lambda: stage.status().get("readyWorkers") == 2)
        stage.patch("pod", SECOND, {"status": {"phase": "Succeeded"}}, sub="/status")
        await stage.until_stage("Succeeded", within=60)
        await asyncio.sleep(60)
        assert stage.pods().keys() == left


async def test_deleting_a_job_takes_everything_with_it(stage: TYJobHarness) -> None:
    stage.nodes("n1")
    stage.submit()
    async with stage.at_work():
        await stage.until_stage("Running")
        assert "finalizers" not in stage.job()["metadata"]
        stage.request("DELETE", "/apis/arranger.io/v1alpha1/namespaces/default/tyjobs/job")
        await asyncio.sleep(60)
        assert not stage.pods()
        assert not [
            one
            for kind in ("services", "configmaps")
            for one in stage.cluster.objects(kind)
            if "ownerReferences" in one["metadata"]
        ]


# --- changes of mind ---------------------------------------------------------------------------


async def test_workers_are_added_and_taken_away(stage: TYJobHarness) -> None:
    stage.nodes("n1", "n2")
    stage.submit(workers=1)
    async with stage.at_work():
        await stage.until_stage("Running")
        template = a_template()
        grown = [{"name": "actor", "template": template, "counts": 3}]
        stage.edit(workerSets=grown)
        await stage.until(lambda: stage.status()["readyWorkers"] == 3)
        stage.edit(workerSets=[{"name": "other", "template": template, "counts": 1}])
        await stage.until(lambda: stage.pods().keys() == {LEADER, "job-other-0"})
        await stage.until_stage("Running")


async def test_a_bad_change_loses_nothing_and_is_told(stage: TYJobHarness) -> None:
    stage.nodes("n1")
    stage.submit()
    async with stage.at_work():
        await stage.until_stage("Running")
        before = {name: pod["metadata"]["uid"] for name, pod in stage.pods().items()}
        both = ["JobAffinity", "JobAntiAffinity"]
        stage.edit(schedulerPolicy={"basicPolicy": both})
        await stage.until(lambda: stage.status().get("reason") == "Invalid")
        await asyncio.sleep(60)
        assert {n: p["metadata"]["uid"] for n, p in stage.pods().items()} == before
        refusal = "basicPolicy asks for JobAffinity and for JobAntiAffinity"
        assert stage.status()["message"] == refusal
        assert "InvalidTYJob" in stage.event_reasons()
        stage.edit(schedulerPolicy=None)
        await stage.until(lambda: "reason" not in stage.status())
        (valid,) = (c for c in stage.status()["conditions"] if c["type"] == "Valid")
        assert valid["status"] == "True"
        assert {n: p["metadata"]["uid"] for n, p in stage.pods().items()} == before


async def test_somebody_elses_pod_has_the_name(stage: TYJobHarness) -> None:
    stage.nodes("n1")
    stage.create(a_pod(FIRST).needs(cpu=1))
    stage.submit()
    async with stage.at_work():

        def valid() -> dict[str, str]:
            conditions = stage.status().get("conditions", [])
            return next((c for c in conditions if c["type"] == "Valid"), {"status": ""})

        await stage.until(lambda: valid()["status"] == "False")
        assert valid()["message"] == f"pods {FIRST}: exists and is not of this job"
        assert "RefusedTYJob" in stage.event_reasons()
        stage.delete("pod", FIRST)
        await stage.until_stage("Running", within=120)
        assert valid()["status"] == "True"


async def test_a_quota_lets_no_pods_in_for_a_while(stage: TYJobHarness) -> None:
    stage.nodes("n1")
    stage.submit(workers=8)
    full = Reply(403, "Forbidden", "exceeded quota: pods")
    async with stage.at_work():
        with stage.hands.inject(POD_CREATES & ~ABOUT_LEADER, full) as rule:
            await asyncio.sleep(60)
            assert len(rule.matched) < 10, "it asks ever more rarely, and for one pod only"
            conditions = {c["type"]: c for c in stage.status()["conditions"]}
            assert conditions["Valid"]["message"] == f"pods {FIRST}: exceeded quota: pods"
            assert stage.event_reasons().count("RefusedTYJob") == 1
        await stage.until_stage("Running", within=120)
        await stage.until(lambda: stage.status()["readyWorkers"] == 3)
        conditions = {c["type"]: c for c in stage.status()["conditions"]}
        assert conditions["Valid"]["status"] == "True"


async def test_a_job_that_has_gone_unseen_is_not_started_again(stage: TYJobHarness) -> None:
    stage.nodes("n1")
    stage.submit()
    async with stage.scheduler(), stage.kubelets(), stage.controller() as controller:
        await stage.until_stage("Running")
        job = controller.cache.job("default/job")
        assert job is not None
        stage.request("DELETE", f"{JOBS}/job")
        await asyncio.sleep(30)
        # As kopf leaves it when a watch was broken as the job went.
        controller.cache.on_job_updated(msgspec.to_builtins(job))
        before = len(stage.hands.applied(POD_CREATES))
        controller.reconciler.work_queue.enqueue({"default/job"})
        await asyncio.sleep(30)
        assert len(stage.hands.applied(POD_CREATES)) == before
        assert controller.cache.job("default/job") is None


async def test_two_controllers_at_a_time_do_no_harm(stage: TYJobHarness) -> None:
    stage.nodes("n1")
    stage.submit()
    async with stage.scheduler(), stage.kubelets(), stage.controller(), stage.controller():
        await _script(stage)
    status = stage.status()
    assert (status["restarts"], status["workerRestarts"]) == (1, {SECOND: 1})
    created = [w.call.json["metadata"]["name"] for w in stage.hands.applied(POD_CREATES)]
    assert sorted(map(created.count, (LEADER, FIRST, SECOND))) == [2, 3, 3]


# --- deaths ------------------------------------------------------------------------------------


async def _restart_at(stage: TYJobHarness, write: int, lose: DropConnection) -> bool:
    """Run the script with the controller killed at its nth write; whether it came to that."""
    died = asyncio.Event()
    note = stage.hands.inject(WRITES & ~EVENTS, ConcurrentAction(died.set), skip=write)
    # From that write on nothing gets through, until another controller takes over.
    with note, stage.hands.inject(WRITES & ~EVENTS, lose, skip=write):
        async with stage.controller():
            script = asyncio.create_task(_script(stage))
            death = asyncio.create_task(died.wait())
            await asyncio.wait({script, death}, return_when=asyncio.FIRST_COMPLETED)
            death.cancel()
    if died.is_set():
        async with stage.controller():
            await script
    else:
        await script
    return died.is_set()


async def _script(stage: TYJobHarness) -> None:
    """A leader that fails once, a worker that does, an eviction, and a good end."""
    await stage.until_stage("Running", within=200)
    stage.patch("pod", SECOND, {"status": {"phase": "Failed"}}, sub="/status")
    await stage.until(lambda: stage.status().get("workerRestarts") == {SECOND: 1}, within=200)
    await stage.until(lambda: stage.status()["readyWorkers"] == 2, within=200)
    stage.patch("pod", LEADER, {"status": {"phase": "Failed"}}, sub="/status")
    await stage.until(lambda: stage.status()["restarts"] == 1, within=200)
    await stage.until(lambda: _all_ready(stage), within=200)
    stage.delete("pod", FIRST, grace=5)
    await stage.until(lambda: FIRST not in stage.pods(), within=200)
    await stage.until(lambda: _all_ready(stage), within=200)
    stage.patch("pod", LEADER, {"status": {"phase": "Succeeded"}}, sub="/status")
    await stage.until_stage("Succeeded", within=200)
    await stage.until(lambda: not stage.pods(), within=200)


def _all_ready(stage: TYJobHarness) -> bool:
    status = stage.status()
    return bool(status["stage"] == "Running" and status["readyWorkers"] == 2)


@pytest.mark.parametrize("lose", [DropConnection.BEFORE, DropConnection.AFTER])
async def test_it_is_killed_at_every_single_write(lose: DropConnection) -> None:
    for write in range(200):
        stage = TYJobHarness()
        stage.nodes("n1")
        stage.submit()
        async with stage.scheduler(), stage.kubelets():
            died = await _restart_at(stage, write, lose)
        stage.check()
        status = stage.status()
        assert (status["restarts"], status["workerRestarts"]) == (1, {SECOND: 1}), write
        created = [w.call.json["metadata"]["name"] for w in stage.hands.applied(POD_CREATES)]
        assert sorted(map(created.count, (LEADER, FIRST, SECOND))) == [2, 3, 3], (write, created)
        if not died:
            assert write > 20, "the script was not followed"
            return
    raise AssertionError("it never ends")
