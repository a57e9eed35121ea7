"""Connects the engine to one API server: informers feed it, and its effects are carried out.

State is listed anew after leadership is won, never carried over from standing by: a consistent list
then shows every binding of the previous leader, so no capacity is given away twice.
"""

from __future__ import annotations

import asyncio
import random
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Any

import structlog

from arranger.api.effects import (
    Bind,
    DeletePod,
    Effect,
    Outcome,
    PatchPodStatus,
    QueryExtenderPreemption,
    QueryExtenders,
    Refused,
)
from arranger.api.listing import first_names
from arranger.api.quarantine import Quarantine, place_of
from arranger.api.tracing import NO_TRACER, Tracer
from arranger.daemon.backlog import Backlog
from arranger.daemon.config.extenders import ordered_extenders
from arranger.daemon.config.profiles import build_profiles
from arranger.daemon.config.schema import Config
from arranger.daemon.election import (
    ElectionListener,
    LeadershipLostError,
    OpenTransport,
    make_election,
)
from arranger.daemon.informers import Informers, raw_node_reflector
from arranger.daemon.restarts import Restarts
from arranger.daemon.tasks import call_later, cancel_and_wait, loop_time, take_in, wait_for_first
from arranger.daemon.telemetry.decision_log import DecisionLog
from arranger.daemon.telemetry.metrics import Metrics
from arranger.daemon.usage import restore_usage
from arranger.engine.assembly.settings import EngineSettings
from arranger.engine.engine import Engine
from arranger.kube.client.problems import IGNORE_PROBLEMS, ProblemReporter
from arranger.kube.client.transport import RequestTransport, Transport
from arranger.kube.extenders.caller import ExtenderTransport
from arranger.kube.extenders.client import ExtenderClient
from arranger.kube.extenders.http import HttpExtenderTransport
from arranger.kube.timed_wait import wait_until
from arranger.kube.watch.raw_objects import RawObjectStore
from arranger.kube.watch.reflector import Reflector
from arranger.kube.writes.call import ATTEMPT_TIMEOUT, OutcomeCallback
from arranger.kube.writes.dispatcher import ApiDispatcher

log = structlog.get_logger(__name__)

#: Entities tried before other tasks may run, two to five milliseconds mostly; and the seconds after
#: which none is begun, for those that cost more.
ENTITIES_PER_STEP = 64
SECONDS_PER_STEP = 0.02
#: Bindings decided but not settled at most; later arrivals of higher priority overtake the rest.
MAX_BACKLOG = 1024


