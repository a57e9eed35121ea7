"""Writes that are seldom needed, each with the rights of ``manifests/`` on the real API server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.builders import a_pod
from tests.controlplane.admin import until
from tests.controlplane.cluster import ClusterHarness
from tests.controlplane.daemon import Daemon
from tests.controlplane.harness import a_node
from tests.tyjobs import a_template

pytestmark = [pytest.mark.controlplane, pytest.mark.xdist_group("controlplane")]

Object = dict[str, Any]

PODS = "/api/v1/namespaces/default/pods"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
JOB_API = "batch.volcano.sh/v1alpha1"
JOBS = f"/apis/{JOB_API}/namespaces/default/jobs"
GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"
GANGS = "/apis/arranger.io/v1alpha1/namespaces/default/gangs"
POLICIES = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies"


class RareHarness(ClusterHarness):
    """A cluster whose controllers a test may stop."""

    def assert_alive(self) -> None:
        """The scheduler has not ended; a test may have stopped the controllers."""
        assert self.scheduler.process.returncode is None, self.log_lines()

    async def until_found(self, path: str, *, found: bool = True) -> None:
        """Until there is an object, or until it is gone."""

        async def reached() -> bool:
            self.assert_alive()
            return ((await self.plane.request("GET", path))[0] == 200) == found

        await until(reached, what=f"{path}: {found}")

    async def until_spec(self, path: str, field: str, value: object) -> None:
        """Until a field of an object's spec has a value."""

        async def reached() -> bool:
            self.assert_alive()
            return bool((await self.plane.get(path))["spec"].get(field) == value)

        await until(reached, what=f"{field} of {path}")


@pytest_asyncio.fixture
async def harness() -> AsyncIterator[RareHarness]:
    nodes, served = [a_node("n1")], [JOBS, GROUPS, GANGS]
    async with RareHarness.start(nodes, served=served) as harness:

        async def synced() -> bool:
            return "scheduler.synced" in harness.scheduler.log_lines()

        await until(synced, what="the scheduler's first look at everything")
        yield harness


def _job(name: str, **spec: Any) -> Object:
    task = {"name": "w", "replicas": 2, "template": a_template()}
    return {
        "apiVersion": JOB_API,
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"schedulerName": "arranger", "minAvailable": 1, "tasks": [task], **spec},
    }


async def test_a_job_makes_its_claims_changes_its_pod_group_and_is_deleted_after_its_time(
    harness: RareHarness,
) -> None:
    resources = {"requests": {"storage": "1Gi"}}
    claim = {"accessModes": ["ReadWriteOnce"], "resources": resources}
    volumes = [{"mountPath": "/data", "volumeClaim": claim}]
    await harness.plane.post(JOBS, _job("claims", volumes=volumes))
    await harness.until_found(f"{CLAIMS}/claims-volume-0")

    await harness.plane.post(JOBS, _job("ends", ttlSecondsAfterFinished=0))
    group = f"{GROUPS}/ends-0"
    await harness.until_found(group)
    await harness.plane.merge(f"{JOBS}/ends", {"spec": {"minAvailable": 2}})
    await harness.until_spec(group, "minMember", 2)
    for name in ("ends-w-0", "ends-w-1"):
        await harness.until_found(f"{PODS}/{name}")
        await harness.plane.merge(f"{PODS}/{name}/status", {"status": {"phase": "Succeeded"}})
    await harness.until_found(f"{JOBS}/ends", found=False)


async def test_a_network_policy_of_an_earlier_release_is_brought_up_to_date(
    harness: RareHarness,
) -> None:
    await harness.controllers.kill()
    job = await harness.plane.post(JOBS, _job("net", plugins={"svc": []}))
    owner = {"apiVersion": JOB_API, "kind": "Job", "name": "net", "uid": job["metadata"]["uid"]}
    old = {
        "metadata": {"name": "net", "ownerReferences": [{**owner, "controller": True}]},
        "spec": {"podSelector": {}, "policyTypes": ["Ingress"]},
    }
    await harness.plane.post(POLICIES, old)
    harness.controllers = await Daemon.controllers(harness.plane, "controllers-again")
    labels = {"volcano.sh/job-name": "net", "volcano.sh/job-namespace": "default"}
    await harness.until_spec(f"{POLICIES}/net", "podSelector", {"matchLabels": labels})


async def test_the_scheduler_keeps_gangs_itself_where_no_controllers_run(
    harness: RareHarness,
) -> None:
    await harness.controllers.kill()
    harness.controllers = harness.scheduler  # there are no others in the end
    for bundle in ("a", "b"):
        pod = a_pod(f"g-{bundle}").needs(cpu="10m").in_bundle("g", bundle, 1).manifest()
        del pod["metadata"]["uid"]
        await harness.plane.post(PODS, pod)
        names = [{"name": each, "minMember": 1} for each in "ab"[: "ab".index(bundle) + 1]]
        await harness.until_found(f"{GANGS}/g")
        await harness.until_spec(f"{GANGS}/g", "bundles", names)
    for bundle in ("a", "b"):
        path, now = f"{PODS}/g-{bundle}", {"gracePeriodSeconds": 0}
        assert (await harness.plane.request("DELETE", path, now))[0] == 200
    await harness.until_found(f"{GANGS}/g", found=False)
