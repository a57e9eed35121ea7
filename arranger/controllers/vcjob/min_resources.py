"""What a PodGroup says that its least number of pods takes, as Volcano writes it.

Beside the plain resources it has those of a ResourceQuota (``requests.cpu``, ``limits.cpu``,
``pods``, ``count/pods``), so that it can be held against one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from arranger.api.parsing.errors import ParseError
from arranger.api.parsing.objects import convert_object
from arranger.api.quantity import QuantityError
from arranger.api.resource_requests import pod_requests
from arranger.api.types.core import Pod
from arranger.api.types.pod_groups import MAX_MIN_RESOURCES
from arranger.api.types.volcano_job import Task
from arranger.controllers.runtime.objects import Object

#: Resources that a ResourceQuota knows limits of; of others only requests count.
_LIMITED = frozenset({"cpu", "memory", "ephemeral-storage"})


def min_resources(tasks: list[Task], least: int, minima: Mapping[str, int]) -> Object | None:
    """Resources of ``least`` pods: the minimum of each task, then more in the order of tasks.

    None where they are more than a PodGroup may name.
    """
    total: dict[str, int] = {}
    left = least - sum(minima.values())
    for task in tasks:
        own = minima.get(task.name, 0)
        more = min(left, task.replicas - own)
        left -= more
        try:
            used = list(_quota_usage(task))
        except (QuantityError, ParseError):
            return None  # the API server refuses the pod and says why
        for resource, amount in used:
            total[resource] = total.get(resource, 0) + amount * (own + more)
        if len(total) > MAX_MIN_RESOURCES:
            return None
    return {resource: _text(resource, n) for resource, n in sorted(total.items()) if n} or None


def _quota_usage(task: Task) -> Iterator[tuple[str, int]]:
    """(resource, amount) of one pod, milli-CPUs for CPUs."""
    yield "pods", 1
    yield "count/pods", 1
    for resource, amount in pod_requests(_as_pod(task, "limits", "requests")).items():
        yield resource, amount
        yield f"requests.{resource}", amount
    for resource, amount in pod_requests(_as_pod(task, "limits")).items():
        if resource in _LIMITED:
            yield f"limits.{resource}", amount


def _as_pod(task: Task, *fields: str) -> Pod:
    """A pod of the task that requests what the fields of its resources say, the last before all."""
    spec = {name: value for name, value in task.template["spec"].items() if value is not None}
    for kind in {"containers", "initContainers"} & spec.keys():
        spec[kind] = [_requesting(container, fields) for container in spec[kind]]
    return convert_object({"metadata": {}, "spec": spec}, Pod, strict=False)


def _requesting(container: Object, fields: Sequence[str]) -> Object:
    resources = container.get("resources") or {}
    requests: Object = {}
    for field in fields:
        requests |= resources.get(field) or {}
    return {**container, "resources": {"requests": requests}}


def _text(resource: str, amount: int) -> str:
    return f"{amount}m" if resource.rpartition(".")[2] == "cpu" else str(amount)
