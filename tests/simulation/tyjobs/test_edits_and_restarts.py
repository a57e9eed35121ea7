"""TYJobs that end, are edited, or whose controller dies, in virtual time."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from tests.builders import a_pod, an_unstructured
from tests.faults.injector import EVENTS, WRITES, RequestMatcher
from tests.faults.kinds import ConcurrentAction, DropConnection, Reply
from tests.simulation.harnesses.simulation import VIRTUAL_TIME
from tests.simulation.harnesses.tyjobs import FIRST, JOBS, LEADER, POD_CREATES, SECOND, TYJobHarness
from tests.simulation.tyjobs.test_tyjobs import ending
from tests.tyjobs import a_template

pytestmark = VIRTUAL_TIME


#: Requests with the leader's pod in the body.
ABOUT_LEADER = RequestMatcher(lambda call: bool(call.body) and LEADER in str(call.json["metadata"]))


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
        controller.cache.on_job_updated(an_unstructured(msgspec.to_builtins(job)))
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
        async with sim.controller(judged=False):
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