class Scheduler:
    """One scheduler against one API server.

    Args:
        transport: for lists, watches and the lease.
        config: see :mod:`arranger.daemon.config.schema`.
        identity: unique per process; names it in the lease and in Events.
        write_transport: a cheaper transport for writes, if there is one.
        rng: spreads retries; pass a seeded one to replay a simulation.
        clock: the calendar, in seconds since 1970; pass a virtual one to a simulation.
        perf_counter: measures how long decisions take; pass one that stands still to a simulation.
        extender_transport: how extenders are reached, if not by HTTP.
        open_lease: opens a transport for the lease alone, which is then kept by a thread.
        problems: hears what works and what does not.
        tracer: follows the scheduling attempts.

    Raises:
        ConfigError: the configured plugins do not load or do not work together.
    """

    def __init__(
        self,
        transport: Transport,
        config: Config,
        *,
        identity: str,
        write_transport: RequestTransport | None = None,
        rng: random.Random | None = None,
        clock: Callable[[], float] = time.time,
        perf_counter: Callable[[], float] = time.perf_counter,
        extender_transport: ExtenderTransport | None = None,
        open_lease: OpenTransport | None = None,
        problems: ProblemReporter = IGNORE_PROBLEMS,
        tracer: Tracer = NO_TRACER,
    ) -> None:
        self._transport, self._tracer, self._config = transport, tracer, config
        self._problems = problems
        self._decision_log = DecisionLog(call_later)
        self._rng = rng or random.Random()
        self._clock, self._perf_counter = clock, perf_counter
        self._identity = identity
        self._write_transport = write_transport or transport
        self._extender_transport = extender_transport
        self._extenders = ordered_extenders(config.extenders)
        readers = (e for e in self._extenders if e.filters_or_scores and not e.node_cache_capable)
        self._reads_raw_nodes = any(readers)
        self.metrics = Metrics()
        self._quarantine = Quarantine()
        self._restarts = Restarts()
        self._wake = asyncio.Event()
        self._leading = asyncio.Event()
        self._stopping = asyncio.Event()
        self._election = make_election(
            config.leader_election,
            identity,
            open_lease or transport,
            ElectionListener(
                self._on_started_leading,
                self._wake.set,
                self.metrics,
                self._rng,
                problems,
                self._calendar,
            ),
        )
        self._build_core()

    def _build_core(self) -> None:
        """What one time of leading needs: an engine that knows nothing, its ears and its hands."""
        config, clock = self._config, self._clock
        #: What the engine could not be rid of: it is of no use any more.
        self._fault: Exception | None = None
        self.engine = Engine(
            EngineSettings(
                build_profiles(config),
                queue_config=config.scheduling_queue_config(),
                gang_policy=config.gang_policy(),
                quota_config=config.quota_config(),
                workload_kinds=config.workload_kinds(),
                extenders=self._extenders,
                parallel_extender_calls=config.extender_parallelism,
                to_unix_time=lambda now: clock() - loop_time() + now,
                perf_counter=self._perf_counter,
                max_checkpoint_time=config.max_checkpoint_seconds,
                max_grace_period=config.eviction_max_pod_grace_period_seconds,
                quarantine=self._quarantine,
                left_out=self._restarts.left_out,
                uncounted=self._restarts.uncounted,
                tracer=self._tracer,
            )
        )
        self._informers = Informers(
            self.engine, loop_time, self._wake.set, config.queues.owner_resources
        )
        self._dispatcher = ApiDispatcher(
            self._write_transport,
            may_write=self.may_write,
            host=self._identity,
            rng=self._rng,
            clock=self._calendar,
            metrics=self.metrics,
        )
        #: The nodes as JSON; read only if an extender needs them.
        self._raw_nodes = RawObjectStore()
        self._extender_client = ExtenderClient(
            self._extender_transport or HttpExtenderTransport(),
            self._transport,
            self._raw_nodes,
            may_write=self.may_write,
            rng=self._rng,
            metrics=self.metrics,
        )
        self._backlog = Backlog((self._dispatcher, self._extender_client))

    def _calendar(self) -> datetime:
        return datetime.fromtimestamp(self._clock(), UTC)

    # --- what others may ask ---------------------------------------------------------------

    def may_write(self) -> bool:
        """Whether this replica may write right now; asked before each single write."""
        return self._election is None or self._election.is_leader()

    @property
    def synced(self) -> bool:
        """Whether the whole state has been read."""
        return self._informers.synced and (self._raw_nodes.synced or not self._reads_raw_nodes)

    @property
    def core_restarts(self) -> int:
        """How often the core has begun anew."""
        return self._restarts.count

    def readiness_checks(self) -> dict[str, Callable[[], str | None]]:
        """The checks of ``/readyz``: what is wrong, or None. A standby reads nothing but the lease,
        and is ready when it could take over."""
        return {
            "shutdown": lambda: "stopping" if self._stopping.is_set() else None,
            "leader-election": self._election.readiness_error if self._election else lambda: None,
            "informer-sync": self._sync_error,
        }

    def _sync_error(self) -> str | None:
        if not self.may_write() or self.synced:
            return None
        return f"not read yet: {first_names(self._informers.unread or ['nodes for extenders'], 5)}"

    def stop(self) -> None:
        """Ask :meth:`run` to end in good order."""
        self._stopping.set()

    # --- life ------------------------------------------------------------------------------

    async def run(self) -> None:
        """Compete for the lease, then schedule until stopped.

        On :meth:`stop`: schedule nothing more, wait for the writes on their way, release the lease.

        Raises:
            LeadershipLostError: the lease was not renewed in time.
        """
        if self._election is None:
            await self._lead()
            return
        self._leading.clear()
        lease = asyncio.create_task(self._election.run(), name="lease")
        try:
            if not await self._wait_until_leading(lease):
                return
            work = asyncio.create_task(self._lead(), name="lead")
            try:
                await asyncio.wait({lease, work}, return_when=asyncio.FIRST_COMPLETED)
            finally:  # be it that we were cancelled
                if lost := not work.done():
                    await cancel_and_wait(work)
            if lost:
                raise LeadershipLostError(
                    "the lease was not renewed in time: another replica may lead, so this one ends"
                )
            work.result()
        finally:
            await cancel_and_wait(lease)
            if self._stopping.is_set():
                await self._election.release()

    async def _lead(self) -> None:
        """Lead until stopped; begin anew, without the objects to blame, if the core is broken."""
        while True:
            try:
                await self._run_as_leader()
            except Exception as error:
                now = loop_time()
                if not self._restarts.may_restart(self.engine.barrier.suspects, now):
                    raise
                frames = "".join(traceback.format_exception(error, limit=-16, chain=False))
                log.error("scheduler.core_restarted", place=place_of(error), frames=frames)
                self.metrics.count_core_restart()
                self._quarantine.drop_retries()
                self._build_core()
            else:
                return

    async def _run_as_leader(self) -> None:
        """Read the cluster's state, schedule, and write, until stopped."""
        writer = asyncio.create_task(self._dispatcher.run(), name="writer")
        reflectors = [asyncio.create_task(r.run(), name="reflector") for r in self._reflectors()]
        deciding = asyncio.create_task(self._scheduling_loop(), name="decide")
        tasks = (writer, deciding, *reflectors)  # in this order they end
        try:
            await wait_for_first(tasks, self._stopping)
            for part in tasks:
                if part.done() and not part.cancelled():
                    part.result()  # none of them ends by itself, except by raising
            await cancel_and_wait(deciding)
            while effects := self.engine.finish(loop_time()):  # no gang is left half begun
                self._carry_out(effects)
                await asyncio.sleep(0)
            bound = await self._extender_client.drain()
            if not await self._dispatcher.drain() or not bound:
                log.warning("scheduler.stopped_with_writes_open", backlog=self._dispatcher.backlog)
        except Exception as error:
            self._fault = error
            for part in (deciding, *reflectors):
                await cancel_and_wait(part)
            # Who lists next, be it ourselves, is to see what we have written.
            bound = await self._extender_client.drain()
            if not await self._dispatcher.drain(events=0.0) or not bound:
                self._dispatcher.close()
                await asyncio.sleep(ATTEMPT_TIMEOUT)
            raise
        finally:
            await self._extender_client.close()
            self._dispatcher.close()
            for part in tasks:
                await cancel_and_wait(part)

    def _reflectors(self) -> Iterator[Reflector[Any]]:
        options: dict[str, Any] = {"rng": self._rng, "metrics": self.metrics}
        options["problems"] = self._problems
        yield from self._informers.reflectors(self._transport, **options)
        if self._reads_raw_nodes:
            yield raw_node_reflector(self._transport, self._raw_nodes, **options)

    async def _scheduling_loop(self) -> None:
        """Run the engine whenever an event, an outcome or a timer gives it something to do."""
        began, told = loop_time(), False
        await restore_usage(self.engine, self._transport, self._config)
        while True:
            await self._wait_for_work()
            if self._fault is not None:
                raise self._fault
            if not self.synced:
                continue
            while self._may_schedule():
                step_began = self._perf_counter()
                run, now = self.engine.run, loop_time()
                effects = run(now, limit=ENTITIES_PER_STEP, seconds=SECONDS_PER_STEP)
                self.metrics.collect(self.engine)
                self._carry_out(effects)
                if not told:
                    told, counts = True, {"nodes": self.engine.cluster.table.count}
                    log.info("scheduler.synced", seconds=round(loop_time() - began, 1), **counts)
                await take_in(self._wake, step_began, self._perf_counter)
                if not self.engine.ready:
                    break

    def _may_schedule(self) -> bool:
        """Whether to run the engine; a renewed lease or an outcome wakes us when this changes.

        While we do not lead (the loop had stalled) events are taken in, whatever becomes of that.
        """
        return self.may_write() and self._backlog.pressure < MAX_BACKLOG

    def _carry_out(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            on_outcome: OutcomeCallback = partial(self._report_outcome, effect)
            try:
                on_outcome = self._outcome_callback(effect)
                match effect:
                    case QueryExtenders() | QueryExtenderPreemption():
                        self._extender_client.submit(effect, on_outcome)
                    case Bind() if effect.extender is not None:
                        self._extender_client.submit(effect, on_outcome)
                    case _:
                        self._dispatcher.submit(effect, on_outcome)
            except Exception as error:
                log.error("scheduler.effect_failed", place=place_of(error), effect=type(effect))
                on_outcome(Refused(0, "InternalError", "an internal error"))

    def _outcome_callback(self, effect: Effect) -> Callable[[Outcome], None]:
        awaited = self.engine.awaits(effect) or isinstance(effect, DeletePod)
        return partial(self._report_outcome if awaited else self._report_refusal, effect)

    def _report_refusal(self, effect: Effect, outcome: Outcome) -> None:
        if isinstance(effect, PatchPodStatus) and isinstance(outcome, Refused):
            self._report_outcome(effect, outcome)
        self._wake.set()  # the backlog may have kept us from going on

    def _report_outcome(self, effect: Effect, outcome: Outcome) -> None:
        now = loop_time()
        if self._fault is None:
            try:
                self.engine.on_outcome(effect, outcome, now)
            except Exception as error:  # the writer has to go on until all is settled
                self._fault = error
        if isinstance(effect, Bind | DeletePod):
            self._decision_log.record(effect, outcome, now)
        self._wake.set()

    async def _wait_for_work(self) -> None:
        timer = None
        # While the engine may not run, a timer that is due would wake us without end.
        if not self._wake.is_set() and self.synced and self.may_write():
            timer = self.engine.next_timer() if self._may_schedule() else self._backlog.next_slow()
        await wait_until(self._wake, timer)
        self._wake.clear()

    # --- leadership ------------------------------------------------------------------------

    def _on_started_leading(self, epoch: int) -> None:
        self.metrics.set_leading(self._config.leader_election.resource_name, True)
        self._leading.set()

    async def _wait_until_leading(self, lease: asyncio.Task[None]) -> bool:
        """Wait until we lead (true) or are asked to stop (false)."""
        leading, _ = await wait_for_first([lease], self._leading, self._stopping)
        if lease.done():
            lease.result()
        return leading
