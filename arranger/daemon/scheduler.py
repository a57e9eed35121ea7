"""Wires the core to one API server: reflectors in, writer out, decisions between.

State is listed afresh after leadership is won, never carried over from standing by: a consistent
list then shows every binding the previous leader made, so nothing is placed on room that is gone.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from functools import partial

import structlog

from arranger.api.effects import Bind, Consult, ConsultVictims, Effect, Outcome
from arranger.api.types.core import Node
from arranger.daemon.config.extenders import in_order
from arranger.daemon.config.schema import Config, build_profiles
from arranger.daemon.informers import PATHS, Reading
from arranger.daemon.metrics import Metrics
from arranger.engine.engine import Engine
from arranger.kube.client.transport import Transport
from arranger.kube.extenders.client import Consultant, ExtenderPort
from arranger.kube.extenders.http import HttpExtenders
from arranger.kube.leader_election import LeaderElection, LeaseConfig
from arranger.kube.watch.raw_objects import Whole, WholeDecoder, WholeObjects
from arranger.kube.watch.reflector import Reflector
from arranger.kube.writes.call import Done
from arranger.kube.writes.dispatcher import Writer

log = structlog.get_logger(__name__)

#: Entities tried before other tasks get their turn: two to five milliseconds.
SLICE = 64
#: Bindings decided but not settled at most; later arrivals of higher priority overtake the rest.
MAX_BACKLOG = 1024
#: Seconds; more than the resolution of any event loop's clock.
TICK = 1e-6


class LeadershipLostError(Exception):
    """Another replica may be leading: this process must write nothing more, and end."""


class Scheduler:
    """One scheduler against one API server.

    Args:
        transport: for lists, watches and the lease.
        config: see :mod:`arranger.daemon.config.schema`.
        identity: unique per process; names it in the lease and in Events.
        hot: a cheaper transport for writes, if there is one.
        rng: spreads retries; pass a seeded one to replay a simulation.
        port: where extenders are, if not at the other end of HTTP.
        wall: the calendar, in seconds since 1970; pass a virtual one to a simulation.

    Raises:
        ConfigError: the configured plugins do not load or do not work together.
    """

    def __init__(
        self,
        transport: Transport,
        config: Config,
        *,
        identity: str,
        hot: Transport | None = None,
        rng: random.Random | None = None,
        wall: Callable[[], float] = time.time,
        port: ExtenderPort | None = None,
    ) -> None:
        self._transport = transport
        self._config = config
        self._rng = rng or random.Random()
        self.metrics = Metrics()
        extenders = in_order(config.extenders)
        self.engine = Engine(
            build_profiles(config),
            settings=config.queue_settings(),
            gangs=config.gang_policy(),
            queues=config.queue_rules(),
            extenders=extenders,
            parallel_consultations=config.extender_parallelism,
            calendar=lambda now: wall() - self._loop_time() + now,
            perf_counter=time.perf_counter,
        )
        self._wake = asyncio.Event()
        self._stopping = asyncio.Event()
        self._loop_time: Callable[[], float] = lambda: asyncio.get_running_loop().time()
        self._reading = Reading(self.engine, self._loop_time, self._wake.set)
        self._on_lead: Callable[[], None] = lambda: None
        self._election = self._make_election(identity)
        self._writer = Writer(
            hot or transport,
            may_write=self.may_write,
            host=identity,
            rng=self._rng,
            meter=self.metrics,
        )

        #: The nodes as extenders want them, if one does.
        self._nodes: WholeObjects | None = None
        if any(e.judges_nodes and not e.node_cache_capable for e in extenders):
            self._nodes = WholeObjects()
        self._consultant = Consultant(
            port or HttpExtenders(),
            transport,
            self._nodes or WholeObjects(),
            may_write=self.may_write,
            rng=self._rng,
            meter=self.metrics,
        )

    # --- what others may ask ---------------------------------------------------------------

    def may_write(self) -> bool:
        """Whether this replica may write right now; asked before each single write."""
        return self._election is None or self._election.is_leader()

    @property
    def synced(self) -> bool:
        """Whether the whole state has been read."""
        return self._reading.synced and (self._nodes is None or self._nodes.synced)

    def stop(self) -> None:
        """Ask :meth:`run` to end in good order."""
        self._stopping.set()

    # --- life ------------------------------------------------------------------------------

    async def run(self) -> None:
        """Compete for the lease, then schedule until stopped.

        On :meth:`stop`: decide nothing more, let the writes on their way finish, give the lease
        back.

        Raises:
            LeadershipLostError: the lease was not renewed in time.
        """
        if self._election is None:
            await self._lead()
            return
        started = asyncio.Event()
        self._on_lead = started.set
        lease = asyncio.create_task(self._election.run(), name="lease")
        try:
            if not await self._first(started, lease):
                return
            work = asyncio.create_task(self._lead(), name="lead")
            await asyncio.wait({lease, work}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                await _cancelled(work)
                raise LeadershipLostError("the lease was not renewed in time")
            work.result()
        finally:
            await _cancelled(lease)
            if self._stopping.is_set():
                await self._election.release()

    async def _lead(self) -> None:
        """Read the state, decide, write; until stopped."""
        writer = asyncio.create_task(self._writer.run(), name="writer")
        reading = self._reading.reflectors(self._transport, rng=self._rng, meter=self.metrics)
        reflectors = [asyncio.create_task(each.run(), name="reflector") for each in reading]
        if self._nodes is not None:
            nodes = self._whole_nodes(self._nodes)
            reflectors.append(asyncio.create_task(nodes.run(), name="reflector"))
        deciding = asyncio.create_task(self._decide(), name="decide")
        parts = {writer, deciding, *reflectors}
        try:
            stopped = asyncio.create_task(self._stopping.wait(), name="stop")
            await asyncio.wait({*parts, stopped}, return_when=asyncio.FIRST_COMPLETED)
            stopped.cancel()
            for part in parts:
                if part.done() and not part.cancelled():
                    part.result()  # none of them ends by itself, except by raising
            await _cancelled(deciding)
            bound = await self._consultant.drain()
            if not await self._writer.drain() or not bound:
                log.warning("scheduler.stopped_with_writes_open", backlog=self._backlog)
        finally:
            await self._consultant.close()
            self._writer.close()
            for part in parts:
                await _cancelled(part)

    def _whole_nodes(self, into: WholeObjects) -> Reflector[Whole]:
        return Reflector(
            self._transport, PATHS[Node], WholeDecoder(), into, rng=self._rng, meter=self.metrics
        )

    @property
    def _backlog(self) -> int:
        return self._writer.backlog + self._consultant.backlog

    async def _decide(self) -> None:
        """Run the engine whenever an event, an outcome or a timer gives it something to do."""
        while True:
            await self._until_due()
            if not self.synced:
                continue
            while self._may_decide():
                self._step()
                await asyncio.sleep(0)
                if not self.engine.ready:
                    break

    def _may_decide(self) -> bool:
        """Whether to go on; when that changes, the renewal of the lease or an outcome wakes us.

        Not leading for a moment (the loop had stalled), we still take events in: the renewal that
        follows, or the end of the process, decides what comes next.
        """
        return self.may_write() and self._backlog < MAX_BACKLOG

    def _step(self) -> None:
        effects = self.engine.run(self._loop_time(), limit=SLICE)
        self.metrics.collect(self.engine)
        for effect in effects:
            self._carry_out(effect, self._on_outcome(effect))

    def _carry_out(self, effect: Effect, done: Done) -> None:
        match effect:
            case Consult() | ConsultVictims():
                self._consultant.submit(effect, done)
            case Bind(by=extender) if extender is not None:
                self._consultant.submit(effect, done)
            case _:
                self._writer.submit(effect, done)

    def _on_outcome(self, effect: Effect) -> Callable[[Outcome], None]:
        if self.engine.awaits(effect):
            return partial(self._settled, effect)
        # Nobody waits for it, but it may be the backlog that keeps us from going on.
        return lambda _: self._wake.set()

    def _settled(self, effect: Effect, outcome: Outcome) -> None:
        self.engine.settle(effect, outcome, self._loop_time())
        self._wake.set()

    async def _until_due(self) -> None:
        timer = self.engine.next_timer()
        # While we may not go on, a timer that is due would wake us without end.
        if timer is not None and self.synced and self._may_decide():
            # A hair late: a loop may fire early by its resolution, and nothing would be due yet.
            handle = asyncio.get_running_loop().call_at(timer + TICK, self._wake.set)
        else:
            handle = None
        try:
            await self._wake.wait()
        finally:
            if handle is not None:
                handle.cancel()
        self._wake.clear()

    # --- leadership ------------------------------------------------------------------------

    def _make_election(self, identity: str) -> LeaderElection | None:
        settings = self._config.leader_election
        if not settings.leader_elect:
            return None
        lease = LeaseConfig(
            namespace=settings.resource_namespace,
            name=settings.resource_name,
            identity=identity,
            lease_duration=settings.lease_duration,
            renew_deadline=settings.renew_deadline,
            retry_period=settings.retry_period,
        )
        return LeaderElection(
            self._transport,
            lease,
            rng=self._rng,
            on_started=self._started_leading,
            on_stopped=partial(self.metrics.leading, settings.resource_name, False),
            on_recovered=self._wake.set,
            meter=self.metrics,
        )

    def _started_leading(self, epoch: int) -> None:
        self.metrics.leading(self._config.leader_election.resource_name, True)
        self._on_lead()

    async def _first(self, started: asyncio.Event, lease: asyncio.Task[None]) -> bool:
        """Wait until we lead (true) or are asked to stop (false)."""
        leading = asyncio.create_task(started.wait())
        stopped = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait({leading, stopped, lease}, return_when=asyncio.FIRST_COMPLETED)
            if lease.done():
                lease.result()
            return leading.done()
        finally:
            leading.cancel()
            stopped.cancel()


async def _cancelled(task: asyncio.Task[None]) -> None:
    """Cancel a task and wait until it has ended, whatever it ends with."""
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled():
        task.exception()
