"""Edits of TYJobs whose pods wait: each reaches the scheduler; and what keeps its node is told."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.builders import a_pod
from tests.simulation.harnesses.simulation import VIRTUAL_TIME, Object
from tests.simulation.harnesses.tyjobs import FIRST, LEADER, SECOND, TYJobHarness
from tests.tyjobs import a_template

pytestmark = VIRTUAL_TIME

NAMES = {LEADER, FIRST, SECOND}


def uids(sim: TYJobHarness) -> dict[str, str]:
    return {name: pod["metadata"]["uid"] for name, pod in sim.pods().items()}


def notes(sim: TYJobHarness, key: str) -> set[str | None]:
    """What the pods say under a key; None for a pod that says nothing."""
    return {pod["metadata"]["annotations"].get(key) for pod in sim.pods().values()}


def condition(sim: TYJobHarness, kind: str, name: str = "job") -> Object:
    conditions = sim.status(name).get("conditions", [])
    return next((c for c in conditions if c["type"] == kind), {})


# sentence: an edit, the annotation that says so, what it says then
FOLLOWED: dict[str, tuple[Object, str, str | None]] = {
    "priority": ({"priority": 9}, "arranger.io/job-priority", "9"),
    "the order of jobs": (
        {"schedulerPolicy": {"jobQueuePolicy": "DRF"}},
        "arranger.io/job-queue-policy",
        "DRF",
    ),
    "the placement": (
        {"schedulerPolicy": {"basicPolicy": ["Gang", "MinFragment"]}},
        "arranger.io/placement",
        "MinFragment",
    ),
    "no placement": (
        {"schedulerPolicy": {"basicPolicy": "Gang"}},
        "arranger.io/placement",
        None,
    ),
    "no gang": (
        {"schedulerPolicy": {"basicPolicy": "BinPack"}},
        "gang.koordinater.io/name",
        None,
    ),
    "the queue": ({"queue": "other"}, "scheduling.volcano.sh/queue-name", "other"),
}


@pytest.mark.parametrize(("edit", "key", "value"), FOLLOWED.values(), ids=FOLLOWED)
async def test_pods_that_wait_follow_the_job(
    sim: TYJobHarness, edit: Object, key: str, value: str | None
) -> None:
    sim.submit()
    async with sim.at_work():
        await sim.until(lambda: sim.pods().keys() == NAMES)
        before = uids(sim)
        sim.edit(**edit)
        await sim.until(lambda: notes(sim, key) == {value})
        await asyncio.sleep(10)
        assert uids(sim) == before, "they are not made anew"
        sim.may_be_partial.add("default/job")


async def test_annotations_of_the_job_reach_pods_that_wait(sim: TYJobHarness) -> None:
    mode = "gang.scheduling.koordinator.sh/mode"
    sim.nodes("n1", cpu=1)
    sim.submit(workers=1, least=1)
    async with sim.at_work():
        await sim.until(lambda: len(sim.pods()) == 2)
        sim.annotate(**{mode: "NonStrict"})
        await sim.until(lambda: notes(sim, mode) == {"NonStrict"})
        sim.annotate(**{mode: None})
        await sim.until(lambda: notes(sim, mode) == {None})


async def test_a_smaller_minimum_lets_a_waiting_job_start(sim: TYJobHarness) -> None:
    sim.nodes("n1", cpu=2)
    sim.submit(workers=2, least=2)
    async with sim.at_work():
        await sim.until(lambda: "Insufficient cpu" in sim.status().get("message", ""))
        sim.edit(minWorkersNum=1)
        await sim.until_stage("Running")
        env = {e["name"]: e.get("value") for e in sim.pods()[FIRST]["spec"]["containers"][0]["env"]}
        assert env["PET_NNODES"] == "2:3"


async def test_a_larger_minimum_keeps_a_waiting_job_waiting(sim: TYJobHarness) -> None:
    sim.submit(workers=2, least=1)
    async with sim.at_work():
        await sim.until(lambda: sim.pods().keys() == NAMES)
        sim.edit(minWorkersNum=2)
        await asyncio.sleep(10)
        sim.nodes("n1", cpu=2)
        await asyncio.sleep(30)
        assert (sim.bound(), sim.status()["stage"]) == (0, "Pending")
        sim.nodes("n2", cpu=1)
        await sim.until_stage("Running")


async def test_a_job_without_gang_starts_with_what_fits(sim: TYJobHarness) -> None:
    sim.nodes("n1", cpu=2)
    sim.submit(workers=2, least=2)
    async with sim.at_work():
        await sim.until(lambda: "Insufficient cpu" in sim.status().get("message", ""))
        sim.edit(schedulerPolicy={"basicPolicy": "BinPack"})
        await sim.until_stage("Starting")
        assert sim.bound() == 2


async def test_a_higher_priority_goes_first(sim: TYJobHarness) -> None:
    sim.submit("first", workers=1)
    sim.submit("later", workers=1)
    async with sim.at_work():
        await sim.until(lambda: len(sim.pods("later")) == len(sim.pods("first")) == 2)
        sim.edit("later", priority=9)
        await asyncio.sleep(60)  # longer than any back-off
        sim.nodes("n1", cpu=2)
        await sim.until_stage("Running", "later")
        assert sim.status("first")["stage"] == "Pending"


SMALLER = a_template(cpu=1)
MADE_ANEW: dict[str, Object] = {
    "the leader's template": {"leader": {"name": "learner", "template": SMALLER}},
    "the workers' template": {"workerSets": [{"name": "actor", "template": SMALLER, "counts": 2}]},
}


@pytest.mark.parametrize("edit", MADE_ANEW.values(), ids=MADE_ANEW)
async def test_pods_that_wait_are_made_anew_from_another_template(
    sim: TYJobHarness, edit: Object
) -> None:
    sim.nodes("n1", cpu=3)
    large = a_template(cpu=8)
    sim.submit(least=2, **({"leader": large} if "leader" in edit else {"worker": large}))
    async with sim.at_work():
        await sim.until(lambda: "Insufficient cpu" in sim.status().get("message", ""))
        sim.edit(**edit)
        await sim.until_stage("Running")
        assert sim.status()["scheduleState"] == "ScheduledSucceed"


async def test_volumes_and_names_reach_pods_that_wait(sim: TYJobHarness) -> None:
    sim.submit()
    async with sim.at_work():
        await sim.until(lambda: sim.pods().keys() == NAMES)
        sim.edit(volumes=[{"name": "data", "emptyDir": {}}], leader={"name": "head"})
        renamed = {"job-head-0", FIRST, SECOND}
        await sim.until(lambda: sim.pods().keys() == renamed, within=120)
        assert all(pod["spec"]["volumes"] for pod in sim.pods().values())


async def test_the_port_of_the_ranks_moves_with_the_leader(sim: TYJobHarness) -> None:
    def ports() -> list[int]:
        (service,) = (s for s in sim.cluster.objects("services") if s["metadata"]["name"] == "job")
        return [port["port"] for port in service["spec"]["ports"]]

    sim.submit()
    template = a_template()
    template["spec"]["containers"][0]["ports"] = [{"name": "master", "containerPort": 1234}]
    async with sim.at_work():
        await sim.until(lambda: sim.pods().keys() == NAMES)
        assert ports() == [23456]
        sim.edit(leader={"name": "learner", "template": template})
        await sim.until(lambda: ports() == [1234])
        sim.nodes("n1")
        await sim.until_stage("Running")
        sim.edit(leader={"name": "learner", "template": a_template()})
        before = uids(sim)[FIRST]
        sim.delete("pod", FIRST)
        await sim.until(lambda: uids(sim).get(FIRST, before) != before)
        env = {e["name"]: e.get("value") for e in sim.pods()[FIRST]["spec"]["containers"][0]["env"]}
        assert (ports(), env["MASTER_PORT"]) == ([1234], "1234"), "the leader listens there yet"


async def test_pods_that_run_keep_what_they_have_until_they_are_replaced(
    sim: TYJobHarness,
) -> None:
    sim.nodes("n1")
    sim.submit()
    async with sim.at_work():
        await sim.until(lambda: sim.status().get("readyWorkers") == 2)
        before = uids(sim)
        template = a_template(note="new")
        sim.edit(workerSets=[{"name": "actor", "template": template, "counts": 2}], priority=7)
        await sim.until(lambda: condition(sim, "UpToDate").get("status") == "False")
        assert condition(sim, "UpToDate")["message"].endswith(f"{FIRST}, {SECOND}")
        await sim.until(lambda: notes(sim, "arranger.io/job-priority") == {"7"})
        assert uids(sim) == before
        for name in (FIRST, SECOND):
            sim.delete("pod", name)
        await sim.until(lambda: condition(sim, "UpToDate").get("status") == "True")
        assert sim.pods()[FIRST]["metadata"]["annotations"]["arranger.io/note"] == "new"


async def test_a_worker_beyond_the_minimum_that_waits_is_made_anew(sim: TYJobHarness) -> None:
    sim.nodes("n1", cpu=2)
    large = a_template(cpu=1)
    sim.submit(workers=2, least=1, worker=large)
    async with sim.at_work():
        await sim.until_stage("Running")
        placed = {n for n, pod in sim.pods().items() if "nodeName" in pod["spec"]}
        before = uids(sim)
        little = a_template()
        little["spec"]["containers"][0]["resources"] = {}
        sim.edit(workerSets=[{"name": "actor", "template": little, "counts": 2}])
        await sim.until(lambda: sim.status()["readyWorkers"] == 2)
        after = uids(sim)
        assert {name for name in NAMES if before[name] == after[name]} == placed


# --- ends that nothing hides ---------------------------------------------------------------------

BAD: dict[str, Any] = {"basicPolicy": ["JobAffinity", "JobAntiAffinity"]}


async def test_terminating_ends_a_job_whose_spec_has_become_invalid(sim: TYJobHarness) -> None:
    sim.nodes("n1")
    sim.submit()
    async with sim.at_work():
        await sim.until_stage("Running")
        sim.edit(schedulerPolicy=BAD)
        await sim.until(lambda: sim.status().get("reason") == "Invalid")
        sim.edit(terminating=True)
        await sim.until_stage("Succeeded")
        assert sim.status()["reason"] == "Terminated"
        await sim.until(lambda: not sim.pods())


async def test_the_success_of_the_leader_ends_a_job_whose_spec_has_become_invalid(
    sim: TYJobHarness,
) -> None:
    sim.nodes("n1")
    sim.submit(leader=a_template(run_seconds="30"))
    async with sim.at_work():
        await sim.until_stage("Running")
        sim.edit(schedulerPolicy=BAD)
        await sim.until_stage("Succeeded")
        assert sim.status()["reason"] == "LeaderSucceeded"


async def test_a_leader_that_succeeds_and_is_deleted_at_once_has_succeeded(
    sim: TYJobHarness,
) -> None:
    sim.nodes("n1")
    sim.submit()
    async with sim.at_work():
        await sim.until_stage("Running")
        sim.patch("pod", LEADER, {"status": {"phase": "Succeeded"}}, sub="/status")
        sim.delete("pod", LEADER)
        await sim.until_stage("Succeeded")


async def test_a_leader_that_fails_and_is_deleted_at_once_has_failed(sim: TYJobHarness) -> None:
    sim.nodes("n1")
    sim.submit(restartLimit=0)
    async with sim.at_work():
        await sim.until_stage("Running")
        sim.patch("pod", LEADER, {"status": {"phase": "Failed"}}, sub="/status")
        sim.delete("pod", LEADER)
        await sim.until_stage("Failed")
        assert sim.status()["reason"] == "LeaderFailed"


# --- how long a job may wait ---------------------------------------------------------------------


async def test_a_job_that_waits_longer_than_it_may_fails(sim: TYJobHarness) -> None:
    sim.nodes("n1", cpu=1)
    sim.submit(schedulingTimeoutSeconds=60)
    async with sim.at_work():
        await asyncio.sleep(50)
        assert sim.status()["stage"] == "Pending"
        await sim.until_stage("Failed", within=15)
        status = sim.status()
        assert (status["reason"], status["scheduleState"]) == (
            "SchedulingFailed",
            "ScheduledFailed",
        )
        assert status["message"].startswith("no nodes within the 60 s that it may wait for them: ")
        await sim.until(lambda: not sim.pods())


async def test_a_job_that_loses_its_nodes_may_wait_as_long_again(sim: TYJobHarness) -> None:
    sim.nodes("n1", cpu=3)
    sim.submit(least=2, schedulingTimeoutSeconds=60)
    async with sim.at_work():
        await sim.until_stage("Running")
        await asyncio.sleep(100)
        sim.create(a_pod("taker").needs(cpu=1).with_priority(0).on("n1"))
        sim.may_exceed_capacity.add("n1")
        sim.delete("pod", SECOND)
        await sim.until_stage("Rescheduling")
        await asyncio.sleep(50)
        assert sim.status()["stage"] == "Rescheduling"
        await sim.until_stage("Failed", within=20)


async def test_the_configuration_limits_jobs_that_say_nothing(sim: TYJobHarness) -> None:
    sim.submit()
    async with sim.scheduler(), sim.kubelets(), sim.controller(scheduling_timeout=30):
        await sim.until_stage("Failed", within=40)


async def test_a_limit_that_is_taken_back_is_not_kept(sim: TYJobHarness) -> None:
    sim.submit(schedulingTimeoutSeconds=30)
    async with sim.at_work():
        await asyncio.sleep(20)
        sim.edit(schedulingTimeoutSeconds=None)
        await asyncio.sleep(60)
        assert sim.status()["stage"] == "Pending"
