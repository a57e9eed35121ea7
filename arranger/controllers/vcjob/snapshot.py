"""A job and all that belongs to it, as it was seen at one moment."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

import msgspec

from arranger.api.annotations import INHERITED_ANNOTATIONS, JOB_VERSION_KEY
from arranger.api.parsing.scalars import parse_int_or
from arranger.api.types.command import Command
from arranger.api.types.core import ObjectMeta
from arranger.api.types.volcano_job import JobPhase, JobPod, JobSpec, Task, VolcanoJob
from arranger.controllers.vcjob.controlled_resources import ControlledResources, TaskIndex


@dataclass(frozen=True, slots=True)
class ObservedPodGroup:
    """A PodGroup of the job."""

    metadata: ObjectMeta
    spec: Mapping[str, Any] = field(default_factory=dict)
    phase: str = ""
    #: Why its members wait; "" while unknown.
    message: str = ""
    #: Whether all of its annotations are kept.
    whole: bool = True


@dataclass(frozen=True)
class JobSnapshot:
    """See the module.

    Attributes:
        pods: those it owns; there is one for an index at a time, because the index names it.
        confirmed_empty: indices that certainly have no pod, and not only none that was seen yet.
        pod_group_is_taken: whether its PodGroup's name is that of one that it does not own.
        created: object → digest, of what has been created since the status was written.
        refusal: why the server refused to create something; "" when it refused nothing, None when
            nothing was tried yet.
        raw_status: ``status`` as the server has it.
        queue_problem: why its queue takes no work; "" if it does.
        left_out: annotations of it that are too many, or too long, to be kept and passed on.
        spec_bytes: how long its spec is as JSON.
        command: what is to be obeyed next; None for nothing.
        now: the calendar clock.
    """

    job: VolcanoJob
    pods: Mapping[TaskIndex, JobPod] = field(default_factory=dict)
    confirmed_empty: frozenset[TaskIndex] = frozenset()
    pod_groups: Mapping[str, ObservedPodGroup] = field(default_factory=dict)
    pod_group_is_taken: bool = False
    created: Mapping[str, str] = field(default_factory=dict)
    refusal: str | None = None
    raw_status: Mapping[str, Any] = field(default_factory=dict)
    queue_problem: str = ""
    left_out: int = 0
    spec_bytes: int = 0
    command: Command | None = None
    now: datetime = datetime.min

    @property
    def spec(self) -> JobSpec:
        """What its owner wants."""
        return self.job.spec

    @cached_property
    def controlled_resources(self) -> ControlledResources:
        """What its status remembers."""
        return ControlledResources.parse(self.job.status.controlled_resources)

    @cached_property
    def pod_template_digest(self) -> str:
        """Equal as long as new pods would be made like those that are there."""
        spec, notes = self.spec, self.job.metadata.annotations
        parts = (
            [(task.name, task.template) for task in spec.tasks],
            {key: notes[key] for key in INHERITED_ANNOTATIONS if key in notes},
            (spec.scheduler_name, spec.queue, spec.priority_class_name),
            (spec.plugins, spec.volumes),
        )
        return hashlib.sha256(msgspec.json.encode(parts, order="sorted")).hexdigest()[:12]

    @cached_property
    def replicas(self) -> dict[str, int]:
        """Task → pods wanted."""
        return {task.name: task.replicas for task in self.spec.tasks}

    @property
    def pod_group_name(self) -> str:
        """The name of its PodGroup: another one after each restart of the whole job.

        So nothing that was found of the old pods, such as that their gang was once complete, is
        taken for a finding of the new ones.
        """
        return f"{self.job.metadata.name}-{self.controlled_resources.restart_version}"

    @property
    def pod_group(self) -> ObservedPodGroup | None:
        """The PodGroup of the current pods."""
        return self.pod_groups.get(self.pod_group_name)

    @property
    def has_begun(self) -> bool:
        """Whether pods were made for it, ever."""
        status = self.job.status
        waits = status.state.phase in (None, JobPhase.PENDING) and not status.version
        return not waits or bool(self.pods) or bool(self.controlled_resources.seen)

    def indices(self) -> Iterable[TaskIndex]:
        """Of all pods that are wanted, in the order of the tasks."""
        return ((task.name, i) for task in self.spec.tasks for i in range(task.replicas))

    def has_index(self, index: TaskIndex) -> bool:
        """Whether the job has such a pod."""
        return index[1] < self.replicas.get(index[0], 0)

    @cached_property
    def current(self) -> dict[TaskIndex, JobPod]:
        """Pods that are wanted, and neither from before a restart nor dropped."""
        dropped = self.controlled_resources.dropped
        return {
            index: self.pods[index]
            for index in self.indices()
            if index in self.pods
            and index not in dropped
            and not self._outdated(index, self.pods[index])
        }

    @cached_property
    def outdated(self) -> dict[TaskIndex, JobPod]:
        """Pods from before a restart, which must be gone before new ones are created."""
        return {p: pod for p, pod in self.pods.items() if self._outdated(p, pod)}

    @cached_property
    def surplus(self) -> dict[TaskIndex, JobPod]:
        """Pods that the job does not have any more, or had not when they were dropped."""
        dropped = self.controlled_resources.dropped
        return {p: pod for p, pod in self.pods.items() if not self.has_index(p) or p in dropped}

    @cached_property
    def active(self) -> dict[TaskIndex, JobPod]:
        """Pods that have not ended."""
        return {index: pod for index, pod in self.pods.items() if not pod.terminal}

    def missing(self) -> list[TaskIndex]:
        """Indices whose pod has existed and is not seen now, unless it had succeeded."""
        known = self.controlled_resources
        return [
            index
            for index in self.indices()
            if index in known.seen and index not in known.succeeded and index not in self.pods
        ]

    def lost(self) -> list[TaskIndex]:
        """Those of the missing that certainly do not exist: somebody else has deleted them."""
        return [index for index in self.missing() if index in self.confirmed_empty]

    def phase_of(self, index: TaskIndex) -> str:
        """The phase of the pod of an index; Succeeded stays when the pod has been removed."""
        pod = self.pods.get(index)
        if pod is None:
            return "Succeeded" if index in self.controlled_resources.succeeded else ""
        if pod.deleting and (not pod.terminal or self.was_stopped(index)):
            return "Terminating"
        return pod.status.phase or "Pending"

    def was_stopped(self, index: TaskIndex) -> bool:
        """Whether the pod of an index ended well only because it was evicted.

        One that is known to have succeeded was done before that.
        """
        if index in self.controlled_resources.succeeded:
            return False
        return (pod := self.pods.get(index)) is not None and pod.was_stopped

    @cached_property
    def phase_counts(self) -> dict[str, Counter[str]]:
        """Task → phase → pods; pods that are no longer wanted count while they are there."""
        counts: dict[str, Counter[str]] = {task.name: Counter() for task in self.spec.tasks}
        for index in dict.fromkeys((*self.indices(), *self.pods)):
            if phase := self.phase_of(index):
                counts.setdefault(index[0], Counter())[phase] += 1
        return counts

    def count(self, *phases: str) -> int:
        """Current pods in these phases."""
        counted = (index for index in self.indices() if self._is_counted(index))
        return sum(self.phase_of(index) in phases for index in counted)

    def task_count(self, task: Task, *phases: str) -> int:
        """The same within a task."""
        indices = ((task.name, index) for index in range(task.replicas))
        return sum(self.phase_of(index) in phases for index in indices if self._is_counted(index))

    def dependencies_met(self, task: Task) -> bool:
        """Whether the tasks that it depends on are under way (upstream's ``dependsOn``)."""
        if task.depends_on is None or not task.depends_on.name:
            return True
        ready = self._ready_tasks
        met = (name in ready for name in task.depends_on.name)
        return any(met) if task.depends_on.iteration == "any" else all(met)

    @cached_property
    def _ready_tasks(self) -> frozenset[str]:
        """The tasks of which enough pods are ready, or have ended well."""
        indices = dict.fromkeys(self.controlled_resources.succeeded)
        indices |= dict.fromkeys(
            index
            for index, pod in self.current.items()
            if pod.ready and not self.was_stopped(index)
        )
        counts = Counter(index[0] for index in indices if self.has_index(index))
        tasks = self.spec.tasks
        return frozenset(task.name for task in tasks if counts[task.name] >= task.minimum)

    def _is_counted(self, index: TaskIndex) -> bool:
        return index in self.current or index in self.controlled_resources.succeeded

    def _outdated(self, index: TaskIndex, pod: JobPod) -> bool:
        return pod_version(pod) < self.controlled_resources.version_of(index)


def pod_version(pod: JobPod) -> int:
    """The version of the job that a pod was made for."""
    return parse_int_or(pod.metadata.annotations.get(JOB_VERSION_KEY, ""), 0)
