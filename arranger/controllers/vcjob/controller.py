"""The Job controller: kopf brings Jobs and PodGroups, a reflector brings their pods."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Sequence
from datetime import datetime
from typing import Any

import kopf
import msgspec
import structlog

from arranger.api import event_reasons
from arranger.api.annotations import JOB_NAME
from arranger.api.effects import ObjectReference
from arranger.api.types.pod_groups import VolcanoPodGroup
from arranger.api.types.volcano_job import JOB_API, JOB_GROUP, JOB_VERSION, JobPod
from arranger.controllers.vcjob.cache import JobCache
from arranger.controllers.vcjob.reconciler import JobReconciler
from arranger.kube.client.timestamps import utc_now
from arranger.kube.client.transport import Transport
from arranger.kube.watch.decoder import Decoder
from arranger.kube.watch.reflector import Reflector

log = structlog.get_logger(__name__)


class JobController:
    """Runs the Jobs of ``batch.volcano.sh`` whose scheduler is one of ours.

    Args:
        schedulers: these; the first one is for pods that name none.
        namespaces: where to look; empty for everywhere.
        quiet: seconds to gather the changes of a job before they are acted on.
        now: the calendar clock.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        schedulers: Sequence[str] = ("arranger",),
        namespaces: Sequence[str] = (),
        debounce: float = 0.5,
        rng: random.Random | None = None,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        rng = rng or random.Random()
        self.cache = JobCache(schedulers)
        self.reconciler = JobReconciler(transport, self.cache, debounce=debounce, rng=rng, now=now)
        self._reflectors = [
            Reflector(
                transport,
                f"/api/v1/namespaces/{namespace}/pods" if namespace else "/api/v1/pods",
                Decoder(JobPod),
                _PodSink(self, namespace),
                rng=rng,
                query={"labelSelector": JOB_NAME},
            )
            for namespace in namespaces or [""]
        ]

    def tasks(self) -> list[Coroutine[Any, Any, None]]:
        """What has to run, each until cancelled."""
        synced: list[asyncio.Event] = [reflector.synced for reflector in self._reflectors]
        # A job whose pods have not been read yet looks like one that has lost them.
        return [self.reconciler.run(caches_synced=synced), *(r.run() for r in self._reflectors)]

    def register(self, registry: kopf.OperatorRegistry) -> None:
        """Add the handlers that bring Jobs and PodGroups."""
        group, version = VolcanoPodGroup.api_version.split("/")

        @kopf.on.event(JOB_GROUP, JOB_VERSION, "jobs", registry=registry)
        async def job(type: str | None, body: kopf.Body, **_: Any) -> None:  # noqa: A002
            self.on_job_event(dict(body), deleted=type == "DELETED")

        @kopf.on.event(group, version, "podgroups", registry=registry)
        async def pod_group(type: str | None, body: kopf.Body, **_: Any) -> None:  # noqa: A002
            self.on_pod_group_event(dict(body), deleted=type == "DELETED")

    def on_job_event(self, body: dict[str, Any], *, deleted: bool = False) -> None:
        """A Job as the server shows it."""
        meta = body["metadata"]
        name = f"{meta['namespace']}/{meta['name']}"
        if deleted:
            self.cache.on_job_deleted(name)
            return
        try:
            self.reconciler.enqueue(self.cache.on_job_updated(body))
        except msgspec.ValidationError as error:
            # Another definition than ours may let it pass.
            log.warning("job.bad_object", job=name, error=str(error))
            about = ObjectReference(JOB_API, "Job", meta["namespace"], meta["name"], meta["uid"])
            self.reconciler.record_warning(about, event_reasons.INVALID_JOB, str(error))

    def on_pod_group_event(self, body: dict[str, Any], *, deleted: bool = False) -> None:
        """A PodGroup as the server shows it."""
        take = self.cache.on_pod_group_deleted if deleted else self.cache.on_pod_group_updated
        try:
            self.reconciler.enqueue(take(body))
        except msgspec.ValidationError as error:
            log.warning("job.bad_pod_group", name=body["metadata"]["name"], error=str(error))


class _PodSink:
    """Passes pods on to the ledger."""

    def __init__(self, controller: JobController, namespace: str) -> None:
        self._controller = controller
        self._namespace = namespace

    def replaced(self, objects: list[JobPod], resource_version: str) -> None:
        """These are all pods."""
        ledger = self._controller.cache
        names = ledger.on_pods_replaced(objects, namespace=self._namespace)
        self._controller.reconciler.enqueue(names)

    def applied(self, obj: JobPod) -> None:
        """A pod was added or modified."""
        self._controller.reconciler.enqueue(self._controller.cache.on_pod_updated(obj))

    def deleted(self, obj: JobPod) -> None:
        """A pod is gone."""
        self._controller.reconciler.enqueue(self._controller.cache.on_pod_deleted(obj))
