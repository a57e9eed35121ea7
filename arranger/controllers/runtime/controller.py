"""How controllers are configured, and how kopf shows them objects."""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import kopf

from arranger.api.timestamps import utc_now
from arranger.controllers.runtime.barrier import ObjectBarrier
from arranger.controllers.runtime.objects import Object
from arranger.controllers.runtime.worker_thread import RunAside, run_aside
from arranger.kube.client.metrics import NULL_METRICS, MetricsRecorder
from arranger.kube.client.problems import IGNORE_PROBLEMS, ProblemReporter

Tasks = list[Coroutine[Any, Any, None]]
#: Group, version and plural name.
_DEFINITIONS: Final = ("apiextensions.k8s.io", "v1", "customresourcedefinitions")


@dataclass(frozen=True, slots=True)
class ControllerOptions:
    """The configuration that all controllers share.

    Attributes:
        schedulers: whose pods and jobs are ours, by ``spec.schedulerName``; the first one signs
            Gangs, and places the pods of jobs that name none.
        gang_wait_time: seconds that the scheduler lets gangs wait that ask for no time.
        namespaces: where to look; empty for everywhere.
        debounce: seconds to wait after the first change of an object for more of them, before it is
            reconciled; so it is written twice in a second at most, whatever happens to it.
        rng: spreads time-outs and back-off.
        now: the calendar clock.
        scheduling_timeout: seconds that a TYJob may wait for nodes where it does not say; None for
            as long as it takes.
        command_namespaces: where Commands for Queues are obeyed; empty for everywhere.
        problems: hears what can be read and what cannot.
        metrics: counts what is watched and what is quarantined.
        run_aside: does large pieces of pure work.
        barrier: keeps what one object makes our code raise from the others.
    """

    schedulers: Sequence[str] = ("arranger",)
    namespaces: Sequence[str] = ()
    gang_wait_time: float = 600.0
    debounce: float = 0.5
    rng: random.Random = field(default_factory=random.Random)
    now: Callable[[], datetime] = utc_now
    scheduling_timeout: float | None = None
    command_namespaces: Sequence[str] = ("default",)
    problems: ProblemReporter = IGNORE_PROBLEMS
    metrics: MetricsRecorder = NULL_METRICS
    barrier: ObjectBarrier = field(default_factory=ObjectBarrier)
    run_aside: RunAside = run_aside


def watch_definitions(
    registry: kopf.OperatorRegistry, handle: Callable[[Object, bool], None]
) -> None:
    """Have ``handle`` called with every CustomResourceDefinition, and whether it is gone.

    Only an ``on.event`` handler is registered: it keeps nothing on the objects that it sees, no
    annotation and no finalizer. No more than definitions comes through kopf: its JSON parser has
    no bounds, so nothing may reach it that a tenant can write.
    """

    @kopf.on.event(*_DEFINITIONS, registry=registry, id="definition")
    async def on_event(type: str | None, body: kopf.Body, **_: Any) -> None:  # noqa: A002
        handle(dict(body), type == "DELETED")


def status_fields(definition: Mapping[str, Any]) -> frozenset[str] | None:
    """The fields that a definition's ``status`` has; None where it keeps whatever is written."""
    fields: set[str] = set()
    for version in definition["spec"]["versions"]:
        schema = version.get("schema", {}).get("openAPIV3Schema", {})
        status = schema.get("properties", {}).get("status", {})
        if any(part.get("x-kubernetes-preserve-unknown-fields") for part in (schema, status)):
            return None
        if version.get("served"):
            fields |= status.get("properties", {}).keys()
    return frozenset(fields)
