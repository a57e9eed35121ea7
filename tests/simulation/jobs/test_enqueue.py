"""PodGroups of other operators, which make pods once they are Inqueue, in virtual time."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.builders import a_pod
from tests.queueing import a_queue_manifest
from tests.simulation.harnesses.jobs import GROUP_GROUP, JobHarness
from tests.simulation.harnesses.simulation import VIRTUAL_TIME

pytestmark = VIRTUAL_TIME

GROUPS = f"/apis/{GROUP_GROUP}/v1beta1/namespaces/default/podgroups"


def _group(sim: JobHarness, name: str, **spec: Any) -> None:
    kind = {"apiVersion": f"{GROUP_GROUP}/v1beta1", "kind": "PodGroup"}
    sim.cluster.create({**kind, "metadata": {"name": name}, "spec": {"minMember": 1, **spec}})


def _status(sim: JobHarness, name: str) -> dict[str, Any]:
    groups = sim.cluster.objects("podgroups", GROUP_GROUP)
    return next(dict(g.get("status") or {}) for g in groups if g["metadata"]["name"] == name)


def _phase(sim: JobHarness, name: str) -> str:
    return str(_status(sim, name).get("phase", ""))


def _why(sim: JobHarness, name: str) -> str:
    return str((_status(sim, name).get("conditions") or [{}])[0].get("message", ""))


async def test_one_without_limits_is_enqueued_at_once(sim: JobHarness) -> None:
    _group(sim, "g")
    async with sim.at_work():
        await sim.until(lambda: _phase(sim, "g") == "Inqueue")


async def test_one_whose_queue_comes_later_is_enqueued_then_also_after_a_restart(
    sim: JobHarness,
) -> None:
    sim.cluster.create(a_queue_manifest("other"))
    _group(sim, "g", queue="late")
    async with sim.at_work():
        await sim.until(lambda: "does not exist" in _why(sim, "g"))
        assert _phase(sim, "g") == "Pending"
        await asyncio.sleep(20)
        assert _phase(sim, "g") == "Pending"
    async with sim.at_work():
        await asyncio.sleep(20)
        sim.cluster.create(a_queue_manifest("late"))
        await sim.until(lambda: _phase(sim, "g") == "Inqueue")
        assert _status(sim, "g").get("conditions") is None


async def test_of_two_for_which_there_is_no_room_together_the_second_waits_for_the_first(
    sim: JobHarness,
) -> None:
    sim.cluster.create(a_queue_manifest("q", capability={"cpu": "4"}))
    async with sim.at_work():
        _group(sim, "first", queue="q", minResources={"cpu": "3"})
        await sim.until(lambda: _phase(sim, "first") == "Inqueue")
        _group(sim, "second", queue="q", minResources={"cpu": "3"})
        await sim.until(lambda: "Queue <q> has insufficient cpu quota" in _why(sim, "second"))
        pod = a_pod("p").needs(cpu=3).annotated({"scheduling.k8s.io/group-name": "first"})
        sim.create(pod)
        await sim.until(lambda: _phase(sim, "first") == "Running")
        await asyncio.sleep(20)
        assert _phase(sim, "second") == "Pending"
        sim.delete("pod", "p", grace=0)
        sim.request("DELETE", f"{GROUPS}/first")
        await sim.until(lambda: _phase(sim, "second") == "Inqueue")


async def test_operators_make_their_pods_anew_when_all_are_gone(sim: JobHarness) -> None:
    _group(sim, "g")
    async with sim.at_work():
        sim.create(a_pod("p").needs(cpu=1).annotated({"scheduling.k8s.io/group-name": "g"}))
        await sim.until(lambda: _phase(sim, "g") == "Running")
        sim.delete("pod", "p", grace=0)
        await sim.until(lambda: _phase(sim, "g") == "Inqueue")
