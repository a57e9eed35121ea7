"""Keeps two schedulers and the controllers at work, as Deployments would."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Final

from arranger.controllers.assembly import Controllers
from arranger.controllers.runtime.controller import ControllerOptions
from arranger.controllers.runtime.worker_thread import at_once
from arranger.daemon.config.schema import Config
from arranger.daemon.election import LeadershipLostError
from arranger.daemon.scheduler import Scheduler
from arranger.embedded.errors import ApiError
from arranger.embedded.storage.store import Change
from arranger.embedded.transport.hook import RequestHook
from arranger.embedded.transport.in_process import InProcessTransport
from arranger.embedded.virtual_time import virtual_now
from arranger.kube.client.transport import Request
from arranger.kube.extenders.caller import ExtenderTransport
from tests.faults.injector import FaultInjector, from_user
from tests.faults.kinds import DropConnection, FaultRule, WatchStall
from tests.simulation.harnesses.simulation import SimulationHarness
from tests.swarm.backup import Backup
from tests.swarm.clock import VirtualLoop, start
from tests.swarm.world import Fault, Object

SCHEDULERS: Final = ("one", "two")
CONTROLLERS: Final = "controllers"
_DEFINITIONS: Final = "apiextensions.k8s.io/customresourcedefinitions"
#: Seconds until a process that has ended by itself is started again.
_RESTART: Final = 1.0


class Processes:
    """The processes of a cluster; each life of one has a name of its own.

    Attributes:
        skews: by how many seconds the clocks of processes are wrong.
        controller_faults: every request of the controllers goes through them.
        failures: what processes have ended with that should never end one.
    """

    def __init__(
        self,
        sim: SimulationHarness,
        config: Config,
        *,
        port: ExtenderTransport | None = None,
        around: Callable[[RequestHook], RequestHook] = lambda hook: hook,
    ) -> None:
        self._around = around
        self.skews: dict[str, float] = {}
        self.controller_faults = FaultInjector(rng=random.Random(1))
        self.failures: list[str] = []
        self._sim = sim
        self._config = config
        self._port = port
        self._lives: dict[str, int] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._away: dict[str, float] = {}
        self._dead: dict[str, FaultRule] = {}
        self._keepers: list[asyncio.Task[None]] = []
        self._backups: dict[int, Backup] = {}
        self._closing: asyncio.Task[None] | None = None
        #: Of those that are no schedulers.
        self._transports: list[InProcessTransport] = []
        #: The controllers that live.
        self.controllers: Controllers | None = None

    @property
    def injectors(self) -> Mapping[str, FaultInjector]:
        """What the requests of each process go through."""
        faults = dict.fromkeys(SCHEDULERS, self._sim.faults)
        return {**faults, CONTROLLERS: self.controller_faults}

    def start(self) -> None:
        """Start all of them."""
        for process in (*SCHEDULERS, CONTROLLERS):
            self._keepers.append(start("", self._keep(process)))

    async def stop(self) -> None:
        """Kill all of them, for ever."""
        for keeper in self._keepers:
            keeper.cancel()
        for process in tuple(self._running):
            self.kill(process, 0.0)
        await asyncio.gather(*self._keepers, *self._running.values(), return_exceptions=True)

    def kill(self, process: str, away: float) -> None:
        """As ``kill -9``: nothing of it reaches the server any more."""
        task = self._running.get(process)
        if task is None or task.done() or process in self._dead:
            return
        self._away[process] = max(away, _RESTART)
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        loop.resume(process)
        user = self.user_of(process)
        self._dead[process] = self.injectors[process].inject(from_user(user), DropConnection.BEFORE)
        task.cancel()

    def restore(self, fault: Fault) -> None:
        """The server goes back to the backup that was made for this; the watches of all end.

        Raises:
            KeyError: none was made.
        """
        backup, store = self._backups.pop(id(fault)), self._sim.cluster.store
        future = backup.restore(store, bump=fault.bump)
        for injector in {id(each): each for each in self.injectors.values()}.values():
            injector.inject(future, WatchStall())
        self._sim.trace.restored(store)
        self._closing = start("", self._close_watches())

    def back_up(self, fault: Fault) -> None:
        """Make the backup that a fault is to restore."""
        self._backups[id(fault)] = Backup.of(self._sim.cluster.store)

    def lose_node(self, away: float) -> bool:
        """Delete a node that a waiting pod is nominated to; it comes again after so long."""
        cluster = self._sim.cluster
        nodes = {node["metadata"]["name"]: node for node in cluster.objects("nodes")}
        for pod in cluster.objects("pods"):
            name = pod["status"].get("nominatedNodeName", "")
            if name in nodes and "nodeName" not in pod["spec"]:
                cluster.handle(Request("DELETE", f"/api/v1/nodes/{name}"))
                again = partial(self._create_again, nodes[name])
                asyncio.get_running_loop().call_later(away, again)
                return True
        return False

    def _create_again(self, node: Object) -> None:
        kept = {key: each for key, each in node["metadata"].items() if key in ("name", "labels")}
        with suppress(ApiError):
            self._sim.cluster.create({**node, "metadata": kept})

    async def _close_watches(self) -> None:
        for transport in (*self._sim._transports.values(), *self._transports):
            await transport.close()

    def compact(self) -> None:
        """The server forgets its history."""
        self._sim.cluster.store.compact()

    def user_of(self, process: str) -> str:
        """Its name in its present life."""
        return f"{process}-{self._lives[process]}"

    def leader(self) -> Scheduler | None:
        """The scheduler that leads and has read everything, if there is one."""
        for process in SCHEDULERS:
            scheduler = self._sim.schedulers.get(self.user_of(process))
            task = self._running.get(process)
            alive = task is not None and not task.done()
            if scheduler is not None and alive and scheduler.may_write() and scheduler.synced:
                return scheduler
        return None

    # --- lives -------------------------------------------------------------------------------

    async def _keep(self, process: str) -> None:
        live = self._control if process == CONTROLLERS else self._schedule
        while True:
            self._lives[process] = self._lives.get(process, 0) + 1
            task = start(process, live(process, self.user_of(process)))
            self._running[process] = task
            await asyncio.wait({task})
            if (rule := self._dead.pop(process, None)) is not None:
                rule.stop()
            error = None if task.cancelled() else task.exception()
            if error is not None and not isinstance(error, LeadershipLostError):
                self.failures.append(f"{self.user_of(process)} has ended with {error!r}")
            if self._transport_of(process)._watches:
                self.failures.append(f"{self.user_of(process)} goes on reading after its end")
            await asyncio.sleep(self._away.pop(process, _RESTART))

    def _transport_of(self, process: str) -> InProcessTransport:
        if process == CONTROLLERS:
            return self._transports[-1]
        return self._sim._transports[self.user_of(process)]

    async def _schedule(self, process: str, user: str) -> None:
        clock = lambda: virtual_now().timestamp() + self.skews.get(process, 0.0)  # noqa: E731
        opened = self._sim.scheduler(user, self._config, port=self._port, clock=clock)
        async with opened:
            task = self._sim._tasks[user]
            await asyncio.wait({task})
            task.result()

    async def _control(self, process: str, user: str) -> None:
        transport = InProcessTransport(
            self._sim.cluster, hook=self._around(self.controller_faults), user=user
        )
        self._transports = [transport]
        options = ControllerOptions(
            debounce=0.1, rng=random.Random(1), now=virtual_now, run_aside=at_once
        )
        controllers = Controllers(transport, options)

        def hear(change: Change) -> None:
            deleted = change.type == "DELETED"
            asyncio.get_running_loop().call_later(
                0.01, controllers.on_definition_event, change.after, deleted
            )

        for definition in self._sim.cluster.store.items(_DEFINITIONS):
            controllers.on_definition_event(definition, False)
        silence = self._sim.cluster.store.subscribe(hear, _DEFINITIONS)
        self.controllers = controllers
        try:
            async with asyncio.TaskGroup() as group:
                for part in controllers.tasks():
                    group.create_task(part)
        finally:
            silence()
            self.controllers = None
