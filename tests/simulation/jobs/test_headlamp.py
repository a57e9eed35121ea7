"""Headlamp's Volcano plugin, unmodified, reads our queues, PodGroups and Jobs.

Its requests are asked of the embedded server as it asks them (its version 0.2: lists and pages of
its resources, the probes of what is installed, the pods of a Job), and the fields that its pages
show are looked up in the answers. What belongs together is found by its rules: owners by their uid.
"""

from __future__ import annotations

from typing import Any

import pytest

from arranger.kube.client.transport import Request
from tests.queueing import a_queue_manifest
from tests.simulation.harnesses.jobs import JobHarness, task
from tests.simulation.harnesses.simulation import VIRTUAL_TIME, Object

pytestmark = VIRTUAL_TIME

SCHEDULING = "/apis/scheduling.volcano.sh/v1beta1"
BATCH = "/apis/batch.volcano.sh/v1alpha1"
BUS = "/apis/bus.volcano.sh/v1alpha1"
JOB = f"{BATCH}/namespaces/default/jobs/train"


def ask(sim: JobHarness, path: str) -> Object:
    """What it is answered; each of these requests succeeds."""
    path, _, selector = path.partition("?labelSelector=")
    query = {"labelSelector": selector} if selector else {}
    answer = sim.cluster.handle(Request("GET", path, query=query))
    assert answer.status == 200, answer
    assert isinstance(answer.body, dict)
    return answer.body


async def trained(sim: JobHarness) -> None:
    """A Job that runs in a queue of its own."""
    sim.cluster.create(a_queue_manifest("team", capability={"cpu": "8"}))
    sim.job("train", task(cpu=4), queue="team", minAvailable=2)
    async with sim.at_work():
        await sim.until_phase("train", "Running")
        await sim.until(lambda: "running" in queue_status(sim))


def queue_status(sim: JobHarness) -> dict[str, Any]:
    return ask(sim, f"{SCHEDULING}/queues/team").get("status", {})


async def test_its_probes_find_what_it_needs_installed(sim: JobHarness) -> None:
    kinds = {
        path: {each["name"] for each in ask(sim, path)["resources"]} for path in (SCHEDULING, BATCH)
    }
    assert {"queues", "podgroups"} <= kinds[SCHEDULING]
    assert "jobs" in kinds[BATCH]
    commands = ask(sim, "/apis/bus.volcano.sh/v1alpha1")["resources"]
    assert "commands" in {each["name"] for each in commands}


async def test_its_probe_of_job_flows_is_told_that_there_are_none(sim: JobHarness) -> None:
    answer = sim.cluster.handle(Request("GET", "/apis/flow.volcano.sh/v1alpha1"))
    assert answer.status == 404


async def test_its_lists_and_pages_of_jobs_have_what_they_show(sim: JobHarness) -> None:
    await trained(sim)
    (listed,) = ask(sim, f"{BATCH}/jobs")["items"]
    job = ask(sim, JOB)
    assert listed["metadata"]["uid"] == job["metadata"]["uid"]
    status = job["status"]
    assert (job["spec"]["queue"], job["spec"]["minAvailable"]) == ("team", 2)
    assert (status["state"]["phase"], status["running"], status["minAvailable"]) == (
        "Running",
        2,
        2,
    )
    assert status["state"]["lastTransitionTime"]
    assert [each["status"] for each in status["conditions"]][-1] == "Running"
    assert status["taskStatusCount"]["w"]["phase"] == {"Running": 2}


async def test_it_finds_the_pods_and_the_pod_group_of_a_job(sim: JobHarness) -> None:
    await trained(sim)
    uid = ask(sim, JOB)["metadata"]["uid"]
    pods = ask(sim, "/api/v1/namespaces/default/pods?labelSelector=volcano.sh/job-name=train")
    assert {pod["metadata"]["name"] for pod in pods["items"]} == {"train-w-0", "train-w-1"}
    for pod in pods["items"]:
        assert pod["metadata"]["labels"]["volcano.sh/job-namespace"] == "default"
        assert owners(pod) == {("batch.volcano.sh/v1alpha1", "Job", uid)}
    (group,) = ask(sim, f"{SCHEDULING}/podgroups")["items"]
    assert owners(group) == {("batch.volcano.sh/v1alpha1", "Job", uid)}
    assert (group["spec"]["minMember"], group["spec"]["queue"]) == (2, "team")
    assert (group["status"]["phase"], group["status"]["running"]) == ("Running", 2)
    path = f"{SCHEDULING}/namespaces/default/podgroups/{group['metadata']['name']}"
    assert ask(sim, path)["metadata"]["uid"] == group["metadata"]["uid"]


async def test_its_pages_of_queues_have_what_they_show(sim: JobHarness) -> None:
    await trained(sim)
    queues = {each["metadata"]["name"]: each for each in ask(sim, f"{SCHEDULING}/queues")["items"]}
    team = queues["team"]
    assert team["spec"]["capability"] == {"cpu": "8"}
    assert (team["status"]["state"], team["status"]["running"]) == ("Open", 1)
    assert team["status"]["allocated"]["cpu"] == "8"


@pytest.mark.parametrize(("action", "state"), [("CloseQueue", "Clos"), ("OpenQueue", "Open")])
async def test_its_buttons_open_and_close_queues(sim: JobHarness, action: str, state: str) -> None:
    await trained(sim)
    team = ask(sim, f"{SCHEDULING}/queues/team")
    target = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "name": "team",
        "uid": team["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    async with sim.at_work():
        sim.request(
            "POST",
            f"{BUS}/namespaces/default/commands",
            {
                "apiVersion": "bus.volcano.sh/v1alpha1",
                "kind": "Command",
                "metadata": {
                    "generateName": f"team-{action.lower()}-",
                    "namespace": "default",
                    "ownerReferences": [target],
                },
                "action": action,
                "target": target,
            },
        )
        await sim.until(lambda: not ask(sim, f"{BUS}/commands")["items"])
        await sim.until(lambda: queue_status(sim)["state"].startswith(state))


def owners(obj: Object) -> set[tuple[str, str, str]]:
    references = obj["metadata"]["ownerReferences"]
    return {(each["apiVersion"], each["kind"], each["uid"]) for each in references}
