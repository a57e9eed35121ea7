"""Carries out the plans for Jobs, one job at a time, until there is nothing left to write."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable
from datetime import datetime
from enum import Enum
from typing import Any, Final

import msgspec
import structlog

from arranger.api import event_reasons
from arranger.api.effects import ObjectReference, PublishEvent
from arranger.api.types.pod_groups import VolcanoPodGroup
from arranger.api.types.volcano_job import JOB_API, JobPod, VolcanoJob
from arranger.controllers.runtime.events import publish_events
from arranger.controllers.vcjob.cache import JobCache
from arranger.controllers.vcjob.controlled_resources import TaskIndex
from arranger.controllers.vcjob.manifests import OwnedManifest, pod_of
from arranger.controllers.vcjob.plan import JobPlan, plan
from arranger.controllers.vcjob.policies import pod_name
from arranger.controllers.vcjob.snapshot import JobSnapshot
from arranger.controllers.vcjob.state_machine import REFUSED
from arranger.kube.client.backoff import Backoff
from arranger.kube.client.status import parse_status
from arranger.kube.client.timestamps import utc_now
from arranger.kube.client.transport import Request, Response, Transport, TransportError
from arranger.kube.events import EventRecorder

log = structlog.get_logger(__name__)

Object = dict[str, Any]

_MERGE: Final = "application/merge-patch+json"
_JSON: Final = "application/json"
#: Jobs worked on at a time.
_WORKERS: Final = 4
#: Pods of one job made at a time. It begins with one and doubles, as upstream's Jobs do, so that a
#: refusal that holds for all of them (a quota, a bad template) is heard once and not by thousands.
_MAX_BATCH: Final = 32
#: Passes over one job before others get their turn.
_PASSES: Final = 8
_CONTROLLER: Final = "arranger-controllers"
#: News that somebody may want to do something about.
_WARNINGS: Final = frozenset(
    {"Aborting", "Restarting", "Failed", event_reasons.INVALID_JOB, event_reasons.INVALID_ACTION}
)


class _Next(Enum):
    """How to go on with a job."""

    AGAIN = "again"  # we know of the change already: see what follows from it
    WAIT = "wait"  # until something happens
    RETRY = "retry"  # later, because a write has failed


class JobReconciler:
    """Makes the objects of the jobs what their plans say.

    Args:
        quiet: seconds to wait after the first change of a job for more of them.
        now: the calendar clock.
        host: names this process in Events.
    """

    def __init__(
        self,
        transport: Transport,
        cache: JobCache,
        *,
        debounce: float = 0.5,
        rng: random.Random | None = None,
        now: Callable[[], datetime] = utc_now,
        host: str = "jobs",
    ) -> None:
        self._transport = transport
        self._cache = cache
        self._debounce = debounce
        self._rng = rng or random.Random()
        self._now = now
        self._events = EventRecorder(host, rng=self._rng, clock=now)
        self._due: asyncio.Queue[str] = asyncio.Queue()
        #: Job → (when, timer), of the next look at it.
        self._timers: dict[str, tuple[float, asyncio.TimerHandle]] = {}
        self._busy: set[str] = set()
        self._failing: dict[str, Backoff] = {}
        #: uid of a job → the first thing that the server has refused in this pass.
        self._refusals: dict[str, str] = {}

    async def run(self, *, caches_synced: Iterable[asyncio.Event] = ()) -> None:
        """Write until cancelled, once all these events have come."""
        events = list(caches_synced)
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(_WORKERS):
                    group.create_task(self._work(events), name="job-writer")
        finally:
            for _, timer in self._timers.values():
                timer.cancel()

    def enqueue(self, names: Iterable[str]) -> None:
        """Look at these jobs soon; a job that is failing waits for its next try."""
        for name in names:
            if name not in self._failing:
                self._after(self._debounce, name)

    def record_warning(self, job: ObjectReference, reason: str, note: str) -> None:
        """Tell the owner of a job, by an Event, what is wrong; best effort."""
        self._record_event(job, "Warning", reason, note)

    def _after(self, delay: float, name: str) -> None:
        """Look in so many seconds, unless that is to be done earlier already."""
        loop = asyncio.get_running_loop()
        when = loop.time() + delay
        known = self._timers.get(name)
        if known is not None:
            if known[0] <= when:
                return
            known[1].cancel()
        self._timers[name] = when, loop.call_at(when, self._fire, name)

    def _fire(self, name: str) -> None:
        self._timers.pop(name, None)
        self._due.put_nowait(name)

    async def _work(self, after: Iterable[asyncio.Event]) -> None:
        for event in after:
            await event.wait()
        while True:
            name = await self._due.get()
            if name in self._busy:
                self._after(self._debounce, name)
                continue
            self._busy.add(name)
            try:
                await self._reconcile(name)
                await self._publish_events()
            finally:
                self._busy.discard(name)

    async def _reconcile(self, name: str) -> None:
        for _ in range(_PASSES):
            try:
                going_on = await self._pass(name)
            except (TransportError, msgspec.MsgspecError) as error:
                log.info("job.write_failed", job=name, error=str(error))
                going_on = _Next.RETRY
            if going_on is _Next.RETRY:
                backoff = self._failing.setdefault(name, Backoff(self._rng))
                self._after(backoff.next_delay(), name)
                return
            self._failing.pop(name, None)
            if going_on is _Next.WAIT:
                return
        self._after(0.0, name)

    async def _pass(self, name: str) -> _Next:
        """One look at a job, and what is to be written now."""
        view = self._cache.snapshot(name, self._now())
        if view is None:
            return _Next.WAIT
        if doubtful := [place for place in view.missing() if place not in view.confirmed_empty]:
            await self._confirm(view, doubtful)
            view = self._cache.snapshot(name, self._now())
            if view is None:
                return _Next.WAIT
        planned = plan(view)
        if planned.requeue_at is not None and planned.requeue_at > view.now:
            self._after((planned.requeue_at - view.now).total_seconds(), name)
        if planned.is_empty:
            return self._all_created(view, _Next.WAIT)
        if planned.status:
            return await self._write_status(view, planned)
        return await self._execute(view, planned)

    async def _execute(self, view: JobSnapshot, planned: JobPlan) -> _Next:
        """Everything but the status; what fails does not keep the rest from being tried."""
        went_well, uid = True, view.job.metadata.uid
        self._refusals.pop(uid, None)
        for pod in planned.delete_pods:
            went_well &= await self._delete(_pod_path(pod), pod.metadata.uid)
        for group in planned.delete_pod_groups:
            path = f"{_pod_groups_path(view.job)}/{group.name}"
            went_well &= await self._delete(path, group.uid)
        for made in planned.create_objects:
            went_well &= await self._create_object(view, made)
        went_well &= await self._create_pods(view, planned.create_pods)
        if planned.pod_group is not None:
            went_well &= await self._write_pod_group(view, planned.pod_group)
        if planned.delete_job:
            path = _job_path(view.job)
            went_well &= await self._delete(path, view.job.metadata.uid)
        if refusal := self._refusals.pop(uid, ""):
            self._cache.record_refusal(view.job, refusal)
        if not went_well:
            return _Next.RETRY
        # What was created is known by the answers; of what was deleted the watch will tell.
        heard = planned.create_objects or planned.create_pods or planned.pod_group is not None
        return self._all_created(view, _Next.AGAIN if heard else _Next.WAIT)

    def _all_created(self, view: JobSnapshot, going_on: _Next) -> _Next:
        """Nothing is refused any more, which the status has to say where it said otherwise."""
        self._cache.record_refusal(view.job, "")
        news = view.refusal != "" and view.job.status.state.reason == REFUSED
        return _Next.AGAIN if news else going_on

    # --- the status ------------------------------------------------------------------------

    async def _write_status(self, view: JobSnapshot, planned: JobPlan) -> _Next:
        # Only upon what we have seen: whoever else has written it has decided something.
        meta = {"resourceVersion": view.job.metadata.resource_version}
        body = {"metadata": meta, "status": planned.status}
        path = f"{_job_path(view.job)}/status"
        answer = await self._send("PATCH", path, body, _MERGE)
        if answer.status == 404:
            self._cache.on_job_deleted(view.job.name)
            return _Next.WAIT
        if answer.status == 409:
            await self._reread(view.job)
            return _Next.AGAIN
        if answer.status >= 300:
            self._record_event(
                _ref(view.job),
                "Warning",
                event_reasons.FAILED_STATUS,
                _refusal_text(view.job, path, answer),
            )
            return _Next.RETRY
        self._cache.on_job_updated(msgspec.json.decode(answer.body))
        for reason, note in planned.events:
            kind = "Warning" if reason in _WARNINGS else "Normal"
            self._record_event(_ref(view.job), kind, reason, note)
            log.info("job.told", job=view.job.name, reason=reason, why=note)
        return _Next.AGAIN

    async def _reread(self, job: VolcanoJob) -> None:
        answer = await self._send("GET", _job_path(job))
        if answer.status == 404:
            self._cache.on_job_deleted(job.name)
        elif answer.status < 300:
            self._cache.on_job_updated(msgspec.json.decode(answer.body))

    # --- pods ------------------------------------------------------------------------------

    async def _confirm(self, view: JobSnapshot, places: Iterable[TaskIndex]) -> None:
        """Ask for pods that should be there: is our view behind, or are they gone?"""
        for place in places:
            path = f"{_pods_path(view.job)}/{pod_name(view.job.metadata.name, place)}"
            answer = await self._send("GET", path)
            if answer.status < 300:
                pod = msgspec.json.decode(answer.body, type=JobPod)
                self._cache.on_pod_updated(pod)
                if _is_ours(pod, view.job):
                    continue
            if answer.status < 300 or answer.status == 404:
                self._cache.confirm_empty(view.job.name, place)

    async def _create_pods(self, view: JobSnapshot, places: tuple[TaskIndex, ...]) -> bool:
        left, batch = list(places), 1
        while left:
            now, left = left[:batch], left[batch:]
            done = await asyncio.gather(*(self._create_pod(view, place) for place in now))
            if not all(done):
                return False
            batch = min(2 * batch, _MAX_BATCH)
        return True

    async def _create_pod(self, view: JobSnapshot, place: TaskIndex) -> bool:
        body = pod_of(view, place, scheduler=self._cache.schedulers[0])
        answer = await self._send("POST", _pods_path(view.job), body)
        if answer.status == 409:
            # It is there: our own, whose answer was lost, or an earlier job's on its way out.
            answer = await self._send("GET", f"{_pods_path(view.job)}/{body['metadata']['name']}")
        if answer.status >= 300:
            if answer.status != 404:
                self._record_refusal(
                    view.job, _refusal_text(view.job, body["metadata"]["name"], answer)
                )
            return False
        pod = msgspec.json.decode(answer.body, type=JobPod)
        if not _is_ours(pod, view.job):
            note = f"pod {pod.metadata.name} exists and is not of this job"
            self._record_refusal(view.job, note)
            return False
        self._cache.on_pod_updated(pod)
        return True

    # --- other objects ---------------------------------------------------------------------

    async def _write_pod_group(self, view: JobSnapshot, group: Object) -> bool:
        seen = view.pod_group
        if seen is not None:
            path = f"{_pod_groups_path(view.job)}/{seen.name}"
            body = {**group, "metadata": {**group.get("metadata", {}), "uid": seen.uid}}
            answer = await self._send("PATCH", path, body, _MERGE)
        else:
            path = _pod_groups_path(view.job)
            answer = await self._send("POST", path, group)
            if answer.status == 409:
                answer = await self._send("GET", f"{path}/{group['metadata']['name']}")
        if answer.status == 404 and seen is None:
            note = "the definition podgroups.scheduling.volcano.sh is not installed"
            self._record_refusal(view.job, note)
        elif answer.status >= 300:
            self._record_refusal(view.job, _refusal_text(view.job, path, answer))
        else:
            written = msgspec.json.decode(answer.body)
            self._cache.on_pod_group_updated(written)
            owners = written["metadata"].get("ownerReferences") or ()
            if any(owner["uid"] == view.job.metadata.uid for owner in owners):
                return True
            note = f"PodGroup {written['metadata']['name']} exists and is not of this job"
            self._record_refusal(view.job, note)
        return False

    async def _create_object(self, view: JobSnapshot, made: OwnedManifest) -> bool:
        """Make an object, or make it what it should be if it is there and of this job."""
        answer = await self._send("POST", made.collection, made.body)
        if answer.status == 409:
            path = f"{made.collection}/{made.body['metadata']['name']}"
            answer = await self._send("GET", path)
            there = msgspec.json.decode(answer.body) if answer.status < 300 else {}
            owners = there.get("metadata", {}).get("ownerReferences") or ()
            ours = any(owner["uid"] == view.job.metadata.uid for owner in owners)
            if answer.status < 300 and not ours and not made.immutable:
                note = f"{made.name} exists and is not of this job"
                self._record_refusal(view.job, note)
                return False
            if answer.status < 300 and not made.immutable:
                change = {k: v for k, v in made.body.items() if k in ("data", "spec")}
                answer = await self._send("PATCH", path, change, _MERGE)
        if answer.status >= 300:
            self._record_refusal(view.job, _refusal_text(view.job, made.name, answer))
            return False
        self._cache.record_created(view.job.name, made.name, made.digest)
        return True

    async def _delete(self, path: str, uid: str) -> bool:
        options = {"preconditions": {"uid": uid}, "propagationPolicy": "Background"}
        answer = await self._send("DELETE", path, options)
        # Gone, or another one has its name: either way this one is not there any more.
        return answer.status < 300 or answer.status in (404, 409)

    # --- talking ---------------------------------------------------------------------------

    async def _send(
        self, method: str, path: str, body: Object | None = None, content_type: str = _JSON
    ) -> Response:
        encoded = b"" if body is None else msgspec.json.encode(body)
        return await self._transport.send(
            Request(method, path, body=encoded, content_type=content_type)
        )

    def _record_refusal(self, job: VolcanoJob, note: str) -> None:
        """Something is not made: for an Event now, and for the status of the next pass."""
        self._refusals.setdefault(job.metadata.uid, note)
        self._record_event(_ref(job), "Warning", event_reasons.FAILED_CREATE, note)

    def _record_event(self, job: ObjectReference, kind: str, reason: str, note: str) -> None:
        event = PublishEvent(
            regarding=job,
            reason=reason,
            action="Reconcile",
            note=note,
            type="Warning" if kind == "Warning" else "Normal",
            controller=_CONTROLLER,
        )
        self._events.record(event, asyncio.get_running_loop().time())

    async def _publish_events(self) -> None:
        self._events.tick(asyncio.get_running_loop().time())
        await publish_events(self._events, self._transport, log_prefix="job")


def _refusal_text(job: VolcanoJob, what: str, answer: Response) -> str:
    """What the server had against it."""
    status = parse_status(answer.body, answer.status)
    log.warning("job.refused", job=job.name, what=what, message=status.message)
    return f"{what}: {status.message}"


def _is_ours(pod: JobPod, job: VolcanoJob) -> bool:
    return any(owner.uid == job.metadata.uid for owner in pod.metadata.owner_references)


def _ref(job: VolcanoJob) -> ObjectReference:
    meta = job.metadata
    return ObjectReference(JOB_API, "Job", meta.namespace, meta.name, meta.uid)


def _job_path(job: VolcanoJob) -> str:
    return f"/apis/{JOB_API}/namespaces/{job.metadata.namespace}/jobs/{job.metadata.name}"


def _pods_path(job: VolcanoJob) -> str:
    return f"/api/v1/namespaces/{job.metadata.namespace}/pods"


def _pod_path(pod: JobPod) -> str:
    return f"/api/v1/namespaces/{pod.metadata.namespace}/pods/{pod.metadata.name}"


def _pod_groups_path(job: VolcanoJob) -> str:
    return f"/apis/{VolcanoPodGroup.api_version}/namespaces/{job.metadata.namespace}/podgroups"
