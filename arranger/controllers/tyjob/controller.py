"""The controller of TYJobs (seed 003), put together.

TYJobs come through kopf, as everything that people write does. What they are made of comes through
reflectors, which see only what carries our label.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine, Sequence
from datetime import datetime
from typing import Any

import kopf

from arranger.api.annotations import TYJOB
from arranger.controllers.tyjob.cache import OWNED_KINDS, OwnedObjectSink, TYJobCache
from arranger.controllers.tyjob.reconciler import TYJobReconciler
from arranger.kube.client.timestamps import utc_now
from arranger.kube.client.transport import Transport
from arranger.kube.watch.decoder import Decoder
from arranger.kube.watch.reflector import Reflector


class TYJobController:
    """Runs TYJobs.

    Args:
        schedulers: the first one places pods whose template names nobody.
        namespaces: where to look; empty for everywhere.
        quiet: seconds to gather the changes of a job before it is looked at.
        now: the calendar clock.

    Attributes:
        cache: what is known.
        reconciler: who acts on it.
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
        self.cache = TYJobCache()
        self.reconciler = TYJobReconciler(
            transport, self.cache, scheduler=schedulers[0], debounce=debounce, rng=rng, now=now
        )
        self._reflectors: list[Reflector[Any]] = [
            Reflector(
                transport,
                f"/api/v1/namespaces/{namespace}/{plural}" if namespace else f"/api/v1/{plural}",
                Decoder(kind),
                OwnedObjectSink(
                    self.cache, self.reconciler.work_queue.enqueue, plural, namespace=namespace
                ),
                rng=rng,
                query={"labelSelector": TYJOB},
            )
            for plural, kind in OWNED_KINDS.items()
            for namespace in namespaces or [""]
        ]

    def register(self, registry: kopf.OperatorRegistry) -> None:
        """Have kopf tell of TYJobs, without keeping anything on them."""

        @kopf.on.event("arranger.io", "v1alpha1", "tyjobs", registry=registry)
        async def on_tyjob_event(type: str | None, body: kopf.Body, **_: Any) -> None:  # noqa: A002
            if type == "DELETED":
                metadata = body["metadata"]
                self.cache.on_job_deleted(f"{metadata['namespace']}/{metadata['name']}")
            else:
                self.reconciler.work_queue.enqueue(self.cache.on_job_updated(body))

    def tasks(self) -> list[Coroutine[Any, Any, None]]:
        """What is to run beside kopf until cancelled."""
        # A job whose pods have not been read yet looks like one that has lost them.
        synced = [reflector.synced for reflector in self._reflectors]
        return [
            self.reconciler.work_queue.run(caches_synced=synced),
            *(each.run() for each in self._reflectors),
        ]
