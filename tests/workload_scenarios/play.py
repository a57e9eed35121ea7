"""Plays scenarios: on the real control plane, or in an embedded cluster in virtual time."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from arranger.api.timestamps import second_time
from arranger.embedded.server import EmbeddedCluster
from arranger.embedded.virtual_time import run_virtual, virtual_now
from arranger.embedded.workloads.controllers import HollowControllers
from arranger.kube.client.transport import Request
from tests.controlplane.admin import Admin, until
from tests.controlplane.harness import a_node
from tests.workload_scenarios.deployments import DEPLOYMENTS, REPLICA_SETS
from tests.workload_scenarios.jobs import JOBS
from tests.workload_scenarios.observed import observe
from tests.workload_scenarios.scenario import Scenario, World
from tests.workload_scenarios.stateful_sets import DAEMON_SETS, STATEFUL_SETS

SCENARIOS: Mapping[str, Scenario] = {
    **DEPLOYMENTS,
    **REPLICA_SETS,
    **STATEFUL_SETS,
    **DAEMON_SETS,
    **JOBS,
}
RECORDED = Path(__file__).with_name("recorded.json")
NODES = [a_node(name, cpu="64", memory="64Gi", pods="500") for name in ("n1", "n2")]
#: Seconds for which nothing must have changed on a real cluster.
_QUIET = 2.5
#: Virtual seconds that hollow controllers get: enough for each to answer the others, and less than
#: any back-off.
_SETTLES = 4.0

#: Step → what there was after it.
Seen = dict[str, list[str]]


async def play(scenario: Scenario, world: World) -> Seen:
    """What there is after each step."""
    seen: Seen = {}
    for name, actions in scenario.steps:
        for action in actions:
            await action(world)
        await world.settle()
        seen[name] = await observe(world)
    return seen


# --- the real one ------------------------------------------------------------------------


@dataclass
class RealWorld:
    """A namespace of a real cluster."""

    admin: Admin
    namespace: str

    async def request(
        self, method: str, path: str, body: object = None, *, content_type: str = "application/json"
    ) -> tuple[int, Any]:
        return await self.admin.request(method, path, body, content_type=content_type)

    def now(self) -> str:
        return second_time(datetime.now(UTC))

    async def wait(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def settle(self) -> None:
        loop = asyncio.get_running_loop()
        last, since = await observe(self), loop.time()
        while loop.time() - since < _QUIET:
            await asyncio.sleep(0.5)
            if (now := await observe(self)) != last:
                last, since = now, loop.time()


async def play_for_real(
    admin: Admin,
    scenarios: Mapping[str, Scenario],
    *,
    at_once: int = 12,
    prefix: str = "scenario",
) -> dict[str, Seen]:
    """All scenarios, each in a namespace of its own."""
    for node in NODES:
        await admin.request("POST", "/api/v1/nodes", node)
    seen: dict[str, Seen] = {}
    left = iter(enumerate(scenarios.items()))

    async def work() -> None:
        for number, (name, scenario) in left:
            namespace = f"{prefix}-{number}"
            head = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
            await admin.post("/api/v1/namespaces", head)
            account = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"

            async def there(path: str = account) -> bool:
                return (await admin.request("GET", path))[0] == 200

            await until(there, what=account)
            seen[name] = await play(scenario, RealWorld(admin, namespace))

    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(work())
    return {name: seen[name] for name in scenarios}


# --- the hollow one ----------------------------------------------------------------------


@dataclass
class HollowWorld:
    """An embedded cluster with hollow controllers, in virtual time."""

    cluster: EmbeddedCluster
    namespace: str = "default"

    async def request(
        self, method: str, path: str, body: object = None, *, content_type: str = "application/json"
    ) -> tuple[int, Any]:
        data = b"" if body is None else json.dumps(body).encode()
        answer = self.cluster.handle(Request(method, path, {}, data, content_type))
        return answer.status, answer.body

    def now(self) -> str:
        return second_time(virtual_now())

    async def wait(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def settle(self) -> None:
        await asyncio.sleep(_SETTLES)


def play_hollow(scenario: Scenario) -> Seen:
    """The scenario in an embedded cluster."""

    async def main() -> Seen:
        cluster = EmbeddedCluster(now=virtual_now, rng=random.Random(1))
        for node in NODES:
            cluster.create(node)
        work = asyncio.create_task(HollowControllers(cluster, now=virtual_now).run())
        try:
            return await play(scenario, HollowWorld(cluster))
        finally:
            work.cancel()
            with suppress(asyncio.CancelledError):
                await work

    return run_virtual(main())


def recorded(path: Path = RECORDED) -> dict[str, Seen]:
    """What kube-controller-manager did."""
    found: dict[str, Seen] = json.loads(path.read_text())
    return found
