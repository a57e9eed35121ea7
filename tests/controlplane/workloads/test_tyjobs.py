"""TYJobs on the real API server, placed by the scheduler beside gangs and Deployments.

Scheduler and controllers run as processes with the service accounts of ``manifests/``; kubelets are
hollow, and keep workers from starting until they have their leader's address.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio
import yaml

from tests.controlplane.cluster import ClusterHarness
from tests.controlplane.daemon import REPO, Daemon
from tests.controlplane.harness import a_node, a_pod, until
from tests.tyjobs import a_template, a_tyjob

pytestmark = [pytest.mark.controlplane, pytest.mark.xdist_group("controlplane")]

Object = dict[str, Any]

PODS = "/api/v1/namespaces/default/pods"
JOBS = "/apis/arranger.io/v1alpha1/namespaces/default/tyjobs"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"


class TYJobClusterHarness(ClusterHarness):
    """A cluster whose TYJobs a test looks at."""

    async def jobs(self) -> dict[str, Object]:
        """TYJobs by name."""
        self.assert_alive()
        return {job["metadata"]["name"]: job for job in (await self.plane.get(JOBS))["items"]}

    async def until_stages(self, expected: dict[str, str]) -> None:
        """Until these jobs are in these stages."""
        jobs: dict[str, Object] = {}

        async def reached() -> bool:
            jobs.update(await self.jobs())
            return all(_status(jobs[name]).get("stage") == s for name, s in expected.items())

        try:
            await until(reached)
        except TimeoutError:
            found = {name: _status(jobs[name]) for name in expected}
            raise AssertionError(f"{found}\n{self.controllers.log_lines()}") from None

    async def pods_of(self, job: str) -> dict[str, Object]:
        """A job's pods by name."""
        pods = (await self.plane.get(PODS))["items"]
        label = {"arranger.io/tyjob": job}.items()
        own = (p for p in pods if label <= p["metadata"].get("labels", {}).items())
        return {pod["metadata"]["name"]: pod for pod in own}


@pytest_asyncio.fixture
async def harness() -> AsyncIterator[TYJobClusterHarness]:
    """Four nodes of eight CPU."""
    nodes = [a_node(f"n{n}", cpu="8") for n in range(4)]
    async with TYJobClusterHarness.start(nodes, served=[JOBS]) as harness:
        yield harness


async def test_ten_jobs_of_different_policies_run_to_their_end_beside_a_gang_and_a_deployment(
    harness: TYJobClusterHarness,
) -> None:
    brief = a_template(run_seconds="5")
    files = sorted((REPO / "examples/tyjobs").iterdir())
    jobs = [yaml.safe_load(file.read_text()) for file in files]
    jobs += [
        a_tyjob("drf", leader=brief, schedulerPolicy={"jobQueuePolicy": "DRF"}),
        a_tyjob("plain", leader=brief, schedulerPolicy={"basicPolicy": "MinFragment"}),
        a_tyjob("keeps", leader=brief, cleanPodPolicy="None", workers=1),
    ]
    assert len(jobs) == 10
    await harness.plane.apply([_deployment()])
    await harness.plane.post_all(PODS, _gang())
    await harness.plane.post_all(JOBS, jobs)
    names = [job["metadata"]["name"] for job in jobs]

    await harness.until_stages(dict.fromkeys(names, "Succeeded"))

    async def cleaned() -> bool:
        return not [n for n in names if n != "keeps" and await harness.pods_of(n)]

    await until(cleaned, what="the end of their pods")
    assert (await harness.pods_of("keeps")).keys() == {"keeps-learner-0", "keeps-actor-0"}
    for name, job in (await harness.jobs()).items():
        status = job["status"]
        assert (status["reason"], status["restarts"]) == ("LeaderSucceeded", 0), name
        assert "finalizers" not in job["metadata"]
        assert not set(job["metadata"].get("annotations", {})), "nothing is kept on the job"
    others = [
        pod["status"]["phase"]
        for pod in (await harness.plane.get(PODS))["items"]
        if "arranger.io/tyjob" not in pod["metadata"].get("labels", {})
    ]
    assert others == ["Running"] * 7


