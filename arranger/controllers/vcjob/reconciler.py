"""Writes what the plans for Jobs ask for, a pass at a time, until nothing is left to write."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

import structlog

from arranger.api import event_reasons
from arranger.api.effects import ObjectReference
from arranger.api.parsing.errors import ParseError
from arranger.api.parsing.objects import decode_object
from arranger.api.types.command import Command
from arranger.api.types.core import ObjectMeta
from arranger.api.types.pod_groups import VolcanoPodGroup
from arranger.api.types.volcano_job import JOB_API, JobPod, VolcanoJob
from arranger.controllers.runtime.commands import PendingCommands
from arranger.controllers.runtime.events import EventBroadcaster
from arranger.controllers.runtime.objects import Object, UnstructuredObject
from arranger.controllers.runtime.trimming import decode_owned_object
from arranger.controllers.runtime.work_queue import Result
from arranger.controllers.runtime.worker_thread import RunAside, size_of
from arranger.controllers.runtime.writer import (
    MAX_CREATED,
    StatusError,
    Writer,
    in_batches,
    slow_start,
)
from arranger.controllers.vcjob.cache import JobCache, is_owned_by
from arranger.controllers.vcjob.commands import is_dropped, is_settled
from arranger.controllers.vcjob.controlled_resources import TaskIndex
from arranger.controllers.vcjob.manifests import pod_of
from arranger.controllers.vcjob.owned_objects import OwnedManifest
from arranger.controllers.vcjob.plan import JobPlan, command_events, plan
from arranger.controllers.vcjob.policies import delayed_actions, pod_name
from arranger.controllers.vcjob.snapshot import JobSnapshot
from arranger.controllers.vcjob.state_machine import REFUSED, WORKING_PHASES
from arranger.kube.watch.trimming import MAX_KNOWN, MAX_OTHER, MAX_OTHERS

log = structlog.get_logger(__name__)

#: What is passed on.
_KEPT: Final = (
    f"those that we know are, up to {MAX_KNOWN} characters, and {MAX_OTHERS} others of at most "
    f"{MAX_OTHER} each"
)
#: Seconds until the next pass, when it is known already that there is more to do.
_AT_ONCE: Final = 0.0
#: Reasons of Events that somebody may want to do something about.
_WARNINGS: Final = frozenset(
    {"Aborting", "Restarting", "Failed", event_reasons.INVALID_JOB, event_reasons.INVALID_ACTION}
)


class _OwnedObject(UnstructuredObject):
    """An object that is there already; ``data`` is a ConfigMap's."""

    data: Any = None


