"""Writes what the plans for TYJobs ask for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

import structlog

from arranger.api.effects import ObjectReference
from arranger.api.parsing.objects import decode_object
from arranger.api.types.tyjob import API_VERSION, TYJob
from arranger.controllers.runtime.events import EventBroadcaster
from arranger.controllers.runtime.objects import Object, UnstructuredObject
from arranger.controllers.runtime.work_queue import Result
from arranger.controllers.runtime.worker_thread import RunAside, size_of
from arranger.controllers.runtime.writer import (
    MAX_CREATED,
    StatusError,
    Writer,
    in_batches,
    slow_start,
)
from arranger.controllers.tyjob.cache import OwnedObject, TYJobCache, decode_owned, is_owned_by
from arranger.controllers.tyjob.state_machine import TYJobPolicy, plan
from arranger.controllers.tyjob.status import EventNote
from arranger.controllers.tyjob.writes import Create, DeleteReplicaPod, Patch, Write

log = structlog.get_logger(__name__)


class _StaleError(Exception):
    """The server has something else than was known; now it is known."""


class _RefusedError(Exception):
    """The server does not want what we write, and the job's owner should know why."""


@dataclass(frozen=True, slots=True)
class TYJobReconciler:
    """Makes what belongs to TYJobs what their plans say.

    Attributes:
        record: told of every object that an answer of the server has shown, and of its resource.
        policy: what holds for every job.
        now: the calendar clock.
    """

    writer: Writer
    cache: TYJobCache
    events: EventBroadcaster
    record: Callable[[str, OwnedObject], None]
    policy: TYJobPolicy
    now: Callable[[], datetime]
    run_aside: RunAside

    async def reconcile(self, key: str) -> Result | float:
        """Look at one job, and write what follows."""
        with self.cache.tombstones.kept(key):
            return await self._reconcile(key)

    async def _reconcile(self, key: str) -> Result | float:
        job = self.cache.job(key)
        if job is None:
            return Result.DONE
        try:
            return await self._execute(job)
        except _StaleError:
            return Result.REQUEUE
        except _RefusedError as error:
            if self.cache.set_refusal(job, str(error)):
                log.warning("tyjob.refused", job=key, message=str(error))
            return Result.BACKOFF

    async def _execute(self, job: TYJob) -> Result | float:
        observed = self.cache.observed_state(job)
        size = size_of(max(job.size, len(observed.pods)), job.weight)
        work = partial(plan, job, observed, self.now(), self.policy)
        planned = await self.run_aside(work, size=size)
        if planned.status:
            await self._write_status(job, planned.status)
            for note in planned.events:
                self._record_event(job, note)
        created = await self._write_all(job, planned.writes)
        if planned.status or created:
            return Result.REQUEUE  # what is known now may ask for more
        return Result.DONE if planned.requeue_after is None else planned.requeue_after

    async def _write_status(self, job: TYJob, status: Object) -> None:
        # Only if nobody else has written since: their decision may be another one.
        try:
            body = await self.writer.patch(
                f"{_job_path(job)}/status",
                {"status": status},
                resource_version=job.metadata.resource_version,
            )
        except StatusError as error:
            if not (error.not_found or error.conflict):
                raise
            await self._refresh(job)
            raise _StaleError from None
        written = decode_object(body, UnstructuredObject)
        self.cache.on_job_updated(written, asked_at=job.metadata.resource_version)

    async def _refresh(self, job: TYJob) -> None:
        """Take in the job as it is now.

        Raises:
            _StaleError: it is gone, or is not as it was known.
        """
        try:
            found = decode_object(await self.writer.get(_job_path(job)), UnstructuredObject)
        except StatusError as error:
            if not error.not_found:
                raise
            self.cache.on_job_deleted(job.key, job.metadata.uid)
            raise _StaleError from None
        self.cache.on_job_updated(found, asked_at=job.metadata.resource_version)
        if found.metadata.resource_version != job.metadata.resource_version:
            raise _StaleError

    async def _write_all(self, job: TYJob, writes: Sequence[Write]) -> bool:
        """Whether anything has been created."""
        pods: list[Create] = []
        going = [write for write in writes if isinstance(write, DeleteReplicaPod)]
        await in_batches(partial(self._delete, job), going)
        for write in writes:
            match write:
                case Patch():
                    await self._patch(job, write)
                case Create("pods"):
                    pods.append(write)
                case Create():
                    await self._create(job, write)
        if pods:
            await self._create_pods(job, pods)
        cleared = self.cache.set_refusal(job, "")
        return cleared or any(isinstance(write, Create) for write in writes)

    async def _patch(self, job: TYJob, write: Patch) -> None:
        """Change an object of the job.

        Raises:
            _RefusedError: the server does not want that.
        """
        try:
            path = f"{_collection(job, write.plural)}/{write.name}"
            body = await self.writer.patch(path, write.change)
        except StatusError as error:
            if error.not_found or error.conflict:
                return  # the watch will tell
            if error.invalid or error.code == 403:
                raise _RefusedError(f"{write.plural} {write.name}: {error.message}") from error
            raise
        self._observe(job, write.plural, decode_owned(write.plural, body))

    async def _create_pods(self, job: TYJob, pods: list[Create]) -> None:
        # A job that was deleted or has ended meanwhile must not start again. Somebody else may
        # have made it so, and news of jobs and of pods come in any order.
        await self._refresh(self.cache.job(job.key) or job)

        async def create(each: Create) -> bool:
            await self._create(job, each)
            return True

        await slow_start(create, pods[:MAX_CREATED])

    async def _create(self, job: TYJob, write: Create) -> None:
        """Create an object, or find that it is there already.

        Raises:
            _RefusedError: the server does not want it, or it is there and somebody else's.
            _StaleError: it was there when we created it, and is gone.
        """
        manifest = write.manifest
        name = manifest["metadata"]["name"]
        try:
            body = await self.writer.create_or_get(_collection(job, write.plural), manifest)
        except StatusError as error:
            if error.conflict:
                raise _StaleError from None
            if error.invalid or error.code == 403:
                raise _RefusedError(f"{write.plural} {name}: {error.message}") from error
            raise
        owned = decode_owned(write.plural, body)
        if not is_owned_by(owned, job):
            raise _RefusedError(f"{write.plural} {name}: exists and is not of this job")
        self._observe(job, write.plural, owned)

    def _observe(self, job: TYJob, plural: str, owned: OwnedObject) -> None:
        if not self.cache.tombstones.has(job.key, owned.metadata.uid):
            self.record(plural, owned)
            self.cache.on_owned_updated(plural, owned)

    async def _delete(self, job: TYJob, write: DeleteReplicaPod) -> None:
        options = {"gracePeriodSeconds": 0} if write.force else {}
        path = f"{_collection(job, 'pods')}/{write.name}"
        await self.writer.delete(path, uid=write.uid, resource_version=write.version, **options)

    def _record_event(self, job: TYJob, note: EventNote) -> None:
        log.info("tyjob.event", job=job.key, reason=note.reason, note=note.message)
        meta = job.metadata
        self.events.record(
            ObjectReference(API_VERSION, "TYJob", meta.namespace, meta.name, meta.uid),
            note.reason,
            note.message,
            warning=note.warning,
            related=ObjectReference("v1", "Pod", meta.namespace, note.pod) if note.pod else None,
        )


def _job_path(job: TYJob) -> str:
    metadata = job.metadata
    return f"/apis/{API_VERSION}/namespaces/{metadata.namespace}/tyjobs/{metadata.name}"


def _collection(job: TYJob, plural: str) -> str:
    return f"/api/v1/namespaces/{job.metadata.namespace}/{plural}"
