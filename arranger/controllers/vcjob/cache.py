"""All Jobs of one cluster with their pods and PodGroups, in memory.

Fed with events and with the answers to our own writes; :meth:`JobCache.snapshot` gives one job with
all that belongs to it. Methods that take events return the names of the jobs to reconcile.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime

from arranger.api.effects import ObjectReference
from arranger.api.parsing.objects import convert_object
from arranger.api.types.core import ObjectMeta, StatusCondition, Struct
from arranger.api.types.pod_templates import encoded_bytes
from arranger.api.types.queue import Queue
from arranger.api.types.volcano_job import JOB_API, JOB_GROUP, JobPod, VolcanoJob, task_index
from arranger.controllers.runtime.objects import (
    Object,
    OwnerId,
    UnstructuredObject,
    controlling_owner,
    is_stale,
)
from arranger.controllers.runtime.tombstones import Tombstones
from arranger.controllers.runtime.trimming import trimmed
from arranger.controllers.vcjob.controlled_resources import TaskIndex
from arranger.controllers.vcjob.kept_jobs import kept, whole
from arranger.controllers.vcjob.manifests import LAST_APPLIED
from arranger.controllers.vcjob.queues import JobQueues
from arranger.controllers.vcjob.snapshot import JobSnapshot, ObservedPodGroup


class _PodGroupStatus(Struct):
    """What of the status of a PodGroup its job is told."""

    phase: str | None = None
    conditions: list[StatusCondition] | None = None


@dataclass(slots=True)
class _Record:
    """What is known of one job, under the name and uid that the objects it owns say."""

    name: str
    job: VolcanoJob | None = None
    raw_status: Object = field(default_factory=dict)
    pods: dict[TaskIndex, JobPod] = field(default_factory=dict)
    confirmed_empty: set[TaskIndex] = field(default_factory=set)
    pod_groups: dict[str, ObservedPodGroup] = field(default_factory=dict)
    created: dict[str, str] = field(default_factory=dict)
    refusal: str | None = None
    announced: frozenset[str] = frozenset()
    left_out: int = 0
    spec_bytes: int = 0

    @property
    def empty(self) -> bool:
        return self.job is None and not self.pods and not self.pod_groups


class JobCache:
    """See the module.

    Args:
        schedulers: whose jobs are ours, by ``spec.schedulerName``; those that name none are too.

    Attributes:
        queues: the Queues that jobs may be in.
        tombstones: what of a job was deleted since its reconcile began, which no answer brings
            back.
    """

    def __init__(self, schedulers: Iterable[str] = ("arranger",)) -> None:
        self.schedulers = tuple(schedulers)
        self.queues = JobQueues()
        self.tombstones = Tombstones()
        self._records: dict[OwnerId, _Record] = {}
        #: ``namespace/name`` → uid of the job that has the name now.
        self._uids: dict[str, str] = {}
        #: ``namespace/name`` of a PodGroup → (its uid, the job that owns it if one does).
        self._pod_group_owners: dict[str, tuple[str, OwnerId | None]] = {}

    def on_job_updated(self, obj: UnstructuredObject, *, asked_at: str = "") -> set[str]:
        """A Job was added or edited, or is the answer to a write of ours (``is_stale``).

        Raises:
            ParseError: it is none, or says what no Job can say.
        """
        own = trimmed(obj)
        job = kept(convert_object(own.body(), VolcanoJob, strict=False))
        job.metadata.labels = {}  # which nobody reads
        uid = job.metadata.uid
        if self.tombstones.has(job.key, uid, asked_at=asked_at):
            return set()
        if job.spec.scheduler_name not in ("", *self.schedulers):
            return self.on_job_deleted(job.key, uid)
        earlier = self._uids.get(job.key)
        if earlier is not None and earlier != uid:
            self.on_job_deleted(job.key, earlier)
        record = self._record(_id_of(job))
        if is_stale(job, record.job, asked_at=asked_at):
            return set()
        if record.job is not None and is_stale(job, record.job):
            record.created.clear()  # perhaps the backup does not have it
        self._uids[job.key] = uid
        record.job, record.raw_status = job, obj.status_fields
        record.left_out = _left_out(obj.metadata, own.metadata)
        record.spec_bytes = encoded_bytes(obj.spec)
        return {job.key}

    def on_queue_updated(self, queue: Queue) -> set[str]:
        """A Queue was added or edited."""
        return self._refused() if self.queues.on_updated(queue) else set()

    def on_queue_deleted(self, queue: Queue) -> set[str]:
        """A Queue was deleted."""
        return self._refused() if self.queues.on_deleted(queue) else set()

    def _refused(self) -> set[str]:
        """Jobs that may have been refused because of their queue, or an ancestor of it."""
        jobs = (record.job for record in self._records.values())
        return {job.key for job in jobs if job is not None and job.status.state.reason == "Invalid"}

    def on_job_deleted(self, name: str, uid: str) -> set[str]:
        """A Job was deleted; there may be another of its name by now."""
        self.tombstones.add(name, uid)
        if self._uids.get(name) == uid:
            del self._uids[name]
            job = OwnerId(name, uid)
            self._records[job].job = None
            self._drop_if_empty(job)
        return set()

    def on_pod_updated(self, pod: JobPod, *, asked_at: str = "") -> set[str]:
        """A pod was added or edited, or is the answer to a write of ours (``is_stale``)."""
        found = _owner_and_index(pod)
        if found is None:
            return set()
        owner, index = found
        if self.tombstones.has(owner.key, pod.metadata.uid, asked_at=asked_at):
            return set()
        record = self._record(owner)
        known = record.pods.get(index)
        if is_stale(pod, known, asked_at=asked_at):
            return set()
        record.pods[index] = pod
        record.confirmed_empty.discard(index)
        return self._affected(record)

    def on_pod_deleted(self, pod: JobPod) -> set[str]:
        """A pod was deleted."""
        found = _owner_and_index(pod)
        if found is None:
            return set()
        owner, index = found
        self.tombstones.add(owner.key, pod.metadata.uid)
        record = self._records.get(owner)
        known = record.pods.get(index) if record is not None else None
        if record is None or known is None or known.metadata.uid != pod.metadata.uid:
            return set()  # a newer pod of this index is known
        del record.pods[index]
        record.confirmed_empty.add(index)
        self._drop_if_empty(owner)
        return self._affected(record)

    def confirm_empty(self, job: VolcanoJob, index: TaskIndex) -> None:
        """The server has answered that this pod of the job does not exist."""
        if record := self._records.get(_id_of(job)):
            record.confirmed_empty.add(index)

    def on_pod_group_updated(self, obj: UnstructuredObject, *, asked_at: str = "") -> set[str]:
        """A PodGroup of ``scheduling.volcano.sh`` was added or edited (``is_stale``).

        Raises:
            ParseError: it is none.
        """
        meta = obj.metadata
        owner = _owning_job(meta)
        if owner is not None and self.tombstones.has(owner.key, meta.uid, asked_at=asked_at):
            return set()
        self._pod_group_owners[f"{meta.namespace}/{meta.name}"] = meta.uid, owner
        if owner is None:
            return set()
        status = convert_object(obj.status_fields, _PodGroupStatus, strict=False)
        waiting = [c for c in status.conditions or () if c.type == "Unschedulable"]
        message = waiting[-1].message if waiting else ""
        own = trimmed(obj).metadata
        untrimmed = not _left_out(meta, own)
        own.labels = {}
        phase, spec = status.phase or "", obj.spec_fields
        seen = ObservedPodGroup(own, spec, phase, message, whole=untrimmed)
        record = self._record(owner)
        known = record.pod_groups.get(meta.name)
        if is_stale(seen, known, asked_at=asked_at):
            return set()
        record.pod_groups[meta.name] = seen
        return self._affected(record)

    def on_pod_group_deleted(self, obj: UnstructuredObject) -> set[str]:
        """A PodGroup was deleted; a job that has waited for its name need wait no more."""
        meta = obj.metadata
        owner, name = _owning_job(meta), f"{meta.namespace}/{meta.name}"
        if self._pod_group_owners.get(name, ("",))[0] == meta.uid:
            del self._pod_group_owners[name]
        waiting = {name.rpartition("-")[0]} & self._uids.keys()
        if owner is None:
            return waiting
        self.tombstones.add(owner.key, meta.uid)
        record = self._records.get(owner)
        known = record.pod_groups.get(meta.name) if record is not None else None
        if record is None or known is None or known.metadata.uid != meta.uid:
            return waiting
        del record.pod_groups[meta.name]
        self._drop_if_empty(owner)
        return waiting | self._affected(record)

    def record_created(self, job: VolcanoJob, what: str, digest: str) -> None:
        """An object that a job needs exists, from the manifest of this digest."""
        if record := self._records.get(_id_of(job)):
            record.created[what] = digest

    def forget_created(self, job: VolcanoJob) -> None:
        """Its status says by now what has been created, and may come to say otherwise."""
        if record := self._records.get(_id_of(job)):
            record.created.clear()

    def record_refusal(self, job: VolcanoJob, refusal: str) -> None:
        """All that a job needs was created (""), or this is what the server had against it."""
        if record := self._records.get(_id_of(job)):
            record.refusal = refusal

    def announce(self, job: VolcanoJob, notes: frozenset[str]) -> frozenset[str]:
        """What is going to happen to a job; returns what was not so the last time."""
        record = self._records.get(_id_of(job))
        if record is None:
            return frozenset()
        new, record.announced = notes - record.announced, notes
        return new

    def reference(self, name: str) -> ObjectReference:
        """The job of a name, for Events."""
        namespace, _, job = name.partition("/")
        return ObjectReference(JOB_API, "Job", namespace, job, self._uids.get(name, ""))

    def snapshot(self, name: str, now: datetime) -> JobSnapshot | None:
        """One job as it is known now; None where there is none of that name."""
        uid = self._uids.get(name)
        record = self._records.get(OwnerId(name, uid)) if uid else None
        if record is None or record.job is None:
            return None
        found = JobSnapshot(
            job=whole(record.job),
            pods=dict(record.pods),
            confirmed_empty=frozenset(record.confirmed_empty),
            pod_groups=dict(record.pod_groups),
            created=dict(record.created),
            refusal=record.refusal,
            raw_status=record.raw_status,
            queue_problem=self.queues.problem(record.job.spec.queue),
            left_out=record.left_out,
            spec_bytes=record.spec_bytes,
            now=now,
        )
        taken = f"{record.job.metadata.namespace}/{found.pod_group_name}"
        owner = self._pod_group_owners.get(taken, ("", _id_of(record.job)))[1]
        return found if owner == _id_of(record.job) else replace(found, pod_group_is_taken=True)

    def _record(self, owner: OwnerId) -> _Record:
        return self._records.setdefault(owner, _Record(owner.key))

    def _affected(self, record: _Record) -> set[str]:
        return {record.name} if record.job is not None else set()

    def _drop_if_empty(self, owner: OwnerId) -> None:
        if self._records[owner].empty:
            del self._records[owner]


def is_owned_by(meta: ObjectMeta, job: VolcanoJob) -> bool:
    """Whether a job owns an object: this job, and not an earlier one of its name."""
    return _owning_job(meta) == _id_of(job)


def _id_of(job: VolcanoJob) -> OwnerId:
    return OwnerId(job.key, job.metadata.uid)


def _left_out(meta: ObjectMeta, kept: ObjectMeta) -> int:
    """How many annotations are not kept as they are; what kubectl applied last is not missed."""
    texts = meta.annotations.items()
    return sum(kept.annotations.get(key) != text for key, text in texts if key != LAST_APPLIED)


def _owner_and_index(pod: JobPod) -> tuple[OwnerId, TaskIndex] | None:
    """The job that owns a pod, and the pod's index; None for others' pods."""
    meta = pod.metadata
    owner = _owning_job(meta)
    index = task_index(meta.labels, meta.annotations)
    return None if owner is None or index is None else (owner, index)


def _owning_job(meta: ObjectMeta) -> OwnerId | None:
    return controlling_owner(meta, JOB_GROUP, "Job")
