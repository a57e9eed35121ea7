"""How controllers are configured, and how kopf shows them objects."""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import kopf

from arranger.api.timestamps import utc_now
from arranger.controllers.runtime.objects import Object
from arranger.kube.client.problems import IGNORE_PROBLEMS, ProblemReporter

Tasks = list[Coroutine[Any, Any, None]]
#: A group, a version and the plural name of a resource.
Resource = tuple[str, str, str]

DEFINITIONS: Final[Resource] = ("apiextensions.k8s.io", "v1", "customresourcedefinitions")


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


class WatchRegistry(kopf.OperatorRegistry):
    """A registry that can tell which resources kopf is to watch."""

    def __init__(self) -> None:
        super().__init__()
        self.resources: list[Resource] = []


def watch(
    registry: WatchRegistry,
    resource: Resource,
    handle: Callable[[Object, bool], None],
    *,
    id: str,  # noqa: A002 (kopf's word)
) -> None:
    """Have ``handle`` called with every state of the objects of a resource, and whether it is gone.

    Only an ``on.event`` handler is registered: it keeps nothing on the objects that it sees, no
    annotation and no finalizer. kopf finds out by itself whether the resource is served, and
    notices it when it is installed later.

    Args:
        id: names the handler in kopf's log; no two handlers of a resource may share it.
    """

    registry.resources.append(resource)

    @kopf.on.event(*resource, registry=registry, id=id)
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
