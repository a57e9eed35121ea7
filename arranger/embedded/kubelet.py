"""Hollow kubelets: bound pods run, end when they say so or have run too long, and go when deleted.

One component stands for the kubelets of all nodes. Annotations on a pod say what it would do.
A pod whose environment refers to a ConfigMap starts when the key is there, as with a real kubelet.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final
from urllib.parse import quote

import msgspec
import structlog

from arranger.api.timestamps import second_time
from arranger.embedded import Object
from arranger.kube.client.transport import (
    STRATEGIC_MERGE_PATCH,
    Request,
    Response,
    Transport,
    TransportError,
)

log = structlog.get_logger(__name__)

#: On a pod of the embedded cluster: it ends after so many seconds; without it never.
RUN_SECONDS: Final = "arranger.io/run-seconds"
#: On a pod of the embedded cluster: it ends Failed unless this is ``0``, the default.
EXIT_CODE: Final = "arranger.io/exit-code"
#: On a pod of the embedded cluster: how long it takes to go when deleted, its grace period at
#: most; 1 by default.
TERMINATION_SECONDS: Final = "arranger.io/termination-seconds"
#: On a pod of the embedded cluster: it never starts and gives this reason, such as
#: ``ImagePullBackOff``.
WAITING_REASON: Final = "arranger.io/waiting-reason"
#: Seconds until a container that could not be configured is tried again.
_CONFIGURE_RETRY_SECONDS: Final = 1.0
#: Seconds until a write is tried again that the API server could not take.
_WRITE_RETRY_SECONDS: Final = 1.0
_PODS_WATCH: Final = Request("GET", "/api/v1/pods", {"watch": "1"})


class HollowKubelets:
    """Runs pods on all nodes of one cluster.

    Args:
        transport: where the cluster is.
        now: the calendar clock, for the time stamps.
        writers: how many writes are under way at most. On a server that takes its time one after
            the other would have the pods of all nodes wait for each other.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        writers: int = 1,
    ) -> None:
        self._transport = transport
        self._now = now
        self._writers = writers
        self._due: asyncio.Queue[tuple[str, str, Object, bool]] = asyncio.Queue()
        #: uid → actions scheduled for it, so that a restarted watch schedules nothing twice.
        self._scheduled: dict[str, set[str]] = {}
        self._timers: set[asyncio.TimerHandle] = set()
        #: uid → the grace period of a pod that is to be removed, and its timer.
        self._removals: dict[str, tuple[float, asyncio.TimerHandle]] = {}
        #: uid → the seconds that a pod may run, and the timer of its end.
        self._deadlines: dict[str, tuple[int, asyncio.TimerHandle]] = {}
        #: uid → the timer of the end that a pod says it comes to by itself.
        self._finishes: dict[str, asyncio.TimerHandle] = {}
        #: How many actions are scheduled or under way that are no retries.
        self._busy = 0
        self._addresses = itertools.count(1)

    @property
    def idle(self) -> bool:
        """Whether nothing is due, now or later, but to look again for what others must bring."""
        return not self._busy

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._watch(), name="kubelet-watch")
                for _ in range(self._writers):
                    group.create_task(self._write(), name="kubelet-write")
        finally:
            for timer in self._timers:
                timer.cancel()

    async def _watch(self) -> None:
        while True:
            try:
                async with self._transport.stream(_PODS_WATCH) as stream:
                    async for line in stream.frames():
                        event = msgspec.json.decode(line)
                        if event["type"] in ("ADDED", "MODIFIED"):
                            self._on_pod(event["object"])
                        elif event["type"] == "DELETED":
                            self._forget(event["object"]["metadata"]["uid"])
            except TransportError as error:
                log.info("kubelets.watch_broken", error=str(error))
            await asyncio.sleep(1.0)

    def _on_pod(self, pod: Object) -> None:
        if not pod["spec"].get("nodeName"):
            return
        meta, phase = pod["metadata"], pod["status"].get("phase")
        annotations: Mapping[str, str] = meta.get("annotations") or {}
        if meta.get("deletionTimestamp"):
            grace = float(meta.get("deletionGracePeriodSeconds", 0))
            wait = _seconds(annotations, TERMINATION_SECONDS)
            self._unlimit(meta["uid"])
            self._remove(pod, min(1.0 if wait is None else wait, grace), grace)
        elif phase == "Pending":
            self._schedule(pod, "start", 0.0)
        elif phase == "Running":
            run = _seconds(annotations, RUN_SECONDS)
            timer = None if run is None else self._schedule(pod, "finish", run)
            if timer is not None:
                self._finishes[meta["uid"]] = timer
            self._limit(pod)
        else:
            self._end(meta["uid"])

    def _limit(self, pod: Object) -> None:
        """A pod is to be ended when its deadline has passed, which may be set and shortened."""
        uid, limit = pod["metadata"]["uid"], pod["spec"].get("activeDeadlineSeconds")
        started = pod["status"].get("startTime")
        if not isinstance(limit, int) or started is None:
            self._unlimit(uid)
            return
        known = self._deadlines.get(uid)
        if known is not None and known[0] == limit:
            return
        self._unlimit(uid)
        end = datetime.fromisoformat(started) + timedelta(seconds=limit)
        wait = max((end - self._now()).total_seconds(), 0.0)
        if (timer := self._schedule(pod, "deadline", wait)) is not None:
            self._deadlines[uid] = limit, timer

    def _unlimit(self, uid: str) -> None:
        """A pod has no deadline any more: it has ended, or is given another."""
        _, timer = self._deadlines.pop(uid, (0, None))
        self._cancel(uid, "deadline", timer)

    def _end(self, uid: str) -> None:
        """A pod has ended, by whatever: it ends no other way any more."""
        self._unlimit(uid)
        self._cancel(uid, "finish", self._finishes.pop(uid, None))

    def _cancel(self, uid: str, action: str, timer: asyncio.TimerHandle | None) -> None:
        """Have something not done, if its time has not come yet."""
        if timer is not None and timer in self._timers:
            timer.cancel()
            self._timers.discard(timer)
            self._scheduled[uid].discard(action)
            self._busy -= 1

    def _remove(self, pod: Object, wait: float, grace: float) -> None:
        """A pod is to be removed after a while; earlier, if it was given less time meanwhile."""
        uid = pod["metadata"]["uid"]
        known, timer = self._removals.get(uid, (grace, None))
        if grace < known:
            self._cancel(uid, "remove", timer)
        if (made := self._schedule(pod, "remove", wait)) is not None:
            self._removals[uid] = grace, made

    def _forget(self, uid: str) -> None:
        self._end(uid)
        self._scheduled.pop(uid, None)
        self._removals.pop(uid, None)

    def _schedule(
        self, pod: Object, action: str, wait: float, *, retry: bool = False
    ) -> asyncio.TimerHandle | None:
        """Have something done after a while; None where that is to be done already."""
        uid = pod["metadata"]["uid"]
        scheduled = self._scheduled.setdefault(uid, set())
        if action in scheduled:
            return None
        scheduled.add(action)
        loop = asyncio.get_running_loop()

        def due() -> None:
            self._timers.discard(timer)
            self._due.put_nowait((action, uid, pod, retry))

        timer = loop.call_later(wait, due)
        self._timers.add(timer)
        self._busy += not retry
        return timer

    async def _write(self) -> None:
        while True:
            action, uid, pod, retry = await self._due.get()
            try:
                answer = await self._execute(action, uid, pod)
                failure = "" if answer is None or _was_taken(answer) else f"HTTP {answer.status}"
            except TransportError as error:
                failure = str(error)
            if failure:
                log.info("kubelets.write_failed", pod=pod["metadata"]["name"], error=failure)
                self._schedule_again(pod, action, _WRITE_RETRY_SECONDS)
            self._busy -= not retry

    def _schedule_again(
        self, pod: Object, action: str, wait: float, *, retry: bool = False
    ) -> None:
        """Have done later what could not be done now, unless the pod has gone meanwhile."""
        if (scheduled := self._scheduled.get(pod["metadata"]["uid"])) is not None:
            scheduled.discard(action)
            self._schedule(pod, action, wait, retry=retry)

    async def _execute(self, action: str, uid: str, pod: Object) -> Response | None:
        """The answer to the write; None if there is nothing to be written yet."""
        meta = pod["metadata"]
        path = f"/api/v1/namespaces/{quote(meta['namespace'])}/pods/{quote(meta['name'])}"
        if action == "remove":
            options = {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
            body = msgspec.json.encode(options)
            return await self._transport.send(Request("DELETE", path, body=body))
        if action == "start" and not await self._is_configured(pod):
            if "remove" not in self._scheduled.get(uid, ()):
                self._schedule_again(pod, action, _CONFIGURE_RETRY_SECONDS, retry=True)
            return None
        match action:
            case "start":
                status = self._start_status(pod)
            case "deadline":
                status = _exceeded_status(pod)
            case _:
                status = _finished_status(pod)
        body = msgspec.json.encode({"metadata": {"uid": uid}, "status": status})
        patch = Request("PATCH", f"{path}/status", body=body, content_type=STRATEGIC_MERGE_PATCH)
        return await self._transport.send(patch)

    async def _is_configured(self, pod: Object) -> bool:
        """Whether the keys of ConfigMaps that its environment must have are there."""
        for name, key in _needed_keys(pod):
            path = f"/api/v1/namespaces/{quote(pod['metadata']['namespace'])}/configmaps/"
            answer = await self._transport.send(Request("GET", path + quote(name)))
            if answer.status != 200 or key not in msgspec.json.decode(answer.body).get("data", {}):
                return False
        return True

    def _start_status(self, pod: Object) -> Object:
        reason = (pod["metadata"].get("annotations") or {}).get(WAITING_REASON)
        if reason is not None:
            waiting = _container_statuses(pod, {"waiting": {"reason": reason}})
            return {"phase": "Pending", "containerStatuses": waiting}
        stamp = second_time(self._now())
        ready = [
            {"type": kind, "status": "True", "lastTransitionTime": stamp}
            for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
        ]
        number = next(self._addresses)
        address = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
        return {
            "phase": "Running",
            "podIP": address,
            "podIPs": [{"ip": address}],
            "startTime": stamp,
            "conditions": ready,
            "containerStatuses": _container_statuses(pod, {"running": {"startedAt": stamp}}),
        }


def _was_taken(answer: Response) -> bool:
    """Whether the API server has done it, or will never do it: the pod may be gone."""
    return answer.status < 500 and answer.status != 429


def _seconds(annotations: Mapping[str, str], key: str) -> float | None:
    """The seconds that an annotation says; None if it says none."""
    try:
        seconds = float(annotations.get(key, ""))
    except ValueError:
        return None
    return seconds if 0 <= seconds < math.inf else None


def _container_statuses(pod: Object, state: Object) -> list[Object]:
    return [
        {
            "name": container["name"],
            "image": container.get("image", ""),
            "imageID": "",
            "ready": "running" in state,
            "restartCount": 0,
            "state": state,
        }
        for container in pod["spec"]["containers"]
    ]


def _needed_keys(pod: Object) -> set[tuple[str, str]]:
    """(ConfigMap, key) of everything that the environment of a container refers to."""
    sources = (
        variable.get("valueFrom", {}).get("configMapKeyRef")
        for container in pod["spec"]["containers"]
        for variable in container.get("env") or []
    )
    return {(ref["name"], ref["key"]) for ref in sources if ref and not ref.get("optional")}


def _finished_status(pod: Object) -> Object:
    code = (pod["metadata"].get("annotations") or {}).get(EXIT_CODE, "0")
    number = int(code) if re.fullmatch("[0-9]{1,3}", code) else 1
    state = {"exitCode": number, "reason": "Error" if number else "Completed"}
    return {
        "phase": "Failed" if number else "Succeeded",
        "containerStatuses": _container_statuses(pod, {"terminated": state}),
    }


def _exceeded_status(pod: Object) -> Object:
    """What a kubelet says of a pod whose containers it has killed at the deadline."""
    state = {"exitCode": 137, "reason": "Error"}
    return {
        "phase": "Failed",
        "reason": "DeadlineExceeded",
        "message": "Pod was active on the node longer than the specified deadline",
        "containerStatuses": _container_statuses(pod, {"terminated": state}),
    }
