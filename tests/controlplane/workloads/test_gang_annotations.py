"""What people see of a gang on the real control plane: events, conditions, marks and the Gang."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.builders import a_pod
from tests.controlplane.admin import until
from tests.controlplane.cluster import ClusterHarness
from tests.controlplane.harness import a_node

pytestmark = [pytest.mark.controlplane, pytest.mark.xdist_group("controlplane")]

Object = dict[str, Any]

PODS = "/api/v1/namespaces/default/pods"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
GANGS = "/apis/arranger.io/v1alpha1/namespaces/default/gangs"
MARK = "gang.scheduling.koordinator.sh/timeout"
MISSING = "gang default/g waits for members: 2 of 3 arrived"
NO_ROOM = (
    "0/1 nodes are available: 1 Insufficient cpu. gang default/g: 3 of 3 arrived, 2 placeable now, "
    "blocked by pod default/g-2."
)


class GangClusterHarness(ClusterHarness):
    async def create(self, *numbers: int) -> None:
        """Create pods of one CPU, of a gang of three that keeps nodes for a quarter of a minute."""
        for n in numbers:
            pod = a_pod(f"g-{n}").needs(cpu=1).in_gang("g", 3, mode="NonStrict", waiting_time="15s")
            manifest = pod.manifest()
            del manifest["metadata"]["uid"]
            await self.plane.post(PODS, manifest)

    async def notes(self, pod: str, reason: str = "FailedScheduling") -> list[str]:
        """What the events of a reason say about a pod."""
        events = (await self.plane.get(EVENTS))["items"]
        return [e["note"] for e in events if (e["regarding"]["name"], e["reason"]) == (pod, reason)]

    async def conditions(self) -> set[str]:
        """What the pods' conditions say about their scheduling."""
        pods = (await self.plane.get(PODS))["items"]
        conditions = (c for pod in pods for c in pod["status"].get("conditions") or ())
        return {c["message"] for c in conditions if c["type"] == "PodScheduled" and "message" in c}

    async def gang(self) -> Object:
        """The status of the only Gang, empty while there is none."""
        gangs = (await self.plane.get(GANGS))["items"]
        return dict(gangs[0].get("status", {})) if gangs else {}

    async def marked(self) -> int:
        """How many pods say that they ran out of time."""
        pods = (await self.plane.get(PODS))["items"]
        return sum(pod["metadata"]["annotations"].get(MARK) == "true" for pod in pods)


async def test_a_gang_that_runs_out_of_time_says_so_and_waits_for_its_owner() -> None:
    async with GangClusterHarness.start([a_node("n1", cpu="2")], served=[GANGS]) as harness:
        await harness.create(0, 1)

        async def miss_one() -> bool:
            return await harness.notes("g-0") == [MISSING] and await harness.conditions() == {
                MISSING
            }

        await until(miss_one, what="two that wait for a third")
        await harness.create(2)

        async def lack_room() -> bool:
            said = set(await harness.notes("g-0")) == {MISSING, NO_ROOM}
            return said and await harness.conditions() == {NO_ROOM}

        await until(lack_room, what="all three to say what the gang lacks now")

        async def tried() -> bool:
            return int((await harness.gang()).get("schedulingCycle", 0)) >= 1

        await until(tried, what="the Gang to count the attempt")

        async def out_of_time() -> bool:
            message = (await harness.gang()).get("message", "")
            return await harness.marked() == 3 and f"remove {MARK} from its pods" in message

        await until(out_of_time, what="the end of patience")
        [said] = await harness.notes("g-2", "GangTimedOut")
        assert said == "gang default/g gave its nodes back: it did not become complete within 15s"
        await harness.plane.post("/api/v1/nodes", a_node("n2", cpu="8"))
        await asyncio.sleep(3)
        assert (await harness.gang())["bound"] == 0, "its owner has not acted"

        await harness.plane.merge(f"{PODS}/g-1", {"metadata": {"annotations": {MARK: None}}})

        async def runs() -> bool:
            return (await harness.gang()).get("bound") == 3 and await harness.marked() == 0

        await until(runs, what="the gang to run, without marks")
