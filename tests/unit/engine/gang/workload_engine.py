"""An engine that reads the owners of gangs."""

from __future__ import annotations

from collections.abc import Sequence

from arranger.api.effects import PublishEvent
from arranger.daemon.config.schema import Config
from arranger.gangs.workloads.kinds import WorkloadKind
from arranger.plugins import default_profile
from tests.builders.workloads import WorkloadBuilder
from tests.unit.engine.harness import EngineHarness, of_kind

#: The shipped ones, and plain Jobs.
WITH_JOBS = Config.model_validate(
    {"gangs": {"workloads": [{"apiVersion": "batch/v1", "kind": "Job", "enabled": True}]}}
).workload_kinds()
KINDS = tuple(kind for kind in WITH_JOBS if kind.kind != "Job")


def kind_of(owner: WorkloadBuilder) -> WorkloadKind:
    return next(kind for kind in WITH_JOBS if kind.kind == owner.kind)


class WorkloadEngine(EngineHarness):
    """An engine that reads the shipped kinds."""

    def __init__(self, kinds: Sequence[WorkloadKind] = KINDS) -> None:
        super().__init__(default_profile(), workloads=kinds)

    def see(self, owner: WorkloadBuilder) -> None:
        self.engine.workload_handlers.on_updated(kind_of(owner), owner.build(), self.now)
        self.engine.check_consistent()

    def see_gone(self, owner: WorkloadBuilder) -> None:
        self.engine.workload_handlers.on_deleted(kind_of(owner), owner.build(), self.now)
        self.engine.check_consistent()

    def serves(self, kind: WorkloadKind, *, served: bool) -> None:
        self.engine.workload_handlers.on_served(kind, self.now, served=served)
        self.engine.check_consistent()

    def told(self, reason: str) -> list[str]:
        events = of_kind(PublishEvent, self.effects)
        return [event.note for event in events if event.reason == reason]
