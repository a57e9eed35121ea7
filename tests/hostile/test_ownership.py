"""Jobs of one tenant, and objects of another that say that they are of these jobs."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.controlplane.harness import a_pod
from tests.hostile.attack import CULPRIT, NEIGHBOUR, Object
from tests.hostile.cluster import RUNNING_WITHIN, HostileCluster
from tests.hostile.neighbour import own_jobs
from tests.hostile.play import damage
from tests.hostile.slowness import slowness

pytestmark = pytest.mark.asyncio(loop_scope="module")


def _stored(cluster: HostileCluster, job: Object) -> Object:
    found = cluster.stored(job)
    assert found is not None
    return found


def _run(cluster: HostileCluster, jobs: tuple[Object, Object]) -> bool:
    first, second = (_stored(cluster, job).get("status", {}) for job in jobs)
    return (first.get("state", {}).get("phase"), second.get("stage")) == ("Running", "Running")


async def _until_they_run(cluster: HostileCluster, jobs: tuple[Object, Object]) -> None:
    deadline = time.monotonic() + RUNNING_WITHIN * slowness()
    while not _run(cluster, jobs):
        assert time.monotonic() < deadline, [_stored(cluster, job) for job in jobs]
        await asyncio.sleep(0.02)


def _forged(job: Object, name: str, phase: str, **metadata: Object) -> Object:
    """A pod of the culprit's that says that it is of a job, and has ended."""
    meta = job["metadata"]
    owner = {"apiVersion": job["apiVersion"], "kind": job["kind"], "controller": True}
    pod = a_pod(name, namespace=CULPRIT, cpu="10m", memory="10Mi")
    pod["metadata"] |= {
        **metadata,
        "ownerReferences": [{**owner, "name": meta["name"], "uid": meta["uid"]}],
    }
    status = {"phase": phase, "containerStatuses": [{"name": "c", "restartCount": 99}]}
    return {**pod, "status": status}


async def test_jobs_go_on_whatever_pods_of_others_name_their_uids(cluster: HostileCluster) -> None:
    name = "known"
    jobs = own_jobs(name)
    for job in jobs:
        cluster.create(job)
    await _until_they_run(cluster, jobs)
    volcano_job, tyjob = (_stored(cluster, job) for job in jobs)
    leader = next(
        pod["metadata"]["name"]
        for pod in cluster.cluster.store.items("/pods", NEIGHBOUR)
        if pod["metadata"].get("labels", {}).get("arranger.io/role") == "leader"
    )
    place = {"volcano.sh/task-spec": "w", "volcano.sh/task-index": "0"}
    labels = {"arranger.io/tyjob": name, "arranger.io/role": "leader"}
    attack = [
        _forged(volcano_job, f"{name}-w-0", "Failed", annotations=place, labels=place),
        _forged(tyjob, leader, "Succeeded", labels=labels),
        _forged(tyjob, "a-leader", "Failed", labels=labels),
    ]
    for pod in attack:
        cluster.create(pod)
    for restart in (False, True):
        if restart:
            await cluster.restart()
        for job in (volcano_job, tyjob):  # so that both are looked at
            now = _stored(cluster, job)
            meta = {**now["metadata"], "annotations": {"looked-at": str(restart)}}
            cluster.replace({**now, "metadata": meta})
        # Jobs that came later have been seen to.
        assert await damage(cluster, cluster.resident_bytes()) is None
        assert _run(cluster, jobs), [_stored(cluster, job)["status"] for job in jobs]
    for obj in (*attack, *jobs):
        cluster.delete(obj)
    cluster.clear()
