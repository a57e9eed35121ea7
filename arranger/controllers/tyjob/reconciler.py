"""Carries out the plans for TYJobs, one job at a time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec
import structlog

from arranger.api.effects import ObjectRef, PublishEvent
from arranger.api.types.tyjob import API_VERSION, TYJob
from arranger.controllers.runtime.events import publish
from arranger.controllers.runtime.work_queue import Turn, Turns
from arranger.controllers.tyjob.cache import TYJobStore, is_part_of, read_part
from arranger.controllers.tyjob.state_machine import (
    Create,
    DeletePod,
    Note,
    TellAddress,
    Write,
    plan,
)
from arranger.kube.client.status import parse_status
from arranger.kube.client.timestamps import utc_now
from arranger.kube.client.transport import Response, Transport, TransportError
from arranger.kube.events import EventRecorder

log = structlog.get_logger(__name__)

Object = dict[str, Any]

_MERGE: Final = "application/merge-patch+json"
#: Pods of one job made at a time. It begins with one and doubles, as upstream's Jobs do, so that a
#: refusal that holds for all of them (a quota, a bad template) is heard once and not by thousands.
_AT_ONCE: Final = 32


class _StaleError(Exception):
    """The server has something else than we thought; now we know."""


class _RefusedError(Exception):
    """The server does not want what we write, and its owner should know why."""


class _UnwellError(Exception):
    """The server could not take a write."""


class TYJobWriter:
    """Makes what belongs to TYJobs what their plans say.

    Args:
        scheduler: who places pods whose template names nobody.
        quiet: seconds to wait after the first change of a job for more of them.
        now: the calendar clock.

    Attributes:
        turns: whose turn it is.
    """

    def __init__(
        self,
        transport: Transport,
        store: TYJobStore,
        *,
        scheduler: str = "arranger",
        quiet: float = 0.5,
        rng: random.Random | None = None,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        rng = rng or random.Random()
        self._transport = transport
        self._store = store
        self._scheduler = scheduler
        self._now = now
        self._events = EventRecorder("tyjobs", rng=rng, wall=now)
        self.turns = Turns(self._visit, quiet=quiet, rng=rng)

    async def _visit(self, key: str) -> Turn | float:
        job = self._store.job(key)
        if job is None:
            return Turn.DONE
        try:
            return await self._carry_out(job)
        except _StaleError:
            return Turn.AGAIN
        except _RefusedError as error:
            log.warning("tyjob.refused", job=key, message=str(error))
            self._store.refused(job, str(error))
            return Turn.LATER
        except (_UnwellError, TransportError, msgspec.MsgspecError) as error:
            log.info("tyjob.write_failed", job=key, error=str(error))
            return Turn.LATER
        finally:
            await self._publish()

    async def _carry_out(self, job: TYJob) -> Turn | float:
        planned = plan(job, self._store.world(job), self._now(), scheduler=self._scheduler)
        if planned.status:
            await self._write_status(job, planned.status)
            for note in planned.notes:
                self._tell(job, note)
        made = await self._write_all(job, planned.writes)
        if planned.status or made:
            return Turn.AGAIN  # what we know now may ask for more
        return Turn.DONE if planned.again is None else planned.again

    async def _write_status(self, job: TYJob, status: Object) -> None:
        # Only upon what we have seen: whoever else has written it has decided something.
        meta = {"resourceVersion": job.metadata.resource_version}
        body = {"metadata": meta, "status": status}
        answer = await self._send("PATCH", f"{_job_path(job)}/status", body, _MERGE)
        if answer.status in (404, 409):
            await self._read_again(job)
            raise _StaleError
        self._store.job_set(msgspec.json.decode(_good(answer)))

    async def _read_again(self, job: TYJob) -> None:
        """Take in the job as it is now.

        Raises:
            _StaleError: it is another one, or not as we know it.
        """
        answer = await self._send("GET", _job_path(job))
        if answer.status == 404:
            self._store.job_gone(job.key)
            raise _StaleError
        body = msgspec.json.decode(_good(answer))
        self._store.job_set(body)
        if body["metadata"]["resourceVersion"] != job.metadata.resource_version:
            raise _StaleError

    # --- what belongs to a job -------------------------------------------------------------

    async def _write_all(self, job: TYJob, writes: Sequence[Write]) -> bool:
        """Whether anything has been made."""
        pods: list[Create] = []
        for write in writes:
            match write:
                case DeletePod():
                    await self._delete(job, write)
                case TellAddress(name, data):
                    path = f"{_collection(job, 'configmaps')}/{name}"
                    answer = await self._send("PATCH", path, {"data": data}, _MERGE)
                    if answer.status != 404:  # the watch will tell
                        self._store.part_set("configmaps", read_part("configmaps", _good(answer)))
                case Create("pods"):
                    pods.append(write)
                case Create():
                    await self._create(job, write)
        if pods:
            await self._create_pods(job, pods)
        cleared = self._store.refused(job, "")
        return cleared or any(isinstance(write, Create) for write in writes)

    async def _create_pods(self, job: TYJob, pods: list[Create]) -> None:
        # A job that was deleted or has ended meanwhile must not start again. Somebody else may
        # have made it so, and news of jobs and of pods come in any order.
        await self._read_again(self._store.job(job.key) or job)
        batch = 1
        while pods:
            now, pods = pods[:batch], pods[batch:]
            results = await asyncio.gather(
                *(self._create(job, each) for each in now), return_exceptions=True
            )
            for error in results:
                if isinstance(error, BaseException):
                    raise error
            batch = min(2 * batch, _AT_ONCE)

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
        part = read_part(write.plural, _good(answer))
        if not is_part_of(part, job):
            raise _RefusedError(f"{write.plural} {name}: exists and is not of this job")
        self._store.part_set(write.plural, part)

    async def _delete(self, job: TYJob, write: DeletePod) -> None:
        options: Object = {"preconditions": {"uid": write.uid}}
        if write.force:
            options["gracePeriodSeconds"] = 0
        answer = await self._send("DELETE", f"{_collection(job, 'pods')}/{write.name}", options)
        # Gone, or another one has its name: either way this one is not there any more.
        if answer.status not in (404, 409):
            _good(answer)

    # --- talking ---------------------------------------------------------------------------

    async def _send(
        self,
        method: str,
        path: str,
        body: Object | None = None,
        content_type: str = "application/json",
    ) -> Response:
        encoded = None if body is None else msgspec.json.encode(body)
        return await self._transport.request(method, path, body=encoded, content_type=content_type)

    def _tell(self, job: TYJob, note: Note) -> None:
        log.info("tyjob.news", job=job.key, reason=note.reason, note=note.text)
        meta = job.metadata
        event = PublishEvent(
            regarding=ObjectRef(API_VERSION, "TYJob", meta.namespace, meta.name, meta.uid),
            reason=note.reason,
            action="Reconcile",
            note=note.text,
            type="Warning" if note.warning else "Normal",
            related=ObjectRef("v1", "Pod", meta.namespace, note.pod) if note.pod else None,
            controller="arranger-controllers",
        )
        self._events.record(event, asyncio.get_running_loop().time())

    async def _publish(self) -> None:
        """Send the Events that wait; best effort."""
        self._events.tick(asyncio.get_running_loop().time())
        await publish(self._events, self._transport, about="tyjob")


def _good(answer: Response) -> bytes:
    """The body of a success.

    Raises:
        _UnwellError: it is none.
    """
    if answer.status >= 300:
        status = parse_status(answer.body, answer.status)
        raise _UnwellError(f"{status.code} {status.message}")
    return answer.body


def _job_path(job: TYJob) -> str:
    metadata = job.metadata
    return f"/apis/{API_VERSION}/namespaces/{metadata.namespace}/tyjobs/{metadata.name}"


def _collection(job: TYJob, plural: str) -> str:
    return f"/api/v1/namespaces/{job.metadata.namespace}/{plural}"
