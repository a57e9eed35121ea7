"""Pods as the controllers of jobs read them."""

from __future__ import annotations

from datetime import datetime

import msgspec

from arranger.api.timestamps import after
from arranger.api.types.core import ObjectMeta, StatusCondition, Struct, Time


class ContainerStateWaiting(Struct):
    """``state.waiting`` of a container."""

    reason: str = ""
    message: str = ""


class ContainerStateTerminated(Struct):
    """``state.terminated`` of a container."""

    exit_code: int = 0
    finished_at: Time | None = None


class ContainerState(Struct):
    """``state`` of a container."""

    waiting: ContainerStateWaiting | None = None
    terminated: ContainerStateTerminated | None = None


class JobContainerStatus(Struct):
    """``containerStatuses[]``: how a container fares."""

    ready: bool = False
    restart_count: int = 0
    state: ContainerState = msgspec.field(default_factory=ContainerState)


class JobPodStatus(Struct):
    """``status`` of a pod, as far as it matters to its job."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    pod_ip: str = msgspec.field(name="podIP", default="")
    nominated_node_name: str = ""
    conditions: list[StatusCondition] = msgspec.field(default_factory=list)
    container_statuses: list[JobContainerStatus] = msgspec.field(default_factory=list)
    init_container_statuses: list[JobContainerStatus] = msgspec.field(default_factory=list)

    @property
    def all_container_statuses(self) -> list[JobContainerStatus]:
        """Of init containers, too."""
        return [*self.init_container_statuses, *self.container_statuses]

    def has_true_condition(self, kind: str) -> bool:
        """Whether a condition of that type holds."""
        return any(c.type == kind and c.status == "True" for c in self.conditions)


class JobPodMeta(ObjectMeta):
    """``metadata`` of a pod, with how many seconds it is given to end."""

    deletion_grace_period_seconds: int | None = None


class ControlledPod(Struct):
    """A pod of a job, of whatever kind."""

    metadata: JobPodMeta
    status: JobPodStatus = msgspec.field(default_factory=JobPodStatus)

    @property
    def terminal(self) -> bool:
        """Whether it has ended, well or not."""
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def deletion_began(self) -> datetime | None:
        """When somebody asked for its deletion; ``deletionTimestamp`` is when its time is over."""
        ends = self.metadata.deletion_timestamp
        grace = self.metadata.deletion_grace_period_seconds or 0
        return None if ends is None else after(ends, -grace)