@dataclass(frozen=True, slots=True)
class JobReconciler:
    """Makes the objects of the jobs what their plans say.

    Attributes:
        record_pod: told of every pod that an answer of the server has shown.
        commands: what jobs are to be told.
        now: the calendar clock.
        _refusals: uid of a job → the first thing that the server has refused in this pass.
    """

    writer: Writer
    cache: JobCache
    commands: PendingCommands
    events: EventBroadcaster
    record_pod: Callable[[JobPod], None]
    now: Callable[[], datetime]
    run_aside: RunAside
    _refusals: dict[str, str] = field(default_factory=dict)

    async def reconcile(self, name: str) -> Result | float:
        """One pass: what is seen of a job, and what is to be written now."""
        with self.cache.tombstones.kept(name):
            return await self._reconcile(name)

    async def _reconcile(self, name: str) -> Result | float:
        snapshot, all_well = self.cache.snapshot(name, self.now()), True
        if (command := self.commands.next(name)) is not None:
            if is_settled(command, snapshot):
                result = await self._delete_command(command, snapshot)
                if result is not Result.BACKOFF:
                    return result
                # Who may not delete Commands cares for the job all the same.
                command, all_well = None, False
            elif snapshot is None:
                return await self._find_target(command, name)
        if snapshot is None:
            return Result.DONE
        if doubtful := [
            index for index in snapshot.missing() if index not in snapshot.confirmed_empty
        ]:
            all_well &= await self._confirm(snapshot, doubtful)
            snapshot = self.cache.snapshot(name, self.now())
            if snapshot is None:
                return Result.DONE
        result = await self._carry_out(snapshot, command)
        return result if all_well or result == _AT_ONCE else Result.BACKOFF

    async def _carry_out(self, snapshot: JobSnapshot, command: Command | None) -> Result | float:
        """Plan, and write the first of what is planned."""
        commanded = replace(snapshot, command=command)
        size = size_of(max(snapshot.spec.replicas, len(snapshot.pods)), snapshot.spec_bytes)
        planned, notes = await self.run_aside(
            lambda: (plan(commanded), _notes(commanded)), size=size
        )
        self._announce(snapshot, notes)
        if planned.is_empty:
            return self._all_created(snapshot, _wait(snapshot, planned))
        if planned.status:
            return await self._write_status(snapshot, planned)
        return await self._execute(snapshot, planned)

    def _announce(self, snapshot: JobSnapshot, notes: frozenset[str]) -> None:
        """Tell once what policies do when their timeouts are over, and what is not passed on."""
        lost, job = _left_out(snapshot), _ref(snapshot.job)
        for note in sorted(self.cache.announce(snapshot.job, notes | lost)):
            is_lost = note in lost
            reason = event_reasons.INVALID_ANNOTATION if is_lost else event_reasons.EXECUTE_ACTION
            self.events.record(job, reason, note, warning=is_lost)

    async def _delete_command(
        self, command: Command, snapshot: JobSnapshot | None
    ) -> Result | float:
        """Delete a Command that asks for nothing more."""
        if not await self.commands.delete(command, self.writer):
            return Result.BACKOFF
        if snapshot is not None and is_dropped(command, snapshot):
            for reason, note in command_events(command):
                self.events.record(_ref(snapshot.job), reason, note, warning=reason in _WARNINGS)
        return _AT_ONCE

    async def _find_target(self, command: Command, name: str) -> Result | float:
        """Look for a job that a Command names and no watch has shown."""
        namespace, _, job = name.partition("/")
        try:
            path = f"/apis/{JOB_API}/namespaces/{namespace}/jobs/{job}"
            found = decode_object(await self.writer.get(path), UnstructuredObject)
        except StatusError as error:
            if not error.not_found:
                return Result.BACKOFF
            log.info("job.command_without_target", command=command.path, job=name)
            return await self._delete_command(command, None)
        # Another scheduler's job is not in the cache even then; its controller obeys the Command.
        with suppress(ParseError):  # who watches jobs tells of it
            self.cache.on_job_updated(found)
        return _AT_ONCE if self.cache.snapshot(name, self.now()) is not None else Result.DONE

    async def _execute(self, snapshot: JobSnapshot, planned: JobPlan) -> Result | float:
        """Everything but the status; what fails does not keep the rest from being tried."""
        job, went_well = snapshot.job, True
        uid = job.metadata.uid
        self._refusals.pop(uid, None)
        going: list[tuple[str, ObjectMeta]] = []
        going += [(_pods_path(job), pod.metadata) for pod in planned.delete_pods]
        going += [(_pod_groups_path(job), group.metadata) for group in planned.delete_pod_groups]
        went_well &= all(await in_batches(self._delete_owned, going))
        for manifest in planned.create_objects:
            went_well &= await self._create_object(snapshot, manifest)
        went_well &= await slow_start(
            lambda index: self._create_pod(snapshot, index), planned.create_pods[:MAX_CREATED]
        )
        if planned.pod_group is not None:
            went_well &= await self._write_pod_group(snapshot, planned.pod_group)
        if planned.delete_job:
            went_well &= await self._delete(_job_path(job), uid)
        if refusal := self._refusals.pop(uid, ""):
            self.cache.record_refusal(job, refusal)
        if not went_well:
            return Result.BACKOFF
        # Answers have shown what was created; what was deleted the watch will show.
        known = planned.create_objects or planned.create_pods or planned.pod_group is not None
        return self._all_created(snapshot, _AT_ONCE if known else _wait(snapshot, planned))

    def _all_created(self, snapshot: JobSnapshot, result: Result | float) -> Result | float:
        """Nothing is refused any more; if the status still says so, it is to be written."""
        self.cache.record_refusal(snapshot.job, "")
        cleared = snapshot.refusal != "" and snapshot.job.status.state.reason == REFUSED
        return _AT_ONCE if cleared else result

    async def _write_status(self, snapshot: JobSnapshot, planned: JobPlan) -> Result | float:
        job, path = snapshot.job, f"{_job_path(snapshot.job)}/status"
        # Only if nobody else has written since: their decision may be another one.
        version = job.metadata.resource_version
        try:
            body = await self.writer.patch(
                path, {"status": planned.status}, resource_version=version
            )
        except StatusError as error:
            if error.not_found:
                self.cache.on_job_deleted(job.key, job.metadata.uid)
                return Result.DONE
            if error.conflict:
                await self._refresh(job)
                return _AT_ONCE
            text = _refusal_text(job, path, error)
            self.events.record(_ref(job), event_reasons.FAILED_STATUS, text, warning=True)
            return Result.BACKOFF
        self.cache.on_job_updated(decode_object(body, UnstructuredObject), asked_at=version)
        self.cache.forget_created(job)
        for reason, note in planned.events:
            self.events.record(_ref(job), reason, note, warning=reason in _WARNINGS)
            log.info("job.event", job=job.key, reason=reason, note=note)
        return _AT_ONCE

    async def _refresh(self, job: VolcanoJob) -> None:
        try:
            found = decode_object(await self.writer.get(_job_path(job)), UnstructuredObject)
            self.cache.on_job_updated(found, asked_at=job.metadata.resource_version)
        except StatusError as error:
            if error.not_found:
                self.cache.on_job_deleted(job.key, job.metadata.uid)

    async def _confirm(self, snapshot: JobSnapshot, indices: Iterable[TaskIndex]) -> bool:
        """Ask for pods that should be there: is our snapshot behind, or are they gone?

        False where an answer says neither: nobody but us is going to ask again.
        """
        clear = True
        for index in indices:
            path = f"{_pods_path(snapshot.job)}/{pod_name(snapshot.job.metadata.name, index)}"
            try:
                pod = decode_owned_object(await self.writer.get(path), JobPod)
            except StatusError as error:
                if not error.not_found:
                    clear = False
                    continue
            else:
                self._observe_pod(snapshot.job, pod)
                if is_owned_by(pod.metadata, snapshot.job):
                    continue
            self.cache.confirm_empty(snapshot.job, index)
        return clear

    async def _create_pod(self, snapshot: JobSnapshot, index: TaskIndex) -> bool:
        manifest = pod_of(snapshot, index, scheduler=self.cache.schedulers[0])
        try:
            body = await self.writer.create_or_get(_pods_path(snapshot.job), manifest)
        except StatusError as error:
            if error.not_found or error.conflict:
                return False
            return self._refuse(snapshot.job, manifest["metadata"]["name"], error)
        pod = decode_owned_object(body, JobPod)
        if not is_owned_by(pod.metadata, snapshot.job):
            return self._refuse_foreign(snapshot.job, f"pod {pod.metadata.name}")
        self._observe_pod(snapshot.job, pod)
        return True

    def _observe_pod(self, job: VolcanoJob, pod: JobPod) -> None:
        if not self.cache.tombstones.has(job.key, pod.metadata.uid):
            self.record_pod(pod)
            self.cache.on_pod_updated(pod)

    async def _write_pod_group(self, snapshot: JobSnapshot, group: Object) -> bool:
        job, observed, path = snapshot.job, snapshot.pod_group, _pod_groups_path(snapshot.job)
        try:
            if observed is None:
                body = await self.writer.create_or_get(path, group)
            else:
                meta = observed.metadata
                change = {**group, "metadata": {**group.get("metadata", {}), "uid": meta.uid}}
                path = f"{path}/{meta.name}"
                body = await self.writer.patch(path, change)
        except StatusError as error:
            if observed is not None and (error.not_found or error.conflict):
                return False  # it is gone, or was made anew: the watch will tell
            if error.not_found:
                missing = "the definition podgroups.scheduling.volcano.sh is not installed"
                return self._record_refusal(job, missing)
            return self._refuse(job, path, error)
        written = decode_object(body, UnstructuredObject)
        asked_at = observed.metadata.resource_version if observed is not None else ""
        self.cache.on_pod_group_updated(written, asked_at=asked_at)
        if not is_owned_by(written.metadata, job):
            return self._refuse_foreign(job, f"PodGroup {written.metadata.name}")
        return True

    async def _create_object(self, snapshot: JobSnapshot, manifest: OwnedManifest) -> bool:
        """Create an object, or make it what it should be if it is there and of this job.

        One that goes with an earlier job of the name is waited for: this job would lose it.
        """
        job, collection = snapshot.job, manifest.collection
        path = f"{collection}/{manifest.body['metadata']['name']}"
        try:
            try:
                await self.writer.create(collection, manifest.body)
            except StatusError as error:
                if not error.conflict:
                    raise
                there = decode_object(await self.writer.get(path), _OwnedObject)
                if there.metadata.deletion_timestamp is not None:
                    return self._record_refusal(job, f"{manifest.name} is being deleted")
                if not manifest.may_be_shared and not is_owned_by(there.metadata, job):
                    return self._refuse_foreign(job, manifest.name)
                if not manifest.immutable:
                    await self.writer.patch(path, _change(there, manifest.body))
        except StatusError as error:
            return self._refuse(job, manifest.name, error)
        self.cache.record_created(job, manifest.name, manifest.digest)
        return True

    async def _delete_owned(self, each: tuple[str, ObjectMeta]) -> bool:
        collection, meta = each
        return await self._delete(f"{collection}/{meta.name}", meta.uid)

    async def _delete(self, path: str, uid: str) -> bool:
        try:
            await self.writer.delete(path, uid=uid, propagationPolicy="Background")
        except StatusError:
            return False
        return True

    def _refuse(self, job: VolcanoJob, what: str, error: StatusError) -> bool:
        """Record that the server refuses to create something; False."""
        return self._record_refusal(job, _refusal_text(job, what, error))

    def _refuse_foreign(self, job: VolcanoJob, what: str) -> bool:
        """Record that an object of somebody else has a name that the job needs; False."""
        return self._record_refusal(job, f"{what} exists and is not of this job")

    def _record_refusal(self, job: VolcanoJob, note: str) -> bool:
        """For an Event now, and for the status in the next pass; False."""
        self._refusals.setdefault(job.metadata.uid, note)
        self.events.record(_ref(job), event_reasons.FAILED_CREATE, note, warning=True)
        return False


