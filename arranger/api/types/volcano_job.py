"""Volcano's Job and its pods, with the fields that the Job controller reads."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, Literal

import msgspec

from arranger.api.annotations import TASK_INDEX, TASK_SPEC
from arranger.api.parsing.scalars import parse_int_or
from arranger.api.types.core import NamespacedObject, Struct, Time
from arranger.api.types.job_limits import (
    MAX_ARGUMENTS,
    MAX_EVENTS,
    MAX_PARTS,
    MAX_PLUGINS,
    MAX_POLICIES,
    MAX_VOLUMES,
    check_number,
    check_pods,
)
from arranger.api.types.job_pods import ContainerStateTerminated, ControlledPod

JOB_GROUP: Final = "batch.volcano.sh"
JOB_VERSION: Final = "v1alpha1"
JOB_API: Final = f"{JOB_GROUP}/{JOB_VERSION}"


class JobPhase(StrEnum):
    """``status.state.phase``."""

    PENDING = "Pending"
    RUNNING = "Running"
    RESTARTING = "Restarting"
    COMPLETING = "Completing"
    COMPLETED = "Completed"
    ABORTING = "Aborting"
    ABORTED = "Aborted"
    TERMINATING = "Terminating"
    TERMINATED = "Terminated"
    FAILED = "Failed"


class JobAction(StrEnum):
    """``policies[].action``."""

    ABORT_JOB = "AbortJob"
    RESTART_JOB = "RestartJob"
    RESTART_TASK = "RestartTask"
    RESTART_POD = "RestartPod"
    RESTART_PARTITION = "RestartPartition"
    TERMINATE_JOB = "TerminateJob"
    COMPLETE_JOB = "CompleteJob"
    RESUME_JOB = "ResumeJob"
    SYNC_JOB = "SyncJob"


class LifecycleEvent(StrEnum):
    """``policies[].event``."""

    ANY = "*"
    POD_FAILED = "PodFailed"
    POD_EVICTED = "PodEvicted"
    POD_PENDING = "PodPending"
    POD_RUNNING = "PodRunning"
    UNKNOWN = "Unknown"
    #: Volcano takes it in policies and does nothing at it.
    JOB_UPDATED = "JobUpdated"
    TASK_COMPLETED = "TaskCompleted"
    TASK_FAILED = "TaskFailed"


class LifecyclePolicy(Struct):
    """An action and the events that cause it.

    ``timeout`` is a Go duration for which the cause must last.
    """

    action: JobAction
    event: LifecycleEvent | None = None
    events: list[LifecycleEvent] = msgspec.field(default_factory=list)
    exit_code: int | None = None
    timeout: str = ""

    def __post_init__(self) -> None:
        """Check its size.

        Raises:
            ValueError: it has more events than a policy may have.
        """
        check_number("events of a policy", len(self.events), MAX_EVENTS)

    @property
    def lifecycle_events(self) -> frozenset[LifecycleEvent]:
        """``event`` and ``events``."""
        return frozenset(self.events if self.event is None else [*self.events, self.event])


class TaskDependsOn(Struct):
    """``tasks[].dependsOn``: upstream reads a missing ``iteration`` as all."""

    name: list[str] = msgspec.field(default_factory=list)
    iteration: Literal["any", "all"] = "all"


class Task(Struct):
    """One kind of pods; ``template`` is a PodTemplateSpec as it was written."""

    template: dict[str, Any]
    name: str = ""
    replicas: int = 1
    min_available: int | None = None
    policies: list[LifecyclePolicy] = msgspec.field(default_factory=list)
    max_retry: int = 3
    depends_on: TaskDependsOn | None = None

    def __post_init__(self) -> None:
        """Check its size.

        Raises:
            ValueError: it is larger than a task may be.
        """
        check_number("policies of a task", len(self.policies), MAX_POLICIES)
        if self.depends_on is not None:
            check_number("tasks in dependsOn", len(self.depends_on.name), MAX_PARTS)

    @property
    def minimum(self) -> int:
        """Pods of it that must run together."""
        return self.replicas if self.min_available is None else self.min_available


class JobVolume(Struct):
    """A claim that every container mounts; a scratch folder where neither claim is given."""

    mount_path: str
    volume_claim_name: str = ""
    volume_claim: dict[str, Any] | None = None


class JobSpec(Struct):
    """``spec`` of a Job. A task without a name is called ``default`` and its index."""

    tasks: list[Task]
    scheduler_name: str = ""
    min_available: int | None = None
    min_success: int | None = None
    policies: list[LifecyclePolicy] = msgspec.field(default_factory=list)
    plugins: dict[str, list[str]] = msgspec.field(default_factory=dict)
    volumes: list[JobVolume] = msgspec.field(default_factory=list)
    queue: str = "default"
    max_retry: int = 3
    ttl_seconds_after_finished: int | None = None
    priority_class_name: str = ""

    def __post_init__(self) -> None:
        """Name the tasks that have no name.

        Raises:
            ValueError: it is larger than a job may be.
        """
        check_number("tasks", len(self.tasks), MAX_PARTS)
        check_pods(task.replicas for task in self.tasks)
        check_number("policies", len(self.policies), MAX_POLICIES)
        check_number("plugins", len(self.plugins), MAX_PLUGINS)
        for arguments in self.plugins.values():
            check_number("arguments of a plugin", len(arguments), MAX_ARGUMENTS)
        check_number("volumes", len(self.volumes), MAX_VOLUMES)
        for index, task in enumerate(self.tasks):
            task.name = task.name or f"default{index}"

    @property
    def replicas(self) -> int:
        """Pods in all."""
        return sum(task.replicas for task in self.tasks)

    @property
    def minimum(self) -> int:
        """Pods that must run together; 0 counts as unset, as upstream."""
        return self.min_available or sum(task.minimum for task in self.tasks)

    def task(self, name: str) -> Task | None:
        """The task of a name."""
        return next((task for task in self.tasks if task.name == name), None)


class JobState(Struct):
    """``status.state``."""

    phase: JobPhase | None = None
    reason: str = ""
    message: str = ""
    last_transition_time: Time | None = None


class JobStatus(Struct):
    """What the controller reads back of ``status``; the counts it only writes."""

    state: JobState = msgspec.field(default_factory=JobState)
    version: int = 0
    retry_count: int = 0
    controlled_resources: dict[str, str] = msgspec.field(default_factory=dict)
    conditions: list[dict[str, Any]] = msgspec.field(default_factory=list)


class VolcanoJob(NamespacedObject):
    """A Job of ``batch.volcano.sh``.

    Attributes:
        packed: its spec as JSON, in place of most of ``spec``, where it is kept so.
    """

    spec: JobSpec
    status: JobStatus = msgspec.field(default_factory=JobStatus)
    packed: bytes = b""


# --- its pods ------------------------------------------------------------------------------------


class JobPod(ControlledPod):
    """A pod of a job."""

    @property
    def deleting(self) -> bool:
        """Whether it is being deleted."""
        return self.metadata.deletion_timestamp is not None

    @property
    def has_node(self) -> bool:
        """Whether it was bound, or has even run."""
        scheduled = self.status.has_true_condition("PodScheduled")
        return scheduled or self.status.phase not in ("", "Pending")

    @property
    def unschedulable(self) -> bool:
        """Whether the scheduler has said of it why it has no node."""
        told = (c for c in self.status.conditions if c.type == "PodScheduled")
        return any(c.status == "False" and c.reason != "SchedulingGated" for c in told)

    @property
    def disrupted(self) -> bool:
        """Whether it was evicted, is marked for that (``DisruptionTarget``), or was refused."""
        # "Evicted" is what a kubelet under pressure writes.
        status = self.status
        evicted = status.has_true_condition("DisruptionTarget") or status.reason == "Evicted"
        return evicted or self.refused

    @property
    def ready(self) -> bool:
        """Whether it runs with all its containers ready, or has succeeded."""
        if self.status.phase == "Succeeded":
            return True
        everything = all(status.ready for status in self.status.container_statuses)
        return self.status.phase == "Running" and not self.deleting and everything

    @property
    def exit_codes(self) -> frozenset[int]:
        """Of the containers that have ended."""
        return frozenset(t.exit_code for t in self._ends())

    @property
    def ended_at(self) -> datetime | None:
        """When its last container ended, where the kubelet has said so."""
        return max((t.finished_at for t in self._ends() if t.finished_at), default=None)

    @property
    def was_stopped(self) -> bool:
        """Whether it has ended well only because it was told to end: it is evicted, and not done.

        One that ended before it was to go has succeeded. Who ended in the second in which it was
        told counts as told: few programs need a second, and times have no parts of one.
        """
        began, ended = self.deletion_began, self.ended_at
        if began is None or self.status.phase != "Succeeded":
            return False
        return self.disrupted or (ended is not None and ended >= began)

    @property
    def restart_count(self) -> int:
        """How often its containers were started again."""
        return sum(s.restart_count for s in self.status.all_container_statuses)

    def _ends(self) -> list[ContainerStateTerminated]:
        ends = (status.state.terminated for status in self.status.all_container_statuses)
        return [end for end in ends if end is not None]


def task_index(labels: Mapping[str, str], annotations: Mapping[str, str]) -> tuple[str, int] | None:
    """(task, index) of a pod by its labels or annotations; None where they do not say."""
    task = annotations.get(TASK_SPEC) or labels.get(TASK_SPEC)
    index = annotations.get(TASK_INDEX) or labels.get(TASK_INDEX) or ""
    number = parse_int_or(index, -1)
    return (task, number) if task and number >= 0 else None
