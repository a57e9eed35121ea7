"""A job and all that belongs to it, as it was seen at one moment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

from arranger.api.annotations import JOB_VERSION_KEY
from arranger.api.types.volcano_job import JobPod, JobSpec, Task, VolcanoJob
from arranger.controllers.vcjob.controlled_resources import ControlledResources, TaskIndex


@dataclass(frozen=True, slots=True)
class ObservedPodGroup:
    """A PodGroup of the job."""

    name: str
    uid: str
    resource_version: str = ""
    spec: Mapping[str, Any] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    phase: str = ""
    #: Why its members wait, where anybody has said so.
    message: str = ""


@dataclass(frozen=True)
class JobSnapshot:
    """See the module.

    Attributes:
        pods: those it owns; a place holds one pod at a time, because it names it.
        confirmed_empty: places that are known to be empty, and not only not seen yet.
        created: object → digest, of what has been made since the status was written.
        refusal: what the server had against the last thing to be made; "" where it made all there
            was to make, None where nothing was tried yet.
        written: ``status`` as it is.
        now: the calendar clock.
    """

    job: VolcanoJob
    pods: Mapping[TaskIndex, JobPod] = field(default_factory=dict)
    confirmed_empty: frozenset[TaskIndex] = frozenset()
    pod_groups: Mapping[str, ObservedPodGroup] = field(default_factory=dict)
    created: Mapping[str, str] = field(default_factory=dict)
    refusal: str | None = None
    written: Mapping[str, Any] = field(default_factory=dict)
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
    def replicas(self) -> dict[str, int]:
        """Task → pods wanted."""
        return {task.name: task.replicas for task in self.spec.tasks}

    @property
    def pod_group(self) -> ObservedPodGroup | None:
        """The PodGroup of the pods of now."""
        return self.pod_groups.get(
            pod_group_name(self.job.metadata.name, self.controlled_resources)
        )

    # --- its pods --------------------------------------------------------------------------

    def indices(self) -> Iterable[TaskIndex]:
        """Where a pod is wanted, in the order of the tasks."""
        return ((task.name, i) for task in self.spec.tasks for i in range(task.replicas))

    def has_index(self, index: TaskIndex) -> bool:
        """Whether the job has such a place."""
        return index[1] < self.replicas.get(index[0], 0)

    @cached_property
    def current(self) -> dict[TaskIndex, JobPod]:
        """The pods that count: wanted, and not of before a restart."""
        return {
            place: self.pods[place]
            for place in self.indices()
            if place in self.pods and not self._outdated(place, self.pods[place])
        }

    @cached_property
    def outdated(self) -> dict[TaskIndex, JobPod]:
        """Pods of before a restart, which have to go before new ones can come."""
        return {p: pod for p, pod in self.pods.items() if self._outdated(p, pod)}

    @cached_property
    def surplus(self) -> dict[TaskIndex, JobPod]:
        """Pods that the job has no place for any more."""
        return {place: pod for place, pod in self.pods.items() if not self.has_index(place)}

    @cached_property
    def active(self) -> dict[TaskIndex, JobPod]:
        """Pods that have not ended."""
        return {place: pod for place, pod in self.pods.items() if not pod.terminal}

    def missing(self) -> list[TaskIndex]:
        """Pods that have existed and are not to be seen, unless they had succeeded."""
        memory = self.controlled_resources
        return [
            place
            for place in self.indices()
            if memory.has_seen(place) and not memory.has_succeeded(place) and place not in self.pods
        ]

    def lost(self) -> list[TaskIndex]:
        """Those that are gone for certain: somebody has removed them, and it was not us."""
        return [place for place in self.missing() if place in self.confirmed_empty]

    def phase_of(self, index: TaskIndex) -> str:
        """The phase of a place: its pod's; Succeeded stays when the pod has been tidied up."""
        pod = self.pods.get(index)
        if pod is None:
            return "Succeeded" if self.controlled_resources.has_succeeded(index) else ""
        if pod.deleting and not pod.terminal:
            return "Terminating"
        return pod.status.phase or "Pending"

    @cached_property
    def phase_counts(self) -> dict[str, Counter[str]]:
        """Task → fate → how many; of what is no longer wanted too, while it is there."""
        counts: dict[str, Counter[str]] = {task.name: Counter() for task in self.spec.tasks}
        for place in {*self.indices(), *self.pods}:
            if fate := self.phase_of(place):
                counts.setdefault(place[0], Counter())[fate] += 1
        return counts

    def count(self, *phases: str) -> int:
        """Current pods of these fates."""
        counted = (place for place in self.indices() if self._is_counted(place))
        return sum(self.phase_of(place) in phases for place in counted)

    def task_count(self, task: Task, *phases: str) -> int:
        """The same within a task."""
        places = ((task.name, index) for index in range(task.replicas))
        return sum(self.phase_of(place) in phases for place in places if self._is_counted(place))

    def dependencies_met(self, task: Task) -> bool:
        """Whether the tasks that it depends on are under way (upstream's ``dependsOn``)."""
        if task.depends_on is None or not task.depends_on.name:
            return True
        tasks = (self.spec.task(name) for name in task.depends_on.name)
        met = [other is not None and self._has_min_ready(other) for other in tasks]
        return any(met) if task.depends_on.iteration == "any" else all(met)

    def _has_min_ready(self, task: Task) -> bool:
        places = [(task.name, index) for index in range(task.replicas)]
        ready = sum(
            (place in self.current and self.current[place].ready)
            or self.controlled_resources.has_succeeded(place)
            for place in places
        )
        return ready >= task.minimum

    def _is_counted(self, place: TaskIndex) -> bool:
        return place in self.current or self.controlled_resources.has_succeeded(place)

    def _outdated(self, place: TaskIndex, pod: JobPod) -> bool:
        return pod_version(pod) < self.controlled_resources.version_of(place)


def pod_version(pod: JobPod) -> int:
    """The version of the job that a pod was made for."""
    text = pod.metadata.annotations.get(JOB_VERSION_KEY, "")
    return int(text) if text.isdecimal() else 0


def pod_group_name(job: str, memory: ControlledResources) -> str:
    """The PodGroup of a job: another one after each restart of the whole.

    So nothing that was found about the old pods, such as that their gang was once complete, can be
    taken for a finding about the new ones.
    """
    return f"{job}-{memory.since}"
