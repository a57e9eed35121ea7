"""The scheduler's engine for a shadow, and how it hears of objects without informers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from arranger.daemon.config.profiles import build_profiles
from arranger.daemon.config.schema import Config
from arranger.daemon.informers import STORED_OWNERS
from arranger.engine.engine import Engine
from arranger.shadow.objects import ClusterObjects, Kind

#: More than can wait: nobody else waits for the loop, so all are asked about an event at once.
_ALL: Final = 1_000_000_000


def build_engine(config: Config, to_unix_time: Callable[[float], float], **options: Any) -> Engine:
    """An engine that decides as the scheduler's does; ``options``: see :class:`Engine`.

    Raises:
        ConfigError: the configured plugins cannot be used.
    """
    queue = config.scheduling_queue_config()
    return Engine(
        build_profiles(config),
        # Whom no event wakes is not tried again: nothing would be different.
        queue_config=replace(queue, flush_after=float("inf"), questions_at_once=_ALL),
        gang_policy=config.gang_policy(),
        quota_config=config.quota_config(),
        workload_kinds=config.workload_kinds(),
        to_unix_time=to_unix_time,
        **options,
    )


@dataclass(slots=True, eq=False)
class Ears:
    """Tells an engine of objects."""

    engine: Engine
    config: Config

    def hear_all(self, objects: ClusterObjects, now: float) -> None:
        """Tell of all there is, as the informers do at a start, and take it in."""
        engine = self.engine
        workloads = engine.workload_handlers
        for kind in workloads.kinds:
            workloads.on_served(kind, now, served=kind.paths[0] in objects.served)
            for workload in objects.workloads(kind):
                workloads.on_updated(kind, workload, now)
        for owner in objects.owners(self.config.queues.owner_resources):
            engine.owner_handlers.on_updated(owner, now)
        for of in engine.handlers.kinds:
            for obj in objects.of(of):
                self.hear(of, obj, now)
        engine.handlers.start(now)

    def hear(self, kind: Kind, obj: Any, now: float) -> None:
        """An object appeared or was edited."""
        engine = self.engine
        if isinstance(kind, str):
            for each in engine.workload_handlers.kinds:
                if kind == each.paths[0]:
                    engine.workload_handlers.on_updated(each, obj, now)
            if kind in self._owner_paths():
                engine.owner_handlers.on_updated(obj, now)
            return
        engine.barrier.hand_on(engine.handlers.kinds[kind], obj, now)
        if kind in STORED_OWNERS:
            engine.owner_handlers.on_updated(obj, now)

    def hear_gone(self, kind: Kind, obj: Any, now: float) -> None:
        """An object is gone."""
        engine = self.engine
        if isinstance(kind, str):
            for each in engine.workload_handlers.kinds:
                if kind == each.paths[0]:
                    engine.workload_handlers.on_deleted(each, obj, now)
            if kind in self._owner_paths():
                engine.owner_handlers.on_deleted(obj, now)
            return
        engine.handlers.kinds[kind].deleted(obj, now)
        if kind in STORED_OWNERS:
            engine.owner_handlers.on_deleted(obj, now)

    def _owner_paths(self) -> set[str]:
        return {f"/apis/{resource}" for resource in self.config.queues.owner_resources}
