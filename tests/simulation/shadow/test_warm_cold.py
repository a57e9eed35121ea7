"""A shadow that has followed a cluster for a while answers as one that starts now.

A scheduler lives in a random world, in which pods go, queues and nodes change. At several moments
both are asked what the scheduler would do, and why pods wait. Where a gang holds nodes it is asked
what the scheduler would do alone: how long it has held them is taken in at a start.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from arranger.api.types.core import Pod
from arranger.api.types.pod_groups import GangObject
from arranger.embedded.server import EmbeddedCluster
from arranger.embedded.transport.in_process import InProcessTransport
from arranger.embedded.virtual_time import virtual_now
from arranger.shadow import Present, Shadow, Why
from arranger.shadow.forecasts.comparison import PresentState
from arranger.shadow.inputs.listing import list_objects
from arranger.shadow.live import LiveShadow
from tests.simulation.warm_cold.engines import CONFIG
from tests.simulation.warm_cold.lives import Lives
from tests.simulation.warm_cold.worlds import first_seeds

pytestmark = pytest.mark.looptime(noop_cycles=0)

#: Of the moments at which a world may be looked at, one of so many is.
EVERY = 4
#: Seconds in which watches show everything.
SHOWN = 0.2


class Onlooker:
    """Follows a world with a shadow, and compares it with a new one from time to time."""

    def __init__(self, cluster: EmbeddedCluster, where: str) -> None:
        self._cluster, self._where = cluster, where
        self._live = LiveShadow(InProcessTransport(cluster), CONFIG, calendar=virtual_now)
        self._following = asyncio.create_task(self._live.run())
        self._moments = 0
        self.compared: Counter[str] = Counter()

    async def look(self) -> None:
        """Somebody may ask now."""
        self._moments += 1
        if self._moments % EVERY:
            return
        await self._live.until_read()
        await asyncio.sleep(SHOWN)
        objects = await list_objects(InProcessTransport(self._cluster), CONFIG)
        cold, warm = Shadow.of(objects, CONFIG, calendar=virtual_now), self._live.shadow
        where = f"{self._where}, moment {self._moments}"
        pods = sorted(pod.key for pod in warm.objects.of(Pod))
        assert pods == sorted(pod.key for pod in cold.objects.of(Pod)), where
        expected, told = cold.ask_now(Present()), warm.ask_now(Present())
        assert _comparable(told) == _comparable(expected), where
        if any(gang.status.waiting_since for gang in cold.objects.of(GangObject)):
            self.compared["held"] += 1
            return
        for key in list(expected.waiting)[:2]:
            assert _why(warm, key) == _why(cold, key), f"{where}, {key}"
            self.compared["why"] += 1
        self.compared["present"] += 1
        warm.engine.check_consistent()

    async def close(self) -> None:
        """Follow no more."""
        self._following.cancel()
        await asyncio.wait({self._following})


def _comparable(told: PresentState) -> Any:
    return msgspec.to_builtins(told)


def _why(shadow: Shadow, key: str) -> Sequence[Any]:
    """The answers, but for turns: of pods of one second only memory knows which came first."""
    namespace, _, name = key.partition("/")
    asked = Why(name, namespace=namespace, suggest=False)
    found = []
    for answer in shadow.ask_now(asked):
        place = answer.queue
        limits = place.limits if place is not None else {}
        found.append((msgspec.structs.replace(answer, queue=None), limits))
    return found


@pytest.mark.parametrize("first", first_seeds(20))
async def test_a_shadow_that_followed_a_cluster_answers_as_a_new_one(first: int) -> None:
    compared: Counter[str] = Counter()
    for seed in range(first, first + 10):
        lives = Lives(seed)
        onlooker = Onlooker(lives.cluster, f"world {seed}")
        try:
            await lives.live(onlooker.look)
        finally:
            await onlooker.close()
        compared += onlooker.compared
    assert compared["held"] < compared["present"], compared
    assert min(compared["present"], compared["why"]) > 10, compared
