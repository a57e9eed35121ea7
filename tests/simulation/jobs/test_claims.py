"""The claims that are made for Jobs, in virtual time."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.simulation.harnesses.jobs import MERGE, JobHarness, task
from tests.simulation.harnesses.simulation import VIRTUAL_TIME, Object

pytestmark = VIRTUAL_TIME

CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
CLAIM = f"{CLAIMS}/j-volume-0"
SPEC: Object = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
VOLUME: Object = {"mountPath": "/data", "volumeClaim": SPEC}


def _owners(sim: JobHarness) -> dict[str, list[str]]:
    """Claim → uids of its owners."""
    return {
        claim["metadata"]["name"]: [o["uid"] for o in claim["metadata"].get("ownerReferences", ())]
        for claim in sim.cluster.objects("persistentvolumeclaims")
    }


def _uid(sim: JobHarness) -> str:
    (job,) = sim.cluster.objects("jobs", "batch.volcano.sh")
    return str(job["metadata"]["uid"])


def _hold(sim: JobHarness, *finalizers: str) -> None:
    """Keep the claim, as one that a pod uses is kept, or let it go."""
    sim.request("PATCH", CLAIM, {"metadata": {"finalizers": list(finalizers)}}, MERGE)


def _somebodys_claim(sim: JobHarness, name: str) -> None:
    meta: dict[str, Any] = {"name": name, "namespace": "default"}
    body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": SPEC}
    sim.cluster.create(body)


async def test_a_job_waits_until_the_claim_of_a_former_one_is_gone(sim: JobHarness) -> None:
    sim.may_repeat_pods.add("j")
    sim.job("j", task(), volumes=[VOLUME])
    async with sim.at_work():
        await sim.until(lambda: _owners(sim) == {"j-volume-0": [_uid(sim)]})
        _hold(sim, "kubernetes.io/pvc-protection")
        sim.delete_job("j")
        sim.job("j", task(), volumes=[VOLUME])
        await sim.until(lambda: sim.reason("j")[0] == "Refused")
        assert sim.pods_of_job("j") == {}
        _hold(sim)
        await sim.until(lambda: _owners(sim) == {"j-volume-0": [_uid(sim)]}, within=300)
        await sim.until(lambda: len(sim.pods_of_job("j")) == 2)
        await sim.until(lambda: sim.reason("j")[0] != "Refused")


async def test_a_claim_of_somebody_else_is_taken_only_where_it_is_named(sim: JobHarness) -> None:
    sim.may_repeat_pods.add("j")
    for name in ("j-volume-0", "data"):
        _somebodys_claim(sim, name)
    sim.job("j", task(), volumes=[VOLUME])
    async with sim.at_work():
        text = "persistentvolumeclaims/j-volume-0 exists and is not of this job"
        await sim.until(lambda: sim.reason("j") == ("Refused", text))
        await asyncio.sleep(60)
        assert sim.pods_of_job("j") == {}
        sim.edit("j", {"spec": {"volumes": [{**VOLUME, "volumeClaimName": "data"}]}})
        await sim.until(lambda: len(sim.pods_of_job("j")) == 2, within=300)
        assert _owners(sim) == {"data": [], "j-volume-0": []}


async def test_a_resumed_job_makes_a_claim_again_that_is_gone(sim: JobHarness) -> None:
    sim.may_repeat_pods.add("j")
    sim.job("j", task(), volumes=[VOLUME])
    async with sim.at_work():
        await sim.until(lambda: len(sim.pods_of_job("j")) == 2)
        sim.annotate("j", "AbortJob")
        await sim.until_phase("j", "Aborted")
        sim.request("DELETE", CLAIM)
        await asyncio.sleep(60)
        assert _owners(sim) == {}
        sim.annotate("j", "ResumeJob")
        await sim.until(lambda: _owners(sim) == {"j-volume-0": [_uid(sim)]})
        await sim.until(lambda: len(sim.pods_of_job("j")) == 2)
