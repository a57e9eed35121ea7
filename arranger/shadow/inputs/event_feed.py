"""The scheduler's engine for a shadow, and how it is told of objects without informers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from arranger.daemon.config.profiles import build_profiles
from arranger.daemon.config.schema import Config
from arranger.daemon.informers import STORED_OWNERS
from arranger.engine.assembly.settings import EngineSettings
from arranger.engine.engine import Engine
from arranger.shadow.inputs.objects import ClusterObjects, Kind

#: More than can wait: nobody else waits for the loop, so all are asked about an event at once.
_ALL: Final = 1_000_000_000
#: Called with an object and the time.
Handler = Callable[[Any, float], None]


def build_engine(config: Config, to_unix_time: Callable[[float], float], **options: Any) -> Engine:
    """An engine that decides as the scheduler's does.

    ``options`` are fields of :class:`~arranger.engine.assembly.settings.EngineSettings`.

    Raises:
        ConfigError: the configured plugins cannot be used.
    """
    queue = config.scheduling_queue_config()
    return Engine(
        EngineSettings(
            build_profiles(config),
            # Whom no event wakes is not tried again: nothing would be different.
            queue_config=replace(
                queue, flush_after=float("inf"), questions_at_once=_ALL, asked_with_event=_ALL
            ),
            gang_policy=config.gang_policy(),
            quota_config=config.quota_config(),
            workload_kinds=config.workload_kinds(),
            to_unix_time=to_unix_time,
            keeps_gang_records=False,  # nobody goes on after it
            **options,
        )
    )


@dataclass(slots=True, eq=False)
class EventFeed:
    """Calls the event handlers of an engine, as informers do."""

    engine: Engine
    config: Config

    def start(self, objects: ClusterObjects, now: float) -> None:
        """Tell of all there is, as the informers do at a start, and have it taken in."""
        engine = self.engine
        workloads = engine.workload_handlers
        for kind in workloads.kinds:
            workloads.on_served(kind, now, served=kind.paths[0] in objects.served)
        paths = {*(kind.paths[0] for kind in workloads.kinds), *self._owner_paths}
        kinds: list[Kind] = [*sorted(paths), *engine.handlers.kinds]
        for of in kinds:
            for obj in objects.of(of):
                self.on_updated(of, obj, now)
        engine.handlers.start(now)

    def on_updated(self, kind: Kind, obj: Any, now: float) -> None:
        """An object appeared or was edited."""
        for updated, _ in self._handlers(kind):
            updated(obj, now)

    def on_deleted(self, kind: Kind, obj: Any, now: float) -> None:
        """An object is gone."""
        for _, deleted in self._handlers(kind):
            deleted(obj, now)

    def _handlers(self, kind: Kind) -> Iterator[tuple[Handler, Handler]]:
        """What is called of objects of a kind: (updated, deleted), one after the other."""
        engine = self.engine
        workloads, owners = engine.workload_handlers, engine.owner_handlers
        is_owner = kind in STORED_OWNERS or kind in self._owner_paths
        if isinstance(kind, str):
            for each in workloads.kinds:
                if kind == each.paths[0]:
                    is_owner |= not self._owner_paths.isdisjoint(each.paths)
                    yield partial(workloads.on_updated, each), partial(workloads.on_deleted, each)
        elif (watched := engine.handlers.kinds.get(kind)) is not None:
            yield partial(engine.barrier.hand_on, watched), watched.deleted
        if is_owner:
            yield owners.on_updated, owners.on_deleted

    @property
    def _owner_paths(self) -> frozenset[str]:
        return frozenset(f"/apis/{each}" for each in self.config.queues.owner_resources)
