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
from arranger.controllers.tyjob.cache import PARTS, PartSink, TYJobStore
from arranger.controllers.tyjob.reconciler import TYJobWriter
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
        store: what is known.
        writer: who acts on it.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        schedulers: Sequence[str] = ("arranger",),
        namespaces: Sequence[str] = (),
        quiet: float = 0.5,
        rng: random.Random | None = None,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        rng = rng or random.Random()
        self.store = TYJobStore()
        self.writer = TYJobWriter(
            transport, self.store, scheduler=schedulers[0], quiet=quiet, rng=rng, now=now
        )
        self._reflectors: list[Reflector[Any]] = [
            Reflector(
                transport,
                f"/api/v1/namespaces/{namespace}/{plural}" if namespace else f"/api/v1/{plural}",
                Decoder(kind),
                PartSink(self.store, self.writer.turns.look_at, plural, namespace=namespace),
                rng=rng,
                query={"labelSelector": TYJOB},
            )
            for plural, kind in PARTS.items()
            for namespace in namespaces or [""]
        ]

    def register(self, registry: kopf.OperatorRegistry) -> None:
        """Have kopf tell of TYJobs, without keeping anything on them."""

        @kopf.on.event("arranger.io", "v1alpha1", "tyjobs", registry=registry)
        async def changed(type: str | None, body: kopf.Body, **_: Any) -> None:  # noqa: A002
            if type == "DELETED":
                metadata = body["metadata"]
                self.store.job_gone(f"{metadata['namespace']}/{metadata['name']}")
            else:
                self.writer.turns.look_at(self.store.job_set(body))

    def parts(self) -> list[Coroutine[Any, Any, None]]:
        """What is to run beside kopf until cancelled."""
        # A job whose pods have not been read yet looks like one that has lost them.
        synced = [reflector.synced for reflector in self._reflectors]
        return [self.writer.turns.run(after=synced), *(each.run() for each in self._reflectors)]