async def test_a_job_loses_its_leader_while_its_controllers_are_dead(
    harness: TYJobClusterHarness,
) -> None:
    await harness.plane.post(JOBS, a_tyjob(workers=2, least=2, restartLimit=0))
    await harness.until_stages({"job": "Running"})
    before = await harness.pods_of("job")
    address = (await harness.jobs())["job"]["status"]["leaderAddress"]
    assert address == before["job-learner-0"]["status"]["podIP"]

    await harness.controllers.kill()
    await harness.plane.request("DELETE", f"{PODS}/job-learner-0")
    harness.controllers = await Daemon.controllers(harness.plane, "again")

    async def replaced() -> bool:
        pods = await harness.pods_of("job")
        uids = {pod["metadata"]["uid"] for pod in pods.values()}
        return len(pods) == 3 and not uids & {p["metadata"]["uid"] for p in before.values()}

    await until(replaced, what="another round of pods")
    await harness.until_stages({"job": "Running"})
    status = (await harness.jobs())["job"]["status"]
    assert status["restarts"] == 0
    assert status["leaderAddress"] != address
    told = {
        event["reason"]
        for event in (await harness.plane.get(EVENTS))["items"]
        if event["regarding"].get("kind") == "TYJob"
    }
    assert {"Starting", "Running", "Rescheduling"} <= told

    # So that the garbage collector takes all of it along, without a finalizer on the job.
    job = (await harness.jobs())["job"]["metadata"]
    assert "finalizers" not in job
    owned = {name: pod["metadata"] for name, pod in (await harness.pods_of("job")).items()}
    for kind, name in (("services", "job"), ("configmaps", "job-leader")):
        path = f"/api/v1/namespaces/default/{kind}/{name}"
        owned[name] = (await harness.plane.get(path))["metadata"]
    assert {meta["ownerReferences"][0]["uid"] for meta in owned.values()} == {job["uid"]}
    assert len(owned) == 5


async def test_edits_reach_a_job_that_waits_and_one_that_is_too_large_is_told_so(
    harness: TYJobClusterHarness,
) -> None:
    await harness.plane.post(JOBS, a_tyjob(workers=1, worker=a_template(cpu=64)))

    async def says(reason: str) -> bool:
        return _status((await harness.jobs())["job"]).get("reason") == reason

    async def told() -> bool:
        return await says("Unsatisfiable")

    await until(told, what="that no node is as large")
    before = await harness.pods_of("job")
    await _edit(harness, {"priority": 9, "queue": "default"})

    async def followed() -> bool:
        pods = (await harness.pods_of("job")).values()
        priorities = {p["metadata"]["annotations"]["arranger.io/job-priority"] for p in pods}
        return priorities == {"9"}

    await until(followed, what="the priority on the pods")
    after = await harness.pods_of("job")
    assert {n: p["metadata"]["uid"] for n, p in before.items()} == {
        n: p["metadata"]["uid"] for n, p in after.items()
    }
    sets = [{"name": "actor", "template": a_template(), "counts": 1}]
    await _edit(harness, {"workerSets": sets})
    await harness.until_stages({"job": "Running"})
    await _edit(harness, {"terminating": True})
    await harness.until_stages({"job": "Succeeded"})

    async def cleaned() -> bool:
        status = _status((await harness.jobs())["job"])
        return status["readyWorkers"] == 0 and not status.keys() & {"allocations", "leaderAddress"}

    await until(cleaned, what="a status without pods")


async def _edit(harness: TYJobClusterHarness, spec: Object) -> None:
    await harness.plane.merge(f"{JOBS}/job", {"spec": spec})


def _status(job: Object) -> Object:
    return dict(job.get("status") or {})


def _gang() -> Iterator[Object]:
    prefix = "gang.scheduling.koordinator.sh/"
    for number in range(4):
        pod = a_pod(f"gang-{number}")
        pod["metadata"]["annotations"] = {prefix + "name": "gang", prefix + "min-available": "4"}
        yield pod


def _deployment() -> Object:
    labels = {"app": "web"}
    pod = a_pod("")
    template = {"metadata": {"labels": labels}, "spec": pod["spec"]}
    spec = {"replicas": 3, "selector": {"matchLabels": labels}, "template": template}
    head = {"apiVersion": "apps/v1", "kind": "Deployment"}
    return {**head, "metadata": {"name": "web", "namespace": "default"}, "spec": spec}
