"""Carries out the plans for TYJobs, one job at a time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec
import structlog

from arranger.api.effects import ObjectReference, PublishEvent
from arranger.api.types.tyjob import API_VERSION, TYJob
from arranger.controllers.runtime.events import publish_events
from arranger.controllers.runtime.work_queue import Result, WorkQueue
from arranger.controllers.tyjob.cache import TYJobCache, decode_owned, is_owned_by
from arranger.controllers.tyjob.state_machine import (
    Create,
    DeleteReplicaPod,
    EventNote,
    PatchLeaderConfigMap,
    Write,
    plan,
)
from arranger.kube.client.status import parse_status
from arranger.kube.client.timestamps import utc_now
from arranger.kube.client.transport import Request, Response, Transport, TransportError
from arranger.kube.events import EventRecorder

log = structlog.get_logger(__name__)

Object = dict[str, Any]

_MERGE: Final = "application/merge-patch+json"
#: Pods of one job made at a time. It begins with one and doubles, as upstream's Jobs do, so that a
#: refusal that holds for all of them (a quota, a bad template) is heard once and not by thousands.
_MAX_BATCH: Final = 32


class _StaleError(Exception):
    """The server has something else than we thought; now we know."""


class _RefusedError(Exception):
    """The server does not want what we write, and its owner should know why."""


class _ServerUnavailableError(Exception):
    """The server could not take a write."""


class TYJobReconciler:
    """Makes what belongs to TYJobs what their plans say.

    Args:
        scheduler: who places pods whose template names nobody.
        quiet: seconds to wait after the first change of a job for more of them.
        now: the calendar clock.

    Attributes:
        work_queue: whose turn it is.
    """

    def __init__(
        self,
        transport: Transport,
        cache: TYJobCache,
        *,
        scheduler: str = "arranger",
        debounce: float = 0.5,
        rng: random.Random | None = None,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        rng = rng or random.Random()
        self._transport = transport
        self._cache = cache
        self._scheduler = scheduler
        self._now = now
        self._events = EventRecorder("tyjobs", rng=rng, clock=now)
        self.work_queue = WorkQueue(self._reconcile, debounce=debounce, rng=rng)

    async def _reconcile(self, key: str) -> Result | float:
        job = self._cache.job(key)
        if job is None:
            return Result.DONE
        try:
            return await self._execute(job)
        except _StaleError:
            return Result.REQUEUE
        except _RefusedError as error:
            log.warning("tyjob.refused", job=key, message=str(error))
            self._cache.set_refusal(job, str(error))
            return Result.BACKOFF
        except (_ServerUnavailableError, TransportError, msgspec.MsgspecError) as error:
            log.info("tyjob.write_failed", job=key, error=str(error))
            return Result.BACKOFF
        finally:
            await self._publish_events()

    async def _execute(self, job: TYJob) -> Result | float:
        planned = plan(job, self._cache.observed_state(job), self._now(), scheduler=self._scheduler)
        if planned.status:
            await self._write_status(job, planned.status)
            for note in planned.events:
                self._record_event(job, note)
        made = await self._write_all(job, planned.writes)
        if planned.status or made:
            return Result.REQUEUE  # what we know now may ask for more
        return Result.DONE if planned.requeue_after is None else planned.requeue_after

    async def _write_status(self, job: TYJob, status: Object) -> None:
        # Only upon what we have seen: whoever else has written it has decided something.
        meta = {"resourceVersion": job.metadata.resource_version}
        body = {"metadata": meta, "status": status}
        answer = await self._send("PATCH", f"{_job_path(job)}/status", body, _MERGE)
        if answer.status in (404, 409):
            await self._refresh(job)
            raise _StaleError
        self._cache.on_job_updated(msgspec.json.decode(_body_or_raise(answer)))

    async def _refresh(self, job: TYJob) -> None:
        """Take in the job as it is now.

        Raises:
            _StaleError: it is another one, or not as we know it.
        """
        answer = await self._send("GET", _job_path(job))
        if answer.status == 404:
            self._cache.on_job_deleted(job.key)
            raise _StaleError
        body = msgspec.json.decode(_body_or_raise(answer))
        self._cache.on_job_updated(body)
        if body["metadata"]["resourceVersion"] != job.metadata.resource_version:
            raise _StaleError

    # --- what belongs to a job -------------------------------------------------------------

    async def _write_all(self, job: TYJob, writes: Sequence[Write]) -> bool:
        """Whether anything has been made."""
        pods: list[Create] = []
        for write in writes:
            match write:
                case DeleteReplicaPod():
                    await self._delete(job, write)
                case PatchLeaderConfigMap(name, data):
                    path = f"{_collection(job, 'configmaps')}/{name}"
                    answer = await self._send("PATCH", path, {"data": data}, _MERGE)
                    if answer.status != 404:  # the watch will tell
                        self._cache.on_owned_updated(
                            "configmaps", decode_owned("configmaps", _body_or_raise(answer))
                        )
                case Create("pods"):
                    pods.append(write)
                case Create():
                    await self._create(job, write)
        if pods:
            await self._create_pods(job, pods)
        cleared = self._cache.set_refusal(job, "")
        return cleared or any(isinstance(write, Create) for write in writes)

    async def _create_pods(self, job: TYJob, pods: list[Create]) -> None:
        # A job that was deleted or has ended meanwhile must not start again. Somebody else may
        # have made it so, and news of jobs and of pods come in any order.
        await self._refresh(self._cache.job(job.key) or job)
        batch = 1
        while pods:
            now, pods = pods[:batch], pods[batch:]
            results = await asyncio.gather(
                *(self._create(job, each) for each in now), return_exceptions=True
            )
            for error in results:
                if isinstance(error, BaseException):
                    raise error
            batch = min(2 * batch, _MAX_BATCH)

    async def _create(self, job: TYJob, write: Create) -> None:
        collection, name = _collection(job, write.plural), write.manifest["metadata"]["name"]
        answer = await self._send("POST", collection, write.manifest)
        if answer.status == 409:
            # It is there: our own, whose answer was lost, or an earlier job's on its way out.
            answer = await self._send("GET", f"{collection}/{name}")
            if answer.status == 404:
                raise _StaleError
        if answer.status in (400, 403, 422):
            message = parse_status(answer.body, answer.status).message
            raise _RefusedError(f"{write.plural} {name}: {message}")
        part = decode_owned(write.plural, _body_or_raise(answer))
        if not is_owned_by(part, job):
            raise _RefusedError(f"{write.plural} {name}: exists and is not of this job")
        self._cache.on_owned_updated(write.plural, part)

    async def _delete(self, job: TYJob, write: DeleteReplicaPod) -> None:
        options: Object = {"preconditions": {"uid": write.uid}}
        if write.force:
            options["gracePeriodSeconds"] = 0
        answer = await self._send("DELETE", f"{_collection(job, 'pods')}/{write.name}", options)
        # Gone, or another one has its name: either way this one is not there any more.
        if answer.status not in (404, 409):
            _body_or_raise(answer)

    # --- talking ---------------------------------------------------------------------------

    async def _send(
        self,
        method: str,
        path: str,
        body: Object | None = None,
        content_type: str = "application/json",
    ) -> Response:
        encoded = b"" if body is None else msgspec.json.encode(body)
        return await self._transport.send(
            Request(method, path, body=encoded, content_type=content_type)
        )

    def _record_event(self, job: TYJob, note: EventNote) -> None:
        log.info("tyjob.news", job=job.key, reason=note.reason, note=note.message)
        meta = job.metadata
        event = PublishEvent(
            regarding=ObjectReference(API_VERSION, "TYJob", meta.namespace, meta.name, meta.uid),
            reason=note.reason,
            action="Reconcile",
            note=note.message,
            type="Warning" if note.warning else "Normal",
            related=ObjectReference("v1", "Pod", meta.namespace, note.pod) if note.pod else None,
            controller="arranger-controllers",
        )
        self._events.record(event, asyncio.get_running_loop().time())

    async def _publish_events(self) -> None:
        """Send the Events that wait; best effort."""
        self._events.tick(asyncio.get_running_loop().time())
        await publish_events(self._events, self._transport, log_prefix="tyjob")


def _body_or_raise(answer: Response) -> bytes:
    """The body of a success.

    Raises:
        _UnwellError: it is none.
    """
    if answer.status >= 300:
        status = parse_status(answer.body, answer.status)
        raise _ServerUnavailableError(f"{status.code} {status.message}")
    return answer.body


def _job_path(job: TYJob) -> str:
    metadata = job.metadata
    return f"/apis/{API_VERSION}/namespaces/{metadata.namespace}/tyjobs/{metadata.name}"


def _collection(job: TYJob, plural: str) -> str:
    return f"/api/v1/namespaces/{job.metadata.namespace}/{plural}"
