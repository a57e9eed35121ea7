"""Pods of TYJobs that their nodes refuse, and images that cannot be had for a while."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.simulation.harnesses.simulation import VIRTUAL_TIME
from tests.simulation.harnesses.tyjobs import LEADER, POD_CREATES, TYJobHarness

pytestmark = VIRTUAL_TIME


@pytest.mark.parametrize(
    "reason",
    ["OutOfcpu", "OutOfnvidia.com/gpu", "TopologyAffinityError", "NodePorts", "PodOSNotSupported"],
)
async def test_a_leader_that_its_node_refuses_is_tried_again(
    sim: TYJobHarness, reason: str
) -> None:
    sim.nodes("n1")
    sim.submit(restartLimit=0)
    async with sim.scheduler(), sim.controller():
        await sim.until(lambda: LEADER in sim.pods() and bool(sim.node_of(LEADER)))
        refused = sim.pod(LEADER)["metadata"]["uid"]
        rejection = {"phase": "Failed", "reason": reason, "message": "Pod was rejected: no room"}
        sim.patch("pod", LEADER, {"status": rejection}, sub="/status")
        async with sim.kubelets():
            await sim.until_stage("Running")
        assert sim.status()["restarts"] == 0
        assert sim.pod(LEADER)["metadata"]["uid"] != refused


async def test_a_leader_that_every_node_refuses_is_not_made_as_fast_as_it_can(
    sim: TYJobHarness,
) -> None:
    sim.nodes("n1")
    sim.submit(restartLimit=0)
    rejection = {"phase": "Failed", "reason": "OutOfnvidia.com/gpu", "message": "Pod was rejected"}

    def refuse() -> None:
        pod = sim.pods().get(LEADER)
        if pod is not None and sim.node_of(LEADER) and pod["status"].get("phase") != "Failed":
            sim.patch("pod", LEADER, {"status": rejection}, sub="/status")

    async with sim.scheduler(), sim.controller():
        async with sim.kubelets():  # the workers'
            for _ in range(600):
                refuse()
                await asyncio.sleep(0.1)
        created = [
            write.request.json["metadata"]["name"]
            for write in sim.controller_faults.applied(POD_CREATES)
        ]
        assert 4 <= created.count(LEADER) <= 7
        assert sim.status()["restarts"] == 0


async def test_a_registry_that_cannot_be_reached_for_a_while_ends_no_job(
    sim: TYJobHarness,
) -> None:
    sim.nodes("n1")
    sim.submit(restartLimit=0)
    async with sim.scheduler(), sim.controller():
        await sim.until(lambda: LEADER in sim.pods() and bool(sim.node_of(LEADER)))
        for reason in ("ErrImagePull", "ImagePullBackOff") * 5:
            sim.patch("pod", LEADER, {"status": _waits(reason)}, sub="/status")
            await asyncio.sleep(50)
        assert sim.status()["stage"] == "Starting"
        async with sim.kubelets():
            await sim.until_stage("Running")
        assert sim.stages() == ["Pending", "Starting", "Running"]


def _waits(reason: str) -> dict[str, Any]:
    state = {"waiting": {"reason": reason, "message": "503 from the registry"}}
    container = {"name": "main", "image": "img", "imageID": "", "ready": False, "restartCount": 0}
    return {"phase": "Pending", "containerStatuses": [{**container, "state": state}]}
