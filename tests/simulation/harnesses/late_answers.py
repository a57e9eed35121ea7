"""An answer that comes when what it tells of has been deleted, or deleted and made anew."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from arranger.embedded.server import EmbeddedCluster
from tests.faults.injector import EVENTS, WATCHES, ClientRequest, FaultInjector, RequestMatcher
from tests.faults.kinds import ConcurrentAction, Delay, DropConnection, FaultRule
from tests.simulation.harnesses.simulation import SimulationHarness

#: All of them are tried when somebody asks for many worlds.
STEP = 1 if os.environ.get("ARRANGER_WORLDS") else 4
#: Requests that one story may cost, at most.
ENOUGH = 300

#: Seconds until the object goes, and until the answer comes.
STRIKE, ANSWER = 1.0, 5.0
#: Made once for a job: one that somebody deletes is not made again, and counts as made.
MADE_ONCE = frozenset({"Service", "ConfigMap", "NetworkPolicy"})
#: Requests about single objects, but for Events; lists and watches are the reflectors'.
ABOUT_ONE = ~EVENTS & ~WATCHES & RequestMatcher(lambda call: "limit" not in call.query)


@dataclass(slots=True, eq=False)
class LateAnswer:
    """The answer to one request is late, and meanwhile something is deleted.

    Attributes:
        owner: path of the object to delete; "" for the one that the request is about.
        anew: whether it is made again at once, under its name.
        struck: whether the request has come, and the object has been there.
    """

    sim: SimulationHarness
    owner: str = ""
    anew: bool = False
    struck: bool = False

    def inject(self, faults: FaultInjector, number: int) -> None:
        """Let it happen at a request, by its number."""
        rule: FaultRule

        def act() -> None:
            (request,) = rule.matched
            asyncio.get_running_loop().call_later(STRIKE, self._strike, request)

        rule = faults.inject(ABOUT_ONE, ConcurrentAction(act, after=True), skip=number, times=1)
        faults.inject(ABOUT_ONE, Delay(ANSWER, after=True), skip=number, times=1)

    def _strike(self, request: ClientRequest) -> None:
        path = self.owner or _object_path(request)
        there = find(self.sim.cluster, path)
        if there is None or (there["kind"] in MADE_ONCE and not self.anew):
            return
        self.struck = True
        self.sim.request("DELETE", path, {"gracePeriodSeconds": 0})
        if self.anew:
            kept = ("name", "namespace", "labels", "annotations", "ownerReferences")
            meta = {key: value for key, value in there["metadata"].items() if key in kept}
            head = {key: there[key] for key in ("apiVersion", "kind")}
            self.sim.cluster.create({**head, "metadata": meta, "spec": there.get("spec", {})})


@dataclass(frozen=True, slots=True)
class Story:
    """What happens in a simulation, told anew for each request whose answer is late.

    Attributes:
        make: the simulation, and the faults through which its controllers' requests go.
        live: what happens in it; raises what is wrong in the end.
    """

    make: Callable[[], tuple[SimulationHarness, FaultInjector]]
    live: Callable[[SimulationHarness], Awaitable[None]]

    async def tell(self, owner: str, *, anew: bool) -> int:
        """Tell it with each late answer; how often anything was there to be deleted."""
        struck = 0
        for number in range(2 * anew, await self._count_requests(), STEP):
            sim, faults = self.make()
            # A controller that never comes to rest would keep the time from going on.
            endless = faults.inject(ABOUT_ONE, DropConnection.BEFORE, skip=ENOUGH)
            late = LateAnswer(sim, owner, anew)
            late.inject(faults, number)
            try:
                await self.live(sim)
            except AssertionError as error:
                error.add_note(f"the answer to request {number} was late")
                raise
            assert not endless.matched, f"no rest after request {number}"
            struck += late.struck
        return struck

    async def _count_requests(self) -> int:
        sim, faults = self.make()
        seen = faults.inject(ABOUT_ONE)
        await self.live(sim)
        return len(seen.matched)


def find(cluster: EmbeddedCluster, path: str) -> dict[str, Any] | None:
    """The object at a path."""
    parts = path.strip("/").split("/")
    group = "" if parts[0] == "api" else parts[1]
    plural, name = parts[-2:]
    for obj in cluster.objects(plural, group):
        if obj["metadata"]["name"] == name:
            return obj
    return None


def _object_path(request: ClientRequest) -> str:
    if request.method == "POST":
        return f"{request.path}/{request.json['metadata']['name']}"
    return request.path.removesuffix("/status")
