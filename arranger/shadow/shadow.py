"""The warm shadow: the scheduler's core, fed with all there is, and asked in branches.

It takes in what happens and decides nothing. Each question is answered in a copy of it
(:mod:`arranger.shadow.forecasts.branch`), where time passes and objects are changed as the question
wants.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Protocol, TypeVar

from arranger.api.timestamps import utc_now
from arranger.daemon.config.schema import Config
from arranger.daemon.usage import UsageConfigMap
from arranger.engine.engine import Engine
from arranger.shadow.forecasts.branch import MAX_SECONDS, Branch
from arranger.shadow.forecasts.forecast import Driver
from arranger.shadow.inputs.event_feed import EventFeed, build_engine
from arranger.shadow.inputs.objects import ClusterObjects, owner_kinds

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")

#: Questions that are worked on at a time; each has a core of the machine to itself, and memory.
_AT_ONCE: Final = 2


@dataclass(slots=True, eq=False)
class Clocks:
    """The time, of which a copy of the process needs no event loop to tell it.

    Args:
        calendar: the time, with a zone.
        clock: the engine's, in seconds.
    """

    calendar: Callable[[], datetime]
    clock: Callable[[], float]
    _began: float = field(init=False)

    def __post_init__(self) -> None:
        self._began = self.calendar().timestamp() - self.clock()

    def now(self) -> float:
        """The engine's time."""
        return self.clock()

    def today(self) -> datetime:
        """The time, with a zone; by it the engine's is told from here on."""
        today = self.calendar()
        self._began = today.timestamp() - self.clock()
        return today

    def to_unix_time(self, at: float) -> float:
        """The engine's time as seconds since 1970."""
        return self._began + at


class Question(Protocol[T_co]):
    """What a shadow can be asked."""

    @property
    def kind(self) -> Any:
        """The type of the answer."""

    def answer(self, driver: Driver) -> T_co:
        """Work the answer out; the driver is nobody else's."""


class Shadow:
    """All objects of a cluster, and an engine that has heard of them.

    Args:
        engine: hears of the objects and is driven by nobody.
        objects: what there is; they belong to the shadow.
        config: the scheduler's.
        clocks: the time.

    Attributes:
        engine: has taken everything in and never runs; to be read only.
        objects: likewise.
    """

    def __init__(
        self,
        engine: Engine,
        objects: ClusterObjects,
        config: Config,
        *,
        clocks: Clocks,
    ) -> None:
        self.engine, self.objects, self.config = engine, objects, config
        self._clocks = clocks
        self._usage: UsageConfigMap | None = None
        self._slots = asyncio.Semaphore(_AT_ONCE)

    @classmethod
    def unsynced(
        cls,
        config: Config,
        objects: ClusterObjects,
        *,
        calendar: Callable[[], datetime] = utc_now,
        clock: Callable[[], float] = time.monotonic,
        **options: Any,
    ) -> Shadow:
        """One whose engine has been told of nothing yet; ``options``: of the engine.

        Raises:
            ConfigError: the configured plugins cannot be used.
        """

        clocks = Clocks(calendar, clock)
        engine = build_engine(config, clocks.to_unix_time, **options)
        return cls(engine, objects, config, clocks=clocks)

    @classmethod
    def of(
        cls,
        objects: ClusterObjects,
        config: Config,
        *,
        calendar: Callable[[], datetime] = utc_now,
    ) -> Shadow:
        """Of these objects, which are the shadow's from now on.

        Raises:
            ConfigError: the configured plugins cannot be used.
        """
        shadow = cls.unsynced(config, objects, calendar=calendar)
        EventFeed(shadow.engine, config).start(objects, time.monotonic())
        shadow.count()
        return shadow

    @classmethod
    def from_manifests(
        cls,
        manifests: Iterable[Mapping[str, Any]],
        config: Config,
        *,
        calendar: Callable[[], datetime] = utc_now,
    ) -> Shadow:
        """Of API objects, such as ``kubectl get … -o yaml`` prints them.

        Raises:
            ObjectError: a field has the wrong type.
            ConfigError: the configured plugins cannot be used.
        """
        objects = ClusterObjects.from_manifests(manifests, owner_kinds(config))
        return cls.of(objects, config, calendar=calendar)

    @property
    def unread(self) -> list[str]:
        """What could not be read, a line each."""
        return self.objects.unread

    def follow_usage(self, found: UsageConfigMap | None) -> None:
        """What queues have used is recorded there; None where that is not known."""
        self._usage = found

    def take_in(self) -> None:
        """What was told so far is to count: everything has been read, or some of it has changed."""
        self.engine.handlers.start(self._clocks.now())
        self.engine.handlers.forget_notes(self.engine.awaits)

    def ask_now(self, question: Question[T], seconds: float = MAX_SECONDS) -> T:
        """Answer a question, and wait for it.

        Raises:
            LookupError: there is nothing of that name.
            ChangeError: a change does not apply.
            TimeoutError: there is no answer in time.
            BranchError: there is none, through a fault of ours.
        """
        return self._start(question, seconds).result()

    async def ask(self, question: Question[T], seconds: float = MAX_SECONDS) -> T:
        """The same, while others go on; see :meth:`ask_now`."""
        async with self._slots:
            branch = self._start(question, seconds)
            try:
                await branch.done()
                return branch.result()
            finally:
                branch.close()

    def _start(self, question: Question[T], seconds: float) -> Branch[T]:
        engine, today = self.engine, self._clocks.today()
        if self._usage is not None:
            engine.usage.restore(self._usage.key, self._usage.text, self._clocks.now())
        self._count(today)
        driver = Driver(engine, self.objects, self.config, today, self._clocks.now())
        return Branch.start(lambda: question.answer(driver), question.kind, seconds)

    def count(self) -> None:
        """Count what questions need counted, before the first of them is asked."""
        self._count(self._clocks.today())

    def _count(self, today: datetime) -> None:
        """Count anew what has changed: once here, not in the copy of each question."""
        engine = self.engine
        engine.ledger.refresh(engine.cluster)
        engine.ledger.card_column.card_set_ids()
        engine.policy.evictable_rows(())
        if any(each.group is not None for each in engine.queue.entities()):
            engine.planned_room.timeline.refresh(today.timestamp())
