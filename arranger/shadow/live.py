"""Keeps a shadow fed from a cluster, with the rights of whoever asks."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import structlog

from arranger.api.effects import ObjectReference
from arranger.api.quarantine import Quarantine, place_of
from arranger.api.timestamps import utc_now
from arranger.api.types.core import ObjectMeta, Pod, PodSpec, PodStatus
from arranger.daemon.config.schema import Config
from arranger.daemon.informers import Informers
from arranger.daemon.restarts import Restarts
from arranger.daemon.tasks import loop_time
from arranger.kube.client.metrics import NULL_METRICS
from arranger.kube.client.problems import Problem, ProblemKind
from arranger.kube.client.transport import Transport
from arranger.shadow.inputs.listing import UnreadableError
from arranger.shadow.inputs.objects import ClusterObjects, Kind, key_of, owner_kinds
from arranger.shadow.inputs.usage import recorded_usage
from arranger.shadow.shadow import Shadow

log = structlog.get_logger(__name__)

#: Seconds after which all is read anew: what names that are gone have left behind goes with it.
_FRESH_SECONDS: Final = 24 * 3600.0
#: Seconds between two looks at what queues have used, which is written every five minutes.
_USAGE_SECONDS: Final = 60.0
#: Changes between two times that notes are dropped.
_NOTES: Final = 256
#: What nobody waits for to pass.
_HOPELESS: Final = (
    ProblemKind.UNREACHABLE,
    ProblemKind.UNRESOLVED,
    ProblemKind.UNTRUSTED,
    ProblemKind.UNAUTHORIZED,
)
#: Without them there is no answer.
_NEEDED: Final = ("pods", "nodes")
_NO_SPEC: Final = PodSpec()


@dataclass(slots=True, eq=False)
class ReadProblems:
    """What of a cluster cannot be read, and why.

    Args:
        on_change: called when that has changed.

    Attributes:
        forbidden: resource → the right that is missing.
        others: resource → what else is wrong.
    """

    on_change: Callable[[], None]
    forbidden: dict[str, Problem] = field(default_factory=dict, init=False)
    others: dict[str, Problem] = field(default_factory=dict, init=False)

    def failed(self, source: str, problem: Problem) -> None:
        """See :class:`~arranger.kube.client.problems.ProblemReporter`."""
        self._forget(source)
        is_right = problem.kind is ProblemKind.FORBIDDEN
        (self.forbidden if is_right else self.others)[source] = problem
        self.on_change()

    def succeeded(self, source: str) -> None:
        """See :class:`~arranger.kube.client.problems.ProblemReporter`."""
        if self._forget(source):
            self.on_change()

    def absent(self, source: str) -> None:
        """See :class:`~arranger.kube.client.problems.ProblemReporter`."""
        self.succeeded(source)

    def _forget(self, source: str) -> bool:
        found = self.forbidden.pop(source, None), self.others.pop(source, None)
        return found != (None, None)


@dataclass(frozen=True, slots=True)
class ObjectKeeper:
    """Keeps the objects of a shadow as informers show them."""

    objects: ClusterObjects

    def on_updated(self, of: Kind, obj: Any) -> None:
        """See :class:`~arranger.daemon.informer_handlers.ObjectObserver`."""
        self.objects.put(_without_spec(obj) if of is Pod and obj.terminal else obj, of)

    def on_deleted(self, of: Kind, obj: Any) -> None:
        """See :class:`~arranger.daemon.informer_handlers.ObjectObserver`."""
        self.objects.drop(of, key_of(obj))


class LiveShadow:
    """A shadow of a cluster, as of now.

    Args:
        transport: for lists and watches.
        config: the scheduler's.
        calendar: the time, with a zone.

    Attributes:
        version: changes with every change of the cluster.
        problems: what cannot be read, and why.

    Raises:
        ConfigError: the configured plugins cannot be used.
    """

    def __init__(
        self,
        transport: Transport,
        config: Config,
        *,
        rng: random.Random | None = None,
        calendar: Callable[[], datetime] = utc_now,
    ) -> None:
        self._transport, self._config = transport, config
        self._rng, self._calendar = rng or random.Random(), calendar
        self._changed = asyncio.Event()
        self._restarts = Restarts()
        self._shadow: Shadow | None = None
        self._usage_unread = ""
        self.version = 0
        self.problems = ReadProblems(self._on_change)

    @property
    def shadow(self) -> Shadow:
        """The shadow; another one after all has been read anew, so ask each time.

        Raises:
            UnreadableError: not everything has been read yet.
        """
        if self._shadow is None:
            raise UnreadableError("the cluster has not been read yet")
        return self._shadow

    @property
    def unread(self) -> list[str]:
        """What may not or cannot be read, a line each, and what is wrong just now."""
        problems = [*self.problems.forbidden.values(), *self.problems.others.values()]
        lines = {str(each) for each in problems}
        lines |= {self._usage_unread} - {""}
        if self._shadow is not None:
            set_aside = self._shadow.engine.barrier.quarantine
            lines.update(f"{_title(each.about)}: {each.message}" for each in set_aside)
        return sorted(lines)

    async def until_changed(self, version: int) -> int:
        """Wait until the cluster is another than at that version; returns its version."""
        while self.version == version:
            await self._changed.wait()
        return self.version

    async def until_read(self) -> None:
        """Wait until all has been read that may be read.

        Raises:
            UnreadableError: nodes or pods may not be, or there is no way to the server.
        """
        while self._shadow is None:
            for name in _NEEDED:
                if (missing := self.problems.forbidden.get(name)) is not None:
                    raise UnreadableError(str(missing))
            for problem in self.problems.others.values():
                if problem.kind in _HOPELESS:
                    raise UnreadableError(str(problem))
            await self._changed.wait()

    async def run(self) -> None:
        """Follow the cluster until cancelled."""
        left_out: dict[Any, Any] = {}
        while True:
            try:
                async with asyncio.timeout(_FRESH_SECONDS):
                    await self._follow(left_out)
            except TimeoutError:
                pass
            except Exception as error:
                shadow = self._shadow
                suspects = shadow.engine.barrier.suspects if shadow is not None else {}
                if not self._restarts.may_restart(suspects, loop_time()):
                    raise
                left_out = self._restarts.left_out
                log.exception("shadow.restarted", place=place_of(error))

    # --- inside ----------------------------------------------------------------------------

    async def _follow(self, left_out: dict[Any, Any]) -> None:
        """Read all there is, and what happens then."""
        objects = ClusterObjects(owner_kinds(self._config))
        shadow = Shadow.unsynced(
            self._config,
            objects,
            calendar=self._calendar,
            clock=loop_time,
            quarantine=Quarantine(),
            left_out=left_out,
        )

        def on_change() -> None:
            self._on_change()
            if self.version % _NOTES == 0 and self._shadow is shadow:
                shadow.take_in()

        informers = Informers(
            shadow.engine,
            loop_time,
            on_change,
            self._config.queues.owner_resources,
            ObjectKeeper(objects),
        )
        reflectors = informers.reflectors(
            self._transport, rng=self._rng, metrics=NULL_METRICS, problems=self.problems
        )
        async with asyncio.TaskGroup() as group:
            for each in reflectors:
                group.create_task(each.run())
            while not self._is_read(informers):
                await self._changed.wait()
            shadow.take_in()
            shadow.count()
            await self._read_usage(shadow)
            self._shadow = shadow
            self._on_change()
            while True:
                await asyncio.sleep(_USAGE_SECONDS)
                await self._read_usage(shadow)

    async def _read_usage(self, shadow: Shadow) -> None:
        found, self._usage_unread = await recorded_usage(self._transport, self._config)
        if found is not None or self._usage_unread:
            shadow.follow_usage(found)

    def _is_read(self, informers: Informers) -> bool:
        """Whether all has been read that may be."""
        unread = set(informers.unread)
        return unread <= self.problems.forbidden.keys() and unread.isdisjoint(_NEEDED)

    def _on_change(self) -> None:
        self.version += 1
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


def _title(about: ObjectReference) -> str:
    space = f"{about.namespace}/" if about.namespace else ""
    return f"{about.kind} {space}{about.name}"


def _without_spec(pod: Pod) -> Pod:
    """What is kept of a pod that has ended."""
    meta = pod.metadata
    metadata = ObjectMeta(
        name=meta.name,
        namespace=meta.namespace,
        uid=meta.uid,
        creation_timestamp=meta.creation_timestamp,
        owner_references=meta.owner_references,
    )
    return Pod(metadata, _NO_SPEC, PodStatus(phase=pod.status.phase))