def _change(there: _OwnedObject, wanted: Object) -> Object:
    """The merge patch that makes an object as wanted; of a ConfigMap nothing else is left."""
    change: Object = {part: wanted[part] for part in ("data", "spec") if part in wanted}
    if "data" in change and isinstance(there.data, dict):
        change["data"] = {**dict.fromkeys(there.data), **change["data"]}
    return change


def _notes(snapshot: JobSnapshot) -> frozenset[str]:
    works = snapshot.job.status.state.phase in WORKING_PHASES
    return delayed_actions(snapshot) if works else frozenset()


def _left_out(snapshot: JobSnapshot) -> frozenset[str]:
    if not snapshot.left_out:
        return frozenset()
    return frozenset(
        {f"{snapshot.left_out} annotations are not passed on to the PodGroup: {_KEPT}"}
    )


def _wait(snapshot: JobSnapshot, planned: JobPlan) -> Result | float:
    """Nothing is to be done until something changes, or until the plan says."""
    if planned.requeue_at is None or planned.requeue_at <= snapshot.now:
        return Result.DONE
    return (planned.requeue_at - snapshot.now).total_seconds()


def _refusal_text(job: VolcanoJob, what: str, error: StatusError) -> str:
    """Logs and returns why the server refused."""
    log.warning("job.refused", job=job.key, what=what, message=error.message)
    return f"{what}: {error.message}"


def _ref(job: VolcanoJob) -> ObjectReference:
    meta = job.metadata
    return ObjectReference(JOB_API, "Job", meta.namespace, meta.name, meta.uid)


def _job_path(job: VolcanoJob) -> str:
    return f"/apis/{JOB_API}/namespaces/{job.metadata.namespace}/jobs/{job.metadata.name}"


def _pods_path(job: VolcanoJob) -> str:
    return f"/api/v1/namespaces/{job.metadata.namespace}/pods"


def _pod_groups_path(job: VolcanoJob) -> str:
    return f"/apis/{VolcanoPodGroup.api_version}/namespaces/{job.metadata.namespace}/podgroups"
